//! What a scoreboard says of brokers whose cases are known.

use super::*;
use weir_conformance::{CaseOutcome, Level, Verdict};

fn case(level: Level, verdict: Verdict) -> CaseOutcome {
    CaseOutcome {
        name: "n".into(),
        version: Version::V5,
        statements: vec!["5.0:a".into()],
        about: String::new(),
        level,
        verdict,
    }
}

fn fail() -> Verdict {
    Verdict::Fail { step: "send".into(), why: "no answer".into() }
}

fn scored(cases: Vec<CaseOutcome>, cut: Option<&str>) -> Scored {
    let broker = Broker { name: "It".into(), version: "1.0".into(), ..Broker::default() };
    let asked = cases.len();
    Scored { broker, board: Board::new(cases), asked, cut: cut.map(Into::into) }
}

fn scoreboard(brokers: Vec<Scored>) -> Scoreboard {
    let suite = "weir".into();
    Scoreboard { schema: SCHEMA, suite, command: Vec::new(), started: String::new(), brokers }
}

#[test]
fn a_scoreboard_is_clean_where_no_broker_broke_a_must_and_all_cases_were_run() {
    let passed = || scored(vec![case(Level::Must, Verdict::Pass)], None);
    let broken = scored(vec![case(Level::Must, fail())], None);
    let differs = scored(vec![case(Level::Should, fail())], None);
    let cut = scored(vec![case(Level::Must, Verdict::Pass)], Some("stopped"));
    let is_clean = |other| scoreboard(vec![passed(), other]).is_clean();
    assert!(is_clean(passed()) && is_clean(differs));
    assert!(!is_clean(broken) && !is_clean(cut));
}

#[test]
fn every_case_of_a_version_counts_once_in_its_row() {
    let skipped = || Verdict::Skip { why: "not supported".into() };
    let of = |level, count: usize, verdict: fn() -> Verdict| {
        std::iter::repeat_with(move || case(level, verdict())).take(count)
    };
    let cases = of(Level::Must, 8, || Verdict::Pass)
        .chain(of(Level::Must, 4, fail))
        .chain(of(Level::Should, 2, fail))
        .chain(std::iter::once_with(|| case(Level::Must, skipped())));
    let text = render(&scoreboard(vec![scored(cases.collect(), None)]));
    let row = text.lines().find(|line| line.starts_with("| It 1.0, 5.0")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[2..7], ["15", "8", "4", "2", "1"], "{text}");
    // A version of which no case was run has no row.
    assert!(!text.contains("3.1.1"), "{text}");
}
