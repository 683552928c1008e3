//! Shards and clients in one thread, without sockets: what a shell would do, step by step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use weir_core::{
    AuthRequest, ConnKey, Limits, Lsn, Mail, Micros, NotMoved, Notice, Origin, PageId, PageIn,
    PageOut, PageTicket, Parcel, Partitions, Record, Settings, Shard, ShardId, Sink, Ticket,
    Verdict, Wall,
};
use weir_wire::packet::{
    Ack, Auth, Connect, Disconnect, Publish, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf,
    Will,
};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode,
    Version,
};

/// What the shards' hashes hang on.
pub(crate) const SEED: u64 = 42;

/// A connection of the test: which shard has it, and under which key.
pub(crate) type Peer = usize;

/// The shell's side of one shard.
#[derive(Default)]
pub(crate) struct Wires {
    outputs: BTreeMap<ConnKey, Vec<u8>>,
    closed: Vec<ConnKey>,
    handed_over: Vec<(ConnKey, ShardId)>,
    /// Letters on their way from this shard, oldest first.
    pub(crate) mail: VecDeque<(ShardId, Mail)>,
    /// As letters, and before those that are on their way.
    pub(crate) parcels: VecDeque<(ShardId, Parcel, Option<ConnKey>)>,
    pub(crate) notices: Vec<String>,
    /// What the authentication port was asked.
    pub(crate) asked: Vec<String>,
    /// The newest question about each connection.
    pub(crate) tickets: BTreeMap<ConnKey, Ticket>,
    /// Connections that are not read.
    pub(crate) paused: BTreeSet<ConnKey>,
    resumed: Vec<ConnKey>,
    /// What `pending` answers: a socket that takes nothing.
    pub(crate) stuck_bytes: BTreeMap<ConnKey, usize>,
    /// Connections whose clients read.
    pub(crate) reading: BTreeSet<ConnKey>,
    /// Where those that CONNECT now come from.
    origin: Option<Origin>,
    /// Connections with input that the shard was not given yet.
    pub(crate) unread: BTreeSet<ConnKey>,
    /// The log: where each record is, its kind and its body.
    pub(crate) log: Vec<(Lsn, u8, Vec<u8>)>,
    pub(crate) disk: PageDisk,
}

/// Pages, and what was asked of them and is not answered yet.
#[derive(Default)]
pub(crate) struct PageDisk {
    pub(crate) pages: BTreeMap<PageId, Vec<u8>>,
    pub(crate) outs: Vec<(PageTicket, Vec<u8>)>,
    pub(crate) ins: Vec<(PageTicket, PageId)>,
    pub(crate) freed: Vec<PageId>,
    last: u64,
}

impl PageDisk {
    /// What is on a page.
    pub(crate) fn read(&self, page: PageId) -> Result<PageIn, String> {
        let bytes = self.pages.get(&page).ok_or(format!("{page:?} is not there"))?;
        PageIn::decode(bytes, Wall(0)).map_err(|bad| bad.to_string())
    }

    /// Puts a page on the disk.
    fn write(&mut self, bytes: Vec<u8>) -> PageId {
        self.last += 1;
        self.pages.insert(PageId(self.last), bytes);
        PageId(self.last)
    }

    /// What a crash leaves of it: what was asked is over.
    pub(crate) fn after_crash(mut self) -> Self {
        self.outs.clear();
        self.ins.clear();
        self
    }
}

