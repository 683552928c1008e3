//! Reason strings: why something failed, in words, for clients that asked for it.

use super::connection::Refusal;
use crate::session::{Attachment, Session};
use weir_wire::{PropertiesBuf, Property, ReasonCode, packet_bytes};

/// A Reason String, if the client wants problem information \[MQTT-3.1.2-29\] and a packet of
/// `bytes` without it stays within what the client takes. Every `detail` is a literal that is short
/// enough for the property length to stay one byte long.
pub(super) fn reason_string(attachment: &Attachment, detail: &str, bytes: usize) -> PropertiesBuf {
    let mut properties = PropertiesBuf::new();
    // Identifier and length.
    let bytes = bytes + 3 + detail.len();
    if attachment.wants_problems
        && !detail.is_empty()
        && bytes <= attachment.packet_bytes_max as usize
    {
        properties.push(Property::ReasonString(detail));
    }
    properties
}

/// Bytes of what a client is told of its condition; the rest is cut off.
const CONDITION_REASON_BYTES_MAX: usize = 512;

/// As [`reason_string`], for a SUBACK with so many codes that says what is wrong with a condition.
pub(super) fn suback_properties(session: &Session, detail: &str, codes: usize) -> PropertiesBuf {
    let mut properties = PropertiesBuf::new();
    let Some(attachment) = session
        .attachment
        .filter(|attachment| attachment.wants_problems && attachment.version.is_v5())
    else {
        return properties;
    };
    let end = detail.floor_char_boundary(CONDITION_REASON_BYTES_MAX);
    // Packet identifier, two bytes of property length, identifier and length of the string.
    let bytes = packet_bytes(2 + 2 + 3 + end + codes);
    if end > 0 && bytes <= attachment.packet_bytes_max as usize {
        properties.push(Property::ReasonString(&detail[..end]));
    }
    properties
}

/// Whether the client takes the SUBACK or UNSUBACK for filters that take so many `bytes`
/// \[MQTT-3.1.2-24\]. Asked before anything is done: what cannot be answered ends the connection.
/// They are counted only for clients that take little.
pub(super) fn check_answer(
    attachment: &Attachment,
    bytes: usize,
    count: impl FnOnce() -> usize,
) -> Result<(), Refusal> {
    // Packet identifier, an empty property length, a code a filter.
    let is_too_large =
        |codes: usize| packet_bytes(2 + 1 + codes) > attachment.packet_bytes_max as usize;
    // A filter takes three bytes at least.
    if is_too_large(bytes / 3) && is_too_large(count()) {
        let detail = "an answer to each filter is more than the client takes";
        return Err(Refusal::new(ReasonCode::PacketTooLarge, detail));
    }
    Ok(())
}
