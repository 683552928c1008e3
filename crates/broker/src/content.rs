//! What looks into messages: conditions of content-filtered subscriptions and `[[flow]]` rules,
//! both as `weir-flow` evaluates them. A shard has its own of each.

use smallvec::SmallVec;
use std::fmt;
use weir_core::{
    ConditionEvaluator, ConditionQuery, Content, CostlyCondition, Derived, InvalidCondition,
    Micros, Rules, Warning,
};
use weir_flow::{
    Condition, Faults, Flow, Message, RuleCounts, STEPS_PER_MESSAGE_MAX, Scratch, Verdict,
};
use weir_wire::{Property, QoS};

/// A message of few user properties needs no memory for them.
type UserProperties<'a> = SmallVec<[(&'a str, &'a str); 8]>;

fn user_properties<'a>(content: &Content<'a>) -> UserProperties<'a> {
    if content.properties.is_empty() {
        return UserProperties::new();
    }
    let pair = |property| match property {
        Property::UserProperty(name, value) => Some((name, value)),
        _ => None,
    };
    content.properties.iter().filter_map(pair).collect()
}

fn message<'a>(content: &Content<'a>, user_properties: &'a [(&'a str, &'a str)]) -> Message<'a> {
    let Content { topic, payload, qos, retain, .. } = *content;
    Message { topic, payload, qos: qos as u8, retain, user_properties }
}

/// The conditions of a shard. Its `Debug` is its counters.
#[derive(Default)]
pub(crate) struct Conditions {
    compiled: Vec<Option<Condition>>,
    scratch: Scratch,
    /// Those of a message that have to wait for their turn.
    costly: Vec<CostlyCondition>,
    matched: u64,
    faults: Faults,
}

/// What a client is told whose condition is false of every message.
const NEVER_MATCHES: Warning = "no message can match the condition";

/// Steps of conditions in one of a shard.
const CHECKED_IN_A_STEP: u64 = 64;

impl ConditionEvaluator for Conditions {
    fn compile(&mut self, slot: u32, text: &str) -> Result<Option<Warning>, InvalidCondition> {
        let unfit =
            |error: weir_flow::ConditionError| InvalidCondition { reason: one_line(&error) };
        let condition = Condition::parse(text).map_err(unfit)?;
        let at = slot as usize;
        if self.compiled.len() <= at {
            self.compiled.resize_with(at + 1, || None);
        }
        let warning = condition.never_matches().then_some(NEVER_MATCHES);
        self.compiled[at] = Some(condition);
        Ok(warning)
    }

    fn release(&mut self, slot: u32) {
        self.compiled[slot as usize] = None;
        while self.compiled.pop_if(|last| last.is_none()).is_some() {}
    }

    fn check(
        &mut self,
        content: &Content<'_>,
        asked: &mut [ConditionQuery],
        order: &mut dyn FnMut(&mut [CostlyCondition]),
    ) -> u64 {
        let Self { compiled, scratch, costly, matched, faults } = self;
        let user_properties = user_properties(content);
        let message = message(content, &user_properties);
        let mut reading = scratch.reading(&message);
        let mut note = |asked: &mut ConditionQuery, verdict| match verdict {
            Verdict::Match => {
                asked.holds = true;
                *matched += 1;
            }
            Verdict::NoMatch => {}
            Verdict::Invalid(fault) => faults.add(fault),
        };
        // All of them together leave half of the steps to the others.
        let cheap = STEPS_PER_MESSAGE_MAX / 2 / asked.len().max(1) as u64;
        costly.clear();
        for asked in asked.iter_mut() {
            let Some(Some(condition)) = compiled.get(asked.slot as usize) else { continue };
            match reading.check_within(condition, cheap) {
                Ok(verdict) => note(asked, verdict),
                Err(steps) => costly.push(CostlyCondition { slot: asked.slot, steps }),
            }
        }
        if costly.iter().map(|costly| costly.steps).sum::<u64>() > reading.steps_left() {
            order(costly);
        }
        for costly in costly {
            let is_it = |asked: &&mut ConditionQuery| asked.slot == costly.slot;
            let Some(asked) = asked.iter_mut().find(is_it) else { continue };
            let Some(Some(condition)) = compiled.get(asked.slot as usize) else { continue };
            match reading.check_within(condition, u64::MAX) {
                Ok(verdict) => note(asked, verdict),
                Err(_) => asked.is_left_out = true,
            }
        }
        (STEPS_PER_MESSAGE_MAX - reading.steps_left()) / CHECKED_IN_A_STEP
    }
}

/// What a client is told stays a line: it may have written line breaks itself.
fn one_line(error: &impl fmt::Display) -> Box<str> {
    error.to_string().replace(char::is_control, " ").into()
}

impl fmt::Debug for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matched, faults, .. } = self;
        out.debug_struct("Conditions")
            .field("matched", matched)
            .field("faults", &ByKind(faults))
            .finish()
    }
}

/// The kinds of fault that came up.
struct ByKind<'a>(&'a Faults);

