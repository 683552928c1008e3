//! Traces: what some clients and the broker say to each other, while somebody looks.
//!
//! The shards copy packets, and a task takes them while a trace goes on ([`crate::tracer`]). What
//! it has taken is kept here, as lines of JSON, until the trace is deleted or another needs its
//! place. A trace ends by its time or its size.

use serde_json::{Map, Value};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// Traces at a time, those that have ended and are still kept included.
pub const TRACES_MAX: usize = 4;

/// Who or what is traced.
#[derive(
    Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct TraceOf {
    /// `address`, `client`, `topic` or `user`.
    pub kind: String,
    /// An address or a network, a client identifier, a topic filter, or a user name.
    pub name: String,
}

/// What a shard is to do about traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceWish {
    /// Begin with one.
    Start {
        /// Its bit in [`TraceEvent::traces`], below [`TRACES_MAX`].
        slot: u8,
        /// Of whom.
        of: TraceOf,
    },
    /// Go on.
    GoOn,
    /// End one.
    Stop {
        /// Its bit.
        slot: u8,
    },
}

/// What a shard has copied, and what it had no room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// In their order.
    pub events: Vec<TraceEvent>,
    /// Packets that are missing, by the bit of the trace.
    pub dropped: [u64; TRACES_MAX],
}

/// A packet between a client and the broker.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TraceEvent {
    /// The traces that it is in: a bit for each.
    #[serde(skip)]
    pub traces: u8,
    /// When it was exchanged, as in RFC 3339.
    pub at: String,
    /// `in` from the client, `out` to it.
    pub direction: &'static str,
    /// Whose connection it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The user that it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The packet's kind, as the standard names it.
    pub packet: &'static str,
    /// The packet's bytes.
    pub bytes: u64,
    /// What is in it.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// A trace as it stands.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct TraceShown {
    /// Names it.
    pub id: u64,
    /// Of whom or what.
    #[serde(flatten)]
    pub of: TraceOf,
    /// How many seconds ago it began.
    pub age_s: f64,
    /// How many seconds it is to take.
    pub for_s: u64,
    /// Bytes of its lines, at most.
    pub bytes_max: usize,
    /// Bytes of its lines.
    pub bytes: usize,
    /// How many lines it has.
    pub events: u64,
    /// Packets that are missing: the shards had no room for more.
    pub dropped: u64,
    /// Why it has ended, if it has: `time` or `size`.
    pub ended: Option<String>,
}

#[derive(Default)]
pub(crate) struct Traces {
    book: Mutex<Book>,
    /// There are more lines, or an end.
    news: Notify,
}

#[derive(Default)]
struct Book {
    traces: [Option<Trace>; TRACES_MAX],
    begun: u64,
    /// Whether a task takes what the shards copy.
    is_looking: bool,
}

struct Trace {
    id: u64,
    of: TraceOf,
    began: Instant,
    length: Duration,
    bytes_max: usize,
    /// With the number of each.
    lines: Vec<Box<str>>,
    bytes: usize,
    dropped: u64,
    phase: Phase,
    /// Nobody can see it any more; its place is free once the shards have stopped.
    is_deleted: bool,
}

