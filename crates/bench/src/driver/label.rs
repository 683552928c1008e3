//! Names for brokers that have the same one: two versions, or two builds, are two brokers.

use super::{Demand, Driver, DriverError, Profile, Running, UrlTls, without_label};
use crate::result::Broker;
use crate::usecase::Needs;
use std::path::Path;
use weir_load::plan::Credentials;

/// Another driver under a name of its own.
struct Labelled {
    inner: Box<dyn Driver>,
    /// `NAME@LABEL`.
    name: String,
    /// What tables add to the broker's name; nothing where its version says it already.
    label: Option<String>,
}

impl Labelled {
    fn named(&self, broker: Broker) -> Broker {
        match &self.label {
            Some(label) => Broker { name: format!("{}@{label}", broker.name), ..broker },
            None => broker,
        }
    }
}

impl Driver for Labelled {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    fn is_restartable(&self) -> bool {
        self.inner.is_restartable()
    }

    fn connections_max(&self) -> u64 {
        self.inner.connections_max()
    }

    fn lacks(&self, needs: &Needs) -> Result<Option<String>, DriverError> {
        self.inner.lacks(needs)
    }

    fn nodes(&self, asked: u32) -> Result<u32, String> {
        self.inner.nodes(asked)
    }

    fn has(&self, profile: Profile) -> bool {
        self.inner.has(profile)
    }

    fn about(&self, profile: Profile) -> Result<Broker, DriverError> {
        Ok(self.named(self.inner.about(profile)?))
    }

    fn with_credentials(&self, credentials: &Credentials) -> Option<Box<dyn Driver>> {
        let inner = self.inner.with_credentials(credentials)?;
        let (name, label) = (self.name.clone(), self.label.clone());
        Some(Box::new(Self { name, label, inner }))
    }

    fn start_for(
        &self,
        demand: &Demand,
        profile: Profile,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        let mut running = self.inner.start_for(demand, profile, folder, core)?;
        running.broker = self.named(std::mem::take(&mut running.broker));
        Ok(running)
    }
}

/// The name and the label of `NAME@LABEL`, `NAME@LABEL=COMMAND` or `NAME@LABEL=URL`, and the text
/// without the label; nothing where there is none. An `@` in a URL is not one.
fn label(text: &str) -> Option<(&str, &str, String)> {
    let (head, rest) = text.split_at(text.find('=').unwrap_or(text.len()));
    let (name, label) = head.split_once('@').filter(|_| !head.contains("://"))?;
    Some((name, label, format!("{name}{rest}")))
}

/// The driver of a text as the command line has it, with its label.
///
/// # Errors
/// As [`super::parse`]; a label that is no word.
pub(super) fn parse(
    text: &str,
    weir: &Path,
    tls: Option<&UrlTls>,
) -> Result<Box<dyn Driver>, DriverError> {
    let Some((name, label, rest)) = label(text) else { return without_label(text, weir, tls) };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
    if label.is_empty() || !label.chars().all(is_word) {
        let why = "a label consists of letters, digits, - _ and .".to_owned();
        return Err(DriverError::Command { name: name.into(), why });
    }
    let (inner, label) = (without_label(&rest, weir, tls)?, label.to_owned());
    Ok(Box::new(Labelled { inner, name: format!("{name}@{label}"), label: Some(label) }))
}

