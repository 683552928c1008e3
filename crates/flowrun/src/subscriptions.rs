//! What to subscribe to, so that every rule sees every message it is about exactly once.
//!
//! A broker may send a message that two subscriptions of a client match once or twice, as it
//! likes. So no two of ours may match the same topic: a filter that another covers is left out,
//! and filters that overlap in part are refused.

use weir_flow::{Flow, Rule};
use weir_wire::QoS;
use weir_wire::topic::TopicFilter;

/// One filter to subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The share name, of a shared subscription.
    pub(crate) group: Option<String>,
    pub(crate) filter: String,
    pub(crate) qos: QoS,
}

impl Subscription {
    /// As SUBSCRIBE names it.
    pub(crate) fn text(&self) -> String {
        match &self.group {
            Some(group) => format!("$share/{group}/{}", self.filter),
            None => self.filter.clone(),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.group == other.group && covers(&self.filter, &other.filter)
    }
}

/// What to subscribe to for these rules.
///
/// # Errors
/// A rule of QoS 2, filters that overlap in part.
pub(crate) fn subscriptions(flow: &Flow, group: Option<&str>) -> Result<Vec<Subscription>, String> {
    let is_exactly_once =
        |rule: &&Rule| rule.qos() > 1 || rule.source().publish_qos.is_some_and(|qos| qos > 1);
    if let Some(rule) = flow.rules().iter().find(is_exactly_once) {
        let name = rule.name();
        return Err(format!("rule \"{name}\": weir flow run knows QoS 0 and 1 only, not 2"));
    }
    let qos = |rule: &Rule| match rule.qos() {
        0 => QoS::AtMostOnce,
        _ => QoS::AtLeastOnce,
    };
    plan(flow.rules().iter().map(|rule| (rule.from(), qos(rule))), group)
}

/// What to subscribe to for rules with these filters; those without a group of their own are in
/// `group`. The QoS of a filter that another covers counts for that one.
///
/// # Errors
/// A filter that is none, two that overlap and neither covers the other.
fn plan<'a>(
    rules: impl Iterator<Item = (&'a str, QoS)>,
    group: Option<&str>,
) -> Result<Vec<Subscription>, String> {
    let mut kept: Vec<Subscription> = Vec::new();
    for (from, qos) in rules {
        let parsed =
            TopicFilter::parse(from).ok_or_else(|| format!("{from} is no topic filter"))?;
        let group = parsed.group.or(group).map(str::to_owned);
        let mut new = Subscription { group, filter: parsed.filter.to_owned(), qos };
        if let Some(wider) = kept.iter_mut().find(|other| other.covers(&new)) {
            wider.qos = wider.qos.max(qos);
            continue;
        }
        let covered = kept.extract_if(.., |other| new.covers(other)).map(|other| other.qos);
        new.qos = covered.fold(qos, QoS::max);
        kept.push(new);
    }
    for (at, one) in kept.iter().enumerate() {
        if let Some(other) = kept[..at].iter().find(|other| overlap(&one.filter, &other.filter)) {
            return Err(format!(
                "{} and {} both match some topics, and a broker may then send a message twice: \
                 give one filter that covers both, or run the rules from two files",
                other.text(),
                one.text()
            ));
        }
    }
    Ok(kept)
}

/// Whether every topic that `narrow` matches is matched by `wide`.
fn covers(wide: &str, narrow: &str) -> bool {
    if narrow.starts_with('$') && wide.starts_with(['+', '#']) {
        return false;
    }
    let mut narrow_levels = narrow.split('/');
    for level in wide.split('/') {
        match (level, narrow_levels.next()) {
            ("#", _) => return true,
            ("+", Some(found)) if found != "#" => {}
            (level, Some(found)) if level == found => {}
            _ => return false,
        }
    }
    narrow_levels.next().is_none()
}

/// Whether some topic is matched by both.
fn overlap(one: &str, other: &str) -> bool {
    let is_wild = |filter: &str| filter.starts_with(['+', '#']);
    if one.starts_with('$') && is_wild(other) || other.starts_with('$') && is_wild(one) {
        return false;
    }
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some("+"), Some(_)) | (Some(_), Some("+")) => {}
            (Some(left), Some(right)) if left == right => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(rules: &[(&str, QoS)], group: Option<&str>) -> Result<Vec<String>, String> {
        let subscriptions = plan(rules.iter().copied(), group)?;
        Ok(subscriptions.iter().map(|one| format!("{} {}", one.text(), one.qos as u8)).collect())
    }

    const Q0: QoS = QoS::AtMostOnce;
    const Q1: QoS = QoS::AtLeastOnce;

    #[test]
    fn a_covered_filter_is_left_out_and_its_qos_counts() {
        let rules = [("a/b", Q1), ("c", Q0), ("a/#", Q0), ("a/+/x", Q0), ("c", Q1)];
        assert_eq!(texts(&rules, None).unwrap(), ["c 1", "a/# 1"]);
        let rules = [("a/#", Q0), ("$share/g/a", Q0)];
        assert_eq!(texts(&rules, Some("g")).unwrap(), ["$share/g/a/# 0"]);
    }

    #[test]
    fn filters_that_overlap_in_part_or_in_another_group_are_refused() {
        for rules in [[("a/+", Q0), ("+/b", Q0)], [("a/#", Q0), ("$share/g/a", Q0)]] {
            let error = texts(&rules, None).unwrap_err();
            assert!(error.contains(rules[0].0) && error.contains(rules[1].0), "{error}");
        }
        assert!(texts(&[("+/x", Q0), ("$SYS/#", Q0)], None).is_ok());
        assert!(texts(&[("a/#/b", Q0)], None).unwrap_err().contains("a/#/b"));
    }

    fn filters() -> impl Strategy<Value = String> {
        let level = prop::sample::select(vec!["a", "b", "+", "$s"]);
        (prop::collection::vec(level, 1..4), any::<bool>()).prop_map(|(levels, is_tree)| {
            let filter = levels.join("/");
            if is_tree { format!("{filter}/#") } else { filter }
        })
    }

    /// Every topic of up to four levels of these words.
    fn topics() -> Vec<String> {
        let words = ["a", "b", "$s", "", "z"];
        let mut all: Vec<String> = words.map(str::to_owned).into();
        let mut last = all.clone();
        for _ in 0..3 {
            let longer = |topic: &String| words.map(|word| format!("{topic}/{word}"));
            last = last.iter().flat_map(longer).collect();
            all.extend(last.iter().cloned());
        }
        all.retain(|topic| !topic.is_empty());
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn covers_and_overlap_agree_with_matching(one in filters(), other in filters()) {
            let (left, right) =
                (TopicFilter::parse(&one).unwrap(), TopicFilter::parse(&other).unwrap());
            let (mut is_covered, mut is_shared) = (true, false);
            for topic in topics() {
                let (by_left, by_right) = (left.matches(&topic), right.matches(&topic));
                is_covered &= by_left || !by_right;
                is_shared |= by_left && by_right;
            }
            prop_assert_eq!(covers(&one, &other), is_covered);
            prop_assert_eq!(overlap(&one, &other), is_shared);
        }
    }
}
