//! Bans, as they are asked for and shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whom a ban keeps out, in the words of a file of bans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Whom {
    /// `address`, `client` or `user`.
    #[schemars(extend("enum" = ["address", "client", "user"]))]
    pub kind: String,
    /// Which: an address or a network, a client identifier, a user name.
    pub name: String,
}

/// A ban that is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ban {
    /// Whom it keeps out.
    #[serde(flatten)]
    pub whom: Whom,
    /// When it ends (RFC 3339); nothing is never.
    pub until: Option<String>,
    /// What it is for, as whoever added it has said.
    pub reason: Option<String>,
    /// What it comes from.
    pub by: By,
}

/// What a ban comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Somebody has added it.
    Ctl,
    /// The file of bans.
    File,
    /// Wrong passwords or tokens.
    Guesses,
    /// One client, which connects too often from there. Others come in.
    Flapping,
}

/// A ban to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBan {
    /// Whom it keeps out.
    pub whom: Whom,
    /// How long, in seconds; nothing is for ever.
    pub for_s: Option<u32>,
    /// What it is for.
    pub reason: Option<String>,
}

/// Some bans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BanPage {
    /// Those.
    pub bans: Vec<Ban>,
    /// Where to go on; nothing if that was all.
    pub next: Option<usize>,
}

/// A ban holds, or does not any more. What a restart makes of that is another thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Why a restart forgets it; nothing if it does not.
    pub not_kept: Option<String>,
}

/// Why bans stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// It is no ban; the text says why.
    Malformed(String),
    /// There is none of these.
    Unknown,
    /// The file of bans has it.
    InFile,
    /// There are so many that were added, and no room for more.
    Full(usize),
}
