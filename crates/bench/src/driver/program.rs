//! A broker that is a program of this host: any of the catalog, or a command of the user's.

use super::can::Can;
use super::catalog::{self, Entry};
use super::file::{Ask, BrokerFile, Filled, Get, Values, version_in};
use super::places::Places;
use super::process::{Launch, Running, Service};
use super::{Demand, Driver, DriverError, Profile, file, find};
use crate::host::open_files_max;
use crate::paths::without_folders;
use crate::result::Broker;
use crate::usecase::Needs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The port that takes MQTT 5.0 alone, where a broker has one.
const V5: &str = "v5";

/// A driver made of a file.
pub(super) struct Program {
    name: String,
    file: BrokerFile,
    given: Option<Given>,
    /// The program that guards it: `weir`.
    weir: PathBuf,
    found: OnceLock<Found>,
}

/// The user's way to start it.
struct Given {
    words: Vec<String>,
    /// Whether its first word is called as the broker's program is.
    is_named_so: bool,
    /// Whether it is a whole command line, and not just another place of the program.
    is_whole: bool,
}

impl Given {
    /// Whether the program may be run for its version: a script of the user's may do anything when
    /// it is run, such as start the broker.
    fn can_be_asked(&self, path: &Path) -> bool {
        self.is_named_so || !find::is_script(path)
    }
}

/// A program that is there.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) version: String,
    /// Such as `Erlang/OTP 25`; empty where none decides its speed.
    pub(super) runtime: String,
}

impl Program {
    /// One of the catalog.
    pub(super) fn of(entry: &Entry, weir: PathBuf) -> Self {
        let (name, file) = (entry.folder.name.to_owned(), entry.file.clone());
        Self { name, file, given: None, weir, found: OnceLock::new() }
    }

