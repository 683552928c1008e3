//! Answers to clients that wait, and what each waits for.
//!
//! An answer leaves when all that it waits for has happened: another shard has noted a letter, the
//! owner of a topic has its message, the authentication port has said who the client is. Each has a
//! [`Ticket`], so that what comes late is never taken for what somebody else waits for. The answers
//! of one connection leave in the order of its requests; what need not wait goes behind what does.

use crate::claims::{Asking, Way};
use crate::keys::{ConnKey, Micros, SessionKey, ShardId, Ticket};
use crate::mail::NotRetained;
use crate::message::Message;
use crate::outbox::Letters;
use crate::receipts::Receipts;
use crate::routing::News;
use slotmap::SlotMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_wire::{PacketId, QoS, ReasonCode};

/// All answers of a shard that wait, and the letters that they wait for.
#[derive(Debug)]
pub(crate) struct Answers {
    waiting: SlotMap<Ticket, Answer>,
    pub(crate) receipts: Receipts,
    /// Letters of the present input that its answer waits for.
    mailed: SmallVec<[(ShardId, u64); 4]>,
    /// PUBRECs that wait and whose connections are gone: a session that comes back has no message
    /// acknowledged before it is known whether it was taken. No more than identifiers are noted.
    unseen: BTreeMap<(SessionKey, u16), Ticket>,
    /// How many of those that wait are SUBACKs.
    subscribes: usize,
    /// How long an answer waits, and when they are looked at next.
    wait_max: Micros,
    due_at: Micros,
}

/// An answer that waits.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whom it is for; nobody once the connection is gone, or if it is another shard.
    pub(crate) conn: Option<ConnKey>,
    /// How much it still waits for.
    pub(crate) open: u32,
    /// Since when.
    pub(crate) since: Micros,
    pub(crate) reply: Reply,
}

/// What is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    Ack(AckReply),
    Subscribe(Box<SubscribeReply>),
    /// A packet that waits only for those before it.
    Packet(SmallVec<[u8; 4]>),
    /// A PUBLISH of QoS 2 to the client, which is in its session's window.
    Publish(PacketId),
    /// The CONNACK that accepts.
    ConnAck(Box<[u8]>),
    /// Letters that leave when the log has them.
    Letters(Box<Letters>),
    /// What another shard is told of a letter that is pending here.
    Receipt {
        from: ShardId,
        number: u64,
    },
    /// The same of a letter that says who has subscribed.
    Noted {
        from: ShardId,
        number: u64,
        /// As in [`Receipts::note_retains`].
        retains: Box<[u64]>,
    },
    /// What another shard is told of a message that it gave this one to retain.
    Retained {
        from: ShardId,
        ticket: Ticket,
        refused: Option<NotRetained>,
    },
    /// What the authentication port says; no packet has its place for it.
    Verdict,
    /// A client that is let in once no other node has its session.
    Claim(Box<Asking>),
    /// Those that a session goes between are told that it does.
    Switched {
        to: ShardId,
        way: Way,
    },
    /// A shard that has handed a session over is told that it may forget it.
    Taken {
        client_id: Box<str>,
        way: Way,
    },
}

/// A PUBACK or PUBREC to be.
#[derive(Debug)]
pub(crate) struct AckReply {
    pub(crate) session: SessionKey,
    pub(crate) packet_id: PacketId,
    pub(crate) qos: QoS,
    pub(crate) reason: ReasonCode,
    pub(crate) detail: &'static str,
    /// The message, while its owner is asked to retain it.
    pub(crate) retained: Option<Arc<Message>>,
    /// At QoS 2: once all others have the message, its identifier goes into the log.
    pub(crate) is_to_note: bool,
}

/// A SUBACK to be: it means that the subscriptions are effective.
#[derive(Debug)]
pub(crate) struct SubscribeReply {
    pub(crate) session: SessionKey,
    pub(crate) packet_id: PacketId,
    pub(crate) done: Subscriptions,
}

/// What was done with some filters of a SUBSCRIBE.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The round of letters in which the other shards are told.
    pub(crate) round: u64,
    pub(crate) codes: Vec<u8>,
    /// What is wrong with the first condition that was refused.
    pub(crate) detail: Box<str>,
    /// What is odd about a condition that was granted.
    pub(crate) warning: Cow<'static, str>,
    /// The first of the replays that begin when the subscriptions are effective.
    pub(crate) first_replay: Option<u64>,
    /// What the other shards are told.
    pub(crate) news: Vec<News>,
}

