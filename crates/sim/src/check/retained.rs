//! A new subscription gets the last retained message of each topic it matches.

use crate::finding::Checker;
use crate::model::{Model, Retain, Subscribe};
use crate::names::{ClientNo, MessageNo, SessionNo};
use crate::topics;
use std::collections::{BTreeMap, BTreeSet};
use weir_wire::QoS;

/// Everything has been delivered: a subscription got what is retained, from the store or live.
pub fn calm(model: &mut Model) {
    let mut only: BTreeMap<&str, Vec<Retain>> = BTreeMap::new();
    for retain in model.candidates() {
        only.entry(retain.topic).or_default().push(retain);
    }
    let mut faults = Vec::new();
    for (place, subscribe) in model.recent.subscribes.iter().enumerate() {
        let Some((session, filter)) = owed(model, place, subscribe) else { continue };
        for (&topic, retains) in &only {
            let [retain] = retains.as_slice() else { continue };
            let Some(message) = retain.message else { continue };
            // Published before, it comes from the store; about the same time, live or so; after,
            // live.
            let is_before = retain.settled.is_some_and(|settled| settled < subscribe.noted);
            let after = is_before.then_some(subscribe.noted);
            let is_fresh = retain.expires_at.is_none_or(|at| model.now < at);
            if is_fresh
                && topics::matches(filter, topic)
                && takes(model, session, subscribe, message)
                && !has_arrived(model, session, message, after)
            {
                faults.push((session, filter, message));
            }
        }
    }
    for (session, filter, message) in faults {
        let dropped = model.recent.drops.get(&(session, model.message(message).topic));
        if dropped.is_none() {
            let client = model.session(session).client.0;
            let what = format!("client {client} subscribed to {filter}: no m{}", message.0);
            model.fail(Checker::Retained, what);
        }
    }
}

/// The session and filter of a SUBSCRIBE that is to get retained messages for certain.
fn owed(model: &Model, place: usize, subscribe: &Subscribe) -> Option<(SessionNo, &'static str)> {
    let subscription = model.subscription(subscribe.subscription);
    // A later SUBSCRIBE that asks again takes the place of this one.
    let is_last = !model.recent.subscribes[place + 1..]
        .iter()
        .any(|later| later.subscription == subscribe.subscription && later.wants_retained);
    let is_owed =
        subscribe.wants_retained && !subscribe.is_broken && subscription.ended.is_none() && is_last;
    is_owed.then_some((subscription.session, subscription.filter))
}

/// Whether it comes with an acknowledgement, or on a connection that never broke; and is not kept
/// from its own publisher.
fn takes(model: &Model, session: SessionNo, subscribe: &Subscribe, message: MessageNo) -> bool {
    let options = &model.subscription(subscribe.subscription).options;
    let is_acknowledged = model.message(message).qos > QoS::AtMostOnce
        && options.iter().all(|(_, options)| options.qos > QoS::AtMostOnce);
    let is_own = model.message(message).publisher == model.session(session).client
        && options.iter().any(|(_, options)| options.no_local);
    !is_own && (is_acknowledged || model.session(session).conn == Some(subscribe.conn))
}

/// Whether a message came; with `after`, as a retained one after that.
fn has_arrived(model: &Model, session: SessionNo, message: MessageNo, after: Option<u64>) -> bool {
    model.recent.arrivals.iter().any(|arrival| {
        let is_meant = after.is_none_or(|after| arrival.retain && arrival.at > after);
        arrival.session == session && arrival.message == message && is_meant
    })
}

/// What a client got, by topic.
pub type Got = BTreeMap<&'static str, Vec<MessageNo>>;

/// What a fresh subscriber got.
pub fn got(model: &Model, probe: ClientNo) -> Got {
    let mut got = Got::new();
    let session = model.alive.get(&probe);
    for arrival in model.recent.arrivals.iter().filter(|it| Some(&it.session) == session) {
        got.entry(model.message(arrival.message).topic).or_default().push(arrival.message);
    }
    got
}

/// A fresh subscriber on another node got the same, but for what expires meanwhile.
pub fn same(model: &mut Model, first: &Got, probe: ClientNo) {
    let other = got(model, probe);
    for &topic in topics::TOPICS {
        let is_lasting = |retain: &Retain| retain.topic != topic || retain.expires_at.is_none();
        let (one, another) = (first.get(topic), other.get(topic));
        if one != another && model.candidates().iter().all(is_lasting) {
            let what = format!("{topic}: one node has {one:?}, another {another:?}");
            model.fail(Checker::Retained, what);
        }
    }
}

/// What a fresh subscriber to everything got is what is retained.
pub fn fresh(model: &mut Model, probe: ClientNo, filters: &[&str]) {
    if !model.alive.contains_key(&probe) {
        return model.fail(Checker::Retained, "the fresh subscriber is not there".into());
    }
    let got = got(model, probe);
    let candidates = model.candidates();
    for &topic in topics::TOPICS {
        if !filters.iter().any(|filter| topics::matches(filter, topic)) {
            continue;
        }
        let of_topic = candidates.iter().filter(|retain| retain.topic == topic);
        let is_gone = |retain: &&Retain| retain.expires_at.is_some_and(|at| at <= model.now);
        let mut allowed: BTreeSet<Option<MessageNo>> =
            of_topic.map(|retain| if is_gone(&retain) { None } else { retain.message }).collect();
        if allowed.is_empty() {
            allowed.insert(None);
        }
        let got = got.get(topic).map_or(&[][..], Vec::as_slice);
        let is_right = match got {
            [] => allowed.contains(&None),
            [one] => allowed.contains(&Some(*one)),
            _ => false,
        };
        if !is_right {
            let what = format!("{topic}: got {got:?}, retained is one of {allowed:?}");
            model.fail(Checker::Retained, what);
        }
    }
}
