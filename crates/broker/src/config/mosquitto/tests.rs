use super::*;

const WHOLE: &str = "\
# A broker in a house.\r
pid_file /run/mosquitto.pid
listener 1884 192.0.2.7
listener 1885
\tmax_connections 100
  allow_anonymous   false
password_file /etc/mosquitto/passwd
persistence true
persistence_location /var/lib/mosquitto/
max_queued_messages 0
max_inflight_messages 20
message_size_limit 0
persistent_client_expiration 2w
log_dest file /var/log/mosquitto.log
connection upstream
remote_password secret
";

fn translated(text: &str) -> MosquittoFile {
    MosquittoFile::translate(Path::new("m.conf"), &lines::of_text(text))
}

/// The table, and what is said of the rest.
fn parts(text: &str) -> (Table, String) {
    let MosquittoFile { config, notes, .. } = translated(text);
    let notes = notes.iter().map(|note| format!("{note}\n")).collect();
    (config, notes)
}

/// Of a file that can be run.
fn config(text: &str) -> Config {
    translated(text).config().unwrap()
}

#[test]
fn a_file_of_mosquitto_is_said_in_our_words() {
    let config = config(WHOLE);
    assert_eq!(config.listen[0], "192.0.2.7:1884");
    assert!(["[::]:1885", "0.0.0.0:1885"].contains(&&*config.listen[1]), "{:?}", config.listen);
    assert_eq!(config.auth.allow_anonymous, Some(false));
    let limits = &config.limits;
    assert_eq!((limits.in_flight_max, limits.queue_messages_max), (20, u32::MAX));
    assert_eq!(limits.packet_bytes_max, 255 * 1024 * 1024);
    assert_eq!(limits.session_expiry_s_max, 14 * 86_400);
    assert_eq!(config.store.path.as_deref(), Some(Path::new("/var/lib/mosquitto/weir")));
    assert_eq!(config.store.queue_messages_max, u64::from(u32::MAX), "it counts on the disk, too");
    let file = translated(WHOLE);
    assert_eq!(file.log_file(), Some(Path::new("/var/log/mosquitto.log")));
    let shown = file.to_string();
    for said in [
        "# Made of m.conf.",
        "#   max_connections (line 5)\n#       the listeners differ in it",
        "#   persistence (line 8)\n#       with `store.path`",
        "#   connection (line 15)\n#       the bridge has no address",
        "#       sessions and retained messages begin empty",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert!(!shown.contains("secret") && !shown.contains("lets more in"), "{shown}");
    let read_back = Config::of_text(Path::new("weir.toml"), &shown).unwrap();
    assert_eq!(read_back, config);
}

#[test]
fn a_listener_without_a_word_on_anonymous_clients_lets_none_in_as_with_mosquitto() {
    let (open, notes) = parts("listener 1883\nallow_anonymous true\n");
    assert_eq!(open["auth"]["allow_anonymous"].as_bool(), Some(true));
    assert_eq!(notes, "");
    let (shut, notes) = parts("port 1883\nbind_address ::1\n");
    assert_eq!(shut["auth"]["allow_anonymous"].as_bool(), Some(false));
    assert!(notes.contains("anonymously"), "{notes}");
    assert_eq!(shut["listen"], vec![Value::from("[::1]:1883")].into());
    let (local, _) = parts("max_queued_messages 5\n");
    assert!(!local.contains_key("listen") && !local.contains_key("auth"), "{local}");
}

#[test]
fn what_follows_a_listener_is_about_that_one() {
    let (config, notes) = parts(
        "allow_anonymous true
         listener 1883 127.0.0.1
         listener 8883 0.0.0.0
         certfile /c.pem
         keyfile /k.pem
         cafile /ca.pem
         require_certificate true
         crlfile /crl.pem
         use_identity_as_username true
         tls_version tlsv1.3
         ciphers ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA
         ciphers_tls1.3 TLS_AES_128_GCM_SHA256
         listener 9001
         socket_domain ipv4
         protocol websockets
         websockets_origin https://a.example
         websockets_origin https://b.example
         listener 1885
         socket_domain ipv6
         bind_interface lo
         use_subject_as_username false
         cafile /ca.pem
         listener 0 /run/m.sock
         protocol mqtt",
    );
    let expected: Table = r#"
        listen = ["127.0.0.1:1883"]
        auth.allow_anonymous = true
        sys.interval_s = 10
        [[listener]]
        address = "0.0.0.0:8883"
        [listener.tls]
        identity = "cn"
        certificate = "/c.pem"
        key = "/k.pem"
        client_ca = "/ca.pem"
        require_certificate = true
        crl = ["/crl.pem"]
        versions = ["1.3"]
        ciphers = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"]
        [[listener]]
        address = "0.0.0.0:9001"
        websocket = true
        origins = ["https://a.example", "https://b.example"]
        [[listener]]
        address = "[::]:1885"
        bind_device = "lo"
        [[listener]]
        unix = "/run/m.sock"
    "#
    .parse()
    .unwrap();
    assert_eq!(config, expected);
    // Each is said in its line already.
    assert_eq!(notes.matches("socket_domain").count(), 2, "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}

/// Mosquitto reads authorities without asking clients for certificates.
#[test]
fn authorities_ask_clients_for_nothing_unless_a_certificate_is_required() {
    let text = "listener 8883 ::1\nallow_anonymous true\ncertfile /c\nkeyfile /k\ncafile /ca\n";
    for more in ["", "require_certificate false\n"] {
        let (config, _) = parts(&format!("{text}{more}"));
        let tls = config["listener"][0]["tls"].as_table().unwrap();
        assert_eq!(tls.keys().collect::<Vec<_>>(), ["certificate", "key"]);
    }
}

#[test]
fn settings_of_each_listener_are_taken_if_all_of_them_say_the_same() {
    let text = "per_listener_settings true
        listener 1883 ::1
        allow_anonymous false
        password_file /users
        listener 1884 ::1
        allow_anonymous false
        password_file /users
        ";
    let (config, notes) = parts(text);
    assert_eq!(config["auth"]["password_file"].as_str(), Some("/users"));
    assert!(!notes.contains("differ"), "{notes}");
    for (old, new) in [
        ("allow_anonymous false\n        password_file /users\n        listener", "listener"),
        ("1884 ::1\n        allow_anonymous false", "1884 ::1\n        allow_anonymous true"),
        ("password_file /users\n        listener", "password_file /others\n        listener"),
    ] {
        let other = text.replacen(old, new, 1);
        assert_ne!(other, text);
        let error = translated(&other).config().unwrap_err().to_string();
        assert!(error.contains("the listeners differ in it"), "{error}");
    }
    // Without that option, they are for all wherever they stand.
    let all = text.replace("settings true", "settings false").replace("/users", "/nowhere/users");
    assert!(parts(&all).1.lines().all(|line| !line.contains("differ")), "{all}");
}

#[test]
fn a_file_is_not_run_without_what_guards_the_broker() {
    for line in [
        "plugin /usr/lib/auth.so",
        "listener 8883\npsk_file /keys",
        "mount_point clients/",
        "use_username_as_clientid true",
        "listener 1883\nenable_proxy_protocol 2",
        "listener 8883\nrequire_certificate perhaps",
        "listener 8883\ncertfile /c.pem",
        "listener none",
        "allow_anonymous perhaps",
        "frobnicate on",
        "listener 1883\nlistener_allow_anonymous false",
        "per_listener_settings 1\nallow_anonymous true\nlistener 1883",
        "per_listener_settings true\nlistener 1 ::1\nallow_anonymous true\nlistener 2 ::1",
    ] {
        let error = translated(line).config().unwrap_err();
        assert!(matches!(error, ConfigError::MosquittoGuards { .. }), "{line}: {error}");
        let shown = translated(line).to_string();
        assert!(shown.contains("without them it lets more in"), "{shown}");
    }
    let harmless = "pid_file /run/m.pid\nlog_type all\nconnection a\naddress b\nlistener 1 ::1";
    config(harmless);
}

/// What follows `include_dir` is about the listener before it, and not about one of those files.
#[test]
fn a_listener_of_an_included_file_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, included) = (folder.path().join("m.conf"), folder.path().join("conf.d"));
    std::fs::create_dir(&included).unwrap();
    std::fs::write(included.join("a.conf"), "listener 1883 ::1\n").unwrap();
    let tls = "certfile /c\nkeyfile /k\ncafile /ca\n";
    let before = format!("allow_anonymous true\nlistener 8883 ::1\n{tls}");
    let text = format!("{before}include_dir {}\nrequire_certificate true\n", included.display());
    std::fs::write(&file, text).unwrap();
    let MosquittoFile { config, .. } = MosquittoFile::read(&file).unwrap();
    let tls = config["listener"][0]["tls"].as_table().unwrap();
    assert_eq!(tls["require_certificate"].as_bool(), Some(true), "{config}");
    assert_eq!(config["listen"], vec![Value::from("[::1]:1883")].into());
}

#[test]
fn an_identity_is_taken_back_by_its_own_option_alone() {
    let tls = "listener 1 ::1\ncertfile /c\nkeyfile /k\ncafile /a\nrequire_certificate true\n";
    for (lines, identity) in [
        ("use_identity_as_username true\nuse_subject_as_username false", Some("cn")),
        ("use_identity_as_username true\nuse_identity_as_username false", None),
        ("use_subject_as_username 1", Some("subject")),
    ] {
        let (config, _) = parts(&format!("{tls}{lines}"));
        let found = config["listener"][0]["tls"].get("identity").and_then(Value::as_str);
        assert_eq!(found, identity, "{lines}");
    }
}

#[test]
fn figures_are_published_every_ten_seconds_unless_a_line_says_otherwise() {
    for (line, interval_s) in [("", 10), ("sys_interval 3", 3), ("sys_interval 0", 0)] {
        assert_eq!(config(line).sys.interval_s, interval_s, "{line}");
    }
    assert!(parts("sys_interval soon").1.contains("the value is not one"));
}

#[test]
fn files_of_the_included_folder_are_read_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mosquitto.conf");
    let included = folder.path().join("conf.d");
    std::fs::create_dir(&included).unwrap();
    let write = |name: &str, text: &str| std::fs::write(included.join(name), text).unwrap();
    write("b.conf", "max_queued_messages 2\nretry_interval 1\n");
    write("a.conf", "listener 1884 ::1\nmax_queued_messages 1\n");
    write("c.other", "max_queued_messages 3\n");
    let text = format!("allow_anonymous true\ninclude_dir {}\n", included.display());
    std::fs::write(&file, text).unwrap();
    let read = MosquittoFile::read(&file).unwrap();
    let config = read.config().unwrap();
    assert_eq!(
        (config.limits.queue_messages_max, &config.listen[..]),
        (2, &["[::1]:1884".into()][..])
    );
    assert!(read.to_string().contains("retry_interval (b.conf, line 2)"), "{read}");
    std::fs::remove_dir_all(&included).unwrap();
    assert!(MosquittoFile::read(&file).unwrap_err().to_string().contains("conf.d"));
}

