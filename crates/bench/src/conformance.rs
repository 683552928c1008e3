//! The byte tables of the MQTT statements against brokers: a scoreboard.

mod page;
mod text;

use crate::driver::{Driver, Profile};
use crate::folder;
use crate::interrupt::Interrupted;
use crate::result::{Broker, Suite};
use anyhow::{Context, bail};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use weir_conformance::{Board, Case, Credentials, Patience, Tcp, Version, probe, run_case, tables};

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
}

impl Scored {
    /// The broker's name and version, as it is called wherever people read of it.
    fn label(&self) -> String {
        label(&self.broker)
    }
}

fn label(broker: &Broker) -> String {
    format!("{} {}", broker.name, broker.version)
}

/// The form of `conformance.json`.
const SCHEMA: u32 = 1;

impl Scoreboard {
    /// Whether no broker broke a MUST.
    pub fn is_clean(&self) -> bool {
        self.brokers.iter().all(|scored| scored.board.is_clean())
    }
}

/// Runs the tables against each broker, started and stopped here, and keeps `conformance.json` and
/// `report.html` in a folder, which is returned too. A wish to stop ends it before the next case.
///
/// # Errors
/// A broker that cannot be had, no case that fits, a file that cannot be written.
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
    for driver in brokers {
        let scored = score(&**driver, &cases, options.profile, &folder, interrupted)
            .with_context(|| format!("conformance of {}", driver.name()))
            .inspect_err(|_| folder::remove_if_empty(&folder))?;
        scoreboard.brokers.push(scored);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    keep(&scoreboard, &folder)?;
    Ok((scoreboard, folder))
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
    profile: Profile,
    folder: &Path,
    interrupted: &Interrupted,
) -> anyhow::Result<Scored> {
    let running = driver.start(profile, folder, None)?;
    let broker = running.broker.clone();
    let run = format!(
        "{:04x}",
        (std::process::id() ^ jiff::Timestamp::now().as_second() as u32) & 0xFFFF
    );
    let weir_load::plan::Credentials { user_name, password } = running.credentials.clone();
    let mut tcp = Tcp::new(running.target, Patience::default())
        .with_credentials(Credentials { user_name, password });
    let offers = probe(&mut tcp, &format!("{run}p")).map_err(anyhow::Error::msg)?;
    let bar = progress(cases.len(), &broker);
    let mut outcomes = Vec::new();
    for (at, (case, version)) in cases.iter().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        outcomes.push(run_case(case, *version, &format!("{run}{at}"), &offers, &mut tcp));
        bar.inc(1);
    }
    bar.finish_and_clear();
    running.stop();
    Ok(Scored { broker, board: Board::new(outcomes) })
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

fn keep(scoreboard: &Scoreboard, folder: &Path) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(scoreboard)? + "\n";
    folder::write(folder, "conformance.json", &json)?;
    folder::write(folder, "report.html", &html(scoreboard)?)
}
