//! Connections as the broker has them: who is on them, and how they end.

use super::Model;
use crate::finding::Checker;
use crate::names::{ClientNo, ConnNo, MessageNo, SessionNo};
use std::collections::{BTreeMap, VecDeque};
use weir_core::Micros;
use weir_wire::packet::Connect;
use weir_wire::{PacketKind, Property, Version};

/// A connection, from its opening to the end of the run.
#[derive(Debug)]
pub struct Conn {
    /// Whose.
    pub client: ClientNo,
    /// Its version of MQTT.
    pub version: Version,
    /// Whether a shard has it.
    pub is_open: bool,
    /// When the present shard was told of it.
    pub opened_at: Micros,
    /// Its session, once the CONNECT was consumed; stays when both are over.
    pub session: Option<SessionNo>,
    /// From CONNECT to its end.
    pub is_live: bool,
    /// Its CONNECT was consumed, and whether that asks for a clean start: it waits to be let in
    /// until no other node has its session.
    pub asking: Option<bool>,
    /// Session Present as the CONNACK must say it; nothing once it did.
    pub owed_connack: Option<bool>,
    /// Its session was there before.
    pub is_resumed: bool,
    /// When bytes last came to the shard.
    pub heard_at: Micros,
    /// When its shard was last frozen: until then it was not silent.
    pub excused_at: Micros,
    /// Nothing is read from it: it cannot be silent.
    pub is_paused: bool,
    /// A shard said late that it does not take a message, which no packet says: it ends once what
    /// was sent before is answered.
    pub is_refused: bool,
    /// One and a half times the keep alive; zero is off.
    pub silence_max: Micros,
    /// PUBLISH packets of QoS 1 and 2 that the client takes at a time.
    pub receive_maximum: usize,
    /// Bytes of a packet that the client takes.
    pub packet_bytes_max: usize,
    /// Topic aliases that the client takes.
    pub aliases_max: u16,
    /// DISCONNECT was consumed: it is to be closed when nothing is owed any more.
    pub is_leaving: bool,
    /// What is published if it ends without DISCONNECT.
    pub will: Option<Will>,
    /// The answers that the broker owes, in the order of the requests.
    pub owed: VecDeque<Owed>,
    /// When its CONNECT was consumed.
    pub asked_at: u64,
    /// The filters of SUBSCRIBE packets not yet answered, by packet identifier.
    pub subscribes: BTreeMap<u16, Vec<usize>>,
    /// Topic aliases that the broker set up.
    pub aliases: BTreeMap<u16, &'static str>,
    /// When the last delivery that was sent again was sent first.
    pub resent: u64,
}

/// An answer that the broker owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// Which packet it is.
    pub kind: PacketKind,
    /// Its packet identifier.
    pub packet_id: u16,
    /// Of a PUBACK and PUBREC the place of the intake.
    pub intake: Option<usize>,
    /// When the request was consumed, if the answer promises that a change of the session outlives
    /// a crash.
    pub promises: Option<u64>,
}

/// A will.
#[derive(Clone, Copy, Debug)]
pub struct Will {
    /// What it says.
    pub message: MessageNo,
    /// Will Delay Interval.
    pub delay_s: u32,
}

impl Model {
    /// A client makes a connection.
    pub fn add_conn(&mut self, client: ClientNo, version: Version) -> ConnNo {
        self.conns.push(Conn {
            client,
            version,
            is_open: false,
            opened_at: self.now,
            session: None,
            is_live: false,
            asking: None,
            owed_connack: None,
            is_resumed: false,
            heard_at: self.now,
            excused_at: Micros(0),
            is_paused: false,
            is_refused: false,
            silence_max: Micros(0),
            receive_maximum: usize::MAX,
            packet_bytes_max: usize::MAX,
            aliases_max: 0,
            is_leaving: false,
            will: None,
            owed: VecDeque::new(),
            asked_at: 0,
            subscribes: BTreeMap::new(),
            aliases: BTreeMap::new(),
            resent: 0,
        });
        ConnNo(self.conns.len() - 1)
    }

    /// The broker reads no more from the connection, or again.
    pub fn set_paused(&mut self, conn: ConnNo, is_paused: bool) {
        let now = self.now;
        let conn = &mut self.conns[conn.0];
        conn.is_paused = is_paused;
        conn.heard_at = now;
    }

