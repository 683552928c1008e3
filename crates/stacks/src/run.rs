//! All stacks in turn: rounds in an order by seed, so that none has the good minutes for itself.

use crate::catalog::{Stack, Workflow};
use crate::knee::{Climb, first_per_s};
use crate::record::{Clients, KneeFound, Point, SCHEMA, Settings};
use crate::record::{StackUsed, Standing};
use crate::session::{Context, Length, Session, Task};
use crate::{page, table};
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_bench::host::{self, Pinning};
use weir_bench::interrupt::Interrupted;
use weir_bench::repeat::order;
use weir_bench::result::Suite;
use weir_bench::{folder, numbers};
use weir_say::noteln;

/// Wait for what is owed after the last message at a fixed rate: of an overloaded stack there is
/// much.
const DRAIN_S: f64 = 10.0;

/// The same of a step of a ladder: more would not be met anyway.
const STEP_DRAIN_S: f64 = 2.0;

/// Warm-up of a step of a ladder, unless the step is shorter.
const STEP_WARM_UP_S: f64 = 1.0;

/// Where a ladder begins, as a share of what the last point at a fixed rate promises.
const FROM_SHARE: f64 = 0.5;

/// What is to be run, and how.
#[derive(Clone, Debug)]
pub struct ClientsOptions {
    /// The stacks; missing ones are noted and left out.
    pub stacks: Vec<Stack>,
    /// How; pinning and base are filled in.
    pub settings: Settings,
    /// Whether stack and replay server get a processor each.
    pub is_pinned: bool,
    /// Folder that gets a folder.
    pub out: PathBuf,
    /// This program: replay server and guard.
    pub weir: PathBuf,
    /// Version of Weir.
    pub version: String,
    /// Its commit.
    pub commit: String,
    /// The command line.
    pub command: Vec<String>,
}

/// What is run on each stack in each round.
#[derive(Clone, Copy)]
struct Cell {
    workflow: Workflow,
    qos: u8,
    /// Nothing: the knee.
    rate_per_s: Option<f64>,
}

/// Runs everything; `clients.json`, `clients.md` and `clients.html` are in the folder that is
/// returned. What was run until an interruption is kept.
///
/// # Errors
/// A folder that cannot be made or written. What goes wrong with a stack is in the results.
pub fn run(
    options: &ClientsOptions,
    interrupted: &Interrupted,
) -> anyhow::Result<(Clients, PathBuf)> {
    let pinning = Pinning::plan(options.is_pinned);
    let text = match (pinning.broker_core, pinning.load_core) {
        (Some(stack), Some(replay)) => {
            format!("stack on core {stack}, replay server and runner on core {replay}")
        }
        _ => pinning.text.clone(),
    };
    let kept = folder::create(&options.out, "clients", &name_of(options))?;
    let logs = kept.join("logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let mut clients = begin(options, &text);
    noteln!("{text}");
    // The replay server and the monitor are where this thread is.
    if let Some(core) = pinning.load_core {
        host::pin_this_thread(core);
    }
    let context = Context {
        weir: &options.weir,
        core: pinning.broker_core,
        interrupted,
        per_segment: options.settings.per_segment,
        window: options.settings.window,
        p99_us_max: (options.settings.p99_max_ms * 1e3) as u64,
        patience: Duration::from_secs_f64(options.settings.patience_s),
    };
    let mut runner = Runner { options, context: &context, logs: &logs, clients: &mut clients };
    runner.run_all(&kept)?;
    clients.suite.ended = Suite::time(jiff::Timestamp::now());
    remove_empty(&logs);
    keep(&kept, &clients)?;
    Ok((clients, kept))
}

/// Reads `clients.json` of a folder.
///
/// # Errors
/// No such file, not one of ours, or of a newer schema.
pub fn read(folder: &Path) -> anyhow::Result<Clients> {
    let path = folder.join("clients.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{} holds no results of client stacks", folder.display()))?;
    let clients: Clients = serde_json::from_str(&text)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    anyhow::ensure!(
        clients.schema <= SCHEMA,
        "{} has schema {}, newer than {SCHEMA}",
        path.display(),
        clients.schema
    );
    Ok(clients)
}

