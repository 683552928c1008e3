//! A session gets a message once for each time that it was taken in, however many of its
//! subscriptions match; again for each new subscription that asks for retained messages, and for
//! each group it is a member of.

use super::shared;
use crate::finding::Checker;
use crate::model::{Intake, Model, Subscribe, Subscription};
use crate::names::{MessageNo, SessionNo};
use crate::topics;
use std::collections::BTreeMap;
use weir_wire::QoS;
use weir_wire::packet::SubscriptionOptions;

/// Everything has been delivered.
pub fn calm(model: &mut Model) {
    let mut sent: BTreeMap<(MessageNo, SessionNo), (usize, usize)> = BTreeMap::new();
    for copy in &model.recent.copies {
        let (plain, retained) = sent.entry((copy.message, copy.session)).or_default();
        if copy.retain { *retained += 1 } else { *plain += 1 }
    }
    let mut came: BTreeMap<(MessageNo, SessionNo), usize> = BTreeMap::new();
    for arrival in model.recent.arrivals.iter().filter(|one| one.qos == QoS::ExactlyOnce) {
        *came.entry((arrival.message, arrival.session)).or_default() += 1;
    }
    let mut faults = Vec::new();
    let mut excess: BTreeMap<MessageNo, Vec<(SessionNo, usize)>> = BTreeMap::new();
    for (&(message, session), &(plain, retained)) in &sent {
        let Allowed { live, replayed, total } = allowed(model, message, session);
        let as_published = model.message(message).retain && has_as_published(model, session);
        if !as_published && retained > replayed {
            faults.push((message, session, "retained", retained, replayed));
        }
        // Without Retain As Published, what comes live has no RETAIN flag.
        let over = (plain + retained).saturating_sub(total).max(plain.saturating_sub(live));
        if over > 0 {
            excess.entry(message).or_default().push((session, over));
        }
        let count = came.get(&(message, session)).copied().unwrap_or(0);
        // What was sent to one that ended in a crash may be read after that, and counts no more.
        let its = model.session(session);
        let is_over = model.is_logged && its.ended.is_some() && its.expiry_s == 0;
        if count > plain + retained && !is_over {
            faults.push((message, session, "QoS 2", count, plain + retained));
        }
    }
    for (&(message, session), &count) in &came {
        let allowed = exactly(model, message, session);
        if count > allowed {
            faults.push((message, session, "QoS 2 by a session that is kept", count, allowed));
        }
    }
    for (message, session, kind, count, allowed) in faults {
        let what = format!(
            "client {}, session {} got m{} {count} times as {kind}, allowed are {allowed}",
            model.session(session).client.0,
            session.0,
            message.0
        );
        model.fail(Checker::Duplication, what);
    }
    for (message, sessions) in excess {
        shared::explain(model, message, &sessions);
    }
}

/// How often a session may get a message at QoS 2, whatever was lost: once, and once more for each
/// group that it is a member of. That of a message that is not retained, and whose publisher's
/// session is kept, while memory is not short.
fn exactly(model: &Model, message: MessageNo, session: SessionNo) -> usize {
    let published = model.message(message);
    let mut intakes = model.recent.intakes.iter().filter(|intake| intake.message == message);
    // Of what was refused there is none.
    if !may_be_mailed(model, message) || !intakes.all(|intake| is_mailed(model, intake)) {
        return usize::MAX;
    }
    let is_shared = |it: &&Subscription| {
        it.session == session && it.share.is_some() && topics::matches(it.filter, published.topic)
    };
    1 + model.subscriptions.iter().filter(is_shared).count()
}

/// Whether a message of QoS 2 is in its publisher's log before anybody has it.
fn is_mailed(model: &Model, intake: &Intake) -> bool {
    let is_kept = |publisher| model.session(publisher).expiry_s > 0;
    may_be_mailed(model, intake.message) && intake.session.is_some_and(is_kept)
}

/// Whether one may be, whoever publishes it.
fn may_be_mailed(model: &Model, message: MessageNo) -> bool {
    !model.is_pressed && !model.message(message).retain
}

/// How often a session may get a message beside what groups choose.
struct Allowed {
    /// As it is published.
    live: usize,
    /// As a retained one.
    replayed: usize,
    /// Altogether.
    total: usize,
}

fn allowed(model: &Model, message: MessageNo, session: SessionNo) -> Allowed {
    let topic = model.message(message).topic;
    let subscriptions = || {
        model
            .subscriptions
            .iter()
            .filter(|subscription| subscription.session == session && subscription.share.is_none())
    };
    let intakes: Vec<_> =
        model.recent.intakes.iter().filter(|intake| intake.message == message).collect();
    let live: usize = intakes
        .iter()
        .filter(|intake| subscriptions().any(|one| one.may_bring(intake, topic)))
        .map(|intake| 1 + unrecorded(model, intake, subscriptions()))
        .sum();
    let asking: Vec<_> = model
        .recent
        .subscribes
        .iter()
        .filter(|subscribe| {
            let subscription = model.subscription(subscribe.subscription);
            subscribe.wants_retained
                && subscription.session == session
                && topics::matches(subscription.filter, topic)
        })
        .collect();
    let replayed =
        asking.iter().filter(|subscribe| may_be_retained(model, message, subscribe)).count();
    // Who subscribes once gets a message live or as a retained one: what comes live while the
    // subscription is made is left out of what is retained.
    let is_made_by =
        |subscribe: &Subscribe| model.subscription(subscribe.subscription).noted == subscribe.noted;
    let is_single = intakes.len() == 1
        && matches!(asking[..], [only] if is_made_by(only))
        && subscriptions().filter(|one| topics::matches(one.filter, topic)).count() == 1;
    let total = if is_single { (live + replayed).min(1) } else { live + replayed };
    // A node that had kept it and was lost lists it to others before it comes to them live; and who
    // subscribes in that moment gets it as a retained one as well: docs/cluster.md says so.
    let is_listed = model.recent.has_lost_node && model.message(message).retain;
    let listed = if is_listed { asking.len().max(1) } else { 0 };
    Allowed { live, replayed: replayed + listed, total: total + listed }
}

/// How often a message may have come at QoS 0 before it was mailed again: of that no log knows.
fn unrecorded<'a>(
    model: &Model,
    intake: &Intake,
    mut all: impl Iterator<Item = &'a Subscription>,
) -> usize {
    let is_lowest = |it: &(u64, SubscriptionOptions)| it.1.qos == QoS::AtMostOnce;
    let is_mailed = intake.is_exact && is_mailed(model, intake);
    let may_be = !is_mailed && all.any(|it| it.options.iter().any(is_lowest));
    if may_be { intake.again } else { 0 }
}

/// Whether the message may be the topic's retained one when the subscription begins, or after.
fn may_be_retained(model: &Model, message: MessageNo, subscribe: &Subscribe) -> bool {
    let kept = model.retains.iter().filter(|retain| retain.message == Some(message));
    kept.into_iter().any(|retain| {
        let is_early = subscribe.effective.is_none_or(|effective| retain.at < effective);
        let is_replaced = model.retains.iter().any(|other| {
            other.topic == retain.topic
                && !other.is_doubtful
                && retain.settled.is_some_and(|settled| settled < other.at)
                && other.settled.is_some_and(|settled| settled < subscribe.noted)
        });
        is_early && !is_replaced
    })
}

/// Whether a subscription of the session keeps the RETAIN flag of what is published.
fn has_as_published(model: &Model, session: SessionNo) -> bool {
    model.subscriptions.iter().any(|subscription| {
        subscription.session == session
            && subscription.options.iter().any(|(_, options)| options.retain_as_published)
    })
}
