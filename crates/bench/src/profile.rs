//! How a broker is configured for a run: what a use case names, and every driver knows.

use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// How a broker is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// As shipped, but for the address it listens on and what lets clients in.
    Default,
    /// For the suite, each change with its reason.
    Tuned,
    /// As in the published runs of mqttbs, where their configuration is known.
    Published,
    /// As little as possible is lost in a crash, each change with its reason.
    Durable,
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::Default),
            "tuned" => Ok(Self::Tuned),
            "published" => Ok(Self::Published),
            "durable" => Ok(Self::Durable),
            _ => Err("a profile is default, tuned, published or durable".into()),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Default => "default",
            Self::Tuned => "tuned",
            Self::Published => "published",
            Self::Durable => "durable",
        })
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}
