//! Crashes of the whole broker: nothing is left but a log per shard, as far as it was written, and
//! clients that connect again.
//!
//! A log is told to be committed late, at random, shard by shard. A crash leaves of it all up to
//! the end of some input that is not before that. Then the broker starts as
//! `broker/journal/start.rs` has it start, maybe with another number of shards.

use super::journal::Logged;
use super::line::BrokerEnd;
use super::moves::Moves;
use super::sink::{Event, Output};
use super::{CLIENTS, World};
use crate::chance::Chance;
use crate::finding::Checker;
use crate::names::{ClientNo, Root};
use crate::plant::Plant;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use weir_core::{
    Lsn, Mail, Mark, Micros, Parcel, Partitions, Rebuild, Record, Shard, ShardId, Stats,
    Undelivered,
};

/// Whether there are crashes in a run.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    pub(super) are_on: bool,
    pub(super) count: usize,
    /// Logs that were cut in the middle of a session's copy.
    pub(super) copies_cut: usize,
    /// Messages that were between two shards.
    pub(super) redelivered: usize,
    /// Of the shards that are gone.
    pub(super) stats: Vec<Stats>,
    /// Calls whose letters may wait for the log, with their shards and how far that has to be.
    pub(super) held: Vec<(usize, Lsn, Root)>,
    /// By the call with which such letters left.
    pub(super) released: BTreeMap<Root, Vec<Root>>,
    /// The present call may send letters that waited.
    pub(super) may_release: bool,
    shards_max: u16,
    /// How often there are commits, bases and crashes among the steps of a run.
    weights: [u32; 3],
}

/// The stream of chance that says how often: no step has it.
const WEIGHT_STREAM: u64 = u64::MAX - 4;

impl Crashes {
    pub(super) fn new(are_on: bool, shards_max: u16, seed: u64) -> Self {
        let mut chance = Chance::new(seed, WEIGHT_STREAM);
        let weights = [chance.pick(&[30, 30, 8]), chance.pick(&[2, 6]), chance.pick(&[1, 1, 4])];
        Self { are_on, shards_max, weights, ..Self::default() }
    }

    /// All that a call set off is done: so are the letters that left with it.
    pub(super) fn settled(&mut self, root: Root) -> Vec<Root> {
        self.released.remove(&root).unwrap_or_default()
    }

    /// Of a commit, of a base and of a crash.
    pub(super) fn weights(&self) -> [u32; 3] {
        if self.are_on { self.weights } else { [0, 0, 0] }
    }
}

impl World {
    /// The books of a shard after a call.
    pub(super) fn keep_books(&mut self, shard: usize) {
        if self.crashes.are_on {
            self.journals[shard].keep(self.model.keep(shard));
        }
    }

    /// All is committed and looked at.
    pub(super) fn keep_no_older_books(&mut self) {
        for (shard, journal) in self.journals.iter_mut().enumerate() {
            journal.keep_only(self.model.keep(shard));
        }
    }

    /// The letters of this call may leave only when the log has what it took in.
    pub(super) fn hold_for_log(&mut self, shard: usize, root: Root) {
        let may_release = std::mem::take(&mut self.crashes.may_release);
        if !self.crashes.are_on || self.shards.len() == 1 {
            return;
        }
        let (told, last) = (self.journals[shard].told, self.journals[shard].last());
        let soon = self.now() + Micros(1);
        let is_put_off = self.shards[shard].poll_timeout().is_some_and(|due| due <= soon);
        if may_release {
            let is_its = |&mut (at, lsn, _): &mut (usize, Lsn, Root)| at == shard && lsn <= told;
            let met: Vec<_> = self.crashes.held.extract_if(.., is_its).collect();
            let roots = met.iter().map(|&(.., root)| root);
            if !met.is_empty() {
                self.crashes.released.entry(root).or_default().extend(roots);
            }
            if is_put_off {
                // Some of them may have left, and others follow.
                for &(.., root) in &met {
                    *self.open_letters.entry(root).or_default() += 1;
                }
                self.crashes.held.extend(met);
            }
        }
        // A letter that left with a commit may set off others that wait for the next shard's log.
        let is_open = self.model.is_unsettled(root) || self.crashes.released.contains_key(&root);
        if (told < last || is_put_off) && is_open {
            self.crashes.held.push((shard, last, root));
            *self.open_letters.entry(root).or_default() += 1;
        }
    }

