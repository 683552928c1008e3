//! Use cases with steps as a user meets them: every file on real brokers at small scale, faults
//! timed, thresholds, a use case from standard input.

use crate::support::command::fed;
use crate::support::results::results;
use crate::support::tool;
use serde_json::Value;
use std::process::{Command, Output};
use std::sync::Mutex;

/// Runs a use case of the list, or the text of one, and gives what was printed and the result.
fn run(use_case: &str, text: Option<&str>, broker: &str, scale: &str) -> (Output, Value) {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(["bench", "run", use_case, "--broker", broker, "--pin", "none"])
        .args(["--scale", scale, "--duration", "2s", "--warm-up", "500ms", "--out"])
        .arg(out.path())
        .env_remove("WEIR_LOG");
    let output = fed(&mut command, text.unwrap_or_default());
    let (result, _) = results(out.path()).pop().unwrap_or_else(|| {
        panic!("{use_case} on {broker}: {}", String::from_utf8_lossy(&output.stderr))
    });
    (output, result)
}

fn brokers() -> impl Iterator<Item = &'static str> {
    let mosquitto = tool(&["mosquitto"]).map(|_| "mosquitto");
    ["weir"].into_iter().chain(mosquitto)
}

/// So many runs go on at once: they wait more than they compute.
const RUNS_MAX: usize = 4;

/// Does this for each of `all`, some at a time.
fn for_each<T: Copy + Send + Sync>(all: &[T], check: impl Fn(T) + Sync) {
    let (check, next) = (&check, &Mutex::new(all.iter()));
    std::thread::scope(|scope| {
        for _ in 0..RUNS_MAX {
            scope.spawn(move || {
                loop {
                    let Some(&one) = next.lock().unwrap().next() else { return };
                    check(one);
                }
            });
        }
    });
}

/// Use cases beyond the suite whose clients stay, and the scale at which each is small.
const STEADY: [(&str, &str); 6] = [
    ("composite", "0.02"),
    ("mixed-qos", "0.05"),
    ("large-payloads", "0.2"),
    ("wildcards-100K", "0.02"),
    ("sharedsub-skew", "0.1"),
    ("churn", "0.02"),
];

const STORMS: [(&str, &str); 6] = [
    ("retained-storm", "0.05"),
    ("will-storm", "0.05"),
    ("takeover-storm", "0.02"),
    ("reconnect-storm", "0.02"),
    ("offline-queue", "0.05"),
    ("slow-consumers", "0.1"),
];

/// Every delivery that is owed comes.
fn assert_whole(use_cases: &[(&str, &str)], broker: &str) {
    for_each(use_cases, |(use_case, scale)| {
        let (_, result) = run(use_case, None, broker, scale);
        let measure = &result["measure"];
        assert!(measure["expected"].as_u64() > Some(0), "{use_case} on {broker}: {measure}");
        assert_eq!(measure["expected"], measure["delivered"], "{use_case} on {broker}: {measure}");
        let reasons = &result["verdict"]["reasons"];
        assert_eq!(measure["stray"], 0, "{use_case} on {broker}: {measure} {reasons}");
        assert_eq!(measure["unsent"], 0, "{use_case} on {broker}: {measure} {reasons}");
    });
}

#[test]
fn steady_use_cases_beyond_the_suite_deliver_everything() {
    assert_whole(&STEADY, "weir");
}

#[test]
fn storms_deliver_everything_that_is_owed() {
    assert_whole(&STORMS, "weir");
}

#[test]
#[ignore = "a sweep: make test-long"]
fn mosquitto_delivers_everything_too() {
    if tool(&["mosquitto"]).is_some() {
        assert_whole(&[STEADY, STORMS].concat(), "mosquitto");
    }
}

#[test]
fn storms_say_who_came_back_and_with_which_session() {
    for_each(&brokers().collect::<Vec<_>>(), |broker| {
        for use_case in ["takeover-storm", "reconnect-storm"] {
            let (_, result) = run(use_case, None, broker, "0.02");
            let course = &result["course"];
            assert_eq!(course["returned"], 20, "{use_case} on {broker}: {course}");
            assert_eq!(course["sessions_resumed"], 20, "{use_case} on {broker}: {course}");
            assert_eq!(course["taken_over_left_open"], 0, "{use_case} on {broker}: {course}");
        }
    });
}