    /// A shard is told of the connection.
    pub fn opened(&mut self, conn: ConnNo) {
        let now = self.now;
        let conn = &mut self.conns[conn.0];
        (conn.is_open, conn.opened_at, conn.heard_at) = (true, now, now);
    }

    /// A shard gave it to another.
    pub fn handed_over(&mut self, conn: ConnNo) {
        self.conns[conn.0].is_open = false;
    }

    /// A whole packet of the connection came to the shard.
    pub fn heard(&mut self, conn: ConnNo) {
        self.conns[conn.0].heard_at = self.now;
    }

    /// CONNECT was consumed, and the shard owns its client.
    pub(super) fn connect(&mut self, conn: ConnNo, connect: &Connect<'_>) {
        let client = self.conns[conn.0].client;
        self.conns[conn.0].asking = None;
        if let Some(&old) = self.alive.get(&client)
            && let Some(old_conn) = self.session(old).conn
        {
            self.take_over(old, old_conn, connect.clean_start);
        }
        if connect.clean_start
            && let Some(&old) = self.alive.get(&client)
        {
            self.end_session(old);
        }
        let resumed = self.alive.get(&client).copied();
        let number = resumed.unwrap_or_else(|| self.new_session(client));
        let asked = Asked::of(connect);
        let (now, asked_at) = (self.now, self.tick());
        let session = &mut self.sessions[number.0];
        session.conn = Some(conn);
        session.shard = self.call.shard;
        session.expiry_s = asked.expiry_s;
        (session.expires_at, session.will) = (None, None);
        (session.parked, session.taken_back) = ((None, None), None);
        // It was to go from here, and has not.
        session.moving.take_if(|(from, _)| *from == session.shard);
        (session.comes_anew, session.is_awaited, session.is_overdue) = (false, false, false);
        (session.will_waits, session.is_will_untold) = (Micros(0), false);
        let conn = &mut self.conns[conn.0];
        conn.session = Some(number);
        conn.is_live = true;
        conn.owed_connack = Some(resumed.is_some());
        conn.is_resumed = resumed.is_some();
        conn.asked_at = asked_at;
        conn.heard_at = now;
        conn.silence_max = Micros(u64::from(connect.keep_alive_s) * 1_500_000);
        conn.receive_maximum = asked.receive_maximum.min(self.limits.in_flight_max.into());
        conn.packet_bytes_max = asked.packet_bytes_max;
        conn.aliases_max = asked.aliases_max;
        conn.will = asked.will;
    }

    /// [MQTT-3.1.4-3]. A delayed will is not published if the session goes on [MQTT-3.1.3-9].
    fn take_over(&mut self, session: SessionNo, conn: ConnNo, clean_start: bool) {
        let goes_on = !clean_start && self.session(session).expiry_s > 0;
        let will = &mut self.conns[conn.0].will;
        let taken_back = will.take_if(|will| goes_on && will.delay_s > 0);
        let (now, its) = (self.now, &mut self.sessions[session.0]);
        let due = |will: Will| now + Micros::from_secs(will.delay_s.min(its.expiry_s));
        its.taken_back = taken_back.map(|will| (will.message, due(will)));
        self.call.closing.push(conn);
        self.end_conn(conn, true);
    }

    /// A shard ends a connection since its client has come to another node, and its session too
    /// unless that goes there.
    pub fn taken_over(&mut self, conn: ConnNo, goes_on: bool) {
        let session = self.conns[conn.0].session.filter(|_| self.conns[conn.0].is_live);
        let Some(session) = session.filter(|_| !self.is_closing(conn)) else { return };
        let client = self.conns[conn.0].client;
        if !self.claimed.contains_key(&client) {
            return;
        }
        self.take_over(session, conn, !goes_on);
        if !goes_on && self.session(session).ended.is_none() {
            self.end_session(session);
        }
    }

    /// A shard has ended an absent session since its client has come to another node and begins
    /// anew.
    pub fn begun_elsewhere(&mut self, client: ClientNo) {
        if let Some(&session) = self.alive.get(&client)
            && self.begins_anew(client)
        {
            self.end_session(session);
        }
    }

    /// Whether a client has come to another node with a clean start.
    pub(crate) fn begins_anew(&self, client: ClientNo) -> bool {
        self.claimed.get(&client) == Some(&true)
    }

    /// A shard hears that a client has come to another node, with a clean start or not.
    pub fn claimed(&mut self, client: ClientNo, is_clean: bool) {
        *self.claimed.entry(client).or_default() |= is_clean;
    }

