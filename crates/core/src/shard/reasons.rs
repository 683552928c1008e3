//! Reason strings: why something failed, in words, for clients that asked for it.

use crate::session::Link;
use weir_wire::{PropertiesBuf, Property};

/// A Reason String, if the client wants problem information \[MQTT-3.1.2-29\] and a packet of
/// `bytes` without it stays within what the client takes. Every `detail` is a literal that is short
/// enough for the property length to stay one byte long.
pub(super) fn reason_string(link: &Link, detail: &str, bytes: usize) -> PropertiesBuf {
    let mut properties = PropertiesBuf::new();
    // Identifier and length.
    let bytes = bytes + 3 + detail.len();
    if link.wants_problems && !detail.is_empty() && bytes <= link.packet_bytes_max as usize {
        properties.push(Property::ReasonString(detail));
    }
    properties
}
