//! The byte tables of the MQTT statements against brokers: a scoreboard.

mod page;
mod text;

use crate::driver::{Driver, Profile};
use crate::folder;
use crate::interrupt::Interrupted;
use crate::made;
use crate::result::{Broker, Suite};
use anyhow::{Context, bail};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_conformance::{
    Board, Case, Credentials, Open, Patience, Remote, Version, probe, run_case, tables,
};
use weir_load::plan::{Route, Transport};
use weir_say::noteln;

pub use page::html;
pub use text::render;

/// What is run, and where its results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only cases with this in their name.
    pub only: String,
    /// Only these versions; empty is all.
    pub versions: Vec<Version>,
    /// Configuration of the brokers.
    pub profile: Profile,
    /// What is spoken to brokers that are started here.
    pub transport: Transport,
    /// Folder that gets a folder of this run.
    pub out: PathBuf,
    /// Version and commit of the program.
    pub suite: String,
    /// The command line.
    pub command: Vec<String>,
}

/// Every broker's board.
#[derive(Clone, Debug, Serialize)]
pub struct Scoreboard {
    /// Of this file's form.
    pub schema: u32,
    /// Version and commit of the program.
    pub suite: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began: RFC 3339 in UTC.
    pub started: String,
    /// In the order of the command line.
    pub brokers: Vec<Scored>,
}

/// One broker and its board.
#[derive(Clone, Debug, Serialize)]
pub struct Scored {
    /// What is disclosed of it.
    pub broker: Broker,
    /// Its cases and statements.
    pub board: Board,
    /// Cases that were to be run.
    pub asked: usize,
    /// Why the cases were not all run: somebody stopped them, or the broker did not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

impl Scored {
    /// The broker's name and version, as it is called wherever people read of it.
    fn label(&self) -> String {
        label(&self.broker)
    }

