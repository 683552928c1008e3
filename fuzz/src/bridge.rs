//! What a bridge makes of what another broker says: counts of hops, and topics. It takes its own modules,
//! without the rest of the bridge.

#![expect(dead_code, reason = "the bridge uses the rest")]

#[path = "../../crates/bridge/src/hops.rs"]
mod hops;
#[path = "../../crates/bridge/src/topics.rs"]
mod topics;

use topics::{Direction, End, Routes, Topic};
use weir_wire::topic::is_valid_name;
use weir_wire::{PropertiesBuf, Property, QoS};

/// Runs the properties on an input: a line each for a pattern, two prefixes, and a topic; then a user
/// property a line, its name and its value with an equals sign between.
///
/// # Panics
/// If a property does not hold.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default();
    let (pattern, local, remote, topic) = (line(), line(), line(), line());
    check_topic((pattern, local, remote), topic);
    check_hops(lines.filter_map(|line| line.split_once('=')));
}

/// A message goes there and back under the same topic, if it comes back at all.
fn check_topic((pattern, local, remote): (&str, &str, &str), topic: &str) {
    let topics = [Topic {
        pattern: pattern.into(),
        direction: Direction::Both,
        qos: QoS::AtMostOnce,
        local_prefix: local.into(),
        remote_prefix: remote.into(),
    }];
    if topics[0].fault().is_some() || !is_valid_name(topic) {
        return;
    }
    let (mut there, mut back) = (String::new(), String::new());
    if Routes::from(End::Remote, &topics).map(topic, &mut there).is_none() {
        return;
    }
    let rest = there.strip_prefix(local).expect("it has the prefix of the other end");
    assert_eq!(topic.strip_prefix(remote), Some(rest));
    assert!(there.is_empty() || is_valid_name(&there) || there.len() > usize::from(u16::MAX));
    if Routes::from(End::Local, &topics).map(&there, &mut back).is_some() {
        assert_eq!(back, topic);
    }
}

/// However often it was said, there is one count, which never gets lower.
fn check_hops<'a>(said: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut from = PropertiesBuf::new();
    let (mut others, mut most) = (Vec::new(), 0_u8);
    for (name, value) in said {
        let is_text = !name.contains('\0') && !value.contains('\0');
        if !is_text || name.len() + value.len() > 1_000 || others.len() > 100 {
            return;
        }
        from.push(Property::UserProperty(name, value));
        match name == hops::HOPS {
            true => most = most.max(value.parse().unwrap_or(0)),
            false => others.push((name, value)),
        }
    }
    let mut there = PropertiesBuf::new();
    let counted = hops::pass_on(from.as_properties(), &mut there);
    assert_eq!(counted, most.saturating_add(1));
    let all: Vec<_> = there.as_properties().iter().collect();
    let (last, rest) = all.split_last().expect("the count");
    assert_eq!(*last, Property::UserProperty(hops::HOPS, &counted.to_string()));
    let others = others.into_iter().map(|(name, value)| Property::UserProperty(name, value));
    assert!(rest.iter().copied().eq(others), "{rest:?}");
}
