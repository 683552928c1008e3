//! The use cases that are built in.

use super::file::{SETS, UseCase, UseCaseError};
use crate::lines::wrap;
use crate::near;
use std::fmt::Write as _;
use std::io::Read as _;

/// Longest use case read from standard input.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A use case with all that can be written in one, explained: `weir bench new` prints it.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The JSON schema of the file.
pub const SCHEMA: &str = include_str!("schema.json");

macro_rules! files {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../../usecases/", $name, ".toml"))),)*]
    };
}

/// Every file of `usecases/`, in the order of the sets.
pub(super) const FILES: &[(&str, &str)] = files![
    "singlenode-conn-tcp-10K-100",
    "singlenode-fanout-1-1K-1-1K",
    "singlenode-p2p-1K-1K-1K-1K",
    "singlenode-sharedsub-1K-5-1K-1K",
    "singlenode-conn-tcp-1M-5K",
    "singlenode-fanout-5-1000-5-250K",
    "singlenode-p2p-50K-50K-50K-50K",
    "singlenode-sharedsub-50K-500-50K-50K",
    "singlenode-throughput-20-1000-20-2M",
    "singlenode-conn-tcp-15K-2500",
    "singlenode-fanout-2-1000-2-100K",
    "singlenode-fanout-qos0-5-1000-5-250K",
    "singlenode-throughput-10-1000-10-1M",
    "singlenode-p2p-1K-1K-1K-50K",
    "singlenode-p2p-9K-9K-9K-10K",
    "singlenode-p2p-9K-9K-9K-50K",
    "singlenode-sharedsub-9K-500-9K-50K",
    "singlenode-ingest-1K-10-1K-200K",
    "singlenode-ingest-qos1-1K-10-1K-20K",
    "singlenode-conn-tls-10K-200",
    "singlenode-conn-tls-resumed-10K-200",
    "singlenode-conn-tls-mtls-10K-200",
    "singlenode-conn-tls-100K-500",
    "singlenode-fanout-tls-5-1000-5-250K",
    "singlenode-fanout-ws-5-1000-5-250K",
    "singlenode-p2p-tls-1K-1K-1K-1K",
    "singlenode-p2p-ws-1K-1K-1K-1K",
    "singlenode-ingest-tls-1K-10-1K-200K",
    "singlenode-ingest-ws-1K-10-1K-200K",
    "singlenode-throughput-tls-20-1000-20-2M",
    "singlenode-p2p-rules-1K-1K-1K-1K",
    "reconnect-storm-passwords",
    "durable-p2p-1K-1K-1K-10K",
    "durable-p2p-1K-1K-1K-50K",
    "durable-p2p-qos2-1K-1K-1K-10K",
    "durable-p2p-qos2-1K-1K-1K-50K",
    "durable-offline-queue-1M",
    "durable-restart-100K",
    "composite",
    "ingest-json",
    "content-filters",
    "mixed-qos",
    "large-payloads",
    "wildcards-100K",
    "sharedsub-skew",
    "slow-consumers",
    "retained-storm",
    "will-storm",
    "takeover-storm",
    "reconnect-storm",
    "offline-queue",
    "churn",
    "soak",
    "fault-freeze",
    "fault-kill",
    "fault-network",
    "fault-half-open",
    "cluster-p2p-1K-1K-1K-1K",
    "cluster-fanout-2-1000-2-20K",
    "cluster-sharedsub-1K-6-1K-1K",
    "cluster-kill",
    "cluster-kill-100K",
    "cluster-freeze-3s",
    "cluster-freeze-10s",
    "cluster-rolling-restart",
];

/// All of them, read.
pub(crate) fn all() -> Vec<UseCase> {
    // A test reads them all; a file that is wrong does not get here.
    FILES.iter().filter_map(|(name, text)| UseCase::parse(name, text).ok()).collect()
}

/// The use cases of a set, in its order.
///
/// # Errors
/// No such set.
pub fn set(name: &str) -> Result<Vec<UseCase>, UseCaseError> {
    let wanted = name.to_lowercase();
    let found: Vec<UseCase> = all().into_iter().filter(|use_case| use_case.set == wanted).collect();
    if found.is_empty() {
        let is_use_case = UseCase::builtin(name).is_ok();
        return Err(UseCaseError::UnknownSet { name: name.into(), is_use_case });
    }
    Ok(found)
}