    /// Whether it broke no MUST, and every case was run.
    fn is_clean(&self) -> bool {
        self.board.is_clean() && self.cut.is_none()
    }
}

fn label(broker: &Broker) -> String {
    format!("{} {}", broker.name, broker.version)
}

/// The form of `conformance.json`.
const SCHEMA: u32 = 1;

impl Scoreboard {
    /// Whether no broker broke a MUST, and every case was run.
    pub fn is_clean(&self) -> bool {
        self.brokers.iter().all(Scored::is_clean)
    }
}

/// Runs the tables against each broker, started and stopped here, and makes a folder for what comes
/// of it, which is returned too. A wish to stop ends it before the next case.
///
/// # Errors
/// A broker that cannot be had, no case that fits, a folder that cannot be made.
pub fn run(
    brokers: &[Box<dyn Driver>],
    options: &Options,
    interrupted: &Interrupted,
) -> anyhow::Result<(Scoreboard, PathBuf)> {
    let cases = chosen(options)?;
    let names: Vec<&str> = brokers.iter().map(|driver| driver.name()).collect();
    let folder = folder::create(&options.out, "conformance", &names.join("-"))?;
    let mut scoreboard = Scoreboard {
        schema: SCHEMA,
        suite: options.suite.clone(),
        command: options.command.clone(),
        started: Suite::time(jiff::Timestamp::now()),
        brokers: Vec::new(),
    };
    announce(cases.len(), &names);
    let mut first_error = None;
    for (at, driver) in brokers.iter().enumerate() {
        // Each has a folder of its own for its log, if there are several.
        let own = match brokers.len() {
            1 => folder.clone(),
            _ => folder.join(format!("{}-{}", at + 1, folder::safe(driver.name()))),
        };
        std::fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
        let scored = score(&**driver, &cases, options, &own, interrupted);
        match scored.with_context(|| format!("conformance of {}", driver.name())) {
            Ok(scored) => scoreboard.brokers.push(scored),
            // One broker that does not start is no end of the others.
            Err(error) => {
                folder::remove_if_empty(&own);
                scoreboard.brokers.push(unstarted(&**driver, options, cases.len(), &error));
                first_error.get_or_insert(error);
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(error) = first_error
        && scoreboard.brokers.iter().all(|scored| scored.board.cases.is_empty())
    {
        folder::remove_if_empty(&folder);
        return Err(error);
    }
    Ok((scoreboard, folder))
}

/// What a case takes on a broker that does what it says: most of it is waiting for what must not
/// come.
const CASE_S: f64 = 0.2;

fn announce(cases: usize, brokers: &[&str]) {
    let minutes = (cases * brokers.len()) as f64 * CASE_S / 60.0;
    let names = brokers.join(", ");
    noteln!(
        "plan: {cases} cases on {names}; about {minutes:.1} min, more where answers are missing"
    );
}

/// A broker that answered nothing.
fn unstarted(
    driver: &dyn Driver,
    options: &Options,
    asked: usize,
    error: &anyhow::Error,
) -> Scored {
    let name = || Broker { name: driver.name().into(), ..Broker::default() };
    let broker = driver.about(options.profile).unwrap_or_else(|_| name());
    let cut = Some(format!("not run: {error:#}"));
    Scored { broker, board: Board::new(Vec::new()), asked, cut }
}

/// A case in one version.
type Chosen = (Case, Version);

fn chosen(options: &Options) -> anyhow::Result<Vec<Chosen>> {
    let mut chosen = Vec::new();
    for (_, table) in tables()? {
        for case in table.cases {
            if !case.name.contains(&options.only) {
                continue;
            }
            for &version in &case.versions {
                if options.versions.is_empty() || options.versions.contains(&version) {
                    chosen.push((case.clone(), version));
                }
            }
        }
    }
    if chosen.is_empty() {
        bail!("no case for these versions has {:?} in its name", options.only);
    }
    Ok(chosen)
}

fn score(
    driver: &dyn Driver,
    cases: &[Chosen],
    options: &Options,
    folder: &Path,
    interrupted: &Interrupted,
) -> anyhow::Result<Scored> {
    let running = made::start_over(driver, options.transport, options.profile, folder)?;
    let broker = running.broker.clone();
    let run = format!(
        "{:04x}",
        (std::process::id() ^ jiff::Timestamp::now().as_second() as u32) & 0xFFFF
    );
    let weir_load::plan::Credentials { user_name, password } = running.login.credentials.clone();
    let open = opened(running.target, running.login.route.clone());
    let mut remote = Remote::over(open, Patience::default())
        .with_credentials(Credentials { user_name, password });
    let offers = probe(&mut remote, &format!("{run}p")).map_err(anyhow::Error::msg)?;
    let bar = progress(cases.len(), &broker);
    let mut outcomes = Vec::new();
    for (at, (case, version)) in cases.iter().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        outcomes.push(run_case(case, *version, &format!("{run}{at}"), &offers, &mut remote));
        bar.inc(1);
    }
    bar.finish_and_clear();
    running.stop();
    let (ran, asked) = (outcomes.len(), cases.len());
    let cut = (ran < asked).then(|| format!("stopped after {ran} of {asked} cases"));
    Ok(Scored { broker, board: Board::new(outcomes), asked, cut })
}

/// A connection of the load generator's, as a case reads and writes it.
struct Stream(weir_load::Stream);

impl weir_conformance::Stream for Stream {
    fn read(&mut self, into: &mut [u8], patience: Duration) -> io::Result<usize> {
        self.0.set_read_timeout(patience)?;
        self.0.read(into)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

fn opened(target: SocketAddr, route: Route) -> Open {
    Box::new(move |patience| {
        Ok(Box::new(Stream(weir_load::Stream::connect(target, &route, patience)?)))
    })
}

/// A line that moves, on a terminal only.
fn progress(count: usize, broker: &Broker) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new(count as u64);
    let style = indicatif::ProgressStyle::with_template("  {msg}: case {pos} of {len} {wide_bar}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(label(broker));
    bar
}

/// Keeps `conformance.json` and `report.html` in the folder of a run.
///
/// # Errors
/// A file that cannot be written.
pub fn keep(scoreboard: &Scoreboard, folder: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(scoreboard)? + "\n";
    folder::write(folder, "conformance.json", &json)?;
    folder::write(folder, "report.html", &html(scoreboard)?)
}

#[cfg(test)]
mod tests;
