//! Topics that are the broker's own: what it says of itself below `$SYS`.
//!
//! No client publishes there (section 4.7.2 of the standard), so whatever is retained there is the
//! broker's word. It is as old as the process: it counts against no bound of clients', and goes
//! into no log.

/// Whether only the broker may publish to a topic.
#[inline]
pub(crate) fn is_brokers_own(topic: &str) -> bool {
    topic.starts_with('$') && is_below_sys(topic)
}

/// Bridges of Mosquitto say below `$SYS` whether they are there, as retained message and will, and
/// may.
#[cold]
fn is_below_sys(topic: &str) -> bool {
    let Some(below) = topic.strip_prefix("$SYS/") else { return topic == "$SYS" };
    let name = below.strip_prefix("broker/connection/").and_then(|it| it.strip_suffix("/state"));
    name.is_none_or(|name| name.contains('/'))
}
