//! Whether a run can be believed, and whether the broker kept the use case's contract.

use crate::faults::CourseResult;
use crate::result::{RunResult, Status, Verdict};
use crate::usecase::{Contract, Thresholds};
use weir_load::Outcome;
use weir_load::outcome::{End, Interval, Messages, Phase, PhaseSpan};

/// Judges a run. A run that nobody could measure (invalid) says nothing of the broker; one that
/// breaks the contract is failed, however fast it was.
pub(crate) fn judge(outcome: &Outcome, contract: &Contract) -> Verdict {
    let (status, reasons) = match &outcome.end {
        End::Stopped => (Status::Aborted, vec!["stopped before its end".to_owned()]),
        End::BrokerGone(what) | End::SetupFailed(what) => (Status::Failed, vec![what.clone()]),
        End::AgentLost(what) => (Status::Invalid, vec![what.clone()]),
        End::Completed => {
            let broken = broken(outcome, contract);
            let invalid = &outcome.generator.invalid;
            if !invalid.is_empty() {
                (Status::Invalid, invalid.iter().cloned().chain(broken).collect())
            } else if !broken.is_empty() {
                (Status::Failed, broken)
            } else {
                (Status::Passed, Vec::new())
            }
        }
    };
    Verdict { status, reasons }
}

fn broken(outcome: &Outcome, contract: &Contract) -> Vec<String> {
    let mut reasons = Vec::new();
    let connections = &outcome.connections;
    let failed: u64 = connections.failed.values().sum();
    let dropped: u64 = connections.dropped.values().sum();
    if failed > 0 {
        reasons.push(format!("{failed} of {} connections failed", connections.planned));
    }
    if dropped > 0 {
        reasons.push(format!("{dropped} connections were dropped"));
    }
    let refused: u64 = outcome.subscriptions.failed.values().sum();
    if refused > 0 {
        reasons.push(format!("{refused} of {} subscriptions failed", outcome.subscriptions.asked));
    }
    reasons.extend(broken_messages(&outcome.measure, contract));
    // What is lost is not behind: it never comes, and is told above.
    if reasons.is_empty() {
        let measure = outcome.phases.iter().find(|span| span.phase == Phase::Measure);
        let behind =
            measure.and_then(|span| behind(span, &outcome.intervals, &outcome.measure, contract));
        reasons.extend(behind);
    }
    reasons
}

/// Whether deliveries fell behind while they were due. A steady delay is no fault: what came of
/// earlier messages stands for what is still under way at the end.
fn behind(
    span: &PhaseSpan,
    intervals: &[Interval],
    messages: &Messages,
    contract: &Contract,
) -> Option<String> {
    let measure_us = span.end_us.saturating_sub(span.start_us);
    let within = intervals.iter().filter(|interval| {
        let end_us = interval.start_us + interval.length_us;
        interval.start_us >= span.start_us && end_us <= span.end_us
    });
    let (mut length_us, mut received) = (0, 0);
    for interval in within {
        length_us += interval.length_us;
        received += interval.received.saturating_sub(interval.duplicated);
    }
    if length_us == 0 || measure_us == 0 || messages.accepted == 0 {
        return None;
    }
    // What the contract allows to be lost is not behind: it never comes.
    let owed = messages.expected.saturating_sub(messages.lost);
    let due = owed as f64 * length_us as f64 / measure_us as f64;
    let missing = due - received as f64;
    // One message of a fan-out falls to either side of the end as a whole.
    let each = messages.expected as f64 / messages.accepted as f64;
    (missing - each > due * contract.behind_share_max).then(|| {
        format!(
            "behind: {received} of {due:.0} deliveries came while they were due: {:.1} % were \
             still owed (the contract allows {:.1} %), and the latency is that of a growing queue",
            missing / due * 100.0,
            contract.behind_share_max * 100.0
        )
    })
}

/// Holds a whole result against its thresholds and its steps. What is invalid or aborted stays so.
pub(crate) fn judge_result(mut result: RunResult, thresholds: &Thresholds) -> RunResult {
    let mut reasons = thresholds.broken(&result);
    reasons.extend(result.course.iter().flat_map(CourseResult::broken));
    if !reasons.is_empty() && result.verdict.status == Status::Passed {
        result.verdict.status = Status::Failed;
    }
    result.verdict.reasons.extend(reasons);
    result
}