fn keep(kept: &Path, clients: &Clients) -> anyhow::Result<()> {
    folder::write(kept, "clients.json", &(serde_json::to_string_pretty(clients)? + "\n"))?;
    folder::write(kept, "clients.md", &table::render(clients))?;
    folder::write(kept, "clients.html", &page::html(clients)?)
}

fn name_of(options: &ClientsOptions) -> String {
    let workflows: Vec<&str> = options.settings.workflows.iter().map(|of| of.name()).collect();
    workflows.join("-")
}

fn begin(options: &ClientsOptions, pinning: &str) -> Clients {
    let of = |stack: &Stack| StackUsed {
        name: stack.name.clone(),
        folder: stack.folder.clone(),
        language: stack.language.clone(),
        about: stack.about.clone(),
        missing: stack.missing.clone(),
        ..StackUsed::default()
    };
    let started = Suite::time(jiff::Timestamp::now());
    Clients {
        schema: SCHEMA,
        suite: Suite {
            version: options.version.clone(),
            commit: options.commit.clone(),
            command: options.command.clone(),
            started: started.clone(),
            ended: started,
        },
        host: host::facts(pinning),
        settings: Settings { pinning: pinning.into(), ..options.settings.clone() },
        stacks: options.stacks.iter().map(of).collect(),
        points: Vec::new(),
        knees: Vec::new(),
    }
}

struct Runner<'a> {
    options: &'a ClientsOptions,
    context: &'a Context<'a>,
    logs: &'a Path,
    clients: &'a mut Clients,
}

impl Runner<'_> {
    fn run_all(&mut self, kept: &Path) -> anyhow::Result<()> {
        let settings = &self.options.settings;
        let cells = cells(settings);
        let here: Vec<&Stack> =
            self.options.stacks.iter().filter(|stack| stack.missing.is_none()).collect();
        let turns = order(cells.len(), here.len(), settings.repeats, settings.seed);
        let can = |cell: &Cell, stack: &Stack| {
            stack.workflows.contains(&cell.workflow) && stack.qos.contains(&cell.qos)
        };
        let turns: Vec<_> =
            turns.iter().filter(|turn| can(&cells[turn.use_case], here[turn.broker])).collect();
        for (at, turn) in turns.iter().enumerate() {
            if self.context.interrupted.load(Ordering::Relaxed) {
                break;
            }
            let (cell, stack) = (cells[turn.use_case], here[turn.broker]);
            let place = (turn.round, at as u32 + 1);
            let said = match cell.rate_per_s {
                Some(rate_per_s) => self.fixed(stack, cell, rate_per_s, place),
                None => self.knee(stack, cell, place),
            };
            noteln!("{:>4} of {}, round {}: {said}", at + 1, turns.len(), turn.round);
            // A run of hours that is killed leaves what it had.
            folder::write(kept, "clients.json", &serde_json::to_string_pretty(&*self.clients)?)?;
        }
        Ok(())
    }

    /// Runs one point; what to say of it.
    fn fixed(
        &mut self,
        stack: &Stack,
        cell: Cell,
        rate_per_s: f64,
        (round, position): (u32, u32),
    ) -> String {
        let settings = &self.options.settings;
        let Settings { warm_up_s, measure_s, .. } = *settings;
        let log = self.log(stack, position);
        let length = Length { warm_up_s, measure_s, drain_s: DRAIN_S };
        let Cell { workflow, qos, .. } = cell;
        let task = Task { stack, workflow, qos, rate_per_s, length, log: &log };
        let mut point = match measure(self.context, &task, self.used(&stack.name)) {
            Ok(point) => point,
            Err(error) => task.broken(format!("{error:#}")),
        };
        (point.round, point.position) = (round, position);
        let said = said_of(&point);
        self.clients.points.push(point);
        said
    }

    fn knee(&mut self, stack: &Stack, cell: Cell, (round, position): (u32, u32)) -> String {
        let Cell { workflow, qos, .. } = cell;
        let known = self.clients.points.iter().filter(|point| {
            let of = (&point.stack, point.workflow, point.qos);
            of == (&stack.name, workflow, qos) && point.is_sound()
        });
        let promised = known.filter_map(Point::per_core_s).reduce(f64::max);
        let measure_s = self.options.settings.step_s;
        let warm_up_s = STEP_WARM_UP_S.min(measure_s);
        let length = Length { warm_up_s, measure_s, drain_s: STEP_DRAIN_S };
        let log = self.log(stack, position);
        let climb = Climb {
            context: self.context,
            task: Task { stack, workflow, qos, rate_per_s: 0.0, length, log: &log },
            from_per_s: promised.map_or(first_per_s(workflow), |rate| rate * FROM_SHARE),
            warm_up_s: self.options.settings.warm_up_s,
        };
        let mut found = climb.run(self.used(&stack.name));
        found.round = round;
        for step in &mut found.steps {
            (step.round, step.position) = (round, position);
        }
        let said = said_of_knee(&found);
        self.clients.knees.push(found);
        said
    }

    fn used(&mut self, name: &str) -> &mut StackUsed {
        let found = self.clients.stacks.iter_mut().find(|of| of.name == name);
        found.expect("every stack that is run is in the list")
    }

    fn log(&self, stack: &Stack, position: u32) -> PathBuf {
        self.logs.join(format!("{position:04}-{}.log", stack.name))
    }
}

