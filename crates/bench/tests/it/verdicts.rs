//! The verdicts on noise whose truth is known: how often equals are told apart, and how often a
//! real difference is found. Every number follows from a seed.

use weir_bench::stats::{Better, Standing, judge, paired, unpaired};
use weir_chance::Chance;

const TRIALS: u64 = 1_000;
/// Of 1,000 trials at 5 %, three standard errors more would be 71.
const FALSE_MAX: usize = 70;
const SHARE: f64 = 0.05;

/// What a figure is multiplied by.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// About 3 %, as CPU a message has.
    Even,
    /// About 20 % to one side, as a p99 has.
    Skewed,
    /// About 3 %, and one run of ten two to four times as slow: a host that does something else.
    Pauses,
}

fn normal(chance: &mut Chance) -> f64 {
    // Box and Muller; the first number is never 0.
    let radius = (-2.0 * (1.0 - chance.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * chance.unit()).cos()
}

impl Noise {
    fn draw(self, chance: &mut Chance) -> f64 {
        match self {
            Self::Even => (0.03 * normal(chance)).exp(),
            Self::Skewed => (0.2 * normal(chance).abs()).exp(),
            Self::Pauses if chance.below(10) == 0 => 2.0 + 2.0 * chance.unit(),
            Self::Pauses => (0.03 * normal(chance)).exp(),
        }
    }
}

/// Rounds of two figures, the second `factor` times the first but for the noise; each round has a
/// drift of its own.
fn rounds(noise: Noise, repeats: usize, factor: f64, chance: &mut Chance) -> Vec<(f64, f64)> {
    let mut round = || {
        let drift = 1.0 + 0.3 * chance.unit();
        (drift * noise.draw(chance), drift * factor * noise.draw(chance))
    };
    (0..repeats).map(|_| round()).collect()
}

fn count(
    noise: Noise,
    repeats: usize,
    factor: f64,
    is_paired: bool,
    wanted: fn(Standing) -> bool,
) -> usize {
    let trial = |seed: &u64| {
        let mut chance = Chance::new(*seed);
        let rounds = rounds(noise, repeats, factor, &mut chance);
        let ratio = if is_paired {
            paired(&rounds, SHARE, *seed)
        } else {
            let (one, other): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
            unpaired(&one, &other, SHARE, *seed)
        };
        wanted(judge(&ratio.unwrap(), 0.03, Better::Less))
    };
    (0..TRIALS).filter(trial).count()
}

fn is_different(standing: Standing) -> bool {
    matches!(standing, Standing::Better | Standing::Worse)
}

#[test]
fn equals_are_told_apart_in_at_most_one_of_twenty() {
    for noise in [Noise::Even, Noise::Skewed, Noise::Pauses] {
        for repeats in [3, 5, 10] {
            for is_paired in [true, false] {
                let found = count(noise, repeats, 1.0, is_paired, is_different);
                println!("{noise:?}, {repeats} repeats, paired {is_paired}: {found} of {TRIALS}");
                assert!(found <= FALSE_MAX, "{noise:?}, {repeats}, {is_paired}: {found}");
            }
        }
    }
}

#[test]
fn a_tenth_more_is_found_and_is_never_called_less() {
    let found = count(Noise::Even, 10, 1.1, true, |of| of == Standing::Worse);
    assert!(found >= 990, "{found} of {TRIALS}");
    let found = count(Noise::Even, 5, 1.1, true, |of| of == Standing::Worse);
    assert!(found >= 850, "{found} of {TRIALS}");
    let wrong = count(Noise::Even, 5, 1.1, true, |of| {
        matches!(of, Standing::Better | Standing::NoDifference)
    });
    assert!(wrong <= 2, "{wrong} of {TRIALS}");
}

#[test]
fn equals_with_little_noise_are_called_equal() {
    let found = count(Noise::Even, 40, 1.0, true, |of| of == Standing::NoDifference);
    assert!(found >= 900, "{found} of {TRIALS}");
}

#[test]
fn a_pair_of_equals_has_a_false_verdict_in_at_most_one_of_twenty() {
    const METRICS: u64 = 5;
    let pairs = (0..200u64).filter(|pair| {
        (0..METRICS).any(|metric| {
            let seed = pair * METRICS + metric;
            let mut chance = Chance::new(seed);
            let rounds = rounds(Noise::Even, 5, 1.0, &mut chance);
            let ratio = paired(&rounds, SHARE / METRICS as f64, seed).unwrap();
            is_different(judge(&ratio, 0.03, Better::Less))
        })
    });
    let found = pairs.count();
    assert!(found <= 18, "{found} of 200 pairs");
}