impl UseCase {
    /// A use case by name, or from a file where `text` ends in `.toml` or holds a `/`, or from
    /// standard input for `-`.
    ///
    /// # Errors
    /// No such name, or a file that is not a use case.
    pub fn resolve(text: &str) -> Result<Self, UseCaseError> {
        if text == "-" {
            let mut text = String::new();
            let read = std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text);
            let path = "standard input";
            return match read {
                Ok(_) => Self::parse(path, &text),
                Err(error) => Err(UseCaseError::Read { path: path.into(), why: error.to_string() }),
            };
        }
        let is_path = text.ends_with(".toml") || text.contains('/');
        if is_path { Self::from_path(text) } else { Self::builtin(text) }
    }

    /// The use case of this name that is built in, in any case, with or without
    /// `singlenode-`, `sharesub` or `sharedsub`.
    ///
    /// # Errors
    /// No such name, with the nearest.
    pub fn builtin(name: &str) -> Result<Self, UseCaseError> {
        let wanted = plain(name);
        let mut all = all();
        if let Some(at) = all.iter().position(|use_case| plain(&use_case.name) == wanted) {
            return Ok(all.swap_remove(at));
        }
        let names: Vec<String> = all.iter().map(|use_case| plain(&use_case.name)).collect();
        let found = near::nearest(&wanted, names.iter().map(String::as_str));
        let at = names.iter().position(|name| Some(name.as_str()) == found);
        let nearest = at.map(|at| all.swap_remove(at).name);
        Err(UseCaseError::Unknown { name: name.into(), nearest })
    }

    /// A use case from a file of the user's.
    ///
    /// # Errors
    /// The file cannot be read, or is not a use case.
    pub fn from_path(path: &str) -> Result<Self, UseCaseError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| UseCaseError::Read { path: path.into(), why: error.to_string() })?;
        Self::parse(path, &text)
    }
}

/// One spelling of a name: without `singlenode-`, in lower case, `sharesub` as `sharedsub`.
fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let name = name.strip_prefix("singlenode-").unwrap_or(&name);
    name.replace("sharesub", "sharedsub")
}

/// What `weir bench list` prints.
pub fn list() -> String {
    let mut text = String::new();
    let all = all();
    for set in SETS {
        let _ = writeln!(text, "{set}");
        for use_case in all.iter().filter(|use_case| use_case.set == set) {
            let name = format!("  {:<38} ", use_case.name);
            wrap(&mut text, &name, &" ".repeat(name.len()), &use_case.about);
        }
    }
    text += "\nNames are accepted in any case and without `singlenode-`.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_is_named_as_its_use_case() {
        for (name, text) in FILES {
            let use_case = UseCase::parse(name, text).unwrap();
            assert_eq!(use_case.name, *name);
            if SETS[..4].contains(&use_case.set.as_str()) {
                assert_eq!(use_case.keep_alive_s, 300);
                assert!(use_case.clean_start);
                assert!(use_case.step.is_empty() && use_case.needs.is_empty());
            }
        }
    }

    #[test]
    fn the_list_is_as_wide_as_a_terminal() {
        crate::lines::assert_fits(&list());
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_list() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../usecases");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut listed: Vec<String> =
            FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        listed.sort();
        assert_eq!(names, listed);
    }

    #[test]
    fn names_are_accepted_in_their_spellings() {
        for name in
            ["singlenode-sharedsub-1K-5-1K-1K", "SHARESUB-1k-5-1k-1k", "sharedsub-1K-5-1K-1K"]
        {
            assert_eq!(UseCase::builtin(name).unwrap().name, "singlenode-sharedsub-1K-5-1K-1K");
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_nearest() {
        let text = UseCase::builtin("p2p-1k-1k").unwrap_err().to_string();
        assert!(text.contains("singlenode-p2p-1K-1K-1K-1K"), "{text}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let text = FILES[0].1.replace("revision = 1", "revision = 1\nrevison = 2");
        let error = UseCase::parse("my.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:5: ") && error.contains("revison"), "{error}");
    }

    #[test]
    fn the_sets_have_their_use_cases() {
        let count = |name| set(name).unwrap().len();
        assert_eq!((count("basic"), count("enterprise"), count("Throughput")), (4, 4, 1));
        assert_eq!(SETS.map(count).iter().sum::<usize>(), FILES.len());
        let error = set("nonsense").unwrap_err().to_string();
        assert!(SETS.iter().all(|name| error.contains(name)), "{error}");
    }
}
