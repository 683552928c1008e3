//! A packet that is too large to wait for its rest at the memory ceiling. A PUBLISH is refused from
//! its start, and its rest is skipped by count: a client that was ended for it would come back with
//! the same message, and be ended again.

use super::connection::{Connection, Refusal};
use super::publish::NotTaken;
use super::{Next, Shard};
use crate::bounds::CEILING;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::sink::Sink;
use weir_wire::packet::Publish;
use weir_wire::{QoS, ReasonCode};

impl Shard {
    /// The start of a packet that may not wait for its rest. Says how many bytes are consumed.
    #[cold]
    pub(super) fn refuse_partial(
        &mut self,
        conn: ConnKey,
        bytes: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) -> usize {
        match self.skip_partial(conn, bytes, now, sink) {
            Ok(Next::Again) => 0,
            Ok(_) => bytes.len(),
            Err(refusal) => {
                self.end(conn, refusal, now, sink);
                0
            }
        }
    }

    fn skip_partial(
        &mut self,
        conn: ConnKey,
        bytes: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        let not_awaited = Refusal::new(ReasonCode::QuotaExceeded, CEILING);
        let live = self.connections.live(conn).ok_or(not_awaited)?;
        let (session, version) = (live.session, live.version);
        let (publish, packet_bytes) = Publish::decode_start(version, bytes)?.ok_or(not_awaited)?;
        if self.refuse_start(conn, session, &publish, now, sink)? == Next::Again {
            return Ok(Next::Again);
        }
        if let Some(live) = self.connections.get_mut(conn).and_then(Connection::live_mut) {
            live.cold().skipped_bytes = packet_bytes - bytes.len();
        }
        Ok(Next::Continue)
    }

    /// Refuses a message whose payload is not looked at. One that was taken before is acknowledged.
    fn refuse_start(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        let aliased = self.begin_publish(conn, publish, sink)?;
        let topic = aliased.as_deref().unwrap_or(publish.topic);
        if !self.is_new(session, publish)? {
            self.acknowledge_again(conn, session, publish, now, sink)?;
            return Ok(Next::Continue);
        }
        let not_taken = NotTaken { reason: ReasonCode::QuotaExceeded, detail: CEILING };
        // One at QoS 0 is dropped, as one that finds no room in an output.
        let is_dropped = publish.qos == QoS::AtMostOnce;
        if !is_dropped && self.put_back(conn, session, publish, sink) {
            return Ok(Next::Again);
        }
        let refused = self.refuse_message(conn, session, publish, topic, not_taken, now, sink);
        if is_dropped { Ok(Next::Continue) } else { refused.map(|()| Next::Continue) }
    }
}
