//! Files as Mosquitto writes them, and such as nobody does.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]
#![expect(clippy::little_endian_bytes, reason = "so it is in the file")]

#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/mosquitto.rs"]
mod fuzzed;

use proptest::collection::vec;
use proptest::prelude::*;
use std::convert::Infallible;
use std::path::Path;
use weir_core::{Lsn, Micros, Record};
use weir_mosquitto::{Database, Imported, LeftOut};

const NOW: Micros = Micros(1_000_000_000);

/// A file, chunk by chunk.
#[derive(Clone, Debug)]
struct File(Vec<u8>);

impl File {
    fn new(version: u32) -> Self {
        let mut file = Self(b"\0\xB5\0mosquitto db\0\0\0\0".to_vec());
        file.0.extend(version.to_be_bytes());
        let mut configuration = 9_u64.to_le_bytes().to_vec();
        configuration.extend([0, 8, 0, 0, 0, 0, 0, 0]);
        file.chunk(1, &configuration);
        file
    }

    fn chunk(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        self.0.extend(kind.to_be_bytes());
        self.0.extend((body.len() as u32).to_be_bytes());
        self.0.extend(body);
        self
    }

    fn message(&mut self, number: u64, topic: &str, qos: u8, retain: bool) -> &mut Self {
        let payload = format!("payload {number}");
        let mut body = number.to_le_bytes().to_vec();
        body.extend(0_i64.to_le_bytes());
        body.extend((payload.len() as u32).to_be_bytes());
        // Packet identifier, publisher, its user name, topic, port.
        for field in [1, 3, 0, topic.len() as u16, 1883] {
            body.extend(field.to_be_bytes());
        }
        body.extend([qos, u8::from(retain)]);
        body.extend(b"pub");
        body.extend(topic.as_bytes());
        body.extend(payload.as_bytes());
        // A payload format indicator.
        body.extend([2, 1, 1]);
        self.chunk(2, &body)
    }

    fn client(&mut self, version: u32, client_id: &str, expiry_s: u32, at: i64) -> &mut Self {
        let mut body = at.to_le_bytes().to_vec();
        body.extend(expiry_s.to_be_bytes());
        body.extend(7_u16.to_be_bytes());
        body.extend((client_id.len() as u16).to_be_bytes());
        if version > 5 {
            // Port, user name, nothing.
            body.extend([7, 91, 0, 4, 0, 0, 0, 0]);
        }
        body.extend(client_id.as_bytes());
        if version > 5 {
            body.extend(b"user");
        }
        self.chunk(6, &body)
    }

    /// State and direction as Mosquitto numbers them.
    fn delivery(
        &mut self,
        client_id: &str,
        message: u64,
        (packet_id, qos): (u16, u8),
        (state, direction): (u8, u8),
    ) -> &mut Self {
        let mut body = message.to_le_bytes().to_vec();
        body.extend(packet_id.to_be_bytes());
        body.extend((client_id.len() as u16).to_be_bytes());
        body.extend([qos, state, 0x10, direction]);
        body.extend(client_id.as_bytes());
        self.chunk(3, &body)
    }

    fn subscription(&mut self, client_id: &str, filter: &str, options: u8) -> &mut Self {
        let mut body = 5_u32.to_be_bytes().to_vec();
        body.extend((client_id.len() as u16).to_be_bytes());
        body.extend((filter.len() as u16).to_be_bytes());
        body.extend([options & 3, options & 0xFC, 0, 0]);
        body.extend(client_id.as_bytes());
        body.extend(filter.as_bytes());
        self.chunk(5, &body)
    }

    fn retained(&mut self, number: u64) -> &mut Self {
        self.chunk(4, &number.to_le_bytes())
    }

    /// What is told, record by record, and the numbers.
    fn told(&self) -> (Vec<String>, Imported) {
        fuzzed::check(&self.0);
        let database = Database::read(&self.0).unwrap();
        let mut all: Vec<String> = Vec::new();
        let imported = database.tell(NOW, 1 << 20, |record: &Record<'_>| {
            all.push(format!("{record:?}"));
            Ok::<_, Infallible>(Lsn(all.len() as u64))
        });
        let imported = imported.unwrap_or_else(|never| match never {});
        (all, imported)
    }
}

