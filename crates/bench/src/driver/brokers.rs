//! All brokers that have a driver: what is here of each, what it can do, how to have it.

use super::catalog::{CATALOG, Entry, entry};
use super::file::{BrokerFile, Values, fill};
use super::program::Program;
use super::{Can, DriverError, find};
use crate::lines::{narrow, wrap};
use anyhow::{Context, bail, ensure};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A broker that has a driver.
#[derive(Clone, Debug)]
pub struct Listed {
    /// As it is named on the command line.
    pub name: &'static str,
    /// As tables name it.
    pub title: String,
    /// One line: by whom, in what language.
    pub about: String,
    /// Whether it is here.
    pub state: State,
    /// How many nodes the driver can start as one cluster.
    pub nodes: Nodes,
    /// What it can do; where it is here, in the version that it is.
    pub can: Can,
    /// Version of the real broker that the driver was last run with; nothing if it never was, and
    /// only its contract has been tested, with a program that stands in for the broker.
    pub run_with: Option<String>,
    /// How to have it: a command, or where to find it.
    pub get: String,
}

/// Nodes that a driver can start as one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// At most so many.
    pub max: u32,
    /// Whether they were started with the real broker.
    pub is_tried: bool,
}

impl Nodes {
    fn of(file: &BrokerFile) -> Self {
        let (max, run_with) =
            file.nodes.as_ref().map_or((1, None), |of| (of.max, of.run_with.as_ref()));
        Self { max, is_tried: run_with.is_some() || max == 1 }
    }

    fn text(self) -> Option<String> {
        let tried = if self.is_tried { "" } else { ", not tried with the real broker" };
        (self.max > 1).then(|| format!("as a cluster of up to {} nodes{tried}", self.max))
    }
}

/// Whether a broker is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is.
    Found {
        /// Its program.
        path: PathBuf,
        /// As it says itself, or "unknown".
        version: String,
        /// What it runs on; empty where that does not decide its speed.
        runtime: String,
    },
    /// It is not, and why that is known.
    Missing(String),
}

/// Every broker that has a driver; those that are here are asked for their versions. `weir` is this
/// program.
pub fn list(weir: &Path) -> Vec<Listed> {
    CATALOG.iter().map(|entry| listed(entry, weir)).collect()
}

fn listed(entry: &'static Entry, weir: &Path) -> Listed {
    let program = Program::of(entry, weir.into());
    let file = &entry.file;
    let (state, can) = match program.found() {
        Ok(found) => (
            State::Found {
                path: found.path.clone(),
                version: found.version.clone(),
                runtime: found.runtime.clone(),
            },
            file.can.of_version(&found.version),
        ),
        Err(DriverError::OtherVersion { path, version, .. }) => {
            (State::Missing(format!("{path} is {version}")), file.can.clone())
        }
        Err(_) => (State::Missing("not found".into()), file.can.clone()),
    };
    Listed {
        name: entry.folder.name,
        title: file.title.clone(),
        about: file.about.clone(),
        state,
        nodes: Nodes::of(file),
        can,
        run_with: file.run_with.clone(),
        get: file.get.how.clone(),
    }
}

/// The list: what each can do as a table, then who it is and where it is or how to have it.
pub fn render(listed: &[Listed]) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["broker", "here", "MQTT", "shared", "QoS", "driver"]);
    for of in listed {
        let can = &of.can;
        table.add_row([
            of.name.to_owned(),
            here(&of.state),
            can.versions.join(" "),
            if can.shared { "yes" } else { "no" }.to_owned(),
            format!("0-{}", can.qos_max),
            driver(of),
        ]);
    }
    let mut text = format!("{}\n\n", narrow(table));
    for of in listed {
        let place = match &of.state {
            State::Found { path, .. } => format!("at {}", path.display()),
            State::Missing(_) => format!("to get it: {}", of.get),
        };
        wrap(&mut text, "", "  ", &format!("{}: {}", of.name, of.about));
        wrap(&mut text, "  ", "    ", &place);
        if let Some(nodes) = of.nodes.text() {
            wrap(&mut text, "  ", "    ", &nodes);
        }
    }
    text
}

