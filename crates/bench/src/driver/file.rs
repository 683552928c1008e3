//! The file of a driver, `brokers/NAME/broker.toml`: all there is to know of how a broker is found,
//! asked, configured, started and got, as data. What is in braces is filled in for each run.
//! Beside what docs/brokers.md lists, `{threads}` is how many processors the broker may run on.

pub(super) use super::demand::Values;
use super::demand::{Demand, Part};
use super::nodes::Nodes;
use super::{Can, Profile};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrokerFile {
    /// Name for tables, such as `NanoMQ`.
    pub(super) title: String,
    /// Other names that people know it by.
    #[serde(default)]
    pub(super) aliases: Vec<String>,
    /// One line: by whom, in what language, how it is built.
    pub(super) about: String,
    /// Names of its program, in the order they are looked for; `{weir}` is this program.
    pub(super) programs: Vec<String>,
    /// How it is asked for its version.
    pub(super) version: Ask,
    /// What it runs on, where that decides its speed.
    pub(super) runtime: Option<Runtime>,
    /// Profiles it can be run with.
    #[serde(default = "usual_profiles")]
    pub(super) profiles: Vec<Profile>,
    /// Its command line.
    pub(super) command: Vec<String>,
    /// Environment beside the suite's own.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Ports beside that of MQTT: `v5` is `{port_v5}`. One named `v5` takes MQTT 5.0 alone.
    #[serde(default)]
    pub(super) ports: Vec<String>,
    /// Its configuration; the first is `{config}`.
    #[serde(default)]
    pub(super) file: Vec<Template>,
    /// What is set, each with its reason.
    #[serde(default)]
    pub(super) change: Vec<Change>,
    /// Seconds until it has to answer its first CONNECT.
    #[serde(default = "ready_s")]
    ready_s: u64,
    /// Seconds it may take to end at SIGTERM.
    #[serde(default = "stop_s")]
    stop_s: u64,
    /// Seconds within which it sends again what was not acknowledged. What comes so late is late
    /// and not lost: a run's drain lasts at least as long.
    #[serde(default)]
    resends_s: u64,
    /// Whether it holds connections beyond its limit of open files, as direct descriptors of
    /// io_uring.
    #[serde(default)]
    pub(super) has_direct_descriptors: bool,
    /// How several nodes are started.
    pub(super) nodes: Option<Nodes>,
    /// Why there cannot be several, where that is known.
    pub(super) single_node: Option<String>,
    /// What it can do.
    pub(super) can: Can,
    /// How to have it.
    pub(super) get: Get,
    /// Version of the real broker that this file was last run with; absent where it never was.
    pub(super) run_with: Option<String>,
}

/// A question to a program, and where its answer is in what it prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// Program and arguments.
    pub(super) command: Vec<String>,
    /// The version is the first after this text.
    #[serde(default)]
    pub(super) after: String,
    /// What the version has to begin with to be a broker of this driver.
    #[serde(default)]
    pub(super) begins: String,
}

/// What a broker runs on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runtime {
    /// Such as `Erlang/OTP`.
    pub(super) name: String,
    /// How it is asked for its version.
    pub(super) version: Ask,
}

/// A file that is written before the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Template {
    /// Its name within the run's folder.
    pub(super) name: String,
    /// Its text; without one, the settings of the slot `settings`, a line each.
    #[serde(default = "settings")]
    pub(super) text: String,
}

/// A setting that differs from what the broker does by itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// In which profiles; none is all.
    #[serde(default)]
    pub(super) profiles: Vec<Profile>,
    /// For use cases that ask for one of these; none is all.
    #[serde(default)]
    pub(super) with: Vec<Part>,
    /// Not for use cases that ask for one of these.
    #[serde(default)]
    pub(super) without: Vec<Part>,
    /// Where it goes: `{slot}` in a file, the command or the environment.
    #[serde(default = "slot")]
    pub(super) slot: String,
    /// As the broker reads it.
    pub(super) setting: String,
    /// Why.
    pub(super) reason: String,
    /// Whether it is certain that the broker is told: a command of the user's may not care.
    #[serde(skip, default = "yes")]
    is_told: bool,
}

