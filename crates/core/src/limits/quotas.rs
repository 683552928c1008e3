//! Every bound of the broker, and what one client may take of those that all clients share.
//! docs/limits.md shows it; tests hold it against the configuration and walk over it.

/// A bound, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Its setting with the table, or in words what cannot be set.
    pub bound: &'static str,
    /// Whose it is.
    pub of: Whose,
}

/// Whose a bound is.
#[derive(Clone, Copy, Debug)]
pub enum Whose {
    /// One of its own for each of these, so that nobody takes it from others.
    Each(&'static str),
    /// All clients share it.
    All {
        /// What one client may take of it.
        share: &'static str,
        /// What a client that has its share gets instead of more.
        over: &'static str,
        /// Which tests have a greedy client that takes all it can, and another that gets its own.
        walk: Walk,
    },
    /// It says how one of the others is meant.
    Setting,
}

/// Where a greedy client meets a bound in the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// `core/tests/it/shares.rs`.
    Core,
    /// The tests of `broker/src/admission.rs`.
    Admission,
    /// The tests of `broker/src/auth/waits.rs`.
    Authentication,
    /// `broker/tests/it/shares.rs`.
    Broker,
    /// The tests of `broker/src/log/bound.rs`.
    Log,
    /// `core/tests/it/filters.rs`.
    Conditions,
    /// Nowhere: one client can take it all.
    Nowhere,
}

const fn each(bound: &'static str, whose: &'static str) -> Quota {
    Quota { bound, of: Whose::Each(whose) }
}

const fn all(bound: &'static str, walk: Walk, share: &'static str, over: &'static str) -> Quota {
    Quota { bound, of: Whose::All { share, over, walk } }
}

const fn setting(bound: &'static str) -> Quota {
    Quota { bound, of: Whose::Setting }
}

const CONNECTION: &str = "connection";
const SESSION: &str = "session";
const PACKET: &str = "message or packet";

