//! Searches over brokers whose knee is known.

use super::*;
use weir_chance::Chance;

/// Drives a search by `broker`; what was found, and in how many runs.
fn find(mut search: Search, mut broker: impl FnMut(f64) -> Seen) -> (Knee, u32) {
    for runs in 0.. {
        match search.next() {
            Next::Done(knee) => return (knee, runs),
            Next::Run(value, _) => search.seen(broker(value)),
        }
    }
    unreachable!("a search is bounded");
}

fn knee_at(knee: f64) -> impl Fn(f64) -> Seen {
    move |value| if value <= knee { Seen::Met } else { Seen::Missed }
}

#[test]
fn a_knee_is_found_within_its_tolerance_in_few_runs() {
    for knee in [1_000.0, 1_001.0, 4_321.0, 77_777.0, 640_000.0, 999_999.0] {
        let (found, runs) = find(Search::new(1_000.0, 1e6, false), knee_at(knee));
        let (met, missed) = (found.met.unwrap(), found.missed.unwrap());
        assert!(met <= knee && knee < missed, "{knee}: {found:?}");
        assert!(missed <= met * (1.0 + TOLERANCE), "{knee}: {found:?}");
        assert_eq!((found.ending, found.confirmed), (Ending::Found, Some(met * CONFIRM_SHARE)));
        // Up by factors of 1.5, at most four halvings, a look at the bound, the confirmation;
        // misses twice.
        let up = ((knee / 1_000.0).ln() / GROWTH.ln()).ceil();
        assert!(f64::from(runs) <= up + 13.0, "{knee}: {runs} runs");
    }
}

#[test]
fn a_first_step_that_misses_is_gone_down_from() {
    let (found, _) = find(Search::new(1_000.0, 1e6, false), knee_at(70.0));
    let met = found.met.unwrap();
    assert!(met <= 70.0 && met * (1.0 + TOLERANCE) >= 70.0, "{found:?}");
    let (found, runs) = find(Search::new(1_000.0, 1e6, false), knee_at(0.0));
    assert_eq!((found.met, found.ending), (None, Ending::NothingMet));
    assert!(runs < 50, "{runs}");
}

#[test]
fn whole_numbers_end_next_to_each_other() {
    let (found, _) = find(Search::new(1.0, 100.0, true), knee_at(7.0));
    assert_eq!((found.met, found.missed, found.confirmed), (Some(7.0), Some(8.0), Some(6.0)));
    let (found, _) = find(Search::new(2.0, 100.0, true), knee_at(0.5));
    assert_eq!((found.met, found.ending), (None, Ending::NothingMet));
}

#[test]
fn the_end_of_the_span_is_an_end() {
    let (found, _) = find(Search::new(10.0, 100.0, false), knee_at(1e9));
    assert_eq!((found.met, found.missed), (Some(100.0), None));
    assert_eq!((found.ending, found.confirmed), (Ending::SpanEnded, Some(90.0)));
}

#[test]
fn a_generator_that_is_the_limit_bounds_the_knee_as_closely_as_a_miss() {
    let limit = |value: f64| if value <= 500.0 { Seen::Met } else { Seen::GeneratorLimit };
    let (found, runs) = find(Search::new(100.0, 1e6, false), limit);
    assert_eq!((found.ending, found.missed), (Ending::GeneratorLimit, None));
    assert!(found.met.unwrap() * (1.0 + TOLERANCE) >= 500.0, "{found:?}");
    assert!(found.confirmed.is_some() && runs <= 17, "{runs}: {found:?}");
    // A broker that misses below what the generator bears has a knee of its own.
    let both =
        |value: f64| if value > 450.0 && value <= 500.0 { Seen::Missed } else { limit(value) };
    let (found, _) = find(Search::new(100.0, 1e6, false), both);
    assert_eq!(found.ending, Ending::Found, "{found:?}");
    assert!(found.met.unwrap() <= 450.0 && found.missed.unwrap() > 450.0, "{found:?}");
    // One that begins above it comes down to it.
    let (found, _) = find(Search::new(10_000.0, 1e6, false), limit);
    assert_eq!(found.ending, Ending::GeneratorLimit);
    assert!(found.met.unwrap() * (1.0 + TOLERANCE) >= 500.0, "{found:?}");
    let (found, runs) = find(Search::new(100.0, 1e6, false), |_| Seen::GeneratorLimit);
    assert_eq!((found.met, found.ending), (None, Ending::GeneratorLimit));
    assert!(runs <= 2 * 18, "{runs}: down to a thousandth");
}

#[test]
fn a_slow_minute_of_the_host_is_no_knee() {
    // Eight runs at half the speed, whenever they come: a knee that was found in them gives way.
    for slow_from in 0..16 {
        let mut runs = 0;
        let (found, all) = find(Search::new(1_000.0, 1e6, false), |value| {
            runs += 1;
            let is_slow = (slow_from..slow_from + 8).contains(&(runs - 1));
            knee_at(if is_slow { 10_000.0 } else { 20_000.0 })(value)
        });
        let met = found.met.unwrap();
        assert!(all < 40, "{slow_from}: {all} runs");
        // A search that looks at its bound in the slow minute, one run before its end, knows of
        // nothing else.
        let ended_in_it = all - 1 <= slow_from + 8;
        let is_close = met <= 20_000.0 && met * (1.0 + TOLERANCE) >= 20_000.0;
        assert!(is_close || ended_in_it, "{slow_from}: {found:?} in {all} runs");
    }
}

#[test]
fn one_pause_of_the_host_is_no_knee() {
    for pause_at in 0..12 {
        let mut runs = 0;
        let (found, _) = find(Search::new(1_000.0, 1e6, false), |value| {
            runs += 1;
            if runs - 1 == pause_at { Seen::Missed } else { knee_at(20_000.0)(value) }
        });
        let met = found.met.unwrap();
        assert!(met <= 20_000.0 && met * (1.0 + TOLERANCE) >= 20_000.0, "{pause_at}: {found:?}");
    }
}

#[test]
fn a_noisy_knee_is_found_twice_within_a_tenth() {
    for seed in 0..50 {
        let mut chance = Chance::new(seed);
        // The limit of each run lies within 3 % of 50,000.
        let mut noisy = |value: f64| knee_at(50_000.0 * (0.97 + 0.06 * chance.unit()))(value);
        let [one, other] =
            [(); 2].map(|()| find(Search::new(1_000.0, 1e6, false), &mut noisy).0.met.unwrap());
        assert!((one / other - 1.0).abs() < 0.1, "seed {seed}: {one} and {other}");
    }
}

#[test]
fn a_knee_that_does_not_hold_is_confirmed_lower_or_not_at_all() {
    let mut search = Search::new(100.0, 1e4, false);
    let confirmations = |search: &mut Search, holds_below: f64| loop {
        match search.next() {
            Next::Done(knee) => return knee,
            Next::Run(value, Purpose::Confirm) => search.seen(knee_at(holds_below)(value)),
            Next::Run(value, _) => search.seen(knee_at(1_000.0)(value)),
        }
    };
    let knee = confirmations(&mut search, 850.0);
    let confirmed = knee.confirmed.unwrap();
    assert!(confirmed <= 850.0 && confirmed > 700.0, "{knee:?}");
    let mut search = Search::new(100.0, 1e4, false);
    assert_eq!(confirmations(&mut search, 0.0).confirmed, None);
}
