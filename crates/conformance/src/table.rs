//! A table: TOML to cases.

use crate::Version;
use crate::step::Step;
use crate::token::Fragments;
use serde::{Deserialize, Serialize};

/// One file of cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its cases, in the order of the file.
    pub cases: Vec<Case>,
}

/// A conversation in bytes, and the statements it proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Unique among all tables.
    pub name: String,
    /// Run once for each.
    pub versions: Vec<Version>,
    /// With their version, as `5.0:MQTT-3.1.0-1`.
    pub statements: Vec<String>,
    /// What must happen, in a line.
    pub about: String,
    /// What a broker has to offer for it.
    pub needs: Vec<Need>,
    /// Whether a broker that differs has failed.
    pub level: Level,
    pub(crate) steps: Vec<Step>,
}

/// How strong the standard's word is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// MUST.
    #[default]
    Must,
    /// SHOULD: a broker that differs has its reasons.
    Should,
}

/// Something a broker may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// QoS 2.
    Qos2,
    /// Retained messages.
    Retain,
    /// Filters with `+` and `#`.
    Wildcard,
    /// Shared subscriptions.
    Shared,
    /// Subscription identifiers.
    SubscriptionId,
    /// Topic aliases from clients.
    TopicAlias,
    /// The client's keep alive, for which a server may give another.
    ClientKeepAlive,
}

/// What is wrong with a table, and where.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Not the TOML that is expected.
    #[error("{file}:{line}: {message}")]
    Toml {
        /// The file.
        file: String,
        /// Its line.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A step or a key of a case.
    #[error("{file}: {case}: {place}: {message}")]
    Case {
        /// The file.
        file: String,
        /// The name of the case.
        case: String,
        /// A key, or the text of a step.
        place: String,
        /// What is wrong there.
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    fragments: Fragments,
    #[serde(default, rename = "case")]
    cases: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    versions: Vec<Version>,
    statements: Vec<String>,
    about: String,
    #[serde(default)]
    needs: Vec<Need>,
    #[serde(default)]
    level: Level,
    steps: Lines,
}

/// Steps as a list, or as the lines of one text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    List(Vec<String>),
    Text(String),
}

impl Lines {
    fn lines(&self) -> Vec<&str> {
        match self {
            Self::List(lines) => lines.iter().map(String::as_str).collect(),
            Self::Text(text) => text.lines().filter(|line| !line.trim().is_empty()).collect(),
        }
    }
}

impl Table {
    /// Reads the text of `file`, whose name is for errors only.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, TableError> {
        let read: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at].matches('\n').count() + 1;
            TableError::Toml { file: file.into(), line, message: error.message().into() }
        })?;
        let fragments = &read.fragments;
        let cases = read.cases.into_iter().map(|row| row.check(file, fragments)).collect();
        Ok(Self { cases: cases_of(cases)? })
    }
}

fn cases_of(cases: Vec<Result<Case, TableError>>) -> Result<Vec<Case>, TableError> {
    cases.into_iter().collect()
}

impl Row {
    fn check(self, file: &str, fragments: &Fragments) -> Result<Case, TableError> {
        let error = |place: &str, message: String| TableError::Case {
            file: file.into(),
            case: self.name.clone(),
            place: place.into(),
            message,
        };
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(is_part) {
            return Err(error("name", "lower case words joined by `-`".into()));
        }
        if self.versions.is_empty() || self.steps.lines().is_empty() {
            return Err(error("versions", "a case needs a version and a step".into()));
        }
        for statement in &self.statements {
            let is_of_case = self.versions.iter().any(|version| {
                statement.strip_prefix(version.name()).is_some_and(|id| id.starts_with(":MQTT-"))
            });
            if !is_of_case {
                let message = format!("`{statement}` is no VERSION:ID of a version of the case");
                return Err(error("statements", message));
            }
            if crate::statement::find(statement).is_none() {
                return Err(error("statements", format!("the standard has no `{statement}`")));
            }
        }
        let steps: Result<Vec<Step>, TableError> = self
            .steps
            .lines()
            .into_iter()
            .map(|text| Step::parse(text, fragments).map_err(|message| error(text, message)))
            .collect();
        Ok(Case {
            steps: steps?,
            name: self.name,
            versions: self.versions,
            statements: self.statements,
            about: self.about,
            needs: self.needs,
            level: self.level,
        })
    }
}

impl Case {
    /// The statements of one version.
    pub fn statements_of(&self, version: Version) -> impl Iterator<Item = &str> {
        let of_version =
            move |statement: &&String| statement.split(':').next() == Some(version.name());
        self.statements.iter().filter(of_version).map(String::as_str)
    }
}
