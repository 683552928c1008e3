//! The topics and filters of the simulation, few, so that they meet; and what matches what.

/// Topic names; the longer ones get topic aliases.
pub(crate) const TOPICS: &[&str] = &["a", "b", "a/b", "a/c", "b/c/d", "long/topic/name", "$own/a"];

/// Topic filters beside shared ones.
pub(crate) const FILTERS: &[&str] =
    &["a", "b", "a/b", "a/c", "a/+", "a/#", "+", "+/c/#", "#", "long/topic/name", "$own/#"];

/// Topic filters of shared subscriptions.
pub(crate) const SHARES: &[&str] =
    &["$share/g/a/#", "$share/h/#", "$share/g/a/b", "$share/long/long/#"];

/// The topic of this name.
pub(crate) fn topic(text: &str) -> Option<&'static str> {
    TOPICS.iter().find(|&&topic| topic == text).copied()
}

/// The filter of this text, shared or not.
pub(crate) fn filter(text: &str) -> Option<&'static str> {
    FILTERS.iter().chain(SHARES).find(|&&filter| filter == text).copied()
}

/// The filter that topics are matched with, and the share name if there is one.
pub(crate) fn split(filter: &'static str) -> (&'static str, Option<&'static str>) {
    let shared = filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/'));
    shared.map_or((filter, None), |(name, filter)| (filter, Some(name)))
}

/// Whether `filter`, without a share name, matches `topic` (section 4.7).
pub(crate) fn matches(filter: &str, topic: &str) -> bool {
    let filter: Vec<&str> = filter.split('/').collect();
    let topic: Vec<&str> = topic.split('/').collect();
    let is_hidden = topic[0].starts_with('$') && matches!(filter[0], "+" | "#");
    !is_hidden && match_levels(&filter, &topic)
}

fn match_levels(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        (["#"], _) | ([], []) => true,
        ([level, filter @ ..], [name, topic @ ..]) => {
            (*level == "+" || level == name) && match_levels(filter, topic)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_matches_what_the_standard_says() {
        let matching = |filter| {
            TOPICS.iter().filter(|topic| matches(filter, topic)).copied().collect::<Vec<_>>()
        };
        assert_eq!(matching("a/#"), ["a", "a/b", "a/c"]);
        assert_eq!(matching("a/+"), ["a/b", "a/c"]);
        assert_eq!(matching("+"), ["a", "b"]);
        assert_eq!(matching("+/c/#"), ["a/c", "b/c/d"]);
        assert_eq!(matching("#"), TOPICS[..6]);
        assert_eq!(matching("$own/#"), ["$own/a"]);
        assert_eq!(split("$share/g/a/#"), ("a/#", Some("g")));
    }
}
