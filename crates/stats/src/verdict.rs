//! From an interval to a word.

use super::interval::Ratio;
use serde::{Deserialize, Serialize};

/// Fewer repeats have no interval worth the name.
pub const REPEATS_MIN: usize = 3;

/// Which way a figure is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Costs and waiting times.
    Less,
    /// Rates.
    More,
}

/// What can be said of one side by the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Surely different, and by more than what matters, to the good.
    Better,
    /// The same to the bad.
    Worse,
    /// Surely closer than what matters.
    NoDifference,
    /// The repeats do not tell.
    TooNoisy,
}

impl Standing {
    /// As it is written for a person.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference",
            Self::TooNoisy => "too noisy",
        }
    }
}

/// Judges a ratio. `relevant` is the smallest difference that matters, as a share: 0.03 is 3 %
/// more, or as much less that the other has 3 % more.
///
/// Different takes both: an interval without 1, and an estimate beyond what matters. Equal takes an
/// interval that lies within what matters. What is left is too noisy: with more repeats it becomes
/// one of the others.
pub fn judge(ratio: &Ratio, relevant: f64, better: Better) -> Standing {
    let edge = 1.0 + relevant;
    let interval = ratio.interval;
    if interval.low > 1.0 / edge && interval.high < edge {
        return Standing::NoDifference;
    }
    let (is_more, is_less) = (
        interval.low > 1.0 && ratio.ratio >= edge,
        interval.high < 1.0 && ratio.ratio <= 1.0 / edge,
    );
    match (is_more, is_less, better) {
        (true, _, Better::Less) | (_, true, Better::More) => Standing::Worse,
        (true, _, Better::More) | (_, true, Better::Less) => Standing::Better,
        (false, false, _) => Standing::TooNoisy,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Interval;
    use super::*;

    fn judged(low: f64, ratio: f64, high: f64) -> (Standing, Standing) {
        let ratio = Ratio { ratio, interval: Interval { low, high }, pairs: 5 };
        (judge(&ratio, 0.05, Better::Less), judge(&ratio, 0.05, Better::More))
    }

    #[test]
    fn a_verdict_needs_certainty_and_size() {
        use Standing::{Better, NoDifference, TooNoisy, Worse};
        assert_eq!(judged(1.06, 1.1, 1.14), (Worse, Better));
        assert_eq!(judged(0.8, 0.9, 0.94), (Better, Worse));
        assert_eq!(judged(1.01, 1.1, 1.2), (Worse, Better));
        assert_eq!(judged(0.99, 1.1, 1.2), (TooNoisy, TooNoisy));
        assert_eq!(judged(0.97, 1.0, 1.03), (NoDifference, NoDifference));
        // Surely more, and surely not by what matters.
        assert_eq!(judged(1.01, 1.02, 1.03), (NoDifference, NoDifference));
        // Surely more, and perhaps by what matters.
        assert_eq!(judged(1.01, 1.04, 1.07), (TooNoisy, TooNoisy));
        assert_eq!(judged(1.2, 1.2, 1.2), (Worse, Better));
    }
}
