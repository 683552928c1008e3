//! A freeze: no shard takes input of connections, and no letter is on its way, while a partition
//! moves. So a move has no case that it shares with anything else.
//!
//! One shard leads. It freezes and, once it is at rest, mails every other shard a marker; who gets
//! one does the same. Letters between two shards keep their order, so when a shard has the markers
//! of all others, it has all that they mailed before. If no shard had work between its own marker
//! and the last of the others', no letter is on its way. Otherwise there is another round.
//!
//! Then all are told of the move. Who holds the partition sends what is in it, and there are rounds
//! again until that has arrived. Then comes the thaw. Meanwhile connections end and deadlines pass:
//! the letters that this takes need no quiet. Wills, verdicts and retained messages for new
//! subscriptions wait for the thaw.

use super::Shard;
use super::slices::{Walk, Work};
use crate::auth::Verdict;
use crate::keys::{ConnKey, Micros, SessionKey, ShardId, Ticket};
use crate::mail::Mail;
use crate::partitions::Partition;
use crate::sink::{Notice, Sink};
use std::collections::BTreeSet;

/// Why a partition is not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// Another one is on its way.
    UnderWay,
    /// There is no such shard.
    UnknownShard,
    /// The shard holds it already.
    IsThere,
    /// Only the first shard moves partitions.
    NotLeader,
    /// Other nodes have it that partitions of topics stay where they are.
    Clustered,
    /// A log is kept: a session is in that of its shard, and does not change it yet.
    Logged,
}

/// One shard's part in a freeze.
#[derive(Debug, Default)]
pub(super) struct Freeze {
    round: u32,
    /// Its own marker of this round has left.
    is_marked: bool,
    /// So many markers of others have come.
    markers: u16,
    is_reported: bool,
    /// It had work since its own marker.
    is_busy: bool,
    /// Connections that sent something.
    held: BTreeSet<ConnKey>,
    /// Sessions that go on at the thaw.
    stopped: BTreeSet<SessionKey>,
    /// One for each question that was answered meanwhile.
    verdicts: Vec<(Ticket, Verdict)>,
    lead: Option<Lead>,
}

/// What the shard that leads knows.
#[derive(Debug)]
struct Lead {
    partition: Partition,
    to: ShardId,
    is_moved: bool,
    /// So many shards have said that they are at rest, or that they have thawed.
    answers: u16,
    /// One of them had work.
    is_busy: bool,
}

impl Freeze {
    fn next_round(&mut self, round: u32) {
        self.round = round;
        (self.is_marked, self.is_reported, self.markers) = (false, false, 0);
    }

    pub(super) fn note_work(&mut self) {
        self.is_busy = true;
    }
}

impl Shard {
    /// Moves a partition to another shard, with the sessions of its clients and the retained
    /// messages of its topics. The first shard is asked, and says [`Notice::Moved`] when it is
    /// done.
    ///
    /// # Errors
    /// Why not.
    pub fn move_partition(
        &mut self,
        partition: Partition,
        to: ShardId,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), NotMoved> {
        match () {
            () if self.place.id != self.place.leader() => return Err(NotMoved::NotLeader),
            () if self.log.is_on() => return Err(NotMoved::Logged),
            () if self.retained.is_clustered() => return Err(NotMoved::Clustered),
            () if !self.place.node.contains(&to.0) => return Err(NotMoved::UnknownShard),
            () if self.place.partitions.holder(partition) == to => return Err(NotMoved::IsThere),
            () if self.freeze.is_some() => return Err(NotMoved::UnderWay),
            () => {}
        }
        let lead = Lead { partition, to, is_moved: false, answers: 0, is_busy: false };
        self.begin_freeze(Some(lead));
        self.come_to_rest(now, sink);
        Ok(())
    }

    /// Whether input of connections waits because a partition moves.
    pub fn is_frozen(&self) -> bool {
        self.freeze.is_some()
    }