impl Sink for Wires {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.outputs.entry(conn).or_default().extend_from_slice(bytes);
    }

    fn pending(&self, conn: ConnKey) -> usize {
        self.stuck_bytes.get(&conn).copied().unwrap_or(0)
    }

    fn is_read(&self, conn: ConnKey) -> bool {
        self.reading.contains(&conn)
    }

    fn origin(&self, _conn: ConnKey) -> Option<Origin> {
        self.origin
    }

    fn has_unread(&self, conn: ConnKey) -> bool {
        self.unread.contains(&conn)
    }

    fn close(&mut self, conn: ConnKey) {
        self.closed.push(conn);
    }

    fn hand_over(&mut self, conn: ConnKey, to: ShardId) {
        self.handed_over.push((conn, to));
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.mail.push_back((to, mail));
    }

    fn send_parcel(&mut self, to: ShardId, parcel: Parcel, conn: Option<ConnKey>) {
        self.parcels.push_back((to, parcel, conn));
    }

    fn pause(&mut self, conn: ConnKey) {
        self.paused.insert(conn);
    }

    fn resume(&mut self, conn: ConnKey) {
        self.paused.remove(&conn);
        self.resumed.push(conn);
    }

    fn authenticate(&mut self, request: AuthRequest<'_>) {
        let AuthRequest { conn, ticket, step, method, data, .. } = request;
        self.tickets.insert(conn, ticket);
        self.asked.push(format!("{step:?} {method:?} {}", String::from_utf8_lossy(data)));
    }

    fn log(&mut self, record: &Record<'_>) -> Lsn {
        // As a log of some age: no number tells a place in this list.
        let lsn = Lsn(self.log.last().map_or(100, |(lsn, ..)| lsn.0 + 3));
        let mut body = Vec::new();
        record.encode(Wall(0), &mut body);
        self.log.push((lsn, record.kind(), body));
        lsn
    }

    fn page_out(&mut self, ticket: PageTicket, page: PageOut<'_>) {
        let mut bytes = Vec::new();
        page.encode(Wall(0), &mut bytes);
        self.disk.outs.push((ticket, bytes));
    }

    fn page_in(&mut self, ticket: PageTicket, page: PageId, _bytes: u64) {
        assert!(self.disk.pages.contains_key(&page), "{page:?} is not there");
        self.disk.ins.push((ticket, page));
    }

    fn free_page(&mut self, page: PageId) {
        assert!(self.disk.pages.remove(&page).is_some(), "{page:?} is freed twice");
        self.disk.freed.push(page);
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.notices.push(format!("{notice:?}"));
    }
}

struct Conn {
    shard: usize,
    key: ConnKey,
    version: Version,
    is_closed: bool,
    /// What the shard has not consumed.
    left: Vec<u8>,
}

/// A broker of some shards with its connections.
pub(crate) struct Net {
    pub(crate) shards: Vec<Shard>,
    pub(crate) wires: Vec<Wires>,
    peers: Vec<Conn>,
    pub(crate) now: Micros,
    /// Where those that come now are accepted.
    pub(crate) entry: usize,
    next_key: u32,
    /// Keys of connections that are gone, to be given again before new ones.
    pub(crate) free_keys: Vec<ConnKey>,
    /// The most steps that one input took.
    pub(crate) steps_seen_max: u64,
}

impl Net {
    pub(crate) fn new(shards: u16) -> Self {
        Self::with_limits(shards, &Limits::default())
    }

    pub(crate) fn with_limits(shards: u16, limits: &Limits) -> Self {
        Self::with_settings(shards, &limits.clone().into())
    }

    pub(crate) fn with_settings(shards: u16, settings: &Settings) -> Self {
        Self {
            shards: (0..shards)
                .map(|id| Shard::new(ShardId(id), shards, settings.clone(), SEED))
                .collect(),
            wires: (0..shards).map(|_| Wires::default()).collect(),
            peers: Vec::new(),
            now: Micros(1_000_000),
            entry: 0,
            next_key: 0,
            free_keys: Vec::new(),
            steps_seen_max: 0,
        }
    }

    /// As [`Net::with_limits`], with a log for each shard.
    pub(crate) fn with_logs(shards: u16, limits: &Limits) -> Self {
        let mut net = Self::with_limits(shards, limits);
        net.shards.iter_mut().for_each(Shard::keep_log);
        net
    }

    /// Nodes of a shard each, with a log if `is_logged`, which know each other.
    pub(crate) fn of_nodes(nodes: u16, is_logged: bool) -> Self {
        let each: Vec<Range<u16>> = (0..nodes).map(|id| id..id + 1).collect();
        Self::of_nodes_of(&each, is_logged)
    }

