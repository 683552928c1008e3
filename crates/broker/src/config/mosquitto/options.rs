//! The options of a mosquitto.conf, and what each is here.

use toml::{Table, Value};

/// Options that are the same thing here, or are missing for the same reason.
#[derive(Debug)]
pub struct Options {
    /// As a mosquitto.conf has them; `*` at the end stands for any rest.
    pub names: &'static [&'static str],
    /// The key that is set instead, with its table.
    pub key: Option<&'static str>,
    /// Its value, made of Mosquitto's.
    pub(super) value: fn(&str) -> Option<Value>,
    /// What is different, what to do instead, or that there is nothing yet.
    pub note: &'static str,
    pub(super) of: Scope,
    /// Whether clients would come in, or do what they may not, if it were left out: a file that
    /// has it is not run.
    pub is_guard: bool,
    /// Whether nothing is missing without it, although there is no key for it.
    pub(super) is_harmless: bool,
}

/// What an option of Mosquitto is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The broker.
    Broker,
    /// The listener before it.
    Listener,
    /// The bridge before it.
    Bridge,
    /// With `per_listener_settings`, the listener before it, else the broker.
    Access,
}

const fn key(
    names: &'static [&'static str],
    key: &'static str,
    value: fn(&str) -> Option<Value>,
    note: &'static str,
) -> Options {
    Options {
        names,
        key: Some(key),
        value,
        note,
        of: Scope::Broker,
        is_guard: false,
        is_harmless: false,
    }
}

const fn note(names: &'static [&'static str], note: &'static str) -> Options {
    Options {
        names,
        key: None,
        value: |_| None,
        note,
        of: Scope::Broker,
        is_guard: false,
        is_harmless: false,
    }
}

impl Options {
    const fn of(self, of: Scope) -> Self {
        Self { of, ..self }
    }

    /// Nothing is missing without it.
    const fn harmless(self) -> Self {
        Self { is_harmless: true, ..self }
    }

    const fn guard(self) -> Self {
        Self { is_guard: true, ..self }
    }
}