impl Subscriptions {
    pub(crate) fn append(&mut self, mut other: Self) {
        self.codes.append(&mut other.codes);
        self.news.append(&mut other.news);
        self.first_replay = self.first_replay.or(other.first_replay);
        if self.detail.is_empty() {
            self.detail = other.detail;
        }
        if self.warning.is_empty() {
            self.warning = other.warning;
        }
    }

    /// What the client is told: first of all why something was refused.
    pub(crate) fn reason(&self) -> &str {
        if self.detail.is_empty() { &self.warning } else { &self.detail }
    }
}

impl Reply {
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(self, Self::Verdict)
    }
}

impl Answers {
    /// Answers wait so long from now on, as soon as those that are looked at next were.
    pub(crate) fn set_wait_max(&mut self, wait_max: Micros) {
        self.wait_max = wait_max;
    }

    pub(crate) fn new(shards: u16, wait_max: Micros) -> Self {
        Self {
            waiting: SlotMap::with_key(),
            receipts: Receipts::new(shards),
            mailed: SmallVec::new(),
            unseen: BTreeMap::new(),
            subscribes: 0,
            wait_max,
            due_at: Micros(0),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one waits for another shard, or behind one that does; who a client is may take long.
    pub(crate) fn waits_for_shards(&self) -> bool {
        self.waiting.values().any(|answer| !answer.reply.is_verdict())
    }

    /// Whether a SUBACK waits.
    pub(crate) fn has_subscribes(&self) -> bool {
        self.subscribes > 0
    }

    /// An input begins whose letters are waited for.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if self.has_mailed() {
            self.mailed.clear();
        }
    }

    /// A letter to `shard` that the answer to the present input waits for. Returns its number.
    pub(crate) fn mailed(&mut self, shard: ShardId) -> u64 {
        let number = self.receipts.number(shard);
        match self.mailed.iter_mut().find(|(to, _)| *to == shard) {
            Some((_, last)) => *last = number,
            None => self.mailed.push((shard, number)),
        }
        number
    }

    /// The same for what is of one letter with the last to `shard`, if there is one.
    pub(crate) fn mailed_once(&mut self, shard: ShardId) -> u64 {
        match self.mailed.iter().find(|(to, _)| *to == shard) {
            Some(&(_, number)) => number,
            None => self.mailed(shard),
        }
    }

    /// Whether the present input has mailed what its answer waits for.
    #[inline]
    pub(crate) fn has_mailed(&self) -> bool {
        !self.mailed.is_empty()
    }

    /// An answer that waits for the letters of the present input, and `more` beside them.
    pub(crate) fn insert(
        &mut self,
        conn: Option<ConnKey>,
        reply: Reply,
        more: u32,
        since: Micros,
    ) -> Ticket {
        self.subscribes += usize::from(matches!(reply, Reply::Subscribe(_)));
        if self.waiting.is_empty() {
            self.due_at = since + self.wait_max;
        }
        let open = self.mailed.len() as u32 + more;
        let ticket = self.waiting.insert(Answer { conn, open, since, reply });
        for (shard, number) in self.mailed.drain(..) {
            self.receipts.wait(shard, number, ticket);
        }
        ticket
    }

    /// An answer that waits for one thing, and nothing of the present input.
    pub(crate) fn insert_alone(&mut self, conn: ConnKey, reply: Reply, since: Micros) -> Ticket {
        let mailed = std::mem::take(&mut self.mailed);
        let ticket = self.insert(Some(conn), reply, 1, since);
        self.mailed = mailed;
        ticket
    }

    /// The same for no client.
    pub(crate) fn insert_for_nobody(&mut self, reply: Reply, since: Micros) -> Ticket {
        let mailed = std::mem::take(&mut self.mailed);
        let ticket = self.insert(None, reply, 1, since);
        self.mailed = mailed;
        ticket
    }

    /// Asks the authentication port who a client is. The connection notes the ticket.
    pub(crate) fn ask_verdict(&mut self, conn: ConnKey, since: Micros) -> Ticket {
        self.begin();
        self.insert(Some(conn), Reply::Verdict, 1, since)
    }

    /// An answer that waits already waits for the letters of the present input too.
    pub(crate) fn add_mailed(&mut self, ticket: Ticket) {
        let Some(answer) = self.waiting.get_mut(ticket) else { return };
        answer.open += self.mailed.len() as u32;
        for (shard, number) in self.mailed.drain(..) {
            self.receipts.wait(shard, number, ticket);
        }
    }

