//! Packets that a shard copies for whoever traces a client, a user, an address or a topic.
//!
//! Without a trace there is nothing here, and the shell looks no further than that. While there is
//! one, the packets of whoever is traced are copied as bytes: a part of a payload, no password and
//! no secret of an authentication. The control thread takes them from time to time and makes text
//! of them ([`decode`]).

mod copy;
mod decode;

use crate::auth::Whom;
use copy::{copied_body, shown_user};
pub(crate) use decode::event;
use foldhash::fast::RandomState;
use jiff::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use weir_control::{TRACES_MAX, TraceOf};
use weir_core::{ConnKey, Message, Shard};
use weir_wire::topic::TopicFilter;
use weir_wire::{Frame, Packet, PacketKind, Property, Version};

/// Bytes of packets that wait for the control thread, with what belongs to each.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// What an event takes beside the bytes of its packet.
const EVENT_BYTES: usize = size_of::<Copied>();

/// The traces that something is in: a bit for each.
pub(crate) type TraceBits = u8;

/// What a shard knows of the traces that go on.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    wanted: [Option<Wanted>; TRACES_MAX],
    /// By connection: the traces that all its packets are in. As long as it has to be.
    marks: Vec<TraceBits>,
    /// Whose connections these are, of those that were looked up.
    peers: HashMap<ConnKey, Arc<Party>, RandomState>,
    waiting: Vec<Copied>,
    waiting_bytes: usize,
    /// The first of them that is not known to be anybody's.
    unsettled: usize,
    /// The connection that was last handed over to another shard.
    handed_over: Option<ConnKey>,
    /// Packets that found no room, by trace.
    dropped: [u64; TRACES_MAX],
}

#[derive(Debug)]
enum Wanted {
    Whom(Whom),
    Topic(Box<str>),
}

/// Whose a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    pub(crate) client_id: Box<str>,
    pub(crate) user: Option<Box<str>>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) version: Version,
}

/// A packet that was copied.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) at: Timestamp,
    pub(crate) traces: TraceBits,
    pub(crate) is_in: bool,
    conn: ConnKey,
    pub(crate) party: Option<Arc<Party>>,
    /// Nothing if that is no packet.
    pub(crate) kind: Option<PacketKind>,
    pub(crate) flags: u8,
    /// Behind the fixed header; nothing of it if it is too long, or must not be kept.
    pub(crate) body: Option<Box<[u8]>>,
    /// As many as were exchanged.
    pub(crate) packet_bytes: usize,
    /// Of a packet that has only an alias.
    pub(crate) topic: Option<Box<str>>,
}

/// What the control thread takes.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) events: Vec<Copied>,
    /// Since this was taken last, by trace.
    pub(crate) dropped: [u64; TRACES_MAX],
}

/// What a shard has copied since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceCounts {
    pub(crate) copied: u64,
    /// A packet that is missing in two traces counts twice.
    pub(crate) dropped: u64,
}

impl TraceCounts {
    pub(crate) fn add(&mut self, taken: &Taken) {
        self.copied += taken.events.len() as u64;
        self.dropped += taken.dropped.iter().sum::<u64>();
    }
}

impl Wanted {
    fn parse(TraceOf { kind, name }: &TraceOf) -> Option<Self> {
        match kind.as_str() {
            "topic" => TopicFilter::parse(name).map(|_| Self::Topic(name.as_str().into())),
            _ => Whom::parse(kind, name).ok().map(Self::Whom),
        }
    }

    fn is_of(&self, client_id: &str, user: Option<&str>, address: Option<IpAddr>) -> bool {
        match self {
            Self::Whom(Whom::Client(name)) => **name == *client_id,
            Self::Whom(Whom::User(name)) => user == Some(name),
            Self::Whom(Whom::Address(network)) => address.is_some_and(|it| network.has(it)),
            Self::Topic(_) => false,
        }
    }
}

/// What is wrong with a trace that somebody wants.
pub(crate) fn check(of: &TraceOf) -> Result<(), String> {
    match (of.kind.as_str(), Wanted::parse(of)) {
        (_, Some(_)) => Ok(()),
        ("topic", None) => Err(format!("{}: it is no topic filter", of.name)),
        ("address" | "client" | "user", None) => {
            Whom::parse(&of.kind, &of.name).map(drop).map_err(|why| why.replace("bans", "traces"))
        }
        (kind, None) => {
            Err(format!("{kind}: a trace is of a client, a user, an address or a topic"))
        }
    }
}