/// Every option of Mosquitto 2.0, and those of 2.1 that are known here. The first row that has a
/// name counts.
pub const OPTIONS: &[Options] = &[
    key(
        &["listener", "port"],
        "listener.address",
        // It takes more than its own line to say.
        |_| None,
        "without an address it is every address of the host, \"[::]:PORT\"; with port 0 and a path \
         it is `listener.unix`",
    ),
    note(&["bind_address"], "it is the host of the address that `port` opens").harmless(),
    key(&["bind_interface"], "listener.bind_device", text, "").of(Scope::Listener),
    note(
        &["socket_domain"],
        "it chooses between \"0.0.0.0:PORT\" and \"[::]:PORT\", which is IPv4 as well here",
    )
    .harmless(),
    key(
        &["protocol"],
        "listener.websocket",
        |text| match text {
            "mqtt" => Some(false.into()),
            "websockets" => Some(true.into()),
            _ => None,
        },
        "",
    )
    .of(Scope::Listener),
    key(&["certfile"], "listener.tls.certificate", text, "").of(Scope::Listener),
    key(&["keyfile"], "listener.tls.key", text, "").of(Scope::Listener),
    key(&["cafile"], "listener.tls.client_ca", text, "where a certificate is required")
        .of(Scope::Listener),
    key(&["require_certificate"], "listener.tls.require_certificate", flag, "")
        .of(Scope::Listener)
        .guard(),
    key(&["crlfile"], "listener.tls.crl", |text| Some(vec![Value::from(text)].into()), "")
        .of(Scope::Listener)
        .guard(),
    key(
        &["tls_version"],
        "listener.tls.versions",
        |text| match text {
            "tlsv1.3" => Some(vec![Value::from("1.3")].into()),
            "tlsv1.2" | "tlsv1.1" => Some(vec![Value::from("1.2"), "1.3".into()].into()),
            _ => None,
        },
        "that one and those after it; there is none before 1.2",
    )
    .of(Scope::Listener),
    key(&["use_identity_as_username"], "listener.tls.identity", |text| identity(text, "cn"), "")
        .of(Scope::Listener)
        .guard(),
    key(
        &["use_subject_as_username"],
        "listener.tls.identity",
        |text| identity(text, "subject"),
        "",
    )
    .of(Scope::Listener)
    .guard(),
    key(
        &["websockets_origin"],
        "listener.origins",
        |text| Some(vec![Value::from(text)].into()),
        "",
    )
    .of(Scope::Listener)
    .guard(),
    key(&["max_connections"], "process.connections_max", connections, "").of(Scope::Listener),
    key(&["global_max_connections"], "process.connections_max", connections, ""),
    key(&["allow_anonymous"], "auth.allow_anonymous", flag, "").of(Scope::Access).guard(),
    key(&["password_file"], "auth.password_file", text, "").of(Scope::Access).guard(),
    key(&["acl_file"], "auth.acl_file", text, "").of(Scope::Access).guard(),
    note(
        &["listener_allow_anonymous"],
        "there is nothing like it: `auth.allow_anonymous` is for all listeners",
    )
    .guard(),
    note(
        &["per_listener_settings"],
        "there is one setting for all listeners, which is taken if all of them say the same",
    ),
    note(
        &["plugin*", "global_plugin", "auth_*"],
        "there are no plugins: passwords and access rights are in files, or asked of a service by \
         HTTP (docs/security.md)",
    )
    .guard(),
    note(
        &["use_username_as_clientid", "clientid_prefixes"],
        "there is nothing like it: a client may choose any identifier",
    )
    .guard(),
    note(&["psk_*", "tls_engine*", "tls_keyform"], "there is nothing like it for TLS").guard(),
    note(&["mount_point"], "there is nothing like it: all clients see the same topics").guard(),
    note(
        &["enable_proxy_protocol", "proxy_protocol_*"],
        "`[listener.proxy]` has it: write that table by hand, since it needs the addresses of the \
         proxies, which this file does not have",
    )
    .guard(),
    note(
        &["disable_client_cert_date_checks"],
        "there is nothing like it: certificates that have expired are refused",
    ),
    note(
        &["allow_zero_length_clientid", "auto_id_prefix", "listener_auto_id_prefix"],
        "such clients get an identifier",
    )
    .harmless(),
    key(
        &["max_inflight_messages"],
        "limits.in_flight_max",
        |text| or_all(text, u16::MAX.into()),
        "",
    ),
    key(
        &["max_queued_messages"],
        "limits.queue_messages_max",
        |text| or_all(text, u32::MAX.into()),
        "",
    ),
    key(&["max_queued_bytes"], "limits.queue_bytes_max", |text| or_all(text, i64::MAX), ""),
    note(&["max_inflight_bytes"], "`limits.queue_bytes_max` bounds both, the queue and these"),
    key(
        &["message_size_limit"],
        "limits.packet_bytes_max",
        // A payload; the rest of its packet needs room as well.
        |text| packet(or_all(text, PACKET_BYTES_MAX)?.as_integer()?.checked_add(128 * 1024)?),
        "",
    ),
    key(
        &["max_packet_size"],
        "limits.packet_bytes_max",
        |text| packet(or_all(text, PACKET_BYTES_MAX)?.as_integer()?),
        "",
    ),
    key(
        &["memory_limit"],
        "process.memory_bytes_max",
        |text| match text.parse().ok()? {
            0 => Some(0.into()),
            bytes @ 1_i64.. => Some(bytes.max(32 * 1024 * 1024).into()),
            _ => None,
        },
        "it bounds the resident memory; 0 is three quarters of what the host or the container has",
    ),
    key(&["max_topic_alias"], "limits.topic_alias_maximum", |text| up_to(text, 65_535), "")
        .of(Scope::Listener),
    key(&["max_topic_alias_broker"], "limits.topic_alias_out_max", |text| up_to(text, 65_535), "")
        .of(Scope::Listener),
    key(&["persistent_client_expiration"], "limits.session_expiry_s_max", duration, ""),
    key(&["max_qos"], "features.qos_max", |text| up_to(text, 2), "").of(Scope::Listener),
    key(&["retain_available"], "features.retain", flag, ""),
    key(
        &["max_keepalive"],
        "features.server_keep_alive_s",
        |text| up_to(text, 65_535),
        "all clients of 5.0 use this keep alive, those with a shorter one too",
    ),
    key(
        &["persistence_location"],
        "store.path",
        |text| Some(format!("{}/weir", text.trim_end_matches('/')).into()),
        "with `persistence true`: a folder in that one, which `weir store import` makes of \
         mosquitto.db",
    ),
    note(
        &["persistence"],
        "with `store.path`, sessions and retained messages are on disk before they are \
         acknowledged; without, they are in memory only",
    )
    .harmless(),
    note(
        &["persistence_*", "autosave_*", "retained_persistence"],
        "everything is written when it is acknowledged, into files that have their names",
    )
    .harmless(),
    note(&["queue_qos0_messages"], "messages of QoS 0 are not kept for clients that are absent"),
    note(
        &["log_dest", "log_facility"],
        "the log goes to standard error, or with `--log-file FILE` to a file, as it does with \
         `--mosquitto` where that is a file",
    )
    .harmless(),
    note(
        &["log_type", "connection_messages", "websockets_log_level"],
        "`--log-level LEVEL` says what is logged; `-v` is everything",
    )
    .harmless(),
    note(
        &["log_timestamp*"],
        "lines have the time; `--log-format json` is for programs that read them",
    )
    .harmless(),
    key(&["sys_interval"], "sys.interval_s", |text| up_to(text, 65_535), ""),
    note(&["user"], "start the broker as the user that it is to be, for instance by systemd"),
    note(&["pid_file"], "systemd, or whatever else starts the broker, knows its process")
        .harmless(),
    key(
        &["ciphers*"],
        "listener.tls.ciphers",
        ciphers,
        "by their names in OpenSSL; those that are not there are left out",
    )
    .of(Scope::Listener),
    note(
        &["capath"],
        "name a file with all certificates of authorities in `listener.tls.client_ca`",
    )
    .guard(),
    note(&["dhparamfile"], "it is not needed: keys are agreed on by elliptic curves").harmless(),
    note(
        &["http_dir", "websockets_*"],
        "there is nothing like it: WebSocket has `paths` in `[[listener]]` and no files to serve",
    ),
    key(
        &["connection"],
        "bridge.name",
        // A table begins with it.
        |_| None,
        "what follows is about that bridge",
    )
    .of(Scope::Bridge),
    key(&["address", "addresses"], "bridge.addresses", addresses, "").of(Scope::Bridge),
    key(&["topic"], "bridge.topics", topic, "").of(Scope::Bridge),
    key(&["remote_clientid", "clientid"], "bridge.client_id", text, "").of(Scope::Bridge),
    key(&["remote_username", "username"], "bridge.user_name", text, "").of(Scope::Bridge),
    key(&["remote_password", "password"], "bridge.password", text, "").of(Scope::Bridge),
    key(&["cleansession"], "bridge.clean_start", flag, "").of(Scope::Bridge),
    key(&["local_cleansession"], "bridge.local_clean_start", flag, "").of(Scope::Bridge),
    key(&["keepalive_interval"], "bridge.keep_alive_s", |text| up_to(text, u16::MAX.into()), "")
        .of(Scope::Bridge),
    key(
        &["start_type"],
        "bridge.start",
        |text| ["automatic", "lazy"].contains(&text).then(|| text.into()),
        "there is no `once`",
    )
    .of(Scope::Bridge),
    key(&["threshold"], "bridge.threshold", |text| up_to(text, u16::MAX.into()), "")
        .of(Scope::Bridge),
    key(&["idle_timeout"], "bridge.idle_s", |text| up_to(text, u32::MAX.into()), "")
        .of(Scope::Bridge),
    key(&["round_robin"], "bridge.round_robin", flag, "").of(Scope::Bridge),
    key(&["restart_timeout"], "bridge.retry_ms_min", |_| None, "and `bridge.retry_ms_max`")
        .of(Scope::Bridge),
    key(
        &["notifications", "notifications_local_only"],
        "bridge.notifications",
        |_| None,
        "`both` with Mosquitto, if it says nothing",
    )
    .of(Scope::Bridge),
    key(&["notification_topic"], "bridge.notification_topic", text, "").of(Scope::Bridge),
    key(&["try_private"], "bridge.try_private", flag, "").of(Scope::Bridge),
    key(
        &["bridge_protocol_version"],
        "bridge.version",
        |text| match text {
            "mqttv50" => Some("5".into()),
            "mqttv311" => Some("3.1.1".into()),
            _ => None,
        },
        "without it, 5.0 is tried before 3.1.1; there is no 3.1",
    )
    .of(Scope::Bridge),
    key(&["bridge_outgoing_retain"], "bridge.outgoing_retain", flag, "").of(Scope::Bridge),
    key(
        &["bridge_receive_maximum"],
        "bridge.in_flight_max",
        |text| up_to(text, u16::MAX.into()),
        "",
    )
    .of(Scope::Bridge),
    key(&["bridge_cafile"], "bridge.tls.ca", text, "").of(Scope::Bridge),
    key(&["bridge_capath"], "bridge.tls.ca_folder", text, "").of(Scope::Bridge),
    key(&["bridge_certfile"], "bridge.tls.certificate", text, "").of(Scope::Bridge),
    key(&["bridge_keyfile"], "bridge.tls.key", text, "").of(Scope::Bridge),
    key(&["bridge_insecure"], "bridge.tls.insecure", flag, "").of(Scope::Bridge),
    key(&["bridge_alpn"], "bridge.tls.alpn", text, "").of(Scope::Bridge),
    note(
        &["bridge_identity", "bridge_psk", "bridge_require_ocsp"],
        "there is nothing like it for the TLS of bridges",
    )
    .guard(),
    note(&["bridge_tls_version"], "a bridge speaks TLS 1.3, or 1.2 where it has to"),
    note(
        &["local_*"],
        "it is not needed: a bridge comes into its own broker without a password, as a client \
         that nobody else can be",
    ),
    note(
        &["bridge_attempt_unsubscribe"],
        "a bridge does not unsubscribe from what it is not to get any more: what comes all the \
         same is dropped and counted",
    ),
    note(&["bridge_*"], "there is nothing like it for bridges"),
    note(&["set_tcp_nodelay"], "it is always on").harmless(),
    note(&["include_dir"], "its files are read as if they stood there").harmless(),
    note(
        &[
            "accept_protocol_versions",
            "allow_duplicate_messages",
            "check_retain_source",
            "control_*",
            "enable_*",
            "max_*",
            "packet_buffer_size",
            "retain_expiry_interval",
            "retry_interval",
            "store_clean_interval",
            "upgrade_outgoing_qos",
        ],
        "there is nothing like it",
    ),
];

