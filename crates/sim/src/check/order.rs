//! What one session publishes on one topic comes to a subscriber in that order, for each QoS it is
//! delivered with [MQTT-4.6.0-5, 4.6.0-6]. First arrivals count; what was taken in twice has no
//! place of its own, and what a group chose or a store kept has another.
//!
//! Of what is published to be retained, nothing older comes after a newer one, live or from a
//! store, whoever published them; unless a crash came before anybody was told that the broker has
//! one of the two. That is one at QoS 0, of which section 4.3.1 promises nothing, a will, or one
//! whose acknowledgement had not left. Nor does it hold for a session that goes to another node
//! meanwhile: what each shard has routed since it knows of that comes behind all the rest.

use crate::finding::Checker;
use crate::model::{Arrival, Intake, Model};
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
        // What a client could not take is dropped, and comes late if a crash forgets that.
        let drops = &model.recent.drops;
        let may_be_back = model.is_logged && drops.contains_key(&(arrival.session, topic));
        // So may what memory had no room for, if a node is lost that has not said that to its log.
        let may_be_taken = model.is_pressed && model.recent.has_lost_node;
        if at < newest.0 && !may_be_back && !may_be_taken {
            faults.push((arrival.session, arrival.message, newest.1, topic));
        } else if at >= newest.0 {
            *newest = (at, arrival.message);
        }
    }
    faults.extend(retained(model));
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

/// What was published to be retained and came after a newer one of its topic.
fn retained(model: &Model) -> Vec<(SessionNo, MessageNo, MessageNo, &'static str)> {
    let mut seen = BTreeSet::new();
    let mut newest: BTreeMap<_, &Intake> = BTreeMap::new();
    let mut faults = Vec::new();
    for arrival in &model.recent.arrivals {
        let is_first = seen.insert((arrival.session, arrival.message));
        let message = model.message(arrival.message);
        let mut intakes =
            model.recent.intakes.iter().filter(|intake| intake.message == arrival.message);
        let (Some(intake), None) = (intakes.next(), intakes.next()) else { continue };
        let has_moved = model.recent.moved.contains(&arrival.session);
        if !is_first || !message.retain || has_moved || is_shared(model, arrival) {
            continue;
        }
        let stream = (arrival.session, message.topic, arrival.qos);
        let last = newest.entry(stream).or_insert(intake);
        let are_sure = !intake.is_doubtful && !last.is_doubtful;
        if intake.settled.is_some_and(|settled| settled < last.at) && are_sure {
            faults.push((arrival.session, arrival.message, last.message, message.topic));
        } else if intake.at > last.at {
            *last = intake;
        }
    }
    faults
}

fn is_shared(model: &Model, arrival: &Arrival) -> bool {
    let topic = model.message(arrival.message).topic;
    model.subscriptions.iter().any(|subscription| {
        subscription.session == arrival.session
            && subscription.share.is_some()
            && topics::matches(subscription.filter, topic)
    })
}