    /// The partitions that this shard holds.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> {
        let held = self.place.partitions.held_by(self.place.id);
        Partition::all().filter(move |&partition| held.contains(partition))
    }

    fn begin_freeze(&mut self, lead: Option<Lead>) {
        self.freeze = Some(Box::new(Freeze { round: 1, lead, ..Freeze::default() }));
        self.slices.set_frozen(true);
        self.stats.freezes += 1;
    }

    /// Whether what a connection sent waits for the thaw.
    pub(super) fn holds_input(&mut self, conn: ConnKey) -> bool {
        self.freeze.as_mut().is_some_and(|freeze| {
            freeze.held.insert(conn);
            true
        })
    }

    /// Has a session go on at the thaw, if there is a freeze. Says whether there is.
    #[inline]
    pub(super) fn waits_for_thaw(&mut self, session: SessionKey) -> bool {
        self.freeze.as_mut().is_some_and(|freeze| {
            freeze.stopped.insert(session);
            true
        })
    }

    /// A shard is at rest: this one freezes as well, if it has not.
    pub(super) fn on_marker(&mut self, round: u32) {
        if self.freeze.is_none() {
            self.begin_freeze(None);
        }
        let Some(freeze) = &mut self.freeze else { return };
        if freeze.round < round {
            freeze.next_round(round);
        }
        freeze.markers += 1;
    }

    /// Nothing waits that would take a letter.
    fn is_at_rest(&self) -> bool {
        self.slices.next().is_none()
            && !self.answers.waits_for_shards()
            && !self.retained.is_asking()
            && self.retained.queries.is_empty()
    }

    /// In a freeze: says that this shard is at rest, once it is, and that all others are.
    #[inline]
    pub(super) fn come_to_rest(&mut self, now: Micros, sink: &mut impl Sink) {
        if self.freeze.is_some() {
            self.say_at_rest(now, sink);
        }
    }

    #[cold]
    fn say_at_rest(&mut self, now: Micros, sink: &mut impl Sink) {
        let is_at_rest = self.is_at_rest();
        let Some(freeze) = &mut self.freeze else { return };
        if !freeze.is_marked && is_at_rest {
            (freeze.is_marked, freeze.is_busy) = (true, false);
            for shard in self.place.neighbors() {
                sink.mail(shard, Mail::Marker { round: freeze.round });
            }
        }
        let others = self.place.node.len() - 1;
        if freeze.is_marked && !freeze.is_reported && usize::from(freeze.markers) == others {
            freeze.is_reported = true;
            let is_busy = freeze.is_busy;
            let leader = self.place.leader();
            if self.place.id == leader {
                self.on_rested(is_busy, now, sink);
            } else {
                sink.mail(leader, Mail::Rested { is_busy });
            }
        }
    }

    /// A shard has the markers of all others. If all have, the round is over.
    pub(super) fn on_rested(&mut self, is_busy: bool, now: Micros, sink: &mut impl Sink) {
        let Some(freeze) = &mut self.freeze else { return };
        let Some(lead) = &mut freeze.lead else { return };
        lead.answers += 1;
        lead.is_busy |= is_busy;
        if usize::from(lead.answers) < self.place.node.len() {
            return;
        }
        lead.answers = 0;
        let is_quiet = !std::mem::take(&mut lead.is_busy);
        let (partition, to) = (lead.partition, lead.to);
        if is_quiet && lead.is_moved {
            return self.place.neighbors().for_each(|shard| sink.mail(shard, Mail::Thaw));
        }
        let is_move_due = is_quiet && !std::mem::replace(&mut lead.is_moved, is_quiet);
        let round = freeze.round + 1;
        freeze.next_round(round);
        if is_move_due {
            for shard in self.place.neighbors() {
                sink.mail(shard, Mail::Move { partition, to });
            }
            self.on_move(partition, to, now);
        }
        self.come_to_rest(now, sink);
    }

    /// A partition moves: this shard looks through what it has.
    pub(super) fn on_move(&mut self, partition: Partition, to: ShardId, now: Micros) {
        let walk = Walk { partition, to, session: 0, after: None };
        self.slices.put_off(Work::Move(Box::new(walk)), now);
    }

    /// The shard that leads has this one thaw.
    pub(super) fn on_thaw(&mut self, from: ShardId, now: Micros, sink: &mut impl Sink) {
        self.thaw(now, sink);
        sink.mail(from, Mail::Thawed);
    }

    /// A shard has thawed. The one that leads is the last.
    pub(super) fn on_thawed(&mut self, now: Micros, sink: &mut impl Sink) {
        let others = self.place.node.len() - 1;
        let Some(freeze) = &mut self.freeze else { return };
        let Some(lead) = &mut freeze.lead else { return };
        lead.answers += 1;
        if usize::from(lead.answers) == others {
            let (partition, to) = (lead.partition, lead.to);
            self.thaw(now, sink);
            sink.notice(Notice::Moved { partition, to });
        }
    }

    /// Goes on with what waited for the end of the freeze.
    pub(super) fn thaw(&mut self, now: Micros, sink: &mut impl Sink) {
        let Some(freeze) = self.freeze.take() else { return };
        self.slices.set_frozen(false);
        for conn in freeze.held {
            if let Some(connection) = self.connections.get_mut(conn) {
                connection.excuse(now);
                sink.resume(conn);
            }
        }
        for session in freeze.stopped {
            if self.clients.get(session).is_some() {
                self.pump(session, now, sink);
            }
        }
        // In the order in which they became due.
        self.due.wills.reverse();
        self.settle(now, sink);
        for (ticket, verdict) in freeze.verdicts {
            self.authenticated(ticket, verdict, now, sink);
        }
    }

    /// Keeps the answer of the authentication port for the thaw. Returns it where there is none.
    #[inline]
    pub(super) fn keep_verdict(&mut self, ticket: Ticket, verdict: Verdict) -> Option<Verdict> {
        let Some(freeze) = &mut self.freeze else { return Some(verdict) };
        freeze.verdicts.push((ticket, verdict));
        None
    }
}