fn text(text: &str) -> Option<Value> {
    Some(text.into())
}

fn connections(text: &str) -> Option<Value> {
    match text.parse().ok()? {
        -1_i64 => Some(u32::MAX.into()),
        count @ 1.. => Some(count.min(u32::MAX.into()).into()),
        _ => None,
    }
}

fn identity(text: &str, name: &str) -> Option<Value> {
    Some(if flag(text)?.as_bool()? { name.into() } else { false.into() })
}

/// The highest `limits.packet_bytes_max`.
const PACKET_BYTES_MAX: i64 = 255 * 1024 * 1024;

fn packet(bytes: i64) -> Option<Value> {
    Some(bytes.clamp(16, PACKET_BYTES_MAX).into())
}

/// The places of `address` and `addresses`.
fn addresses(text: &str) -> Option<Value> {
    let all: Vec<Value> = text.split_whitespace().map(Value::from).collect();
    (!all.is_empty()).then(|| all.into())
}

/// `topic PATTERN [DIRECTION [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]]`.
fn topic(text: &str) -> Option<Value> {
    let mut words = text.split_whitespace().map(|word| if word == "\"\"" { "" } else { word });
    let mut topic = Table::new();
    topic.insert("pattern".into(), words.next()?.into());
    let direction = words.next().unwrap_or("out");
    if !["in", "out", "both"].contains(&direction) {
        return None;
    }
    topic.insert("direction".into(), direction.into());
    let qos: i64 = words.next().map_or(Ok(0), str::parse).ok()?;
    topic.insert("qos".into(), (0..=2).contains(&qos).then_some(qos)?.into());
    for key in ["local_prefix", "remote_prefix"] {
        if let Some(prefix) = words.next().filter(|prefix| !prefix.is_empty()) {
            topic.insert(key.into(), prefix.into());
        }
    }
    words.next().is_none().then(|| vec![Value::from(topic)].into())
}

