//! One life of the broker, from a start to the crash that ends it, as all clients see it.

use crate::link::Place;
use std::io::{self, ErrorKind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How long a client waits for a packet before it looks whether anything else is to be done.
pub(crate) const WAIT: Duration = Duration::from_millis(100);

/// How often a client comes back in one life, if the broker ends its connection without a crash.
const RETURNS_MAX: u32 = 20;

/// How long a client waits in one life for a broker that says it is not ready.
const READY_MAX: Duration = Duration::from_secs(60);

/// What the clients of a life share.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) place: Place,
    /// Whether the load ends in this life, and the broker is not crashed any more.
    pub(crate) is_last: bool,
    /// Messages that each publisher may publish per second.
    pub(crate) rate: Option<f64>,
    /// How long it stays silent at the end before what has not come is lost.
    pub(crate) silence: Duration,
    /// So many messages are to be acknowledged, over all lives.
    pub(crate) goal: u64,
    acknowledged: AtomicU64,
    /// Told when the goal is reached.
    reached: Sender<()>,
    is_down: AtomicBool,
    /// How many messages each subscriber has to get, once nobody publishes any more.
    owed: OnceLock<u64>,
}

impl Life {
    pub(crate) fn new(place: Place, goal: u64, acknowledged: u64, reached: Sender<()>) -> Self {
        Self {
            place,
            is_last: false,
            rate: None,
            silence: Duration::ZERO,
            goal,
            acknowledged: AtomicU64::new(acknowledged),
            reached,
            is_down: AtomicBool::new(false),
            owed: OnceLock::new(),
        }
    }

    /// Counts a message that was acknowledged.
    pub(crate) fn count(&self) {
        if self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1 == self.goal {
            // Nobody waits any longer where the life has ended otherwise.
            let _ = self.reached.send(());
        }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether publishers are to come to an end.
    pub(crate) fn is_enough(&self) -> bool {
        self.is_last && self.acknowledged() >= self.goal
    }

    /// The broker is about to crash, or nobody wants to know any more.
    pub(crate) fn end(&self) {
        self.is_down.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::SeqCst)
    }

    /// All publishers are done.
    pub(crate) fn owe(&self, messages: u64) {
        // It is set once, by the only thread that knows.
        let _ = self.owed.set(messages);
    }

    /// How many messages a subscriber has to get, as soon as that is known.
    pub(crate) fn owed(&self) -> Option<u64> {
        self.owed.get().copied()
    }

    /// Runs a client's connections until one ends as it should, or the broker is down. Counts those
    /// that ended otherwise in `dropped`.
    pub(crate) fn keep_on(
        &self,
        client_id: &str,
        dropped: &mut u64,
        mut connection: impl FnMut() -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let (began, mut returns) = (Instant::now(), 0);
        loop {
            let Err(error) = connection() else { return Ok(()) };
            if self.is_down() {
                return Ok(());
            }
            let is_ready = error.kind() != ErrorKind::ResourceBusy;
            *dropped += u64::from(is_ready);
            returns += u32::from(is_ready);
            if returns > RETURNS_MAX || began.elapsed() > READY_MAX && !is_ready {
                return Err(
                    anyhow::Error::new(error).context(format!("{client_id} cannot stay connected"))
                );
            }
            std::thread::sleep(WAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life() -> Life {
        let target = ([127, 0, 0, 1], 1).into();
        let (version, login) = (weir_wire::Version::V5, Default::default());
        let (reach_max, answer_max) = (WAIT, WAIT);
        let place = Place { target, version, login, reach_max, answer_max };
        Life::new(place, 1, 0, std::sync::mpsc::channel().0)
    }

    #[test]
    fn a_broker_that_is_not_ready_has_dropped_nobody() {
        let (mut dropped, mut tries) = (0, 0);
        let connection = || {
            tries += 1;
            let kind = if tries == 2 { ErrorKind::BrokenPipe } else { ErrorKind::ResourceBusy };
            if tries < 4 { Err(kind.into()) } else { Ok(()) }
        };
        life().keep_on("c", &mut dropped, connection).unwrap();
        assert_eq!((dropped, tries), (1, 4));
    }
}
