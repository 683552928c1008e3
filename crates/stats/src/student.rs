//! Quantiles of Student's t.

use std::f64::consts::FRAC_2_PI;

/// Beyond this many degrees of freedom the series grows long and the quantile no longer moves in
/// its third digit.
const FREEDOM_MAX: u32 = 1_000;

/// The t that is exceeded, either way, with the chance `share`; `share` is within 0 and 1, both
/// excluded. Between whole degrees of freedom, which samples that are alike leave, it is on the
/// line from one to the next; less than one degree is one.
pub fn two_sided(share: f64, freedom: f64) -> f64 {
    let below = freedom.clamp(1.0, f64::from(FREEDOM_MAX)).floor();
    let at = quantile(share, below as u32);
    let part = (freedom - below).clamp(0.0, 1.0);
    if part == 0.0 { at } else { at + part * (quantile(share, below as u32 + 1) - at) }
}

fn quantile(share: f64, freedom: u32) -> f64 {
    assert!(share > 0.0 && share < 1.0 && freedom > 0, "a level within 0 and 1, and a sample");
    let freedom = freedom.min(FREEDOM_MAX);
    let (mut inside, mut outside) = (0.0, 1.0);
    while within(outside, freedom) < 1.0 - share {
        // A share that a double can hold is reached after some hundred steps at most.
        (inside, outside) = (outside, outside * 2.0);
    }
    for _ in 0..100 {
        let middle = f64::midpoint(inside, outside);
        if within(middle, freedom) < 1.0 - share {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    outside
}

/// The chance of -t to t: the finite series for whole degrees of freedom (Abramowitz and Stegun,
/// 26.7.3 and 26.7.4).
fn within(t: f64, freedom: u32) -> f64 {
    let angle = (t / f64::from(freedom).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    // Odd: cos, 2/3 cos^3, ...; even: 1, 1/2 cos^2, ...; the last power is freedom - 2.
    let mut term = if is_odd { cos } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut power = if is_odd { 1 } else { 0 };
    while power + 2 <= freedom.saturating_sub(2) {
        term *= f64::from(power + 1) / f64::from(power + 2) * cos * cos;
        sum += term;
        power += 2;
    }
    if is_odd { FRAC_2_PI * (angle + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_printed_tables() {
        let table = [
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.05, 3, 3.182),
            (0.05, 4, 2.776),
            (0.01, 4, 4.604),
            (0.001, 4, 8.610),
            (0.05, 9, 2.262),
            (0.01, 9, 3.250),
            (0.001, 10, 4.587),
            (0.05, 120, 1.980),
            (0.05, 5_000, 1.962),
        ];
        for (share, freedom, wanted) in table {
            let found = two_sided(share, f64::from(freedom));
            assert!((found - wanted).abs() < 0.001, "{share} {freedom}: {found}");
        }
    }

    #[test]
    fn between_whole_degrees_the_quantile_is_between_theirs() {
        let [low, middle, high] = [7.0, 7.5, 8.0].map(|freedom| two_sided(0.05, freedom));
        assert!(low > middle && middle > high, "{low} {middle} {high}");
        assert_eq!(two_sided(0.05, 0.3), two_sided(0.05, 1.0));
    }
}
