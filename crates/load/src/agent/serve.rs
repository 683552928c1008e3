//! The agent itself: hears, runs its slice, speaks.

use super::line::{Hello, Order, PROTOCOL, Said, TickLine, When, outcome_lines, read_line, shown};
use crate::baton::Baton;
use crate::engine::{Tick, run_slice};
use crate::plan::Plan;
use crate::{LoadError, Stop};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_reactor::now_us;

/// How often an agent says that it is there.
const BEAT_EVERY: Duration = Duration::from_millis(200);

/// Lines that may wait to be written; whoever reads so slowly does not lead.
const LINES_MAX: usize = 256;

/// An agent that was stopped has so long to tell what it saw.
const STOPPED_MAX: Duration = Duration::from_secs(60);
const ALONE_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What is shared by the threads of an agent.
#[derive(Debug, Default)]
struct Shared {
    stop: Stop,
    /// The input has ended: nobody waits for what is left to say.
    is_alone: AtomicBool,
    /// Since the plan came.
    baton: Mutex<Option<Arc<Baton>>>,
}

impl Shared {
    fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    fn baton(&self) -> Option<Arc<Baton>> {
        self.baton.lock().ok()?.clone()
    }
}

/// Runs an agent until its plan is done or its input ends. `version` is that of the program.
///
/// # Errors
/// A line that is not of the protocol, another version of it, or a plan that cannot be run; the
/// one who leads has been told, too.
pub fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    version: &str,
) -> Result<(), LoadError> {
    let shared = Arc::new(Shared::default());
    let (says, lines) = sync_channel(LINES_MAX);
    let (sends, plans) = sync_channel(1);
    let of_speaker = Arc::clone(&shared);
    let (ends, spoken) = sync_channel::<()>(0);
    std::thread::spawn(move || {
        speak(output, &lines, &of_speaker);
        drop(ends);
    });
    let of_hearer = Arc::clone(&shared);
    // It reads until the input ends, which may be after everything else.
    std::thread::spawn(move || hear(input, &sends, &of_hearer));
    let mut result = say(&says, Said::Hello(hello(version)));
    if result.is_ok() {
        result = match plans.recv() {
            Ok(Ok((plan, baton))) => run_to_end(plan, baton, &shared, &says),
            Ok(Err(why)) => Err(LoadError::Protocol(why)),
            // The input ended before there was a plan.
            Err(_) => Ok(()),
        };
    }
    if let Err(error) = &result {
        // Whoever led may be gone, and this the reason.
        let _ = says.try_send(Said::Failed { why: error.to_string() });
    }
    drop(says);
    // What is being written is waited for, unless nobody reads it.
    let is_written = || spoken.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout);
    while !is_written() && !shared.is_alone() {}
    result
}

fn say(says: &SyncSender<Said>, said: Said) -> Result<(), LoadError> {
    let gone = |_| LoadError::Protocol("nobody listens any more".into());
    says.send(said).map_err(gone)
}

/// Runs the plan on a thread of its own, so that nothing in it can keep an agent that was stopped.
fn run_to_end(
    plan: Box<Plan>,
    baton: Arc<Baton>,
    shared: &Shared,
    says: &SyncSender<Said>,
) -> Result<(), LoadError> {
    let (ends, ended) = sync_channel(1);
    let (of_engine, says) = (shared.stop.clone(), says.clone());
    std::thread::spawn(move || {
        // There is room, and if nobody waits any more, nobody needs it.
        let _ = ends.try_send(run(&plan, &baton, &of_engine, &says));
    });
    let mut stopped = Duration::ZERO;
    while stopped < if shared.is_alone() { ALONE_MAX } else { STOPPED_MAX } {
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if shared.stop.is_stopped() => stopped += LOOK_EVERY,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(LoadError::Protocol("the load generator broke down; please report this".into()))
}

fn run(plan: &Plan, baton: &Baton, stop: &Stop, says: &SyncSender<Said>) -> Result<(), LoadError> {
    let mut number = 0;
    let mut on_tick = |tick: &Tick<'_>| {
        let line = TickLine {
            number,
            interval: *tick.interval,
            sketches: TickLine::texts(tick.sketches.as_ref()),
            owed: tick.owed,
            delivered: tick.delivered,
        };
        number += 1;
        // The engine does not wait for who reads.
        if says.try_send(Said::Tick(Box::new(line))).is_err() {
            stop.stop();
        }
    };
    let mut on_planned = |clients| {
        // If nobody listens, the input has ended, too, which stops the run.
        let _ = say(says, Said::Planned { clients });
    };
    let outcome = run_slice(plan, baton, stop, &mut on_planned, &mut on_tick)?;
    for line in outcome_lines(outcome) {
        say(says, line)?;
    }
    Ok(())
}

