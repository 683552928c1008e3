//! Whether a run can be believed, and whether the broker kept the use case's contract.

use crate::result::CourseResult;
use crate::result::{RunResult, Status, Verdict};
use crate::usecase::{Contract, Thresholds};
use weir_load::Outcome;
use weir_load::outcome::{End, Messages, Traffic};

/// Judges a run. A run that nobody could measure (invalid) says nothing of the broker; one that
/// breaks the contract is failed, however fast it was.
pub(crate) fn judge(outcome: &Outcome, contract: &Contract) -> Verdict {
    let (status, reasons) = match &outcome.end {
        End::Stopped => (Status::Aborted, vec!["stopped before its end".to_owned()]),
        End::BrokerGone(what) | End::SetupFailed(what) => (Status::Failed, vec![what.clone()]),
        End::AgentLost(what) => {
            let reasons = [what.clone()].into_iter().chain(unaudited(outcome));
            (Status::Invalid, reasons.collect())
        }
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

/// What of a run that was cut short nobody can speak for.
fn unaudited(outcome: &Outcome) -> Option<String> {
    let count = outcome.warm_up.unaudited + outcome.measure.unaudited;
    (count > 0).then(|| {
        format!(
            "{count} deliveries are unaudited: under way when the run was cut short, or to clients \
             of the lost agent"
        )
    })
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
        let behind = behind(&outcome.traffic, &outcome.measure, contract);
        reasons.extend(behind);
    }
    reasons
}

/// Whether deliveries fell behind while they were due. A steady delay is no fault: what came of
/// earlier messages stands for what is still under way at the end.
fn behind(traffic: &Traffic, messages: &Messages, contract: &Contract) -> Option<String> {
    if messages.accepted == 0 {
        return None;
    }
    // What the contract allows to be lost is not behind: it never comes.
    let due = messages.expected.saturating_sub(messages.lost) as f64;
    let received = traffic.received.saturating_sub(traffic.duplicated);
    let missing = due - received as f64;
    // One message of a fan-out falls to either side of the end as a whole.
    let each = messages.expected as f64 / messages.accepted as f64;
    (missing - each > due * contract.behind_share_max).then(|| {
        format!(
            "behind: {received} of {due:.0} deliveries arrived while they were due: {:.1} % were \
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
            "{} deliveries were duplicated (the contract allows {duplicated_max})",
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

    /// What is said of 9,000 messages to 10 receivers, of which so many deliveries came in measure.
    fn said_of(received: u64) -> Option<String> {
        let traffic = Traffic { received, ..Traffic::default() };
        behind(&traffic, &messages(9_000, 0), &contract())
    }

    #[test]
    fn what_comes_only_after_measure_breaks_the_contract() {
        assert_eq!(said_of(90_000), None);
        let reason = said_of(86_400).unwrap();
        assert!(reason.starts_with("behind: 86400 of 90000 deliveries"), "{reason}");
        assert!(reason.contains("4.0 %"), "{reason}");
        assert_eq!(said_of(87_300), None, "3 % are allowed");
        // As much came of warm-up as stayed for after, and more.
        assert_eq!(said_of(91_000), None);
    }

    #[test]
    fn what_comes_twice_or_is_allowed_to_be_lost_is_not_behind() {
        let twice = Traffic { received: 90_000, duplicated: 3_600, ..Traffic::default() };
        assert!(behind(&twice, &messages(9_000, 0), &contract()).is_some());
        let lost = Traffic { received: 86_400, ..Traffic::default() };
        assert_eq!(behind(&lost, &messages(9_000, 3_600), &contract()), None);
    }

    #[test]
    fn one_message_of_a_fan_out_may_fall_beyond_the_end() {
        let fan_out = Messages { intended: 3, accepted: 3, expected: 3_000, ..messages(3, 0) };
        let of = |received| Traffic { received, ..Traffic::default() };
        assert_eq!(behind(&of(2_000), &fan_out, &contract()), None);
        assert!(behind(&of(1_000), &fan_out, &contract()).is_some());
    }

    #[test]
    fn duplicates_break_a_contract_that_names_them() {
        let twice = Messages { duplicated: 1, ..messages(10, 0) };
        assert!(broken_messages(&twice, &contract()).is_empty());
        let exact = Contract { duplicated_max: Some(0), ..contract() };
        assert_eq!(broken_messages(&twice, &exact).len(), 1);
    }
}
