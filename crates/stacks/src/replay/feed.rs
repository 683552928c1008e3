//! The recorded feed: telemetry of Wialon's form, and its PUBLISH packets for one connection.
//!
//! A message ends with `"n":<number>}`, ten digits that count, so that a result names the message
//! it came from. The first digit is never 0: a JSON number may not begin with one.

use weir_chance::Chance;
use weir_wire::packet::Publish;
use weir_wire::{PacketId, Properties, QoS, Version};

/// Number of the first message; the last has ten digits, too.
pub const FIRST_NUMBER: u64 = 1_000_000_000;

/// Length of every payload.
pub const PAYLOAD_BYTES: usize = 300;

/// Different messages; then the feed begins anew, with other numbers.
const TEMPLATES: usize = 1_000;

/// One message in so many has all of `p.mcc`, `p.mnc`, `p.lac` and `p.cell_id`.
const CELL_EVERY: usize = 10;

/// Digits of a number.
const DIGITS: usize = 10;

/// What stands before the digits, and behind them.
const BEFORE: &str = "\"n\":";
const BEHIND: &str = "}";

/// A recorded message.
#[derive(Clone, Debug)]
pub struct Template {
    /// `ud/<device>`.
    pub topic: String,
    /// JSON, with the number of the first message.
    pub payload: Vec<u8>,
    /// Whether it has a whole cell.
    pub has_cell: bool,
}

/// Messages as they were recorded; the same ones always.
#[derive(Clone, Debug)]
pub struct Recorded(Vec<Template>);

impl Recorded {
    /// The feed.
    pub fn new() -> Self {
        let mut chance = Chance::new(0x5EED);
        Self((0..TEMPLATES).map(|at| template(at, &mut chance)).collect())
    }

    /// The message of a sequence.
    pub fn of(&self, sequence: u64) -> &Template {
        &self.0[(sequence % self.0.len() as u64) as usize]
    }

    /// Messages from `from` to before `to` that have a whole cell.
    pub fn cells(&self, from: u64, to: u64) -> u64 {
        (from..to).filter(|&sequence| self.of(sequence).has_cell).count() as u64
    }

    /// The sequence that a payload names, if it is one of the feed's: it ends as they do.
    pub fn sequence(payload: &[u8]) -> Option<u64> {
        let text = payload.strip_suffix(BEHIND.as_bytes())?;
        let (head, digits) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
        if !head.ends_with(BEFORE.as_bytes()) || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = |number, digit: &u8| number * 10 + u64::from(digit - b'0');
        digits.iter().fold(0_u64, value).checked_sub(FIRST_NUMBER)
    }

    /// Whether a payload is that of its sequence, byte for byte.
    pub fn is_whole(&self, sequence: u64, payload: &[u8]) -> bool {
        let head = PAYLOAD_BYTES - DIGITS - BEHIND.len();
        payload.len() == PAYLOAD_BYTES && payload[..head] == self.of(sequence).payload[..head]
    }
}

impl Default for Recorded {
    fn default() -> Self {
        Self::new()
    }
}

fn template(at: usize, chance: &mut Chance) -> Template {
    let mut of = |low: u64, high: u64| low + chance.bits() % (high - low);
    let has_cell = at % CELL_EVERY == 3;
    // Some have a part of a cell: what looks at one field only is wrong.
    let cell = match at % CELL_EVERY {
        3 => format!(
            "\"mcc\":{},\"mnc\":{},\"lac\":{},\"cell_id\":{},",
            of(200, 750),
            of(1, 99),
            of(1, 65_535),
            of(1, 268_435_455)
        ),
        6 => format!("\"mcc\":{},\"mnc\":{},\"lac\":{},", of(200, 750), of(1, 99), of(1, 65_535)),
        8 => format!("\"mcc\":{},\"cell_id\":{},", of(200, 750), of(1, 65_535)),
        _ => String::new(),
    };
    let head = format!(
        "{{\"t\":{},\"f\":{},\"tp\":\"ud\",\"pos\":{{\"y\":{}.{:06},\"x\":{}.{:06},\"z\":{},\
         \"s\":{},\"c\":{},\"sc\":{}}},\"i\":{},\"o\":{},\"p\":{{{cell}\"hdop\":{}.{},\
         \"pwr_ext\":{}.{:03},\"pwr_int\":{}.{:03},\"mileage\":{}.{},\"gsm\":{},\"event\":\"",
        of(1_772_000_000, 1_775_000_000),
        of(1, 8),
        of(35, 70),
        of(0, 1_000_000),
        of(10, 140),
        of(0, 1_000_000),
        of(0, 900),
        of(0, 130),
        of(0, 360),
        of(4, 22),
        of(0, 256),
        of(0, 16),
        of(0, 4),
        of(1, 10),
        of(11, 29),
        of(0, 1_000),
        of(3, 5),
        of(0, 1_000),
        of(0, 900_000),
        of(0, 10),
        of(0, 32),
    );
    let tail = format!("\"}},{BEFORE}{FIRST_NUMBER}{BEHIND}");
    // A trace of letters makes all of them equally long.
    let length = PAYLOAD_BYTES - head.len() - tail.len();
    let event: String = (0..length).map(|_| char::from(b'a' + of(0, 26) as u8)).collect();
    let topic = format!("ud/{}", of(100_000_000_000_000, 999_999_999_999_999));
    Template { topic, payload: (head + &event + &tail).into_bytes(), has_cell }
}

