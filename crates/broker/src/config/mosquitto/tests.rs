use super::*;
use crate::{Config, ConfigError};

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
frobnicate on
";

fn recognised(text: &str) -> Option<String> {
    MosquittoFile::recognise(Path::new("m.conf"), text).map(|file| file.to_string())
}

/// The lines of Weir's own in a message.
fn config(shown: &str) -> Config {
    let lines = shown.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| !line.starts_with(' '));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.collect::<Vec<_>>().join("\n")).unwrap();
    Config::read(file.path()).unwrap()
}

#[test]
fn a_file_of_mosquitto_is_named_and_said_in_our_words() {
    let shown = recognised(WHOLE).unwrap();
    let config = config(&shown);
    assert_eq!(config.listen, ["192.0.2.7:1884", "0.0.0.0:1885"]);
    assert_eq!(config.process.connections_max, 100);
    assert_eq!(config.auth.allow_anonymous, Some(false));
    let limits = &config.limits;
    assert_eq!((limits.in_flight_max, limits.queue_messages_max), (20, u32::MAX));
    assert_eq!(limits.packet_bytes_max, 255 * 1024 * 1024);
    assert_eq!(limits.session_expiry_s_max, 14 * 86_400);
    assert_eq!(config.store.path.as_deref(), Some(Path::new("/var/lib/mosquitto/")));
    for said in [
        "m.conf is a configuration of Mosquitto",
        "persistence (line 8)\n      with `[store]` and a path",
        "persistence_location (line 9)\n      a folder of its own",
        "log_dest (line 14)\n      the log goes to standard error",
        "connection (line 15), remote_password (line 16)\n      there are no bridges",
        "frobnicate (line 17)\n      not an option that Weir knows of",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_listener_without_a_word_on_anonymous_clients_lets_none_in_as_with_mosquitto() {
    let open = recognised("listener 1883\nallow_anonymous true\n").unwrap();
    assert!(
        config(&open).auth.allow_anonymous == Some(true) && !open.contains("anonymously"),
        "{open}"
    );
    let shut = recognised("port 1883\nbind_address ::1\n").unwrap();
    assert!(
        config(&shut).auth.allow_anonymous == Some(false) && shut.contains("anonymously"),
        "{shut}"
    );
    assert_eq!(config(&shut).listen, ["[::1]:1883"]);
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
        assert_eq!(recognised(text), None, "{text}");
    }
}

#[test]
fn a_value_that_mosquitto_does_not_take_is_told() {
    for line in ["max_connections many", "max_qos 3", "allow_anonymous yes", "max_queued_bytes -1"]
    {
        let shown = recognised(line).unwrap();
        assert!(shown.contains(NO_VALUE) && shown.contains("(line 1)"), "{shown}");
    }
}

#[test]
fn every_option_that_has_a_key_sets_what_weir_takes() {
    for row in OPTIONS.iter().filter(|row| row.key.is_some()) {
        for (name, value) in row.names.iter().flat_map(|name| {
            ["0", "1", "true", "3d", "70000", "99999999999"].map(|value| (name, value))
        }) {
            let shown = recognised(&format!("{name} {value}")).unwrap();
            if !shown.contains(NO_VALUE) {
                config(&shown);
            }
        }
    }
}

#[test]
fn the_error_of_a_file_is_this_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), WHOLE).unwrap();
    assert!(matches!(Config::read(file.path()), Err(ConfigError::Mosquitto(_))));
}
