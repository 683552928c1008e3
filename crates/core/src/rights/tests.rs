//! Each case was seen at Mosquitto 2.0 and 2.1.

use super::*;

fn policy() -> Policy {
    let mut policy = PolicyBuilder::default();
    for (user, grant, filter) in [
        (None, Grant::Read, "anon/#"),
        (None, Grant::Deny, "anon/secret"),
        (Some("ann"), Grant::Write, "w/#"),
        (Some("ann"), Grant::Read, "r/#"),
        (Some("ann"), Grant::Deny, "r/no"),
        (Some("ann"), Grant::ReadWrite, "z/#"),
        (Some("ann"), Grant::Deny, "z/+"),
        (Some("bob"), Grant::ReadWrite, "#"),
        (Some("bob"), Grant::Read, "$SYS/#"),
    ] {
        policy.rule(user, grant, filter).unwrap();
    }
    for (grant, filter) in [
        (Grant::Write, "p/%u/d"),
        (Grant::ReadWrite, "c/%c/#"),
        (Grant::ReadWrite, "both/%u%c/x"),
        (Grant::Deny, "w/%u"),
    ] {
        policy.pattern(grant, filter).unwrap();
    }
    policy.build()
}

#[track_caller]
fn check(user: Option<&str>, client_id: &str, topic: &str, expected: (bool, bool)) {
    let rights = policy().of(&User::new(user), None);
    let may = |deed| rights.allow(deed, client_id, topic);
    assert_eq!((may(Deed::Read), may(Deed::Write)), expected, "{user:?} {client_id} {topic}");
}

#[test]
fn who_may_read_what_the_broker_says_of_itself_is_limited_beside_all_rules() {
    let these = SysReaders::These(BTreeSet::from(["bob".to_owned()]));
    let (all, users) = (SysReaders::All, SysReaders::Users);
    // Nobody, ann, bob.
    for (policy, readers, expected) in [
        (Policy::free(), &all, [true, true, true]),
        (Policy::free(), &users, [false, true, true]),
        (Policy::free(), &these, [false, false, true]),
        (policy(), &all, [false, false, true]),
        (policy(), &users, [false, false, true]),
    ] {
        let policy = policy.with_sys_readers(readers.clone());
        let reads = [None, Some("ann"), Some("bob")].map(|user| {
            let rights = policy.of(&User::new(user), None);
            let topics = ["$SYS/broker/uptime", "$SYS", "$SYS/#"];
            let reads = topics.map(|topic| rights.allow(Deed::Read, "c", topic));
            let covers = rights.covers("c", "$SYS/#");
            assert!(!covers || reads[0], "{user:?} {readers:?}");
            assert!(rights.is_free == rights.allow(Deed::Read, "c", "$SYSTEM"), "another topic");
            reads[0]
        });
        assert_eq!(reads, expected, "{readers:?}");
    }
    let own = OwnRules::new([(Grant::Read, "$SYS/#"), (Grant::Read, "a")]).unwrap();
    let limited = Policy::free().with_sys_readers(these).of(&User::Anonymous, Some(own));
    let reads = ["$SYS/x", "a", "b"].map(|topic| limited.allow(Deed::Read, "c", topic));
    assert_eq!(reads, [false, true, false], "rules of its own are all that it has");
}

#[test]
fn what_no_rule_grants_is_denied() {
    check(Some("ann"), "c", "nothing", (false, false));
    check(None, "c", "nothing", (false, false));
    check(Some("who"), "c", "anon/x", (false, false));
}

#[test]
fn each_rule_grants_what_it_says() {
    check(None, "c", "anon/x", (true, false));
    check(None, "c", "anon", (true, false));
    check(Some("ann"), "c", "w/x", (false, true));
    check(Some("ann"), "c", "r/x/y", (true, false));
    check(Some("bob"), "c", "what/ever", (true, true));
}

#[test]
fn what_denies_comes_first_wherever_it_stands_and_patterns_come_last() {
    check(None, "c", "anon/secret", (false, false));
    check(Some("ann"), "c", "r/no", (false, false));
    check(Some("ann"), "c", "z/x", (false, false));
    check(Some("ann"), "c", "z/x/y", (true, true));
    // The user's own rule has said so before the pattern denies.
    check(Some("ann"), "c", "w/ann", (false, true));
}

#[test]
fn a_topic_below_dollar_needs_a_rule_that_names_it() {
    check(Some("bob"), "c", "$SYS/broker", (true, false));
    check(Some("bob"), "c", "$else", (false, false));
}

#[test]
fn names_stand_for_whole_levels() {
    check(Some("ann"), "c", "p/ann/d", (false, true));
    check(Some("ann"), "c", "p/bob/d", (false, false));
    check(Some("ann"), "dev", "c/dev/x", (true, true));
    check(Some("ann"), "dev", "c/dev", (true, true));
    check(Some("ann"), "dev", "c/device/x", (false, false));
    check(Some("ann"), "de/v", "c/de/v/x", (true, true));
    check(Some("ann"), "dev", "both/anndev/x", (false, false));
    check(None, "c", "p//d", (false, false));
    check(None, "dev", "c/dev/x", (true, true));
}

#[test]
fn a_name_that_is_a_wildcard_has_no_patterns() {
    check(Some("ann"), "+", "c/+/x", (false, false));
    check(Some("#"), "dev", "c/dev/x", (false, false));
    check(Some("ann"), "+", "w/x", (false, true));
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let mut policy = PolicyBuilder::default();
    assert_eq!(policy.rule(None, Grant::Read, "a#b"), Err(NoFilter));
    assert_eq!(policy.pattern(Grant::Read, ""), Err(NoFilter));
}
