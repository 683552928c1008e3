//! Brokers that the suite starts, configures and stops by itself.
//!
//! A driver knows how to find its broker, write its configuration, be sure it is ready, name its
//! version, and end it. It sees no statistics.

mod mosquitto;
mod process;
mod url;
mod weir;

pub use process::Running;

use crate::host::open_files_max;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The brokers that can be named, and how each is made; any other is a URL. A new driver is a file
/// and a line here.
const DRIVERS: &[(&str, Make)] =
    &[("weir", || Box::new(weir::Weir)), ("mosquitto", || Box::new(mosquitto::Mosquitto))];

type Make = fn() -> Box<dyn Driver>;

/// The names [`parse`] knows, in the order for help and errors.
pub fn names() -> impl Iterator<Item = &'static str> {
    DRIVERS.iter().map(|(name, _)| *name)
}

/// How a broker is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As shipped, but for the address it listens on and what lets clients in.
    Default,
    /// For the suite, each change with its reason.
    Tuned,
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "tuned" => Ok(Self::Tuned),
            _ => Err("a profile is default or tuned".into()),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Default => "default",
            Self::Tuned => "tuned",
        })
    }
}

/// Why a broker cannot be had; one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// No such driver.
    #[error(
        "unknown broker {name:?}; known are {}, [NAME=]mqtt://HOST:PORT[@PID]",
        names().collect::<Vec<_>>().join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The broker is not on this host.
    #[error("{broker} is not installed; install it with: {install}")]
    NotInstalled {
        /// Its name.
        broker: &'static str,
        /// A command.
        install: &'static str,
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
pub trait Driver {
    /// As it is named on the command line and in folders.
    fn name(&self) -> &str;

    /// Whether it runs as a process of this host that the suite starts.
    fn is_local(&self) -> bool;

    /// Connections that it can hold on this host, as far as is known: a process that the suite
    /// starts has its limit of open files.
    fn connections_max(&self) -> u64 {
        open_files_max().saturating_sub(weir_load::FILES_RESERVED)
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
    ) -> Result<Running, DriverError>;
}

/// The driver of a name or a URL.
///
/// # Errors
/// A name that is none of [`names`], a URL that is not `mqtt://host:port`, with `name=` before and
/// `@pid` behind it where wanted.
pub fn parse(text: &str) -> Result<Box<dyn Driver>, DriverError> {
    if let Some((_, make)) = DRIVERS.iter().find(|(name, _)| *name == text) {
        return Ok(make());
    }
    if text.contains("://") {
        return Ok(Box::new(url::Url::parse(text)?));
    }
    Err(DriverError::Unknown { name: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_driver_of_that_name() {
        for name in names() {
            assert_eq!(parse(name).unwrap().name(), name);
        }
    }

    #[test]
    fn an_unknown_broker_is_told_the_known_ones() {
        let text = parse("mosquito").map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("\"mosquito\"") && text.contains("weir, mosquitto"), "{text}");
    }

    #[test]
    fn a_url_that_is_not_mqtt_host_port_is_refused_with_its_reason() {
        for (url, part) in [
            ("http://localhost", "mqtt://HOST:PORT"),
            ("mqtt://", "no host"),
            ("mqtt://127.0.0.1:70000", "port"),
            ("mqtt://127.0.0.1:", "port"),
        ] {
            let text = parse(url).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(part), "{url}: {text}");
        }
    }

    #[test]
    fn a_profile_reads_what_it_writes() {
        for profile in [Profile::Default, Profile::Tuned] {
            assert_eq!(profile.to_string().parse::<Profile>(), Ok(profile));
        }
        assert!("fast".parse::<Profile>().is_err());
    }
}