impl Traces {
    /// One more. The caller marks the connections that are here.
    pub(crate) fn start(&mut self, slot: u8, of: &TraceOf) {
        if let Some(wanted) = self.wanted.get_mut(usize::from(slot)) {
            *wanted = Wanted::parse(of);
        }
    }

    /// One less; packets in it alone are forgotten.
    pub(crate) fn stop(&mut self, slot: u8) {
        let bit = bit(slot);
        if let Some(wanted) = self.wanted.get_mut(usize::from(slot)) {
            *wanted = None;
            self.dropped[usize::from(slot)] = 0;
        }
        self.marks.iter_mut().for_each(|mark| *mark &= !bit);
        self.waiting.iter_mut().for_each(|event| event.traces &= !bit);
        self.waiting.retain(|event| event.traces != 0);
        self.waiting_bytes = self.waiting.iter().map(Copied::bytes).sum();
        self.unsettled = self.unsettled.min(self.waiting.len());
    }

    /// Whether there are any.
    pub(crate) fn go_on(&self) -> bool {
        self.wanted.iter().any(Option::is_some)
    }

    /// The client whose trace this is, if it is of one.
    pub(crate) fn client(&self, slot: u8) -> Option<&str> {
        match self.wanted.get(usize::from(slot)) {
            Some(Some(Wanted::Whom(Whom::Client(name)))) => Some(name),
            _ => None,
        }
    }

    /// Whether a trace is of all that comes by.
    pub(crate) fn has_topics(&self) -> bool {
        self.wanted.iter().flatten().any(|wanted| matches!(wanted, Wanted::Topic(_)))
    }

    /// Whether it matters whose a connection is, and that was not looked up.
    pub(crate) fn wants(&self, conn: ConnKey) -> bool {
        !self.peers.contains_key(&conn)
    }

    /// Notes whose a connection is, and which traces all its packets are in.
    pub(crate) fn meet(&mut self, conn: ConnKey, mut party: Party) {
        let of =
            |wanted: &Wanted| wanted.is_of(&party.client_id, party.user.as_deref(), party.address);
        let bits = bits(&self.wanted, of) | self.mark(conn);
        if bits == 0 && !self.has_topics() {
            return;
        }
        self.set_mark(conn, bits);
        party.user = party.user.map(|user| shown_user(&user).into());
        self.peers.insert(conn, Arc::new(party));
    }

    /// Notes what is known of a connection's client now, where the rest was known before.
    pub(crate) fn meet_again(&mut self, conn: ConnKey, client_id: &str, user: Option<&str>) {
        let Some(before) = self.peers.get(&conn) else {
            let bits = bits(&self.wanted, |wanted| wanted.is_of(client_id, user, None));
            if bits != 0 {
                self.set_mark(conn, bits | self.mark(conn));
            }
            return;
        };
        let (client_id, user) = (client_id.into(), user.map(Into::into));
        let party = Party { client_id, user, ..(**before).clone() };
        self.meet(conn, party);
    }

    fn set_mark(&mut self, conn: ConnKey, bits: TraceBits) {
        let at = conn.0 as usize;
        if bits != 0 && self.marks.len() <= at {
            self.marks.resize(at + 1, 0);
        }
        if let Some(mark) = self.marks.get_mut(at) {
            *mark = bits;
        }
    }

    /// The traces that all packets of a connection are in.
    pub(crate) fn mark(&self, conn: ConnKey) -> TraceBits {
        self.marks.get(conn.0 as usize).copied().unwrap_or(0)
    }

    /// The connection goes to another shard, with what came and was not taken.
    pub(crate) fn hand_over(&mut self, conn: ConnKey) {
        self.forget(conn);
        self.handed_over = Some(conn);
    }

    /// The connection is over.
    pub(crate) fn forget(&mut self, conn: ConnKey) {
        let unsettled = self.waiting.get_mut(self.unsettled..).unwrap_or_default();
        if let Some(party) = self.peers.remove(&conn) {
            for event in unsettled.iter_mut().filter(|event| event.conn == conn) {
                event.party.get_or_insert_with(|| Arc::clone(&party));
            }
        }
        if let Some(mark) = self.marks.get_mut(conn.0 as usize) {
            *mark = 0;
        }
    }