/// How far a trace is. One task alone asks the shards, so that they hear of things in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The shards are still to hear of it.
    New,
    GoesOn,
    /// For this reason; the shards are still to hear of it.
    Ended(&'static str),
    Stopped(&'static str),
}

/// A part of a trace.
pub(crate) struct Lines {
    pub(crate) text: String,
    /// Whether there will be no more.
    pub(crate) is_over: bool,
}

impl Trace {
    fn shown(&self, now: Instant) -> TraceShown {
        TraceShown {
            id: self.id,
            of: self.of.clone(),
            age_s: now.duration_since(self.began).as_secs_f64(),
            for_s: self.length.as_secs(),
            bytes_max: self.bytes_max,
            bytes: self.bytes,
            events: self.lines.len() as u64,
            dropped: self.dropped,
            ended: self.ended().map(str::to_owned),
        }
    }

    fn ended(&self) -> Option<&'static str> {
        match self.phase {
            Phase::New | Phase::GoesOn => None,
            Phase::Ended(why) | Phase::Stopped(why) => Some(why),
        }
    }

    /// The line that has no room any more ends it.
    fn push(&mut self, event: &TraceEvent) {
        if self.phase != Phase::GoesOn {
            return;
        }
        let number = self.lines.len() as u64 + 1;
        let Ok(line) = serde_json::to_string(&Numbered { seq: number, event }) else { return };
        if self.bytes + line.len() >= self.bytes_max {
            self.phase = Phase::Ended("size");
            return;
        }
        self.bytes += line.len() + 1;
        self.lines.push(line.into());
    }
}

/// A line of a trace.
#[derive(serde::Serialize)]
struct Numbered<'a> {
    seq: u64,
    #[serde(flatten)]
    event: &'a TraceEvent,
}

impl Traces {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new one, of which the shards are still to hear: its number, and whether a task has to be
    /// started that tells them. Nothing if as many go on as may.
    pub(crate) fn add(
        &self,
        of: TraceOf,
        length: Duration,
        bytes_max: usize,
    ) -> Option<(u64, bool)> {
        let mut book = self.book();
        let slot = book.free_slot()?;
        book.begun += 1;
        let (id, lines, phase, is_deleted) = (book.begun, Vec::new(), Phase::New, false);
        let (began, bytes, dropped) = (Instant::now(), 0, 0);
        let trace =
            Trace { id, of, began, length, bytes_max, lines, bytes, dropped, phase, is_deleted };
        book.traces[slot] = Some(trace);
        Some((id, !std::mem::replace(&mut book.is_looking, true)))
    }

    /// Whether the shards are still to hear of it.
    pub(crate) fn is_new(&self, id: u64) -> bool {
        let is_it = |trace: &Trace| trace.id == id && trace.phase == Phase::New;
        self.book().seen().any(is_it)
    }

    /// What the shards are to hear now, of which trace.
    pub(crate) fn wishes(&self) -> Vec<(u64, TraceWish)> {
        self.book().wishes(Instant::now())
    }

    /// They have heard of a trace's beginning, or end.
    pub(crate) fn heard(&self, id: u64, has_begun: bool) {
        self.book().heard(id, has_begun);
        self.news.notify_waiters();
    }

    /// What they have copied.
    pub(crate) fn take(&self, all: Vec<Traced>) {
        self.book().take(all);
        self.news.notify_waiters();
    }

    /// Whether the task that tells them has nothing more to do. Then it is over.
    pub(crate) fn rests(&self) -> bool {
        let mut book = self.book();
        book.is_looking = !book.is_at_rest();
        !book.is_looking
    }

    pub(crate) fn list(&self) -> Vec<TraceShown> {
        let (book, now) = (self.book(), Instant::now());
        let mut all: Vec<_> = book.seen().map(|trace| trace.shown(now)).collect();
        all.sort_unstable_by_key(|trace| trace.id);
        all
    }

    pub(crate) fn one(&self, id: u64) -> Option<TraceShown> {
        self.list().into_iter().find(|trace| trace.id == id)
    }

    /// Lines behind the one of a number, at least one and so many bytes; nothing if there is no
    /// such trace.
    pub(crate) fn lines(&self, id: u64, after: u64, bytes_max: usize) -> Option<Lines> {
        let book = self.book();
        let trace = book.seen().find(|trace| trace.id == id)?;
        let mut text = String::new();
        let first = usize::try_from(after).unwrap_or(usize::MAX).min(trace.lines.len());
        let mut left = trace.lines[first..].iter();
        for line in left.by_ref() {
            text += &**line;
            text.push('\n');
            if text.len() >= bytes_max {
                break;
            }
        }
        Some(Lines { text, is_over: trace.ended().is_some() && left.next().is_none() })
    }