fn cells(settings: &Settings) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &workflow in &settings.workflows {
        for &qos in &settings.qos {
            let rates = settings.rates.iter().map(|&rate| Some(rate));
            let knee = settings.knee.then_some(None);
            // A connect has no QoS.
            if workflow != Workflow::Connect || qos == settings.qos[0] {
                let cell = |rate_per_s| Cell { workflow, qos, rate_per_s };
                cells.extend(rates.chain(knee).map(cell));
            }
        }
    }
    cells
}

fn measure(context: &Context<'_>, task: &Task<'_>, used: &mut StackUsed) -> anyhow::Result<Point> {
    let length = task.length;
    let mut session = Session::open_warm(context, task, task.rate_per_s, length.warm_up_s)?;
    used.note(&session.ready);
    if !task.workflow.is_played() {
        return session.paced(task);
    }
    let length = Length { warm_up_s: session.lead_in_s(length.warm_up_s), ..length };
    let mut point = session.played(&Task { length, ..*task })?;
    if let Err(error) = session.close() {
        point.standing = Standing::Broken;
        point.reasons.push(error.to_string());
    }
    Ok(point)
}

fn said_of(point: &Point) -> String {
    let what = format!(
        "{}, {} QoS {} at {}/s",
        point.stack,
        point.workflow.title(),
        point.qos,
        numbers::count(point.rate_per_s)
    );
    let cost = point.cpu_us_each().map(|us| format!("{us:.2} us CPU each")).unwrap_or_default();
    let p99 = point.latency.as_ref().map(|of| numbers::millis(of.p99_us as f64));
    let p99 = p99.map(|ms| format!("p99 {ms} ms")).unwrap_or_default();
    let parts = [cost, p99, point.standing.name().to_owned(), point.reasons.join("; ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{what}: {}", parts.join(", "))
}

fn said_of_knee(found: &KneeFound) -> String {
    let what = format!("{}, knee of {} QoS {}", found.stack, found.workflow.title(), found.qos);
    match (found.rate_per_s, found.per_core_s, &found.broken) {
        (_, _, Some(why)) => format!("{what}: {why}"),
        (Some(rate), Some(score), None) => {
            let (rate, score) = (numbers::count(rate), numbers::count(score));
            format!("{what}: {rate}/s, {score} per core-second, {} steps", found.steps.len())
        }
        _ => format!("{what}: nothing met"),
    }
}

/// Logs of adapters that had nothing to say.
fn remove_empty(logs: &Path) {
    for entry in std::fs::read_dir(logs).into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|of| of.len() == 0) {
            // One that stays is an empty file.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let _ = std::fs::remove_dir(logs);
}
