//! The highest rate a stack keeps up with: the ladder's search, with points as steps.
//!
//! A stack goes on from step to step as long as it catches up, so that what compiles while it runs
//! is warm; one that does not is started anew, and warmed up at half of what it has met.

use crate::catalog::Workflow;
use crate::record::{KneeFound, Point, StackUsed, Standing};
use crate::session::{Context, Session, Task};
use std::sync::atomic::Ordering;
use weir_bench::ladder::{Next, Search, Seen};

/// Highest rate that is tried, operations a second.
const RATE_PER_S_MAX: f64 = 5e6;

/// Lowest first step.
const FROM_PER_S_MIN: f64 = 200.0;

/// What a stack that was started anew is warmed up with, as a share of what it has met.
const WARM_UP_SHARE: f64 = 0.5;

/// Steps in a row that may break before the search is given up.
const BROKEN_MAX: u32 = 2;

/// A search under way.
pub(crate) struct Climb<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) task: Task<'a>,
    /// Where to begin, if something is known.
    pub(crate) from_per_s: f64,
    /// How long a stack that was started anew is warmed up, in seconds.
    pub(crate) warm_up_s: f64,
}

impl Climb<'_> {
    /// Climbs. Of rounds and positions the caller knows; `used` hears who the stack is.
    pub(crate) fn run(&self, used: &mut StackUsed) -> KneeFound {
        let Task { stack, workflow, qos, .. } = self.task;
        let from = self.from_per_s.clamp(FROM_PER_S_MIN, RATE_PER_S_MAX);
        let mut search = Search::new(from, RATE_PER_S_MAX, false);
        let mut found = KneeFound {
            stack: stack.name.clone(),
            workflow,
            qos,
            round: 0,
            rate_per_s: None,
            confirmed_per_s: None,
            per_core_s: None,
            ending: None,
            broken: None,
            steps: Vec::new(),
        };
        let (mut session, mut broken) = (None, 0);
        loop {
            let (rate_per_s, purpose) = match search.next() {
                Next::Run(rate_per_s, purpose) => (rate_per_s, purpose),
                Next::Done(knee) => {
                    found.rate_per_s = knee.met;
                    found.confirmed_per_s = knee.confirmed;
                    found.ending = Some(knee.ending);
                    break;
                }
            };
            let task = Task { rate_per_s, ..self.task };
            let warm_up = (search.met().unwrap_or(from) * WARM_UP_SHARE, self.warm_up_s);
            match step(self.context, &task, warm_up, &mut session, used) {
                Ok(mut point) => {
                    broken = 0;
                    point.purpose = Some(purpose);
                    let seen = seen(point.standing);
                    tracing::debug!(stack = %point.stack, rate_per_s, ?seen, "step");
                    if !point.is_idle() {
                        session = None;
                    }
                    found.steps.push(point);
                    search.seen(seen);
                }
                Err(error) => {
                    session = None;
                    broken += 1;
                    let is_interrupted = self.context.interrupted.load(Ordering::Relaxed);
                    if broken >= BROKEN_MAX || is_interrupted {
                        found.broken = Some(format!("{error:#}"));
                        break;
                    }
                    search.seen(Seen::Missed);
                    let point = task.broken(format!("{error:#}"));
                    found.steps.push(Point { purpose: Some(purpose), ..point });
                }
            }
        }
        found.per_core_s = at_knee(&found);
        found
    }
}

/// What a step shows.
const fn seen(standing: Standing) -> Seen {
    match standing {
        Standing::Kept => Seen::Met,
        Standing::ReplayLimit => Seen::GeneratorLimit,
        Standing::Overloaded | Standing::Wrong | Standing::Broken => Seen::Missed,
    }
}

/// The step's point; a session that can go on is kept.
fn step<'a>(
    context: &'a Context<'a>,
    task: &Task<'_>,
    warm_up: (f64, f64),
    kept: &mut Option<Session<'a>>,
    used: &mut StackUsed,
) -> anyhow::Result<Point> {
    let mut session = match kept.take() {
        Some(session) => session,
        None => {
            let (rate_per_s, warm_up_s) = warm_up;
            let session = Session::open_warm(context, task, rate_per_s, warm_up_s)?;
            used.note(&session.ready);
            session
        }
    };
    if !task.workflow.is_played() {
        return session.paced(task);
    }
    let point = session.played(task)?;
    *kept = Some(session);
    Ok(point)
}

/// The score of the highest step that met; of a stack that has no knee, nothing.
fn at_knee(found: &KneeFound) -> Option<f64> {
    let rate_per_s = found.rate_per_s?;
    let met = found.steps.iter().filter(|point| {
        point.standing == Standing::Kept && point.reasons.is_empty() && point.is_sound()
    });
    met.filter(|point| point.rate_per_s >= rate_per_s).find_map(Point::per_core_s)
}

/// A first step for a stack of which nothing is known.
pub(crate) const fn first_per_s(workflow: Workflow) -> f64 {
    match workflow {
        Workflow::Connect => 200.0,
        _ => 1_000.0,
    }
}