/// How to have a broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Get {
    /// For a person: a command, or where to find it.
    pub(super) how: String,
    /// What `weir bench brokers setup` runs in a folder of its own, `{cache}`, with the files of
    /// `brokers/NAME/` in it; empty where a person has to.
    #[serde(default)]
    pub(super) commands: Vec<Vec<String>>,
}

impl Change {
    fn is_for(&self, profile: Profile, demand: &Demand) -> bool {
        let asks = |parts: &[Part]| parts.iter().any(|&part| demand.has(part));
        (self.profiles.is_empty() || self.profiles.contains(&profile))
            && (self.with.is_empty() || asks(&self.with))
            && !asks(&self.without)
    }
}

fn usual_profiles() -> Vec<Profile> {
    vec![Profile::Default, Profile::Tuned]
}
fn settings() -> String {
    "{settings}\n".into()
}
const fn yes() -> bool {
    true
}
fn slot() -> String {
    "settings".into()
}
const fn ready_s() -> u64 {
    10
}
const fn stop_s() -> u64 {
    5
}

/// A broker's files, command and environment for one run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Filled {
    /// Names and texts.
    pub(super) files: Vec<(String, String)>,
    /// Program and arguments.
    pub(super) command: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// What is run for a node once all listen.
    pub(super) join: Vec<String>,
    /// `setting: reason`, one for each.
    pub(super) changes: Vec<String>,
}

impl BrokerFile {
    /// Of a command that is all there is to know.
    pub(super) fn bare(name: &str, can: Can, get: Get) -> Self {
        Self {
            title: name.into(),
            aliases: Vec::new(),
            about: "your own command".into(),
            programs: Vec::new(),
            version: Ask { command: Vec::new(), after: String::new(), begins: String::new() },
            runtime: None,
            // A command of the user's is what it is.
            profiles: vec![Profile::Default, Profile::Tuned, Profile::Durable],
            command: Vec::new(),
            environment: BTreeMap::new(),
            ports: Vec::new(),
            file: Vec::new(),
            change: Vec::new(),
            ready_s: ready_s(),
            stop_s: stop_s(),
            resends_s: 0,
            has_direct_descriptors: false,
            nodes: None,
            single_node: None,
            can,
            get,
            run_with: None,
        }
    }

    /// How long it may take to answer its first CONNECT.
    pub(super) const fn ready_max(&self) -> Duration {
        Duration::from_secs(self.ready_s)
    }

    /// How long it may take to end at SIGTERM.
    pub(super) const fn stop_max(&self) -> Duration {
        Duration::from_secs(self.stop_s)
    }

    /// Within how long it sends again what was not acknowledged.
    pub(super) const fn resends_max(&self) -> Duration {
        Duration::from_secs(self.resends_s)
    }

    /// Whether the command line names the files that are written.
    pub(super) fn names_files(&self) -> bool {
        let names = |word: &String| word.contains("{config}") || word.contains("{folder}");
        self.command.iter().any(names)
    }

    /// The same for a command line of the user's in place of the file's own: no more is listed as
    /// set than what the command line names.
    pub(super) fn with_command(&self, command: Vec<String>) -> Self {
        let of = Self { command, ..self.clone() };
        let files = of.file.iter().filter(|_| of.names_files()).map(|file| &file.text);
        let texts: Vec<&String> = files.chain(&of.command).collect();
        let is_named = |change: &Change| {
            texts.iter().any(|text| text.contains(&format!("{{{}}}", change.slot)))
        };
        let change =
            of.change.iter().map(|change| Change { is_told: is_named(change), ..change.clone() });
        Self { change: change.collect(), ..of }
    }

