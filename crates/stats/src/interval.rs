//! The interval of a ratio, by round where rounds were shared.
//!
//! Each end is the farther of two: that of the percentile bootstrap, which knows the shape of what
//! was seen, and that of Student's t, which knows how little some repeats are. Alone the bootstrap
//! of five repeats finds a difference between equals in one case of six instead of one of twenty.
//!
//! A host that is shared takes a run away now and then. From eight repeats on, a fifth is left out
//! at either end, and t is that of a trimmed mean (Yuen, Biometrika 61, 1974).

use super::student::two_sided;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use weir_chance::Chance;

/// Resamples of a bootstrap, at least; a narrow share takes more.
pub const RESAMPLES: usize = 4_000;

/// Resamples beyond an end of the interval, so that the end itself is not chance.
const RESAMPLES_BEYOND: f64 = 10.0;

/// More than this say nothing more: Student's end is the farther one by then.
const RESAMPLES_MAX: usize = 40_000;

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// What one side's figure is by the other's: geometric means, so that a by b is one by b by a.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The estimate.
    pub ratio: f64,
    /// Where the true one lies but for the share that was allowed.
    pub interval: Interval,
    /// Rounds that both ran in; 0 where the sides ran apart.
    pub pairs: usize,
}

/// The ratio of the second to the first of each pair. Nothing of fewer than two pairs, or of a
/// value that is not above 0. `share` is the chance that the interval may miss, both ends together.
pub fn paired(pairs: &[(f64, f64)], share: f64, seed: u64) -> Option<Ratio> {
    let logs: Option<Vec<f64>> =
        pairs.iter().map(|&(one, other)| Some(log(other)? - log(one)?)).collect();
    let logs = logs.filter(|logs| logs.len() > 1)?;
    let sample = Sample::of(logs);
    let reach = two_sided(share, sample.freedom.floor()) * sample.error_squared.sqrt();
    let means = resample(share, seed, |chance| sample.resampled_mean(chance));
    let interval = union(sample.mean, reach, &means, share);
    Some(Ratio { ratio: sample.mean.exp(), interval, pairs: pairs.len() })
}

/// The ratio of the second sample to the first where they did not run in rounds together
/// (Welch's form of t: spreads may differ). Nothing of fewer than two values a side, or of a value
/// that is not above 0.
pub fn unpaired(one: &[f64], other: &[f64], share: f64, seed: u64) -> Option<Ratio> {
    let logs = |values: &[f64]| values.iter().map(|&value| log(value)).collect();
    let sides: [Option<Vec<f64>>; 2] = [logs(one), logs(other)];
    let [Some(one), Some(other)] = sides else { return None };
    if one.len() < 2 || other.len() < 2 {
        return None;
    }
    let [a, b] = [one, other].map(Sample::of);
    let difference = b.mean - a.mean;
    let error_squared = a.error_squared + b.error_squared;
    let share_of = |of: &Sample| of.error_squared.powi(2) / of.freedom;
    let freedom = error_squared.powi(2) / (share_of(&a) + share_of(&b));
    // Without any spread there is no reach either; down, so that the interval is not too narrow.
    let freedom = if freedom.is_finite() { freedom.floor() } else { 1.0 };
    let reach = two_sided(share, freedom) * error_squared.sqrt();
    let means = resample(share, seed, |chance| b.resampled_mean(chance) - a.resampled_mean(chance));
    let interval = union(difference, reach, &means, share);
    Some(Ratio { ratio: difference.exp(), interval, pairs: 0 })
}

fn log(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

/// Fewer values than these are all kept.
const TRIMMED_FROM: usize = 8;

/// Of so many values one is left out at either end.
const TRIMMED_OF: usize = 5;

/// A sample, its trimmed mean, and the square of that mean's standard error.
struct Sample {
    /// In order, those that are left out in the place of their neighbours: squares are of these,
    /// and what was left out is not drawn into the middle of a resample.
    values: Vec<f64>,
    mean: f64,
    error_squared: f64,
    freedom: f64,
}

impl Sample {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let kept = kept(values.len());
        let (low, high) = (values[kept.start], values[kept.end - 1]);
        for value in &mut values {
            *value = value.clamp(low, high);
        }
        let (centre, count) = (mean(&values), kept.len() as f64);
        let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
        Self {
            mean: mean(&values[kept]),
            error_squared: squares / (count - 1.0) / count,
            freedom: count - 1.0,
            values,
        }
    }

    fn resampled_mean(&self, chance: &mut Chance) -> f64 {
        let (count, kept) = (self.values.len(), kept(self.values.len()));
        let drawn = (0..count).map(|_| self.values[chance.below(count)]);
        if kept.len() == count {
            return drawn.sum::<f64>() / count as f64;
        }
        let mut drawn: Vec<f64> = drawn.collect();
        drawn.sort_by(f64::total_cmp);
        mean(&drawn[kept])
    }
}

