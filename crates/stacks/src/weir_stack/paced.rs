//! What the workflows with a pace of their own share with the thread that reads the runner's lines.

use super::Obey;
use crate::catalog::Workflow;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_client::{Event, Sink};
use weir_reactor::{Io, Token, Waker};

/// Operations are begun this often, all that are due by then.
const TICK_US: u64 = 1_000;

/// How long what is open may take once the end was asked for.
pub(super) const STOP_MAX_US: u64 = 2_000_000;

/// Longest wait for the answer to CONNECT or to a PINGREQ.
pub(super) const ANSWER_MAX_US: u64 = 20_000_000;

/// Seconds.
pub(super) const KEEP_ALIVE_S: u16 = 60;

/// Whether to go on, and how much has been done.
#[derive(Debug)]
pub(super) struct Pace {
    workflow: Workflow,
    start: AtomicBool,
    stop: AtomicBool,
    pub(super) waker: Waker,
    /// Messages or connections.
    done: AtomicU64,
    failed: AtomicU64,
}

impl Pace {
    pub(super) fn new(workflow: Workflow) -> io::Result<Self> {
        Ok(Self {
            workflow,
            start: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waker: Waker::new()?,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    pub(super) fn is_running(&self) -> bool {
        self.start.load(Ordering::Acquire) && !self.is_stopping()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn add_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Obey for Pace {
    fn start(&self) {
        self.start.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn counts_line(&self) -> String {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (done, failed) = (of(&self.done), of(&self.failed));
        match self.workflow {
            Workflow::Connect => format!("counts connects={done}"),
            _ => format!("counts received=0 matched=0 published={done} failed={failed}"),
        }
    }
}

/// How many operations at `per_s` are due since `begun_us`.
pub(super) fn due(begun_us: u64, now_us: u64, per_s: f64) -> u64 {
    ((now_us - begun_us) as f64 / 1e6 * per_s) as u64
}

/// When the operation behind `done` others is begun.
pub(super) fn next_due_us(begun_us: u64, done: u64, per_s: f64) -> u64 {
    let due_us = begun_us + ((done + 1) as f64 / per_s * 1e6) as u64;
    due_us.div_ceil(TICK_US) * TICK_US
}

/// The way out of a connection.
pub(super) struct Port<'a> {
    pub(super) io: &'a mut Io,
    pub(super) token: Token,
}

impl Sink for Port<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.io.write(self.token, bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}