    /// Everything of a profile for a use case, with its braces filled.
    pub(super) fn fill(&self, profile: Profile, demand: &Demand, values: &Values) -> Filled {
        let chosen: Vec<(&Change, String)> = self
            .change
            .iter()
            .filter(|change| change.is_for(profile, demand))
            .map(|change| (change, fill(&change.setting, values)))
            .collect();
        // A slot is a value like any other: empty where nothing is set in this profile.
        let slots = |between: &str| -> Values {
            let mut all = values.clone();
            for change in &self.change {
                let of_slot = chosen.iter().filter(|(chosen, _)| chosen.slot == change.slot);
                let settings: Vec<&str> = of_slot.map(|(_, setting)| setting.as_str()).collect();
                all.insert(change.slot.clone(), settings.join(between));
            }
            all
        };
        let (lines, words) = (slots("\n"), slots(" "));
        let file = |of: &Template| (of.name.clone(), fill(&of.text, &lines));
        Filled {
            files: self.file.iter().map(file).collect(),
            command: self.command.iter().flat_map(|word| argument(word, &words, self)).collect(),
            environment: self
                .environment_of(demand)
                .into_iter()
                .map(|(key, text)| (key.clone(), fill(text, &words)))
                .collect(),
            join: self
                .nodes
                .iter()
                .flat_map(|of| &of.join)
                .map(|word| fill(word, &words))
                .collect(),
            changes: chosen
                .iter()
                .filter(|(change, _)| change.is_told)
                .map(|(change, setting)| format!("{}: {}", one_line(setting), change.reason))
                .collect(),
        }
    }

    /// That of several nodes goes before the broker's own.
    fn environment_of(&self, demand: &Demand) -> BTreeMap<&String, &String> {
        let of_nodes = self.nodes.iter().filter(|_| demand.has(Part::Nodes));
        self.environment.iter().chain(of_nodes.flat_map(|of| &of.environment)).collect()
    }

    /// Whether any of it speaks of `{key}`.
    pub(super) fn mentions(&self, key: &str) -> bool {
        let key = format!("{{{key}}}");
        let texts = self.file.iter().map(|file| &file.text);
        let settings = self.change.iter().map(|change| &change.setting);
        let words = self.command.iter().chain(self.environment.values());
        texts.chain(settings).chain(words).any(|text| text.contains(&key))
    }
}

/// A word of the command. One that is a slot and nothing else is as many words as are set in it.
fn argument(word: &str, values: &Values, file: &BrokerFile) -> Vec<String> {
    let is_slot = file.change.iter().any(|change| *word == format!("{{{}}}", change.slot));
    let text = fill(word, values);
    if is_slot { text.split_whitespace().map(str::to_owned).collect() } else { vec![text] }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` with each `{key}` that has a value replaced; other braces are the broker's own.
pub(super) fn fill(text: &str, values: &Values) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled += before;
        let found = from.find('}').and_then(|end| Some((end, values.get(&from[1..end])?)));
        match found {
            Some((end, value)) => {
                filled += value;
                rest = &from[end + 1..];
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled + rest
}

/// The first version in `text` after `after`: numbers with points between, and what hangs on them.
pub(super) fn version_in(text: &str, after: &str) -> Option<String> {
    let (_, text) = text.split_once(after)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    text.split(|c: char| !is_part(c)).find_map(|word| {
        let word = word.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-');
        let word = word.trim_end_matches('.');
        let (major, rest) = word.split_once('.')?;
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let is_version = major.bytes().all(|byte| byte.is_ascii_digit()) && is_number(rest);
        (is_number(major) && is_version).then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn braces_that_mean_nothing_to_us_are_left_to_the_broker() {
        let values = values(&[("port", "77"), ("host", "::1")]);
        for (text, filled) in [
            ("listen {host} {port}", "listen ::1 77"),
            ("mqtt { port: {port} }", "mqtt { port: 77 }"),
            ("{unknown} {{port}}", "{unknown} {77}"),
            ("{port", "{port"),
            ("", ""),
        ] {
            assert_eq!(fill(text, &values), filled);
        }
    }

    #[test]
    fn a_version_is_found_in_what_brokers_print() {
        for (text, after, version) in [
            ("mosquitto version 2.0.11\n\nmosquitto is", "", Some("2.0.11")),
            ("nats-server: v2.9.10", "", Some("2.9.10")),
            ("0.1.0 (d3f5a2e-dirty)", "", Some("0.1.0")),
            ("NanoMQ Broker v0.21.10-8, for IoT.", "", Some("0.21.10-8")),
            ("dep x v1.5.0 h1:a\n dep y v2.7.9 h1:b", "dep y", Some("2.7.9")),
            ("REL_VSN=\"5.0.0-beta.3\"", "REL_VSN", Some("5.0.0-beta.3")),
            ("usage: it [-v]", "", None),
            ("1.2.3", "no such text", None),
            ("see 12 things", "", None),
        ] {
            assert_eq!(version_in(text, after).as_deref(), version, "{text}");
        }
    }
}
