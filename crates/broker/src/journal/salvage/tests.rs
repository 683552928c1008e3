//! A log that is harmed in one place, and what a salvage makes of it.

use super::*;
use crate::journal::read::StoreReader;
use weir_wire::QoS;

/// Appends a session with a message of its own.
fn session(store: &mut StoreWriter, client_id: &str) {
    let (session, expiry_s, will) = (Lsn::NONE, u32::MAX, None);
    let session = store.append(&Record::Session { session, client_id, expiry_s, will }).unwrap();
    let (payload, topic) = (format!("for {client_id}"), "t");
    let (properties, qos, retain, expires_at) = (&[][..], QoS::AtLeastOnce, false, None);
    let payload = payload.as_bytes();
    let record = Record::Message { topic, payload, properties, qos, retain, expires_at };
    let message = store.append(&record).unwrap();
    let (subscription_ids, packet_id) = ((&[][..]).into(), None);
    let record = Record::Queued { session, message, qos, retain, subscription_ids, packet_id };
    store.append(&record).unwrap();
    // A commit of its own.
    store.write_out().unwrap();
}

/// A store whose sessions are logged, then logged anew if that is asked for, and harmed at the
/// first place where a text is. Says what is kept, and what is lost.
fn salvaged(is_logged_anew: bool, harmed: &str) -> (Amounts, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = StoreWriter::create(folder.path()).unwrap();
    ["first", "second", "third"].into_iter().for_each(|name| session(&mut store, name));
    if is_logged_anew {
        store.append(&Record::BaseEnd).unwrap();
        store.append(&Record::Base).unwrap();
        ["first", "second", "third"].into_iter().for_each(|name| session(&mut store, name));
    }
    store.finish().unwrap();
    let file = folder.path().join("generation-1/0/0000000001.log");
    let mut bytes = std::fs::read(&file).unwrap();
    let found = bytes.windows(harmed.len()).position(|part| part == harmed.as_bytes()).unwrap();
    bytes[found] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let mut lost = Vec::new();
    let salvaged = salvage(folder.path(), None, |loss| lost.push(loss.to_string()));
    let salvaged = salvaged.unwrap().expect("it is damaged");
    let reader = StoreReader::open(folder.path()).unwrap();
    let check = &reader.check().unwrap()[0];
    assert!(check.damages.is_empty() && check.amounts == salvaged.kept, "{check:?}");
    assert!(salvaged.aside.unwrap().join("0/0000000001.log").exists());
    (salvaged.kept, lost)
}

#[test]
fn what_is_lost_is_named_as_far_as_whole_records_do() {
    let (kept, lost) = salvaged(false, "for second");
    assert_eq!((kept.sessions, kept.queued), (3, 2), "{lost:#?}");
    assert!(lost[0].contains("0000000001.log is damaged at byte "), "{lost:#?}");
    assert_eq!(lost[1], "lost: record 1.6");
    assert_eq!(lost[2], "lost: a message for client \"second\" (record 1.6)");
    let is_in_doubt =
        |name: &str| lost.contains(&Loss::InDoubt { client_id: name.into() }.to_string());
    assert_eq!(["first", "second", "third"].map(is_in_doubt), [true, true, false], "{lost:#?}");

    let (kept, lost) = salvaged(false, "second");
    assert_eq!((kept.sessions, kept.queued), (2, 2), "{lost:#?}");
    let nameless = "lost: a session whose client identifier is lost (record 1.5), subscribed to \
                    [], with 1 messages";
    assert!(lost.iter().any(|line| line == nameless), "{lost:#?}");
}

#[test]
fn nothing_is_lost_by_damage_before_a_whole_base() {
    let (kept, lost) = salvaged(true, "for second");
    assert_eq!((kept.sessions, kept.queued), (3, 3), "{lost:#?}");
    assert_eq!((lost.len(), lost[1].as_str()), (2, Loss::Nothing.to_string().as_str()));
}
