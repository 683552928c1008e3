//! A node's membership of its cluster: a lease, a place, the other members, and the table of which
//! node is home to which partition.
//!
//! Three rules keep two nodes from acting for one partition at a time:
//! - A node acts only while its lease cannot have ended by its own clock (the *fence*).
//! - What a member is home to, only the member itself gives away, and only after it has stopped to
//!   act for it (`released`).
//! - What a node was home to whose lease has ended goes elsewhere after a wait.
//!
//! A membership that has ended never comes back, since whoever joins again has a new incarnation.
//! So these rules hold also for whoever sees the cluster as it was some time ago.

mod copies;
mod event;
mod settings;
mod writing;

pub use copies::{Busy, NotOpened};
pub use event::{Collected, Counts, Event, MembersSink, NotForgotten, Notice};
pub use settings::{BadSettings, MembersSettings, Times};

use crate::agreement::{Ask, Cas, Failure, LeaseId, Revision, Said, Ticket};
use crate::records::{FORMER_MAX, Incarnation, Node, Place, Places, Seat};
use crate::table::Table;
use crate::view::View;
use weir_chance::Chance;
use weir_core::{Micros, Partition, PartitionSet};

/// How long an answer is waited for.
const ANSWER_MAX: Micros = Micros::from_secs(4);

/// Renewals and checks that are waited for at a time, of each: one is sent each second.
const OPEN_MAX: usize = 8;

/// From a failure until something is asked again: at least, and how much more by chance.
const RETRY_US: u64 = 250_000;
const RETRY_MORE_US: usize = 250_000;

/// The same where another node was faster: by chance, so that they do not meet again.
const DIFFERENT_MORE_US: usize = 20_000;

/// The membership of one node. Nothing happens before the first `handle_timeout`.
#[derive(Debug)]
pub struct Members {
    settings: MembersSettings,
    chance: Chance,
    view: View,
    /// Whether the view was ever read.
    is_read: bool,
    /// Whether it has to be read before anything is written.
    is_stale: bool,
    watch: Option<Ticket>,
    asked: Vec<Asked>,
    tickets: u64,
    lease: Option<Lease>,
    incarnation: Incarnation,
    /// Those of before, as many as may be named.
    former: Vec<Incarnation>,
    /// Where this membership begins to number, once it has asked for a place.
    number: Option<u64>,
    seat: Option<Node>,
    is_fenced: bool,
    leaving: Leaving,
    lost: Vec<Loss>,
    broken: Option<Broken>,
    release: Release,
    releases: u64,
    told: Told,
    /// When the next read is due.
    look_at: Micros,
    retry_at: Micros,
    timeout: Option<Micros>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    ticket: Ticket,
    purpose: Purpose,
    sent_at: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Grant,
    Renew(LeaseId),
    /// Because it is time to: a watch may have stopped to tell.
    Check,
    /// Because something is to be decided by it.
    Read,
    Write,
    Revoke,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: LeaseId,
    /// When the last renewal was sent that was answered.
    renewed_at: Micros,
    renew_at: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    Revoking,
    Gone,
}

/// A membership that has ended, and is home to partitions.
#[derive(Clone, Copy, Debug)]
struct Loss {
    seat: Seat,
    seen_at: Micros,
}

/// A table that cannot be read, or is gone.
#[derive(Clone, Copy, Debug)]
struct Broken {
    at: Revision,
    seen_at: Micros,
}

/// Partitions that this node gives away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    None,
    /// The node was told by this number, and may still act for them.
    Told(u64, PartitionSet),
    /// It does not any more.
    Done(PartitionSet),
}

/// What was told.
#[derive(Debug, Default)]
struct Told {
    nodes: Vec<Node>,
    table: Option<Table>,
    taken_by: Option<Incarnation>,
    is_full: bool,
    is_served: bool,
}