#[test]
fn what_is_not_mosquittos_is_left_to_who_reads_toml() {
    for text in [
        "",
        "# persistence true\n",
        "listen = [\"127.0.0.1:1\"]\nmax_connections 5\n",
        "[limits]\nmax_connections 5\n",
        "limits.queue_messages_max=5\nport 5\n",
        "once upon a time\nthere was a user\nuser me\n",
        "{ \"listener\": 1883 }\n",
    ] {
        assert!(!MosquittoFile::is_like(text), "{text}");
    }
}

#[test]
fn a_value_that_mosquitto_does_not_take_is_told() {
    for line in ["max_connections many", "max_qos 3", "allow_anonymous yes", "max_queued_bytes -1"]
    {
        let (_, notes) = parts(line);
        assert!(notes.contains(NO_VALUE) && notes.contains("(line 1)"), "{notes}");
    }
}

#[test]
fn every_option_that_has_a_key_sets_what_weir_takes() {
    for row in OPTIONS.iter().filter(|row| row.key.is_some()) {
        for (name, value) in row.names.iter().flat_map(|name| {
            ["0", "1", "true", "3d", "70000", "99999999999", "tlsv1.2", "websockets"]
                .map(|value| (name, value))
        }) {
            let file = translated(&format!("listener 1 ::1\n{name} {value}"));
            // As if somebody had looked.
            let text = file.to_string().replace("is_unguarded = true\n", "");
            match Config::of_text(Path::new("weir.toml"), &text) {
                Ok(_) | Err(ConfigError::Tls { .. } | ConfigError::At { .. }) => {}
                Err(error) => panic!("{name} {value}: {error}: {file}"),
            }
        }
    }
}