    /// The same of nodes that have these shards.
    pub(crate) fn of_nodes_of(nodes: &[Range<u16>], is_logged: bool) -> Self {
        let mut net = Self::new(nodes.last().unwrap().end);
        for node in nodes {
            for id in node.clone() {
                let settings = Settings::default();
                let mut shard = Shard::of_node(ShardId(id), node.clone(), settings, SEED);
                shard.set_clustered(1_000, Micros(1_000), Wall(0));
                if is_logged {
                    shard.keep_log();
                }
                net.shards[usize::from(id)] = shard;
            }
        }
        for other in nodes {
            for at in (0..net.shards.len()).filter(|&at| !other.contains(&(at as u16))) {
                net.meet_node(at, other);
            }
        }
        net.go_on();
        net
    }

    /// A node is here, for another.
    pub(crate) fn meet(&mut self, at: usize, other: u16) {
        self.meet_node(at, &(other..other + 1));
    }

    fn meet_node(&mut self, at: usize, other: &Range<u16>) {
        self.shards[at].node_joined(other.clone(), self.now, &mut self.wires[at]);
        self.shards[at].turn_end(&mut self.wires[at]);
    }

    /// A node is lost, with what is on its way to and from it.
    pub(crate) fn lose_node(&mut self, lost: u16) {
        self.wires[usize::from(lost)].mail.clear();
        for at in (0..self.shards.len()).filter(|&at| at != usize::from(lost)) {
            self.wires[at].mail.retain(|(to, _)| to.0 != lost);
            self.shards[at].node_lost(lost..lost + 1, self.now, &mut self.wires[at]);
            self.shards[at].turn_end(&mut self.wires[at]);
            self.resume(at);
        }
    }

    /// All that a shard has recorded outlives a crash from now on.
    pub(crate) fn commit(&mut self, shard: usize) {
        let last = self.wires[shard].log.last().map(|&(lsn, ..)| lsn);
        last.into_iter().for_each(|lsn| self.commit_to(shard, lsn));
    }

    /// As [`Net::commit`], up to this record.
    pub(crate) fn commit_to(&mut self, shard: usize, lsn: Lsn) {
        self.shards[shard].committed(lsn, self.now, &mut self.wires[shard]);
        self.count_steps(shard);
        self.shards[shard].turn_end(&mut self.wires[shard]);
        self.resume(shard);
    }

    /// The disk has done one of what a shard asked for, of those that it was asked to write and to
    /// read. Says whether there was one.
    pub(crate) fn answer_page(&mut self, shard: usize, nth: usize) -> bool {
        let Self { shards, wires, now, .. } = self;
        let (shard_there, wires) = (&mut shards[shard], &mut wires[shard]);
        let (outs, ins) = (wires.disk.outs.len(), wires.disk.ins.len());
        if outs + ins == 0 {
            return false;
        }
        let nth = nth % (outs + ins);
        if nth < outs {
            let (ticket, bytes) = wires.disk.outs.remove(nth);
            let page = wires.disk.write(bytes);
            shard_there.paged_out(ticket, page, *now, wires);
        } else {
            let (ticket, page) = wires.disk.ins.remove(nth - outs);
            let page = wires.disk.read(page).unwrap();
            shard_there.paged_in(ticket, page, *now, wires);
        }
        shard_there.turn_end(wires);
        self.count_steps(shard);
        self.resume(shard);
        true
    }

    /// The kinds of what a shard has recorded.
    pub(crate) fn kinds(&self, shard: usize) -> Vec<u8> {
        self.wires[shard].log.iter().map(|&(_, kind, _)| kind).collect()
    }

    /// Opens a connection on the shard of the entry, as accepted anywhere.
    pub(crate) fn open(&mut self, version: Version) -> Peer {
        let key = self.free_keys.pop().unwrap_or_else(|| {
            self.next_key += 1;
            ConnKey(self.next_key - 1)
        });
        let shard = self.entry;
        self.shards[shard].opened(key, self.now);
        self.peers.push(Conn { shard, key, version, is_closed: false, left: Vec::new() });
        self.peers.len() - 1
    }

