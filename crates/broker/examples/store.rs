//! A store of so many sessions with a queued message each, and retained messages, to measure how
//! long a start takes:
//!
//!     cargo run --release -p weir-broker --example store -- DIR [SESSIONS [RETAINED [PAYLOAD]]]
//!     weir broker --store DIR --log-level info

use weir_broker::{NoStore, StoreWriter};
use weir_core::{Lsn, Record};
use weir_wire::QoS;
use weir_wire::packet::SubscriptionOptions;

fn main() -> Result<(), NoStore> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().expect("a folder");
    let mut number =
        |default: u64| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (sessions, retained, payload) = (number(1_000_000), number(100_000), number(100));
    let payload = vec![b'x'; payload as usize];
    let mut store = StoreWriter::create(root.as_ref())?;
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