/// Gives each broker a name of its own: one that is named like one before it is told apart by its
/// version, or where that is the same or not known, by its number.
pub(super) fn apart(brokers: Vec<Box<dyn Driver>>, profile: Profile) -> Vec<Box<dyn Driver>> {
    let mut apart: Vec<Box<dyn Driver>> = Vec::new();
    let version = |of: &dyn Driver| of.about(profile).map(|broker| broker.version).ok();
    for inner in brokers {
        let base = inner.name().to_owned();
        let before: Vec<_> =
            apart.iter().filter(|of| of.name().split('@').next() == Some(&*base)).collect();
        if !before.iter().any(|of| of.name() == base) {
            apart.push(inner);
            continue;
        }
        let number = (before.len() + 1).to_string();
        let own = version(&*inner).filter(|version| version != "unknown");
        let is_other = own.is_some() && before.iter().all(|of| version(&***of) != own);
        let (name, label) = match own.filter(|_| is_other) {
            Some(version) => (format!("{base}@{version}"), None),
            None => (format!("{base}@{number}"), Some(number)),
        };
        apart.push(Box::new(Labelled { inner, name, label }));
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_stands_between_the_name_and_what_is_run() {
        for (text, expected) in [
            ("weir@lto", Some(("weir", "lto", "weir"))),
            ("weir@old=/a/weir", Some(("weir", "old", "weir=/a/weir"))),
            ("a@b=mqtt://me:p=w@h", Some(("a", "b", "a=mqtt://me:p=w@h"))),
            ("mqtt://me:p=w@h", None),
            ("mqtt://me@h", None),
            ("a=mqtt://me@h", None),
            ("a=prog --to x@y", None),
        ] {
            let expected = expected.map(|(name, label, rest)| (name, label, rest.to_owned()));
            assert_eq!(label(text), expected, "{text}");
        }
        for wrong in ["weir@=x", "weir@a b", "weir@a/b=x"] {
            let error = parse(wrong, Path::new("weir"), None).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("a label consists of"), "{error}");
        }
    }

    #[test]
    fn a_label_is_in_the_name_of_driver_and_broker() {
        let driver = parse("mine@new=mqtt://127.0.0.1:1", Path::new("weir"), None).unwrap();
        assert_eq!(driver.name(), "mine@new");
        assert_eq!(driver.about(Profile::Default).unwrap().name, "mine@new");
    }

    /// A program that says its version as Mosquitto does.
    fn mosquitto(folder: &Path, version: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(version).join("mosquitto");
        std::fs::create_dir(folder.join(version)).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\necho mosquitto version {version}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        format!("mosquitto={}", path.display())
    }

    #[test]
    fn brokers_of_one_name_are_told_apart_by_version_or_number() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["2.0.11", "2.1.2"].map(|version| mosquitto(folder.path(), version));
        let texts = [&*old, &new, &old, "a=mqtt://127.0.0.1:1", "a=mqtt://127.0.0.1:2"];
        let parse = |text: &&str| parse(text, Path::new("weir"), None).unwrap();
        let brokers = apart(texts.iter().map(parse).collect(), Profile::Default);
        let names: Vec<&str> = brokers.iter().map(|of| of.name()).collect();
        assert_eq!(names, ["mosquitto", "mosquitto@2.1.2", "mosquitto@3", "a", "a@2"]);
        let title = |at: usize| brokers[at].about(Profile::Default).unwrap().name;
        assert_eq!([0, 1, 2].map(title), ["Mosquitto", "Mosquitto", "Mosquitto@3"]);
    }

    #[test]
    fn a_label_changes_nothing_but_the_name() {
        for text in
            ["mosquitto", "weir", "mine=mqtt://127.0.0.1:1?pid=1", "mine=mqtt://127.0.0.1:1"]
        {
            let (name, rest) = text.split_once('=').map_or((text, ""), |(name, rest)| (name, rest));
            let rest = if rest.is_empty() { String::new() } else { format!("={rest}") };
            let [plain, own] = [text.to_owned(), format!("{name}@x{rest}")]
                .map(|text| parse(&text, Path::new("weir"), None).unwrap());
            assert_eq!(own.name(), format!("{name}@x"));
            let of = |driver: &dyn Driver| {
                let has = [Profile::Default, Profile::Published].map(|of| driver.has(of));
                (driver.is_local(), driver.is_restartable(), driver.connections_max(), has)
            };
            assert_eq!(of(&*own), of(&*plain), "{text}");
            let credentials = Credentials { user_name: Some("me".into()), password: None };
            let [plain, own] = [plain, own].map(|driver| driver.with_credentials(&credentials));
            assert_eq!(own.is_some(), plain.is_some(), "{text}");
            assert!(own.is_none_or(|own| own.name() == format!("{name}@x")));
        }
    }
}
