//! Brokers that are up at once and loaded in turn, as a user meets them.

use crate::support::command::{text, weir};
use serde_json::Value;

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn brokers_abreast_are_each_loaded_for_their_share_and_lose_nothing() {
    let out = tempfile::tempdir().unwrap();
    let arguments = "bench run p2p-1K-1K-1K-1K --scale 0.05 --duration 2s --warm-up 200ms \
                     --cool-down 0s --pin none --broker weir --broker weir --repeat 2 \
                     --abreast=50ms";
    let output = weir(&words(arguments), out.path());
    let errors = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "a busy host may void a run: {errors}");
    assert!(errors.contains("each loaded for about 50 ms in turn"), "{errors}");
    assert!(errors.contains("run 3 to 4 of 4, round 2"), "{errors}");
    let session = std::fs::read_dir(out.path()).unwrap().next().unwrap().unwrap().path();
    let results = std::fs::read_dir(&session).unwrap().filter_map(|entry| {
        let text = std::fs::read_to_string(entry.unwrap().path().join("result.json")).ok()?;
        Some(serde_json::from_str::<Value>(&text).unwrap())
    });
    let results: Vec<Value> = results.collect();
    assert_eq!(results.len(), 4);
    for run in &results {
        assert_eq!(run["repetition"]["abreast_ms"], 50);
        // 50 a second in 47.5 of each 100 ms, for 2 s.
        let planned = run["use_case"]["publish_rate_planned"].as_f64().unwrap();
        assert!((planned - 23.75).abs() < 0.01, "{planned}");
        let measure = &run["measure"];
        let intended = measure["intended"].as_i64().unwrap();
        assert!((intended - 48).abs() <= 1, "{measure}");
        assert_eq!((&measure["lost"], &measure["delivered"]), (&0.into(), &measure["expected"]));
    }
}

#[test]
fn what_cannot_go_abreast_is_told_in_one_line() {
    let out = tempfile::tempdir().unwrap();
    let cases = [
        ("p2p-1K-1K-1K-1K --abreast", "--abreast needs --repeat"),
        ("p2p-1K-1K-1K-1K --repeat 3 --abreast=1ms", "--abreast must be 0.02s to 0.5s"),
        ("conn-tcp-10K-100 --repeat 3 --abreast", "nothing is published"),
        ("fault-freeze --repeat 3 --abreast", "it has steps"),
        ("p2p-1K-1K-1K-1K --repeat 3 --abreast", "needs at least two brokers"),
        ("p2p-1K-1K-1K-1K --repeat 3 --abreast --agents 2", "agents share cannot take turns"),
    ];
    for (arguments, part) in cases {
        let output = weir(&words(&format!("bench run {arguments}")), out.path());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {errors}");
        assert!(errors.contains(part), "{part} is missing in: {errors}");
    }
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "no folder is left");
}