/// The feed's packets for one connection, one after the other in memory.
pub(super) struct Feed {
    bytes: Vec<u8>,
    packets: Vec<Place>,
}

/// Where a packet is, and what is patched into it.
struct Place {
    start: usize,
    end: usize,
    digits_at: usize,
    packet_id_at: Option<usize>,
}

impl Feed {
    pub(super) fn new(recorded: &Recorded, version: Version, qos: QoS) -> Self {
        let mut bytes = Vec::new();
        let place = |template: &Template| {
            let start = bytes.len();
            let packet_id = (qos != QoS::AtMostOnce).then_some(PacketId::FIRST);
            let (topic, payload) = (&*template.topic, &*template.payload);
            let (dup, retain, properties) = (false, false, Properties::EMPTY);
            let publish = Publish { dup, qos, retain, topic, packet_id, properties, payload };
            let packet_id_at = publish.encode(version, &mut bytes).packet_id_at;
            let digits_at = bytes.len() - BEHIND.len() - DIGITS;
            Place { start, end: bytes.len(), digits_at, packet_id_at }
        };
        let packets = recorded.0.iter().map(place).collect();
        Self { bytes, packets }
    }

    /// The packet of a sequence, with its number and packet identifier.
    pub(super) fn stamp(&mut self, sequence: u64, packet_id: Option<PacketId>) -> &[u8] {
        let Self { bytes, packets } = self;
        let place = &packets[(sequence % packets.len() as u64) as usize];
        let mut number = FIRST_NUMBER + sequence;
        for digit in bytes[place.digits_at..place.digits_at + DIGITS].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        if let (Some(at), Some(packet_id)) = (place.packet_id_at, packet_id) {
            bytes[at..at + 2].copy_from_slice(&packet_id.value().to_be_bytes());
        }
        &bytes[place.start..place.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Frame, Packet};

    #[test]
    fn every_message_is_json_of_the_same_length_and_one_in_ten_has_a_cell() {
        let recorded = Recorded::new();
        for template in &recorded.0 {
            assert_eq!(template.payload.len(), PAYLOAD_BYTES);
            let json: serde_json::Value = serde_json::from_slice(&template.payload).unwrap();
            let has = |key: &str| json["p"].get(key).is_some();
            let has_cell = ["mcc", "mnc", "lac", "cell_id"].into_iter().all(has);
            assert_eq!(has_cell, template.has_cell, "{json}");
            assert_eq!(json["tp"], "ud");
            assert_eq!(json["n"], FIRST_NUMBER);
        }
        assert_eq!(recorded.cells(0, 1_000), 100);
        assert_eq!(recorded.cells(995, 1_015), 2);
    }

    #[test]
    fn a_stamped_packet_is_that_of_its_sequence_in_both_versions() {
        let recorded = Recorded::new();
        for version in [Version::V311, Version::V5] {
            for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
                let mut feed = Feed::new(&recorded, version, qos);
                let id = (qos != QoS::AtMostOnce).then(|| PacketId::new(0x1234).unwrap());
                for sequence in [0, 7, 999, 1_000, 8_999_999_999] {
                    let bytes = feed.stamp(sequence, id);
                    let frame = Frame::check(bytes, u32::MAX).unwrap().unwrap();
                    assert_eq!(frame.bytes, bytes.len());
                    let Ok(Packet::Publish(publish)) = Packet::decode(version, frame) else {
                        panic!("no PUBLISH")
                    };
                    assert_eq!((publish.qos, publish.packet_id), (qos, id));
                    assert_eq!(publish.topic, recorded.of(sequence).topic);
                    assert_eq!(Recorded::sequence(publish.payload), Some(sequence));
                    assert!(recorded.is_whole(sequence, publish.payload));
                    assert!(!recorded.is_whole(sequence + 1, publish.payload));
                }
            }
        }
    }

    #[test]
    fn what_is_not_of_the_feed_names_no_sequence() {
        let wrong = ["", "}", "{\"n\":12}", "{\"n\":0000000012}", "{\"n\": 1000000000}", "n"];
        for text in wrong {
            assert_eq!(Recorded::sequence(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Recorded::sequence(b"{\"n\":1000000012}"), Some(12));
    }
}