    /// One more thing is to happen before it leaves.
    pub(crate) fn wait_for_one_more(&mut self, ticket: Ticket) {
        if let Some(answer) = self.waiting.get_mut(ticket) {
            answer.open += 1;
        }
    }

    pub(crate) fn reply_mut(&mut self, ticket: Ticket) -> Option<&mut Reply> {
        self.waiting.get_mut(ticket).map(|answer| &mut answer.reply)
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Answer> {
        self.waiting.get(ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Answer> {
        self.waiting.get_mut(ticket)
    }

    /// Whether all that it waits for has happened.
    pub(crate) fn is_ready(&self, ticket: Ticket) -> bool {
        self.waiting.get(ticket).is_none_or(|answer| answer.open == 0)
    }

    /// One of the things that it waits for has happened. Returns whom it is for once that was the
    /// last; `Some(None)` is nobody any more.
    pub(crate) fn meet(&mut self, ticket: Ticket) -> Option<Option<ConnKey>> {
        let answer = self.waiting.get_mut(ticket)?;
        answer.open -= 1;
        (answer.open == 0).then_some(answer.conn)
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Answer> {
        let answer = self.waiting.remove(ticket)?;
        match &answer.reply {
            Reply::Subscribe(_) => self.subscribes -= 1,
            Reply::Ack(ack) if answer.conn.is_none() => {
                self.unseen.remove(&(ack.session, ack.packet_id.value()));
            }
            _ => {}
        }
        Some(answer)
    }

    /// Whether a PUBREC waits for others before the identifier of its message may be recorded, or
    /// is to say that it was refused: then it never is.
    pub(crate) fn is_to_note(&self, session: SessionKey, packet_id: PacketId) -> bool {
        self.waiting.values().any(|answer| {
            matches!(&answer.reply, Reply::Ack(ack)
                if (ack.is_to_note || ack.reason.is_error())
                    && (ack.session, ack.packet_id) == (session, packet_id))
        })
    }

    /// Whether a PUBREC of the session waits that nobody is there for.
    pub(crate) fn has_unseen(&self, session: SessionKey) -> bool {
        let mut all = self.unseen.range((session, u16::MIN)..=(session, u16::MAX));
        all.next().is_some()
    }

    /// The connection is gone that an acknowledgement waits for others for.
    pub(crate) fn keep_unseen(&mut self, ticket: Ticket) {
        let Some(Answer { conn, reply: Reply::Ack(ack), .. }) = self.waiting.get_mut(ticket) else {
            return;
        };
        *conn = None;
        if let Some(older) = self.unseen.insert((ack.session, ack.packet_id.value()), ticket) {
            self.waiting.remove(older);
        }
    }

    /// The session is back, and waits on `conn` for the acknowledgement that is still to come.
    pub(crate) fn take_up(
        &mut self,
        session: SessionKey,
        packet_id: PacketId,
        conn: ConnKey,
        now: Micros,
    ) -> Option<Ticket> {
        let ticket = self.unseen.remove(&(session, packet_id.value()))?;
        let answer = self.waiting.get_mut(ticket)?;
        (answer.conn, answer.since) = (Some(conn), now);
        Some(ticket)
    }

    /// The session is over, and its key may become another's. Returns how many waited.
    #[inline]
    pub(crate) fn forget_session(&mut self, session: SessionKey) -> u64 {
        if self.unseen.is_empty() { 0 } else { self.forget_unseen(session) }
    }

    #[cold]
    fn forget_unseen(&mut self, session: SessionKey) -> u64 {
        let Self { unseen, waiting, .. } = self;
        let all = (session, u16::MIN)..=(session, u16::MAX);
        unseen.extract_if(all, |_, &mut ticket| waiting.remove(ticket).is_some()).count() as u64
    }

    /// When answers that wait are to be looked at.
    pub(crate) fn due(&self) -> Option<Micros> {
        (!self.waiting.is_empty()).then_some(self.due_at)
    }

    /// Connections with an answer that has waited for too long.
    pub(crate) fn take_overdue(&mut self, now: Micros) -> Vec<ConnKey> {
        self.due_at = now + self.wait_max;
        let is_overdue = |answer: &&Answer| {
            answer.open > 0 && !answer.reply.is_verdict() && answer.since + self.wait_max <= now
        };
        self.waiting.values().filter(is_overdue).filter_map(|answer| answer.conn).collect()
    }
}
