//! Whether a run can be believed, and whether the broker kept the use case's contract.

use crate::result::{Status, Verdict};
use crate::usecase::Contract;
use weir_load::Outcome;
use weir_load::outcome::{End, Messages};

/// Judges a run. A run that nobody could measure (invalid) says nothing of the broker; one that
/// breaks the contract is failed, however fast it was.
pub(crate) fn judge(outcome: &Outcome, contract: &Contract) -> Verdict {
    let (status, reasons) = match &outcome.end {
        End::Stopped => (Status::Aborted, vec!["stopped before its end".to_owned()]),
        End::BrokerGone(what) | End::SetupFailed(what) => (Status::Failed, vec![what.clone()]),
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
    reasons
}

fn broken_messages(messages: &Messages, contract: &Contract) -> Vec<String> {
    let mut reasons = Vec::new();
    if messages.intended == 0 {
        return reasons;
    }
    let rate_missing = 1.0 - messages.accepted as f64 / messages.intended as f64;
    if rate_missing > contract.rate_tolerance {
        reasons.push(format!(
            "{} of {} due messages were accepted: {:.1} % are missing (the contract allows {:.1} %)",
            messages.accepted,
            messages.intended,
            rate_missing * 100.0,
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
