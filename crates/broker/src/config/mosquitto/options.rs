//! The options of a mosquitto.conf, and what each is here.

use toml::Value;

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
}

const fn key(
    names: &'static [&'static str],
    key: &'static str,
    value: fn(&str) -> Option<Value>,
    note: &'static str,
) -> Options {
    Options { names, key: Some(key), value, note }
}

const fn note(names: &'static [&'static str], note: &'static str) -> Options {
    Options { names, key: None, value: |_| None, note }
}

/// Every option of Mosquitto 2.0, and those of 2.1 that are known here. The first row that has a
/// name counts.
pub const OPTIONS: &[Options] = &[
    key(
        &["listener", "port"],
        "listen",
        // It takes more than its own line to say.
        |_| None,
        "without an address it is \"0.0.0.0:PORT\", or \"[::]:PORT\" for IPv4 and IPv6; there are \
         no unix sockets yet",
    ),
    note(&["bind_address"], "it is the host of an address in `listen`"),
    note(
        &["bind_interface", "socket_domain"],
        "choose by addresses in `listen`, such as \"192.0.2.1:1883\" or \"[::1]:1883\"",
    ),
    note(
        &["protocol"],
        "`[[listener]]` has `websocket`: write that table by hand, since a listener for WebSocket \
         would be one for plain MQTT here",
    ),
    key(
        &["max_connections", "global_max_connections"],
        "process.connections_max",
        |text| match text.parse().ok()? {
            -1_i64 => Some(u32::MAX.into()),
            count @ 1.. => Some(count.min(u32::MAX.into()).into()),
            _ => None,
        },
        "",
    ),
    key(&["allow_anonymous"], "auth.allow_anonymous", flag, ""),
    key(&["password_file"], "auth.password_file", |text| Some(text.into()), ""),
    key(&["acl_file"], "auth.acl_file", |text| Some(text.into()), ""),
    note(
        &["plugin*", "auth_*", "use_username_as_clientid", "clientid_prefixes"],
        "there are no plugins: passwords and access rights are in files",
    ),
    note(&["allow_zero_length_clientid", "auto_id_prefix"], "such clients get an identifier"),
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
        "it bounds the resident memory; 0 is three quarters of the host's",
    ),
    key(&["max_topic_alias"], "limits.topic_alias_maximum", |text| up_to(text, 65_535), ""),
    key(&["max_topic_alias_broker"], "limits.topic_alias_out_max", |text| up_to(text, 65_535), ""),
    key(&["persistent_client_expiration"], "limits.session_expiry_s_max", duration, ""),
    key(&["max_qos"], "features.qos_max", |text| up_to(text, 2), ""),
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
        |text| Some(text.into()),
        "a folder of its own, which `weir store import` makes of mosquitto.db",
    ),
    note(
        &["persistence*", "autosave_*", "retained_persistence"],
        "with `[store]` and a path, sessions and retained messages are on disk before they are \
         acknowledged; without, they are in memory only",
    ),
    note(&["queue_qos0_messages"], "messages of QoS 0 are not kept for clients that are absent"),
    note(
        &["log_dest", "log_facility"],
        "the log goes to standard error, or with `--log-file FILE` to a file",
    ),
    note(
        &["log_type", "connection_messages", "websockets_log_level"],
        "`--log-level LEVEL` says what is logged; `-v` is everything",
    ),
    note(
        &["log_timestamp*"],
        "lines have the time; `--log-format json` is for programs that read them",
    ),
    note(
        &["sys_interval"],
        "there are no `$SYS` topics: `weir ctl counters` shows the counters (docs/control.md)",
    ),
    note(
        &["user", "pid_file"],
        "start the broker as the user that it is to be, for instance by systemd, which knows its \
         process",
    ),
    note(
        &[
            "cafile",
            "certfile",
            "keyfile",
            "require_certificate",
            "tls_version",
            "crlfile",
            "ciphers*",
            "use_identity_as_username",
            "use_subject_as_username",
        ],
        "`[listener.tls]` has `client_ca`, `certificate`, `key`, `require_certificate`, \
         `versions`, `crl`, `ciphers` (by other names) and `identity`: write that table by hand, \
         since a listener with TLS would be one without here",
    ),
    note(&["capath", "dhparamfile", "psk_*", "tls_*"], "there is nothing like it for TLS yet"),
    note(
        &["http_dir", "websockets_*"],
        "there is nothing like it: WebSocket has `paths` in `[[listener]]` and no files to serve",
    ),
    note(
        &[
            "address*",
            "bridge_*",
            "cleansession",
            "clientid",
            "connection",
            "idle_timeout",
            "keepalive_interval",
            "local_*",
            "notification*",
            "password",
            "remote_*",
            "restart_timeout",
            "round_robin",
            "start_type",
            "threshold",
            "topic",
            "try_private",
            "username",
        ],
        "there are no bridges; Mosquitto's own can connect to Weir",
    ),
    note(&["set_tcp_nodelay"], "it is always on"),
    note(&["per_listener_settings"], "settings are for all listeners"),
    note(&["include_dir"], "the files in there were not looked at"),
    note(
        &[
            "accept_protocol_versions",
            "allow_duplicate_messages",
            "check_retain_source",
            "control_*",
            "enable_*",
            "mount_point",
            "max_*",
            "retry_interval",
            "store_clean_interval",
            "upgrade_outgoing_qos",
        ],
        "there is nothing like it",
    ),
];

/// The highest `limits.packet_bytes_max`.
const PACKET_BYTES_MAX: i64 = 255 * 1024 * 1024;

fn packet(bytes: i64) -> Option<Value> {
    Some(bytes.clamp(16, PACKET_BYTES_MAX).into())
}

fn flag(text: &str) -> Option<Value> {
    match text {
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
