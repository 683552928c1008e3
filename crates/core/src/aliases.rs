//! Topic aliases of one connection (section 3.3.2.3.4), both ways.

/// Aliases that the client set up. Empty until the first.
#[derive(Debug, Default)]
pub(crate) struct AliasesIn {
    /// By alias less one; empty is none.
    topics: Vec<Box<str>>,
}

impl AliasesIn {
    /// The client names `topic` as `alias`, 1 to the bound that CONNACK gave.
    pub(crate) fn set(&mut self, alias: u16, topic: &str) {
        let at = usize::from(alias) - 1;
        if self.topics.len() <= at {
            self.topics.resize_with(at + 1, Box::default);
        }
        self.topics[at] = topic.into();
    }

    pub(crate) fn topic(&self, alias: u16) -> Option<&str> {
        let topic = self.topics.get(usize::from(alias) - 1)?;
        (!topic.is_empty()).then_some(topic)
    }
}

/// Aliases that the broker set up towards the client: the first topics that come by get one and
/// keep it, so that a topic costs its name once and nothing is allocated afterwards.
#[derive(Debug, Default)]
pub(crate) struct AliasesOut {
    topics: Vec<Box<str>>,
}

/// How a PUBLISH names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AliasOut {
    /// By its name alone.
    None,
    /// By name and alias: the client does not know the alias yet.
    New(u16),
    /// By alias alone.
    Known(u16),
}

impl AliasesOut {
    /// What to send for `topic`, with at most `count_max` aliases.
    pub(crate) fn choose(&self, topic: &str, count_max: u16) -> AliasOut {
        let found = self.topics.iter().position(|known| **known == *topic);
        match found {
            Some(at) => AliasOut::Known(at as u16 + 1),
            None if self.topics.len() < usize::from(count_max) => {
                AliasOut::New(self.topics.len() as u16 + 1)
            }
            None => AliasOut::None,
        }
    }

    /// The PUBLISH with this choice is on its way.
    pub(crate) fn sent(&mut self, topic: &str, choice: AliasOut) {
        if let AliasOut::New(_) = choice {
            self.topics.push(topic.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_gets_its_alias_when_it_is_sent_and_keeps_it() {
        let mut aliases = AliasesOut::default();
        assert_eq!(aliases.choose("a", 2), AliasOut::New(1));
        // Not sent, so not set up.
        assert_eq!(aliases.choose("b", 2), AliasOut::New(1));
        aliases.sent("b", AliasOut::New(1));
        aliases.sent("c", AliasOut::New(2));
        assert_eq!(aliases.choose("b", 2), AliasOut::Known(1));
        assert_eq!(aliases.choose("c", 2), AliasOut::Known(2));
        assert_eq!(aliases.choose("a", 2), AliasOut::None);
    }

    #[test]
    fn an_alias_names_what_it_was_last_set_to() {
        let mut aliases = AliasesIn::default();
        assert_eq!(aliases.topic(3), None);
        aliases.set(3, "x");
        aliases.set(3, "y");
        assert_eq!((aliases.topic(3), aliases.topic(2)), (Some("y"), None));
    }
}
