//! The numbered statements of the standards, and whom each binds.

use crate::Version;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The ids, one per line in the order of the standards: `5.0:MQTT-3.1.0-1`.
const IDS: &str = include_str!("../statement-ids.txt");
const STATEMENTS: &str = include_str!("../statements.toml");

/// A numbered statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The version whose standard has it.
    pub version: Version,
    /// As printed there: `MQTT-3.1.0-1`.
    pub id: String,
    /// Whom it binds.
    pub binds: Binds,
    /// What it says, in our own words.
    pub summary: String,
    /// Why no table can test it, where it binds a server.
    pub untestable: Option<String>,
}

/// Whom a statement binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binds {
    /// Servers only.
    Server,
    /// Clients only.
    Client,
    /// Servers and clients alike.
    Both,
    /// Whoever sends a packet of that form, and the server as the one that checks it.
    Packet,
}

impl Binds {
    /// Whether a server can break it.
    pub const fn is_servers(self) -> bool {
        !matches!(self, Self::Client)
    }

    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Both => "both",
            Self::Packet => "packet",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    binds: Binds,
    summary: String,
    untestable: Option<String>,
}

impl Statement {
    /// As `5.0:MQTT-3.1.0-1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.version, self.id)
    }
}

/// All of them, in the order of the standards. MQTT 3.1 numbers none.
///
/// # Panics
/// Never in a build whose tests passed: the text is part of the program.
pub fn statements() -> Vec<Statement> {
    let mut known = raw();
    let statement = |(version, id): (Version, &str)| {
        let raw = known.get_mut(&version).and_then(|ids| ids.remove(id));
        let Raw { binds, summary, untestable } = raw.expect("every id has its statement");
        Statement { version, id: id.into(), binds, summary, untestable }
    };
    ids().map(statement).collect()
}

fn raw() -> BTreeMap<Version, BTreeMap<String, Raw>> {
    toml::from_str(STATEMENTS).expect("the statements are TOML of their form")
}

/// Every version and id, in the order of the standards.
fn ids() -> impl Iterator<Item = (Version, &'static str)> {
    IDS.lines().filter_map(parse)
}

/// Reads `5.0:MQTT-3.1.0-1`; nothing if that is no statement.
pub(crate) fn find(text: &str) -> Option<(Version, &'static str)> {
    let (version, id) = parse(text)?;
    ids().find(|known| *known == (version, id))
}

fn parse(text: &str) -> Option<(Version, &str)> {
    let (version, id) = text.split_once(':')?;
    let version = Version::ALL.into_iter().find(|known| known.name() == version)?;
    Some((version, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_one_statement_and_no_statement_is_without_id() {
        let listed: Vec<_> = ids().collect();
        assert_eq!(listed.len(), IDS.lines().count());
        let mut said: Vec<(Version, String)> = raw()
            .into_iter()
            .flat_map(|(version, ids)| ids.into_keys().map(move |id| (version, id)))
            .collect();
        let mut listed: Vec<(Version, String)> =
            listed.into_iter().map(|(version, id)| (version, id.to_owned())).collect();
        listed.sort();
        said.sort();
        assert_eq!(listed, said);
    }

    #[test]
    fn the_standards_number_139_and_252_statements() {
        let of = |version| statements().iter().filter(|known| known.version == version).count();
        assert_eq!((of(Version::V31), of(Version::V311), of(Version::V5)), (0, 139, 252));
    }

    #[test]
    fn a_summary_is_one_short_sentence() {
        for statement in statements() {
            let words = statement.summary.split_whitespace().count();
            assert!(words <= 15 && statement.summary.ends_with('.'), "{statement:?}");
        }
    }
}
