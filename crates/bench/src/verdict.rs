//! Whether a run can be believed, and whether the broker kept the use case's contract.

use crate::result::{ClusterResult, CourseResult};
use crate::result::{RunResult, Status, Verdict};
use crate::usecase::{Contract, Thresholds};
use weir_load::Outcome;
use weir_load::outcome::{End, Messages, Traffic};

/// Judges a run. A run that nobody could measure (invalid) says nothing of the broker; one that
/// breaks the contract is failed, however fast it was.
/// `broker_exit` is why the broker's process ended by itself, if it did.
pub(crate) fn judge(outcome: &Outcome, contract: &Contract, broker_exit: Option<&str>) -> Verdict {
    let (mut status, mut reasons) = match &outcome.end {
        End::Stopped => (Status::Aborted, vec!["stopped before its end".to_owned()]),
        End::BrokerGone(what) | End::SetupFailed(what) => (Status::Failed, vec![what.clone()]),
        End::AgentLost(what) => {
            let reasons = [what.clone()].into_iter().chain(unaudited(outcome));
            (Status::Invalid, reasons.collect())
        }
        End::Completed => {
            let invalid = &outcome.generator.invalid;
            let broken = broken(outcome, contract, !invalid.is_empty());
            if !invalid.is_empty() {
                (Status::Invalid, invalid.iter().cloned().chain(broken).collect())
            } else if !broken.is_empty() {
                (Status::Failed, broken)
            } else {
                (Status::Passed, Vec::new())
            }
        }
    };
    if let Some(exit) = broker_exit {
        reasons.push(exit.to_owned());
        // What is invalid or aborted stays so.
        if status == Status::Passed {
            status = Status::Failed;
        }
    }
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

fn broken(outcome: &Outcome, contract: &Contract, is_invalid: bool) -> Vec<String> {
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
    for (what, count) in &outcome.subscriptions.other_qos {
        reasons.push(format!("{count} of {} subscriptions: {what}", outcome.subscriptions.asked));
    }
    reasons.extend(broken_messages(&outcome.measure, contract));
    // What is lost is not behind: it never comes, and is told above. What a generator that was the
    // limit has not read in time says nothing of the broker.
    if reasons.is_empty() && !is_invalid {
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
    reasons.extend(result.cluster.iter().flat_map(ClusterResult::broken));
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
    let reordered = messages.reordered.saturating_sub(messages.reordered_shared);
    if reordered > contract.reordered_max {
        reasons.push(format!(
            "{reordered} deliveries came after a later one of the same publisher (the contract \
             allows {})",
            contract.reordered_max
        ));
    }
    if messages.stray_own > contract.stray_max {
        reasons.push(format!(
            "{} deliveries of this run were owed to nobody: of messages never sent, or to a \
             subscriber without a subscription for them (the contract allows {})",
            messages.stray_own, contract.stray_max
        ));
    }
    let altered = messages.altered.named().into_iter().filter(|(_, count)| *count > 0);
    reasons.extend(altered.map(|(what, count)| {
        format!("{count} deliveries came with another {what} than they had to have")
    }));
    reasons
}

#[cfg(test)]
pub(crate) mod tests;
