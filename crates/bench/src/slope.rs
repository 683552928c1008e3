//! How fast something grows, with the interval that holds it: does a broker's memory climb?

use crate::monitor::Sample;
use crate::result::Slope;
use crate::stats::two_sided;

/// Points fewer than this say nothing of a slope.
const POINTS_MIN: usize = 10;

/// The slope of memory over the samples from `start_us` to `end_us`; nothing for too few.
pub fn of_memory(samples: &[Sample], start_us: u64, end_us: u64) -> Option<Slope> {
    let within = samples.iter().filter(|sample| (start_us..end_us).contains(&sample.at_us));
    let points: Vec<(f64, f64)> = within
        .filter(|sample| sample.rss_bytes > 0)
        .map(|sample| (sample.at_us.saturating_sub(start_us) as f64 / 1e6, sample.rss_bytes as f64))
        .collect();
    slope(&points)
}

/// Least squares of (seconds, value). Neighbouring samples of memory are alike, so each is worth
/// less than a point of its own: the interval is that of `n (1 - r) / (1 + r)` points, where `r` is
/// the correlation of each residual with the one before.
pub fn slope(points: &[(f64, f64)]) -> Option<Slope> {
    let n = points.len();
    if n < POINTS_MIN {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n as f64;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let sxx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let sxy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let per_s = sxy / sxx;
    let residuals: Vec<f64> =
        points.iter().map(|(x, y)| y - mean_y - per_s * (x - mean_x)).collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let r = if squares > 0.0 { (products / squares).clamp(0.0, 0.99) } else { 0.0 };
    let worth = (n as f64 * (1.0 - r) / (1.0 + r)).max(3.0);
    let freedom = worth - 2.0;
    // Of n points, n - 2 of which are free; of fewer that are worth something the spread is wider.
    let variance = squares / (n as f64 - 2.0) * (n as f64 / worth);
    let half = two_sided(0.05, freedom) * (variance / sxx).sqrt();
    Some(Slope {
        bytes_per_s: per_s,
        low_bytes_per_s: per_s - half,
        high_bytes_per_s: per_s + half,
        points: n as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_chance::Chance;

    #[test]
    fn a_straight_line_has_its_slope_and_no_width() {
        let line = |x: u32| (f64::from(x), 5e6 + 1e3 * f64::from(x));
        let points: Vec<(f64, f64)> = (0..60).map(line).collect();
        let slope = slope(&points).unwrap();
        assert!((slope.bytes_per_s - 1e3).abs() < 1e-6, "{slope:?}");
        assert!(slope.high_bytes_per_s - slope.low_bytes_per_s < 1e-3, "{slope:?}");
    }

    /// The interval holds the true slope in about 95 of 100 trials, with independent noise and
    /// with noise that lingers.
    #[test]
    fn the_interval_holds_the_slope_as_often_as_it_says() {
        for linger in [0.0, 0.7] {
            let mut noise = Chance::new(7);
            let mut held = 0;
            for _ in 0..400 {
                let mut last = 0.0;
                let points: Vec<(f64, f64)> = (0..200)
                    .map(|x| {
                        last = linger * last + (noise.unit() - 0.5) * 1e5;
                        (f64::from(x) * 0.5, 5e7 + 300.0 * f64::from(x) * 0.5 + last)
                    })
                    .collect();
                let slope = slope(&points).unwrap();
                held +=
                    u32::from((slope.low_bytes_per_s..=slope.high_bytes_per_s).contains(&300.0));
            }
            assert!((360..=400).contains(&held), "{held} of 400 with linger {linger}");
        }
    }

    #[test]
    fn too_few_points_and_one_time_say_nothing() {
        assert_eq!(slope(&[(0.0, 1.0); 9]), None);
        assert_eq!(slope(&[(1.0, 1.0); 20]), None);
    }

    #[test]
    fn memory_is_that_of_looks_in_time_at_a_broker_that_was_there() {
        let look = |at: u64, rss_bytes: u64| Sample {
            at_us: 5_000_000 + at * 500_000,
            rss_bytes,
            ..Sample::default()
        };
        // 1000 B/s in twelve looks from 5 s on; what is before and behind is steeper.
        let mut looks: Vec<Sample> = (0..12).map(|at| look(at, 100_000 + 500 * at)).collect();
        looks.insert(0, Sample { at_us: 4_999_999, rss_bytes: 1, ..Sample::default() });
        looks.push(look(12, 1_000_000));
        let of =
            |looks: &[Sample]| of_memory(looks, 5_000_000, 11_000_000).map(|of| of.bytes_per_s);
        assert!((of(&looks).unwrap() - 1_000.0).abs() < 1e-6, "{:?}", of(&looks));
        looks[5].rss_bytes = 0;
        assert!((of(&looks).unwrap() - 1_000.0).abs() < 1e-6, "a look that saw nothing");
        looks[6].rss_bytes = 0;
        looks[7].rss_bytes = 0;
        assert_eq!(of(&looks), None, "nine are too few");
    }
}
