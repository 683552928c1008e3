//! What comes of a session that is handed over, as records.

use crate::keys::Micros;
use crate::parcel::{Content, MovedSession, MovedSubscription, Parcel};
use crate::rebuild::{Rebuild, kept_will};
use crate::record::{BadRecord, Record, Wall, run};
use crate::session::Absence;

/// What is said of a session first.
pub(super) struct Head {
    pub(super) client_id: Box<str>,
    pub(super) expiry_s: u32,
    /// If it had a will that waits, or a time to end.
    pub(super) absence: Option<Box<Absence>>,
    pub(super) subscriptions: Vec<MovedSubscription>,
}

impl Head {
    pub(super) fn read(records: &[u8], wall: Wall) -> Result<Self, BadRecord> {
        let (mut session, mut subscriptions) = (None, Vec::new());
        let (mut kept, mut absence) = (None, None);
        for record in run::read(records, wall) {
            match record?.1 {
                Record::Session { client_id, expiry_s, will, .. } => {
                    session = Some((Box::from(client_id), expiry_s));
                    kept = will.as_ref().map(kept_will);
                }
                Record::Absent { expires_at, will_at, .. } => {
                    absence = Some(Box::new(Absence { will: kept.take(), will_at, expires_at }));
                }
                Record::Subscribed { name, condition, options, subscription_id, .. } => {
                    let (name, condition) = (name.into(), condition.map(Into::into));
                    let moved = MovedSubscription { name, condition, options, subscription_id };
                    subscriptions.push(moved);
                }
                _ => {}
            }
        }
        let (client_id, expiry_s) = session.ok_or(BadRecord::Malformed("no session"))?;
        Ok(Self { client_id, expiry_s, absence, subscriptions })
    }
}

/// What is in flight of a session; nothing if it is over.
pub(super) fn state(records: &[u8], wall: Wall, now: Micros) -> Option<MovedSession> {
    let mut rebuild = Rebuild::default();
    for record in run::read(records, wall) {
        let (lsn, record) = record.ok()?;
        rebuild.apply(lsn, record).ok()?;
    }
    let parcels = rebuild.finish(now, |_| Err(())).ok()?;
    match parcels.into_iter().next()? {
        Parcel(Content::Session(moved)) => Some(*moved),
        Parcel(_) => None,
    }
}