    /// Whether a client has come to another node.
    pub(crate) fn is_claimed(&self, client: ClientNo) -> bool {
        self.claimed.contains_key(&client)
    }

    /// A client waits to be let in.
    pub fn asks(&mut self, conn: ConnNo, is_clean: bool) {
        self.conns[conn.0].asking = Some(is_clean);
    }

    /// Whether a client waits to be let in.
    pub(super) fn is_asked_for(&self, client: ClientNo) -> bool {
        let asks = |conn: &Conn| conn.is_open && !conn.is_live && conn.asking.is_some();
        self.conns.iter().any(|conn| conn.client == client && asks(conn))
    }

    /// Whether a client that waits may be refused: it has come again.
    pub(crate) fn may_be_refused(&self, number: ConnNo) -> bool {
        let conn = &self.conns[number.0];
        let is_other = |(at, other): (usize, &Conn)| at != number.0 && other.client == conn.client;
        conn.asking.is_some() && self.conns.iter().enumerate().any(is_other)
    }

    /// The connection is over for its session.
    pub(super) fn end_conn(&mut self, conn: ConnNo, is_will_due: bool) {
        let conn = &mut self.conns[conn.0];
        if !std::mem::take(&mut conn.is_live) {
            return;
        }
        let will = conn.will.take().filter(|_| is_will_due);
        if let Some(session) = conn.session {
            self.leave(session, will);
        }
    }

    /// The shard is about to be told that the connection is gone.
    pub fn cut(&mut self, conn: ConnNo) {
        self.conns[conn.0].is_open = false;
        self.conns[conn.0].asking = None;
        self.end_conn(conn, true);
    }

    /// The shard closed the connection.
    pub fn closed(&mut self, conn: ConnNo) {
        self.call.closing.retain(|&closing| closing != conn);
        self.conns[conn.0].is_open = false;
        self.conns[conn.0].asking = None;
        self.end_conn(conn, true);
    }

    pub(crate) fn is_closing(&self, conn: ConnNo) -> bool {
        self.call.closing.contains(&conn)
    }

    pub(crate) fn is_blamed(&self, client: ClientNo) -> bool {
        self.call.blamed.contains(&client)
    }

    /// The present call is an input of the connection, and may leave it open.
    pub fn is_input_of(&mut self, conn: ConnNo, stays_open: bool) {
        self.call.input = Some(conn);
        self.call.open = Some(conn).filter(|_| stays_open);
    }

    /// DISCONNECT was consumed. What the client asked for before is answered first.
    pub(super) fn disconnect(&mut self, number: ConnNo, is_will_due: bool) {
        if self.call.open != Some(number) {
            self.must_close(number);
            // [MQTT-3.14.4-3]
            return self.end_conn(number, is_will_due);
        }
        let conn = &mut self.conns[number.0];
        conn.is_leaving = true;
        conn.will.take_if(|_| !is_will_due);
        self.call.leaving = Some(number);
    }

    pub(super) fn must_close(&mut self, conn: ConnNo) {
        if self.conns[conn.0].is_open {
            self.call.closing.push(conn);
        } else {
            self.fail(Checker::Lifetime, format!("connection {} was closed before", conn.0));
        }
    }
}

/// What a CONNECT asks for.
struct Asked {
    expiry_s: u32,
    receive_maximum: usize,
    packet_bytes_max: usize,
    aliases_max: u16,
    will: Option<Will>,
}

impl Asked {
    fn of(connect: &Connect<'_>) -> Self {
        let is_kept = !connect.version.is_v5() && !connect.clean_start;
        let mut asked = Self {
            expiry_s: if is_kept { u32::MAX } else { 0 },
            receive_maximum: 65_535,
            packet_bytes_max: usize::MAX,
            aliases_max: 0,
            will: None,
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => asked.expiry_s = seconds,
                Property::ReceiveMaximum(maximum) => asked.receive_maximum = maximum.into(),
                Property::TopicAliasMaximum(maximum) => asked.aliases_max = maximum,
                Property::MaximumPacketSize(bytes) => asked.packet_bytes_max = bytes as usize,
                _ => {}
            }
        }
        let delay = |property| match property {
            Property::WillDelayInterval(seconds) => Some(seconds),
            _ => None,
        };
        asked.will = connect.will.as_ref().and_then(|will| {
            let message = crate::message::Message::number(will.payload)?;
            Some(Will { message, delay_s: will.properties.find(delay).unwrap_or(0) })
        });
        asked
    }
}
