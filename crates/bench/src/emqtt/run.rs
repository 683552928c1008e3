//! The run: the plan on a thread of its own, lines as its seconds end, the summary behind.

use super::lines::{Lines, Told};
use super::options::{Common, EmqttError, Options, Work};
use super::summary;
use crate::doctor::{self, Demand};
use crate::driver;
use crate::interrupt::Interrupted;
use anyhow::bail;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use weir_load::{Interval, Stop};
use weir_say::noteln;

/// How soon a wish to stop is heard.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs until the limit is reached or the user asks to stop, and says to `out` what happens. The
/// first wish to stop ends publishing and waits for what is owed, the second does not wait.
/// Returns the exit code.
///
/// # Errors
/// Options that cannot be run, or a generator that cannot. What the broker does wrong is told in
/// the summary.
pub fn run(
    options: &Options,
    interrupted: &Interrupted,
    out: &mut impl Write,
) -> anyhow::Result<u8> {
    let target = target(&options.common)?;
    let run = (std::process::id() ^ jiff::Timestamp::now().as_second() as u32) as u16;
    let planned = options.plan(target, run)?;
    let plan = planned.plan;
    let connections = plan.groups.iter().map(|group| u64::from(group.clients)).sum();
    let holds = weir_load::connections_max();
    if connections > holds {
        bail!(
            "{connections} connections are more than this process can hold, {holds}: raise its \
             open files (`weir bench doctor` says how)"
        );
    }
    for note in planned.notes {
        noteln!("note: {note}");
    }
    let demand = Demand { connections, connect_rate_per_s: plan.connect.rate_per_s };
    doctor::warn(&demand);
    let (sender, intervals) = channel::<Interval>();
    let stop = Stop::default();
    let outcome = std::thread::scope(|scope| {
        let (plan, load_stop) = (&plan, stop.clone());
        let load = scope.spawn(move || {
            weir_load::run(plan, &load_stop, &mut |interval| {
                // A viewer that is gone need not hear of intervals.
                let _ = sender.send(*interval);
            })
        });
        watch(&intervals, Lines::new(told(options)), interrupted, &stop, out);
        load.join()
    });
    let Ok(outcome) = outcome else { bail!("the load generator broke down; please report this") };
    let outcome = outcome?;
    let verdict = summary::verdict(&outcome);
    // Nobody may be left to read it; the exit code says enough.
    let _ = out.write_all(summary::render(options, &plan, &outcome, &verdict).as_bytes());
    Ok(summary::exit_code(&verdict))
}

/// Until the load ends.
fn watch(
    intervals: &Receiver<Interval>,
    mut lines: Lines,
    interrupted: &Interrupted,
    stop: &Stop,
    out: &mut impl Write,
) {
    let mut is_asked = false;
    loop {
        match intervals.recv_timeout(LOOK_EVERY) {
            Ok(interval) => {
                let text = lines.of(&interval);
                if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
                    // Nobody reads on, as behind `| head`.
                    stop.stop();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if interrupted.swap(false, Ordering::Relaxed) {
            match std::mem::replace(&mut is_asked, true) {
                false => stop.finish(),
                true => stop.stop(),
            }
        }
    }
}

fn told(options: &Options) -> Told {
    match &options.work {
        Work::Connect => Told { connects: true, ..Told::default() },
        Work::Subscribe { .. } => Told { receives: true, ..Told::default() },
        Work::Publish { qos, audience, .. } => Told {
            publishes: true,
            acknowledges: *qos > 0,
            receives: audience.is_some(),
            ..Told::default()
        },
    }
}

/// The broker's address.
fn target(common: &Common) -> Result<SocketAddr, EmqttError> {
    if common.url.host.contains(',') {
        return Err(common.host("one host only; run one `weir bench` for each"));
    }
    driver::target(&common.url.host, common.url.port()).map_err(|why| common.host(why))
}
