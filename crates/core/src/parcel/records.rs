//! A parcel from a log as the records that say the same: what a log that is written by hand,
//! without a shard, has of it.

use super::{Content, MovedSession, Parcel};
use crate::anew::{SessionAnew, retained_record};
use crate::base::Renamed;
use crate::keys::Lsn;
use crate::record::Record;

impl Parcel {
    /// Tells of the records of a session or a retained message, in the order in which a base has
    /// them; `log` gives each its number. A message that several sessions are to get is told once,
    /// and `named` remembers its number. A client that was let in has no records.
    pub fn tell_records(&self, named: &mut Renamed, log: &mut impl FnMut(&Record<'_>) -> Lsn) {
        match &self.0 {
            Content::Session(moved) => {
                session(moved).tell(named, log);
            }
            Content::Retained(message) => {
                log(&retained_record(message));
            }
            Content::Admitted(_) => {}
        }
    }
}

fn session(moved: &MovedSession) -> SessionAnew<'_, impl Iterator<Item = weir_wire::PacketId>> {
    let absence = moved.absence.as_deref();
    let deadlines = absence.map(|absence| (absence.expires_at, absence.will_at));
    SessionAnew {
        client_id: &moved.client_id,
        expiry_s: moved.expiry_s,
        will: absence.and_then(|absence| absence.will.as_deref()),
        deadlines: Some(deadlines.unwrap_or_default()),
        subscriptions: &moved.subscriptions,
        unreleased: moved.unreleased.iter().copied(),
        window: &moved.window,
    }
}
