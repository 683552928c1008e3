use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use weir_wire::topic::TopicFilter;

fn rules(rules: &[(Grant, &str)]) -> Vec<Rule> {
    rules.iter().map(|(grant, filter)| Rule::new(*grant, filter).unwrap()).collect()
}

/// The same rules, looked at one after the other and by the levels of their filters.
fn both(rules: &[Rule], has_names: bool) -> [Rules; 2] {
    [Rules::Few(rules.into()), Rules::Many(Arc::new(RuleTree::new(rules, has_names)))]
}

const ANN: Names<'_> = Some(("c/1", Some("ann")));

#[test]
fn a_filter_is_covered_by_one_rule_that_lets_all_of_it_be_read() {
    for (rule, filter, is_covered) in [
        ("#", "#", true),
        ("#", "a/+/#", true),
        ("#", "$SYS/#", false),
        ("$SYS/#", "$SYS/#", true),
        ("$SYS/#", "#", false),
        ("a/#", "a", true),
        ("a/#", "a/#", true),
        ("a/#", "+/#", false),
        ("a/+", "a/+", true),
        ("a/+", "a/b", true),
        ("a/+", "a/#", false),
        ("a/+/#", "a/#", false),
        ("a/+/#", "a/+", true),
        ("+/b", "a/b", true),
        ("+/b", "a/+", false),
        ("a", "a/b", false),
        ("a/b", "a", false),
        ("%u/#", "ann/x", true),
        ("%u/#", "bob/x", false),
        ("d/%c", "d/c/1", true),
        ("d/%c", "d/c/+", false),
    ] {
        for rules in both(&rules(&[(Grant::Read, rule)]), true) {
            let covered = rules.cover(filter, ANN);
            assert_eq!(covered, is_covered.then_some(true), "{rule} {filter} {rules:?}");
        }
    }
}

#[test]
fn who_may_write_only_may_not_read_and_what_is_denied_in_part_is_not_covered() {
    let all = (Grant::ReadWrite, "a/#");
    for (denied, filter, is_covered) in [
        ("b/#", "a/#", true),
        ("a/b", "a/c", true),
        ("a/b", "a/+", false),
        ("a/b", "a/#", false),
        ("a/+/c", "a/b/#", false),
        ("a/%u", "a/x", false),
        ("$SYS/#", "a/#", true),
    ] {
        let rules = Rules::new(rules(&[all, (Grant::Deny, denied)]), true);
        assert_eq!(rules.cover(filter, ANN), Some(is_covered), "{denied} {filter}");
    }
    for rules in both(&rules(&[(Grant::Write, "#")]), false) {
        assert_eq!((rules.cover("a", None), rules.decide(Deed::Read, "a", None)), (None, None));
        assert_eq!(rules.decide(Deed::Write, "a", None), Some(true));
    }
}

#[test]
fn a_name_is_a_level_like_others_in_rules_without_names() {
    for rules in both(&rules(&[(Grant::Read, "a/%c/%u")]), false) {
        assert_eq!(rules.decide(Deed::Read, "a/%c/%u", None), Some(true));
        assert_eq!(rules.decide(Deed::Read, "a/c/1/ann", None), None);
    }
}

/// Short texts of few different levels, so that they meet.
fn text(levels: &'static [&'static str]) -> impl Strategy<Value = String> {
    vec(prop::sample::select(levels), 1..5).prop_map(|levels| levels.join("/"))
}

fn filter() -> impl Strategy<Value = String> {
    let valid = |text: &String| TopicFilter::parse(text).is_some();
    text(&["a", "b", "", "+", "+", "#", "%c", "%u", "ann", "$x"]).prop_filter("valid", valid)
}

fn topic() -> impl Strategy<Value = String> {
    text(&["a", "b", "", "ann", "1", "c", "$x", "%c", "%u"])
}

fn grant() -> impl Strategy<Value = Grant> {
    use Grant::{Deny, DenyRead, DenyWrite, Read, ReadWrite, Write};
    let grants: &[Grant] = &[Read, Read, Write, ReadWrite, ReadWrite, Deny, DenyRead, DenyWrite];
    prop::sample::select(grants)
}

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    vec((grant(), filter()), 0..12).prop_map(|all| {
        all.iter().map(|(grant, filter)| Rule::new(*grant, filter).unwrap()).collect()
    })
}

proptest! {
    #[test]
    fn few_and_many_rules_say_the_same(
        rules in some_rules(),
        topics in vec(topic(), 1..20),
        has_names: bool,
    ) {
        let names = ANN.filter(|_| has_names);
        let [few, many] = both(&rules, has_names);
        for topic in &topics {
            for deed in [Deed::Read, Deed::Write] {
                let said = few.decide(deed, topic, names);
                prop_assert_eq!(many.decide(deed, topic, names), said, "{}", topic);
            }
        }
    }

    #[test]
    fn what_is_covered_may_be_read_whatever_the_topic(
        rules in some_rules(),
        filter in filter(),
        topics in vec(topic(), 1..20),
        has_names: bool,
    ) {
        let names = ANN.filter(|_| has_names);
        for rules in both(&rules, has_names) {
            let Some(is_covered) = rules.cover(&filter, names) else { continue };
            for topic in topics.iter().filter(|topic| is_covered && matches(&filter, topic, None)) {
                prop_assert_eq!(rules.decide(Deed::Read, topic, names), Some(true), "{}", topic);
            }
        }
    }
}