fn here(of: &State) -> String {
    match of {
        State::Found { version, runtime, .. } if runtime.is_empty() => version.clone(),
        State::Found { version, runtime, .. } => format!("{version} ({runtime})"),
        State::Missing(why) => why.clone(),
    }
}

fn driver(of: &Listed) -> String {
    of.run_with
        .as_ref()
        .map_or_else(|| "contract only".into(), |version| format!("run with {version}"))
}

/// Gets a broker into the suite's cache by the commands of its file, which may take minutes and
/// need the network; what they print goes to standard error. Then says where it is.
///
/// # Errors
/// No such broker, one that a person has to get, a command that fails.
pub fn setup(name: &str, weir: &Path) -> anyhow::Result<Listed> {
    let Some(entry) = entry(name) else {
        return Err(DriverError::Unknown { name: name.into() }.into());
    };
    let get = &entry.file.get;
    ensure!(!get.commands.is_empty(), "{name} cannot be set up from here; to get it: {}", get.how);
    let cache = find::cache(name);
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    for (file, text) in entry.folder.sources {
        let path = cache.join(file);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let values = Values::from([("cache".to_owned(), cache.display().to_string())]);
    for command in &get.commands {
        let words: Vec<String> = command.iter().map(|word| fill(word, &values)).collect();
        run(&words, &cache).with_context(|| format!("{name}: {}", words.join(" ")))?;
    }
    let listed = listed(entry, weir);
    if let State::Missing(why) = &listed.state {
        bail!("{name} was set up in {}, and {why}", cache.display());
    }
    Ok(listed)
}

fn run(words: &[String], folder: &Path) -> anyhow::Result<()> {
    let [program, arguments @ ..] = words else { bail!("there is no command") };
    let status = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("{program} cannot be run"))?;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_a_person_has_to_get_says_how() {
        let error = setup("mosquitto", Path::new("weir")).unwrap_err().to_string();
        assert!(error.contains("apt-get install mosquitto"), "{error}");
        let error = setup("mosquito", Path::new("weir")).unwrap_err().to_string();
        assert!(error.contains("unknown broker"), "{error}");
    }

    #[test]
    fn a_command_that_fails_is_named() {
        let folder = tempfile::TempDir::new().unwrap();
        let error = run(&["false".to_owned()], folder.path()).unwrap_err().to_string();
        assert!(error.contains("exit status: 1"), "{error}");
        let error = run(&["no-such-program".to_owned()], folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-program cannot be run"), "{error:#}");
    }

    #[test]
    fn the_list_is_as_wide_as_a_terminal() {
        let mut all = list(Path::new("/no/such/weir"));
        all[0].state = State::Missing(
            "a reason why it cannot be run that is far too long for one cell of the table".into(),
        );
        crate::lines::assert_fits(&render(&all));
    }

    #[test]
    fn a_driver_that_was_never_run_with_its_broker_is_marked() {
        let mut of = listed(entry("mosquitto").unwrap(), Path::new("/no/such/weir"));
        of.state = State::Missing("not found".into());
        of.run_with = None;
        let text = render(std::slice::from_ref(&of));
        assert!(text.contains("contract only") && text.contains("not found"), "{text}");
        of.run_with = Some("2.0".into());
        assert!(render(&[of]).contains("run with 2.0"));
    }

    #[test]
    fn a_driver_that_can_start_nodes_says_how_many_and_whether_that_was_tried() {
        let of = |name| render(&[listed(entry(name).unwrap(), Path::new("/no/such/weir"))]);
        assert!(of("weir").contains("as a cluster of up to 16 nodes\n"));
        assert!(of("emqx5").contains("of up to 7 nodes, not tried with the real broker"));
        assert!(!of("mosquitto").contains("cluster"));
    }
}
