//! Repeats of one figure, described.

use serde::{Deserialize, Serialize};

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
}
