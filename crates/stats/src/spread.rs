//! Repeats of one figure, described.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Median and both ends of some repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Middle value; of an even number the mean of the two in the middle.
    pub median: f64,
    /// Lowest.
    pub low: f64,
    /// Highest.
    pub high: f64,
    /// How many.
    pub count: usize,
}

impl Spread {
    /// Nothing of nothing; what is not finite is left out.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, low, high, count: values.len() })
    }

    /// Every repeat of one is above every repeat of the other. One repeat has no spread, and is
    /// above nothing.
    pub fn is_above(&self, other: &Self) -> bool {
        self.count > 1 && other.count > 1 && self.low > other.high
    }
}

/// `1.23 (1.20 to 1.31)`, or only the number where all are alike; with a precision as for a number.
impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = out.precision().unwrap_or(2);
        let [median, low, high] =
            [self.median, self.low, self.high].map(|value| format!("{value:.places$}"));
        if low == high { out.write_str(&median) } else { write!(out, "{median} ({low} to {high})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        let odd = Spread { median: 2.0, low: 1.0, high: 9.0, count: 3 };
        assert_eq!(of(&[9.0, 1.0, 2.0]), Some(odd));
        assert_eq!(of(&[4.0, 1.0, f64::NAN]).map(|spread| spread.median), Some(2.5));
        assert_eq!(of(&[f64::INFINITY]), None);
    }

    #[test]
    fn a_spread_is_written_with_its_ends_where_they_differ() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(format!("{spread}"), "2.00 (1.00 to 3.00)");
        assert_eq!(format!("{:.1}", Spread::of([1.0, 2.0]).unwrap()), "1.5 (1.0 to 2.0)");
        assert_eq!(format!("{:.0}", Spread::of([7.0, 7.1]).unwrap()), "7");
    }

    #[test]
    fn only_what_lies_wholly_above_is_above() {
        let of = |values: &[f64]| Spread::of(values.iter().copied()).unwrap();
        assert!(of(&[2.1, 3.0]).is_above(&of(&[1.0, 2.0])));
        assert!(!of(&[1.9, 3.0]).is_above(&of(&[1.0, 2.0])));
        assert!(!of(&[9.0]).is_above(&of(&[1.0, 2.0])));
        assert!(!of(&[9.0, 9.1]).is_above(&of(&[1.0])));
    }
}