    /// The traces of topics that a topic is in.
    fn of_topic(&self, topic: &str) -> TraceBits {
        bits(&self.wanted, |wanted| match wanted {
            Wanted::Topic(filter) => {
                TopicFilter::parse(filter).is_some_and(|filter| filter.matches(topic))
            }
            Wanted::Whom(_) => false,
        })
    }

    /// The packets at the start of what came, each with the place behind it, as far as they are in
    /// a trace: [`Traces::came`] keeps those that were taken.
    pub(crate) fn look(&self, conn: ConnKey, bytes: &[u8], shard: &Shard) -> Vec<(usize, Copied)> {
        let (mark, mut at, mut found) = (self.mark(conn), 0, Vec::new());
        let has_topics = self.has_topics();
        if mark == 0 && !has_topics {
            return found;
        }
        let party = self.peers.get(&conn).cloned();
        let mut aliases: Vec<(NonZeroU16, &str)> = Vec::new();
        while at < bytes.len() {
            let Ok(checked) = Frame::check(&bytes[at..], u32::MAX) else {
                let copied = Copied::of_no_packet(conn, party.clone(), mark, bytes.len() - at);
                found.extend((mark != 0).then_some((bytes.len(), copied)));
                break;
            };
            let Some(frame) = checked else { break };
            at += frame.bytes;
            let (mut traces, mut topic) = (mark, None);
            if frame.kind == PacketKind::Publish
                && let Some(version) = party.as_ref().map(|party| party.version)
                && let Ok(Packet::Publish(publish)) = Packet::decode(version, frame)
            {
                let alias = publish.properties.find(|property| match property {
                    Property::TopicAlias(alias) => NonZeroU16::new(alias),
                    _ => None,
                });
                let mut name = publish.topic;
                if let Some(alias) = alias {
                    if name.is_empty() {
                        let new = aliases.iter().rev().find(|(of, _)| *of == alias);
                        let known = || shard.topic_of_alias(conn, alias);
                        name = new.map(|(_, name)| *name).or_else(known).unwrap_or_default();
                        topic = Some(name.into());
                    } else {
                        aliases.push((alias, name));
                    }
                }
                traces |= if has_topics { self.of_topic(name) } else { 0 };
            }
            if traces != 0 {
                found.push((at, Copied::new(conn, party.clone(), (traces, true), frame, topic)));
            }
        }
        found
    }

