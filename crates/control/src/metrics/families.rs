//! The families of metrics, and which counters they are made of: the one place to add one.

use Kind::{Counter, Gauge, Histogram};

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// How things stand.
    Gauge,
    /// How often things took how long.
    Histogram,
}

/// Samples of one meaning.
pub(super) struct Family {
    /// Without a suffix for counters.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// One sentence.
    pub(super) help: &'static str,
    /// Names of counters, and what tells their samples apart.
    pub(super) samples: &'static [(&'static str, &'static str)],
    /// The counters are microseconds, and the samples seconds.
    pub(super) is_us: bool,
}

impl Family {
    pub(super) fn sample_name(&self) -> String {
        match self.kind {
            Counter => format!("{}_total", self.name),
            Gauge | Histogram => self.name.to_owned(),
        }
    }
}

pub(super) const fn family(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: &'static [(&'static str, &'static str)],
) -> Family {
    Family { name, kind, help, samples, is_us: false }
}

const fn family_of_us(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: &'static [(&'static str, &'static str)],
) -> Family {
    Family { name, kind, help, samples, is_us: true }
}

/// Refusals have a sample for each reason code that was counted.
pub(super) const REFUSALS: Family = family(
    "weir_refusals",
    Counter,
    "Connections, PUBLISH packets and filters refused, by reason code.",
    &[],
);

/// What the program is.
pub(super) const BUILD: Family =
    family("weir_build_info", Gauge, "Which version this is; always 1.", &[]);

/// How long it has been there.
pub(super) const UPTIME: Family =
    family("weir_uptime_seconds", Gauge, "Time since the broker has started.", &[]);

/// How these came to a collector.
pub(super) const PUSHES: Family = family(
    "weir_otlp_pushes",
    Counter,
    "Times that metrics were sent to the collector of [control.otlp], or could not be.",
    &[],
);

