//! A thread of the broker: one shard on one reactor, from start to stop.

use crate::handover::HandoverTimes;
use crate::listener::Listener;
use crate::patience::Patience;
use crate::reload::ForShard;
use crate::shell::Shell;
use crate::stopper::Asked;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use weir_core::{Awaited, ShardId};
use weir_reactor::{Backend, Reactor, Waker};

/// How long connections get to take their last bytes when the broker stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The same when they stop because another shard has ended.
const STOP_BROKEN_MAX: Duration = Duration::from_millis(500);

/// How long those get to say CONNECT that came in when the broker was about to stop.
const GREET_MAX: Duration = Duration::from_millis(250);

/// How long a slow disk gets for what was recorded before the end.
const WRITE_OUT_MAX: Duration = Duration::from_secs(30);

/// How long a turn waits while letters wait for a place in a ring.
const POST_AGAIN: Duration = Duration::from_millis(1);

/// How often a shard that can end looks whether all others can.
const AGREE_AGAIN: Duration = Duration::from_millis(10);

/// Why a thread cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("{0}")]
    Loop(#[from] std::io::Error),
    #[error("its log cannot be written: {0}")]
    Disk(std::io::Error),
}

/// What a thread takes along; its reactor is made there.
pub(crate) struct Worker {
    shell: Shell,
    listeners: Vec<Listener>,
    waker: Waker,
    io: Backend,
    asked: Arc<Asked>,
    reloads: Receiver<ForShard>,
    patience: Patience,
    /// How long it waits at its end, if it does.
    handover: Option<HandoverTimes>,
    /// Which question of the watchdog's it has answered last.
    turns: u64,
}

impl Worker {
    pub(crate) fn new(
        shell: Shell,
        listeners: Vec<Listener>,
        (waker, io): (Waker, Backend),
        (asked, reloads): (Arc<Asked>, Receiver<ForShard>),
        (patience, handover): (Patience, Option<HandoverTimes>),
    ) -> Self {
        Self { shell, listeners, waker, io, asked, reloads, patience, handover, turns: 0 }
    }

    pub(crate) fn own(&self) -> ShardId {
        self.shell.own()
    }

    /// Serves until it is asked to stop.
    pub(crate) fn run(mut self) -> Result<(), Ended> {
        let mut reactor = Reactor::with_backend(self.waker.clone(), self.io)?;
        self.patience.apply(reactor.io());
        self.shell.begin(reactor.io());
        self.asked.listening.fetch_add(1, Ordering::AcqRel);
        let mut counters = 0;
        while !self.asked.stop.load(Ordering::Acquire) {
            self.asked.say_turned(&mut self.turns);
            if !self.listeners.is_empty() && self.asked.is_open() {
                self.listen(&mut reactor)?;
            }
            let asked = self.asked.counters.load(Ordering::Acquire);
            if asked != counters {
                counters = asked;
                self.shell.log_counters(reactor.io());
            }
            while let Ok(reload) = self.reloads.try_recv() {
                self.take_up(reload, &mut reactor);
            }
            let timeout = self.timeout();
            self.turn(timeout, &mut reactor)?;
        }
        self.finish(reactor)
    }

    fn turn(&mut self, timeout: Option<Duration>, reactor: &mut Reactor) -> Result<(), Ended> {
        reactor.turn(timeout, &mut self.shell)?;
        self.shell.turned(reactor.io());
        // Nothing that waits for the disk may leave.
        self.shell.take_failure().map_or(Ok(()), |error| Err(Ended::Disk(error)))
    }

    fn listen(&mut self, reactor: &mut Reactor) -> Result<(), Ended> {
        for listener in std::mem::take(&mut self.listeners) {
            reactor.listen(listener.id, listener.socket, listener.transport)?;
        }
        Ok(())
    }

    /// Goes by a configuration that was read again.
    fn take_up(&mut self, reload: ForShard, reactor: &mut Reactor) {
        let ForShard { all, listeners, flow, hasher, access, control, joints, done: _done } =
            reload;
        if let Some(settings) = &all.settings {
            for (id, transport) in &settings.transports {
                reactor.set_transport(*id, transport);
            }
            settings.removed.iter().for_each(|&id| reactor.stop(id));
            settings.patience.apply(reactor.io());
        }
        self.shell.take_up(flow, hasher, access, control, joints);
        self.shell.reload(all, reactor.io());
        // Who comes by them goes by all the rest.
        for listener in listeners {
            let Listener { id, socket, transport, .. } = listener;
            if let Err(error) = reactor.listen(id, socket, transport) {
                tracing::error!(%error, "a thread cannot accept connections of a new listener");
            }
        }
    }

