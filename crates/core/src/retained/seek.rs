//! Which topic of an ordered store a filter can match next, so that what lies between is not looked
//! at one by one.

/// What a topic is for a filter, and where to look on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Match,
    /// No match; at the next topic there may be one.
    Next,
    /// None before the topic that was written down.
    From,
    /// None behind it.
    End,
}

/// What sorts just behind the separator: behind every topic below a level.
const BEHIND_SEPARATOR: char = '0';
const _: () = assert!(BEHIND_SEPARATOR as u8 == b'/' + 1);

/// Looks at `topic`. `from` is where to look on, for [`Look::From`]: it is behind `topic`.
pub(super) fn look(filter: &str, topic: &str, from: &mut String) -> Look {
    let begins_with_wildcard = filter.starts_with(['+', '#']);
    // [MQTT-4.7.2-1]
    if begins_with_wildcard && topic.starts_with('$') {
        return seek(from, "", "%");
    }
    // The end of the topic's level at the last `+`: behind what is below it, others may match.
    let mut free_end = None;
    let mut level_at = 0;
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        if level == "#" {
            return Look::Match;
        }
        let Some(rest) = topic.get(level_at..) else {
            // Its levels match; what is below it may.
            return Look::Next;
        };
        let end = level_at + rest.find('/').unwrap_or(rest.len());
        if level == "+" {
            free_end = Some(end);
        } else if topic[level_at..end] != *level {
            let before = &topic[..level_at];
            let is_last = levels.peek().is_none();
            let may_end = is_last || levels.peek() == Some(&"#");
            if may_end && rest < level {
                return seek(from, before, level);
            }
            // `level` and a separator come behind it, or came before it.
            let is_before =
                rest < level || rest.strip_prefix(level).is_some_and(|behind| behind < "/");
            if !is_last && is_before {
                seek(from, before, level);
                from.push('/');
                return Look::From;
            }
            return behind(from, topic, free_end);
        }
        level_at = end + 1;
    }
    if level_at > topic.len() { Look::Match } else { behind(from, topic, free_end) }
}

fn seek(from: &mut String, before: &str, level: &str) -> Look {
    from.clear();
    from.push_str(before);
    from.push_str(level);
    Look::From
}

/// Nothing more below the topic's level at the last `+`.
fn behind(from: &mut String, topic: &str, free_end: Option<usize>) -> Look {
    let Some(end) = free_end else { return Look::End };
    seek(from, &topic[..end], "");
    from.push(BEHIND_SEPARATOR);
    Look::From
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use weir_wire::topic::TopicFilter;

    fn found(topics: &BTreeSet<String>, filter: &str) -> (Vec<String>, usize) {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        let mut from = String::new();
        let mut next = topics.first().cloned();
        while let Some(topic) = next {
            looked_at += 1;
            let after = || {
                topics.range::<str, _>((
                    std::ops::Bound::Excluded(topic.as_str()),
                    std::ops::Bound::Unbounded,
                ))
            };
            next = match look(filter, &topic, &mut from) {
                Look::Match => {
                    found.push(topic.clone());
                    after().next().cloned()
                }
                Look::Next => after().next().cloned(),
                Look::From => {
                    assert!(from > topic, "{filter} {topic} {from}");
                    topics.range(from.clone()..).next().cloned()
                }
                Look::End => None,
            };
        }
        (found, looked_at)
    }

    fn level() -> impl Strategy<Value = String> {
        // Characters on both sides of the separator, and one that begins others.
        prop::sample::select(vec!["", "a", "b", "ab", "a-", "a0", "a.b", "$s", "é"])
            .prop_map(String::from)
    }

    fn filter() -> impl Strategy<Value = String> {
        let level = prop_oneof![level(), Just("+".to_owned())];
        (prop::collection::vec(level, 1..4), any::<bool>()).prop_map(|(mut levels, is_open)| {
            if is_open {
                levels.push("#".into());
            }
            levels.join("/")
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn it_finds_what_matches(
            topics in prop::collection::btree_set(
                prop::collection::vec(level(), 1..4).prop_map(|levels| levels.join("/")),
                0..40,
            ),
            filter in filter(),
        ) {
            prop_assume!(!filter.is_empty());
            let parsed = TopicFilter { group: None, filter: &filter };
            let expected: Vec<_> =
                topics.iter().filter(|topic| parsed.matches(topic)).cloned().collect();
            prop_assert_eq!(found(&topics, &filter).0, expected);
        }
    }

    #[test]
    fn what_lies_between_is_not_looked_at() {
        let topics: BTreeSet<_> = (0..10_000).map(|at| format!("ret/{at}/t")).collect();
        for (filter, matches, looked_at_max) in [
            ("+/17/n", 0, 3),
            ("+/17/t", 1, 4),
            ("ret/17/+", 1, 4),
            ("ret/no/+", 0, 3),
            ("+/+/n/#", 0, 20_001),
            ("#", 10_000, 10_000),
        ] {
            let (found, looked_at) = found(&topics, filter);
            assert_eq!(found.len(), matches, "{filter}");
            assert!(looked_at <= looked_at_max, "{filter}: {looked_at}");
        }
    }
}