fn whole(version: u32) -> File {
    let mut file = File::new(version);
    file.message(1, "t/1", 1, false).message(2, "t/2", 2, true).message(3, "in", 2, false);
    file.client(version, "away", u32::MAX, 0);
    file.delivery("away", 1, (4, 1), (3, 1)).delivery("away", 2, (5, 2), (9, 1));
    file.delivery("away", 2, (0, 2), (11, 1)).delivery("away", 1, (0, 1), (11, 1));
    file.client(version, "publisher", 60, 1_030).delivery("publisher", 3, (9, 2), (7, 0));
    file.subscription("away", "t/#", 1).subscription("away", "in", 0b1110);
    file.retained(2);
    file
}

#[test]
fn sessions_with_all_that_is_theirs_and_retained_messages_are_told() {
    for version in [5, 6] {
        let (all, imported) = whole(version).told();
        let Imported { sessions, subscriptions, queued, in_flight, retained, left_out, .. } =
            imported;
        assert_eq!((sessions, subscriptions, queued, in_flight, retained), (2, 2, 3, 2, 1));
        assert!(left_out.is_empty(), "{left_out:?}");
        let kinds: Vec<&str> = all.iter().map(|one| one.split(' ').next().unwrap()).collect();
        let expected = "Session Absent Subscribed Subscribed Message Queued Received Message \
                        Queued Queued Message Queued Session Absent Noted Retained";
        assert_eq!(kinds.join(" "), expected, "{all:#?}");
        assert!(all[5].contains("AtLeastOnce") && all[5].contains("PacketId(4)"), "{}", all[5]);
        // The message that was not released has gone to its subscriber.
        assert!(
            all[11].contains("ExactlyOnce, retain: false, subscription_ids: [5]"),
            "{}",
            all[11]
        );
        assert!(all[13].contains("Some(Micros(1030000000))"), "{}", all[13]);
    }
}

#[test]
fn what_is_left_out_is_counted() {
    let mut file = File::new(6);
    file.message(1, "t", 1, false);
    file.client(6, "over", 10, 999).client(6, "away", u32::MAX, 0);
    file.delivery("away", 1, (0, 0), (11, 1)).delivery("away", 8, (0, 1), (11, 1));
    // Identifiers go back.
    file.delivery("away", 1, (7, 1), (3, 1)).delivery("away", 1, (6, 1), (3, 1));
    file.delivery("away", 1, (5, 2), (9, 1)).delivery("away", 1, (0, 2), (11, 0));
    file.subscription("away", "a/#/b", 1).subscription("away", "$filter/x/y", 1);
    file.subscription("nobody", "t", 1).retained(9).chunk(99, b"?");
    let (_, imported) = file.told();
    let expected = [
        (LeftOut::ExpiredSession, 1),
        (LeftOut::AtMostOnce, 1),
        (LeftOut::NoMessage, 2),
        (LeftOut::NoClient, 1),
        (LeftOut::Filter, 2),
        (LeftOut::Renumbered, 1),
        (LeftOut::OutOfOrder, 1),
        (LeftOut::Unanswered, 1),
        (LeftOut::UnknownChunk, 1),
    ];
    assert_eq!(Vec::from_iter(imported.left_out), expected);
    assert_eq!((imported.queued, imported.in_flight), (1, 1));
}

#[test]
fn an_error_says_at_which_byte_the_file_is_none() {
    let said = |bytes: &[u8]| Database::read(bytes).unwrap_err().to_string();
    assert_eq!(said(b""), "byte 0: this is no persistence file of Mosquitto's");
    assert!(said(&File::new(7).0).starts_with("byte 19: a format other than 5 and 6"));
    let file = whole(6).0;
    let at = |found: &[u8]| file.windows(found.len()).position(|part| part == found).unwrap();
    let mut other = file.clone();
    other[at(b"t/1")] = b'#';
    let expected = format!("byte {}: a topic that no message can have", at(b"t/1"));
    assert_eq!(said(&other), expected);
    // A length that says more than is there.
    let mut other = file.clone();
    other[27] = 0xFF;
    assert_eq!(said(&other), "byte 31: it ends inside a field");
}

#[test]
fn what_the_fuzzer_found_is_mended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/mosquitto_db");
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        fuzzed::check(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}

proptest! {
    #[test]
    fn no_bytes_do_harm(harm in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut: bool) {
        let mut file = whole(6).0;
        for (at, byte) in harm {
            let at = at.index(file.len());
            file[at] = byte;
            if cut {
                file.truncate(at.max(23));
            }
        }
        fuzzed::check(&file);
    }
}