#[test]
fn the_error_of_a_file_says_how_it_can_be_run() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), WHOLE).unwrap();
    let error = Config::read(file.path()).unwrap_err().to_string();
    assert!(error.contains("weir broker --mosquitto "), "{error}");
}

/// Two bridges, and one that is none.
const BRIDGES: &str = "\
topic early out
connection up
address hub.example
addresses hub.example:8884 ::1 [::2]:7
topic sensors/# out 1 home/ site/7/
topic \"\" both 2 time clock/now
topic commands/#
topic bad sideways
remote_clientid me
remote_username ann
remote_password secret
cleansession true
local_cleansession false
keepalive_interval 30
start_type lazy
threshold 3
idle_timeout 5
restart_timeout 2 20
notifications_local_only true
try_private false
bridge_cafile /ca.pem
bridge_insecure true
bridge_protocol_version mqttv311
bridge_tls_version tlsv1.2
local_username nobody
max_queued_messages 5
connection down
address 192.0.2.1
topic # in
notifications false
restart_timeout 9
connection nowhere
topic # in";

/// The same in our words, but for the prefixes.
const BRIDGES_HERE: &str = r##"
limits.queue_messages_max = 5
sys.interval_s = 10
[[bridge]]
name = "up"
addresses = [
    "mqtts://hub.example:1883", "mqtts://hub.example:8884", "mqtts://[::1]:1883",
    "mqtts://[::2]:7",
]
client_id = "me"
user_name = "ann"
password = "secret"
clean_start = true
local_clean_start = false
keep_alive_s = 30
start = "lazy"
threshold = 3
idle_s = 5
retry_ms_min = 2000
retry_ms_max = 20000
notifications = "local"
try_private = false
version = "3.1.1"
tls = { ca = "/ca.pem", insecure = true }
topics = [
    { pattern = "sensors/#", direction = "out", qos = 1 },
    { pattern = "", direction = "both", qos = 2 },
    { pattern = "commands/#", direction = "out", qos = 0 },
]
[[bridge]]
name = "down"
addresses = ["mqtt://192.0.2.1:1883"]
retry_ms_min = 9000
retry_ms_max = 9000
notifications = "none"
topics = [{ pattern = "#", direction = "in", qos = 0 }]
"##;