impl fmt::Debug for ByKind<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.0.iter().map(|(fault, count)| (fault.name(), count))).finish()
    }
}

/// Rules whose filter is held against a topic in a step.
const RULES_IN_A_STEP: u64 = 4;

/// Steps of a rule that sees a message, and of one that makes another of it.
const SEEN_STEPS: u64 = 4;
const PUBLISHED_STEPS: u64 = 8;

/// The rules of a shard. Its `Debug` is their counters.
pub(crate) struct FlowOfShard(pub(crate) Flow);

impl Rules for FlowOfShard {
    fn apply(
        &mut self,
        content: &Content<'_>,
        now: Micros,
        out: &mut dyn FnMut(Derived<'_>),
    ) -> u64 {
        let user_properties = user_properties(content);
        let message = message(content, &user_properties);
        let applied = self.0.apply(&message, now.0, &mut |made| {
            let qos = QoS::from_u8(made.qos).unwrap_or(QoS::AtMostOnce);
            let (topic, payload, retain) = (made.topic, made.payload, made.retain);
            out(Derived { topic, payload, qos, retain });
        });
        let rules = self.0.rules().len() as u64 / RULES_IN_A_STEP;
        rules
            + u64::from(applied.seen) * SEEN_STEPS
            + u64::from(applied.published) * PUBLISHED_STEPS
    }
}

impl fmt::Debug for FlowOfShard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.counts().map(OfRule);
        let names = self.0.rules().iter().map(weir_flow::Rule::name);
        out.debug_map().entries(names.zip(counts)).finish()
    }
}

/// One rule's counters, those that are not 0.
struct OfRule<'a>(&'a RuleCounts);

impl fmt::Debug for OfRule<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleCounts { seen, matched, sampled_out, throttled, published, dropped, faults } =
            self.0;
        let counts = [
            ("seen", seen),
            ("matched", matched),
            ("sampled_out", sampled_out),
            ("throttled", throttled),
            ("published", published),
            ("dropped", dropped),
        ];
        let mut map = out.debug_map();
        map.entries(counts.iter().filter(|(_, count)| **count > 0).copied());
        if faults.total() > 0 {
            map.entry(&"faults", &ByKind(faults));
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::PropertiesBuf;

    fn content<'a>(payload: &'a str, properties: &'a PropertiesBuf) -> Content<'a> {
        let properties = properties.as_properties();
        let payload = payload.as_bytes();
        Content { topic: "ud/1", payload, properties, qos: QoS::AtLeastOnce, retain: false }
    }

    #[test]
    fn conditions_see_topic_payload_properties_qos_and_retain() {
        let mut conditions = Conditions::default();
        let texts = [
            "topic == 'ud/1'",
            "payload.pos.s > 80",
            "properties.unit == 'km'",
            "qos == 1 && !retain",
            "has(payload.p)",
            "payload.missing > 1",
        ];
        for (slot, text) in (0..).zip(texts) {
            conditions.compile(slot, text).unwrap();
        }
        let mut asked: Vec<ConditionQuery> = (0..6).map(ConditionQuery::new).collect();
        let mut properties = PropertiesBuf::new();
        properties.push(Property::UserProperty("unit", "km"));
        let content = content(r#"{"pos":{"s":90}}"#, &properties);
        conditions.check(&content, &mut asked, &mut |_| panic!("there are steps for all"));
        let held: Vec<bool> = asked.iter().map(|asked| asked.holds).collect();
        assert_eq!(held, [true, true, true, true, false, false]);
        let text = format!("{conditions:?}");
        assert_eq!(text, r#"Conditions { matched: 4, faults: {"no_field": 1} }"#);
        (0..6).for_each(|slot| conditions.release(slot));
        assert!(conditions.compiled.is_empty());
    }

    #[test]
    fn a_bad_condition_is_said_in_one_line_with_its_place() {
        let unfit = Conditions::default().compile(0, "payload.a >\n\n").unwrap_err();
        assert!(unfit.reason.contains("at byte "), "{unfit:?}");
        assert!(!unfit.reason.contains('\n'), "{unfit:?}");
    }

    #[test]
    fn rules_count_by_name() {
        let text = "[[flow]]\nname = \"cells\"\nfrom = \"ud/#\"\nwhen = 'has(payload.p)'\n\
                    to = \"cells/{topic[1]}\"\npublish_qos = 1\n";
        let mut flow = FlowOfShard(Flow::parse(text).unwrap());
        let none = PropertiesBuf::new();
        let mut made = Vec::new();
        for payload in [r#"{"p":1}"#, "{}", "no"] {
            flow.apply(&content(payload, &none), Micros(1), &mut |derived| {
                made.push((derived.topic.to_owned(), derived.qos));
            });
        }
        assert_eq!(made, [("cells/1".to_owned(), QoS::AtLeastOnce)]);
        let expected =
            r#"{"cells": {"seen": 3, "matched": 1, "published": 1, "faults": {"not_json": 1}}}"#;
        assert_eq!(format!("{flow:?}"), expected);
    }
}
