//! The shard: inputs come in here and go to the file that is named after them.

mod acks;
mod adopt;
mod answers;
mod arriving;
mod ask;
mod asked;
mod auth;
mod base;
mod claims;
mod closing;
mod connack;
mod connect;
mod connection;
mod connections;
mod disconnect;
mod drain;
mod due;
mod exact;
mod freeze;
mod groups;
mod handover;
mod held;
mod held_picks;
mod lifetime;
mod logged;
mod minority;
mod moves;
mod nodes;
mod outbox;
mod outlet;
mod paging;
mod parked;
mod pressure;
mod publish;
mod reasons;
mod replaced;
mod replay;
mod rest;
mod retain;
mod rights;
mod room;
mod route;
mod rules;
mod settings;
mod skipped;
mod slices;
mod stand_in;
mod subscribe;
mod unsubscribe;
mod verdicts;
mod wills;

pub use closing::Awaited;
pub use connect::OWN_CLIENT_IDS;
pub use freeze::NotMoved;

use crate::answers::Answers;
use crate::bounds::Bounds;
use crate::claims::Claims;
use crate::clients::Clients;
use crate::content::ConditionEvaluator;
use crate::copied::Copied;
use crate::drain::Drain;
use crate::encoder::Encoder;
use crate::keys::{ConnKey, Micros, SessionKey, ShardId};
use crate::log::Log;
use crate::mail::Mail;
use crate::outbox::Outbox;
use crate::paging::Paging;
use crate::partitions::Place;
use crate::pool::MessagePool;
use crate::retained::Retained;
use crate::routing::{Filters, INTEREST_BYTES, Matched, Picks};
use crate::rules::RuleSet;
use crate::session::Attachment;
use crate::settings::Settings;
use crate::sink::Sink;
use crate::stats::Stats;
use crate::timers::{Timer, Timers};
use crate::unreceived::Unreceived;
use crate::watched::Watched;
use connection::{Connection, Phase, Refusal};
use connections::Connections;
use due::{Due, Overflowed};
use freeze::Freeze;
use minority::Minority;
use parked::is_checked_in_slices;
use slices::{PACKET_STEPS, Slices};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use weir_wire::packet::Packet;
use weir_wire::{Frame, PacketKind, ReasonCode, Version};

/// The broker of one shard. Its shell calls one method an input; each writes what follows into
/// the sink before it returns. The shell calls [`Shard::handle_timeout`] at the time that
/// [`Shard::poll_timeout`] says.
///
/// It owns values that know nothing of each other, each with what belongs together; an input goes
/// from one to the next.
#[derive(Debug)]
pub struct Shard {
    place: Place,
    bounds: Bounds,
    connections: Connections,
    clients: Clients,
    arriving: BTreeMap<SessionKey, Attachment>,
    claims: Claims,
    unreceived: Unreceived,
    watched: Watched,
    copied: Copied,
    filters: Filters,
    matched: Matched,
    picks: Picks,
    retained: Retained,
    rules: RuleSet,
    answers: Answers,
    log: Log,
    outbox: Outbox,
    paging: Paging,
    timers: Timers,
    slices: Slices,
    due: Due,
    freeze: Option<Box<Freeze>>,
    /// Clients are to go elsewhere.
    drain: Option<Arc<Drain>>,
    minority: Minority,
    encoder: Encoder,
    pool: MessagePool,
    stats: Stats,
}

impl Shard {
    /// Shard `id` of `shards`. All shards of a broker share `seed`, which keeps hashes from being
    /// guessed and says which shard owns which client.
    pub fn new(id: ShardId, shards: u16, settings: impl Into<Settings>, seed: u64) -> Self {
        Self::of_node(id, 0..shards, settings, seed)
    }

    /// Shard `id` of a node that has these shards, among other nodes that share `seed` too.
    pub fn of_node(
        id: ShardId,
        node: Range<u16>,
        settings: impl Into<Settings>,
        seed: u64,
    ) -> Self {
        let Settings { limits, features, share } = settings.into();
        let shards = node.end;
        Self {
            place: Place::new(id, node, seed),
            connections: Connections::default(),
            clients: Clients::new(id, seed),
            arriving: BTreeMap::new(),
            claims: Claims::default(),
            unreceived: Unreceived::default(),
            watched: Watched::default(),
            copied: Copied::default(),
            filters: Filters::new(id, shards, seed, share),
            matched: Matched::default(),
            picks: Picks::default(),
            retained: Retained::new(id, shards, seed),
            rules: RuleSet::default(),
            answers: Answers::new(shards, Micros::from_secs(limits.answer_wait_s_max)),
            log: Log::default(),
            outbox: Outbox::new(shards),
            paging: Paging::default(),
            timers: Timers::default(),
            slices: Slices::new(limits.input_steps_max),
            due: Due::default(),
            freeze: None,
            drain: None,
            minority: Minority::default(),
            encoder: Encoder::default(),
            pool: MessagePool::default(),
            stats: Stats::default(),
            bounds: Bounds::new(limits, features),
        }
    }