/// Writes what is said, up to the last line, and a beat every 200 ms.
fn speak(mut output: impl Write, lines: &Receiver<Said>, shared: &Shared) {
    let mut beat_at = Instant::now() + BEAT_EVERY;
    loop {
        let wait = beat_at.saturating_duration_since(Instant::now());
        let said = match lines.recv_timeout(wait) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let is_last = matches!(said, Some(Said::Outcome(_) | Said::Failed { .. }));
        let mut is_written = said.is_none_or(|said| write(&mut output, &said));
        if is_last {
            return;
        }
        if Instant::now() >= beat_at {
            beat_at = Instant::now() + BEAT_EVERY;
            let status = shared.baton().map(|baton| baton.status()).unwrap_or_default();
            is_written = is_written && write(&mut output, &Said::Beat(status));
        }
        if !is_written {
            return shared.stop.stop();
        }
    }
}

fn write(output: &mut impl Write, said: &Said) -> bool {
    let Ok(mut line) = serde_json::to_vec(said) else { return false };
    line.push(b'\n');
    output.write_all(&line).and_then(|()| output.flush()).is_ok()
}

type Planned = Result<(Box<Plan>, Arc<Baton>), String>;

/// Reads orders until the input ends, which ends the run.
fn hear(mut input: impl BufRead, sends: &SyncSender<Planned>, shared: &Shared) {
    loop {
        let line = match read_line(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => {
                shared.is_alone.store(true, Ordering::Relaxed);
                return shared.stop.stop();
            }
            Err(error) => {
                let _ = sends.try_send(Err(format!("cannot read orders: {error}")));
                return shared.stop.stop();
            }
        };
        if let Err(why) = obey(&line, sends, shared) {
            tracing::error!("{why}");
            // Nobody waits for a plan once there was one; then the run is stopped, and that is all.
            let _ = sends.try_send(Err(why));
            return shared.stop.stop();
        }
    }
}

fn obey(line: &[u8], sends: &SyncSender<Planned>, shared: &Shared) -> Result<(), String> {
    let order: Order = serde_json::from_slice(line)
        .map_err(|error| format!("this is not an order to an agent: {} ({error})", shown(line)))?;
    let at = |when: When| when.at_us.unwrap_or_else(|| now_us() + when.in_us).max(1);
    let baton = shared.baton();
    match (order, baton) {
        (Order::Stop {}, _) => shared.stop.stop(),
        (Order::Plan { protocol, .. }, _) if protocol != PROTOCOL => {
            return Err(format!(
                "the orders are of version {protocol} of the agents' protocol, this weir speaks \
                 version {PROTOCOL}: use the same weir on both sides"
            ));
        }
        (Order::Plan { .. }, Some(_)) => return Err("a second plan".into()),
        (Order::Plan { plan, unclocked, .. }, None) => {
            let baton = Arc::new(Baton::new(unclocked));
            if let Ok(mut known) = shared.baton.lock() {
                *known = Some(Arc::clone(&baton));
            }
            // There is room: it is the first.
            let _ = sends.try_send(Ok((plan, baton)));
        }
        (Order::Begin(when), Some(baton)) => baton.begin(at(when)),
        (Order::Go(when), Some(baton)) => baton.go(at(when)),
        (Order::Settle {}, Some(baton)) => baton.settle(),
        (Order::Begin(_) | Order::Go(_) | Order::Settle {}, None) => {
            return Err("an order before there is a plan".into());
        }
    }
    Ok(())
}

/// Who this process is.
pub(super) fn hello(version: &str) -> Hello {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Hello {
        protocol: PROTOCOL,
        version: version.into(),
        host: read("/proc/sys/kernel/hostname"),
        pid: std::process::id(),
        clock: clock_id(),
        now_us: now_us(),
        open_files_max: limit.current.unwrap_or(u64::MAX),
        cores: std::thread::available_parallelism().map_or(1, usize::from) as u32,
    }
}

/// The boot of the kernel, and the time namespace: who has the same reads the same
/// CLOCK_MONOTONIC. Where one is not known, nothing is shared.
fn clock_id() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = match boot.trim() {
        "" => format!("unknown {} {}", std::process::id(), now_us()),
        boot => boot.to_owned(),
    };
    // A kernel without time namespaces has one time.
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{boot} {}", namespace.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve_text(orders: &'static str) -> (Result<(), LoadError>, Vec<String>) {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let result = serve(orders.as_bytes(), writer, "test");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut reader, &mut said).unwrap();
        (result, said.lines().map(str::to_owned).collect())
    }

    #[test]
    fn an_agent_whose_input_ends_says_hello_and_ends() {
        let (result, said) = serve_text("");
        assert!(result.is_ok());
        let hello = format!("{{\"hello\":{{\"protocol\":{PROTOCOL},");
        assert!(said[0].starts_with(&hello), "{said:?}");
    }

    #[test]
    fn what_is_not_of_the_protocol_is_told_to_both_sides() {
        for (orders, part) in [
            ("ls -l\n", "not an order to an agent: \\\"ls -l\\\""),
            ("{\"go\":{\"at_us\":1,\"in_us\":0}}\n", "before there is a plan"),
            ("{\"stop\":{},\"go\":1}\n", "not an order"),
        ] {
            let (result, said) = serve_text(orders);
            let last = said.last().unwrap();
            assert!(last.starts_with("{\"failed\"") && last.contains(part), "{last}");
            let error = result.unwrap_err().to_string();
            assert!(error.contains(&part.replace('\\', "")), "{error}");
        }
    }
}
