//! A message goes to one member of each group that matches it, and to one that is there.

use crate::finding::Checker;
use crate::model::{Intake, Model, Subscription};
use crate::names::{MessageNo, SessionNo};
use std::collections::{BTreeMap, BTreeSet};
use weir_wire::QoS;

/// A shared subscription, by filter and share name.
type Group = (&'static str, &'static str);

/// More copies of a message were sent than subscriptions beside shared ones account for: the rest
/// has to be what groups chose.
pub(super) fn explain(model: &mut Model, message: MessageNo, sessions: &[(SessionNo, usize)]) {
    let intakes: Vec<_> =
        model.recent.intakes.iter().filter(|intake| intake.message == message).collect();
    let mut chosen_max = 0;
    let mut per_member: BTreeMap<SessionNo, usize> = BTreeMap::new();
    for intake in intakes {
        let groups = members(model, intake, |one, topic| one.may_bring(intake, topic));
        chosen_max += groups.len() * (1 + intake.again);
        for member in groups.into_values().flatten() {
            *per_member.entry(member).or_default() += 1 + intake.again;
        }
    }
    if model.may_be_sent(message) {
        return;
    }
    if chosen_max == 0 && model.message(message).is_will && !is_taken_in(model, message) {
        let what = format!("m{}, a will, was published and is not due", message.0);
        return model.fail(Checker::Wills, what);
    }
    let count: usize = sessions.iter().map(|&(_, count)| count).sum();
    let stranger = sessions
        .iter()
        .find(|(session, count)| *count > per_member.get(session).copied().unwrap_or(0));
    if let Some(&(session, count)) = stranger {
        let what = format!(
            "client {}, session {} got m{} {count} times more than its subscriptions bring",
            model.session(session).client.0,
            session.0,
            message.0
        );
        model.fail(Checker::Duplication, what);
    } else if count > chosen_max * may_double(model, message) {
        let what = format!("m{} went to {count} members of {chosen_max} groups", message.0);
        model.fail(Checker::Shared, what);
    }
}

/// At QoS 1 each letter with a choice may go once more, to whoever is chosen then, when a node is
/// lost: docs/cluster.md says so.
fn may_double(model: &Model, message: MessageNo) -> usize {
    let is_exact = model.message(message).qos == QoS::ExactlyOnce;
    if model.recent.has_lost_node && !is_exact { 2 } else { 1 }
}

fn is_taken_in(model: &Model, message: MessageNo) -> bool {
    model.recent.intakes.iter().any(|intake| intake.message == message)
}

/// The sessions of each group that matches a message, by what is asked of the subscription.
fn members(
    model: &Model,
    intake: &Intake,
    is_meant: impl Fn(&Subscription, &str) -> bool,
) -> BTreeMap<Group, Vec<SessionNo>> {
    let topic = model.message(intake.message).topic;
    let mut groups: BTreeMap<Group, Vec<SessionNo>> = BTreeMap::new();
    for subscription in &model.subscriptions {
        if let Some(share) = subscription.share
            && is_meant(subscription, topic)
        {
            groups.entry((subscription.filter, share)).or_default().push(subscription.session);
        }
    }
    groups
}

/// Everything has been delivered: what a group was to get came to somebody.
pub fn calm(model: &mut Model) {
    let arrived: BTreeSet<_> =
        model.recent.arrivals.iter().map(|arrival| (arrival.message, arrival.session)).collect();
    let mut missing: BTreeMap<(Group, &str), BTreeSet<MessageNo>> = BTreeMap::new();
    for intake in &model.recent.intakes {
        let message = model.message(intake.message);
        let is_owed = intake.is_acked
            && message.qos > QoS::AtMostOnce
            && !message.is_empty
            && intake.expires_at.is_none_or(|at| model.now < at);
        if !is_owed {
            continue;
        }
        let possible = members(model, intake, |one, topic| one.may_bring(intake, topic));
        for (group, certain) in members(model, intake, |one, topic| one.must_bring(intake, topic)) {
            let possible = &possible[&group];
            // Who is chosen and does not come back takes the message along.
            let is_safe = !certain.is_empty()
                && possible.iter().all(|&session| model.session(session).ended.is_none())
                && is_acknowledged(model, intake, group)
                && !model.recent.left_while_moving.contains(&group)
                && !model.is_lost_will(intake);
            let is_there =
                || possible.iter().any(|&session| arrived.contains(&(intake.message, session)));
            if is_safe && !is_there() {
                missing.entry((group, message.topic)).or_default().insert(intake.message);
            }
        }
    }
    for ((group, topic), messages) in missing {
        let of_topic = model.recent.drops.iter().filter(|((_, dropped), _)| *dropped == topic);
        let dropped: usize = of_topic.map(|(_, count)| count).sum();
        if messages.len() > dropped {
            let numbers: Vec<_> = messages.iter().map(|message| message.0).collect();
            let what = format!("nobody of {group:?} got {numbers:?} on {topic}, {dropped} dropped");
            model.fail(Checker::Shared, what);
        }
    }
}

/// Whether every member of the group takes such a message with an acknowledgement. Where a node was
/// lost, those count too that are over since then: who is in its place may have them still.
fn is_acknowledged(model: &Model, intake: &Intake, group: Group) -> bool {
    let topic = model.message(intake.message).topic;
    let since = model.recent.intakes.first().map_or(0, |first| first.at);
    let is_member = |subscription: &Subscription| {
        let is_over = subscription.ended.is_some_and(|ended| ended < since);
        subscription.may_bring(intake, topic) || model.recent.has_lost_node && !is_over
    };
    model.subscriptions.iter().all(|subscription| {
        (subscription.filter, subscription.share) != (group.0, Some(group.1))
            || !is_member(subscription)
            || subscription.options.iter().all(|(_, options)| options.qos > QoS::AtMostOnce)
    })
}
