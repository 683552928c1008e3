//! A message of QoS 1 or 2 that its publisher was told the broker has reaches every session whose
//! subscription was effective before, unless it expired or the broker said that it dropped it.

use crate::finding::Checker;
use crate::model::{Intake, Model};
use crate::names::SessionNo;
use std::collections::{BTreeMap, BTreeSet};
use weir_wire::QoS;

/// Everything has been delivered.
pub fn calm(model: &mut Model) {
    lost(model, false, Checker::Loss);
}

/// What somebody should have got and did not: wills, or what was published.
pub(super) fn lost(model: &mut Model, of_wills: bool, checker: Checker) {
    let arrived: BTreeSet<_> =
        model.recent.arrivals.iter().map(|arrival| (arrival.session, arrival.message)).collect();
    let mut missing = BTreeMap::new();
    for intake in &model.recent.intakes {
        if model.message(intake.message).is_will != of_wills {
            continue;
        }
        for session in receivers(model, intake) {
            if !arrived.contains(&(session, intake.message)) {
                let topic = model.message(intake.message).topic;
                let of_topic: &mut BTreeSet<_> = missing.entry((session, topic)).or_default();
                of_topic.insert(intake.message);
            }
        }
    }
    for ((session, topic), messages) in missing {
        let dropped = model.recent.drops.get(&(session, topic)).copied().unwrap_or(0);
        if messages.len() > dropped {
            let numbers: Vec<_> = messages.iter().map(|message| message.0).collect();
            let client = model.session(session).client.0;
            let what = format!(
                "client {client}, session {} never got {numbers:?} on {topic}, {dropped} dropped",
                session.0
            );
            model.fail(checker, what);
        }
    }
}

/// The sessions that have to get a message.
fn receivers(model: &Model, intake: &Intake) -> BTreeSet<SessionNo> {
    let message = model.message(intake.message);
    let is_owed = intake.is_acked
        && message.qos > QoS::AtMostOnce
        && !message.is_empty
        && intake.expires_at.is_none_or(|at| model.now < at);
    if !is_owed {
        return BTreeSet::new();
    }
    let own_will = |session: SessionNo| {
        // Whether No Local keeps a client's will from itself is not said.
        message.is_will && model.session(session).client == message.publisher
    };
    let subscriptions = model.subscriptions.iter().filter(|subscription| {
        subscription.share.is_none()
            && model.session(subscription.session).ended.is_none()
            && subscription.must_bring(intake, message.topic)
            && !own_will(subscription.session)
    });
    subscriptions.map(|subscription| subscription.session).collect()
}