    /// Some shard is told that some of its log is committed.
    pub(super) fn commit_one(&mut self) {
        let shard = self.chance.below(self.shards.len());
        if self.is_away(shard) {
            return;
        }
        let journal = &self.journals[shard];
        let to =
            if self.chance.one_in(2) { journal.last() } else { journal.any_end(&mut self.chance) };
        self.commit(shard, to);
    }

    fn commit(&mut self, shard: usize, to: Lsn) {
        if !self.saboteur.strikes(Plant::AnswerEarly) {
            self.journals[shard].commit(to);
        }
        let root = self.new_root();
        self.trace.add(format_args!("  shard {shard}: committed to {}", to.0));
        self.model.begin_call(root, shard);
        let ((), events) = self.act(shard, |shard, now, sink| shard.committed(to, now, sink));
        self.crashes.may_release = true;
        self.carry_out(shard, root, events);
        let told = self.journals[shard].told;
        let is_early = self.saboteur.strikes(Plant::ForgetEarly);
        if let Some((base, end)) = self.shards[shard].base()
            && (end <= told || is_early)
        {
            self.journals[shard].forget(base, &mut self.chance);
            let is_early = self.saboteur.strikes(Plant::FreePagesEarly);
            self.forget_pages(shard, if is_early { told } else { base });
        }
    }

    /// All that is logged is committed. Says whether there was something.
    pub(super) fn commit_all(&mut self) -> bool {
        let mut is_some = false;
        for shard in 0..self.journals.len() {
            let (told, last) = (self.journals[shard].told, self.journals[shard].last());
            if told < last {
                is_some = true;
                self.commit(shard, last);
            }
        }
        is_some
    }

    /// Some shard begins to log anew what it has.
    pub(super) fn base_one(&mut self) {
        let shard = self.chance.below(self.shards.len());
        if self.is_away(shard) {
            return;
        }
        self.base_of(shard);
        if self.chance.one_in(6) {
            // Before what it logs is committed, which it seldom waits for.
            self.go_on();
            if self.copies.are_on {
                return self.lose_copied_with(shard);
            }
            self.crash();
        }
    }

    pub(super) fn base_of(&mut self, shard: usize) {
        let root = self.new_root();
        self.trace.add(format_args!("  shard {shard}: a base"));
        self.model.begin_call(root, shard);
        let ((), events) = self.act(shard, |shard, now, sink| shard.begin_base(now, sink));
        self.carry_out(shard, root, events);
    }

    /// The broker crashes, and starts again.
    pub(super) fn crash(&mut self) {
        self.crashes.count += 1;
        self.crashes.stats.extend(self.shards.iter().map(Shard::stats));
        let (mut logs, mut books) = (Vec::new(), Vec::new());
        for (shard, journal) in std::mem::take(&mut self.journals).into_iter().enumerate() {
            let is_any = self.saboteur.strikes(Plant::DivideInputs);
            let end = journal.end_of_crash(is_any, &mut self.chance);
            self.crashes.copies_cut += usize::from(journal.is_in_copy(end));
            let (told, last) = (journal.told.0, journal.last().0);
            self.trace.add(format_args!("crash: shard {shard} has {told} <= {} <= {last}", end.0));
            let (records, kept) = journal.cut(end, self.model.promised(shard));
            logs.push(records);
            books.push(kept);
        }
        self.pages.crash();
        self.lose_connections();
        let count = self.chance.between(1, self.crashes.shards_max.into()) as u16;
        let is_same = self.chance.one_in(2);
        let count = if is_same { logs.len() as u16 } else { count };
        self.moves = Moves::new(false, Partitions::spread(count, self.seed));
        let partitions = Partitions::spread(count, self.seed);
        let shard_of = |client: ClientNo| usize::from(partitions.owner(&client.client_id()).0);
        let is_exact = logs.len() == 1;
        self.model.crash(&books, shard_of, is_exact, self.pressure.is_on());
        self.trace.add(format_args!("{count} shards start"));
        self.make_shards(count);
        self.start(0..count.into(), &logs);
        self.pass(self.now());
        for at in 0..CLIENTS {
            let is_away = self.clients[at].conn.is_none();
            if is_away && !self.chance.one_in(3) {
                let ask = self.any_ask(ClientNo(at));
                self.connect(ClientNo(at), ask);
            }
        }
    }

