//! Topic names and topic filters (section 4.7) and shared subscriptions (section 4.8.2).

/// Whether `name` may stand in a PUBLISH: not empty, no wildcard, no U+0000, at most
/// 65,535 bytes.
#[inline]
pub fn is_valid_name(name: &str) -> bool {
    // Every PUBLISH comes by here: without an early exit the loop is vectorised.
    let is_bad = |byte: &u8| matches!(byte, 0 | b'+' | b'#');
    has_topic_length(name) && !name.as_bytes().iter().fold(false, |bad, byte| bad | is_bad(byte))
}

// [MQTT-4.7.3-1, 4.7.3-3]
const fn has_topic_length(text: &str) -> bool {
    !text.is_empty() && text.len() <= u16::MAX as usize
}

/// What a shared subscription begins with.
pub const SHARE_PREFIX: &str = "$share/";

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
        if !has_topic_length(text) {
            return None;
        }
        let Some(shared) = text.strip_prefix(SHARE_PREFIX) else {
            return is_valid_filter(text).then_some(Self { group: None, filter: text });
        };
        let (group, filter) = shared.split_once('/')?;
        let is_valid = !group.is_empty() && !group.contains(['+', '#', '\0']);
        (is_valid && is_valid_filter(filter)).then_some(Self { group: Some(group), filter })
    }

    /// Whether the filter holds `+` or `#`.
    pub fn has_wildcard(&self) -> bool {
        self.filter.contains(['+', '#'])
    }

    /// Whether `topic` matches, by the standard's words, level by level. Wildcards in the first
    /// level do not match topics that begin with `$` \[MQTT-4.7.2-1\].
    pub fn matches(&self, topic: &str) -> bool {
        if topic.starts_with('$') && self.filter.starts_with(['+', '#']) {
            return false;
        }
        let mut topic_levels = topic.split('/');
        for level in self.filter.split('/') {
            match (level, topic_levels.next()) {
                // The parent level matches as well, so nothing need be left of the topic.
                ("#", _) => return true,
                ("+", Some(_)) => {}
                (level, Some(found)) if level == found => {}
                _ => return false,
            }
        }
        topic_levels.next().is_none()
    }
}

fn is_valid_filter(filter: &str) -> bool {
    let (parents, last) = filter.rsplit_once('/').unwrap_or(("", filter));
    let is_level = |level: &str| level == "+" || !level.contains(['+', '#', '\0']);
    !filter.is_empty() && parents.split('/').all(is_level) && (last == "#" || is_level(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, topic: &str) -> bool {
        TopicFilter::parse(filter).unwrap().matches(topic)
    }

    /// Proves 5.0:MQTT-4.7.3-3. Proves 3.1.1:MQTT-4.7.3-3.
    #[test]
    fn a_filter_knows_whether_it_holds_a_wildcard() {
        for (filter, has_wildcard) in [
            ("a/b", false),
            ("$share/g/a", false),
            ("a/+", true),
            ("#", true),
            ("$share/g/#", true),
        ] {
            let parsed = TopicFilter::parse(filter).unwrap();
            assert_eq!(parsed.has_wildcard(), has_wildcard, "{filter}");
        }
    }

    #[test]
    fn a_name_is_not_empty_and_holds_no_wildcard_or_nul() {
        for name in ["a", "/", "sport/tennis", "Accounts payable", "$SYS/x"] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "a/#", "+", "+/+", "+/#", "sport+", "a\0b"] {
            assert!(!is_valid_name(name), "{name}");
        }
        assert!(is_valid_name(&"a".repeat(65_535)));
        assert!(!is_valid_name(&"a".repeat(65_536)));
    }

    #[test]
    fn filters_of_the_standard_are_valid() {
        for filter in [
            "sport/tennis/player1/#",
            "sport/#",
            "#",
            "sport/tennis/#",
            "+",
            "+/tennis/#",
            "sport/+/player1",
            "/",
            "/+",
            "//",
            "$SYS/#",
            "$share",
            "$shared/a",
        ] {
            let parsed = TopicFilter::parse(filter);
            assert_eq!(parsed, Some(TopicFilter { group: None, filter }));
        }
    }

    #[test]
    fn wildcards_stand_alone_in_their_level_and_the_hash_last() {
        for filter in ["", "sport/tennis#", "sport/tennis/#/ranking", "sport+", "+a/b", "##", "a\0"]
        {
            assert_eq!(TopicFilter::parse(filter), None, "{filter}");
        }
        assert_eq!(TopicFilter::parse("#/"), None);
        assert_eq!(TopicFilter::parse("#/a"), None);
    }

    #[test]
    fn a_shared_subscription_has_a_group_and_a_filter() {
        let parsed = TopicFilter::parse("$share/consumer1//finance/#");
        assert_eq!(parsed, Some(TopicFilter { group: Some("consumer1"), filter: "/finance/#" }));
        for filter in [
            "$share/",
            "$share/g",
            "$share/g/",
            "$share//a",
            "$share/g+/a",
            "$share/#/a",
            "$share/g/a#",
        ] {
            assert_eq!(TopicFilter::parse(filter), None, "{filter}");
        }
    }

    #[test]
    fn a_filter_without_wildcards_matches_itself_alone() {
        assert!(matches("sport/tennis", "sport/tennis"));
        assert!(!matches("sport/tennis", "sport/Tennis"));
        assert!(!matches("sport/tennis", "sport/tennis/"));
        assert!(!matches("/finance", "finance"));
    }

    #[test]
    fn a_hash_matches_the_parent_and_every_level_below() {
        assert!(matches("sport/tennis/player1/#", "sport/tennis/player1"));
        assert!(matches("sport/tennis/player1/#", "sport/tennis/player1/ranking"));
        assert!(matches("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"));
        assert!(matches("sport/#", "sport"));
        assert!(!matches("sport/#", "sports"));
        assert!(matches("#", "/"));
    }

    #[test]
    fn a_plus_matches_one_level_which_may_be_empty() {
        assert!(matches("sport/tennis/+", "sport/tennis/player1"));
        assert!(!matches("sport/tennis/+", "sport/tennis/player1/ranking"));
        assert!(!matches("sport/+", "sport"));
        assert!(matches("sport/+", "sport/"));
        assert!(matches("+/+", "/finance"));
        assert!(matches("/+", "/finance"));
        assert!(!matches("+", "/finance"));
    }

    #[test]
    fn a_leading_wildcard_does_not_match_a_leading_dollar() {
        assert!(!matches("#", "$SYS/monitor/Clients"));
        assert!(!matches("+/monitor/Clients", "$SYS/monitor/Clients"));
        assert!(!matches("+/+", "$SYS/uptime"));
        assert!(matches("$SYS/#", "$SYS/monitor/Clients"));
        assert!(matches("$SYS/monitor/+", "$SYS/monitor/Clients"));
        assert!(!matches("$share/g/#", "$SYS/monitor/Clients"));
    }
}
