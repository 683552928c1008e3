//! The retained messages of one shard, in the order of their topics.

use crate::{Limits, Message, Micros};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

/// At most one message a topic. A filter's literal beginning narrows the search.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    messages: BTreeMap<Box<str>, Arc<Message>>,
    bytes: u64,
}

/// The store is at its bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RetainedFull;

impl Retained {
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Keeps `message` in the place of an older one \[MQTT-3.3.1-5\], if a bound allows it.
    pub(crate) fn set(
        &mut self,
        message: Arc<Message>,
        limits: &Limits,
        may_grow: bool,
    ) -> Result<(), RetainedFull> {
        let old_bytes = self.messages.get(&message.topic).map(|old| old.bytes());
        let count = self.messages.len() + usize::from(old_bytes.is_none());
        let bytes = self.bytes - old_bytes.unwrap_or(0) + message.bytes();
        let is_over =
            count > limits.retained_messages_max as usize || bytes > limits.retained_bytes_max;
        if is_over || (bytes > self.bytes && !may_grow) {
            return Err(RetainedFull);
        }
        self.bytes = bytes;
        self.messages.insert(message.topic.clone(), message);
        Ok(())
    }

    /// Forgets the topic's message \[MQTT-3.3.1-6\].
    pub(crate) fn clear(&mut self, topic: &str) {
        if let Some(old) = self.messages.remove(topic) {
            self.bytes -= old.bytes();
        }
    }

    /// Every message that matches and has not expired, in the order of topics.
    pub(crate) fn matching(&self, filter: TopicFilter<'_>, now: Micros) -> Vec<Arc<Message>> {
        if !filter.has_wildcard() {
            let found = self.messages.get(filter.filter);
            return found.filter(|message| !message.is_expired(now)).cloned().into_iter().collect();
        }
        let literal = filter.filter.find(['+', '#']).unwrap_or(0);
        // `a/#` matches `a` too, so the separator before the wildcard is not part of the prefix.
        let prefix = filter.filter[..literal].trim_end_matches('/');
        self.messages
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(topic, _)| topic.starts_with(prefix))
            .filter(|(topic, message)| filter.matches(topic) && !message.is_expired(now))
            .map(|(_, message)| Arc::clone(message))
            .collect()
    }
}
