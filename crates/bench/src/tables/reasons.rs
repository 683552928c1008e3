//! Why runs have the verdict that they have.

use super::{status, who};
use crate::lines::{prose, wrap};
use crate::result::{RunResult, Status};

/// Runs of which a host that was not quiet is told one by one; of more it is told once.
const DISTURBED_MAX: usize = 2;

/// What there is to say of each run, and once for all what took the host from them.
pub(super) fn told(text: &mut String, runs: &[&RunResult]) {
    let disturbed: Vec<&&RunResult> = runs.iter().filter(|run| is_disturbed(run)).collect();
    let is_once = disturbed.len() > DISTURBED_MAX;
    for run in runs {
        let is_told = |reason: &&String| !is_once || !run.host.disturbance.reasons.contains(reason);
        of_run(text, run, &run.verdict.reasons.iter().filter(is_told).collect::<Vec<_>>());
    }
    if is_once {
        let most = |of: fn(&RunResult) -> Option<f64>| {
            disturbed.iter().filter_map(|run| of(run)).fold(0.0, f64::max)
        };
        let others = most(|run| run.host.disturbance.others_cores);
        let stolen = most(|run| run.host.disturbance.steal_cores);
        prose(
            text,
            &format!(
                "the host was not quiet in {} of {} runs: other programs took up to {others:.2} \
                 processors, the hypervisor up to {stolen:.2}; CPU, rate and latency may be theirs",
                disturbed.len(),
                runs.len()
            ),
        );
    }
}

fn is_disturbed(run: &RunResult) -> bool {
    run.has_figures() && !run.host.disturbance.reasons.is_empty()
}

/// One reason on the line of the verdict, several below it. A run that passed has only what makes
/// its figures doubtful.
fn of_run(text: &mut String, run: &RunResult, reasons: &[&String]) {
    let but = if run.verdict.status == Status::Passed { ", but" } else { "" };
    let verdict = format!("{} {}{but}", who(run), status(run));
    match reasons {
        [] => {}
        [one] if but.is_empty() => prose(text, &format!("{verdict}: {one}")),
        [one] => prose(text, &format!("{verdict} {one}")),
        all => {
            prose(text, &format!("{verdict}:"));
            for reason in all {
                wrap(text, "  - ", "    ", reason);
            }
        }
    }
}