    /// Whoever connects from now on does so from this address.
    pub(crate) fn come_from(&mut self, address: u32) {
        self.wires.iter_mut().for_each(|wires| wires.origin = Some(Origin::address(address)));
    }

    /// Whoever came last.
    pub(crate) fn last_peer(&self) -> Peer {
        self.peers.len() - 1
    }

    /// Opens a connection that a bound of the shell's forbids.
    pub(crate) fn open_refused(&mut self, version: Version, reason: ReasonCode) -> Peer {
        let key = ConnKey(self.next_key);
        self.next_key += 1;
        self.shards[0].opened_refused(key, reason, self.now);
        self.peers.push(Conn { shard: 0, key, version, is_closed: false, left: Vec::new() });
        self.peers.len() - 1
    }

    /// Gives bytes to the peer's shard, follows a hand-over, and delivers no mail.
    pub(crate) fn send_bytes(&mut self, peer: Peer, bytes: &[u8]) {
        let Conn { shard, key, .. } = self.peers[peer];
        let mut all = std::mem::take(&mut self.peers[peer].left);
        all.extend_from_slice(bytes);
        if self.wires[shard].paused.contains(&key) {
            self.peers[peer].left = all;
            return;
        }
        let bytes = &all[..];
        let consumed = self.shards[shard].received(key, bytes, self.now, &mut self.wires[shard]);
        self.count_steps(shard);
        self.peers[peer].left = bytes[consumed..].to_vec();
        if let Some((_, to)) = self.wires[shard].handed_over.pop() {
            let to = usize::from(to.0);
            self.shards[to].opened(key, self.now);
            self.peers[peer].shard = to;
            self.send_bytes(peer, &[]);
        }
        self.resume(shard);
    }

    /// Gives what was left to the shard again.
    fn resume(&mut self, shard: usize) {
        while let Some(key) = self.wires[shard].resumed.pop() {
            let is_it = |conn: &Conn| conn.shard == shard && conn.key == key && !conn.is_closed;
            if let Some(peer) = self.peers.iter().rposition(is_it) {
                self.send_bytes(peer, &[]);
            }
        }
    }

    /// What the peer has sent and its shard has not consumed.
    pub(crate) fn left(&self, peer: Peer) -> usize {
        self.peers[peer].left.len()
    }

    fn count_steps(&mut self, shard: usize) {
        self.steps_seen_max = self.steps_seen_max.max(self.shards[shard].steps());
    }

    /// One later turn of each shard that has put something off. Says whether there was one.
    pub(crate) fn go_on_once(&mut self) -> bool {
        let soon = self.now + Micros(1);
        let is_due = |shard: &Shard| shard.poll_timeout().is_some_and(|due| due <= soon);
        let due: Vec<usize> =
            (0..self.shards.len()).filter(|&at| is_due(&self.shards[at])).collect();
        if due.is_empty() {
            return false;
        }
        self.now = soon;
        for shard in due {
            self.shards[shard].handle_timeout(soon, &mut self.wires[shard]);
            self.count_steps(shard);
            self.resume(shard);
        }
        true
    }

    /// Moves the partition of a name. Letters are still to be delivered.
    pub(crate) fn begin_move(&mut self, name: &str, to: usize) -> Result<(), NotMoved> {
        let partition = Partitions::spread(self.shards.len() as u16, SEED).of(name);
        let to = ShardId(to as u16);
        self.shards[0].move_partition(partition, to, self.now, &mut self.wires[0])
    }

    /// Moves the partition of a name, until it is done.
    pub(crate) fn move_name(&mut self, name: &str, to: usize) {
        assert_eq!(self.begin_move(name, to), Ok(()));
        self.go_on();
        assert!(self.shards.iter().all(|shard| !shard.is_frozen()));
    }

    /// Later turns and letters, until nothing waits.
    pub(crate) fn go_on(&mut self) {
        loop {
            self.deliver_mail();
            if !self.go_on_once() {
                return;
            }
        }
    }

