//! What rules make of a message: published as the broker's own, before the message that they come
//! from is acknowledged. Their results go to the rules again, level by level, down to a bound.

use super::Shard;
use crate::content::{Derived, Rules};
use crate::keys::{Micros, Origin};
use crate::message::Delivery;
use crate::rules::Results;
use crate::sink::{Notice, Sink};
use weir_wire::{Properties, ReasonCode, topic};

impl Shard {
    /// Has every message that a client publishes on this shard, and every will, go through `rules`.
    pub fn set_rules(&mut self, rules: Box<dyn Rules>) {
        self.rules.port = Some(rules);
    }

    /// Has messages go through no rules any more.
    pub fn clear_rules(&mut self) {
        self.rules.port = None;
    }

    /// The rules, if there are any.
    pub fn rules(&self) -> Option<&dyn Rules> {
        self.rules.port.as_deref()
    }

    /// Gives a message that was routed to the rules. What they make of it counts for `origin`.
    #[inline]
    pub(super) fn apply_rules(
        &mut self,
        delivery: &Delivery<'_>,
        origin: impl FnOnce(&Self) -> Origin,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if let Some(rules) = self.rules.port.take() {
            let origin = origin(self);
            self.rules.port = Some(self.apply(rules, delivery, origin, now, sink));
        }
    }

    fn apply(
        &mut self,
        mut rules: Box<dyn Rules>,
        delivery: &Delivery<'_>,
        origin: Origin,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Box<dyn Rules> {
        let [mut level, mut next] = std::mem::take(&mut self.rules.results);
        let mut left = self.bounds.limits.rule_results_max as usize;
        level.clear();
        self.make(&mut *rules, delivery, &mut level, &mut left, now);
        let mut depth = 0;
        while level.len() > 0 {
            let is_seen = depth < self.bounds.limits.rule_depth_max;
            next.clear();
            for at in 0..level.len() {
                let Some(derived) = level.get(at) else { continue };
                let Some(delivery) = self.publish_derived(derived, origin, now, sink) else {
                    continue;
                };
                if is_seen {
                    self.make(&mut *rules, &delivery, &mut next, &mut left, now);
                } else {
                    self.stats.rule_depth_reached += 1;
                }
            }
            std::mem::swap(&mut level, &mut next);
            depth += 1;
        }
        self.rules.results = [level, next];
        rules
    }

    /// Appends what the rules make of a message, as far as there may be more.
    fn make(
        &mut self,
        rules: &mut dyn Rules,
        delivery: &Delivery<'_>,
        results: &mut Results,
        left: &mut usize,
        now: Micros,
    ) {
        let dropped = &mut self.stats.rule_results_dropped;
        let steps =
            rules.apply(&delivery.content(), now, &mut |derived| match left.checked_sub(1) {
                Some(fewer) => {
                    *left = fewer;
                    results.push(derived);
                }
                None => *dropped += 1,
            });
        self.slices.add(steps);
    }

    /// Publishes a result, unless a bound or feature that holds for clients forbids it.
    fn publish_derived<'a>(
        &mut self,
        derived: Derived<'a>,
        origin: Origin,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Option<Delivery<'a>> {
        let Derived { topic, payload, qos, retain } = derived;
        let qos = qos.min(self.bounds.features.qos_max);
        if let Err((reason, detail)) = self.check_derived(derived) {
            self.stats.rule_results_refused += 1;
            self.stats.refusals.add(reason);
            let (conn, client_id) = (None, "");
            sink.notice(Notice::Refused { conn, client_id, topic, reason, detail });
            return None;
        }
        let properties = Properties::EMPTY;
        let mut delivery =
            Delivery::from_parts(topic, payload, properties, (qos, retain), None, None);
        self.publish_own(&mut delivery, origin, now, sink);
        self.stats.rule_results += 1;
        Some(delivery)
    }

    pub(super) fn check_derived(
        &self,
        derived: Derived<'_>,
    ) -> Result<(), (ReasonCode, &'static str)> {
        let Derived { topic, payload, qos, retain } = derived;
        if !topic::is_valid_name(topic) {
            return Err((ReasonCode::TopicNameInvalid, "it is no topic name"));
        }
        if topic.len() + payload.len() > self.bounds.limits.packet_bytes_max as usize {
            return Err((ReasonCode::PacketTooLarge, "the message is too long"));
        }
        self.check_message(topic, qos.min(self.bounds.features.qos_max), retain)
            .map_err(|refusal| (refusal.reason, refusal.detail))
    }

    /// Publishes a message that no client waits for an answer to. One that cannot be retained for
    /// want of room is delivered all the same.
    pub(super) fn publish_own(
        &mut self,
        delivery: &mut Delivery<'_>,
        origin: Origin,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.filters.conditions.next_message();
        if delivery.retain {
            delivery.is_gathered = self.stands_behind(None, true);
            self.retain(delivery, origin, None, now, sink);
        }
        self.route(delivery, now, sink);
        self.mail_gathered(delivery, false, sink);
    }
}
