//! The use case of a step: the file of the original with its rates, or its numbers of clients,
//! changed. It is a whole file again, so a step can be run by itself.

use crate::usecase::{UseCase, UseCaseError, scale};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use toml::{Table, Value};

/// What grows from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Messages published a second, in all.
    Rate,
    /// Clients of all groups that scale; what each publishes stays.
    Connections,
    /// Clients that subscribe, of groups that scale; the publishers stay.
    Subscribers,
}

impl What {
    /// As it is written and read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Connections => "connections",
            Self::Subscribers => "subscribers",
        }
    }

    /// What is counted, for a table.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Rate => "published/s",
            Self::Connections => "connections",
            Self::Subscribers => "subscribers",
        }
    }

    /// Whether there is nothing between two steps.
    pub const fn is_whole(self) -> bool {
        !matches!(self, Self::Rate)
    }
}

impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Rate, Self::Connections, Self::Subscribers]
            .into_iter()
            .find(|what| what.name() == text)
            .ok_or_else(|| "a ladder can go by rate, connections or subscribers".into())
    }
}

/// Why a use case has no such ladder.
#[derive(Debug, thiserror::Error)]
pub(super) enum RungError {
    /// Nothing to change.
    #[error("{name} has no {what} to increase: {why}; see --what")]
    Nothing {
        /// The use case.
        name: String,
        /// What was asked for.
        what: What,
        /// What it has not.
        why: &'static str,
    },
    /// The use case as changed is none.
    #[error("the step's use case: {0}")]
    UseCase(#[from] UseCaseError),
    /// The file is not what it was when it was read.
    #[error("the use case's file cannot be changed: {0}")]
    File(String),
}

/// How much of `what` the use case has at `size` of its own scale.
///
/// # Errors
/// It has none of it.
pub(super) fn base(use_case: &UseCase, what: What, size: f64) -> Result<f64, RungError> {
    let scaled = scale(use_case, size, u64::MAX)?;
    let groups = use_case.group.iter().zip(&scaled.clients).filter(|(group, _)| group.scales);
    let (value, why) = match what {
        What::Rate => (scaled.publish_rate(), "it publishes nothing"),
        What::Connections => (
            groups.map(|(_, &clients)| f64::from(clients)).sum(),
            "no group has clients that \
                scale",
        ),
        What::Subscribers => (
            groups
                .filter(|(group, _)| !group.subscriptions.is_empty())
                .map(|(_, &clients)| f64::from(clients))
                .sum(),
            "no group has subscribers that scale",
        ),
    };
    if value > 0.0 {
        return Ok(value);
    }
    Err(RungError::Nothing { name: use_case.name.clone(), what, why })
}

/// The use case with `factor` times as much of `what`.
///
/// # Errors
/// A factor that makes no use case of it.
pub(super) fn rung(use_case: &UseCase, what: What, factor: f64) -> Result<UseCase, RungError> {
    let file = |error: toml::de::Error| RungError::File(error.message().to_owned());
    let mut table: Table = use_case.text.parse().map_err(file)?;
    let groups = table.get_mut("group").and_then(Value::as_array_mut);
    for group in groups.into_iter().flatten().filter_map(Value::as_table_mut) {
        match what {
            What::Rate => {
                let publish = group.get_mut("publish").and_then(Value::as_table_mut);
                let Some(publish) = publish else { continue };
                for key in ["rate_per_s", "rate_to_per_s"] {
                    if let Some(rate) = publish.get_mut(key) {
                        *rate = Value::Float(number(rate) * factor);
                    }
                }
            }
            What::Connections => multiply_clients(group, factor),
            What::Subscribers => {
                let subscriptions = group.get("subscriptions").and_then(Value::as_array);
                if subscriptions.is_some_and(|all| !all.is_empty()) {
                    multiply_clients(group, factor);
                }
            }
        }
    }
    let text = toml::to_string(&table).map_err(|error| RungError::File(error.to_string()))?;
    let head = format!("# {}, {what} times {factor:.4}: a step of a ladder.\n", use_case.name);
    Ok(UseCase::parse(&use_case.name, &(head + &text))?)
}

/// Whole and fractional numbers are one in a file.
fn number(value: &Value) -> f64 {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).unwrap_or(0.0)
}

fn multiply_clients(group: &mut Table, factor: f64) {
    let is_scaled = group.get("scales").and_then(Value::as_bool).unwrap_or(false);
    if let Some(clients) = group.get_mut("clients").filter(|_| is_scaled) {
        *clients = Value::Integer((number(clients) * factor).round().max(1.0) as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_case(name: &str) -> UseCase {
        UseCase::builtin(name).unwrap()
    }

    #[test]
    fn every_built_in_use_case_has_rungs_of_what_it_has() {
        for use_case in crate::usecase::all() {
            for what in [What::Rate, What::Connections, What::Subscribers] {
                let Ok(before) = base(&use_case, what, 1.0) else { continue };
                for factor in [0.5, 1.0, 3.0] {
                    let step = rung(&use_case, what, factor).unwrap();
                    let after = base(&step, what, 1.0).unwrap();
                    let wanted = before * factor;
                    assert!((after - wanted).abs() <= wanted * 0.001 + 2.0, "{}", use_case.name);
                    assert_eq!((&step.name, step.revision), (&use_case.name, use_case.revision));
                    assert_ne!(step.sha256(), use_case.sha256(), "another file, another hash");
                }
            }
        }
    }

    #[test]
    fn a_rate_leaves_clients_and_clients_leave_the_rest() {
        let fanout = use_case("fanout-5-1000-5-250K");
        let faster = rung(&fanout, What::Rate, 1.7).unwrap();
        assert!((base(&faster, What::Rate, 1.0).unwrap() - 425.0).abs() < 1e-6);
        assert_eq!(base(&faster, What::Subscribers, 1.0).unwrap(), 1_000.0);
        let wider = rung(&fanout, What::Subscribers, 2.0).unwrap();
        assert_eq!(base(&wider, What::Rate, 1.0).unwrap(), 250.0);
        assert_eq!(base(&wider, What::Connections, 1.0).unwrap(), 2_000.0);
        let pairs = rung(&use_case("p2p-1K-1K-1K-1K"), What::Connections, 0.25).unwrap();
        assert_eq!(base(&pairs, What::Connections, 1.0).unwrap(), 500.0);
        assert_eq!(base(&pairs, What::Rate, 1.0).unwrap(), 250.0);
        assert_eq!(base(&pairs, What::Rate, 0.1).unwrap(), 25.0);
    }

    #[test]
    fn what_is_not_there_cannot_be_climbed() {
        let error = base(&use_case("conn-tcp-10K-100"), What::Rate, 1.0).unwrap_err().to_string();
        assert!(error.contains("conn-tcp-10K-100 has no rate to increase"), "{error}");
        assert!("speed".parse::<What>().unwrap_err().contains("rate, connections or"));
    }
}