    /// Delivers all mail until there is none.
    pub(crate) fn deliver_mail(&mut self) {
        while (0..self.shards.len()).any(|from| self.deliver_one(from)) {}
    }

    /// Delivers the next letter or parcel of a shard; says whether there was one.
    pub(crate) fn deliver_one(&mut self, from: usize) -> bool {
        if let Some((to, parcel, conn)) = self.wires[from].parcels.pop_front() {
            self.give_parcel(from, usize::from(to.0), parcel, conn);
            return true;
        }
        let Some((to, mail)) = self.wires[from].mail.pop_front() else { return false };
        let at = usize::from(to.0);
        self.give_letter(from, at, mail);
        true
    }

    /// A session comes, with its connection unless that was cut on the way.
    fn give_parcel(&mut self, from: usize, to: usize, parcel: Parcel, conn: Option<ConnKey>) {
        let is_it = |peer: &Conn| peer.shard == from && Some(peer.key) == conn;
        let peer = self.peers.iter().rposition(is_it);
        let conn = conn.filter(|_| peer.is_some_and(|peer| !self.peers[peer].is_closed));
        if let Some((key, peer)) = conn.zip(peer) {
            let output = self.wires[from].outputs.remove(&key).unwrap_or_default();
            self.wires[to].outputs.insert(key, output);
            self.wires[from].paused.remove(&key);
            self.peers[peer].shard = to;
        }
        self.shards[to].arrived(parcel, conn, self.now, &mut self.wires[to]);
        if let Some((_, peer)) = conn.zip(peer) {
            self.send_bytes(peer, &[]);
        }
        self.resume(to);
    }

    /// A turn of one letter.
    fn give_letter(&mut self, from: usize, to: usize, mail: Mail) {
        self.shards[to].mail(ShardId(from as u16), mail, self.now, &mut self.wires[to]);
        self.count_steps(to);
        self.shards[to].turn_end(&mut self.wires[to]);
        self.resume(to);
    }

    /// Delivers the oldest letter from one shard to another; those between other shards wait.
    pub(crate) fn deliver_between(&mut self, from: usize, to: usize) -> bool {
        let mail = &mut self.wires[from].mail;
        let Some(at) = mail.iter().position(|(shard, _)| usize::from(shard.0) == to) else {
            return false;
        };
        let (_, letter) = mail.remove(at).unwrap();
        self.give_letter(from, to, letter);
        true
    }

    /// Delivers all letters from one shard to another in one turn.
    pub(crate) fn deliver_mail_in_one_turn(&mut self, from: usize, to: usize) {
        let letters = self.wires[from].mail.drain(..);
        let (its, rest): (Vec<_>, Vec<_>) =
            letters.partition(|(shard, _)| usize::from(shard.0) == to);
        self.wires[from].mail.extend(rest);
        for (_, mail) in its {
            self.shards[to].mail(ShardId(from as u16), mail, self.now, &mut self.wires[to]);
        }
        self.shards[to].turn_end(&mut self.wires[to]);
        self.resume(to);
    }

    /// Letters on their way from one shard to another.
    pub(crate) fn letters(&self, from: usize, to: usize) -> usize {
        self.wires[from].mail.iter().filter(|(shard, _)| usize::from(shard.0) == to).count()
    }

    /// Client identifiers that each shard owns, 16 or more of each. Nobody is connected for it.
    pub(crate) fn names(&self) -> Vec<Vec<String>> {
        let mut scout = Self::new(self.shards.len() as u16);
        let mut names = vec![Vec::new(); self.shards.len()];
        for number in 0.. {
            let name = format!("c{number}");
            let peer = scout.join(&name, Ask::default());
            names[scout.shard_of(peer)].push(name);
            if names.iter().all(|names| names.len() >= 16) {
                break;
            }
        }
        names
    }

    /// Lets time pass; everything due on the way is done.
    pub(crate) fn pass(&mut self, seconds: u32) {
        self.pass_time(Micros::from_secs(seconds));
    }

