//! Systemd's watchdog (`WatchdogSec`): it is told that the broker lives only if every shard has
//! turned since it was told last. It ends a broker that does not tell it in time.

use super::ready;
use crate::stopper::{Asked, Stopper};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often within its time the watchdog is told. Systemd recommends two at least.
const TELLS: u32 = 4;

/// Asks all shards for a turn.
struct Watchdog {
    asked: Arc<Asked>,
    stopper: Stopper,
    shards: u64,
}

/// Tells the watchdog from a thread of its own, where systemd has set one for this process.
///
/// # Errors
/// What the system says of a thread.
pub(super) fn start(asked: Arc<Asked>, stopper: Stopper, shards: u16) -> io::Result<()> {
    let variable = |name| std::env::var(name).ok();
    let Some(time) = time(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID")) else {
        return Ok(());
    };
    let watchdog = Watchdog { asked, stopper, shards: shards.into() };
    let run = move || {
        // The end has bounds of its own.
        while watchdog.asked.is_turning() {
            if watchdog.have_all_turned() {
                ready::tell("WATCHDOG=1");
                watchdog.ask();
            }
            std::thread::sleep(time / TELLS);
        }
    };
    std::thread::Builder::new().name("watchdog".into()).spawn(run).map(drop)
}

/// The watchdog's time, by the variables that systemd sets; none if it is not for this process.
fn time(usec: Option<String>, pid: Option<String>) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
    let usec = usec.filter(|_| is_ours)?.parse().ok()?;
    (usec > 0).then(|| Duration::from_micros(usec))
}

impl Watchdog {
    /// Whether each shard has turned since [`Watchdog::ask`], or was not asked yet.
    fn have_all_turned(&self) -> bool {
        let is_asked = self.asked.turns.load(Ordering::Acquire) > 0;
        !is_asked || self.asked.turned.load(Ordering::Acquire) == self.shards
    }

    /// Has each shard say that it turns: one that sleeps is woken for it.
    fn ask(&self) {
        self.asked.turned.store(0, Ordering::Release);
        self.asked.turns.fetch_add(1, Ordering::AcqRel);
        self.stopper.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_does_not_turn_holds_the_watchdog_back() {
        let asked = Arc::<Asked>::default();
        let stopper = Stopper::new(Arc::clone(&asked), Vec::new());
        let watchdog = Watchdog { asked: Arc::clone(&asked), stopper, shards: 2 };
        let (mut first, mut second) = (0, 0);
        assert!(watchdog.have_all_turned(), "nobody was asked");
        for _ in 0..3 {
            watchdog.ask();
            assert!(!watchdog.have_all_turned());
            // However often one turns, it does not count for the other.
            for _ in 0..3 {
                asked.say_turned(&mut first);
                assert!(!watchdog.have_all_turned());
            }
            asked.say_turned(&mut second);
            assert!(watchdog.have_all_turned());
        }
    }

    #[test]
    fn the_time_is_of_this_process_alone() {
        let some = |text: &str| Some(text.to_owned());
        let own = std::process::id();
        assert_eq!(time(some("2000000"), None), Some(Duration::from_secs(2)));
        assert_eq!(time(some("2000000"), some(&own.to_string())), Some(Duration::from_secs(2)));
        assert_eq!(time(some("2000000"), some(&(own + 1).to_string())), None);
        assert_eq!(time(some("0"), None), None);
        assert_eq!(time(some("soon"), None), None);
        assert_eq!(time(None, None), None);
    }
}