    /// Waits for news of any trace.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    /// Ends a trace and forgets what it has. Says whether there was one.
    pub(crate) fn end(&self, id: u64) -> bool {
        let mut book = self.book();
        let is_it = |trace: &Trace| trace.id == id && !trace.is_deleted;
        let mut all = book.traces.iter_mut();
        let Some(place) = all.find(|trace| trace.as_ref().is_some_and(is_it)) else { return false };
        match place {
            Some(trace) if !matches!(trace.phase, Phase::Stopped(_)) => {
                (trace.phase, trace.is_deleted) = (Phase::Ended("deleted"), true);
                trace.lines.clear();
            }
            _ => *place = None,
        }
        drop(book);
        self.news.notify_waiters();
        true
    }
}

impl Book {
    /// Those that were not deleted.
    fn seen(&self) -> impl Iterator<Item = &Trace> {
        self.traces.iter().flatten().filter(|trace| !trace.is_deleted)
    }

    /// A place: one that is free, or the oldest of those that have ended.
    fn free_slot(&self) -> Option<usize> {
        self.traces.iter().position(Option::is_none).or_else(|| {
            let stopped = self.traces.iter().enumerate().filter_map(|(at, trace)| {
                let trace = trace.as_ref()?;
                matches!(trace.phase, Phase::Stopped(_)).then_some((trace.id, at))
            });
            stopped.min().map(|(_, at)| at)
        })
    }

    fn take(&mut self, all: Vec<Traced>) {
        let mut events = Vec::new();
        for Traced { events: of_shard, dropped } in all {
            events.extend(of_shard);
            for (trace, dropped) in self.traces.iter_mut().zip(dropped) {
                if let Some(trace) = trace {
                    trace.dropped += dropped;
                }
            }
        }
        events.sort_by(|one, other| one.at.cmp(&other.at));
        for event in &events {
            for (slot, trace) in self.traces.iter_mut().enumerate() {
                if let Some(trace) = trace
                    && event.traces & (1 << slot) != 0
                {
                    trace.push(event);
                }
            }
        }
    }

    /// Ends those whose time is over, and says what the shards are still to hear, of which trace.
    fn wishes(&mut self, now: Instant) -> Vec<(u64, TraceWish)> {
        let mut wishes = Vec::new();
        for (slot, trace) in (0..).zip(&mut self.traces) {
            let Some(trace) = trace else { continue };
            if trace.phase == Phase::GoesOn && now.duration_since(trace.began) >= trace.length {
                trace.phase = Phase::Ended("time");
            }
            match trace.phase {
                Phase::New => {
                    wishes.push((trace.id, TraceWish::Start { slot, of: trace.of.clone() }));
                }
                Phase::Ended(_) => wishes.push((trace.id, TraceWish::Stop { slot })),
                Phase::GoesOn | Phase::Stopped(_) => {}
            }
        }
        wishes
    }

    /// The shards have heard that a trace begins or ends.
    fn heard(&mut self, id: u64, has_begun: bool) {
        let is_it = |trace: &Trace| trace.id == id;
        let mut all = self.traces.iter_mut();
        let Some(place) = all.find(|trace| trace.as_ref().is_some_and(is_it)) else { return };
        let Some(trace) = place else { return };
        match trace.phase {
            Phase::New if has_begun => trace.phase = Phase::GoesOn,
            Phase::Ended(_) if !has_begun && trace.is_deleted => *place = None,
            Phase::Ended(why) if !has_begun => trace.phase = Phase::Stopped(why),
            _ => {}
        }
    }

    /// Whether there is nothing to be asked of the shards.
    fn is_at_rest(&self) -> bool {
        self.traces.iter().flatten().all(|trace| matches!(trace.phase, Phase::Stopped(_)))
    }
}

#[cfg(test)]
mod tests;