    /// Offers content-filtered subscriptions, with conditions as `evaluator` understands them.
    /// Without it they are refused. Comes before the first connection.
    pub fn set_conditions(&mut self, evaluator: Box<dyn ConditionEvaluator>) {
        self.filters.conditions.set_port(evaluator);
    }

    /// The port of conditions, if it is there.
    pub fn conditions(&self) -> Option<&dyn ConditionEvaluator> {
        self.filters.conditions.port()
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        Stats {
            sessions: self.clients.len() as u64,
            retained: self.retained.len() as u64,
            conditions: self.filters.conditions.len() as u64,
            condition_checks: self.filters.conditions.checks(),
            conditions_left_out: self.filters.conditions.left_out_count(),
            filters: self.filters.len() as u64,
            interests: self.filters.interests.len() as u64,
            records_logged: self.log.records(),
            log_waits: self.log.waits() as u64,
            awaited: (self.answers.len() + self.retained.awaited()) as u64,
            ..self.stats.complete()
        }
    }

    /// A connection is there; its CONNECT is awaited.
    pub fn opened(&mut self, conn: ConnKey, now: Micros) {
        self.open(conn, None, now);
    }

    /// A connection is there that a bound of the shell's forbids: its CONNECT will be refused with
    /// `reason`, so that the client knows.
    pub fn opened_refused(&mut self, conn: ConnKey, reason: ReasonCode, now: Micros) {
        self.open(conn, Some(reason), now);
    }

    /// A connection that was opened is forbidden by a bound of the shell's after all: as
    /// [`Shard::opened_refused`].
    pub fn forbid_opened(&mut self, conn: ConnKey, reason: ReasonCode) {
        if let Some(connection) = self.connections.get_mut(conn)
            && let Phase::AwaitConnect(refusal) = &mut connection.phase
        {
            *refusal = Some(reason);
        }
    }

    fn open(&mut self, conn: ConnKey, refusal: Option<ReasonCode>, now: Micros) {
        self.connections.add(conn, Connection::new(refusal, now));
        self.set_deadline(conn, now);
        self.stats.connections_opened += 1;
        self.stats.connections += 1;
    }

    /// Bytes came in, those not consumed the last time first. Returns how many were consumed. What
    /// is left of whole packets waits for [`Sink::resume`] or [`Shard::authenticated`].
    pub fn received(
        &mut self,
        conn: ConnKey,
        bytes: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) -> usize {
        let mut at = 0;
        self.slices.begin();
        while at < bytes.len() {
            let checked = Frame::check(&bytes[at..], self.bounds.limits.packet_bytes_max);
            // Keep alive counts whole packets [MQTT-3.1.2-22]: a part of one says nothing.
            let is_whole = matches!(checked, Ok(Some(_)));
            let client = match self
                .connections
                .get_mut(conn)
                .map(|connection| connection.came(is_whole, now))
            {
                // A packet may have ended its connection; then the rest is nobody's.
                None => {
                    at = bytes.len();
                    break;
                }
                Some(Phase::AwaitAuth(waiting)) if waiting.asked.is_some() => {
                    self.wait_for_verdict(conn, bytes.len() - at, now, sink);
                    break;
                }
                Some(Phase::AwaitConnect(_) | Phase::AwaitAuth(_)) => None,
                Some(Phase::Live(live)) => {
                    let client = (live.session, live.version);
                    if live.cold.is_some()
                        && let Some(consumed) = self.set_aside(conn, &bytes[at..], now, sink)
                    {
                        at += consumed;
                        break;
                    }
                    Some(client)
                }
            };
            if self.slices.is_spent_by_packets() {
                self.hold_packets(conn, now, sink);
                break;
            }
            self.slices.add(PACKET_STEPS);
            match checked {
                Ok(None) => {
                    if !self.bounds.allows_partial(bytes.len() - at) {
                        at += self.refuse_partial(conn, &bytes[at..], now, sink);
                    }
                    break;
                }
                Ok(Some(frame)) => match self.handle(conn, client, frame, now, sink) {
                    Ok(Next::Continue) => at += frame.bytes,
                    // It is unconsumed.
                    Ok(Next::HandedOver | Next::Again) => break,
                    Err(refusal) => self.end(conn, refusal, now, sink),
                },
                Err(error) => self.end(conn, Refusal::from(error), now, sink),
            }
        }
        self.settle(now, sink);
        at
    }

    /// The connection's output has been sent: what waited for it may follow.
    pub fn drained(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        if let Some(session) = self.connections.session(conn) {
            self.pump(session, now, sink);
        }
    }