#[test]
fn what_follows_a_connection_is_about_that_bridge() {
    let (mut config, notes) = parts(BRIDGES);
    for said in [
        "topic (line 1): it is about a bridge, and stands before any `connection`",
        "topic (line 8): the value is not one",
        "bridge_tls_version (line 24): a bridge speaks TLS 1.3",
        "local_username (line 25): it is not needed",
        "connection (line 32): the bridge has no address",
    ] {
        assert!(notes.contains(said), "{said}: {notes}");
    }
    let read: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    let prefixes = read.bridge[0].topics.iter().map(|it| [&*it.local_prefix, &*it.remote_prefix]);
    let expected = [["home/", "site/7/"], ["time", "clock/now"], ["", ""]];
    assert_eq!(prefixes.collect::<Vec<_>>(), expected);
    for topic in config["bridge"][0]["topics"].as_array_mut().unwrap() {
        topic.as_table_mut().unwrap().retain(|key, _| !key.ends_with("_prefix"));
    }
    assert_eq!(config, BRIDGES_HERE.parse::<Table>().unwrap());
}

#[test]
fn a_bridge_that_would_send_in_the_clear_what_is_to_be_secret_is_not_run() {
    let file = translated("connection up\naddress h\ntopic # out\nbridge_psk 00\n");
    assert!(matches!(file.config(), Err(ConfigError::MosquittoGuards { .. })));
}

#[test]
fn what_lets_more_in_does_not_start_as_it_is_printed() {
    let file = translated("listener 8883\npsk_file /keys\n");
    assert!(file.lacks_guards());
    let refused = Config::of_text(Path::new("weir.toml"), &file.to_string()).unwrap_err();
    assert!(refused.to_string().contains("is_unguarded"), "{refused}");
    assert!(!translated(WHOLE).lacks_guards());
}

#[test]
fn the_file_of_a_fresh_mosquitto_is_no_reason_to_warn() {
    let warns = |text: &str| {
        let notes = translated(text).notes;
        let warned = notes.iter().filter(|note| !note.is_harmless);
        warned.map(ToString::to_string).collect::<Vec<_>>()
    };
    let fresh = "pid_file /run/mosquitto/mosquitto.pid\npersistence true\n\
                 persistence_location /var/lib/mosquitto/\nautosave_interval 300\n\
                 log_dest file /var/log/mosquitto/mosquitto.log\nlog_type all\n\
                 include_dir /etc/mosquitto/conf.d\nlistener 1883\n";
    assert_eq!(warns(fresh), [STORE], "only what is not there yet");
    for (line, is_warned) in [
        ("memory_limit 1000000", false),
        ("max_keepalive 60", false),
        ("max_keepalive often", true),
        ("user mosquitto", true),
        ("queue_qos0_messages true", true),
        ("mount_point a", true),
        ("no_option 1", true),
    ] {
        assert_eq!(!warns(line).is_empty(), is_warned, "{line}: {:?}", warns(line));
    }
}
