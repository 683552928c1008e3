//! Topic names and topic filters (section 4.7) and shared subscriptions (section 4.8.2).

/// Whether `name` may stand in a PUBLISH: not empty, no wildcard, no U+0000.
pub fn is_valid_name(name: &str) -> bool {
    todo!()
}

/// A valid topic filter, taken apart: `$share/{group}/{filter}` or a plain filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicFilter<'a> {
    /// The share name, for a shared subscription.
    pub group: Option<&'a str>,
    /// The filter that topics are matched with.
    pub filter: &'a str,
}

impl<'a> TopicFilter<'a> {
    /// Checks and takes apart what a SUBSCRIBE names; nothing when it is not a topic filter
    /// \[MQTT-4.7.1-1 to 4.7.3-1, 4.8.2-1, 4.8.2-2\].
    pub fn parse(text: &'a str) -> Option<Self> {
        todo!()
    }

    /// Whether the filter holds `+` or `#`.
    pub fn has_wildcard(&self) -> bool {
        self.filter.contains(['+', '#'])
    }

    /// Whether `topic` matches, by the standard's words, level by level. Wildcards in the first
    /// level do not match topics that begin with `$` \[MQTT-4.7.2-1\].
    pub fn matches(&self, topic: &str) -> bool {
        todo!()
    }
}
