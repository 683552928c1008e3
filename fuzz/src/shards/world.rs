//! One or two shards, their connections, the letters between them, and the clock.

use super::client::Client;
use super::packets::{self, CLIENT_IDS};
use super::script::CONNECTIONS;
use super::settings::settings;
use super::wires::Wires;
use weir_core::{ConnKey, Limits, Micros, Shard, ShardId, Verdict};
use weir_wire::{Frame, ReasonCode};

/// Rounds in which everything that can happen has happened, or there is no end to it.
const ROUNDS_MAX: usize = 20_000;

/// Times the steps after which an input lets the rest wait: what its packets may cost, and what the
/// last of them may cost beyond.
const STEPS_FACTOR: u64 = 16;
const LAST_STEPS_MAX: u64 = 500;

/// Everything there is.
#[derive(Debug)]
pub struct World {
    limits: Limits,
    shards: Vec<Shard>,
    wires: Vec<Wires>,
    clients: [Option<Client>; CONNECTIONS as usize],
    now: Micros,
}

impl World {
    pub fn new(byte: u8) -> Self {
        let settings = settings(byte);
        let count = u16::from(byte & 1) + 1;
        let output_bytes_max = settings.limits.output_bytes_max;
        Self {
            limits: settings.limits.clone(),
            shards: (0..count)
                .map(|id| Shard::new(ShardId(id), count, settings.clone(), 42))
                .collect(),
            wires: (0..count).map(|_| Wires::new(output_bytes_max)).collect(),
            clients: Default::default(),
            now: Micros(1_000_000),
        }
    }

    pub fn client(&self, conn: ConnKey) -> Option<&Client> {
        self.clients[conn.0 as usize].as_ref()
    }

    /// A connection is accepted by a shard, or over a bound of the shell's.
    pub fn open(&mut self, conn: ConnKey, byte: u8) {
        if self.client(conn).is_some() {
            return;
        }
        let shard = usize::from(byte) % self.shards.len();
        if byte >= 0xF0 {
            let reason = ReasonCode::ConnectionRateExceeded;
            self.shards[shard].opened_refused(conn, reason, self.now);
        } else {
            self.shards[shard].opened(conn, self.now);
        }
        self.wires[shard].wire(conn).is_open = true;
        self.clients[conn.0 as usize] = Some(Client::new(shard));
    }

    /// The client sends bytes, in pieces of `piece_bytes`; 0 is all at once.
    pub fn send(&mut self, conn: ConnKey, bytes: &[u8], piece_bytes: u8) {
        let piece_bytes = if piece_bytes == 0 { bytes.len() } else { usize::from(piece_bytes) };
        for piece in bytes.chunks(piece_bytes.max(1)) {
            let Some(client) = &mut self.clients[conn.0 as usize] else { return };
            client.unread.extend_from_slice(piece);
            self.receive(conn);
            self.look(conn);
        }
    }

    /// The shard gets what it has not consumed.
    fn receive(&mut self, conn: ConnKey) {
        let Some(client) = &mut self.clients[conn.0 as usize] else { return };
        client.note();
        let (shard, wires) = (&mut self.shards[client.shard], &mut self.wires[client.shard]);
        if wires.wire(conn).is_paused {
            // The shell does not read from it.
            return;
        }
        let consumed = shard.received(conn, &client.unread, self.now, wires);
        client.consumed(consumed);
        let wire = wires.wire(conn);
        if let Some(to) = wire.hand_over.take() {
            assert_ne!(usize::from(to.0), client.shard, "handed over to itself");
            client.shard = usize::from(to.0);
            self.shards[client.shard].opened(conn, self.now);
            self.wires[client.shard].wire(conn).is_open = true;
            self.receive(conn);
        } else if wire.is_open && wire.asked.is_empty() && !wire.is_paused {
            let rest = Frame::check(&client.unread, self.limits.packet_bytes_max);
            assert_eq!(rest, Ok(None), "a packet is left unread");
        }
    }

    /// The client reads what there is. Says whether there was anything.
    fn look(&mut self, conn: ConnKey) -> bool {
        let Some(client) = &mut self.clients[conn.0 as usize] else { return false };
        let wire = self.wires[client.shard].wire(conn);
        let output = std::mem::take(&mut wire.output);
        client.read(&output);
        if wire.is_ended {
            *wire = Default::default();
            self.clients[conn.0 as usize] = None;
        }
        !output.is_empty()
    }

