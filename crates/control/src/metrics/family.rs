//! What a family of metrics is.

use Kind::{Counter, Gauge, Histogram};

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// How things stand.
    Gauge,
    /// How often things took how long.
    Histogram,
}

/// Samples of one meaning.
pub(super) struct Family {
    /// Without a suffix for counters.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// One sentence.
    pub(super) help: &'static str,
    /// Names of counters, and what tells their samples apart.
    pub(super) samples: &'static [(&'static str, &'static str)],
    /// The counters are microseconds, and the samples seconds.
    pub(super) is_us: bool,
}

impl Family {
    pub(super) fn sample_name(&self) -> String {
        match self.kind {
            Counter => format!("{}_total", self.name),
            Gauge | Histogram => self.name.to_owned(),
        }
    }
}

/// One of plain numbers.
pub(super) const fn family(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: &'static [(&'static str, &'static str)],
) -> Family {
    Family { name, kind, help, samples, is_us: false }
}

/// One of times: the counters are microseconds.
pub(super) const fn family_of_us(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: &'static [(&'static str, &'static str)],
) -> Family {
    Family { name, kind, help, samples, is_us: true }
}