#[test]
fn a_freeze_is_timed_and_loses_nothing() {
    for_each(&brokers().collect::<Vec<_>>(), |broker| {
        let (output, result) = run("fault-freeze", None, broker, "0.1");
        let step = &result["course"]["steps"][0];
        let (begin_s, end_s) = (step["begin_s"].as_f64().unwrap(), step["end_s"].as_f64().unwrap());
        assert!(begin_s >= 3.0 && end_s - begin_s >= 2.99, "{step}");
        // The pulse has beats of 10 ms.
        assert!(step["silence_s"].as_f64().unwrap() >= 2.9, "{step}");
        assert!(step["first_delivery_s"].is_f64() && step["rate_back_s"].is_f64(), "{step}");
        assert_eq!((&step["deliveries_lost"], &step["connections_lost"]), (&0.into(), &0.into()));
        assert_eq!(result["measure"]["lost"], 0, "{broker}");
        assert!(result["latencies"]["end_to_end"]["max_us"].as_u64() >= Some(2_900_000));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("| freeze") && text.contains("rate back"), "{text}");
    });
}

#[test]
fn a_killed_broker_is_started_again_and_its_clients_come_back() {
    for_each(&brokers().collect::<Vec<_>>(), |broker| {
        let (_, result) = run("fault-kill", None, broker, "0.1");
        let (course, step) = (&result["course"], &result["course"]["steps"][0]);
        assert_eq!(step["error"], Value::Null, "{broker}: {step}");
        assert_eq!(step["connections_lost"], 40, "{broker}: {step}");
        assert!(step["detect_s"].is_f64(), "{broker}: {step}");
        assert!(step["end_s"].as_f64().unwrap() >= 4.0, "{broker}: {step}");
        assert!(step["rate_back_s"].is_f64(), "{broker}: {step}");
        assert_eq!((&course["returned"], &course["away_at_end"]), (&40.into(), &0.into()));
        // The last client cannot be back before the broker is.
        let delay_us = course["reconnection_delay"]["max_us"].as_u64();
        assert!(delay_us >= Some(900_000), "{broker}: {delay_us:?}");
    });
}

#[test]
fn trouble_on_the_way_shows_in_the_latency_and_loses_nothing() {
    for_each(&brokers().collect::<Vec<_>>(), |broker| {
        let (_, result) = run("fault-network", None, broker, "0.1");
        assert_eq!(result["measure"]["lost"], 0, "{broker}");
        assert_eq!(result["course"]["has_proxy"], true);
        // To the broker and from it: twice 50 ms for two of fourteen seconds.
        let p99_us = result["latencies"]["end_to_end"]["p99_us"].as_u64();
        assert!(p99_us >= Some(99_000), "{broker}: {p99_us:?}");
    });
}

#[test]
fn half_open_connections_are_found_and_sessions_resumed() {
    for_each(&brokers().collect::<Vec<_>>(), |broker| {
        let (_, result) = run("fault-half-open", None, broker, "0.1");
        let course = &result["course"];
        assert_eq!(course["returned"], 40, "{broker}: {course}");
        assert_eq!(course["sessions_resumed"], 40, "{broker}: {course}");
        assert_eq!(result["measure"]["lost"], 0, "{broker}: {course}");
        let detect_s = course["steps"][0]["detect_s"].as_f64().unwrap();
        assert!(detect_s >= 1.8, "not before a keep alive, last heard 100 ms before: {detect_s}");
    });
}

#[test]
fn the_example_of_new_runs_from_standard_input_and_keeps_its_thresholds() {
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["bench", "new"]).output().unwrap();
    let example = String::from_utf8(output.stdout).unwrap();
    // So patient that a busy host does not break them.
    let patient = example.replace("p99_ms = 1000", "p99_ms = 60000");
    let patient = patient.replace("recover_s = 5", "recover_s = 60");
    assert_ne!(patient, example);
    let (output, result) = run("-", Some(&patient), "weir", "0.2");
    assert_eq!(result["use_case"]["name"], "my-use-case");
    // A busy host may void the run, but breaks no threshold.
    assert!(!result["verdict"]["reasons"].to_string().contains("threshold"), "{result}");
    assert!(matches!(output.status.code(), Some(0 | 1)));
    let strict = example.replace("p99_ms = 1000", "p99_ms = 0.000001");
    let (output, result) = run("-", Some(&strict), "weir", "0.2");
    assert_ne!(result["verdict"]["status"], "passed");
    assert!(result["verdict"]["reasons"].to_string().contains("threshold p99_ms"));
    assert_eq!(output.status.code(), Some(1));
}