/// All of them. A setting of `[limits]` or `[process]` that is not here fails a test.
pub const QUOTAS: &[Quota] = &[
    all(
        "process.connections_max",
        Walk::Admission,
        "`connections_per_address_max`; if that is 0, `client_share_percent` of them for an \
         address. The broker's own host may have all. Those without a CONNECT count",
        "CONNACK 0x97",
    ),
    all(
        "process.connects_per_second_max",
        Walk::Admission,
        "`client_share_percent` of them for an address. The broker's own host may have all",
        "CONNACK 0x9F",
    ),
    all(
        "1,024 connections that are told why they are refused",
        Walk::Admission,
        "`client_share_percent` of them for an address. The broker's own host may have all",
        "closed without a word",
    ),
    all(
        "4,096 connections of proxies that have not said where their clients are",
        Walk::Admission,
        "`client_share_percent` of them for a proxy. One on the broker's own host may have all",
        "closed without a word",
    ),
    all(
        "64 connections that are let in at the memory ceiling",
        Walk::Nowhere,
        "all: whoever comes first",
        "closed without a word",
    ),
    all(
        "1,024 clients of a thread whose passwords wait to be checked",
        Walk::Authentication,
        "`client_share_percent` of them for an address. The broker's own host may have all. \
         Passwords of each address are checked in turn",
        "CONNACK 0x89",
    ),
    all(
        "`auth.http.queue` clients whose tokens are checked or whom a service is asked about",
        Walk::Authentication,
        "`client_share_percent` of them for an address: of each thread's part on each thread. The \
         broker's own host may have all",
        "CONNACK 0x89",
    ),
    all(
        "65,536 addresses whose wrong passwords are counted, and as many clients that flap",
        Walk::Nowhere,
        "one place for an address; one for each client identifier, where flapping is bounded",
        "not counted, until a minute is over",
    ),
    all(
        "process.memory_bytes_max",
        Walk::Core,
        "from 80 % of it on, whoever has much gets no more: see below",
        "0x97; QoS 0 is dropped for clients that do not read",
    ),
    all(
        "limits.sessions_max",
        Walk::Core,
        "`client_share_percent` of them for an address; a client identifier has one",
        "CONNACK 0x97",
    ),
    all(
        "limits.retained_messages_max",
        Walk::Core,
        "`client_share_percent` of them for an address, or for a client identifier on the broker's \
         own host. A topic's message counts for whoever published it last",
        "PUBACK or PUBREC 0x97",
    ),
    all("limits.retained_bytes_max", Walk::Core, "the same", "PUBACK or PUBREC 0x97"),
    all(
        "limits.conditions_max",
        Walk::Core,
        "`conditions_per_session_max`, and `client_share_percent` of them for an address",
        "SUBACK 0x97",
    ),
    all(
        "limits.filter_shapes_total_max",
        Walk::Core,
        "`filter_shapes_max`, and `client_share_percent` of them for an address",
        "SUBACK 0x97",
    ),
    all(
        "limits.input_steps_max",
        Walk::Core,
        "one slice of it per turn, whatever it asked for; rules' work counts",
        "its own rest waits for later turns",
    ),
    all(
        "7,000,000 steps of conditions per message, on each thread",
        Walk::Conditions,
        "an equal part of half of them is certain; of the rest, whoever has taken least goes first",
        "the condition is not checked: the message does not match it",
    ),
    all(
        "letters between two threads: up to 8,192 in a ring, and bytes",
        Walk::Broker,
        "all, as long as nobody else wants some: its connection is read no faster than letters \
         leave, and each connection in turn",
        "its packets wait in its socket",
    ),
    all(
        "100 lines of the log for clients that come, 100 for those that go, 10 for each fault, per \
         second and thread",
        Walk::Log,
        "`client_share_percent` of them for an address; for a client identifier on the broker's \
         own host, and where the line is about a message or a condition",
        "left out: `log_lines_left_out`",
    ),
    all(
        "1,024 lines of the log that wait, 64 KiB of lines about clients per second",
        Walk::Nowhere,
        "what its share of the lines above comes to",
        "lost: `log_lines_lost`",
    ),
    all(
        "10,000 connections of a thread that the broker has ended and whose last bytes leave",
        Walk::Nowhere,
        "all, for a second at most. The oldest is closed for a newer one: who ends 20,000 in a \
         second still leaves half a second to each",
        "closed at once",
    ),
    all(
        "16 connections to the control socket",
        Walk::Nowhere,
        "all, for 60 s at most: only the user that the broker runs as may connect, and no MQTT \
         client",
        "waits",
    ),
    all(
        "10,000 bans that `weir ctl` adds",
        Walk::Nowhere,
        "all: only whoever may use the control socket adds any",
        "refused by `weir ctl`",
    ),
    each("process.connections_per_address_max", "address"),
    each("process.messages_per_second_per_address_max", "address"),
    each("process.bytes_per_second_per_address_max", "address"),
    each("process.wrong_passwords_per_minute_max", "address"),
    each("process.flapping_connects_per_minute_max", CONNECTION),
    each("limits.packet_bytes_max", CONNECTION),
    each("limits.connect_timeout_s", CONNECTION),
    each("limits.messages_per_second_max", CONNECTION),
    each("limits.bytes_per_second_max", CONNECTION),
    each("limits.answers_held_max", CONNECTION),
    each("limits.answer_wait_s_max", CONNECTION),
    each("limits.client_id_bytes_max", CONNECTION),
    each("limits.receive_maximum", CONNECTION),
    each("limits.topic_alias_maximum", CONNECTION),
    each("limits.topic_alias_out_max", CONNECTION),
    each("limits.output_bytes_max", CONNECTION),
    each("a packet of many filters that is handled in slices: 1", CONNECTION),
    each("authentications under way: 1", CONNECTION),
    each("limits.in_flight_max", SESSION),
    each("limits.queue_messages_max", SESSION),
    each("limits.queue_bytes_max", SESSION),
    each("limits.subscriptions_max", SESSION),
    each("limits.subscription_bytes_max", SESSION),
    each("limits.filter_shapes_max", SESSION),
    each("limits.conditions_per_session_max", SESSION),
    each("limits.session_expiry_s_max", SESSION),
    each("pages of retained messages on their way: 1", SESSION),
    each("pages of its queue on their way to the disk, and from it: 1", SESSION),
    each("wills: 1", SESSION),
    each("limits.rule_depth_max", PACKET),
    each("limits.rule_results_max", PACKET),
    each("limits.topic_levels_max", PACKET),
    each("limits.topic_bytes_max", PACKET),
    setting("limits.client_share_percent"),
    setting("process.ban_s"),
    setting("limits.queue_full_connected"),
    setting("limits.queue_full_absent"),
];

/// The tables of docs/limits.md.
pub fn quotas_as_text() -> String {
    let mut text = String::from(
        "| what all share | what one client may take | what it gets beyond |\n|---|---|---|\n",
    );
    for Quota { bound, of } in QUOTAS {
        if let Whose::All { share, over, .. } = of {
            text += &format!("| {} | {share} | {over} |\n", shown(bound));
        }
    }
    text += "\n| each has its own | bounds |\n|---|---|\n";
    for whose in ["address", CONNECTION, SESSION, PACKET] {
        let is_its = |quota: &&Quota| matches!(quota.of, Whose::Each(of) if of == whose);
        let bounds: Vec<String> =
            QUOTAS.iter().filter(is_its).map(|quota| shown(quota.bound)).collect();
        text += &format!("| {whose} | {} |\n", bounds.join(", "));
    }
    text
}

fn shown(bound: &str) -> String {
    match bound.split_once('.') {
        Some((_, key)) if !bound.contains(' ') => format!("`{key}`"),
        _ => bound.to_owned(),
    }
}

/// The names of the shared bounds that these tests are for.
pub fn walked_by(tests: Walk) -> Vec<&'static str> {
    let is_theirs = |quota: &&Quota| matches!(quota.of, Whose::All { walk, .. } if walk == tests);
    QUOTAS.iter().filter(is_theirs).map(|quota| quota.bound).collect()
}