    /// As [`Net::pass`].
    pub(crate) fn pass_time(&mut self, time: Micros) {
        let end = self.now + time;
        for (shard, wires) in self.shards.iter_mut().zip(&mut self.wires) {
            while let Some(due) = shard.poll_timeout().filter(|&due| due <= end) {
                self.now = self.now.max(due);
                shard.handle_timeout(self.now, wires);
            }
        }
        self.now = end;
        (0..self.shards.len()).for_each(|shard| self.resume(shard));
    }

    /// The network cuts the connection.
    pub(crate) fn cut(&mut self, peer: Peer) {
        let Conn { shard, key, .. } = self.peers[peer];
        self.peers[peer].is_closed = true;
        self.shards[shard].closed(key, self.now, &mut self.wires[shard]);
        self.wires[shard].paused.remove(&key);
    }

    /// The connection is gone while no shard has it.
    pub(crate) fn lose(&mut self, peer: Peer) {
        self.peers[peer].is_closed = true;
    }

    /// The authentication port answers.
    pub(crate) fn authenticated(&mut self, peer: Peer, verdict: Verdict) {
        let Conn { shard, key, .. } = self.peers[peer];
        self.answer_ticket(shard, self.wires[shard].tickets[&key], verdict);
    }

    /// The authentication port answers a question, maybe late.
    pub(crate) fn answer_ticket(&mut self, shard: usize, ticket: Ticket, verdict: Verdict) {
        self.shards[shard].authenticated(ticket, verdict, self.now, &mut self.wires[shard]);
        self.resume(shard);
    }

    pub(crate) fn drained(&mut self, peer: Peer) {
        let Conn { shard, key, .. } = self.peers[peer];
        self.shards[shard].drained(key, self.now, &mut self.wires[shard]);
    }

    pub(crate) fn set_stuck(&mut self, peer: Peer, bytes: usize) {
        let Conn { shard, key, .. } = self.peers[peer];
        self.wires[shard].stuck_bytes.insert(key, bytes);
    }

    pub(crate) fn key_of(&self, peer: Peer) -> ConnKey {
        self.peers[peer].key
    }

    pub(crate) fn shard_of(&self, peer: Peer) -> usize {
        self.peers[peer].shard
    }

    /// The properties of the CONNACK that the peer got, and of nothing else.
    pub(crate) fn properties(&mut self, peer: Peer) -> Vec<String> {
        let Conn { shard, key, version, .. } = self.peers[peer];
        let bytes = self.wires[shard].outputs.remove(&key).unwrap();
        let frame = Frame::check(&bytes, u32::MAX).unwrap().unwrap();
        let Packet::ConnAck(connack) = Packet::decode(version, frame).unwrap() else { panic!() };
        connack.properties.iter().map(|property| format!("{property:?}")).collect()
    }

    /// Whether the connection has ended, from either side.
    pub(crate) fn is_closed(&self, peer: Peer) -> bool {
        let Conn { shard, key, is_closed, .. } = self.peers[peer];
        is_closed || self.wires[shard].closed.contains(&key)
    }

    /// Bytes that the peer got and nobody has looked at.
    pub(crate) fn output(&mut self, peer: Peer) -> &mut Vec<u8> {
        let Conn { shard, key, .. } = self.peers[peer];
        self.wires[shard].outputs.entry(key).or_default()
    }

    /// What the peer got since it last looked, a line a packet; `closed` at the end.
    pub(crate) fn read(&mut self, peer: Peer) -> Vec<String> {
        let Conn { shard, key, version, .. } = self.peers[peer];
        let bytes = self.wires[shard].outputs.remove(&key).unwrap_or_default();
        let mut lines = Vec::new();
        let mut rest = &bytes[..];
        while let Some(frame) = Frame::check(rest, u32::MAX).unwrap() {
            rest = &rest[frame.bytes..];
            lines.push(line(&Packet::decode(version, frame).unwrap()));
        }
        assert!(rest.is_empty(), "only whole packets leave");
        if self.wires[shard].closed.contains(&key) && !self.peers[peer].is_closed {
            self.peers[peer].is_closed = true;
            lines.push("closed".into());
        }
        lines
    }
}