    /// How long the next turn may wait; `None` is for ever.
    fn timeout(&self) -> Option<Duration> {
        if self.shell.has_letters || !self.shell.mailbox.fall_asleep() {
            return Some(Duration::ZERO);
        }
        let due = self.shell.poll_timeout();
        let due =
            due.map(|due| Duration::from_micros(due.0.saturating_sub(weir_reactor::now_us())));
        let again = (!self.shell.is_posted).then_some(POST_AGAIN);
        match (due, again) {
            (Some(due), Some(again)) => Some(due.min(again)),
            (due, again) => due.or(again),
        }
    }

    /// What was recorded up to the end goes to the disk.
    fn write_out(&mut self, reactor: &mut Reactor) -> Result<(), Ended> {
        let deadline = Instant::now() + WRITE_OUT_MAX;
        while !self.shell.is_at_rest() && Instant::now() < deadline {
            reactor.turn(Some(POST_AGAIN), &mut self.shell)?;
            if let Some(error) = self.shell.take_failure() {
                return Err(Ended::Disk(error));
            }
        }
        Ok(())
    }

    /// Answers who has come in and not said CONNECT yet: where somebody else keeps the address, the
    /// next broker will serve them, and they had better hear of it by a DISCONNECT. No thread ends
    /// its clients before all have stopped to accept others.
    fn greet_the_last(&mut self, reactor: &mut Reactor) -> Result<(), Ended> {
        let deadline = Instant::now() + GREET_MAX;
        let is_done = |worker: &Self| {
            let listening = worker.asked.listening.load(Ordering::Acquire);
            listening == 0 && !worker.shell.shard.awaits_connects()
        };
        while !is_done(self) && Instant::now() < deadline {
            reactor.turn(Some(POST_AGAIN), &mut self.shell)?;
        }
        Ok(())
    }

    /// Stays until clients have come to other nodes, and their sessions have gone after them.
    fn hand_over(&mut self, times: HandoverTimes, reactor: &mut Reactor) -> Result<(), Ended> {
        self.shell.close(reactor.io());
        let (own, before) = (self.own().0, self.shell.shard.stats().sessions_given);
        if own == 0 {
            let (next, all) = (times.next, times.all());
            tracing::info!(?next, ?all, "waiting for clients to come to other nodes");
        }
        let (mut is_ready, until) = (false, Instant::now() + times.all());
        let shards = self.shell.shards();
        while !self.asked.handover.say(&mut is_ready, self.can_end(times), shards) {
            if Instant::now() >= until {
                self.asked.handover.end();
            }
            self.asked.say_turned(&mut self.turns);
            let timeout = self.timeout().map_or(AGREE_AGAIN, |timeout| timeout.min(AGREE_AGAIN));
            self.turn(Some(timeout), reactor)?;
        }
        let stats = self.shell.shard.stats();
        let (given, left) = (stats.sessions_given - before, stats.sessions);
        tracing::info!(shard = own, given, left, "sessions have gone after their clients");
        Ok(())
    }

    /// Whether nothing of this shard is waited for.
    fn can_end(&self, times: HandoverTimes) -> bool {
        match self.shell.shard.awaited() {
            Awaited::Nothing => true,
            Awaited::Move => false,
            Awaited::Claim(last) => {
                let waited_us = weir_reactor::now_us().saturating_sub(last.0);
                Duration::from_micros(waited_us) >= times.next
            }
        }
    }

    /// Tells every client and waits a little for the last bytes to leave.
    fn finish(mut self, mut reactor: Reactor) -> Result<(), Ended> {
        reactor.stop_listening();
        self.asked.listening.fetch_sub(1, Ordering::AcqRel);
        let is_broken = self.asked.is_broken.load(Ordering::Acquire);
        if !is_broken {
            self.greet_the_last(&mut reactor)?;
        }
        self.shell.stop(reactor.io());
        if let Some(times) = self.handover.filter(|_| !self.asked.handover.is_over()) {
            self.hand_over(times, &mut reactor)?;
            // Who was on the way from another shard.
            self.shell.stop(reactor.io());
        }
        let deadline = Instant::now() + if is_broken { STOP_BROKEN_MAX } else { STOP_MAX };
        while reactor.io().connections() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            reactor.turn(Some(left), &mut self.shell)?;
        }
        self.write_out(&mut reactor)?;
        self.shell.log_counters(reactor.io());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
