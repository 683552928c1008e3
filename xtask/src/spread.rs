//! Repeats of one figure.

use std::fmt;

/// Median, lowest and highest of some repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) count: usize,
}

impl Spread {
    /// Nothing of nothing.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
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
    pub(crate) fn is_above(&self, other: &Self) -> bool {
        self.count > 1 && other.count > 1 && self.low > other.high
    }
}

/// `1.23 (1.20 to 1.31)`; with a precision as for a number.
impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = out.precision().unwrap_or(2);
        write!(out, "{:.places$}", self.median)?;
        if self.count > 1 {
            write!(out, " ({:.places$} to {:.places$})", self.low, self.high)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(format!("{spread}"), "2.00 (1.00 to 3.00)");
        assert_eq!(format!("{:.1}", Spread::of([1.0, 2.0]).unwrap()), "1.5 (1.0 to 2.0)");
        assert_eq!(format!("{:.0}", Spread::of([7.0]).unwrap()), "7");
        assert_eq!(Spread::of([f64::NAN]), None);
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
