//! What one session publishes on one topic comes to a subscriber in that order, for each QoS it is
//! delivered with [MQTT-4.6.0-5, 4.6.0-6]. First arrivals count; what was taken in twice has no
//! place of its own, and what a group chose or a store kept has another.

use crate::finding::Checker;
use crate::model::{Arrival, Model};
use crate::names::{MessageNo, SessionNo};
use crate::topics;
use std::collections::{BTreeMap, BTreeSet};

/// Everything has been delivered.
pub fn calm(model: &mut Model) {
    let mut places: BTreeMap<MessageNo, Vec<(u64, SessionNo)>> = BTreeMap::new();
    for intake in &model.recent.intakes {
        if let Some(session) = intake.session {
            places.entry(intake.message).or_default().push((intake.at, session));
        }
    }
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<_, (u64, MessageNo)> = BTreeMap::new();
    let mut faults = Vec::new();
    for arrival in &model.recent.arrivals {
        let is_first = seen.insert((arrival.session, arrival.message));
        let Some(&[(at, publisher)]) = places.get(&arrival.message).map(Vec::as_slice) else {
            continue;
        };
        if !is_first || arrival.retain || is_shared(model, arrival) {
            continue;
        }
        let topic = model.message(arrival.message).topic;
        let stream = (arrival.session, publisher, topic, arrival.qos);
        let newest = last.entry(stream).or_insert((at, arrival.message));
        if at < newest.0 {
            faults.push((arrival.session, arrival.message, newest.1, topic));
        } else {
            *newest = (at, arrival.message);
        }
    }
    for (session, late, early, topic) in faults {
        let what = format!(
            "client {}, session {} got m{} after m{} on {topic}",
            model.session(session).client.0,
            session.0,
            late.0,
            early.0
        );
        model.fail(Checker::Order, what);
    }
}

fn is_shared(model: &Model, arrival: &Arrival) -> bool {
    let topic = model.message(arrival.message).topic;
    model.subscriptions.iter().any(|subscription| {
        subscription.session == arrival.session
            && subscription.share.is_some()
            && topics::matches(subscription.filter, topic)
    })
}