    /// The peer or the network ended the connection.
    pub fn closed(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        // Of a DISCONNECT it was said when that came.
        if !self.is_leaving(conn) {
            self.tell_left(conn, None, sink);
        }
        self.forget_live(conn, true, now, sink);
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// A letter from another shard.
    pub fn mail(&mut self, from: ShardId, mail: Mail, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        if !self.place.has(from) {
            // Of a node that is lost.
            return self.stats.letters_late += 1;
        }
        if let Some(freeze) = &mut self.freeze
            && mail.is_work()
        {
            freeze.note_work();
        }
        self.handle_mail(from, mail, now, sink);
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    fn handle_mail(&mut self, from: ShardId, mail: Mail, now: Micros, sink: &mut impl Sink) {
        match mail {
            Mail::Interest { filter, number } => {
                self.keeps(INTEREST_BYTES, sink);
                self.filters.add_shard(&filter, from);
                self.note_subscribed(from, number, now);
            }
            Mail::InterestGone { filter } => self.filters.remove_shard(&filter, from),
            Mail::Joined { share, member, packet_bytes_max, number } => {
                let Self { filters, bounds, .. } = self;
                let has_room = |part, total| bounds.has_condition_for(part, total);
                filters.join(&share, from, (member, packet_bytes_max), has_room);
                self.note_subscribed(from, number, now);
            }
            Mail::Presence { share, member, packet_bytes_max } => {
                self.filters.set_presence(&share, from, member, packet_bytes_max);
            }
            Mail::Left { share, member } => self.filters.leave(&share, from, member),
            Mail::Receipt { number, pending, done, retains, is_short } => {
                self.answers.receipts.set_short(from, is_short);
                self.retained.stamps.saw_sent(from, &retains);
                self.on_receipt(from, number, &pending, &done, now, sink);
            }
            Mail::Publish { message, to_subscribers, picks, number, mailed: Some(mailed) } => {
                let to = (to_subscribers, picks);
                self.on_mailed(from, &message, to, (mailed, number), now, sink);
            }
            Mail::Kept { number } => self.on_kept(from, number, sink),
            Mail::Publish { message, to_subscribers, picks, number, mailed: None } => {
                let to = (to_subscribers, picks);
                self.on_publish_mail(from, &message, to, number, now, sink);
            }
            Mail::Refused { topic, number, detail } => {
                self.on_refused(from, &topic, number, detail, sink);
            }
            Mail::Retain { message, ticket } => self.on_retain(from, message, ticket, now, sink),
            Mail::Retained { ticket, refused } => self.on_retained(ticket, refused, now, sink),
            Mail::RetainedQuery(query) => self.on_query(from, query, now, sink),
            Mail::RetainedPage(page) => self.on_page(page, now, sink),
            Mail::Marker { round } => self.on_marker(round),
            Mail::Rested { is_busy } => self.on_rested(is_busy, now, sink),
            Mail::Move { partition, to } => self.on_move(partition, to, now),
            Mail::MovedRetained { messages } => self.on_moved_retained(messages),
            Mail::Thaw => self.on_thaw(from, now, sink),
            Mail::Thawed => self.on_thawed(now, sink),
            Mail::Session(mail) => self.mail_of_session(from, mail, now, sink),
            Mail::Copy { .. } | Mail::Listing { .. } | Mail::Listed { .. } | Mail::Log(_) => {
                self.mail_of_node(from, mail, now, sink);
            }
        }
    }

    /// When [`Shard::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Micros> {
        let due = self.timers.next().into_iter();
        due.chain(self.answers.due()).chain(self.slices.next()).min()
    }

    /// Does what is due: keep alive, time to CONNECT, delayed wills, session expiry, and what could
    /// wait for a later turn.
    pub fn handle_timeout(&mut self, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        loop {
            let Self { timers, connections, bounds, .. } = self;
            let due = |conn: ConnKey| connections.get(conn)?.due(bounds.limits.connect_timeout_s);
            let Some(timer) = timers.take_due(now, due) else { break };
            match timer {
                Timer::Connection(conn) => self.connection_due(conn, now, sink),
                Timer::Will(session) => self.will_due(session, now, sink),
                Timer::Expiry(session) => self.session_due(session, now, sink),
                Timer::Watched => self.watched_due(now),
            }
            self.settle(now, sink);
        }
        if self.answers.due().is_some_and(|due| due <= now) {
            self.answers_due(now, sink);
            self.settle(now, sink);
        }
        self.go_on(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Ends every connection because the broker stops. Without a log sessions are in memory only,
    /// and go with it.
    pub fn stop(&mut self, now: Micros, sink: &mut impl Sink) {
        for conn in self.connections.keys() {
            if let Some(connection) = self.connections.get_mut(conn) {
                connection.take_will();
                // A CONNACK has no code that says more.
                let reason = match connection.live_mut() {
                    Some(_) => ReasonCode::ServerShuttingDown,
                    None => ReasonCode::ServerUnavailable,
                };
                self.end(conn, Refusal::new(reason, ""), now, sink);
            }
        }
    }

    /// Handles a packet; `client` is who sent it, once that is known.
    fn handle(
        &mut self,
        conn: ConnKey,
        client: Option<(SessionKey, Version)>,
        frame: Frame<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        let Some((session, version)) = client else {
            return match self.connections.get_mut(conn).map(|connection| &connection.phase) {
                Some(Phase::AwaitConnect(_)) => self.handle_first(conn, frame, now, sink),
                _ => self.handle_unknown(conn, frame, now, sink),
            };
        };
        // [MQTT-3.1.0-2], whatever is in it: DISCONNECT cannot say all that is wrong with one.
        let second_connect = Refusal::protocol("a second CONNECT");
        if frame.kind == PacketKind::Connect {
            return Err(second_connect);
        }
        if is_checked_in_slices(&frame) {
            return self.park_unchecked(session, frame, now).map(|()| Next::Continue);
        }
        // Looked at where it is: a packet is not moved.
        match &Packet::decode(version, frame) {
            Ok(Packet::Publish(publish)) => {
                return self.on_publish(conn, session, publish, now, sink);
            }
            Ok(Packet::PubAck(ack)) => self.on_puback(session, ack, now, sink)?,
            Ok(Packet::PubRec(ack)) => self.on_pubrec(session, ack, now, sink)?,
            Ok(Packet::PubRel(ack)) => self.on_pubrel(session, ack, now, sink),
            Ok(Packet::PubComp(ack)) => self.on_pubcomp(session, ack, now, sink)?,
            Ok(Packet::Subscribe(subscribe)) => self.on_subscribe(session, subscribe, now, sink)?,
            Ok(Packet::Unsubscribe(unsubscribe)) => {
                self.on_unsubscribe(session, unsubscribe, now, sink)?;
            }
            Ok(Packet::PingReq) => self.on_pingreq(conn, now, sink),
            Ok(Packet::Disconnect(disconnect)) => {
                self.on_disconnect(conn, disconnect, now, sink)?;
            }
            Ok(Packet::Connect(_)) => return Err(second_connect),
            Ok(Packet::Auth(auth)) => self.on_auth(conn, auth, now, sink)?,
            Ok(Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp) => {
                return Err(Refusal::protocol("a packet only servers send"));
            }
            Err(error) => return Err(Refusal::from(*error)),
        }
        Ok(Next::Continue)
    }

    /// The first packet must be CONNECT [MQTT-3.1.0-1].
    fn handle_first(
        &mut self,
        conn: ConnKey,
        frame: Frame<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        // CONNECT says its own version; the one given here is not looked at.
        match Packet::decode(Version::V5, frame) {
            Ok(Packet::Connect(connect)) => {
                let next = self.on_connect(conn, &connect, frame.body, now, sink)?;
                // One that is handed over comes in elsewhere.
                self.stats.connects_in += u64::from(next == Next::Continue);
                Ok(next)
            }
            Ok(_) => Err(Refusal::protocol("a packet before CONNECT")),
            Err(error) if is_connect_of_5(frame) => {
                // Who says 5.0 understands an answer.
                self.refuse_connect(conn, Version::V5, None, Refusal::from(error), sink);
                Ok(Next::Continue)
            }
            Err(error) => Err(Refusal::from(error)),
        }
    }

    /// Does what handling an input has put off, so that nothing recurses: ends sessions whose
    /// queue ran over, has long ones written, publishes wills.
    #[inline(always)]
    fn settle(&mut self, now: Micros, sink: &mut impl Sink) {
        if !self.due.is_empty() {
            self.do_what_was_put_off(now, sink);
        }
    }

    #[cold]
    fn do_what_was_put_off(&mut self, now: Micros, sink: &mut impl Sink) {
        while !self.due.is_empty() {
            while let Some(overflowed) = self.due.overflowed.pop() {
                if let Overflowed::Long(key) = overflowed {
                    self.page_out(key, sink);
                } else {
                    self.end_overflowed(overflowed, now, sink);
                }
            }
            if self.freeze.is_some() {
                // Nobody is to get a message while no letter may be on its way.
                break;
            }
            if let Some(will) = self.due.wills.pop() {
                self.publish_will(&will, now, sink);
            } else if self.due.has_held_picks {
                self.choose_for_held(now, sink);
            }
        }
    }
}

fn is_connect_of_5(frame: Frame<'_>) -> bool {
    frame.kind == PacketKind::Connect && frame.body.starts_with(b"\x00\x04MQTT\x05")
}

/// What a handled packet means for the bytes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    /// The CONNECT goes along with its connection.
    HandedOver,
    /// The packet is looked at again later.
    Again,
}