    /// Where packets will be kept that come now.
    pub(crate) fn place(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps what came before the packets that it was answered with, which are behind `place`.
    pub(crate) fn came(&mut self, found: Vec<(usize, Copied)>, taken: usize, place: usize) {
        // Whoever has the connection now is given the same bytes.
        let handed_over = self.handed_over.take();
        if found.first().is_some_and(|(_, copied)| Some(copied.conn) == handed_over) {
            return;
        }
        let place = place.min(self.waiting.len());
        let answers = self.waiting.len() - place;
        for (_, copied) in found.into_iter().filter(|(end, _)| *end <= taken) {
            self.keep(copied);
        }
        self.waiting[place..].rotate_left(answers);
    }

    /// A packet, or several, for a client.
    pub(crate) fn sent(&mut self, conn: ConnKey, bytes: &[u8]) {
        let traces = self.mark(conn);
        if traces != 0 {
            self.keep_sent(conn, bytes, 0, traces, None);
        }
    }

    /// A PUBLISH for a client, of which the payload is that of the message.
    pub(crate) fn sent_publish_of(&mut self, conn: ConnKey, head: &[u8], message: &Message) {
        let (all_bytes, topic) = (message.payload.len(), &*message.topic);
        let shown_bytes = all_bytes.min(copy::PAYLOAD_BYTES_MAX);
        let bytes = [head, &message.payload[..shown_bytes]].concat();
        self.sent_publish(conn, &bytes, all_bytes - shown_bytes, topic);
    }

    /// A PUBLISH for a client, of which `shared_bytes` of the payload are not among these bytes.
    pub(crate) fn sent_publish(
        &mut self,
        conn: ConnKey,
        bytes: &[u8],
        shared_bytes: usize,
        topic: &str,
    ) {
        let traces = self.mark(conn) | self.of_topic(topic);
        if traces != 0 {
            self.keep_sent(conn, bytes, shared_bytes, traces, Some(topic));
        }
    }

    fn keep_sent(
        &mut self,
        conn: ConnKey,
        mut bytes: &[u8],
        shared_bytes: usize,
        traces: TraceBits,
        topic: Option<&str>,
    ) {
        let party = self.peers.get(&conn).cloned();
        while let Some(frame) = start_of(bytes, shared_bytes) {
            bytes = &bytes[bytes.len().min(frame.bytes)..];
            let has_alias_alone = frame.body.starts_with(&[0, 0]);
            let topic = topic.filter(|_| has_alias_alone).map(Into::into);
            let of = (traces, false);
            self.keep(Copied::new(conn, party.clone(), of, frame, topic));
        }
    }

    fn keep(&mut self, copied: Copied) {
        let bytes = copied.bytes();
        if self.waiting_bytes + bytes > WAITING_BYTES_MAX {
            for (slot, dropped) in (0..).zip(&mut self.dropped) {
                *dropped += u64::from(copied.traces & bit(slot) != 0);
            }
            return;
        }
        self.waiting_bytes += bytes;
        self.waiting.push(copied);
    }

    /// Looks up whose the packets of this turn are that are not known to be anybody's. `find`
    /// says whose a connection is.
    pub(crate) fn settle(&mut self, mut find: impl FnMut(ConnKey) -> Option<Party>) {
        while let Some(event) = self.waiting.get(self.unsettled) {
            let conn = event.conn;
            if event.party.is_none() {
                if !self.peers.contains_key(&conn)
                    && let Some(party) = find(conn)
                {
                    self.meet(conn, party);
                }
                self.waiting[self.unsettled].party = self.peers.get(&conn).cloned();
            }
            self.waiting[self.unsettled].cut();
            self.unsettled += 1;
        }
    }

    /// Hands over what waits.
    pub(crate) fn take(&mut self) -> Taken {
        (self.waiting_bytes, self.unsettled) = (0, 0);
        let (events, dropped) = (&mut self.waiting, &mut self.dropped);
        Taken { events: std::mem::take(events), dropped: std::mem::take(dropped) }
    }
}

impl Copied {
    fn new(
        conn: ConnKey,
        party: Option<Arc<Party>>,
        (traces, is_in): (TraceBits, bool),
        frame: Frame<'_>,
        topic: Option<Box<str>>,
    ) -> Self {
        let Frame { kind, flags, bytes: packet_bytes, .. } = frame;
        let body = copied_body(party.as_ref().map(|party| party.version), frame);
        let (at, kind) = (Timestamp::now(), Some(kind));
        Self { at, traces, is_in, conn, party, kind, flags, body, packet_bytes, topic }
    }

    fn of_no_packet(
        conn: ConnKey,
        party: Option<Arc<Party>>,
        traces: TraceBits,
        packet_bytes: usize,
    ) -> Self {
        let (at, is_in, kind, flags) = (Timestamp::now(), true, None, 0);
        Self { at, traces, is_in, conn, party, kind, flags, body: None, packet_bytes, topic: None }
    }

    /// What it counts against the bound.
    fn bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |body| body.len());
        EVENT_BYTES + body + self.topic.as_ref().map_or(0, |topic| topic.len())
    }

    /// Takes away what was kept only because nobody knew which version it is of.
    fn cut(&mut self) {
        if let (Some(party), Some(kind)) = (&self.party, self.kind)
            && let Some(body) = self.body.take()
        {
            let frame = Frame { kind, flags: self.flags, body: &body, bytes: self.packet_bytes };
            self.body = copied_body(Some(party.version), frame);
        }
    }
}

fn bit(slot: u8) -> TraceBits {
    1_u8.checked_shl(slot.into()).unwrap_or(0)
}

fn bits(wanted: &[Option<Wanted>], is_in: impl Fn(&Wanted) -> bool) -> TraceBits {
    let of = (0..).zip(wanted).filter(|(_, wanted)| wanted.as_ref().is_some_and(&is_in));
    of.fold(0, |bits, (slot, _)| bits | bit(slot))
}

/// The packet at the start of what the broker has written, of which so many bytes are elsewhere.
fn start_of(bytes: &[u8], shared_bytes: usize) -> Option<Frame<'_>> {
    if shared_bytes == 0 {
        return Frame::check(bytes, u32::MAX).ok().flatten();
    }
    let (first, rest) = bytes.split_first()?;
    let kind = PacketKind::Publish;
    let header_bytes = rest.iter().take(4).position(|byte| byte & 0x80 == 0)? + 2;
    let body = bytes.get(header_bytes..)?;
    Some(Frame { kind, flags: first & 0x0F, body, bytes: bytes.len() + shared_bytes })
}

#[cfg(test)]
mod tests;