    /// One that is started with `command`: in place of a known broker's program if it is one word
    /// without braces, else of its whole command line.
    pub(super) fn given(name: &str, command: &str, weir: PathBuf) -> Result<Self, DriverError> {
        let fail = |why: &str| DriverError::Command { name: name.into(), why: why.into() };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(fail("a name consists of letters, digits, - _ and ."));
        }
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let Some(program) = words.first() else { return Err(fail("it contains no command")) };
        // One without a `/` is looked for, like a driver's own.
        let program = match program.contains('/') {
            true => std::path::absolute(program).map_err(|error| fail(&error.to_string()))?,
            false => program.into(),
        };
        let program = program.to_string_lossy().into_owned();
        let entry = catalog::entry(name);
        let mut file = entry.map_or_else(|| unknown(name), |entry| entry.file.clone());
        let file_name = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let called = file_name(&program);
        let is_named_so = file.programs.iter().any(|of| file_name(&fill_weir(of)) == called);
        let is_whole = words.len() > 1 || command.contains('{') || entry.is_none();
        file.programs = vec![program];
        if is_whole {
            let program = "{program}".to_owned();
            file = file.with_command([program].into_iter().chain(words[1..].to_vec()).collect());
        }
        let name = entry.map_or(name, |entry| entry.folder.name).into();
        let given = Some(Given { words, is_named_so, is_whole });
        Ok(Self { name, file, given, weir, found: OnceLock::new() })
    }

    /// The program, with its version; looked for once.
    pub(super) fn found(&self) -> Result<&Found, DriverError> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let path = self.path()?;
        let values = self.values(&path);
        let ask = &self.file.version;
        let is_run = ask.command.first().is_some_and(|program| program == "{program}");
        let can_be_asked = !is_run || self.given.as_ref().is_none_or(|of| of.can_be_asked(&path));
        let version = can_be_asked.then(|| asked(ask, &values)).flatten();
        let begins = &self.file.version.begins;
        if let Some(version) = version.as_ref().filter(|version| !version.starts_with(begins)) {
            return Err(DriverError::OtherVersion {
                broker: self.name.clone(),
                path: path.display().to_string(),
                version: version.clone(),
                begins: begins.clone(),
            });
        }
        let version = version.unwrap_or_else(|| "unknown".into());
        let runtime = self.file.runtime.as_ref().map(|runtime| {
            let version = asked(&runtime.version, &values);
            format!("{} {}", runtime.name, version.as_deref().unwrap_or("unknown"))
        });
        let runtime = runtime.unwrap_or_default();
        Ok(self.found.get_or_init(|| Found { path, version, runtime }))
    }

    fn path(&self) -> Result<PathBuf, DriverError> {
        let values = BTreeMap::from([
            ("weir".to_owned(), self.weir.display().to_string()),
            ("cache".to_owned(), find::cache(&self.name).display().to_string()),
        ]);
        let programs: Vec<String> =
            self.file.programs.iter().map(|name| file::fill(name, &values)).collect();
        find::find(&programs, &self.name).ok_or_else(|| match &self.given {
            Some(given) => DriverError::Command {
                name: self.name.clone(),
                why: format!("{} is not a program", given.words[0]),
            },
            None => DriverError::NotInstalled {
                broker: self.name.clone(),
                install: self.file.get.how.clone(),
            },
        })
    }

    /// What the braces stand for before there is a run.
    fn values(&self, path: &Path) -> Values {
        // Behind a link there is the installation, with files of its own.
        let real = path.canonicalize().unwrap_or_else(|_| path.into());
        let folder = real.parent().unwrap_or(Path::new("/"));
        BTreeMap::from([
            ("program".to_owned(), path.display().to_string()),
            ("bin".to_owned(), folder.display().to_string()),
            ("cache".to_owned(), find::cache(&self.name).display().to_string()),
            ("weir".to_owned(), self.weir.display().to_string()),
        ])
    }

    /// What is told to a command of the user's by its environment.
    fn told(&self, values: &Values) -> Vec<(String, String)> {
        let keys = [&["address", "host", "port", "folder", "config"][..], &MADE].concat();
        let known = keys.iter().filter_map(|key| Some((key.to_uppercase(), values.get(*key)?)));
        let ports = self.file.ports.iter().map(|port| format!("port_{port}"));
        let ports = ports.filter_map(|key| Some((key.to_uppercase(), values.get(&key)?)));
        known.chain(ports).map(|(key, value)| (key, value.clone())).collect()
    }

    /// Everything that is filled in for a run.
    pub(super) fn filled(
        &self,
        (profile, demand): (Profile, &Demand),
        folder: &Path,
        path: &Path,
        (places, node): (&Places, usize),
        core: Option<usize>,
    ) -> Filled {
        let mut values = self.values(path);
        values.extend(demand.values.clone());
        values.extend(places.values(&self.file, node));
        let mut set = |key: &str, value: String| values.insert(key.into(), value);
        set("threads", threads(core).to_string());
        set("folder", folder.display().to_string());
        set("data", folder.join(DATA).display().to_string());
        set("transport", demand.login.route.transport().name().to_owned());
        if let Some(first) = self.file.file.first() {
            set("config", folder.join(&first.name).display().to_string());
        }
        let mut filled = self.file.fill(profile, demand, &values);
        if self.given.is_some() {
            filled.environment.extend(self.told(&values));
        }
        filled
    }

    /// What is disclosed: no path of this host.
    fn disclosed(&self, profile: Profile, found: &Found, filled: &Filled, folder: &Path) -> Broker {
        let (folder, within) = (folder.display().to_string(), format!("{}/", folder.display()));
        let program = found.path.display().to_string();
        let name = found.path.file_name().unwrap_or_default().to_string_lossy();
        // A broker runs in the folder, so that a path below it means the same without it.
        let here = |text: &str| text.replace(&within, "").replace(&folder, ".");
        let short = |text: &str| without_folders(&here(text).replace(&program, &name));
        let environment = filled.environment.iter();
        let environment = environment.map(|(key, value)| format!("{key}={}", short(value)));
        let is_whole = self.given.as_ref().is_some_and(|given| given.is_whole);
        let configuration = match &*filled.files {
            [_, ..] if is_whole && !self.file.names_files() => NO_FILE_NAMED.into(),
            [] => "none: its command line says it all".into(),
            [(_, text)] => here(text),
            files => {
                files.iter().map(|(name, text)| format!("# {name}\n{}\n", here(text))).collect()
            }
        };
        Broker {
            driver: self.name.clone(),
            name: self.file.title.clone(),
            version: found.version.clone(),
            runtime: found.runtime.clone(),
            profile: profile.to_string(),
            profile_changes: filled.changes.clone(),
            command: environment.chain(filled.command.iter().map(|word| short(word))).collect(),
            configuration,
            address: String::new(),
            nodes: 0,
        }
    }
}

