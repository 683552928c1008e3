//! The numbered statements of the standards, in our own words.

use crate::Version;
use serde::Deserialize;

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The standard it stands in.
    pub version: Version,
    /// As `MQTT-3.1.0-1`.
    pub id: String,
    /// Whom it binds.
    pub binds: Binds,
    /// What it says, in short.
    pub summary: String,
    /// Why no table can test it.
    pub untestable: Option<String>,
}

/// Whom a statement binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binds {
    /// The server.
    Server,
    /// The client.
    Client,
    /// Whoever sends or receives.
    Both,
}

impl Binds {
    /// As the tables write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Both => "both",
        }
    }

    /// Whether a broker has to keep it.
    pub const fn binds_server(self) -> bool {
        !matches!(self, Self::Client)
    }
}

impl Statement {
    /// As `5.0:MQTT-3.1.0-1`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.version, self.id)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "statement")]
    statements: Vec<Statement>,
}

/// Every numbered statement of 3.1.1 and 5.0, in the order of the standards.
///
/// # Panics
/// Never: the list is part of the program, and a test reads it.
pub fn statements() -> Vec<Statement> {
    let text = include_str!("../statements.toml");
    let file: File = toml::from_str(text).expect("the list of statements is part of the program");
    file.statements
}