/// Of so many values in order, those that are not left out.
fn kept(count: usize) -> Range<usize> {
    let cut = if count < TRIMMED_FROM { 0 } else { count / TRIMMED_OF };
    cut..count - cut
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Estimates of as many resamples as the share needs, in order.
fn resample(share: f64, seed: u64, of: impl Fn(&mut Chance) -> f64) -> Vec<f64> {
    let needed = (RESAMPLES_BEYOND * 2.0 / share).ceil() as usize;
    let mut chance = Chance::new(seed);
    let mut estimates: Vec<f64> =
        (0..needed.clamp(RESAMPLES, RESAMPLES_MAX)).map(|_| of(&mut chance)).collect();
    estimates.sort_by(f64::total_cmp);
    estimates
}

/// The farther end on each side, back from logarithms.
fn union(estimate: f64, reach: f64, resampled: &[f64], share: f64) -> Interval {
    let beyond = (share / 2.0 * resampled.len() as f64).floor() as usize;
    let (low, high) = (resampled[beyond], resampled[resampled.len() - 1 - beyond]);
    Interval { low: low.min(estimate - reach).exp(), high: high.max(estimate + reach).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_take_out_what_both_saw() {
        // The machine drifts by a half; the second is 10 % above the first in every round.
        let drift = [1.0, 1.1, 1.2, 1.3, 1.5];
        let noise = [0.0, 0.01, -0.01, 0.005, -0.005];
        let pairs: Vec<(f64, f64)> = drift
            .iter()
            .zip(noise)
            .map(|(at, noise)| (at * 2.0, at * 2.2 * (1.0 + noise)))
            .collect();
        let together = paired(&pairs, 0.05, 1).unwrap();
        assert!((together.ratio - 1.1).abs() < 0.005, "{together:?}");
        assert!(together.interval.low > 1.08 && together.interval.high < 1.12, "{together:?}");
        let (one, other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let apart = unpaired(&one, &other, 0.05, 1).unwrap();
        assert!(apart.interval.low < 1.0 && apart.interval.high > 1.2, "{apart:?}");
        assert!((apart.ratio - together.ratio).abs() < 1e-9);
    }

    #[test]
    fn one_run_of_eight_that_the_host_took_away_widens_little() {
        let noise = [0.01, -0.01, 0.005, -0.005, 0.0, 0.002, -0.002, 0.003];
        let even: Vec<(f64, f64)> = noise.iter().map(|noise| (1.0, 1.1 * (1.0 + noise))).collect();
        let mut odd = even.clone();
        odd[4].1 *= 1.3;
        let width = |pairs: &[(f64, f64)]| {
            let interval = paired(pairs, 0.01, 1).unwrap().interval;
            interval.high - interval.low
        };
        assert!(width(&odd) < 2.0 * width(&even), "{} {}", width(&odd), width(&even));
        assert!((paired(&odd, 0.01, 1).unwrap().ratio - 1.1).abs() < 0.01);
        // Seven are too few to leave any out.
        assert!(width(&odd[..7]) > 5.0 * width(&even[..7]));
    }

    #[test]
    fn a_fifth_is_left_out_at_either_end_from_eight_on() {
        let expected = [(2, 0..2), (7, 0..7), (8, 1..7), (9, 1..8), (10, 2..8), (20, 4..16)];
        assert!(expected.iter().all(|(count, range)| kept(*count) == *range));
    }

    #[test]
    fn a_ratio_turned_around_is_its_inverse() {
        let pairs = [(1.0, 1.2), (1.1, 1.2), (0.9, 1.1)];
        let turned = pairs.map(|(one, other)| (other, one));
        let [one, other] = [paired(&pairs, 0.05, 3).unwrap(), paired(&turned, 0.05, 3).unwrap()];
        assert!((one.ratio * other.ratio - 1.0).abs() < 1e-9);
        assert!((one.interval.low * other.interval.high - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_seed_is_a_result_and_a_stricter_share_is_wider() {
        let pairs = [(1.0, 1.2), (1.1, 1.2), (0.9, 1.1), (1.0, 1.0)];
        assert_eq!(paired(&pairs, 0.05, 3), paired(&pairs, 0.05, 3));
        let strict = paired(&pairs, 0.001, 3).unwrap().interval;
        let usual = paired(&pairs, 0.05, 3).unwrap().interval;
        assert!(strict.low < usual.low && strict.high > usual.high);
    }

    #[test]
    fn no_spread_is_no_interval_and_what_is_not_above_zero_is_no_ratio() {
        let same = unpaired(&[2.0; 4], &[3.0; 4], 0.05, 1).unwrap();
        assert!((same.interval.low - 1.5).abs() < 1e-9 && (same.interval.high - 1.5).abs() < 1e-9);
        assert_eq!(paired(&[(1.0, 0.0), (1.0, 1.0)], 0.05, 1), None);
        assert_eq!(paired(&[(1.0, 1.0)], 0.05, 1), None);
        assert_eq!(unpaired(&[1.0], &[1.0, 2.0], 0.05, 1), None);
    }
}
