//! One step of a case: its text, and what it says.

use crate::token::{Fragments, Token, parse};

/// Longest time a step may pass, in milliseconds.
const WAIT_MS_MAX: u64 = 10_000;

/// A step, with its text for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) act: Act,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Bytes go out, at once or one by one.
    Send {
        name: String,
        bytes: Vec<Token>,
        singly: bool,
    },
    /// The next packet matches one of these.
    Expect {
        name: String,
        patterns: Vec<Vec<Token>>,
        in_any_order: bool,
    },
    /// Nothing waits.
    Quiet {
        name: String,
    },
    /// The broker ends the connection; a packet before that matches.
    Ends {
        name: String,
        patterns: Vec<Vec<Token>>,
    },
    /// The broker answers with a packet like this, or ends the connection.
    EndsOr {
        name: String,
        patterns: Vec<Vec<Token>>,
    },
    /// The client ends the connection.
    Cut {
        name: String,
    },
    Wait {
        millis: u64,
    },
}

impl Step {
    pub(crate) fn parse(text: &str, fragments: &Fragments) -> Result<Self, String> {
        let (name, rest) =
            text.trim().split_once(char::is_whitespace).ok_or("a step has two words")?;
        let rest = rest.trim();
        let act = if name == "wait" {
            let millis = rest.strip_suffix("ms").and_then(|digits| digits.parse().ok());
            let seconds = rest.strip_suffix('s').and_then(|digits| digits.parse::<u64>().ok());
            let millis = millis.or(seconds.map(|seconds| seconds * 1000));
            let millis = millis.filter(|&millis| millis <= WAIT_MS_MAX);
            Act::Wait { millis: millis.ok_or("wait needs a time such as 1500ms, at most 10s")? }
        } else {
            check_name(name)?;
            Self::act(name.to_owned(), rest, fragments)?
        };
        Ok(Self { text: text.trim().to_owned(), act })
    }

    fn act(name: String, rest: &str, fragments: &Fragments) -> Result<Act, String> {
        let (verb, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let patterns = |text| parse(text, fragments);
        match verb {
            ">" | ">1" => {
                let mut alternatives = patterns(rest)?;
                match (alternatives.pop(), alternatives.is_empty()) {
                    (Some(bytes), true) => Ok(Act::Send { name, bytes, singly: verb == ">1" }),
                    _ => Err("bytes to send have no alternatives".into()),
                }
            }
            "<" | "<~" if rest.is_empty() => Err("a packet is missing".into()),
            "<" => Ok(Act::Expect { name, patterns: patterns(rest)?, in_any_order: false }),
            "<~" => Ok(Act::Expect { name, patterns: patterns(rest)?, in_any_order: true }),
            "quiet" if rest.is_empty() => Ok(Act::Quiet { name }),
            "cut" if rest.is_empty() => Ok(Act::Cut { name }),
            "ends" if rest.is_empty() => Ok(Act::Ends { name, patterns: Vec::new() }),
            "ends-or" => Ok(Act::EndsOr { name, patterns: patterns(rest)? }),
            "ends" => Ok(Act::Ends { name, patterns: patterns(rest)? }),
            _ => Err(format!("`{verb}` is no step")),
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric());
    if is_name { Ok(()) } else { Err(format!("`{name}` is no name of a connection")) }
}
