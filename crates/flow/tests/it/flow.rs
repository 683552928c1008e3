//! Rules of a file: what they do with messages, and which files are refused.

use weir_flow::{Applied, Fault, Flow, FlowError, Message};

const CELLS: &str = r#"
[[flow]]
name = "cells"
from = "ud/#"
qos = 1
when = 'has(payload.p.mcc) && has(payload.p.mnc)'
to = "cells/{payload.p.mcc}/{topic[1]}"
payload = 'payload.p'
publish_qos = 1
retain = true
"#;

fn message<'a>(topic: &'a str, payload: &'a str) -> Message<'a> {
    Message { topic, payload: payload.as_bytes(), qos: 0, retain: false, user_properties: &[] }
}

/// What came out: topic, payload, QoS, RETAIN, rule.
type Out = (String, String, u8, bool, usize);

fn apply(flow: &mut Flow, message: &Message<'_>, now_us: u64) -> (Applied, Vec<Out>) {
    let mut outputs = Vec::new();
    let applied = flow.apply(message, now_us, &mut |output| {
        let payload = String::from_utf8(output.payload.to_vec()).unwrap();
        outputs.push((output.topic.to_owned(), payload, output.qos, output.retain, output.rule));
    });
    (applied, outputs)
}

fn one(rule: &str) -> Flow {
    Flow::parse(&format!("[[flow]]\nname = \"r\"\nfrom = \"in/+\"\n{rule}")).unwrap()
}

