//! A store of so many sessions with a queued message each, and retained messages, to measure how
//! long a start takes; before them in the log, so many bytes of messages that came and went:
//!
//!     cargo run --release -p weir-broker --example store -- \
//!         DIR [SESSIONS [RETAINED [PAYLOAD [TRAFFIC]]]]
//!     weir broker --store DIR --log-level info

use weir_broker::{NoStore, StoreWriter};
use weir_core::{Lsn, Record};
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{PacketId, QoS};

fn main() -> Result<(), NoStore> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().expect("a folder");
    let mut number =
        |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (sessions, retained, payload) = (number(1_000_000), number(100_000), number(100));
    let traffic_bytes = number(0);
    let payload = vec![b'x'; payload as usize];
    let mut store = StoreWriter::create(root.as_ref())?;
    if traffic_bytes > 0 {
        traffic(&mut store, traffic_bytes, &payload)?;
    }
    for number in 0..sessions {
        session(&mut store, number, &payload)?;
    }
    for number in 0..retained {
        store.append(&Record::Retained {
            topic: &format!("site/{}/device/{number}/state", number % 100),
            payload: &payload,
            properties: &[],
            qos: QoS::AtLeastOnce,
            expires_at: None,
        })?;
    }
    store.finish()
}

/// A session that is away, with its own subscription and a message of its own.
fn session(store: &mut StoreWriter, number: u64, payload: &[u8]) -> Result<(), NoStore> {
    let topic = &*format!("site/{}/device/{number}/command", number % 100);
    let (session, qos) = (Lsn::NONE, QoS::AtLeastOnce);
    let client_id = &*format!("device-{number:07}");
    let expiry_s = u32::MAX;
    let session = store.append(&Record::Session { session, client_id, expiry_s, will: None })?;
    store.append(&Record::Absent { session, expires_at: None, will_at: None })?;
    let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
    let (name, condition, subscription_id) = (topic, None, None);
    store.append(&Record::Subscribed { session, name, condition, options, subscription_id })?;
    let (retain, properties, expires_at) = (false, &[][..], None);
    let record = Record::Message { topic, payload, properties, qos, retain, expires_at };
    let message = store.append(&record)?;
    let (subscription_ids, packet_id) = ((&[][..]).into(), None);
    let record = Record::Queued { session, message, qos, retain, subscription_ids, packet_id };
    store.append(&record).map(drop)
}

/// What a record has in front of its body, and what a message has beside its payload, about.
const BESIDE_BYTES: u64 = 28;

/// Messages that a session got and acknowledged, 100 of them on their way at a time. Then the log
/// is written anew, without it.
fn traffic(store: &mut StoreWriter, bytes: u64, payload: &[u8]) -> Result<(), NoStore> {
    store.append(&Record::BaseEnd)?;
    let (session, client_id, qos) = (Lsn::NONE, "traffic", QoS::AtLeastOnce);
    let expiry_s = u32::MAX;
    let session = store.append(&Record::Session { session, client_id, expiry_s, will: None })?;
    let (topic, retain, properties, expires_at) = ("traffic", false, &[][..], None);
    let id = |number: u64| PacketId::new((number % 50_000) as u16 + 1);
    let (mut number, mut written) = (0, 0);
    while written < bytes {
        let record = Record::Message { topic, payload, properties, qos, retain, expires_at };
        store.begin_input();
        let message = store.append(&record)?;
        let (subscription_ids, packet_id) = ((&[][..]).into(), id(number));
        let record = Record::Queued { session, message, qos, retain, subscription_ids, packet_id };
        store.append(&record)?;
        if let Some(packet_id) = number.checked_sub(100).and_then(id) {
            store.begin_input();
            store.append(&Record::Done { session, packet_id })?;
        }
        number += 1;
        written += payload.len() as u64 + 4 * BESIDE_BYTES;
    }
    store.begin_input();
    store.append(&Record::Gone { session })?;
    store.begin_input();
    store.append(&Record::Base).map(drop)
}
