//! What is in a payload beside the stamp, and how large each publisher's is.

use crate::plan::{Payload, Publish};
use crate::stamp::{STAMP_BYTES, TEXT_BEGIN, TEXT_BYTES};

/// A telemetry message as a tracker sends it: time, flags, type, position, inputs, parameters.
const MESSAGE: &str = concat!(
    r#"","t":1700000000,"f":1,"tp":"ud","#,
    r#""pos":{"y":53.9057,"x":27.4569,"z":221,"s":64,"c":118,"sc":12},"i":3,"o":1,"#,
    r#""p":{"hdop":0.8,"pwr_ext":13.7,"mcc":257,"mnc":2,"lac":78,"cell_id":29421},"pad":""#
);
const SHORT: &str = r#"","t":1700000000,"pad":""#;
const SHORTEST: &str = r#"""#;

/// The smallest payload of a kind.
pub fn bytes_min(payload: Payload) -> u32 {
    match payload {
        Payload::Bytes => STAMP_BYTES as u32,
        Payload::Json => (TEXT_BYTES + 2) as u32,
    }
}

/// The largest payload of a stream, without its stamp.
pub(crate) fn blank_of(publish: &Publish) -> Vec<u8> {
    blank(publish.payload, publish.payload_bytes.max(publish.payload_bytes_to.unwrap_or(0)))
}

/// A payload without its stamp.
fn blank(payload: Payload, bytes: u32) -> Vec<u8> {
    let bytes = bytes.max(bytes_min(payload)) as usize;
    if payload == Payload::Bytes {
        return vec![b'.'; bytes];
    }
    let mut text = Vec::with_capacity(bytes);
    text.extend_from_slice(TEXT_BEGIN);
    text.resize(TEXT_BYTES, b'0');
    let room = bytes - TEXT_BYTES;
    match [MESSAGE, SHORT].into_iter().find(|message| message.len() + 2 <= room) {
        Some(message) => {
            text.extend_from_slice(message.as_bytes());
            text.resize(bytes - 2, b'.');
            text.extend_from_slice(b"\"}");
        }
        // Too short for a filler: blanks before the end are JSON too.
        None => {
            text.extend_from_slice(SHORTEST.as_bytes());
            text.resize(bytes - 1, b' ');
            text.push(b'}');
        }
    }
    text
}

/// Payload bytes of the client at `place` of `clients`: sizes of a range are spread by ratio.
pub(crate) fn bytes_of(publish: &Publish, place: u32, clients: u32) -> u32 {
    let from = publish.payload_bytes;
    let Some(to) = publish.payload_bytes_to.filter(|_| clients > 1) else { return from };
    let share = f64::from(place) / f64::from(clients - 1);
    let bytes = f64::from(from) * (f64::from(to) / f64::from(from)).powf(share);
    bytes.round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_payload_of_every_size_is_json_of_that_size() {
        for bytes in bytes_min(Payload::Json)..600 {
            let text = blank(Payload::Json, bytes);
            assert_eq!(text.len(), bytes as usize);
            let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(value["w"].as_str().unwrap().len(), 32);
            let is_whole = bytes as usize >= TEXT_BYTES + MESSAGE.len() + 2;
            assert_eq!(value["pos"]["sc"] == 12, is_whole, "{bytes}");
            assert!(is_whole || bytes < 300, "the ingest use case sends whole ones");
        }
    }

    #[test]
    fn sizes_of_a_range_are_spread_by_ratio_with_both_ends_in_it() {
        let publish = Publish {
            payload_bytes: 1_024,
            payload_bytes_to: Some(1_048_576),
            ..Publish::default()
        };
        let sizes: Vec<u32> = (0..11).map(|place| bytes_of(&publish, place, 11)).collect();
        assert_eq!((sizes[0], sizes[5], sizes[10]), (1_024, 32_768, 1_048_576));
        assert!(sizes.is_sorted());
        assert_eq!(bytes_of(&publish, 0, 1), 1_024);
    }
}