/// The folder within the run's that a broker may fill.
const DATA: &str = "broker-data";

/// Where a broker that is started in the folder of a run keeps its data.
///
/// # Errors
/// The system does not know where this is.
pub fn data_folder(folder: &Path) -> std::io::Result<PathBuf> {
    Ok(std::path::absolute(folder)?.join(DATA))
}

/// What a run makes for a broker, where a use case asks for it; `{transport}` always.
const MADE: [&str; 6] = ["transport", "certificate", "key", "ca", "password_file", "acl_file"];

/// Processors that a broker may run on.
fn threads(core: Option<usize>) -> usize {
    match core {
        Some(_) => 1,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Of a command line of the user's that leaves out the driver's files.
const NO_FILE_NAMED: &str = "unknown: the command line does not name the driver's {config}";

/// The name of this program in place of its braces.
fn fill_weir(program: &str) -> String {
    file::fill(program, &Values::from([("weir".to_owned(), "weir".to_owned())]))
}

/// Of a command that no file describes.
fn unknown(name: &str) -> BrokerFile {
    let can = Can::everything();
    let get = Get { how: "it is your own command".into(), commands: Vec::new() };
    BrokerFile::bare(name, can, get)
}

fn asked(ask: &Ask, values: &Values) -> Option<String> {
    let command: Vec<String> = ask.command.iter().map(|word| file::fill(word, values)).collect();
    version_in(&find::ask(&command), &ask.after)
}

impl Driver for Program {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        true
    }

    fn is_restartable(&self) -> bool {
        true
    }

    fn connections_max(&self) -> u64 {
        if self.file.has_direct_descriptors {
            return weir_load::connections_max();
        }
        open_files_max().saturating_sub(weir_load::FILES_RESERVED)
    }

    fn nodes(&self, asked: u32) -> Result<u32, String> {
        let max = self.file.nodes.as_ref().map_or(1, |of| of.max);
        if asked <= max {
            return Ok(asked);
        }
        Err(match &self.file.single_node {
            Some(why) => format!("{asked} nodes: {why}"),
            None if max > 1 => format!("{asked} nodes: it has at most {max}"),
            None => format!("{asked} nodes as the driver sets it up"),
        })
    }

    fn lacks(&self, needs: &Needs) -> Result<Option<String>, DriverError> {
        let of_any = self.file.can.lacks(needs);
        if of_any.is_none() {
            return Ok(None);
        }
        Ok(self.file.can.of_version(&self.found()?.version).lacks(needs))
    }

    fn has(&self, profile: Profile) -> bool {
        self.file.profiles.contains(&profile)
    }

    fn about(&self, profile: Profile) -> Result<Broker, DriverError> {
        Ok(self.disclosed(profile, self.found()?, &Filled::default(), Path::new("/")))
    }

    fn start_for(
        &self,
        demand: &Demand,
        profile: Profile,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        let system = |source| DriverError::System { broker: self.file.title.clone(), source };
        if !self.has(profile) {
            let known: Vec<String> = self.file.profiles.iter().map(Profile::to_string).collect();
            let known = known.join(", ");
            return Err(DriverError::NoProfile { broker: self.name.clone(), profile, known });
        }
        let found = self.found()?;
        // The broker runs in the folder: no path may hang on where the suite runs.
        let folder = std::path::absolute(folder).map_err(system)?;
        let count = demand.nodes.max(1) as usize;
        let places = Places::free(&self.file, count).map_err(system)?;
        let mut services = Vec::new();
        let mut nodes = Vec::new();
        let mut joins = Vec::new();
        for at in 0..count {
            let folder =
                if count > 1 { folder.join(format!("node-{}", at + 1)) } else { folder.clone() };
            let start = Start { demand, profile, found, folder: &folder, core };
            let (running, join) = self.launch(&start, (&places, at), &mut services)?;
            nodes.push(running);
            joins.push(join);
        }
        let advise = |error| self.advised(error);
        if joins.iter().any(|join| !join.is_empty()) {
            nodes.iter_mut().try_for_each(Running::listen).map_err(advise)?;
        }
        for join in joins.iter().skip(1).filter(|join| !join.is_empty()) {
            // Not as an argument of what is logged: it would be run only where that is.
            let answer = find::ask(join);
            tracing::debug!("{}: {answer}", join.join(" "));
        }
        nodes.iter_mut().try_for_each(Running::answer).map_err(advise)?;
        let mut running = Running::together(nodes, services)
            .ok_or_else(|| system(std::io::ErrorKind::InvalidInput.into()))?;
        running.pass_on(self.file.ready_max()).map_err(advise)?;
        running.promises =
            self.file.nodes.as_ref().map(|of| of.promises(profile)).unwrap_or_default();
        Ok(running)
    }
}

/// What all nodes of a start have in common, and the folder of one.
struct Start<'a> {
    demand: &'a Demand,
    profile: Profile,
    found: &'a Found,
    folder: &'a Path,
    core: Option<usize>,
}

