//! Nodes that are lost at any moment while others have copies of their logs: one of those stands in
//! for it, until all sessions are its own, and the node comes back with nothing.

mod letters;
mod wills;

use super::journal::{Journal, Logged};
use super::line::BrokerEnd;
use super::sink::Letter;
use super::{Port, World};
use crate::finding::Checker;
use crate::model::{Kept, WillIs};
use crate::names::{ClientNo, ConnNo, MessageNo, Root};
use crate::plant::Plant;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use weir_core::{Claim, Lsn, Micros, Partitions, Record};
use wills::{WILL_WAITS, Watch, logged_of};

/// How long it takes to start a node.
const RESTART: Micros = Micros(100_000);

/// What there is of copies.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) are_on: bool,
    /// How many nodes are lost at once.
    at_once: u16,
    away: Option<Away>,
    /// How often a node was lost.
    lost: usize,
    /// Nodes that clients cannot come to.
    closed: BTreeSet<usize>,
    /// Wills that shards know of, of other nodes' clients.
    watched: BTreeMap<(usize, ClientNo), Watch>,
    /// By which claim a shard takes a session over, for no client.
    adoptions: BTreeMap<(usize, ClientNo), Claim>,
    /// Sessions that come so.
    pub(super) adopted: BTreeSet<ClientNo>,
    /// By which claim each session has begun to leave last.
    pub(super) leaving: BTreeMap<ClientNo, Claim>,
    /// The present letter says who has a session.
    pub(super) is_told: bool,
}

/// Nodes that are lost: one, or neighbours.
#[derive(Debug)]
struct Away {
    nodes: Vec<Lost>,
    /// Of all of them.
    shards: Range<usize>,
    phase: Phase,
    books: BTreeMap<usize, Kept>,
    /// Letters to it that are lost, by sender, receiver and call.
    dropped: Vec<(usize, usize, Root)>,
    /// Shards that know of a stand-in, with the first shard of that.
    knowing: BTreeSet<(usize, usize)>,
    /// When that began.
    began: Micros,
}

/// One of them.
#[derive(Clone, Debug)]
struct Lost {
    shards: Range<usize>,
    /// Of the node that has the copy.
    keeper: Range<usize>,
    logs: Vec<Vec<Logged>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody is in its place.
    Gone,
    /// A stand-in is there.
    StandIn,
    /// It has offered its sessions.
    Offered,
    /// It is gone as well.
    Left,
}

impl Copies {
    /// Whether somebody is in the place of a shard.
    pub(super) fn is_up(&self, shard: usize) -> bool {
        let is_gone = |away: &Away| {
            matches!(away.phase, Phase::Gone | Phase::Left) && away.shards.contains(&shard)
        };
        shard != usize::MAX && !self.away.as_ref().is_some_and(is_gone)
    }

    pub(super) fn new(at_once: u16) -> Self {
        Self { are_on: at_once > 0, at_once, ..Self::default() }
    }

    pub(super) fn is_closed(&self, node: usize) -> bool {
        self.closed.contains(&node)
    }

    /// Time does not pass beyond this while a stand-in does not know what others have: it waits for
    /// that only so long.
    pub(super) fn unlisted_until(&self) -> Micros {
        let away = self.away.as_ref().filter(|away| away.phase == Phase::StandIn);
        away.map_or(Micros(u64::MAX), |away| Micros(away.began.0 + WILL_WAITS.0 / 2))
    }
}

impl World {
    /// Nobody is there as this shard.
    pub(super) fn is_away(&self, shard: usize) -> bool {
        let is_its = |away: &Away| {
            away.shards.contains(&shard) && matches!(away.phase, Phase::Gone | Phase::Left)
        };
        self.copies.away.as_ref().is_some_and(is_its)
    }

    /// Some node is lost, or what follows on that goes on.
    pub(super) fn lose_or_go_on(&mut self) {
        let shard = self.chance.below(self.shards.len());
        if self.copies.away.is_some() {
            let _ = self.go_on_with_lost();
        } else {
            self.lose_copied_with(shard);
        }
    }

    /// Goes on with what follows on a loss, now and then.
    pub(super) fn follow_lost(&mut self) {
        if self.copies.are_on {
            self.open_nodes();
            if self.copies.away.is_some() && self.chance.one_in(10) {
                self.go_on_with_lost();
            }
        }
    }