pub(super) const FAMILIES: &[Family] = &[
    family(
        "weir_connections_opened",
        Counter,
        "Connections accepted.",
        &[("connections_opened", "")],
    ),
    family("weir_connects_received", Counter, "CONNECT packets received.", &[("connects_in", "")]),
    family(
        "weir_sessions_expired",
        Counter,
        "Sessions ended because their clients were absent for too long.",
        &[("sessions_expired", "")],
    ),
    family(
        "weir_subscriptions",
        Gauge,
        "Subscriptions of all sessions.",
        &[("subscriptions", "shared=\"no\""), ("shared_subscriptions", "shared=\"yes\"")],
    ),
    family(
        "weir_connections_refused",
        Counter,
        "Connections refused in CONNACK.",
        &[("connections_refused", "")],
    ),
    family(
        "weir_connections_ended",
        Counter,
        "Connections ended by the broker: for a fault, a bound, or because somebody wants it.",
        &[("connections_ended", "")],
    ),
    family(
        "weir_connections_cut",
        Counter,
        "Connections cut before CONNECT: over a bound, banned, or no proxy that may come.",
        &[
            ("refused_count", "reason=\"connections_max\""),
            ("refused_address", "reason=\"connections_per_address_max\""),
            ("refused_rate", "reason=\"connects_per_second_max\""),
            ("cut", "reason=\"before_handshake\""),
            ("banned", "reason=\"banned\""),
            ("cut_strangers", "reason=\"no_known_proxy\""),
        ],
    ),
    family(
        "weir_bans",
        Counter,
        "Bans made by the broker itself.",
        &[
            ("passwords_guessed_banned", "reason=\"guessed_passwords\""),
            ("flapping_banned", "reason=\"flapping\""),
        ],
    ),
    family(
        "weir_reauthentications_late",
        Counter,
        "Connections ended because a re-authentication was not finished in time.",
        &[("reauthentications_late", "")],
    ),
    family(
        "weir_certificates_ended",
        Counter,
        "Connections ended because the certificate they came in by counts no more.",
        &[("certificates_ended", "")],
    ),
    family(
        "weir_takeovers",
        Counter,
        "Sessions taken over by a newer connection.",
        &[("takeovers", "")],
    ),
    family("weir_connections", Gauge, "Connections now.", &[("connections", "")]),
    family(
        "weir_clients_connected",
        Gauge,
        "Clients that are connected now, by version of MQTT.",
        &[
            ("connected_v31", "version=\"3.1\""),
            ("connected_v311", "version=\"3.1.1\""),
            ("connected_v5", "version=\"5.0\""),
        ],
    ),
    family(
        "weir_connections_carried",
        Gauge,
        "Connections that were let in and are there now, by what carries them.",
        &[
            ("connections_tcp", "transport=\"tcp\""),
            ("connections_tls", "transport=\"tls\""),
            ("connections_websocket", "transport=\"ws\""),
            ("connections_secure_websocket", "transport=\"wss\""),
            ("connections_unix", "transport=\"unix\""),
        ],
    ),
    family(
        "weir_tls_handshakes",
        Counter,
        "Handshakes of TLS with clients that are over, by result.",
        &[
            ("handshakes_full", "result=\"full\""),
            ("handshakes_resumed", "result=\"resumed\""),
            ("handshakes_failed", "result=\"failed\""),
        ],
    ),
    family_of_us(
        "weir_latency_seconds",
        Histogram,
        "How long messages were in the broker at most, from the turn that read them.",
        &[("latency", "")],
    ),
    family_of_us(
        "weir_turn_seconds",
        Histogram,
        "Length of turns of the event loop, without their wait.",
        &[("turn_length", "")],
    ),
    family(
        "weir_sessions",
        Gauge,
        "Sessions now, those of absent clients included.",
        &[("sessions", "")],
    ),
    family(
        "weir_sessions_refused",
        Counter,
        "New sessions refused: there were too many.",
        &[("sessions_refused", "")],
    ),
    family(
        "weir_publishes_received",
        Counter,
        "PUBLISH packets received.",
        &[("publishes_in", "")],
    ),
    family(
        "weir_publishes_sent",
        Counter,
        "PUBLISH packets sent, redeliveries included.",
        &[("publishes_out", "")],
    ),
    family(
        "weir_publishes_received_by_qos",
        Counter,
        "PUBLISH packets received, by QoS.",
        &[
            ("publishes_in_qos0", "qos=\"0\""),
            ("publishes_in_qos1", "qos=\"1\""),
            ("publishes_in_qos2", "qos=\"2\""),
        ],
    ),
    family(
        "weir_publishes_sent_by_qos",
        Counter,
        "PUBLISH packets sent, redeliveries included, by QoS.",
        &[
            ("publishes_out_qos0", "qos=\"0\""),
            ("publishes_out_qos1", "qos=\"1\""),
            ("publishes_out_qos2", "qos=\"2\""),
        ],
    ),
    family(
        "weir_publishes_refused",
        Counter,
        "PUBLISH packets refused by a bound, a full queue or store, or an invalid payload.",
        &[("publishes_refused", "")],
    ),
    family(
        "weir_dropped",
        Counter,
        "Messages that a subscriber did not get, by reason.",
        &[
            ("dropped_output_full", "reason=\"output_full\""),
            ("dropped_too_large", "reason=\"too_large\""),
            ("dropped_queue_full", "reason=\"queue_full\""),
            ("dropped_expired", "reason=\"expired\""),
            ("dropped_absent_qos0", "reason=\"absent_qos0\""),
            ("dropped_no_member", "reason=\"no_member\""),
            ("reads_forbidden", "reason=\"no_right_to_read\""),
        ],
    ),
    family(
        "weir_writes_forbidden",
        Counter,
        "PUBLISH packets and wills whose clients may not publish to the topic.",
        &[("writes_forbidden", "")],
    ),
    family(
        "weir_queue_overflows",
        Counter,
        "Queues that were full, so that a connection or an absent session was ended.",
        &[("queue_overflows", "")],
    ),
    family(
        "weir_shared_rechosen",
        Counter,
        "Members of shared subscriptions chosen again on another shard.",
        &[("shared_rechosen", "")],
    ),
    family("weir_retained", Gauge, "Retained messages now.", &[("retained", "")]),
    family(
        "weir_retained_refused",
        Counter,
        "Messages not retained because the store was full.",
        &[("retained_refused", "")],
    ),
    family(
        "weir_retained_forgotten",
        Counter,
        "Retained messages delivered live and forgotten while a query was on its way.",
        &[("recent_forgotten", "")],
    ),
    family(
        "weir_filters",
        Gauge,
        "Topic filters wanted by this shard or another, now.",
        &[("filters", "")],
    ),
    family(
        "weir_subscriptions_refused",
        Counter,
        "Filters of SUBSCRIBE that were refused.",
        &[("subscriptions_refused", "")],
    ),
    family(
        "weir_subscriptions_refused_for_shape",
        Counter,
        "Filters refused because they were of one shape too many.",
        &[("shapes_refused", "")],
    ),
    family(
        "weir_subscriptions_refused_for_condition",
        Counter,
        "Filters refused for their condition.",
        &[("conditions_refused", "")],
    ),
    family(
        "weir_conditions",
        Gauge,
        "Distinct conditions of content-filtered subscriptions now.",
        &[("conditions", "")],
    ),
    family("weir_condition_checks", Counter, "Conditions checked.", &[("condition_checks", "")]),
    family(
        "weir_conditions_left_out",
        Counter,
        "Conditions left out because a message brought up too many.",
        &[("conditions_left_out", "")],
    ),
    family(
        "weir_rule_results",
        Counter,
        "Messages that rules made, by what became of them.",
        &[
            ("rule_results", "result=\"published\""),
            ("rule_results_refused", "result=\"refused\""),
            ("rule_results_dropped", "result=\"dropped\""),
            ("rule_depth_reached", "result=\"too_deep\""),
        ],
    ),
    family(
        "weir_partition_freezes",
        Counter,
        "Times that input waited for a partition to move.",
        &[("freezes", "")],
    ),
    family(
        "weir_answers_awaited",
        Gauge,
        "Answers to clients that wait for another shard or for a verdict, now.",
        &[("awaited", "")],
    ),
    family(
        "weir_answers_late",
        Counter,
        "Answers that came when nobody waited for them any more.",
        &[("answers_late", "")],
    ),
    family(
        "weir_control_answers_dropped",
        Counter,
        "Answers that found no room on their way to the control thread.",
        &[("answers_dropped", "")],
    ),
    family("weir_turns", Counter, "Turns of the event loop.", &[("turns", "")]),
    family("weir_reads", Counter, "Calls of recv that brought data.", &[("reads", "")]),
    family("weir_received_bytes", Counter, "Bytes received from the network.", &[("bytes_in", "")]),
    family("weir_writes", Counter, "Calls of send that took data.", &[("writes", "")]),
    family("weir_sent_bytes", Counter, "Bytes sent to the network.", &[("bytes_out", "")]),
    family(
        "weir_held_back",
        Counter,
        "Times that a peer was read no more because it took too little of its output.",
        &[("held_back", "")],
    ),
    family(
        "weir_rate_pauses",
        Counter,
        "Times that a connection was not read for a while because of its rate.",
        &[("rate_pauses", "")],
    ),
    family(
        "weir_handshakes_put_off",
        Counter,
        "Times that a handshake had to wait for a later turn.",
        &[("put_off", "")],
    ),
    family(
        "weir_transport_errors",
        Counter,
        "Connections ended by TLS, WebSocket or the PROXY protocol.",
        &[("transport_errors", "")],
    ),
    family(
        "weir_accept_errors",
        Counter,
        "Connections that could not be accepted.",
        &[("accept_errors", "")],
    ),
    family(
        "weir_log_records",
        Counter,
        "Records written into the log on disk.",
        &[("records_logged", "")],
    ),
    family(
        "weir_log_waits",
        Gauge,
        "Answers that wait for the log on disk, now.",
        &[("log_waits", "")],
    ),
    family(
        "weir_pages_out",
        Counter,
        "Pages of queues that left memory for the disk.",
        &[("pages_out", "")],
    ),
    family(
        "weir_pages_in",
        Counter,
        "Pages of queues that came back into memory.",
        &[("pages_in", "")],
    ),
    family(
        "weir_store_records",
        Counter,
        "Records in commits of the store.",
        &[("store_records", "")],
    ),
    family("weir_store_commits", Counter, "Commits of the store.", &[("store_commits", "")]),
    family(
        "weir_store_committed_bytes",
        Counter,
        "Bytes committed by the store.",
        &[("store_committed_bytes", "")],
    ),
    family(
        "weir_store_bases",
        Counter,
        "Times that the log was written anew.",
        &[("store_bases", "")],
    ),
    family(
        "weir_store_disk_bytes",
        Gauge,
        "Bytes of the log on the disk.",
        &[("store_disk_bytes", "")],
    ),
    family_of_us(
        "weir_store_commit_seconds_max",
        Gauge,
        "The slowest commit since the start.",
        &[("store_commit_us_max", "")],
    ),
    family_of_us(
        "weir_store_commit_seconds",
        Counter,
        "Time that all commits of the store took together.",
        &[("store_commit_us_sum", "")],
    ),
    family("weir_store_pages", Gauge, "Pages of queues on the disk.", &[("store_pages", "")]),
    family(
        "weir_store_page_disk_bytes",
        Gauge,
        "Bytes of the files of pages.",
        &[("store_page_disk_bytes", "")],
    ),
    family(
        "weir_store_page_rewritten_bytes",
        Counter,
        "Bytes of pages copied so that their files could be reclaimed.",
        &[("store_page_rewritten_bytes", "")],
    ),
    family(
        "weir_passwords_checked",
        Counter,
        "Passwords of clients, by what became of them.",
        &[
            ("passwords_hashed", "result=\"hashed\""),
            ("passwords_known", "result=\"known\""),
            ("passwords_wrong", "result=\"wrong\""),
            ("passwords_busy", "result=\"busy\""),
        ],
    ),
    family(
        "weir_tokens_checked",
        Counter,
        "Tokens of clients, by what became of them.",
        &[
            ("tokens_checked", "result=\"checked\""),
            ("tokens_known", "result=\"known\""),
            ("tokens_wrong", "result=\"wrong\""),
        ],
    ),
    family(
        "weir_token_keys_fetched",
        Counter,
        "Fetches of the keys of tokens, by result.",
        &[("keys_fetched", "result=\"fetched\""), ("keys_failed", "result=\"failed\"")],
    ),
    family(
        "weir_auth_service_up",
        Gauge,
        "Whether the authentication service answered the last time.",
        &[("auth_service_up", "")],
    ),
    family(
        "weir_auth_service_requests",
        Counter,
        "Clients that the authentication service was asked about, those of the cache apart.",
        &[("auth_service_asked", "")],
    ),
    family(
        "weir_auth_service_answers",
        Counter,
        "Clients whose right to come in was asked for, by result.",
        &[
            ("auth_service_known", "result=\"known\""),
            ("auth_service_allowed", "result=\"allowed\""),
            ("auth_service_denied", "result=\"denied\""),
            ("auth_service_ignored", "result=\"ignored\""),
            ("auth_service_failed", "result=\"failed\""),
            ("auth_service_timed_out", "result=\"timed_out\""),
            ("auth_service_busy", "result=\"busy\""),
        ],
    ),
    family(
        "weir_auth_service_waiting",
        Gauge,
        "Clients that wait for an answer of the service, or about a token.",
        &[("auth_service_queue", "")],
    ),
    family_of_us(
        "weir_auth_service_seconds",
        Counter,
        "Time that all answers of the authentication service took together.",
        &[("auth_service_us_sum", "")],
    ),
    family_of_us(
        "weir_auth_service_seconds_max",
        Gauge,
        "Time that the longest answer of the authentication service took.",
        &[("auth_service_us_max", "")],
    ),
    family(
        "weir_client_log_lines_left_out",
        Counter,
        "Lines about clients left out of the log because there were too many.",
        &[("log_lines_left_out", "")],
    ),
    family(
        "weir_sys_events_dropped",
        Counter,
        "Clients that came or went and were not said below $SYS because there were too many.",
        &[("sys_events_dropped", "")],
    ),
    family(
        "weir_draining",
        Gauge,
        "Whether clients are sent to another server and none is let in.",
        &[("draining", "")],
    ),
    family(
        "weir_drain_sent_away",
        Gauge,
        "Clients that the drain which goes on has sent away.",
        &[("drain_sent_away", "")],
    ),
    family(
        "weir_drain_connections_left",
        Gauge,
        "Connections that the drain which goes on still has to end.",
        &[("drain_connections_left", "")],
    ),
    family(
        "weir_trace_packets",
        Counter,
        "Packets copied for traces, those with room and those without.",
        &[("trace_packets", "result=\"copied\""), ("trace_dropped", "result=\"dropped\"")],
    ),
    family(
        "weir_api_refusals",
        Counter,
        "Requests and connections of the API over TCP that were refused or ended, by reason.",
        &[
            ("api_connections_cut", "reason=\"connections_of_network\""),
            ("api_connections_displaced", "reason=\"place_for_another\""),
            ("api_unauthorized", "reason=\"no_known_token\""),
            ("api_forbidden", "reason=\"role\""),
            ("api_too_many", "reason=\"too_many_requests\""),
        ],
    ),
    family(
        "weir_log_lines_lost",
        Counter,
        "Lines lost because the log's writer was too slow.",
        &[("log_lines_lost", "")],
    ),
    family(
        "weir_memory_resident_bytes",
        Gauge,
        "Resident memory of the process.",
        &[("rss_bytes", "")],
    ),
    family(
        "weir_memory_ceiling_bytes",
        Gauge,
        "Resident memory at which the broker takes no more.",
        &[("rss_bytes_max", "")],
    ),
];
