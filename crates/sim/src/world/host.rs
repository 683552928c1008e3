//! The shell's part: shards are called, and what they write goes where it belongs.

use super::line::BrokerEnd;
use super::nodes::{claimed, is_put_off};
use super::sink::{Event, Letter, Output};
use super::{WALL, World};
use crate::finding::Checker;
use crate::model::Said;
use crate::names::{ConnNo, Root};
use crate::plant::Plant;
use crate::trace::Line as Text;
use weir_core::{ConnKey, Mail, Micros, SessionMail, Shard, ShardId};
use weir_wire::{Frame, Packet, Version};

impl World {
    pub(super) fn new_root(&mut self) -> Root {
        self.roots += 1;
        Root(self.roots)
    }

    /// Calls a shard; what it did is still to be carried out.
    pub(super) fn act<T>(
        &mut self,
        shard: usize,
        call: impl FnOnce(&mut Shard, Micros, &mut Output<'_>) -> T,
    ) -> (T, Vec<Event>) {
        let mut now = self.now();
        if self.saboteur.strikes(Plant::SlowClock) {
            now.0 = now.0.saturating_sub(SLOW_MICROS);
        }
        let Self { ports, lines, journals, pages, shards, crashes, .. } = self;
        let (port, journal) = (&ports[shard], &mut journals[shard]);
        journal.begin_input();
        let before = journal.last();
        let mut output = Output { port, lines, shard, journal, pages, events: Vec::new() };
        let was_frozen = shards[shard].is_frozen();
        let result = call(&mut shards[shard], now, &mut output);
        if crashes.are_on {
            shards[shard].turn_end(&mut output);
        }
        let events = output.events;
        self.check_pages();
        for logged in self.journals[shard].behind(before) {
            let (lsn, record) = (logged.lsn.0, logged.record());
            self.trace.add(format_args!("  shard {shard}: log {lsn} {record:?}"));
        }
        if was_frozen && !self.shards[shard].is_frozen() {
            self.moves.thawed(shard, &mut self.model);
            Self::excuse(&mut self.model, &self.lines, shard);
        }
        let steps = self.shards[shard].steps();
        if steps > self.steps_max {
            let what = format!("shard {shard} took {steps} steps for one input");
            self.model.fail(Checker::Steps, what);
        }
        (result, events)
    }

    /// Carries out what a shard did in a call, in its order.
    pub(super) fn carry_out(&mut self, shard: usize, root: Root, mut events: Vec<Event>) {
        if self.size.nodes > 1 {
            self.follow_overdue();
            self.follow_sessions(shard, &events);
        }
        self.let_in(shard, &events);
        self.swap_writes(&mut events);
        let mut resumed = Vec::new();
        for event in events {
            match event {
                Event::Pause(key) => self.set_paused(shard, key, true),
                Event::Resume(key) => {
                    self.set_paused(shard, key, false);
                    resumed.extend(self.ports[shard].conns.get(&key));
                }
                Event::Write(key, bytes) => self.write(shard, key, bytes),
                Event::Close(key) => self.close(shard, key),
                Event::HandOver(key, to) => {
                    let Some(conn) = self.take_key(shard, key) else { continue };
                    self.lines[conn.0].end = BrokerEnd::Moving;
                    self.model.handed_over(conn);
                    self.post(shard, to, root, Letter::Conn(conn));
                }
                Event::Parcel(to, parcel, key) => self.send_parcel(shard, to, root, parcel, key),
                Event::Mail(to, mut mail) => {
                    self.note_claim(shard, &mail);
                    self.note_adoption(shard, &mail);
                    match &mail {
                        Mail::Publish { message, .. } => self.model.goes_again(&message.payload),
                        Mail::Copy { message, .. } => self.model.is_kept(&message.payload),
                        _ => {}
                    }
                    let times = self.saboteur.letter(&mut mail);
                    for _ in 0..times {
                        self.post(shard, to, root, Letter::Mail(mail.clone()));
                    }
                    self.hasten_switch(shard, to);
                    self.swap_letters(shard, to);
                }
                // Asked when the call returned.
                Event::Ask(..) => {}
                Event::Said(said, text) => {
                    self.trace.add(format_args!("  shard {shard}: {text}"));
                    self.model.said(&said);
                }
            }
        }
        self.model.end_call();
        let wills = self.model.wills_of_call();
        if self.shards[shard].is_frozen() && !wills.is_empty() {
            // They are published at the thaw.
            self.moves.hold_wills(shard, root, wills);
            *self.open_letters.entry(root).or_default() += 1;
        }
        self.hold_for_log(shard, root);
        self.settle(root);
        self.keep_books(shard);
        for conn in resumed {
            self.receive(conn, 0);
        }
    }

    fn set_paused(&mut self, shard: usize, key: ConnKey, is_paused: bool) {
        if let Some(&conn) = self.ports[shard].conns.get(&key) {
            self.lines[conn.0].is_paused = is_paused;
            self.model.set_paused(conn, is_paused);
        }
    }

    /// A letter of this call is delivered, or the call is over.
    pub(super) fn settle(&mut self, root: Root) {
        if self.open_letters.get(&root).is_none_or(|&count| count == 0) {
            self.open_letters.remove(&root);
            self.model.settled(root);
            let held = self.moves.settled(root).into_iter().chain(self.crashes.settled(root));
            for held in held.collect::<Vec<_>>() {
                if let Some(count) = self.open_letters.get_mut(&held) {
                    *count -= 1;
                }
                self.settle(held);
            }
        }
    }

    pub(super) fn post(&mut self, from: usize, to: usize, root: Root, letter: Letter) {
        if self.drops_letter(from, to, root) {
            return;
        }
        *self.open_letters.entry(root).or_default() += 1;
        self.mail.entry((from, to)).or_default().push_back((root, letter));
    }

    fn hasten_switch(&mut self, from: usize, to: usize) {
        let is_switch = |(_, letter): &(Root, Letter)| {
            matches!(letter, Letter::Mail(Mail::Session(SessionMail::Switched { .. })))
        };
        if let Some(queue) = self.mail.get_mut(&(from, to))
            && queue.len() > 1
            && queue.back().is_some_and(is_switch)
            && self.saboteur.strikes(Plant::SwitchEarly)
        {
            queue.rotate_right(1);
        }
    }

    fn swap_letters(&mut self, from: usize, to: usize) {
        if let Some(queue) = self.mail.get_mut(&(from, to))
            && queue.len() > 1
            && self.saboteur.strikes(Plant::SwapLetters)
        {
            let last = queue.len() - 1;
            queue.swap(last, last - 1);
        }
    }

    fn swap_writes(&mut self, events: &mut [Event]) {
        let is_pair = |pair: &[Event]| match pair {
            [Event::Write(one, first), Event::Write(other, second)] => {
                one == other && first[0] >> 4 == 3 && second[0] >> 4 == 3
            }
            _ => false,
        };
        if let Some(at) = events.windows(2).position(is_pair)
            && self.saboteur.strikes(Plant::SwapWrites)
        {
            events.swap(at, at + 1);
        }
    }

    fn write(&mut self, shard: usize, key: ConnKey, mut bytes: Vec<u8>) {
        let Some(&conn) = self.ports[shard].conns.get(&key) else {
            let what = format!("shard {shard} wrote to key {}, which is nobody's", key.0);
            return self.model.fail(Checker::Lifetime, what);
        };
        let version = self.lines[conn.0].version;
        for _ in 0..self.saboteur.write(&mut bytes) {
            let Self { model, trace, .. } = self;
            crate::check::in_flight::size(model, conn, bytes.len());
            let is_whole = packets(&bytes, version, |packet| {
                trace.add(format_args!("  {} < {}", conn.0, Text(packet)));
                model.wrote(conn, packet);
            });
            if !is_whole {
                let what = format!("connection {}: not a packet: {bytes:?}", conn.0);
                model.fail(Checker::Answers, what);
            }
            let line = &mut self.lines[conn.0];
            if line.is_client_open {
                line.down.extend_from_slice(&bytes);
            }
        }
    }

    fn close(&mut self, shard: usize, key: ConnKey) {
        let Some(conn) = self.take_key(shard, key) else {
            let what = format!("shard {shard} closed key {}, which is nobody's", key.0);
            return self.model.fail(Checker::Lifetime, what);
        };
        self.trace.add(format_args!("  {} closed", conn.0));
        let line = &mut self.lines[conn.0];
        line.end = BrokerEnd::Closed;
        line.is_paused = false;
        line.up.clear();
        line.unconsumed.clear();
        crate::check::lifetime::closed(&mut self.model, conn);
        self.model.closed(conn);
    }

    pub(super) fn take_key(&mut self, shard: usize, key: ConnKey) -> Option<ConnNo> {
        let conn = self.ports[shard].conns.remove(&key)?;
        self.ports[shard].free.push(key);
        Some(conn)
    }

    /// A shard is told of a connection.
    pub(super) fn open(&mut self, shard: usize, conn: ConnNo) {
        let now = self.now();
        let key = self.give_key(shard, conn);
        self.shards[shard].opened(key, now);
    }

    /// A shard is to have a connection under a key of its own.
    pub(super) fn give_key(&mut self, shard: usize, conn: ConnNo) -> ConnKey {
        let port = &mut self.ports[shard];
        let key = port.free.pop().unwrap_or_else(|| {
            port.count += 1;
            ConnKey(port.count - 1)
        });
        port.conns.insert(key, conn);
        self.lines[conn.0].end = BrokerEnd::At(shard, key);
        self.model.opened(conn);
        key
    }

    /// A shard is given bytes of a connection, behind those it left.
    pub(super) fn receive(&mut self, conn: ConnNo, count: usize) {
        let root = self.new_root();
        let line = &mut self.lines[conn.0];
        let BrokerEnd::At(shard, key) = line.end else { return };
        if line.is_paused {
            return;
        }
        let more: Vec<u8> = line.up.drain(..count.min(line.up.len())).collect();
        line.unconsumed.extend_from_slice(&more);
        let bytes = std::mem::take(&mut line.unconsumed);
        let version = line.version;
        if self.is_lost_disconnect(conn, &bytes) {
            return self.cut_from_broker(conn);
        }
        if matches!(Frame::check(&bytes, u32::MAX), Ok(Some(_))) {
            self.model.heard(conn);
        }
        self.model.begin_call(root, shard);
        let press = self.under_pressure(&bytes, version);
        let (consumed, events) = self.act(shard, |shard, now, sink| {
            press(shard, true);
            let consumed = shard.received(key, &bytes, now, sink);
            press(shard, false);
            consumed
        });
        self.lines[conn.0].unconsumed = bytes[consumed..].to_vec();
        for event in &events {
            if let &Event::Ask(key, ticket) = event {
                self.ask(shard, key, ticket);
            }
        }
        let is_closed = |event: &Event| matches!(event, Event::Close(closed) if *closed == key);
        self.model.is_input_of(conn, !events.iter().any(is_closed));
        let is_its =
            |event: &Event| matches!(event, Event::Said(Said::Connected(at), _) if *at == key);
        let is_let_in = events.iter().any(is_its);
        packets(&bytes[..consumed], version, |packet| {
            self.trace.add(format_args!("  {} > {}", conn.0, Text(packet)));
            self.consumed(conn, packet, is_let_in);
        });
        self.carry_out(shard, root, events);
    }

    fn is_lost_disconnect(&mut self, conn: ConnNo, bytes: &[u8]) -> bool {
        let mut is_disconnect = false;
        packets(bytes, self.lines[conn.0].version, |packet| {
            is_disconnect |= matches!(packet, Packet::Disconnect(_));
        });
        if is_disconnect && self.saboteur.strikes(Plant::DisconnectAsCut) {
            // The model is told what should have happened.
            packets(bytes, self.lines[conn.0].version, |packet| self.model.consumed(conn, packet));
            return true;
        }
        false
    }

    /// The shard is told that the connection is gone.
    pub(super) fn cut_from_broker(&mut self, conn: ConnNo) {
        let BrokerEnd::At(shard, key) = self.lines[conn.0].end else {
            self.lines[conn.0].end = BrokerEnd::Closed;
            return;
        };
        self.take_key(shard, key);
        let line = &mut self.lines[conn.0];
        line.end = BrokerEnd::Closed;
        line.up.clear();
        line.unconsumed.clear();
        self.trace.add(format_args!("  {} cut", conn.0));
        let root = self.new_root();
        self.model.begin_call(root, shard);
        self.model.cut(conn);
        if self.saboteur.strikes(Plant::CutAsDisconnect) {
            let (_, _) = self.act(shard, |shard, now, sink| {
                shard.received(key, &[0xE0, 0], now, sink);
            });
            return self.carry_out(shard, root, Vec::new());
        }
        if self.saboteur.strikes(Plant::ForgetClosed) {
            // Its key is not given again: the shard would not stand for that.
            self.ports[shard].free.retain(|&free| free != key);
            return self.carry_out(shard, root, Vec::new());
        }
        let ((), events) = self.act(shard, |shard, now, sink| shard.closed(key, now, sink));
        self.carry_out(shard, root, events);
    }

    /// All output of the connection has left.
    pub(super) fn drained(&mut self, conn: ConnNo) {
        let BrokerEnd::At(shard, key) = self.lines[conn.0].end else { return };
        if self.saboteur.strikes(Plant::ForgetDrained) {
            return;
        }
        let root = self.new_root();
        self.model.begin_call(root, shard);
        let ((), events) = self.act(shard, |shard, now, sink| shard.drained(key, now, sink));
        self.carry_out(shard, root, events);
    }

    /// Delivers the oldest letter between two shards; says whether there was one.
    pub(super) fn deliver(&mut self, from: usize, to: usize) -> bool {
        let queue = self.mail.get_mut(&(from, to));
        let Some((root, letter)) = queue.and_then(std::collections::VecDeque::pop_front) else {
            return false;
        };
        if let Some(count) = self.open_letters.get_mut(&root) {
            *count -= 1;
        }
        match letter {
            Letter::Mail(mail) => {
                self.trace.add(format_args!("  shard {from} to {to}: {mail:?}"));
                let mail = through_bytes(&mail);
                let (comes, claimed) = (self.comes(&mail), claimed(&mail));
                self.hear_claim(to, &mail);
                self.follow_letter(from, to, &mail);
                self.model.begin_call(root, to);
                let from = ShardId(from as u16);
                let press = self.press_for(&mail);
                let before = self.shards[to].stats().sessions_taken;
                let ((), events) = self.act(to, |shard, now, sink| {
                    press(shard, true);
                    shard.mail(from, mail, now, sink);
                    press(shard, false);
                    shard.turn_end(sink);
                });
                if self.shards[to].stats().sessions_taken > before
                    && let Some(client) = comes
                {
                    self.has_come(client, to);
                }
                if let Some((client, number)) = claimed
                    && is_put_off(number, &events)
                {
                    self.model.is_awaited(client, to);
                }
                self.carry_out(to, root, events);
                self.copies.is_told = false;
            }
            Letter::Conn(conn) => {
                if self.lines[conn.0].end == BrokerEnd::Moving {
                    self.open(to, conn);
                    self.receive(conn, 0);
                }
                self.settle(root);
            }
            Letter::Parcel(parcel, conn) => self.take_parcel(to, root, parcel, conn),
        }
        true
    }

    /// Lets time pass up to `end`; everything due on the way is done when it is due.
    pub(super) fn pass(&mut self, end: Micros) {
        while let Some((due, shard)) = self.next_due().filter(|&(due, _)| due <= end) {
            self.model.now = due.max(self.model.now);
            let root = self.new_root();
            self.model.begin_call(root, shard);
            let now = self.now();
            self.model.pass(shard, now);
            if self.saboteur.strikes(Plant::ForgetTimeout) {
                self.carry_out(shard, root, Vec::new());
                break;
            }
            self.trace.add(format_args!("  shard {shard}: timeout at {}", now.0));
            let ((), events) = self.act(shard, |shard, now, sink| shard.handle_timeout(now, sink));
            self.crashes.may_release = true;
            self.carry_out(shard, root, events);
        }
        self.model.now = end.max(self.model.now);
        for shard in (0..self.shards.len()).filter(|&shard| self.shards[shard].is_frozen()) {
            Self::excuse(&mut self.model, &self.lines, shard);
        }
        crate::check::lifetime::passed(&mut self.model);
    }

    /// Lets the shards go on with what could wait for a later turn. Says whether there was
    /// something.
    pub(super) fn go_on(&mut self) -> bool {
        let soon = self.now() + Micros(1);
        let is_due = self.next_due().is_some_and(|(due, _)| due <= soon);
        if is_due {
            self.pass(soon);
        }
        is_due
    }

    /// When something is due next, and on which shard: by the shards and by the books.
    fn next_due(&self) -> Option<(Micros, usize)> {
        let of_shard = |shard: usize| {
            let booked = self.model.next_due(shard).map(|(due, ..)| due);
            let booked = booked.into_iter().chain(self.model.next_orphan(shard));
            let due = self.shards[shard].poll_timeout().into_iter().chain(booked).min();
            due.map(|due| (due, shard))
        };
        (0..self.shards.len()).filter(|&shard| !self.is_away(shard)).filter_map(of_shard).min()
    }
}

/// A letter as a shard of another node gets it.
fn through_bytes(mail: &Mail) -> Mail {
    let mut bytes = Vec::new();
    mail.encode(WALL, &mut bytes);
    let read = Mail::decode(&bytes, WALL);
    assert_eq!(read.as_ref(), Ok(mail), "a letter does not outlive its encoding");
    read.unwrap_or(Mail::Thawed)
}

/// How far a slow clock is behind.
const SLOW_MICROS: u64 = 3_000_000;

/// The whole packets at the start of `bytes`; says whether all of it is packets.
pub(super) fn packets(bytes: &[u8], version: Version, mut each: impl FnMut(&Packet<'_>)) -> bool {
    let (mut at, mut is_whole) = (0, true);
    while let Ok(Some(frame)) = Frame::check(&bytes[at..], u32::MAX) {
        match Packet::decode(version, frame) {
            Ok(packet) => each(&packet),
            Err(_) => is_whole = false,
        }
        at += frame.bytes;
    }
    is_whole && at == bytes.len()
}