    /// The node of this shard is lost, unless another is; perhaps with its neighbour.
    pub(super) fn lose_copied_with(&mut self, shard: usize) {
        if self.copies.away.is_some() || !self.copies.closed.is_empty() {
            return;
        }
        let (each, all) = (usize::from(self.size.shards), usize::from(self.size.nodes));
        let count = usize::from(self.copies.at_once);
        let first = (shard / each).min(all - count);
        let shards = first * each..(first + count) * each;
        let keepers: Vec<usize> =
            (0..all).filter(|other| !(first..first + count).contains(other)).collect();
        let (mut nodes, mut books) = (Vec::new(), BTreeMap::new());
        for node in first..first + count {
            let keeper = self.chance.pick(&keepers);
            self.trace.add(format_args!("node {node} is lost, which node {keeper} has a copy of"));
            let of = |node: usize| node * each..(node + 1) * each;
            let logs = self.cut_logs(&of(node), &mut books);
            self.copies.lost += 1;
            self.copies.closed.insert(node);
            nodes.push(Lost { shards: of(node), keeper: of(keeper), logs });
        }
        self.copies.watched.retain(|(shard, _), _| !shards.contains(shard));
        self.copies.away = Some(Away {
            nodes,
            shards: shards.clone(),
            phase: Phase::Gone,
            books,
            dropped: Vec::new(),
            knowing: BTreeSet::new(),
            began: Micros(0),
        });
        let conns = self.lose_lines(&shards);
        self.model.lose_copied_node(&shards, &conns);
        self.clear_shards(&shards);
        self.lose_letters(&shards);
        self.notice_ends();
    }

    fn cut_logs(
        &mut self,
        shards: &Range<usize>,
        books: &mut BTreeMap<usize, Kept>,
    ) -> Vec<Vec<Logged>> {
        let mut logs = Vec::new();
        for shard in shards.clone() {
            let journal = std::mem::take(&mut self.journals[shard]);
            let end = journal.end_of_crash(false, &mut self.chance);
            self.crashes.copies_cut += usize::from(journal.is_in_copy(end));
            let (told, last) = (journal.told.0, journal.last().0);
            self.trace.add(format_args!("  shard {shard} has {told} <= {} <= {last}", end.0));
            let (records, kept) = journal.cut(end, self.model.promised(shard));
            logs.push(records);
            books.insert(shard, kept);
        }
        logs
    }

    /// The broker's ends of a node's connections are closed.
    fn lose_lines(&mut self, shards: &Range<usize>) -> Vec<ConnNo> {
        let is_carried = |conn: ConnNo| {
            let its = self.mail.iter().filter(|((_, to), _)| shards.contains(to));
            its.flat_map(|(_, letters)| letters)
                .any(|(_, letter)| matches!(letter, Letter::Conn(it) if *it == conn))
        };
        let is_its = |&conn: &ConnNo| match self.lines[conn.0].end {
            BrokerEnd::At(shard, _) => shards.contains(&shard),
            BrokerEnd::Moving => is_carried(conn),
            BrokerEnd::Closed => false,
        };
        let conns: Vec<ConnNo> = (0..self.lines.len()).map(ConnNo).filter(is_its).collect();
        let are_read = self.chance.one_in(2);
        for &conn in &conns {
            let line = &mut self.lines[conn.0];
            (line.end, line.is_paused) = (BrokerEnd::Closed, false);
            line.up.clear();
            line.unconsumed.clear();
            if !are_read {
                line.down.clear();
            }
            self.accepted.remove(&conn);
        }
        self.questions.retain(|question| !shards.contains(&question.shard));
        conns
    }

    /// What the shards of a node were is gone.
    fn clear_shards(&mut self, shards: &Range<usize>) {
        for shard in shards.clone() {
            self.crashes.stats.push(self.shards[shard].stats());
            self.shards[shard] = self.make_shard(shard as u16);
            self.ports[shard] = Port::default();
            self.journals[shard] = Journal::default();
        }
    }