/// One line a packet, for comparing.
fn line(packet: &Packet<'_>) -> String {
    match packet {
        Packet::ConnAck(connack) => {
            let present = if connack.session_present { " present" } else { "" };
            let why = reason_string(connack.properties);
            format!("CONNACK {}{present}{why}", connack.reason.name())
        }
        Packet::Publish(publish) => {
            let mut text = format!("PUBLISH {} q{}", publish.topic, publish.qos as u8);
            if let Some(packet_id) = publish.packet_id {
                text += &format!(" #{}", packet_id.value());
            }
            text += if publish.retain { " retain" } else { "" };
            text += if publish.dup { " dup" } else { "" };
            for property in publish.properties.iter() {
                text += &format!(" {property:?}");
            }
            text + " " + &String::from_utf8_lossy(publish.payload)
        }
        Packet::PubAck(ack) => ack_line("PUBACK", ack),
        Packet::PubRec(ack) => ack_line("PUBREC", ack),
        Packet::PubRel(ack) => format!("PUBREL #{} {}", ack.packet_id.value(), ack.reason.name()),
        Packet::PubComp(ack) => format!("PUBCOMP #{} {}", ack.packet_id.value(), ack.reason.name()),
        Packet::SubAck(suback) => {
            format!("SUBACK {:?}{}", suback.codes, reason_string(suback.properties))
        }
        Packet::UnsubAck(unsuback) => format!("UNSUBACK {:?}", unsuback.codes),
        Packet::Disconnect(disconnect) => {
            let why = reason_string(disconnect.properties);
            format!("DISCONNECT {}{why}", disconnect.reason.name())
        }
        Packet::Auth(auth) => {
            let mut text = format!("AUTH {}", auth.reason.name());
            auth.properties.iter().for_each(|property| text += &format!(" {property:?}"));
            text
        }
        Packet::PingResp => "PINGRESP".into(),
        other => format!("{other:?}"),
    }
}

fn ack_line(name: &str, ack: &Ack<'_>) -> String {
    let why = reason_string(ack.properties);
    format!("{name} #{} {}{why}", ack.packet_id.value(), ack.reason.name())
}

/// A Reason String, behind a colon.
fn reason_string(properties: Properties<'_>) -> String {
    let found = properties.find(|property| match property {
        Property::ReasonString(text) => Some(format!(": {text}")),
        _ => None,
    });
    found.unwrap_or_default()
}

/// What a client asks for in CONNECT.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) version: Version,
    pub(crate) clean: bool,
    pub(crate) keep_alive_s: u16,
    pub(crate) expiry_s: u32,
    pub(crate) receive_maximum: u16,
    pub(crate) packet_bytes_max: u32,
    pub(crate) will: Option<Will<'a>>,
    pub(crate) properties: &'a [Property<'a>],
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self {
            version: Version::V5,
            clean: true,
            keep_alive_s: 0,
            expiry_s: 0,
            receive_maximum: 0,
            packet_bytes_max: 0,
            will: None,
            properties: &[],
        }
    }
}

impl Net {
    /// Opens and connects; the CONNACK is still to be read.
    pub(crate) fn connect(&mut self, client_id: &str, ask: Ask<'_>) -> Peer {
        let peer = self.open(ask.version);
        self.say_connect(peer, client_id, ask);
        peer
    }

    /// Sends CONNECT.
    pub(crate) fn say_connect(&mut self, peer: Peer, client_id: &str, ask: Ask<'_>) {
        let mut properties = PropertiesBuf::new();
        if ask.expiry_s > 0 {
            properties.push(Property::SessionExpiryInterval(ask.expiry_s));
        }
        if ask.receive_maximum > 0 {
            properties.push(Property::ReceiveMaximum(ask.receive_maximum));
        }
        if ask.packet_bytes_max > 0 {
            properties.push(Property::MaximumPacketSize(ask.packet_bytes_max));
        }
        ask.properties.iter().for_each(|&property| properties.push(property));
        let mut bytes = Vec::new();
        Connect {
            clean_start: ask.clean,
            keep_alive_s: ask.keep_alive_s,
            will: ask.will,
            properties: properties.as_properties(),
            ..Connect::new(ask.version, client_id)
        }
        .encode(&mut bytes);
        self.send_bytes(peer, &bytes);
    }

