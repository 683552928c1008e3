//! Lengths of time as a person writes them.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A length of time: seconds, or text such as "500ms", "5s" or "2m".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// In seconds.
    pub seconds: f64,
}

impl Span {
    /// Reads `90`, `500ms`, `10s`, `5m` or `1h`.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let factor = match unit {
            "" | "s" => 1.0,
            "ms" => 1e-3,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(format!("unknown unit {unit:?}; use ms, s, m or h")),
        };
        let number: f64 = number.parse().map_err(|_| "write it as 10s, 5m or 1h".to_owned())?;
        Ok(Self { seconds: number * factor })
    }

    pub(super) fn millis(self) -> u64 {
        (self.seconds * 1e3).round() as u64
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a time: seconds, or text such as \"500ms\" or \"5s\"")]
        enum Written {
            Number(f64),
            Text(String),
        }
        let span = match Written::deserialize(deserializer)? {
            Written::Number(seconds) => Some(Self { seconds }),
            Written::Text(text) => Self::parse(&text).ok(),
        };
        let span = span.filter(|span| (0.0..=1e7).contains(&span.seconds));
        span.ok_or_else(|| D::Error::custom("a time is written as 500ms, 5s, 2m or 1h"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let read = |text: &str| Span::parse(text).ok().map(|span| span.seconds);
        assert_eq!(read("500ms"), Some(0.5));
        assert_eq!(read("90"), Some(90.0));
        assert_eq!(read("1.5m"), Some(90.0));
        assert_eq!(read("5 parsecs"), None);
        assert_eq!(read("s"), None);
    }
}