    /// Letters from and to a node are lost. Whoever has sent one there still waits for it.
    fn lose_letters(&mut self, shards: &Range<usize>) {
        let mut settled = Vec::new();
        for (&(from, to), letters) in &mut self.mail {
            if shards.contains(&from) || shards.contains(&to) {
                for (root, _) in letters.drain(..) {
                    match &mut self.copies.away {
                        Some(away) if away.phase == Phase::Gone && !shards.contains(&from) => {
                            away.dropped.push((from, to, root));
                        }
                        _ => {
                            self.model.loses_letter(root);
                            settled.push(root);
                        }
                    }
                }
            }
        }
        let held = self.crashes.held.extract_if(.., |(shard, ..)| shards.contains(shard));
        settled.extend(held.map(|(.., root)| root));
        self.settle_lost(settled);
    }

    fn settle_lost(&mut self, letters: Vec<Root>) {
        for root in letters {
            if let Some(count) = self.open_letters.get_mut(&root) {
                *count -= 1;
            }
            self.settle(root);
        }
    }

    /// Whether a letter goes nowhere: whom it is for is lost, or its sender does not know who is in
    /// that place.
    pub(super) fn drops_letter(&mut self, from: usize, to: usize, root: Root) -> bool {
        let each = usize::from(self.size.shards);
        let Some(away) = self.copies.away.as_mut().filter(|away| away.shards.contains(&to)) else {
            return false;
        };
        let first = to / each * each;
        if away.shards.contains(&from) || away.knowing.contains(&(from, first)) {
            return false;
        }
        away.dropped.push((from, to, root));
        *self.open_letters.entry(root).or_default() += 1;
        true
    }

    /// The next that follows on a loss, if it can be. Says whether it was.
    pub(super) fn go_on_with_lost(&mut self) -> bool {
        self.open_nodes();
        let Some(away) = &self.copies.away else { return false };
        let (shards, phase) = (away.shards.clone(), away.phase);
        let nodes: Vec<Range<usize>> = away.nodes.iter().map(|it| it.shards.clone()).collect();
        match phase {
            Phase::Gone => self.begin_stand_ins(),
            Phase::StandIn if nodes.iter().all(|node| self.knows_all(node)) => self.offer(),
            Phase::Offered if self.has_no_sessions(&shards) => self.end_stand_ins(),
            Phase::Left => self.come_back(),
            Phase::StandIn | Phase::Offered => return false,
        }
        true
    }

    fn has_no_sessions(&mut self, shards: &Range<usize>) -> bool {
        self.shards[shards.clone()].iter().all(|shard| shard.kept_sessions() == 0)
            || self.saboteur.strikes(Plant::LeaveEarly)
    }

    fn knows_all(&self, shards: &Range<usize>) -> bool {
        let others = self.shards.len() - shards.len();
        self.shards[shards.clone()].iter().all(|shard| shard.lists() == others)
    }

    /// Nodes that know what all others have let clients in.
    fn open_nodes(&mut self) {
        let each = usize::from(self.size.shards);
        let away = self.copies.away.as_ref().map(|away| away.shards.clone());
        for node in self.copies.closed.clone() {
            let shards = node * each..(node + 1) * each;
            let is_away = away.as_ref().is_some_and(|away| away.contains(&shards.start));
            if !is_away && self.knows_all(&shards) {
                self.trace.add(format_args!("node {node} serves"));
                self.copies.closed.remove(&node);
            }
        }
    }

    fn away_mut(&mut self) -> &mut Away {
        self.copies.away.as_mut().expect("a node is lost")
    }

    fn others(&mut self, shards: &Range<usize>) -> Vec<usize> {
        let others = (0..self.shards.len()).filter(|shard| !shards.contains(shard)).collect();
        self.shuffled(others)
    }

