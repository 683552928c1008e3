//! What other shards say of a message whose acknowledgement waits for them.
//!
//! What one of them refuses is new when it comes again. A publisher of QoS 2 may be gone when they
//! have their say, so the answer outlives its connection: a refusal takes the identifier out of the
//! session, and a publisher that comes back before waits for the same verdict.

use super::Shard;
use super::connection::Refusal;
use super::publish::NotTaken;
use crate::answers::{AckReply, Answer, Reply};
use crate::keys::{ConnKey, Micros, SessionKey, ShardId, Ticket};
use crate::mail::Mail;
use crate::sink::Sink;
use weir_wire::packet::Publish;
use weir_wire::{QoS, ReasonCode};

impl Shard {
    /// Another shard had no room for a message of this one's client.
    pub(super) fn on_refused(
        &mut self,
        from: ShardId,
        topic: &str,
        number: u64,
        detail: &'static str,
        sink: &mut impl Sink,
    ) {
        if let Some(ticket) = self.answers.receipts.waiting_for(from, number) {
            self.refuse_waiting(ticket, topic, detail, sink);
        }
    }

    /// Says that a message is not taken whose acknowledgement waits. Before 5.0 no packet says it:
    /// the connection ends where that would have been, and nothing more is read.
    pub(super) fn refuse_waiting(
        &mut self,
        ticket: Ticket,
        topic: &str,
        detail: &'static str,
        sink: &mut impl Sink,
    ) {
        let (conn, ack) = match self.answers.get_mut(ticket) {
            Some(Answer { conn, reply: Reply::Ack(ack), .. }) => (conn, ack),
            // A message that was sent on: whoever sent it here is told.
            Some(&mut Answer { reply: Reply::Receipt { from, number, .. }, .. }) => {
                self.note_gone_on(from, number, true, sink);
                return sink.mail(from, Mail::Refused { topic: topic.into(), number, detail });
            }
            _ => return,
        };
        let (conn, session, packet_id) = (*conn, ack.session, ack.packet_id);
        let was_refused = ack.reason.is_error();
        let reason = ReasonCode::QuotaExceeded;
        (ack.reason, ack.detail) = (reason, detail);
        if was_refused {
            return;
        }
        self.note_refused(conn, session, topic, NotTaken { reason, detail }, sink);
        match conn {
            None => {
                self.clients[session].release(packet_id);
                self.answers.remove(ticket);
            }
            Some(conn) if !self.clients[session].version().is_v5() => {
                if let Some(live) = self.connections.live_mut(conn) {
                    live.cold().is_refused = true;
                }
                sink.pause(conn);
            }
            Some(_) => self.stats.refusals.add(reason),
        }
    }

    /// Sends an acknowledgement that has waited, or ends the connection where no packet says that
    /// the message is not taken.
    pub(super) fn answer_publish(
        &mut self,
        conn: ConnKey,
        AckReply { packet_id, qos, reason, detail, .. }: AckReply,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(session) = self.connections.session(conn) else { return };
        if reason.is_error() && !self.clients[session].version().is_v5() {
            self.release_refused(session, Some(packet_id), qos);
            return self.end(conn, Refusal::new(reason, detail), now, sink);
        }
        self.write_ack(conn, session, (packet_id, qos), (reason, detail), sink);
    }

    /// The connection of an acknowledgement is gone. One of QoS 1 is forgotten: its message is new
    /// in any case when it comes again.
    pub(super) fn lose_ack(&mut self, ticket: Ticket) {
        let Some(Answer { open, reply: Reply::Ack(ack), .. }) = self.answers.get(ticket) else {
            return;
        };
        if ack.qos == QoS::ExactlyOnce && ack.reason.is_error() {
            self.clients[ack.session].release(ack.packet_id);
        } else if ack.qos == QoS::ExactlyOnce && *open > 0 {
            return self.answers.keep_unseen(ticket);
        }
        self.answers.remove(ticket);
    }

    /// A message came again. Says whether other shards are still to say if it was taken the first
    /// time: then its publisher waits for that.
    pub(super) fn waits_again(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        now: Micros,
    ) -> bool {
        let Some(packet_id) = publish.packet_id else { return false };
        let ticket = self.answers.take_up(session, packet_id, conn, now);
        ticket.inspect(|&ticket| self.hold(conn, ticket)).is_some()
    }
}
