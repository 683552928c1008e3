//! The versions of the standard.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A version, by the name that tables and reports give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    /// MQTT 3.1, whose text numbers no statement.
    #[serde(rename = "3.1")]
    V31,
    /// MQTT 3.1.1.
    #[serde(rename = "3.1.1")]
    V311,
    /// MQTT 5.0.
    #[serde(rename = "5.0")]
    V5,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Self; 3] = [Self::V31, Self::V311, Self::V5];

    /// As tables write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V31 => "3.1",
            Self::V311 => "3.1.1",
            Self::V5 => "5.0",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