    fn shuffled<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        for at in (1..all.len()).rev() {
            all.swap(at, self.chance.below(at + 1));
        }
        all
    }

    fn begin_stand_ins(&mut self) {
        self.pass(Micros(self.now().0 + RESTART.0));
        let now = self.now();
        let away = self.away_mut();
        (away.phase, away.began) = (Phase::StandIn, now);
        let (nodes, shards) = (away.nodes.clone(), away.shards.clone());
        let books = std::mem::take(&mut away.books);
        self.trace.add(format_args!("shards {shards:?} have a stand-in"));
        let each = self.size.shards;
        let partitions = Partitions::spread(each, self.seed);
        let shard_of = |client: ClientNo, shard: usize| {
            let first = usize::from(self.size.node_of(shard as u16).start);
            first + usize::from(partitions.owner(&client.client_id()).0)
        };
        let who_has = |client: ClientNo, will: MessageNo| {
            // Two logs may have the client's session, or one that it has begun anew.
            let all: Vec<_> =
                nodes.iter().filter_map(|lost| logged_of(&lost.logs, client)).collect();
            let own = all.iter().find(|(it, _)| *it == Some(will));
            let logged = all.is_empty() || own.is_some();
            let last = own.or(all.iter().max_by_key(|(_, claimed)| *claimed));
            let claimed = last.map_or(Claim::NONE, |(_, claimed)| *claimed);
            // What it has seen of a later one is taken for it: the log does not know that. But
            // whose client has begun anew is no later one.
            let is_anew = |it: &Watch| it.came == Some(true) && claimed == Claim::NONE;
            let is_later = |it: &Watch| it.claim >= claimed && !is_anew(it);
            let is_it = |it: &Watch| it.message == will || is_later(it);
            let mut all = self.copies.watched.iter().filter(|((_, whose), _)| *whose == client);
            let watched = all.any(|(_, it)| shards.contains(&it.holder) && is_it(it));
            WillIs { watched, logged }
        };
        let expired = self.model.stand_in(&books, shard_of, who_has, now + WILL_WAITS);
        for Lost { shards, keeper, .. } in &nodes {
            for shard in keeper.clone() {
                self.shards[shard].adopt_from(node(shards));
            }
        }
        self.clear_shards(&shards);
        self.shards[shards.clone()].iter_mut().for_each(weir_core::Shard::stand_in);
        for Lost { shards, logs, .. } in &nodes {
            self.start(shards.clone(), logs);
        }
        let is_there = |client: &ClientNo| {
            let client_id = client.client_id();
            self.shards[shards.clone()].iter().any(|shard| shard.client(&client_id).is_some())
        };
        for client in expired.into_iter().filter(|client| !is_there(client)) {
            self.model.expired_on_its_way(client);
        }
        let others = (0..self.shards.len()).filter(|shard| !shards.contains(shard));
        let told = others.flat_map(|shard| nodes.iter().map(move |lost| (shard, &lost.shards)));
        for (shard, lost) in self.shuffled(told.collect()) {
            self.tell_replaced(shard, lost);
        }
        nodes.iter().for_each(|lost| self.join(&lost.shards));
        self.pass(self.now());
    }

    /// A shard is told who is in the place of a lost node.
    fn tell_replaced(&mut self, shard: usize, lost: &Range<usize>) {
        let root = self.new_root();
        let away = self.away_mut();
        away.knowing.insert((shard, lost.start));
        let is_its =
            |&mut (from, to, _): &mut (usize, usize, _)| from == shard && lost.contains(&to);
        let its = away.dropped.extract_if(.., |dropped| is_its(dropped));
        let roots: Vec<Root> = its.map(|(.., root)| root).collect();
        self.crashes.released.entry(root).or_default().extend(roots);
        self.model.begin_call(root, shard);
        self.orphan_wills(shard, lost);
        let is_lost = self.saboteur.strikes(Plant::ReplaceAsLost);
        let before = self.journals[shard].last();
        let ((), events) = self.act(shard, |shard, now, sink| {
            if is_lost {
                shard.node_lost(node(lost), now, sink);
                shard.node_joined(node(lost), now, sink);
            } else {
                shard.node_replaced(node(lost), now, sink);
            }
        });
        self.come_with_loss(shard, before);
        self.carry_out(shard, root, events);
    }

    fn tell_lost(&mut self, shard: usize, lost: &Range<usize>) {
        let root = self.new_root();
        let before = self.journals[shard].last();
        self.model.begin_call(root, shard);
        let ((), events) = self.act(shard, |shard, now, sink| {
            shard.node_lost(node(lost), now, sink);
        });
        self.come_with_loss(shard, before);
        self.carry_out(shard, root, events);
    }

    /// Sessions may have waited for a lost node alone before they were whole: the log has them.
    fn come_with_loss(&mut self, shard: usize, before: Lsn) {
        let mut come = Vec::new();
        for logged in self.journals[shard].behind(before) {
            if let Record::Session { session: Lsn::NONE, client_id, .. } = logged.record()
                && let Some(client) = ClientNo::of(client_id)
                && self.model.is_on_its_way(client, shard)
            {
                come.push(client);
            }
        }
        come.into_iter().for_each(|client| self.has_come(client, shard));
    }

    /// The shards of a node and all others are told of each other.
    fn join(&mut self, shards: &Range<usize>) {
        let size = self.size;
        let away = self.copies.away.as_ref().map_or(0..0, |away| node(&away.shards));
        for shard in shards.clone() {
            for other in size.all().filter(|other| *other != node(shards)) {
                let is_stand_in = away.contains(&other.start);
                self.say(shard as u16, |shard, now, sink| match is_stand_in {
                    true => shard.stand_in_joined(other.clone(), now, sink),
                    false => shard.node_joined(other.clone(), now, sink),
                });
            }
        }
    }

    fn offer(&mut self) {
        let away = self.away_mut();
        away.phase = Phase::Offered;
        let nodes = away.nodes.clone();
        self.trace.add(format_args!("the stand-in offers its sessions"));
        for Lost { shards, keeper, .. } in nodes {
            for shard in shards {
                let keeper = node(&keeper);
                self.say(shard as u16, |shard, now, sink| shard.offer_sessions(keeper, now, sink));
            }
        }
    }

    /// All that a stand-in had is another's: what it has sent arrives, and it is lost.
    fn end_stand_ins(&mut self) {
        let away = self.away_mut();
        let (shards, nodes) = (away.shards.clone(), away.nodes.clone());
        self.trace.add(format_args!("the stand-in leaves"));
        let others = self.others(&shards);
        for from in shards.clone() {
            for &to in &others {
                while self.deliver(from, to) {}
            }
        }
        let away = self.away_mut();
        away.phase = Phase::Left;
        away.knowing.clear();
        self.clear_shards(&shards);
        self.lose_letters(&shards);
        self.copies.watched.retain(|(shard, _), _| !shards.contains(shard));
        for &shard in &others {
            let is_its = |((at, _), it): (&(usize, ClientNo), &Watch)| {
                *at == shard && shards.contains(&it.holder)
            };
            if let Some(((_, client), it)) =
                self.copies.watched.iter().find(|&(at, it)| is_its((at, it)))
            {
                let what = format!("client {}: {it:?} is watched by shard {shard}", client.0);
                self.model.fail(Checker::Wills, what);
            }
            nodes.iter().for_each(|lost| self.tell_lost(shard, &lost.shards));
        }
        for Lost { shards, keeper, .. } in nodes {
            for shard in keeper {
                self.shards[shard].adopt_no_more(&node(&shards));
            }
        }
    }

    /// The node that was lost is there again, with nothing.
    fn come_back(&mut self) {
        // What it numbers is behind all that the stand-in has: both begin with the time.
        self.pass(Micros(self.now().0 + RESTART.0));
        let Some(away) = self.copies.away.take() else { return };
        let (shards, nodes) = (away.shards, away.nodes);
        self.trace.add(format_args!("shards {shards:?} are back"));
        self.settle_lost(away.dropped.into_iter().map(|(.., root)| root).collect());
        self.clear_shards(&shards);
        nodes.iter().for_each(|lost| self.start(lost.shards.clone(), &[]));
        for shard in self.others(&shards) {
            for lost in &nodes {
                self.say(shard as u16, |shard, now, sink| {
                    shard.node_joined(node(&lost.shards), now, sink);
                });
            }
        }
        nodes.iter().for_each(|lost| self.join(&lost.shards));
    }

    /// Each client has one session in the cluster, where the books have it.
    pub(super) fn check_places(&mut self) {
        if !self.copies.are_on {
            return;
        }
        if let Some(away) = &self.copies.away {
            let what = format!("shards {:?} are never back: {:?}", away.shards, away.phase);
            self.model.fail(Checker::Session, what);
        }
        for client in (0..super::CLIENTS).map(ClientNo) {
            let client_id = client.client_id();
            let is_there = |&at: &usize| self.shards[at].client(&client_id).is_some();
            let there: Vec<usize> = (0..self.shards.len()).filter(is_there).collect();
            let booked = self.model.alive.get(&client).map(|&it| self.model.sessions[it.0].shard);
            if there != Vec::from_iter(booked) {
                let what = format!("{client_id} is at shards {there:?}, and at {booked:?}");
                self.model.fail(Checker::Session, what);
            }
        }
    }

    /// How often a node was lost whose log another has.
    pub fn nodes_lost(&self) -> usize {
        self.copies.lost
    }
}

/// The shards of a node, as the core has them.
fn node(shards: &Range<usize>) -> Range<u16> {
    shards.start as u16..shards.end as u16
}
