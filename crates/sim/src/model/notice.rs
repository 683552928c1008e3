//! What the broker says to its log, as far as it excuses something.

use super::{Model, Owed};
use crate::names::ClientNo;
use crate::topics;
use weir_core::{ConnKey, Notice};
use weir_wire::{PacketKind, ReasonCode};

/// A notice that matters here.
#[derive(Clone, Debug)]
pub enum Said {
    /// The client on this connection is let in.
    Connected(ConnKey),
    /// A message for this client was dropped.
    Dropped(ClientNo, String, &'static str),
    /// A PUBLISH of this client to a topic was not taken.
    Refused(ClientNo, String),
    /// This client's session was ended because its queue was full.
    SessionEnded(ClientNo),
    /// This connection ends since its client has another.
    TakenOver(ConnKey),
    /// Something else.
    Nothing,
}

impl Said {
    /// What a notice says.
    pub fn of(notice: Notice<'_>) -> Self {
        let of = |client_id| ClientNo::of(client_id).unwrap_or(ClientNo(usize::MAX));
        match notice {
            Notice::Dropped { client_id, topic, cause, .. } => {
                Self::Dropped(of(client_id), topic.into(), cause)
            }
            Notice::Refused { client_id, topic, .. } => Self::Refused(of(client_id), topic.into()),
            // The session that the books have is another.
            Notice::SessionEnded { cause: "begun anew on another node", .. } => Self::Nothing,
            Notice::SessionEnded { client_id, .. } => Self::SessionEnded(of(client_id)),
            Notice::Connected { conn, .. } => Self::Connected(conn),
            Notice::Ended { conn, reason: ReasonCode::SessionTakenOver, .. } => {
                Self::TakenOver(conn)
            }
            Notice::Ended { .. }
            | Notice::Left { .. }
            | Notice::Moved { .. }
            | Notice::Withheld { .. }
            | Notice::FilterRefused { .. }
            | Notice::ConditionLeftOut { .. } => Self::Nothing,
        }
    }
}

impl Model {
    /// The shard said something to its log.
    pub fn said(&mut self, said: &Said) {
        match said {
            Said::Dropped(client, topic, cause) => {
                let (Some(&session), Some(topic)) = (self.alive.get(client), topics::topic(topic))
                else {
                    return;
                };
                *self.recent.drops.entry((session, topic)).or_default() += 1;
                if *cause == "queue full" {
                    self.call.blamed.push(*client);
                }
            }
            Said::Refused(client, topic) => {
                self.call.blamed.push(*client);
                self.refuse_last(*client, topic);
            }
            Said::SessionEnded(client) => {
                self.end_full(*client);
            }
            Said::Connected(_) | Said::TakenOver(_) | Said::Nothing => {}
        }
    }

    /// The session of a client is over. One whose CONNACK waits has a connection, which ends
    /// without DISCONNECT: its will is due.
    fn end_full(&mut self, client: ClientNo) {
        let Some(&session) = self.alive.get(&client) else { return };
        if let Some(conn) = self.session(session).conn {
            self.end_conn(conn, true);
        }
        if self.alive.get(&client) == Some(&session) {
            self.end_session(session);
        }
    }

    /// The PUBLISH is the last that the shard was given. Before 5.0 no packet says that it is not
    /// taken: the connection ends.
    fn refuse_last(&mut self, client: ClientNo, topic: &str) {
        let conn = self.alive.get(&client).and_then(|&session| self.session(session).conn);
        let Some(number) = conn.filter(|&number| self.call.input == Some(number)) else {
            return self.refuse_late(client, topic);
        };
        let conn = &mut self.conns[number.0];
        let is_ack = |owed: &Owed| matches!(owed.kind, PacketKind::PubAck | PacketKind::PubRec);
        let last = conn.owed.iter().rposition(is_ack);
        let owed = last.and_then(|last| conn.owed.get(last).copied());
        if let Some(last) = last.filter(|_| !conn.version.is_v5()) {
            conn.owed.remove(last);
        }
        if let Some(Owed { packet_id, intake, .. }) = owed {
            self.refuse(number, packet_id, intake);
        }
    }

    /// A PUBLISH that another shard refused was given before: its answer says so, if that comes.
    fn refuse_late(&mut self, client: ClientNo, topic: &str) {
        let Self { alive, sessions, recent, messages, conns, .. } = self;
        let Some(session) = alive.get(&client) else { return };
        if let Some(conn) = sessions[session.0].conn {
            let conn = &mut conns[conn.0];
            conn.is_refused |= !conn.version.is_v5();
        }
        for unreleased in sessions[session.0].unreleased.values_mut() {
            let intake = unreleased.intake.map(|at| &recent.intakes[at]);
            let message = intake.map(|intake| &messages[intake.message.0]);
            unreleased.is_doubtful |= message.is_some_and(|message| message.topic == topic);
        }
    }
}