fn broken_messages(messages: &Messages, contract: &Contract) -> Vec<String> {
    let mut reasons = Vec::new();
    if messages.intended == 0 {
        return reasons;
    }
    let missing = messages.intended.saturating_sub(messages.accepted) as f64;
    let allowed = messages.intended as f64 * contract.rate_tolerance;
    if missing > allowed {
        reasons.push(format!(
            "{} of {} due messages were accepted: {:.1} % are missing (the contract allows \
             {:.1} %)",
            messages.accepted,
            messages.intended,
            missing / messages.intended as f64 * 100.0,
            contract.rate_tolerance * 100.0
        ));
    }
    let lost_share = messages.lost as f64 / messages.expected.max(1) as f64;
    if lost_share > contract.lost_share_max {
        reasons.push(format!(
            "{} of {} deliveries lost: {:.2} % (the contract allows {:.2} %)",
            messages.lost,
            messages.expected,
            lost_share * 100.0,
            contract.lost_share_max * 100.0
        ));
    }
    if let Some(duplicated_max) = contract.duplicated_max
        && messages.duplicated > duplicated_max
    {
        reasons.push(format!(
            "{} deliveries came twice (the contract allows {duplicated_max})",
            messages.duplicated
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract() -> Contract {
        Contract::default()
    }

    fn messages(intended: u64, lost: u64) -> Messages {
        let (accepted, expected) = (intended, intended * 10);
        let delivered = expected - lost;
        Messages {
            intended,
            sent: intended,
            accepted,
            expected,
            delivered,
            lost,
            ..Default::default()
        }
    }

    #[test]
    fn a_run_without_loss_at_its_rate_keeps_the_contract() {
        assert!(broken_messages(&messages(1000, 0), &contract()).is_empty());
    }

    #[test]
    fn one_lost_delivery_breaks_the_contract_at_qos_1() {
        let reasons = broken_messages(&messages(1000, 1), &contract());
        assert!(reasons[0].starts_with("1 of 10000 deliveries lost"), "{reasons:?}");
    }

    #[test]
    fn a_loss_within_the_share_is_allowed_where_the_file_says_so() {
        let contract = Contract { lost_share_max: 0.01, ..contract() };
        assert!(broken_messages(&messages(1000, 100), &contract).is_empty());
        assert_eq!(broken_messages(&messages(1000, 101), &contract).len(), 1);
    }

    #[test]
    fn a_rate_more_than_a_percent_below_breaks_the_contract() {
        let short = |accepted| Messages { accepted, ..messages(1000, 0) };
        assert!(broken_messages(&short(990), &contract()).is_empty());
        let reasons = broken_messages(&short(989), &contract());
        assert!(reasons[0].starts_with("989 of 1000 due messages"), "{reasons:?}");
    }

    /// What is said of 10 s of 1,000 messages a second to 10 receivers, of which so many deliveries
    /// came in each second; the phase begins within the first.
    fn said_of(received: [u64; 10]) -> Option<String> {
        let span = PhaseSpan { phase: Phase::Measure, start_us: 500_000, end_us: 9_500_000 };
        let interval = |(at, received)| Interval {
            start_us: at as u64 * 1_000_000,
            length_us: 1_000_000,
            received,
            ..Interval::default()
        };
        let intervals: Vec<Interval> = received.into_iter().enumerate().map(interval).collect();
        behind(&span, &intervals, &messages(9_000, 0), &contract())
    }

    #[test]
    fn what_comes_only_after_measure_breaks_the_contract() {
        assert_eq!(said_of([10_000; 10]), None);
        let reason = said_of([9_600; 10]).unwrap();
        assert!(reason.starts_with("behind: 76800 of 80000 deliveries"), "{reason}");
        assert!(reason.contains("4.0 %"), "{reason}");
        assert_eq!(said_of([9_710; 10]), None, "3 % are allowed");
    }

    #[test]
    fn a_pause_that_is_caught_up_with_and_a_steady_delay_are_not_behind() {
        let mut paused = [10_000; 10];
        (paused[4], paused[5]) = (0, 20_000);
        assert_eq!(said_of(paused), None);
        // Half a second under way all the time: as much comes of before as stays for after.
        let mut delayed = [10_000; 10];
        (delayed[0], delayed[9]) = (0, 5_000);
        assert_eq!(said_of(delayed), None);
        // A pause at the end is not caught up with.
        let mut ended = [10_000; 10];
        ended[8] = 5_000;
        assert!(said_of(ended).is_some());
    }

    #[test]
    fn one_message_of_a_fan_out_may_fall_beyond_the_end() {
        let span = PhaseSpan { phase: Phase::Measure, start_us: 0, end_us: 3_000_000 };
        let second = |at: u64, received| Interval {
            start_us: at * 1_000_000,
            length_us: 1_000_000,
            received,
            ..Interval::default()
        };
        let intervals = [second(0, 1_000), second(1, 1_000), second(2, 0)];
        let fan_out = Messages { intended: 3, accepted: 3, expected: 3_000, ..messages(3, 0) };
        assert_eq!(behind(&span, &intervals, &fan_out, &contract()), None);
        let intervals = [second(0, 1_000), second(1, 0), second(2, 0)];
        assert!(behind(&span, &intervals, &fan_out, &contract()).is_some());
    }

    #[test]
    fn duplicates_break_a_contract_that_names_them() {
        let twice = Messages { duplicated: 1, ..messages(10, 0) };
        assert!(broken_messages(&twice, &contract()).is_empty());
        let exact = Contract { duplicated_max: Some(0), ..contract() };
        assert_eq!(broken_messages(&twice, &exact).len(), 1);
    }
}