#[test]
fn a_match_is_published_to_a_topic_of_its_fields() {
    let mut flow = Flow::parse(CELLS).unwrap();
    let payload = r#"{"t":1, "p":{"mcc":257, "mnc":2},"n":5}"#;
    let (applied, outputs) = apply(&mut flow, &message("ud/unit7/x", payload), 0);
    // A plain path keeps the bytes, white space and all.
    let expected = ("cells/257/unit7".to_owned(), r#"{"mcc":257, "mnc":2}"#.to_owned(), 1, true, 0);
    assert_eq!(outputs, [expected]);
    assert_eq!(applied, Applied { seen: 1, matched: 1, published: 1, ..Applied::default() });

    let (applied, outputs) = apply(&mut flow, &message("ud/unit7", r#"{"p":{}}"#), 0);
    assert_eq!((applied.seen, applied.matched, outputs.len()), (1, 0, 0));
    let (applied, _) = apply(&mut flow, &message("other", payload), 0);
    assert_eq!(applied, Applied::default());
    let (applied, _) = apply(&mut flow, &message("ud/unit7", "{"), 0);
    assert_eq!((applied.seen, applied.invalid), (1, 1));
    let counts = flow.counts().next().unwrap();
    assert_eq!((counts.seen, counts.matched, counts.published), (3, 1, 1));
    assert_eq!(counts.faults.iter().collect::<Vec<_>>(), [(Fault::NotJson, 1)]);
}

#[test]
fn a_rule_without_condition_and_payload_passes_the_bytes_on() {
    let mut flow = one("to = \"out/{topic[1]}\"");
    let mut message = message("in/7", "no json \u{1}");
    message.qos = 2;
    let (_, outputs) = apply(&mut flow, &message, 0);
    assert_eq!(outputs, [("out/7".to_owned(), "no json \u{1}".to_owned(), 2, false, 0)]);
}

#[test]
fn a_payload_is_built_by_an_expression() {
    for (payload, expected) in [
        ("payload.a", r#""x\u0041""#),
        ("payload.a + \"\"", r#""xA""#),
        ("{\"z\": payload.n, \"a\": [payload.d, true, null]}", r#"{"a":[1.5,true,null],"z":-3}"#),
        ("payload.l.map(x, x * 2)", "[2,4]"),
        ("topic", "\"in/7\""),
        ("\"quote \\\" line \\n\"", r#""quote \" line \n""#),
        ("payload.d * 2.0", "3.0"),
    ] {
        let mut flow = one(&format!("to = \"out\"\npayload = '''{payload}'''"));
        let body = r#"{"a":"x\u0041","n":-3,"d":1.50,"l":[1,2]}"#;
        let (_, outputs) = apply(&mut flow, &message("in/7", body), 0);
        assert_eq!(outputs[0].1, expected, "{payload}");
    }
}

#[test]
fn what_cannot_be_made_is_a_fault_and_not_published() {
    for (rule, body, expected) in [
        ("to = \"out\"\npayload = 'payload.q'", "{}", Fault::NoField),
        ("to = \"out/{payload.q}\"", "{}", Fault::NoField),
        ("to = \"out/{payload.q}\"", r#"{"q":"a/b"}"#, Fault::BadTopic),
        ("to = \"{payload.q}\"", r#"{"q":"$SYS"}"#, Fault::BadTopic),
        ("to = \"out/{payload.q}\"", "[", Fault::NotJson),
        ("to = \"out\"\npayload = 'payload.a / 0'", r#"{"a":1}"#, Fault::OutOfRange),
        ("to = \"out\"\npayload = 'payload.a + 0.0'", r#"{"a":1e999}"#, Fault::OutOfRange),
    ] {
        let mut flow = one(rule);
        let (applied, outputs) = apply(&mut flow, &message("in/7", body), 0);
        assert_eq!((applied.invalid, applied.published, outputs.len()), (1, 0, 0), "{rule}");
        assert_eq!(flow.counts().next().unwrap().faults.of(expected), 1, "{rule} {body}");
    }
}

#[test]
fn a_drop_ends_it_and_a_count_does_not() {
    let mut flow = Flow::parse(
        r##"
        [[flow]]
        name = "seen"
        from = "in/#"
        action = "count"
        [[flow]]
        name = "low"
        from = "in/#"
        when = 'payload.v < 10'
        action = "drop"
        [[flow]]
        name = "rest"
        from = "in/#"
        to = "out"
        "##,
    )
    .unwrap();
    let (applied, outputs) = apply(&mut flow, &message("in/7", r#"{"v":5}"#), 0);
    assert!(applied.dropped && outputs.is_empty());
    assert_eq!((applied.seen, applied.matched), (2, 2));
    let (applied, outputs) = apply(&mut flow, &message("in/7", r#"{"v":50}"#), 0);
    assert!(!applied.dropped);
    assert_eq!((applied.seen, outputs.len()), (3, 1));
    let seen: Vec<u64> = flow.counts().map(|counts| counts.seen).collect();
    assert_eq!(seen, [2, 2, 1]);
}

#[test]
fn samples_and_rates_leave_matches_out() {
    let mut flow = one("to = \"out\"\nsample = 0.1");
    let published =
        (0..10_000).filter(|_| apply(&mut flow, &message("in/7", ""), 0).0.published == 1).count();
    assert!((900..1_100).contains(&published), "{published}");
    let counts = *flow.counts().next().unwrap();
    assert_eq!(counts.sampled_out + counts.published, 10_000);

    let mut flow = one("to = \"out\"\nthrottle_per_s = 100");
    let passes = |flow: &mut Flow, ms: u64| {
        apply(flow, &message("in/7", ""), ms * 1_000).0.published as usize
    };
    let alone: usize = (0..5_000).map(|ms| passes(&mut flow, ms)).sum();
    assert!((500..=510).contains(&alone), "{alone}");
    // The rate is the rule's, whichever threads the messages come up on.
    let mut parts = flow.split(4);
    let one: usize = (0..5_000).map(|ms| passes(&mut parts[0], ms)).sum();
    assert_eq!(one, alone);
    let all = |ms| parts.iter_mut().map(|flow| passes(flow, ms)).sum::<usize>();
    let together: usize = (10_000..15_000).map(all).sum();
    assert!(together.abs_diff(alone) <= 1, "{together} of all, {alone} of one");
}

#[test]
fn rules_that_feed_each_other_are_refused_with_the_circle() {
    let flow = |rules: &[(&str, &str, &str)]| {
        let rules = rules.iter().map(|(name, from, to)| {
            format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n")
        });
        Flow::parse(&rules.collect::<String>())
    };
    for (rules, circle) in [
        (&[("a", "in/#", "in/x")][..], &["a"][..]),
        (&[("a", "in/#", "{topic}/x")], &["a"]),
        (&[("a", "in/#", "{payload.x}/y")], &["a"]),
        (&[("a", "$share/g/in/#", "in/{topic[1]}")], &["a"]),
        (&[("a", "x/#", "y/1"), ("b", "y/+", "x/1")], &["a", "b"]),
        (
            &[("z", "q", "r"), ("a", "x/#", "y/1"), ("b", "y/+", "z/1"), ("c", "z/#", "x")],
            &["a", "b", "c"],
        ),
    ] {
        let Err(FlowError::Loop(names)) = flow(rules) else {
            panic!("{rules:?} has a loop");
        };
        assert_eq!(names, circle);
    }
    for rules in [
        &[("a", "in/#", "out/x")][..],
        &[("a", "in/+", "in/x/y")],
        &[("a", "in/+/x", "in/{payload.y}/z")],
        &[("a", "x/#", "y/1"), ("b", "y/+", "z/1"), ("c", "y/#", "z/2")],
        &[("a", "$SYS/#", "{topic}")],
    ] {
        assert!(flow(rules).is_ok(), "{rules:?}");
    }
    let told = flow(&[("a", "x", "y"), ("b", "y", "x")]).unwrap_err().to_string();
    assert_eq!(told, "a loop: \"a\" -> \"b\" -> \"a\"");
}

#[test]
fn bad_rules_are_refused_with_their_name_and_place() {
    for (rule, expected) in [
        ("when = 'payload.'\nto = \"x\"", "rule \"r\": when: at byte "),
        ("when = 'topic > 5'\nto = \"x\"", "rule \"r\": when: at byte 0: "),
        ("to = \"x/{what}\"", "rule \"r\": to: at byte 3: "),
        ("to = \"x\"\npayload = 'what'", "rule \"r\": payload: at byte 0: "),
        ("qos = 3\nto = \"x\"", "rule \"r\": qos: "),
        ("publish_qos = 3\nto = \"x\"", "rule \"r\": publish_qos: "),
        ("sample = 0\nto = \"x\"", "rule \"r\": sample: "),
        ("sample = 1.5\nto = \"x\"", "rule \"r\": sample: "),
        ("sample = nan\nto = \"x\"", "rule \"r\": sample: "),
        ("throttle_per_s = 0\nto = \"x\"", "rule \"r\": throttle_per_s: "),
        ("throttle_per_s = inf\nto = \"x\"", "rule \"r\": throttle_per_s: "),
        ("action = \"drop\"\nto = \"x\"", "rule \"r\": to: "),
        ("action = \"count\"\nretain = true", "rule \"r\": retain: "),
        ("action = \"jump\"", "rule \"r\": action: "),
        ("", "rule \"r\": to: "),
        ("to = \"x\"\nwhere = 'true'", "line 5, column 1: "),
        ("to = 5", "line 4, column 6: "),
        ("to = ", "line 4, column "),
    ] {
        let text = format!("[[flow]]\nname = \"r\"\nfrom = \"in/#\"\n{rule}");
        let error = match Flow::parse(&text) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{rule}"),
        };
        assert!(error.starts_with(expected) && !error.contains('\n'), "{rule}: {error}");
    }
    let named = |name: &str, from: &str| {
        let text = format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"x\"");
        Flow::parse(&text).unwrap_err().to_string()
    };
    assert!(named("", "in").starts_with("rule \"1\": name: "));
    assert!(named("r", "in/#/x").starts_with("rule \"r\": from: "));
    let twice = format!("{CELLS}{CELLS}");
    assert_eq!(
        Flow::parse(&twice).unwrap_err().to_string(),
        "rule \"cells\": name: another rule has this name"
    );
}
