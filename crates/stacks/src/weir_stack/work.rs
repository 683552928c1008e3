//! What the workflows that are played to do with a message.

use weir_flow::{Condition, Fault, Message, Output, Scratch, Verdict};
use weir_flowrun::{Tally, Work};
use weir_wire::packet::Publish;

/// What the workflow looks for in `p`.
pub(super) const FIELDS: [&str; 4] = ["mcc", "mnc", "lac", "cell_id"];

/// Messages are counted and not looked into.
pub(super) struct Count;

impl Work for Count {
    fn apply(&mut self, _: &Publish<'_>, _: u64, _: &mut dyn FnMut(Output<'_>)) -> Tally {
        Tally::default()
    }
}

/// The entire workflow with a condition: what it holds for is published as it came.
pub(super) struct Fields {
    condition: Condition,
    scratch: Scratch,
    to: String,
}

impl Fields {
    pub(super) fn new(to: String) -> anyhow::Result<Self> {
        let text = FIELDS.map(|field| format!("has(payload.p.{field})")).join(" && ");
        Ok(Self { condition: Condition::parse(&text)?, scratch: Scratch::default(), to })
    }
}

impl Work for Fields {
    /// Only what is no JSON that it reads is invalid: a field that is missing is the usual case.
    fn apply(
        &mut self,
        publish: &Publish<'_>,
        _now_us: u64,
        out: &mut dyn FnMut(Output<'_>),
    ) -> Tally {
        let (topic, payload, qos) = (publish.topic, publish.payload, publish.qos as u8);
        let message = Message { topic, payload, qos, retain: publish.retain, user_properties: &[] };
        match self.condition.check(&message, &mut self.scratch) {
            Verdict::Match => {
                out(as_it_came(publish, &self.to));
                Tally { matched: 1, ..Tally::default() }
            }
            Verdict::Invalid(Fault::NotJson | Fault::TooLarge | Fault::TooDeep) => {
                Tally { invalid: 1, ..Tally::default() }
            }
            Verdict::NoMatch | Verdict::Invalid(_) => Tally::default(),
        }
    }
}

/// The entire workflow with a tree of the whole payload, as most programs have it.
pub(super) struct Tree {
    pub(super) to: String,
}

impl Work for Tree {
    fn apply(
        &mut self,
        publish: &Publish<'_>,
        _now_us: u64,
        out: &mut dyn FnMut(Output<'_>),
    ) -> Tally {
        let Ok(tree) = serde_json::from_slice::<serde_json::Value>(publish.payload) else {
            return Tally { invalid: 1, ..Tally::default() };
        };
        let place = tree.get("p").and_then(serde_json::Value::as_object);
        let is_match = place.is_some_and(|p| FIELDS.iter().all(|field| p.contains_key(*field)));
        if is_match {
            out(as_it_came(publish, &self.to));
        }
        Tally { matched: is_match.into(), ..Tally::default() }
    }
}

fn as_it_came<'a>(publish: &Publish<'a>, to: &'a str) -> Output<'a> {
    let (payload, qos) = (publish.payload, publish.qos as u8);
    Output { topic: to, payload, qos, retain: false, rule: 0 }
}
