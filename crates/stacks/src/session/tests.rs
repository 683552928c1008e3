use super::*;

fn point(workflow: Workflow, ledger: PointLedger, replay: ReplaySide) -> Point {
    Point {
        stack: "mine".into(),
        workflow,
        qos: 0,
        rate_per_s: 1_000.0,
        round: 1,
        position: 1,
        purpose: None,
        standing: Standing::Kept,
        reasons: Vec::new(),
        level: Some(4),
        is_window_missed: false,
        window_s: 1.0,
        handled: 1_000,
        cpu_user_us: 5_000.0,
        cpu_system_us: 5_000.0,
        latency: None,
        acknowledge: None,
        rss_max_bytes: 1,
        rss_slope: None,
        threads_max: 1,
        ledger,
        replay,
    }
}

fn played(ledger: PointLedger) -> Played {
    let PointLedger { sent, required, delivered, .. } = ledger;
    Played { sent, required, delivered, ..Played::default() }
}

const WHOLE: PointLedger = PointLedger {
    sent: 1_000,
    received: 1_000,
    required: 100,
    matched: 100,
    unsent: 0,
    delivered: 100,
    lost: 0,
    behind: 0,
    duplicated: 0,
    alien: 0,
    altered: 0,
    reordered: 0,
    astray: 0,
    retained: 0,
    overstated: 0,
    unacknowledged: 0,
    failed: 0,
};

fn judged(ledger: PointLedger, replay: ReplaySide, late: Option<&str>) -> (Standing, String) {
    let mut point = point(Workflow::Workflow, ledger, replay);
    judge_played(&mut point, &played(ledger), late.map(str::to_owned));
    (point.standing, point.reasons.join("; "))
}

#[test]
fn each_fault_of_the_books_is_named() {
    assert_eq!(judged(WHOLE, ReplaySide::default(), None), (Standing::Kept, String::new()));
    let faults = [
        (PointLedger { lost: 1, ..WHOLE }, "1 results lost"),
        (PointLedger { duplicated: 2, ..WHOLE }, "2 results duplicated"),
        (PointLedger { alien: 3, ..WHOLE }, "3 results that nobody asked for"),
        (PointLedger { altered: 4, ..WHOLE }, "4 results altered"),
        (PointLedger { reordered: 7, ..WHOLE }, "7 results out of order"),
        (PointLedger { astray: 8, ..WHOLE }, "8 messages published to another topic"),
        (PointLedger { retained: 9, ..WHOLE }, "9 messages published with RETAIN"),
        (PointLedger { overstated: 10, ..WHOLE }, "10 results counted that never came"),
        (PointLedger { failed: 5, ..WHOLE }, "5 operations failed"),
        (PointLedger { unacknowledged: 6, ..WHOLE }, "6 messages never acknowledged"),
        (PointLedger { matched: 99, ..WHOLE }, "99 cells found of 100"),
        (PointLedger { received: 99, ..WHOLE }, "1 results of messages it did not count"),
        (PointLedger { received: 1_001, ..WHOLE }, "1 messages received more than were sent"),
    ];
    for (ledger, why) in faults {
        let expected = (Standing::Wrong, why.to_owned());
        assert_eq!(judged(ledger, ReplaySide::default(), Some("late")), expected);
    }
}

#[test]
fn a_stack_that_is_behind_has_lost_nothing_and_a_late_server_says_nothing_of_it() {
    let behind = PointLedger { behind: 7, matched: 90, unacknowledged: 9, ..WHOLE };
    let (standing, why) = judged(behind, ReplaySide::default(), None);
    assert_eq!((standing, &*why), (Standing::Overloaded, "7 messages behind at the end"));
    assert_eq!(judged(WHOLE, ReplaySide::default(), Some("late")).0, Standing::Overloaded);
    let busy = ReplaySide { cpu_cores: 0.99, ..ReplaySide::default() };
    assert_eq!(judged(WHOLE, busy, None).0, Standing::Kept);
    assert_eq!(judged(WHOLE, busy, Some("late")).0, Standing::Overloaded);
    let late = ReplaySide { lag_p99_us: 20_000, ..ReplaySide::default() };
    assert_eq!(judged(WHOLE, late, None).0, Standing::ReplayLimit);
}

#[test]
fn a_stack_that_did_not_take_all_may_have_results_under_way() {
    let cut = PointLedger { sent: 900, required: 0, ..WHOLE };
    let cut = Played { unsent: 100, ..played(cut) };
    let received =
        AdapterCounts { received: 900, matched: 90, published: 90, ..AdapterCounts::default() };
    let mut point = point(Workflow::Workflow, ledger(&cut, received), ReplaySide::default());
    judge_played(&mut point, &cut, None);
    assert_eq!(point.standing, Standing::Overloaded);
    assert!(!point.is_idle());
}

#[test]
fn what_did_not_come_is_lost_only_if_the_stack_says_it_was_published() {
    let missing = played(PointLedger { delivered: 90, ..WHOLE });
    let counts = |received, published| AdapterCounts {
        received,
        matched: published,
        published,
        ..AdapterCounts::default()
    };
    let of = |received, published| {
        let ledger = ledger(&missing, counts(received, published));
        (ledger.lost, ledger.behind)
    };
    assert_eq!(of(1_000, 100), (10, 0));
    assert_eq!(of(1_000, 90), (0, 10));
    assert_eq!(of(900, 90), (0, 110));
}

#[test]
fn a_pace_that_is_not_reached_is_an_overload_and_what_never_came_is_wrong() {
    let paced = |ledger: PointLedger, handled| {
        let of = point(Workflow::Publish, ledger, ReplaySide::default());
        let mut point = Point { handled, ..of };
        judge_paced(&mut point);
        point.standing
    };
    assert_eq!(paced(WHOLE, 1_000), Standing::Kept);
    assert_eq!(paced(WHOLE, 900), Standing::Overloaded);
    assert_eq!(paced(PointLedger { lost: 1, ..WHOLE }, 1_000), Standing::Wrong);
    assert_eq!(paced(PointLedger { received: 1_100, ..WHOLE }, 1_000), Standing::Wrong);
    let mut long = point(Workflow::Publish, WHOLE, ReplaySide::default());
    let after = Counts { published: 10, published_bytes: 5_000, ..Counts::default() };
    judge_payloads(&mut long, &Counts::default(), &after);
    assert_eq!(long.reasons, ["payloads of 500 bytes, not 300"]);
}

#[test]
fn a_points_score_is_operations_by_cpu() {
    let of = point(Workflow::Workflow, WHOLE, ReplaySide::default());
    assert_eq!(of.cpu_us_each(), Some(10.0));
    assert_eq!(of.per_core_s(), Some(100_000.0));
    assert!((of.cpu_cores() - 0.01).abs() < 1e-9);
    assert_eq!(Point { handled: 0, ..of }.per_core_s(), None);
}

#[test]
fn results_that_were_late_in_the_middle_are_named() {
    let mut point = point(Workflow::Workflow, WHOLE, ReplaySide::default());
    let mut latency = weir_load::histogram();
    latency.record_n(1_000, 985).unwrap();
    latency.record_n(500_000, 15).unwrap();
    point.latency = Some(latency::summarize(&latency));
    let why = late_within(&point, 100_000).unwrap();
    assert_eq!(why, "one in a hundred came 500 ms late or more, where 100 ms may be");
    assert_eq!(late_within(&point, 600_000), None);
}