    /// Letters are lost, and every connection. What a client was sent it may still read.
    fn lose_connections(&mut self) {
        self.mail.clear();
        self.held_up.clear();
        self.open_letters.clear();
        self.crashes.held.clear();
        self.crashes.released.clear();
        self.questions.clear();
        self.accepted.clear();
        let are_read = self.chance.one_in(2);
        for line in &mut self.lines {
            line.end = BrokerEnd::Closed;
            line.is_paused = false;
            line.up.clear();
            line.unconsumed.clear();
            if !are_read {
                line.down.clear();
            }
        }
        self.notice_ends();
    }

    /// Shards that hold nothing take up what the logs say.
    pub(super) fn start(&mut self, shards: Range<usize>, logs: &[Vec<Logged>]) {
        let now = self.now();
        let mut rebuilt: Vec<(ShardId, Rebuild)> = Vec::new();
        for (shard, log) in (shards.start..).zip(logs) {
            match self.rebuild(log) {
                Ok(rebuild) => rebuilt.push((ShardId(shard as u16), rebuild)),
                Err(what) => self.model.fail(Checker::Recovery, format!("log {shard}: {what}")),
            }
        }
        let mut late = Undelivered::of(&rebuilt, now);
        if self.saboteur.strikes(Plant::ForgetMailed) {
            late.clear();
        }
        let marks = self.marks_of_others(&shards, &rebuilt);
        let parcels = self.parcels(rebuilt);
        for shard in &mut self.shards[shards.clone()] {
            shard.keep_log();
        }
        self.keep_pages();
        self.each(&shards, |shard, now, sink| shard.begin_base(now, sink));
        let partitions = Partitions::spread(shards.len() as u16, self.seed);
        for parcel in parcels {
            let owner = parcel.name().map_or(ShardId(0), |name| partitions.owner(name));
            let restored = |shard: &mut Shard, now, sink: &mut Output<'_>| {
                shard.restored(parcel, now, sink);
            };
            self.tell(shards.start + usize::from(owner.0), restored);
        }
        for (shard, mark) in marks {
            self.tell(shard, |it, _, sink| it.restored_mark(mark, sink));
        }
        self.crashes.redelivered += late.len();
        for late in &late {
            self.trace.add(format_args!("late: {late:?}"));
            for shard in shards.clone() {
                let is_first = shard == shards.start;
                self.tell(shard, |it, now, sink| it.redelivered(late, is_first, now, sink));
            }
        }
        self.each(&shards, |shard, now, sink| shard.end_base(now, sink));
        for shard in shards {
            let last = self.journals[shard].last();
            self.journals[shard].commit(last);
            self.tell(shard, |shard, now, sink| shard.committed(last, now, sink));
            self.journals[shard].keep_only(self.model.keep(shard));
        }
    }

    /// How far the shards had handled what those of other nodes mailed.
    fn marks_of_others(
        &mut self,
        own: &Range<usize>,
        rebuilt: &[(ShardId, Rebuild)],
    ) -> Vec<(usize, Mark)> {
        let mut marks = Vec::new();
        for &(ShardId(shard), ref rebuild) in rebuilt {
            let others = rebuild.marks().filter(|mark| !own.contains(&mark.from.0.into()));
            marks.extend(others.map(|mark| (usize::from(shard), mark)));
        }
        let is_any = !marks.is_empty() && self.size.nodes > 1;
        if !is_any || self.saboteur.strikes(Plant::ForgetOthersMarks) {
            marks.clear();
        }
        marks
    }

    /// All that the logs say. What is on pages has to be there.
    fn parcels(&mut self, rebuilt: Vec<(ShardId, Rebuild)>) -> Vec<Parcel> {
        let (now, mut parcels) = (self.now(), Vec::new());
        for (ShardId(shard), rebuild) in rebuilt {
            match rebuild.finish(now, |page| self.pages.read(page)) {
                Ok(more) => parcels.extend(more),
                Err(what) => self.model.fail(Checker::Recovery, format!("log {shard}: {what}")),
            }
        }
        if let Err(what) = self.pages.keep(&parcels) {
            self.model.fail(Checker::Recovery, what);
        }
        parcels
    }

    /// What a log says, or what is wrong with it.
    fn rebuild(&mut self, log: &[Logged]) -> Result<Rebuild, String> {
        let mut rebuild = Rebuild::default();
        let is_input = |record: &Logged| matches!(record.record(), Record::Queued { .. });
        let inputs: Vec<usize> = (0..log.len()).filter(|&at| is_input(&log[at])).collect();
        let mut lost = None;
        if !log.is_empty() && self.saboteur.strikes(Plant::LoseRecord) {
            // One that is not needed at all would not be missed.
            let is_base = |at: &usize| matches!(log[*at].record(), Record::Base | Record::BaseEnd);
            let others: Vec<usize> = (0..log.len()).filter(|at| !is_base(at)).collect();
            lost = (!others.is_empty()).then(|| self.chance.pick(&others));
        }
        let mut repeated = None;
        if !inputs.is_empty() && self.saboteur.strikes(Plant::RepeatRecords) {
            repeated = Some(self.chance.pick(&inputs));
        }
        let forgets = self.saboteur.strikes(Plant::ForgetNoted);
        let forgets_marks = self.saboteur.strikes(Plant::ForgetMarks);
        let forgets_fetched = self.saboteur.strikes(Plant::ForgetFetched);
        let forgets_paged = self.saboteur.strikes(Plant::ForgetPaged);
        let takes_parts = self.saboteur.strikes(Plant::TakePartOfCopy);
        for (at, logged) in log.iter().enumerate() {
            let is_noted = matches!(logged.record(), Record::Noted { .. });
            // What is done is looked for in vain as well.
            let is_mark =
                matches!(logged.record(), Record::Marked { .. } | Record::Delivered { .. });
            let is_fetched = matches!(logged.record(), Record::Fetched { .. });
            let is_paged = matches!(logged.record(), Record::Paged { .. });
            let is_forgotten = forgets && is_noted
                || forgets_marks && is_mark
                || forgets_fetched && is_fetched
                || forgets_paged && is_paged;
            if lost == Some(at) || is_forgotten {
                continue;
            }
            if logged.is_first {
                rebuild.commit_end();
            }
            let times = if repeated == Some(at) { 2 } else { 1 };
            for _ in 0..times {
                let applied = rebuild.apply(logged.lsn, logged.record());
                applied.map_err(|unfit| unfit.to_string())?;
            }
            if takes_parts && let Some(session) = logged.copy_of {
                // As if the copy were whole with its first record.
                let applied = rebuild.apply(logged.lsn, Record::Gone { session });
                applied.map_err(|unfit| unfit.to_string())?;
            }
        }
        if rebuild.is_whole() { Ok(rebuild) } else { Err("its beginning is not whole".into()) }
    }

    fn each(
        &mut self,
        shards: &Range<usize>,
        mut say: impl FnMut(&mut Shard, Micros, &mut Output<'_>),
    ) {
        for shard in shards.clone() {
            self.tell(shard, &mut say);
        }
    }

    /// Tells a shard something while nobody is connected; its letters arrive at once.
    fn tell(&mut self, to: usize, say: impl FnOnce(&mut Shard, Micros, &mut Output<'_>)) {
        let ((), events) = self.act(to, say);
        let mut letters: VecDeque<(usize, usize, Mail)> = VecDeque::new();
        self.sort_out(to, events, &mut letters);
        while let Some((from, to, mail)) = letters.pop_front() {
            let from = ShardId(from as u16);
            let ((), events) = self.act(to, |shard, now, sink| shard.mail(from, mail, now, sink));
            self.sort_out(to, events, &mut letters);
        }
    }

    fn sort_out(
        &mut self,
        from: usize,
        events: Vec<Event>,
        letters: &mut VecDeque<(usize, usize, Mail)>,
    ) {
        for event in events {
            match event {
                Event::Mail(to, mail) => letters.push_back((from, to, mail)),
                Event::Said(said, text) => {
                    self.trace.add(format_args!("  shard {from}: {text}"));
                    self.model.said(&said);
                }
                other => {
                    let what = format!("shard {from} at its start: {other:?}");
                    self.model.fail(Checker::Recovery, what);
                }
            }
        }
    }

    /// How many messages a crash found between two shards.
    pub fn redelivered(&self) -> usize {
        self.crashes.redelivered
    }

    /// How often a log was cut in the middle of a session's copy.
    pub fn copies_cut(&self) -> usize {
        self.crashes.copies_cut
    }

    /// How often the broker crashed.
    pub fn crashes(&self) -> usize {
        self.crashes.count
    }
}