    /// The turn is over: outputs are sent, and what was written has come.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "no end of output");
            let mut is_quiet = true;
            for conn in connections() {
                is_quiet &= !self.look(conn);
                is_quiet &= !self.flush(conn);
            }
            if is_quiet {
                break;
            }
        }
        for (at, shard) in self.shards.iter().enumerate() {
            let steps_max = u64::from(self.limits.input_steps_max) * STEPS_FACTOR + LAST_STEPS_MAX;
            assert!(shard.steps() <= steps_max, "{} steps for one input", shard.steps());
            let stats = shard.stats();
            let open = self.wires[at].wires.iter().filter(|wire| wire.is_open).count();
            assert_eq!(stats.connections, open as u64, "connections of shard {at}");
            assert!(stats.retained <= u64::from(self.limits.retained_messages_max));
        }
    }

    /// The socket takes all that waits, unless it is stuck. Says whether the shard heard of it.
    fn flush(&mut self, conn: ConnKey) -> bool {
        let Some(client) = &self.clients[conn.0 as usize] else { return false };
        if client.is_stuck {
            return false;
        }
        let wires = &mut self.wires[client.shard];
        let pending = std::mem::take(&mut wires.wire(conn).pending);
        let is_drained = pending * 2 > self.limits.output_bytes_max;
        if is_drained {
            self.shards[client.shard].drained(conn, self.now, wires);
        }
        is_drained
    }

    pub fn set_stuck(&mut self, conn: ConnKey, is_stuck: bool) {
        if let Some(client) = &mut self.clients[conn.0 as usize] {
            client.is_stuck = is_stuck;
        }
    }

    /// The client acknowledges all that it got; says whether there was anything.
    pub fn acknowledge(&mut self, conn: ConnKey) -> bool {
        let Some(client) = &mut self.clients[conn.0 as usize] else { return false };
        let bytes = client.acknowledgements();
        if !bytes.is_empty() {
            self.send(conn, &bytes, 0);
        }
        !bytes.is_empty()
    }

    /// The network ends the connection.
    pub fn cut(&mut self, conn: ConnKey) {
        let Some(client) = self.clients[conn.0 as usize].take() else { return };
        let wires = &mut self.wires[client.shard];
        *wires.wire(conn) = Default::default();
        self.shards[client.shard].closed(conn, self.now, wires);
    }

    /// The authentication port answers the oldest question about a connection; says whether there
    /// was one.
    pub fn answer_verdict(&mut self, conn: ConnKey, byte: u8) -> bool {
        let Some(client) = &self.clients[conn.0 as usize] else { return false };
        let wires = &mut self.wires[client.shard];
        let Some((ticket, has_method)) = wires.wire(conn).asked.pop_front() else { return false };
        let data = vec![b'd'; usize::from(byte >> 4)];
        let verdict = match byte % 4 {
            0 | 1 => Verdict::Accept(data),
            2 if has_method => Verdict::Continue(data),
            _ => Verdict::Refuse(ReasonCode::NotAuthorized),
        };
        let shard = client.shard;
        self.shards[shard].authenticated(ticket, verdict, self.now, wires);
        self.resume(shard);
        true
    }

    /// Delivers the oldest letters of a shard; says whether there was one.
    pub fn deliver_mail(&mut self, from: usize, count: usize) -> bool {
        let from = from % self.shards.len();
        let mut is_any = false;
        for _ in 0..=count {
            let Some((to, mail)) = self.wires[from].mail.pop_front() else { break };
            is_any = true;
            let at = usize::from(to.0);
            let wires = &mut self.wires[at];
            self.shards[at].mail(ShardId(from as u16), mail, self.now, wires);
            self.shards[at].turn_end(wires);
            self.resume(at);
        }
        is_any
    }

    /// The shard gets what it did not consume before.
    fn resume(&mut self, shard: usize) {
        while let Some(conn) = self.wires[shard].resumed.pop() {
            let client = self.clients[conn.0 as usize].as_ref();
            if client.is_some_and(|client| client.shard == shard)
                && self.wires[shard].wire(conn).is_open
            {
                self.receive(conn);
            }
        }
    }

    /// Lets time pass; what is due on the way is done.
    pub fn pass(&mut self, seconds: u32) {
        let end = self.now + Micros::from_secs(seconds);
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "timeouts without end");
            let due = |at: &usize| self.shards[*at].poll_timeout().filter(|&due| due <= end);
            let Some(at) = (0..self.shards.len()).filter(|at| due(at).is_some()).min_by_key(due)
            else {
                break;
            };
            self.now = due(&at).map_or(self.now, |due| due.max(self.now));
            self.handle_timeout(at);
            self.settle();
        }
        self.now = end;
    }

    fn handle_timeout(&mut self, at: usize) {
        self.shards[at].handle_timeout(self.now, &mut self.wires[at]);
        let next = self.shards[at].poll_timeout();
        assert!(next.is_none_or(|next| next > self.now), "a timeout that stays due");
        self.resume(at);
    }

    /// Later turns of the shards, as far as they are for what could wait. Says whether there was
    /// one.
    fn go_on(&mut self) -> bool {
        let soon = self.now + Micros(1);
        let is_due = |shard: &Shard| shard.poll_timeout().is_some_and(|due| due <= soon);
        let due: Vec<usize> =
            (0..self.shards.len()).filter(|&at| is_due(&self.shards[at])).collect();
        if due.is_empty() {
            return false;
        }
        self.now = soon;
        due.into_iter().for_each(|at| self.handle_timeout(at));
        true
    }

    pub fn set_pressed(&mut self, shard: usize, is_pressed: bool) {
        let at = shard % self.shards.len();
        self.shards[at].set_pressed(is_pressed);
    }

    /// Everything that can go on goes on until nothing does: sockets take, clients acknowledge,
    /// letters and answers come.
    pub fn quiesce(&mut self) {
        for shard in &mut self.shards {
            shard.set_pressed(false);
        }
        for client in self.clients.iter_mut().flatten() {
            client.is_stuck = false;
        }
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "no end of letters and acknowledgements");
            self.settle();
            let mut is_quiet = !self.go_on();
            for from in 0..self.shards.len() {
                is_quiet &= !self.deliver_mail(from, usize::from(u8::MAX));
            }
            for conn in connections() {
                is_quiet &= !self.answer_verdict(conn, 0);
                is_quiet &= !self.acknowledge(conn);
            }
            if is_quiet {
                break;
            }
        }
    }

    /// Every client comes back for what waits, which is no more than may; then all ends, and
    /// nothing is left of it.
    pub fn end(&mut self, is_stopped: bool) {
        connections().for_each(|conn| self.cut(conn));
        self.quiesce();
        if self.shards.iter().any(|shard| shard.stats().sessions > 0) {
            CLIENT_IDS[1..].iter().for_each(|client_id| self.fetch(client_id));
        }
        if is_stopped {
            for (shard, wires) in self.shards.iter_mut().zip(&mut self.wires) {
                shard.stop(self.now, wires);
                assert_eq!(shard.stats().connections, 0, "connections after the stop");
            }
        } else {
            connections().for_each(|conn| self.cut(conn));
        }
        self.quiesce();
        // Wills that are published late are the last that happens.
        for _ in 0..3 {
            self.pass(2 * self.limits.session_expiry_s_max);
            self.quiesce();
        }
        for shard in &self.shards {
            let stats = shard.stats();
            let left = (stats.connections, stats.sessions, stats.filters, stats.awaited);
            assert_eq!(left, (0, 0, 0, 0), "left: connections, sessions, filters, awaited");
            assert_eq!(shard.poll_timeout(), None, "a timeout for nothing");
        }
    }

    /// A client comes back for what waits for it, and takes it all.
    fn fetch(&mut self, client_id: &str) {
        // What came in before is gone: a connection is free.
        let conn = ConnKey(u32::from(CONNECTIONS) - 1);
        self.cut(conn);
        self.open(conn, 0);
        self.send(conn, &packets::resume(client_id), 0);
        self.quiesce();
        if let Some(client) = self.client(conn) {
            let waiting_max = self.limits.queue_messages_max + u32::from(self.limits.in_flight_max);
            let waited = client.live_received;
            assert!(waited <= waiting_max as usize, "{waited} messages waited for {client_id}");
        }
        self.check_alive(conn, client_id);
    }

    /// Nothing waits for the client, so what it is sent now comes.
    fn check_alive(&mut self, conn: ConnKey, client_id: &str) {
        self.send(conn, &packets::subscribe_own(client_id), 0);
        self.quiesce();
        let Some(client) = self.client(conn).filter(|client| client.is_subscribed) else { return };
        let received = client.live_received;
        self.send(conn, &packets::publish_own(client_id), 0);
        self.quiesce();
        let received_now = self.client(conn).map(|client| client.live_received);
        assert!(received_now > Some(received), "a message does not come");
    }
}

fn connections() -> impl Iterator<Item = ConnKey> {
    (0..u32::from(CONNECTIONS)).map(ConnKey)
}