/// As Mosquitto reads it: by the first word.
pub(super) fn flag(text: &str) -> Option<Value> {
    match text.split([' ', '\t']).next()? {
        "true" | "1" => Some(true.into()),
        "false" | "0" => Some(false.into()),
        _ => None,
    }
}

fn up_to(text: &str, most: i64) -> Option<Value> {
    text.parse().ok().filter(|number| (0..=most).contains(number)).map(Value::Integer)
}

/// A number up to `most`, which is what 0 stands for.
fn or_all(text: &str, most: i64) -> Option<Value> {
    match text.parse().ok()? {
        0 => Some(most.into()),
        number @ 1_i64.. => Some(number.min(most).into()),
        _ => None,
    }
}

/// A number of hours, days, weeks, months or years, as seconds.
fn duration(text: &str) -> Option<Value> {
    let unit_s = match text.chars().last()? {
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        'm' => 30 * 86_400,
        'y' => 365 * 86_400,
        _ => return None,
    };
    let count: i64 = text[..text.len() - 1].parse().ok().filter(|count| *count >= 0)?;
    Some(count.saturating_mul(unit_s).min(u32::MAX.into()).into())
}

/// The suites of a list as OpenSSL has it that Weir has too; nothing if there is none.
fn ciphers(text: &str) -> Option<Value> {
    let ours = |name: &str| CIPHERS.iter().find(|(theirs, _)| *theirs == name);
    let found = text.split([':', ',', ' ']).filter_map(ours).map(|(_, ours)| Value::from(*ours));
    let found: Vec<_> = found.collect();
    (!found.is_empty()).then(|| found.into())
}

/// By their names in OpenSSL and in Weir.
const CIPHERS: &[(&str, &str)] = &[
    ("TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"),
    ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS13_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];
