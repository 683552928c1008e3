//! A use case at a scale that the host bears.

use super::file::{UseCase, UseCaseError};
use crate::numbers::grouped;

/// A use case with the numbers of clients it is run with.
#[derive(Clone, Debug)]
pub struct Scaled<'a> {
    /// The use case.
    pub use_case: &'a UseCase,
    /// What was asked for.
    pub asked: f64,
    /// What is run.
    pub scale: f64,
    /// Why that is less, if it is.
    pub reason: Option<String>,
    /// Clients of each group.
    pub clients: Vec<u32>,
}

/// Connections that the load may hold: what `agents` hold together, or one process of ours.
pub fn connections_max(agents: &[u64]) -> u64 {
    if agents.is_empty() {
        return weir_load::connections_max();
    }
    agents.iter().fold(0, |sum, &hold| sum.saturating_add(hold))
}

/// Clients of each group at `scale`: groups that scale have at least one.
fn clients_at(use_case: &UseCase, scale: f64) -> Vec<u32> {
    let of = |group: &super::Group| {
        if !group.scales {
            return group.clients;
        }
        let clients = (f64::from(group.clients) * scale).round() as u32;
        clients.max(u32::from(group.clients > 0))
    };
    use_case.group.iter().map(of).collect()
}

fn sum(clients: &[u32]) -> u64 {
    clients.iter().map(|&clients| u64::from(clients)).sum()
}

/// The use case at `asked`, or at the largest scale that `connections_max` allows.
///
/// # Errors
/// A scale that is not above zero.
pub fn scale(
    use_case: &UseCase,
    asked: f64,
    connections_max: u64,
) -> Result<Scaled<'_>, UseCaseError> {
    if !(asked > 0.0 && asked.is_finite()) {
        return Err(UseCaseError::Scale { scale: asked });
    }
    let clients = clients_at(use_case, asked);
    let needed = sum(&clients);
    if needed <= connections_max {
        return Ok(Scaled { use_case, asked, scale: asked, reason: None, clients });
    }
    let smallest = sum(&clients_at(use_case, f64::MIN_POSITIVE));
    if smallest > connections_max {
        let (name, present) = (use_case.name.clone(), connections_max);
        return Err(UseCaseError::Files { name, needed: smallest, present });
    }
    // Halving the uncertainty of a monotonous function; 60 steps are below one client.
    let (mut fits, mut over) = (0.0, asked);
    for _ in 0..60 {
        let middle = (fits + over) / 2.0;
        if sum(&clients_at(use_case, middle)) <= connections_max {
            fits = middle;
        } else {
            over = middle;
        }
    }
    let scale = rounded_down(fits);
    let clients = clients_at(use_case, scale);
    let reason = format!(
        "{} connections are needed and load and broker can hold {}: run at scale {scale} \
         with {} connections (`weir bench doctor` says how to raise it; --agents N runs the load \
         as N processes)",
        grouped(needed),
        grouped(connections_max),
        grouped(sum(&clients))
    );
    Ok(Scaled { use_case, asked, scale, reason: Some(reason), clients })
}

/// To four digits, never up: a scale that can be typed again and still fits.
fn rounded_down(scale: f64) -> f64 {
    let digits = 3 - scale.log10().floor() as i32;
    // A division by a power of ten has the shortest text; a multiplication by 0.0001 has not.
    let unit = 10f64.powi(digits.max(0));
    let rounded = (scale * unit).floor() / unit;
    if rounded > 0.0 { rounded } else { scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_case(name: &str) -> UseCase {
        UseCase::resolve(name).unwrap()
    }

    #[test]
    fn groups_that_scale_are_rounded_and_never_empty() {
        let fanout = use_case("fanout-5-1000-5-250K");
        assert_eq!(scale(&fanout, 0.1, 10_000).unwrap().clients, [100, 5]);
        assert_eq!(scale(&fanout, 0.000_01, 10_000).unwrap().clients, [1, 5]);
    }

    #[test]
    fn what_does_not_fit_is_run_at_the_largest_scale_that_does() {
        let p2p = use_case("p2p-50K-50K-50K-50K");
        let scaled = scale(&p2p, 1.0, 19_900).unwrap();
        assert!(sum(&scaled.clients) <= 19_900 && sum(&scaled.clients) > 19_800, "{scaled:?}");
        assert_eq!((scaled.scale, &*scaled.clients), (0.199, &[9_950, 9_950][..]));
        let reason = scaled.reason.unwrap();
        assert!(reason.contains("can hold 19,900: run at scale 0.199 with 19,900 "), "{reason}");
        assert!(reason.contains("100,000 connections are needed"));
        assert!(scale(&p2p, 0.1, 19_900).unwrap().reason.is_none());
    }

    #[test]
    fn the_scale_that_is_told_fits_when_it_is_typed() {
        for name in ["conn-tcp-1M-5K", "p2p-50K-50K-50K-50K", "sharedsub-50K-500-50K-50K"] {
            let use_case = use_case(name);
            for connections_max in [7, 901, 924, 1_948, 4_096, 19_950, 32_668, 50_499] {
                let reduced = scale(&use_case, 1.0, connections_max).unwrap();
                let reason = reduced.reason.unwrap();
                let told = reason.split("scale ").nth(1).unwrap().split(' ').next().unwrap();
                let again = scale(&use_case, told.parse().unwrap(), connections_max).unwrap();
                assert!(again.reason.is_none() && told.len() <= 12, "{reason}");
                assert_eq!(again.clients, reduced.clients);
            }
        }
    }

    #[test]
    fn agents_hold_more_together() {
        assert_eq!(connections_max(&[19_900, 19_900, 100]), 39_900);
        assert_eq!(connections_max(&[u64::MAX, 1]), u64::MAX);
        let p2p = use_case("p2p-50K-50K-50K-50K");
        let scaled = scale(&p2p, 1.0, connections_max(&[19_900; 6])).unwrap();
        assert!(scaled.reason.is_none());
    }

    #[test]
    fn a_file_limit_below_the_smallest_scale_is_an_error_that_says_how_to_raise_it() {
        let text = scale(&use_case("fanout-5-1000-5-250K"), 1.0, 3).unwrap_err().to_string();
        assert!(text.contains("at least 6 connections") && text.contains("ulimit -n"), "{text}");
    }

    #[test]
    fn a_scale_of_zero_is_refused() {
        let p2p = use_case("p2p-1K-1K-1K-1K");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(scale(&p2p, bad, 1_000).is_err());
        }
    }

    #[test]
    fn a_scale_has_four_digits_and_is_never_more() {
        let found = [0.123_456, 0.001_234_56, 1.0, 12.345_67, 0.2].map(rounded_down);
        assert_eq!(found, [0.123_4, 0.001_234, 1.0, 12.34, 0.2]);
    }
}