impl Members {
    /// A node that is no member yet. Nodes with the same seed could choose the same incarnation, so
    /// outside of simulations it is the system's chance.
    ///
    /// # Errors
    /// A setting cannot be.
    pub fn new(settings: MembersSettings, seed: u64) -> Result<Self, BadSettings> {
        settings.check()?;
        let mut chance = Chance::new(seed);
        Ok(Self {
            view: View::new(&settings.cluster),
            incarnation: incarnation(&mut chance),
            former: settings.former.clone(),
            settings,
            chance,
            is_read: false,
            is_stale: false,
            watch: None,
            asked: Vec::new(),
            tickets: 0,
            lease: None,
            number: None,
            seat: None,
            is_fenced: true,
            leaving: Leaving::No,
            lost: Vec::new(),
            broken: None,
            release: Release::None,
            releases: 0,
            told: Told::default(),
            look_at: Micros(0),
            retry_at: Micros(0),
            timeout: Some(Micros(0)),
            counts: Counts::default(),
        })
    }

    /// This node as others see it, while it has its place.
    pub fn seat(&self) -> Option<&Node> {
        self.seat.as_ref()
    }

    /// All members that are seen, this one too, by slot.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.view.nodes()
    }

    /// The node of a membership, while that lasts.
    pub fn node_of(&self, (slot, incarnation): Seat) -> Option<&Node> {
        self.view.node(slot).filter(|node| node.incarnation == incarnation)
    }

    /// The places of all nodes, also of those that are away.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.view.places().into_iter().flat_map(Places::iter)
    }

    /// Which node is home to which partition; none while that is not known.
    pub fn table(&self) -> Option<&Table> {
        self.view.table()
    }

    /// Counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Until when the node may act; none if it may not.
    pub fn acts_until(&self) -> Option<Micros> {
        if self.is_fenced { None } else { self.fence_at() }
    }

    /// Whether this node is home to a partition, and may act for it until it is fenced.
    pub fn is_home_to(&self, partition: Partition) -> bool {
        let is_kept = match self.release {
            Release::None => true,
            Release::Told(_, set) | Release::Done(set) => !set.contains(partition),
        };
        let seat = self.own_seat();
        let is_here = |table: &Table| seat.is_some_and(|seat| table.home(partition).is_at(seat));
        !self.is_fenced && is_kept && self.table().is_some_and(is_here)
    }

    /// Whether [`Members::leave`] has come to its end.
    pub fn has_left(&self) -> bool {
        self.leaving == Leaving::Gone
    }

    /// Takes what the agreement says. `now` is of a clock that goes on while the host sleeps.
    pub fn handle(&mut self, ticket: Ticket, said: Said, now: Micros, sink: &mut impl MembersSink) {
        if self.watch == Some(ticket) {
            match said {
                Said::Changed { changes } => {
                    self.view.change(&changes);
                    self.viewed(now, sink);
                }
                _ => {
                    self.watch = None;
                    self.failed(Purpose::Read, now);
                }
            }
        } else if let Some(at) = self.asked.iter().position(|asked| asked.ticket == ticket) {
            let asked = self.asked.swap_remove(at);
            self.answered(asked, said, now, sink);
        } else {
            self.counts.late += 1;
        }
        self.settle(now, sink);
    }

    /// When [`Members::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Micros> {
        self.timeout
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Micros, sink: &mut impl MembersSink) {
        self.settle(now, sink);
    }

    /// The node has stopped to act for the partitions of the [`Event::Release`] with this number.
    pub fn released(&mut self, number: u64, now: Micros, sink: &mut impl MembersSink) {
        if let Release::Told(told, set) = self.release
            && told == number
        {
            self.release = Release::Done(set);
        }
        self.settle(now, sink);
    }

    /// Gives the lease back, since the node stops. It is fenced from here on, and the others need
    /// not wait until the lease would have ended.
    pub fn leave(&mut self, now: Micros, sink: &mut impl MembersSink) {
        if self.leaving == Leaving::No {
            self.leaving = match self.lease {
                Some(Lease { id: lease, .. }) => {
                    self.ask(Purpose::Revoke, Ask::Revoke { lease }, now, sink);
                    Leaving::Revoking
                }
                None => Leaving::Gone,
            };
        }
        self.settle(now, sink);
    }

    /// Has the place of a node that will not come back be free. It is free once `places` has it no
    /// more; if another node was faster with something else, it has to be asked for again.
    ///
    /// # Errors
    /// Not this node, or not now.
    pub fn forget(
        &mut self,
        name: &str,
        now: Micros,
        sink: &mut impl MembersSink,
    ) -> Result<(), NotForgotten> {
        let places = self.view.places().filter(|_| self.may_write() && !self.is_fenced);
        let places = places.ok_or(NotForgotten::Busy)?;
        let place = places.of(name).ok_or(NotForgotten::Unknown)?;
        if self.view.member_at(place.slot) != Revision::NONE {
            return Err(NotForgotten::IsMember);
        }
        let keys = &self.view.keys;
        let cas = Cas {
            key: keys.places.clone(),
            value: Some(places.without(name).to_bytes()),
            lease: None,
            compared: vec![
                (keys.places.clone(), self.view.places_at()),
                (keys.member(place.slot), Revision::NONE),
            ],
        };
        self.ask(Purpose::Write, Ask::Cas(cas), now, sink);
        self.settle(now, sink);
        Ok(())
    }

    fn own_seat(&self) -> Option<Seat> {
        self.seat.as_ref().map(Node::seat)
    }

    fn fence_at(&self) -> Option<Micros> {
        self.lease.map(|lease| lease.renewed_at + self.settings.times.fence)
    }

    fn open(&self, purpose: Purpose) -> usize {
        self.asked.iter().filter(|asked| asked.purpose == purpose).count()
    }

    fn is_asked(&self, purpose: Purpose) -> bool {
        self.open(purpose) > 0
    }

    /// Whether what is seen is good enough to write by it.
    fn may_write(&self) -> bool {
        let is_busy = self.is_asked(Purpose::Read) || self.is_asked(Purpose::Write);
        self.is_read && !self.is_stale && !is_busy
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn ask(&mut self, purpose: Purpose, ask: Ask, now: Micros, sink: &mut impl MembersSink) {
        let ticket = self.next_ticket();
        self.asked.push(Asked { ticket, purpose, sent_at: now });
        sink.ask(ticket, ask);
    }

    fn answered(&mut self, asked: Asked, said: Said, now: Micros, sink: &mut impl MembersSink) {
        let Asked { purpose, sent_at, .. } = asked;
        match (purpose, said) {
            (Purpose::Grant, Said::Granted { lease: id }) => {
                let renew_at = sent_at + self.settings.times.renewal;
                self.lease = Some(Lease { id, renewed_at: sent_at, renew_at });
            }
            (Purpose::Renew(id), Said::Renewed) => {
                if let Some(lease) = self.lease.as_mut().filter(|lease| lease.id == id) {
                    lease.renewed_at = lease.renewed_at.max(sent_at);
                }
            }
            (Purpose::Renew(id), Said::Failed(Failure::LeaseGone)) => {
                if self.lease.is_some_and(|lease| lease.id == id) {
                    self.unseat();
                }
            }
            (Purpose::Read | Purpose::Check, Said::Found { records, revision }) => {
                let has_news = self.view.replace(&records, revision);
                self.is_read = true;
                if has_news && purpose == Purpose::Check {
                    // It should have told: it may be dead without anybody knowing.
                    self.watch = None;
                }
                self.viewed(now, sink);
            }
            (Purpose::Write, Said::Written { .. }) => self.is_stale = true,
            (Purpose::Write, Said::Failed(Failure::Different)) => {
                self.counts.differed += 1;
                self.is_stale = true;
                self.retry_at = now + Micros(self.chance.below(DIFFERENT_MORE_US) as u64);
            }
            (Purpose::Write, Said::Failed(Failure::LeaseGone)) if self.seat.is_none() => {
                self.lease = None;
            }
            (Purpose::Revoke, _) => self.leaving = Leaving::Gone,
            (purpose, _) => self.failed(purpose, now),
        }
    }

    /// There was no answer, or none that fits.
    fn failed(&mut self, purpose: Purpose, now: Micros) {
        self.counts.unavailable += 1;
        match purpose {
            Purpose::Read | Purpose::Write => self.is_stale = true,
            Purpose::Revoke => self.leaving = Leaving::Gone,
            Purpose::Grant => {}
            // The next one follows by itself.
            Purpose::Renew(_) | Purpose::Check => return,
        }
        self.retry_at = now + Micros(RETRY_US + self.chance.below(RETRY_MORE_US) as u64);
    }

    /// The membership has ended; the next one is another.
    fn unseat(&mut self) {
        self.lease = None;
        let ended = self.seat.take().map(|node| node.incarnation);
        self.former.extend(ended.filter(|_| self.settings.keeper.is_none()));
        let surplus = self.former.len().saturating_sub(FORMER_MAX);
        self.former.drain(..surplus);
        self.number = None;
        self.release = Release::None;
        self.is_stale = true;
        self.incarnation = incarnation(&mut self.chance);
    }

    /// Tells what the view has that was not told.
    fn viewed(&mut self, now: Micros, sink: &mut impl MembersSink) {
        for key in self.view.take_garbled() {
            self.counts.garbled += 1;
            sink.tell(Event::Notice(Notice::Garbled { key }));
        }
        let is_own = |node: &&Node| node.incarnation == self.incarnation;
        let own = self.view.nodes().filter(is_own).find(|it| it.place.name == self.settings.name);
        match own.cloned() {
            Some(node) if self.seat.is_none() => {
                sink.tell(Event::Seated(node.clone()));
                self.seat = Some(node);
            }
            None if self.seat.is_some() => self.unseat(),
            _ => {}
        }
        let is_other = |node: &&Node| node.place.name != self.settings.name;
        let others: Vec<Node> = self.view.nodes().filter(is_other).cloned().collect();
        for node in self.told.nodes.iter().filter(|node| !others.contains(node)) {
            let (slot, incarnation) = node.seat();
            sink.tell(Event::Lost { slot, incarnation });
        }
        for node in others.iter().filter(|node| !self.told.nodes.contains(node)) {
            sink.tell(Event::Joined(node.clone()));
        }
        self.told.nodes = others;
        self.table_viewed(now, sink);
    }

    fn table_viewed(&mut self, now: Micros, sink: &mut impl MembersSink) {
        let Some(table) = self.view.table() else {
            self.table_missed(now, sink);
            return;
        };
        self.broken = None;
        let moved = table.differs_from(self.told.table.as_ref());
        if moved != PartitionSet::default() {
            // What was given away is settled with its next epoch, also where it came back.
            if let Release::Told(_, set) | Release::Done(set) = &mut self.release {
                let is_open = |&at: &Partition| set.contains(at) && !moved.contains(at);
                *set = Partition::all().filter(is_open).collect();
                if *set == PartitionSet::default() {
                    self.release = Release::None;
                }
            }
            self.told.table = Some(table.clone());
            sink.tell(Event::Moved(moved));
        }
        let lost = table.seats().into_iter().filter(|&seat| self.node_of(seat).is_none());
        let loss = |seat: Seat| {
            let known = self.lost.iter().find(|loss| loss.seat == seat);
            known.copied().unwrap_or(Loss { seat, seen_at: now })
        };
        self.lost = lost.map(loss).collect();
    }

    /// There is no table: nobody is home to anything.
    fn table_missed(&mut self, now: Micros, sink: &mut impl MembersSink) {
        let (at, was_there) = (self.view.table_at(), self.told.table.take().is_some());
        if was_there {
            sink.tell(Event::Moved(Partition::all().collect()));
        }
        self.release = Release::None;
        self.lost.clear();
        // Where none has ever been, this is a new cluster.
        let is_broken = was_there || self.broken.is_some() || at != Revision::NONE;
        if is_broken && self.broken.is_none_or(|broken| broken.at != at) {
            self.broken = Some(Broken { at, seen_at: now });
        }
    }

    /// When a new table may be written: whoever acts by one before has seen that it is gone, or is
    /// fenced.
    fn mended_at(&self) -> Option<Micros> {
        let Times { ttl_s, wait, .. } = self.settings.times;
        self.broken.map(|broken| broken.seen_at + Micros::from_secs(ttl_s) + wait)
    }

    /// Does what is due by what is known. It can be called at any time.
    fn settle(&mut self, now: Micros, sink: &mut impl MembersSink) {
        let is_late = |asked: &Asked| asked.sent_at + ANSWER_MAX <= now;
        let late: Vec<Asked> = self.asked.extract_if(.., |asked| is_late(asked)).collect();
        late.into_iter().for_each(|asked| self.failed(asked.purpose, now));
        self.check_fence(now, sink);
        if self.leaving == Leaving::No {
            self.keep_lease(now, sink);
            if now >= self.retry_at {
                self.look(now, sink);
                self.write(now, sink);
            }
        }
        self.timeout = self.next_timeout(now);
    }

    fn check_fence(&mut self, now: Micros, sink: &mut impl MembersSink) {
        let is_member = self.seat.is_some() && self.leaving == Leaving::No;
        let may_act = is_member && self.fence_at().is_some_and(|at| now < at);
        if may_act && self.is_fenced {
            // Much may have happened meanwhile.
            self.is_stale = true;
            sink.tell(Event::Unfenced);
        } else if !may_act && !self.is_fenced {
            sink.tell(Event::Fenced);
        }
        self.is_fenced = !may_act;
    }

    fn keep_lease(&mut self, now: Micros, sink: &mut impl MembersSink) {
        let Some(lease) = &mut self.lease else {
            if now >= self.retry_at && !self.is_asked(Purpose::Grant) {
                let ttl_s = self.settings.times.ttl_s;
                self.ask(Purpose::Grant, Ask::Grant { ttl_s }, now, sink);
            }
            return;
        };
        if now < lease.renew_at {
            return;
        }
        lease.renew_at = now + self.settings.times.renewal;
        let lease = lease.id;
        if self.open(Purpose::Renew(lease)) < OPEN_MAX {
            let key = self.view.keys.places.clone();
            self.ask(Purpose::Renew(lease), Ask::KeepAlive { lease, key }, now, sink);
        }
    }

    /// Keeps the view up to date.
    fn look(&mut self, now: Micros, sink: &mut impl MembersSink) {
        let purpose = if (self.is_stale || !self.is_read) && !self.is_asked(Purpose::Read) {
            self.is_stale = false;
            Some(Purpose::Read)
        } else if now >= self.look_at && self.open(Purpose::Check) < OPEN_MAX {
            Some(Purpose::Check)
        } else {
            None
        };
        let prefix = self.view.keys.prefix.clone();
        if let Some(purpose) = purpose {
            self.look_at = now + self.settings.times.renewal;
            self.ask(purpose, Ask::Range { prefix: prefix.clone() }, now, sink);
        }
        if self.is_read && self.watch.is_none() {
            let ticket = self.next_ticket();
            self.watch = Some(ticket);
            sink.ask(ticket, Ask::Watch { prefix, from: self.view.revision.next() });
        }
    }

    /// The first time after `now` at which something may be due. What is due and was not done waits
    /// for an answer.
    fn next_timeout(&self, now: Micros) -> Option<Micros> {
        if self.leaving == Leaving::Gone {
            return None;
        }
        let wait = self.settings.times.wait;
        let answers = self.asked.iter().map(|asked| asked.sent_at + ANSWER_MAX);
        let losses = self.lost.iter().map(|loss| loss.seen_at + wait);
        let renewal = self.lease.map(|lease| lease.renew_at);
        let times = [self.acts_until(), renewal, self.mended_at()].into_iter().flatten();
        let times = times.chain([self.look_at, self.retry_at]).chain(answers).chain(losses);
        times.filter(|&at| at > now).min()
    }
}

fn incarnation(chance: &mut Chance) -> Incarnation {
    Incarnation(chance.bits() >> 11)
}

#[cfg(test)]
mod tests;
