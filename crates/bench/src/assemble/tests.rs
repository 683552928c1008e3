//! A result against the outcome and the looks that it was made of.

use super::*;
use crate::result::Verdict;
use crate::verdict::tests::outcome;
use weir_load::outcome::Silence;

#[test]
fn each_latency_has_its_own_name() {
    let mut of = outcome();
    let all = [
        (&mut of.latencies.connect, "connect"),
        (&mut of.latencies.subscribe, "subscribe"),
        (&mut of.latencies.acknowledge, "acknowledge"),
        (&mut of.latencies.acknowledge_from_intended, "acknowledge_from_intended"),
        (&mut of.latencies.end_to_end, "end_to_end"),
        (&mut of.latencies.end_to_end_from_send, "end_to_end_from_send"),
        (&mut of.generator.lag, "generator_lag"),
        (&mut of.generator.turn, "generator_turn"),
    ];
    let names = all.each_ref().map(|(_, name)| *name);
    for (place, (histogram, _)) in all.into_iter().enumerate() {
        histogram.record(100 * (place as u64 + 1)).unwrap();
    }
    let latencies = latencies(&of);
    assert_eq!(latencies.len(), names.len());
    for (place, name) in names.into_iter().enumerate() {
        assert_eq!(latencies[name].max_us, 100 * (place as u64 + 1), "{name}");
    }
}

#[test]
fn what_the_generator_says_of_itself_is_in_the_result() {
    let mut of = outcome();
    of.generator.invalid = vec!["late".into()];
    of.generator.late_measure.absences = 3;
    of.generator.late_setup.absences = 4;
    let told = generator(&of);
    assert_eq!((told.late_measure.absences, told.late_setup.absences), (3, 4));
    assert_eq!(told.invalid, ["late"]);
    assert!((told.cpu_cores_avg - 300e-6).abs() < 1e-12);
}

#[test]
fn a_silence_is_told_and_marked_in_seconds_of_the_run() {
    let mut of = outcome();
    of.silences = vec![Silence { start_us: 3_000_000, length_us: 1_500_000 }];
    let silences = silences(&of, 1_000_000);
    assert_eq!(silences, [SilenceResult { t_s: 2.0, length_s: 1.5 }]);
    let mark = mark(&silences[0]);
    assert_eq!((mark.t_s, mark.until_s), (2.0, Some(3.5)));
}

#[test]
fn a_run_that_was_stopped_has_no_figures() {
    let text = include_str!("../../tests/data/result-2.json");
    let with = |status| {
        let mut result: RunResult = serde_json::from_str(text).unwrap();
        result.verdict = Verdict { status, reasons: Vec::new() };
        without_figures(result)
    };
    let aborted = with(Status::Aborted);
    assert!(aborted.latencies.is_empty() && aborted.interval_histograms.is_empty());
    assert!(aborted.resources.is_none() && aborted.rates.success == 0.0);
    assert!(aborted.not_measured["every figure"].contains("stopped"));
    for status in [Status::Passed, Status::Failed, Status::Invalid] {
        let kept = with(status);
        assert!(!kept.latencies.is_empty() && kept.resources.is_some(), "{status:?}");
    }
}