    /// Connects and takes the CONNACK away. If that waits for the log, all is committed.
    pub(crate) fn join(&mut self, client_id: &str, ask: Ask<'_>) -> Peer {
        let peer = self.connect(client_id, ask);
        let mut lines = self.read(peer);
        if lines.is_empty() {
            self.commit(self.shard_of(peer));
            lines = self.read(peer);
        }
        if lines.is_empty() {
            self.go_on();
            lines = self.read(peer);
        }
        assert!(lines[0].starts_with("CONNACK Success"), "{lines:?}");
        peer
    }

    pub(crate) fn subscribe(&mut self, peer: Peer, filter: &str, qos: QoS) {
        self.subscribe_with(peer, filter, SubscriptionOptions { qos, ..Default::default() }, None);
    }

    pub(crate) fn subscribe_with(
        &mut self,
        peer: Peer,
        filter: &str,
        options: SubscriptionOptions,
        id: Option<u32>,
    ) {
        let mut filters = SubscribeBuf::new();
        filters.push(filter, options);
        let mut properties = PropertiesBuf::new();
        if let Some(id) = id {
            properties.push(Property::SubscriptionIdentifier(id));
        }
        let version = self.peers[peer].version;
        let packet_id = PacketId::new(999).unwrap();
        let mut bytes = Vec::new();
        filters
            .subscribe(version, packet_id, properties.as_properties())
            .encode(version, &mut bytes);
        self.send_bytes(peer, &bytes);
    }

    pub(crate) fn unsubscribe(&mut self, peer: Peer, filter: &str) {
        let mut filters = UnsubscribeBuf::new();
        filters.push(filter);
        let mut bytes = Vec::new();
        let packet_id = PacketId::new(998).unwrap();
        filters
            .unsubscribe(packet_id, Properties::EMPTY)
            .encode(self.peers[peer].version, &mut bytes);
        self.send_bytes(peer, &bytes);
    }

    pub(crate) fn publish(&mut self, peer: Peer, topic: &str, qos: QoS, id: u16, payload: &str) {
        self.publish_packet(peer, &message(topic, qos, id, payload));
    }

    pub(crate) fn publish_packet(&mut self, peer: Peer, publish: &Publish<'_>) {
        let mut bytes = Vec::new();
        publish.encode(self.peers[peer].version, &mut bytes);
        self.send_bytes(peer, &bytes);
    }

    pub(crate) fn auth(&mut self, peer: Peer, reason: ReasonCode, method: &str, data: &str) {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::AuthenticationMethod(method));
        properties.push(Property::AuthenticationData(data.as_bytes()));
        let mut bytes = Vec::new();
        Auth { reason, properties: properties.as_properties() }.encode(Version::V5, &mut bytes);
        self.send_bytes(peer, &bytes);
    }

    pub(crate) fn ack(&mut self, peer: Peer, kind: PacketKind, id: u16) {
        let mut bytes = Vec::new();
        Ack::success(PacketId::new(id).unwrap()).encode(kind, self.peers[peer].version, &mut bytes);
        self.send_bytes(peer, &bytes);
    }

    pub(crate) fn disconnect(&mut self, peer: Peer, reason: ReasonCode) {
        let mut bytes = Vec::new();
        Disconnect { reason, properties: Properties::EMPTY }
            .encode(self.peers[peer].version, &mut bytes);
        self.send_bytes(peer, &bytes);
    }
}

/// A PUBLISH of a test.
pub(crate) fn message<'a>(topic: &'a str, qos: QoS, id: u16, payload: &'a str) -> Publish<'a> {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: if qos == QoS::AtMostOnce { None } else { PacketId::new(id) },
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    }
}
