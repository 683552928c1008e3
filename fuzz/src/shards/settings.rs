//! Settings with bounds so small that a script reaches them.

use weir_core::{
    Features, Limits, Settings, SharePolicy, ShareRule, ShareStrategy, WhenAbsent, WhenConnected,
};
use weir_wire::QoS;

/// The settings that the bits of a byte choose. Bit 0 is not theirs.
pub fn settings(byte: u8) -> Settings {
    let is_set = |bit: u8| byte & 1 << bit != 0;
    let (queue_full_connected, queue_full_absent) = match byte >> 1 & 0b11 {
        0 => (WhenConnected::EndConnection, WhenAbsent::DropOldest),
        1 => (WhenConnected::EndConnection, WhenAbsent::EndSession),
        2 => (WhenConnected::RefusePublisher, WhenAbsent::DropOldest),
        _ => (WhenConnected::RefusePublisher, WhenAbsent::RefusePublisher),
    };
    let limits = Limits {
        client_share_percent: 75,
        sessions_max: 8,
        packet_bytes_max: 2000,
        connect_timeout_s: 10,
        // The shell's.
        messages_per_second_max: 0,
        bytes_per_second_max: 0,
        answers_held_max: 3,
        answer_wait_s_max: 5,
        client_id_bytes_max: 24,
        in_flight_max: 3,
        receive_maximum: 3,
        queue_messages_max: 4,
        queue_bytes_max: 700,
        queue_full_connected,
        queue_full_absent,
        output_bytes_max: 300,
        subscriptions_max: 5,
        subscription_bytes_max: 100,
        filter_shapes_max: 3,
        filter_shapes_total_max: 5,
        // Two filters of a SUBSCRIBE, or a page of retained messages, and hardly ever.
        input_steps_max: if is_set(7) { 20 } else { 2_048 },
        conditions_max: 3,
        conditions_per_session_max: 2,
        rule_depth_max: 2,
        rule_results_max: 8,
        topic_levels_max: 5,
        topic_bytes_max: 40,
        topic_alias_maximum: 3,
        topic_alias_out_max: 3,
        retained_messages_max: 4,
        retained_bytes_max: 900,
        session_expiry_s_max: 1000,
    };
    let mut features = Features { authentication: is_set(3), ..Features::default() };
    if is_set(4) {
        features.qos_max = QoS::AtLeastOnce;
        features.wildcard_subscriptions = false;
        features.subscription_identifiers = false;
        features.response_information = "r".into();
    }
    if is_set(5) {
        features.server_keep_alive_s = 20;
    }
    let strategy = if is_set(6) { ShareStrategy::Hash } else { ShareStrategy::Random };
    let rules = vec![ShareRule { prefix: "sticky".into(), strategy }];
    Settings { limits, features, share: SharePolicy { rules } }
}
