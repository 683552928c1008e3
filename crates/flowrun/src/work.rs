//! What is done with a message.

use smallvec::SmallVec;
use weir_flow::{Flow, Message, Output, RuleCounts};
use weir_wire::Property;
use weir_wire::packet::Publish;

/// The work of one thread.
pub trait Work {
    /// What it makes of one message; what is to be published goes to `out`.
    fn apply(
        &mut self,
        publish: &Publish<'_>,
        now_us: u64,
        out: &mut dyn FnMut(Output<'_>),
    ) -> Tally;

    /// What each rule did, if it has rules.
    fn rule_counts(&self) -> Vec<RuleCounts> {
        Vec::new()
    }
}

/// What the work made of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Results wanted, or rules that matched.
    pub matched: u64,
    /// Matches that were dropped.
    pub dropped: u64,
    /// Times that it could not be evaluated.
    pub invalid: u64,
}

/// User properties of a message for which no memory is asked for.
const PROPERTIES_INLINE: usize = 8;

/// The rules of a file.
impl Work for Flow {
    #[inline]
    fn apply(
        &mut self,
        publish: &Publish<'_>,
        now_us: u64,
        out: &mut dyn FnMut(Output<'_>),
    ) -> Tally {
        let mut user_properties = SmallVec::<[(&str, &str); PROPERTIES_INLINE]>::new();
        if !publish.properties.is_empty() {
            user_properties.extend(publish.properties.iter().filter_map(
                |property| match property {
                    Property::UserProperty(name, value) => Some((name, value)),
                    _ => None,
                },
            ));
        }
        let message = Message {
            topic: publish.topic,
            payload: publish.payload,
            qos: publish.qos as u8,
            retain: publish.retain,
            user_properties: &user_properties,
        };
        let applied = Flow::apply(self, &message, now_us, out);
        Tally {
            matched: applied.matched.into(),
            dropped: u64::from(applied.dropped)
                + u64::from(applied.sampled_out)
                + u64::from(applied.throttled),
            invalid: applied.invalid.into(),
        }
    }

    fn rule_counts(&self) -> Vec<RuleCounts> {
        self.counts().copied().collect()
    }
}