impl Program {
    /// Starts a node, and before the first one what nodes need. Says what is to be run once all
    /// nodes listen.
    fn launch(
        &self,
        start: &Start<'_>,
        (places, at): (&Places, usize),
        services: &mut Vec<Service>,
    ) -> Result<(Running, Vec<String>), DriverError> {
        let system = |source| DriverError::System { broker: self.file.title.clone(), source };
        let &Start { demand, profile, found, folder, core } = start;
        let filled = self.filled((profile, demand), folder, &found.path, (places, at), core);
        for (name, text) in &filled.files {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&path, text))
                .map_err(system)?;
        }
        std::fs::create_dir_all(folder).map_err(system)?;
        let v5 = self.file.ports.iter().position(|port| port == V5);
        let addresses = places.of_node(at);
        let target = addresses[0];
        let broker = Broker {
            address: target.to_string(),
            ..self.disclosed(profile, found, &filled, folder)
        };
        let launch = Launch {
            weir: &self.weir,
            command: &filled.command,
            environment: &filled.environment,
            folder,
            login: &demand.login,
            data: self.file.mentions("data").then(|| folder.join(DATA)),
            target,
            target_v5: v5.map(|at| addresses[1 + at]),
            core,
            ready_max: self.file.ready_max(),
            stop_max: self.file.stop_max(),
            resends_max: self.file.resends_max(),
        };
        if at == 0 {
            self.start_services(places, &launch, services)?;
        }
        Ok((Running::launch(launch, broker)?, filled.join))
    }

    fn start_services(
        &self,
        places: &Places,
        launch: &Launch<'_>,
        services: &mut Vec<Service>,
    ) -> Result<(), DriverError> {
        let of = self.file.nodes.as_ref().filter(|_| places.nodes() > 1);
        for (of, ports) in of.iter().flat_map(|of| &of.service).zip(&places.services) {
            let missing = || DriverError::NotInstalled {
                broker: format!("{}, which nodes of {} need,", of.name, self.file.title),
                install: of.get.clone(),
            };
            let program = find::find(&of.programs, &of.name).ok_or_else(missing)?;
            let data = launch.folder.join(format!("{}-data", of.name));
            let mut values = places.values(&self.file, 0);
            values.insert("program".into(), program.display().to_string());
            values.insert("data".into(), data.display().to_string());
            let command = of.command.iter().map(|word| file::fill(word, &values)).collect();
            let place = (ports[0], data);
            services.push(Service::start(&of.name, command, place, launch)?);
        }
        Ok(())
    }
}

/// What a command that brings up no broker may have missed.
const ADVICE: &str = "; the command gets where to listen as {host}, {port}, {address} or in HOST, \
                      PORT, ADDRESS";

impl Program {
    fn advised(&self, error: DriverError) -> DriverError {
        match error {
            DriverError::NotReady { broker, address, why } if self.given.is_some() => {
                DriverError::NotReady { broker, address, why: why + ADVICE }
            }
            error => error,
        }
    }
}
