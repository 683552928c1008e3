//! Comparisons of results: what is judged, what is refused and by which name, what has failed.

use weir_bench::compare::{self, CompareError, Comparison, Options};
use weir_bench::result::Repetition;
use weir_bench::result::{RunResult, Status};
use weir_bench::stats::Standing;

const OPTIONS: Options = Options { seed: 1, is_anyway: false };

/// Repeats of one broker; CPU and p99 are `factor` times what they are, with a noise of 1 %.
fn repeats(name: &str, place: u32, count: u32, factor: f64) -> Vec<RunResult> {
    let run = |round: u32| {
        let mut run: RunResult = serde_json::from_str(include_str!("../data/result.json")).unwrap();
        run.broker.name = name.into();
        run.verdict.status = Status::Passed;
        run.verdict.reasons.clear();
        run.repetition = Some(Repetition {
            session: "basic-x5".into(),
            round,
            rounds: count,
            seed: 1,
            position: round,
            broker: place,
            cool_down_s: 0.0,
            abreast_ms: None,
        });
        let noise = 1.0 + 0.01 * f64::from((round * 7 + place * 3) % 5) / 5.0;
        let of = run.resources.as_mut().unwrap();
        of.softirq_us = None;
        of.cpu_us_per_delivery = Some(10.0 * factor * noise);
        let latency = run.latencies.get_mut("end_to_end").unwrap();
        latency.p99_us = (10_000.0 * factor * noise) as u64;
        run
    };
    (1..=count).map(run).collect()
}

fn standing(comparison: &Comparison, metric: &str) -> Option<Standing> {
    let cell = comparison.pairs[0].cells.iter().find(|cell| cell.metric == metric);
    cell.unwrap().standing
}

#[test]
fn brokers_of_one_session_are_compared_with_the_one_named_first() {
    let mut runs = repeats("b", 2, 5, 1.5);
    runs.extend(repeats("a", 1, 5, 1.0));
    let comparison = compare::within(&runs, OPTIONS).unwrap();
    let pair = &comparison.pairs[0];
    assert!(pair.base.label.starts_with('a') && pair.other.label.starts_with('b'));
    assert!(pair.cells.iter().all(|cell| cell.pairs == 5), "by round");
    assert_eq!(standing(&comparison, "cpu_us_per_message"), Some(Standing::Worse));
    assert_eq!(standing(&comparison, "latency_p99_us"), Some(Standing::Worse));
    assert_eq!(standing(&comparison, "broker_rss_max_bytes"), Some(Standing::NoDifference));
    assert_eq!((comparison.judged, comparison.share), (5, 0.01));
    assert_eq!(comparison.worse(), 1);
    let text = compare::render(&comparison);
    for part in ["b ", "CPU us/message", "worse", "no difference", "99.00 %"] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let json = serde_json::to_string(&comparison).unwrap();
    assert!(json.contains("\"standing\":\"no-difference\""), "{json}");
}

#[test]
fn a_verdict_on_a_pair_does_not_weaken_with_the_number_of_brokers() {
    let brokers = [("a", 1.0), ("b", 1.5), ("c", 1.0), ("d", 2.0)];
    let runs = (1..).zip(brokers).flat_map(|(at, (name, factor))| repeats(name, at, 3, factor));
    let comparison = compare::within(&runs.collect::<Vec<_>>(), OPTIONS).unwrap();
    assert_eq!((comparison.pairs.len(), comparison.judged, comparison.share), (3, 15, 0.01));
    assert_eq!(standing(&comparison, "cpu_us_per_message"), Some(Standing::Worse));
}

#[test]
fn two_sets_are_compared_broker_by_broker_and_without_rounds() {
    let before = repeats("a", 1, 5, 1.0);
    let mut after = repeats("a", 1, 5, 0.5);
    for run in &mut after {
        run.repetition.as_mut().unwrap().session = "another".into();
    }
    let comparison = compare::between(&before, &after, OPTIONS).unwrap();
    assert_eq!(standing(&comparison, "cpu_us_per_message"), Some(Standing::Better));
    assert_eq!(comparison.pairs[0].cells[0].pairs, 0);
    assert!(comparison.notes[0].contains("not run in turn"), "{:?}", comparison.notes);
    assert_eq!(comparison.worse(), 0);
    let error = compare::within(&before, OPTIONS).unwrap_err().to_string();
    assert!(error.contains("all runs are of a"), "{error}");
}

