//! What is done with a message.

use smallvec::SmallVec;
use weir_flow::{Condition, Fault, Flow, Message, Output, RuleCounts, Scratch, Verdict};
use weir_wire::Property;
use weir_wire::packet::Publish;

/// User properties of a message for which no memory is asked for.
const PROPERTIES_INLINE: usize = 8;

/// The work of one thread.
#[derive(Debug)]
pub(crate) enum Work {
    /// Nothing: messages are counted and not looked into.
    Count,
    /// The rules of a file.
    Rules(Box<Flow>),
    /// The workflow of the benchmark with a condition: what it holds for is published as it came.
    Condition { condition: Box<Condition>, scratch: Box<Scratch>, to: String },
    /// The workflow of the benchmark with a tree of the whole payload, as most programs have it.
    Tree { to: String },
}

/// What the work made of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) matched: u64,
    pub(crate) dropped: u64,
    pub(crate) invalid: u64,
}

impl Work {
    #[inline]
    pub(crate) fn apply(
        &mut self,
        publish: &Publish<'_>,
        now_us: u64,
        out: &mut dyn FnMut(Output<'_>),
    ) -> Tally {
        match self {
            Self::Count => Tally::default(),
            Self::Rules(flow) => apply_rules(flow, publish, now_us, out),
            Self::Condition { condition, scratch, to } => {
                apply_condition(condition, scratch, to, publish, out)
            }
            Self::Tree { to } => apply_tree(to, publish, out),
        }
    }

    /// What each rule did.
    pub(crate) fn rule_counts(&self) -> Vec<RuleCounts> {
        match self {
            Self::Rules(flow) => flow.counts().copied().collect(),
            Self::Count | Self::Condition { .. } | Self::Tree { .. } => Vec::new(),
        }
    }
}

fn apply_rules(
    flow: &mut Flow,
    publish: &Publish<'_>,
    now_us: u64,
    out: &mut dyn FnMut(Output<'_>),
) -> Tally {
    let mut user_properties = SmallVec::<[(&str, &str); PROPERTIES_INLINE]>::new();
    if !publish.properties.is_empty() {
        user_properties.extend(publish.properties.iter().filter_map(|property| match property {
            Property::UserProperty(name, value) => Some((name, value)),
            _ => None,
        }));
    }
    let message = Message {
        topic: publish.topic,
        payload: publish.payload,
        qos: publish.qos as u8,
        retain: publish.retain,
        user_properties: &user_properties,
    };
    let applied = flow.apply(&message, now_us, out);
    Tally {
        matched: applied.matched.into(),
        dropped: u64::from(applied.dropped)
            + u64::from(applied.sampled_out)
            + u64::from(applied.throttled),
        invalid: applied.invalid.into(),
    }
}

/// Publishes the payload as it came where the condition holds. Only what is no JSON that it reads
/// is invalid: a field that is missing is the usual case here.
fn apply_condition(
    condition: &Condition,
    scratch: &mut Scratch,
    to: &str,
    publish: &Publish<'_>,
    out: &mut dyn FnMut(Output<'_>),
) -> Tally {
    let (payload, qos) = (publish.payload, publish.qos as u8);
    let message = Message {
        topic: publish.topic,
        payload,
        qos,
        retain: publish.retain,
        user_properties: &[],
    };
    match condition.check(&message, scratch) {
        Verdict::Match => {
            out(Output { topic: to, payload, qos, retain: false, rule: 0 });
            Tally { matched: 1, ..Tally::default() }
        }
        Verdict::Invalid(Fault::NotJson | Fault::TooLarge | Fault::TooDeep) => {
            Tally { invalid: 1, ..Tally::default() }
        }
        Verdict::NoMatch | Verdict::Invalid(_) => Tally::default(),
    }
}

/// Publishes the payload as it came, where its object `p` has all four fields.
fn apply_tree(to: &str, publish: &Publish<'_>, out: &mut dyn FnMut(Output<'_>)) -> Tally {
    let Ok(tree) = serde_json::from_slice::<serde_json::Value>(publish.payload) else {
        return Tally { invalid: 1, ..Tally::default() };
    };
    let place = tree.get("p").and_then(serde_json::Value::as_object);
    let is_match = place.is_some_and(|p| FIELDS.iter().all(|field| p.contains_key(*field)));
    if is_match {
        let (payload, qos) = (publish.payload, publish.qos as u8);
        out(Output { topic: to, payload, qos, retain: false, rule: 0 });
    }
    Tally { matched: is_match.into(), ..Tally::default() }
}

/// What the workflow of the benchmark looks for in `p`.
pub(crate) const FIELDS: [&str; 4] = ["mcc", "mnc", "lac", "cell_id"];
