//! Brokers that the suite starts, configures and stops by itself.
//!
//! A driver knows how to find its broker, write its configuration, be sure it is ready, name its
//! version, and end it. It sees no statistics. Most are a file, `brokers/NAME/broker.toml`.

mod brokers;
mod can;
mod catalog;
mod demand;
mod file;
mod find;
mod guard;
mod label;
mod nodes;
mod places;
mod process;
mod program;
mod url;

pub use crate::profile::Profile;
pub use url::{UrlTls, route, target, without_password};

pub use crate::login::Login;
pub use brokers::{Listed, State, list, render, setup};
pub use can::Can;
pub use demand::Demand;
pub use find::{is_program, program_of_host};
pub use guard::{guard, guard_through};
pub use process::{Running, last_lines, spawn};
pub use program::data_folder;

use crate::result::Broker;
use crate::usecase::Needs;
use std::path::{Path, PathBuf};
use weir_load::plan::Credentials;

/// The names [`parse`] knows, in the order for help and errors.
pub fn names() -> impl Iterator<Item = &'static str> {
    catalog::CATALOG.iter().map(|entry| entry.folder.name)
}

/// What was meant by the address of a broker without the part that says so.
fn tip(name: &str) -> String {
    let port = name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    port.map_or_else(String::new, |_| format!("did you mean mqtt://{name}? "))
}

/// Why a broker cannot be had; one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// No such driver.
    #[error(
        "unknown broker {name:?}; {}use one of {}, NAME[@LABEL]=COMMAND, \
         [NAME=]mqtt://HOST:PORT[?pid=PID] (or mqtts://, ws://, wss://)",
        tip(.name), names().collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The broker is not on this host.
    #[error("{broker} is not installed; to install it: {install}")]
    NotInstalled {
        /// Its name.
        broker: String,
        /// A command, or where to find it.
        install: String,
    },
    /// The broker that was found is not of this driver.
    #[error(
        "{path} is version {version}, but {broker} must be {begins}x; use --broker {broker}=COMMAND"
    )]
    OtherVersion {
        /// The driver's name.
        broker: String,
        /// What was found.
        path: String,
        /// Its version.
        version: String,
        /// How the versions of this driver begin.
        begins: String,
    },
    /// A profile that this broker has not.
    #[error("{broker} has no profile {profile}; it has {known}")]
    NoProfile {
        /// Its name.
        broker: String,
        /// Asked for.
        profile: Profile,
        /// What there is.
        known: String,
    },
    /// The command of `NAME=COMMAND` cannot be used.
    #[error("--broker {name}=COMMAND cannot be used: {why}")]
    Command {
        /// As given.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The URL cannot be used.
    #[error("{url:?} is not a broker: {why}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing answers at a URL.
    #[error("nothing answers MQTT at {address}: {why}")]
    NotThere {
        /// Where a broker should be.
        address: String,
        /// What was seen.
        why: String,
    },
    /// It was started and did not answer.
    #[error("{broker} does not answer MQTT at {address}: {why}")]
    NotReady {
        /// Its name.
        broker: String,
        /// Where it should listen.
        address: String,
        /// What was seen.
        why: String,
    },
    /// The system refused something on the way.
    #[error("cannot start {broker}: {source}")]
    System {
        /// Its name.
        broker: String,
        /// Why.
        source: std::io::Error,
    },
}

/// A broker the suite can measure.
pub trait Driver: Sync {
    /// As it is named on the command line and in folders.
    fn name(&self) -> &str;

    /// Whether it runs as a process of this host that the suite starts.
    fn is_local(&self) -> bool;

    /// Whether the suite starts it, and so can start it again after a kill.
    fn is_restartable(&self) -> bool;

    /// Connections that it can hold on this host, as far as is known: a process that the suite
    /// starts has its limit of open files.
    fn connections_max(&self) -> u64;

    /// What a use case needs and the broker has not, in words; nothing where all is there, or
    /// nothing is known.
    ///
    /// # Errors
    /// It is not there to be asked for its version.
    fn lacks(&self, needs: &Needs) -> Result<Option<String>, DriverError>;

    /// How many nodes it has where so many are asked for.
    ///
    /// # Errors
    /// Why it cannot have so many.
    fn nodes(&self, asked: u32) -> Result<u32, String>;

    /// Whether it can be run with a profile.
    fn has(&self, profile: Profile) -> bool;

    /// What is known of it without a start.
    ///
    /// # Errors
    /// It is not there.
    fn about(&self, profile: Profile) -> Result<Broker, DriverError>;

    /// The same broker with the credentials of a use case: one that somebody else runs, and of
    /// which nobody has said who to be there.
    fn with_credentials(&self, _credentials: &Credentials) -> Option<Box<dyn Driver>> {
        None
    }

    /// Starts it with its files in `folder`, on the processor `core` if one is given, and waits
    /// until it answers a CONNECT.
    ///
    /// # Errors
    /// It is not there, does not start, or does not answer.
    fn start(
        &self,
        profile: Profile,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        self.start_for(&Demand::default(), profile, folder, core)
    }

    /// The same with a listener as a use case asks for it.
    ///
    /// # Errors
    /// As [`Driver::start`].
    fn start_for(
        &self,
        demand: &Demand,
        profile: Profile,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError>;
}

/// The driver of a name, a command (`NAME=COMMAND`) or a URL.
///
/// # Errors
/// A name that is none of [`names`], a command that cannot be one, a URL that is not
/// `mqtt://host:port`, with `name=` before and `?pid=PID` behind it where wanted.
pub fn parse(text: &str) -> Result<Box<dyn Driver>, DriverError> {
    parse_over(text, None)
}

fn parse_over(text: &str, tls: Option<&UrlTls>) -> Result<Box<dyn Driver>, DriverError> {
    let weir = match std::env::var_os("WEIR_EXE") {
        Some(path) => Ok(PathBuf::from(path)),
        None => std::env::current_exe(),
    };
    // Brokers run in folders of their own: a path from here would lead elsewhere there.
    let weir = weir.and_then(std::path::absolute);
    let weir = weir.map_err(|source| DriverError::System { broker: text.into(), source })?;
    label::parse(text, &weir, tls)
}

/// The drivers of a command line, each with a name of its own: a broker that is given twice, in
/// two versions or builds, is two. `tls` is how it is spoken to those that are given by a URL.
///
/// # Errors
/// As [`parse`].
pub fn parse_all(
    texts: &[String],
    profile: Profile,
    tls: Option<&UrlTls>,
) -> Result<Vec<Box<dyn Driver>>, DriverError> {
    let brokers = texts.iter().map(|text| parse_over(text, tls)).collect::<Result<_, _>>()?;
    Ok(label::apart(brokers, profile))
}

/// The same, where the program `weir`, which guards every broker and is one of them, is another
/// than this.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(text: &str, weir: &Path) -> Result<Box<dyn Driver>, DriverError> {
    without_label(text, weir, None)
}

fn without_label(
    text: &str,
    weir: &Path,
    tls: Option<&UrlTls>,
) -> Result<Box<dyn Driver>, DriverError> {
    if let Some(entry) = catalog::entry(text) {
        return Ok(Box::new(program::Program::of(entry, weir.into())));
    }
    if text.contains("://") {
        return Ok(Box::new(url::Url::parse_with(text, tls)?));
    }
    match text.split_once('=') {
        Some((name, command)) => Ok(Box::new(program::Program::given(name, command, weir.into())?)),
        None => Err(DriverError::Unknown { name: text.into() }),
    }
}

#[cfg(test)]
mod tests;