#[test]
fn what_is_not_alike_is_refused_by_its_name_unless_told_to() {
    type Change = (&'static str, fn(&mut RunResult));
    let changes: &[Change] = &[
        ("schema", |run| run.schema = 0),
        ("host CPU", |run| run.host.cpu_model = "another".into()),
        ("host cores", |run| run.host.cores += 2),
        ("host memory", |run| run.host.memory_bytes *= 2),
        ("host kernel", |run| run.host.kernel = "1.0".into()),
        ("host governor", |run| run.host.governor = "powersave".into()),
        ("pinning", |run| run.host.pinning = "not pinned at all".into()),
        ("load agents", |run| run.generator.agents = vec!["one".into(), "two".into()]),
        ("profile", |run| run.broker.profile = "tuned".into()),
        ("scale", |run| run.use_case.scale = 0.5),
        ("revision", |run| run.use_case.revision += 1),
        ("file", |run| run.use_case.file_sha256 = "0".repeat(64)),
        ("duration", |run| run.use_case.duration_s = 60.0),
        ("warm-up", |run| run.phases.clear()),
        ("host net.core.somaxconn", |run| {
            run.host.sysctls.insert("net.core.somaxconn".into(), "1".into());
        }),
    ];
    let before = repeats("a", 1, 3, 1.0);
    for (name, change) in changes {
        let mut after = repeats("b", 1, 3, 1.0);
        after.iter_mut().for_each(change);
        let error = compare::between(&before, &after, OPTIONS).unwrap_err();
        let CompareError::Unlike(differences) = &error else { panic!("{name}: {error}") };
        assert_eq!(differences.len(), 1, "{name}: {error}");
        assert!(differences[0].what.starts_with(name), "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("--anyway") && !text.contains('\n'), "{text}");
        let anyway = Options { is_anyway: true, ..OPTIONS };
        let comparison = compare::between(&before, &after, anyway).unwrap();
        assert!(compare::render(&comparison).contains(&format!("NOT ALIKE {name}")));
    }
}

#[test]
fn sets_without_anything_in_common_are_told_what_they_have() {
    let one = repeats("a", 1, 3, 1.0);
    let mut other = repeats("a", 1, 3, 1.0);
    other.iter_mut().for_each(|run| run.use_case.name = "another".into());
    let error = compare::between(&one, &other, OPTIONS).unwrap_err().to_string();
    assert!(error.contains("p2p") && error.contains("another"), "{error}");
    let mut two = repeats("b", 1, 3, 1.0);
    two.extend(repeats("c", 2, 3, 1.0));
    let error = compare::between(&one, &two, OPTIONS).unwrap_err().to_string();
    assert!(error.contains("b 0.1.0 (default), c 0.1.0 (default)"), "{error}");
}

#[test]
fn a_broken_contract_is_failed_and_has_no_latency_to_compare() {
    let base = repeats("a", 1, 5, 1.0);
    let mut other = repeats("b", 2, 5, 0.5);
    other[2].verdict.status = Status::Failed;
    other[2].verdict.reasons = vec!["3 of 100 deliveries lost".into()];
    let comparison = compare::between(&base, &other, OPTIONS).unwrap();
    let pair = &comparison.pairs[0];
    assert_eq!(pair.other.failed[0], "1 of 5 runs broke the contract");
    assert!(pair.cells.iter().all(|cell| cell.standing.is_none()));
    assert_eq!((comparison.judged, comparison.worse()), (0, 1));
    let text = compare::render(&comparison);
    assert!(text.contains("FAILED: 3 of 100 deliveries lost"), "{text}");
    assert_eq!(compare::between(&other, &base, OPTIONS).unwrap().worse(), 0);
}

#[test]
fn too_few_repeats_and_void_runs_are_no_verdict() {
    let base = repeats("a", 1, 3, 1.0);
    let mut other = repeats("b", 2, 3, 2.0);
    other[0].verdict.status = Status::Invalid;
    let comparison = compare::between(&base, &other, OPTIONS).unwrap();
    assert_eq!(comparison.pairs[0].other.void, 1);
    let cells = &comparison.pairs[0].cells;
    assert!(
        cells.iter().all(|cell| cell.why == "only 2 repeats; at least 3 are needed"),
        "{cells:?}"
    );
    assert_eq!(comparison.worse(), 0);
}

/// The runs of a broker as another version, or another build, of it.
fn as_build(mut runs: Vec<RunResult>, version: &str, program: &str) -> Vec<RunResult> {
    for run in &mut runs {
        run.broker.version = version.into();
        run.disclosed.broker.executable_sha256 = program.repeat(64);
    }
    runs
}

#[test]
fn two_versions_and_two_builds_of_one_broker_are_two_brokers() {
    let old = as_build(repeats("Mosquitto", 1, 5, 1.0), "2.0.11", "a");
    for (version, program) in [("2.1.2", "b"), ("2.0.11", "b")] {
        let new = as_build(repeats("Mosquitto", 2, 5, 1.5), version, program);
        let runs = [old.clone(), new].concat();
        let comparison = compare::within(&runs, OPTIONS).unwrap();
        let [pair] = &comparison.pairs[..] else { panic!("one pair: {comparison:?}") };
        assert_eq!((pair.base.runs, pair.other.runs), (5, 5));
        assert_ne!(pair.base.label, pair.other.label);
        assert_eq!(standing(&comparison, "cpu_us_per_message"), Some(Standing::Worse));
    }
    // The same program is one broker, however often it is named.
    let twice = as_build(repeats("Mosquitto", 2, 5, 1.5), "2.0.11", "a");
    let runs = [old, twice].concat();
    assert!(matches!(compare::within(&runs, OPTIONS), Err(CompareError::Nothing(_))));
}

#[test]
fn sides_match_by_program_and_then_by_the_version_that_is_left() {
    let of = |version: &str, program: &str, place| {
        as_build(repeats("Weir", place, 5, 1.0), version, program)
    };
    let base = [of("1", "a", 1), of("2", "b", 2)].concat();
    let other = [of("1", "a", 1), of("3", "c", 2)].concat();
    let comparison = compare::between(&base, &other, OPTIONS).unwrap();
    let labels: Vec<_> = comparison
        .pairs
        .iter()
        .map(|pair| (pair.base.label.as_str(), pair.other.label.as_str()))
        .collect();
    assert_eq!(labels, [("Weir 1", "Weir 1"), ("Weir 2", "Weir 3")]);
    // Before and after a change: another build of the same version.
    let comparison = compare::between(&of("1", "a", 1), &of("1", "d", 1), OPTIONS).unwrap();
    let pair = &comparison.pairs[0];
    assert_eq!((&*pair.base.label, &*pair.other.label), ("Weir 1 (aaaaaaa)", "Weir 1 (ddddddd)"));
}

#[test]
fn a_median_says_of_how_many_runs_and_a_busy_host_is_told() {
    let mut runs = [repeats("a", 1, 5, 1.0), repeats("b", 2, 4, 1.5)].concat();
    runs[7].host.disturbance.reasons = vec!["the host was not quiet".into()];
    let text = compare::render(&compare::within(&runs, OPTIONS).unwrap());
    assert!(text.contains("medians of 5 runs") && text.contains("medians of 4 runs"), "{text}");
    assert!(text.contains("the host was not quiet in 1 of 4 runs"), "{text}");
}

#[test]
fn what_allows_no_verdict_is_said_once_and_each_side_has_its_name() {
    let runs = repeats("a", 1, 2, 1.0);
    let text = compare::render(&compare::between(&runs, &runs, OPTIONS).unwrap());
    let why = "  no verdict: only 2 repeats; at least 3 are needed\n";
    assert_eq!(text.matches("at least 3 are needed").count(), 1, "{text}");
    assert!(text.contains(why) && !text.contains("| interval"), "{text}");
    assert!(text.contains(", base: medians of 2 runs\n"), "{text}");
    assert!(text.contains(", other: medians of 2 runs\n"), "{text}");
    let mut void = runs.clone();
    void.iter_mut().for_each(|run| run.verdict.status = Status::Invalid);
    let text = compare::render(&compare::between(&runs, &void, OPTIONS).unwrap());
    assert!(text.contains("2 of 2 runs are void and say nothing"), "{text}");
    let text = compare::render(&compare::between(&void, &void, OPTIONS).unwrap());
    assert!(text.contains("nothing to compare: no run passed"), "{text}");
}
