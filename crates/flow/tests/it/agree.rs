//! The way without a tree says what the interpreter says: on random JSON, random conditions.

use proptest::prelude::*;
use weir_flow::{Condition, Message, Scratch, Verdict};

/// A few names, so that paths often lead somewhere.
const NAMES: &[&str] = &["a", "b", "p", "long_name", "e\u{301}"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(NAMES)
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "1",
            "-1",
            "2",
            "1.0",
            "1.5",
            "1e400",
            "-0.0",
            "9223372036854775807",
            "9223372036854775808",
            "9007199254740992.0",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "1e-5",
            "\"\"",
            "\"a\"",
            "\"b\"",
            "\"ab\"",
            "\"\\u0061\"",
            "\"x\\n\"",
            "\"é\"",
            "\"9\"",
            "[]",
            "{}",
        ])
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|value| value.to_string()),
        (-10..10_i64).prop_map(|value| value.to_string()),
    ]
}

/// JSON as text, with escapes in names and names that are there twice.
fn json() -> impl Strategy<Value = String> {
    scalar().prop_recursive(4, 32, 5, |inner| {
        let key = (name(), any::<bool>()).prop_map(|(name, escaped)| match (name, escaped) {
            ("a", true) => "\\u0061".to_owned(),
            ("p", true) => "\\u0070".to_owned(),
            _ => name.to_owned(),
        });
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|elements| format!("[{}]", elements.join(","))),
            4 => prop::collection::vec((key, inner), 0..5).prop_map(|members| {
                let members = members.iter().map(|(key, value)| format!("\"{key}\":{value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(" , "))
            }),
        ]
    })
}

fn path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        4 => prop::sample::select(vec![".a", ".b", ".p", ".long_name"]).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["[\"a\"]", "[\"e\u{301}\"]", "[0]", "[1]"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(step, 0..4).prop_map(|steps| format!("payload{}", steps.concat()))
}

/// A constant and a value of a message that it may be compared with.
fn constant() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "0",
        "1",
        "-1",
        "2",
        "1u",
        "1.0",
        "1.5",
        "-0.5",
        "9007199254740992.0",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808u",
        "18446744073709551615",
        "\"a\"",
        "\"ab\"",
        "\"\"",
        "\"é\"",
        "true",
        "false",
        "null",
    ])
}

/// Tests of each kind; of text and text only where the type of a side is known.
fn leaf() -> impl Strategy<Value = String> {
    let operator = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let affix = prop::sample::select(vec!["startsWith", "endsWith", "contains"]);
    let text = prop::sample::select(vec!["\"a\"", "\"\"", "\"u\"", "\"b\"", "'x\\n'"]);
    prop_oneof![
        4 => (path(), name()).prop_filter_map("an identifier", |(path, name)| {
            name.is_ascii().then(|| format!("has({path}.{name})"))
        }),
        4 => (path(), operator.clone(), constant()).prop_filter_map(
            "null has no order",
            |(path, operator, constant)| {
                let ordered = operator.contains(['<', '>']);
                (!(ordered && constant == "null")).then(|| format!("{path} {operator} {constant}"))
            }
        ),
        1 => (path(), operator.clone(), constant()).prop_filter_map(
            "null has no order",
            |(path, operator, constant)| {
                let ordered = operator.contains(['<', '>']);
                (!(ordered && constant == "null")).then(|| format!("{constant} {operator} {path}"))
            }
        ),
        1 => path(),
        1 => (path(), affix, text.clone()).prop_map(|(path, affix, text)| {
            format!("{path}.{affix}({text})")
        }),
        1 => (path(), prop::collection::vec(constant(), 0..4))
            .prop_map(|(path, all)| format!("{path} in [{}]", all.join(", "))),
        1 => (operator.clone(), text).prop_map(|(operator, text)| {
            format!("topic {operator} {text}")
        }),
        1 => (operator, 0..3_u8).prop_map(|(operator, qos)| format!("qos {operator} {qos}")),
        1 => prop::sample::select(vec![
            "true", "false", "retain", "has(properties.a)", "has(properties.zz)",
            "properties.a == \"1\"", "properties.zz == \"1\"", "topic.startsWith(\"ud/\")",
            "topic.endsWith(\"7\")",
        ]).prop_map(str::to_owned),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    leaf().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a} && {b} && {c}")),
            1 => inner.prop_map(|a| format!("!({a})")),
        ]
    })
}

fn both(text: &str, payload: &[u8]) -> (Verdict, Verdict) {
    let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(condition.is_fast(), "{text}");
    let message = Message {
        topic: "ud/unit/7",
        payload,
        qos: 1,
        retain: true,
        user_properties: &[("a", "0"), ("b", ""), ("a", "1")],
    };
    let mut scratch = Scratch::default();
    let mut reading = scratch.reading(&message);
    (reading.check(&condition), reading.check_by_interpreter(&condition))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn both_ways_say_the_same(text in condition(), payload in json()) {
        let (fast, slow) = both(&text, payload.as_bytes());
        prop_assert_eq!(fast, slow, "{} on {}", text, payload);
    }

    #[test]
    fn both_ways_say_the_same_of_what_is_no_json(
        text in condition(), payload in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (fast, slow) = both(&text, &payload);
        prop_assert_eq!(fast, slow, "{}", text);
    }
}

#[test]
fn each_kind_of_test_says_yes_no_and_fault() {
    use weir_flow::Fault::{NoField, WrongType};
    let payload = br#"{"p":{"mcc":257,"off":null,"t":"a\u0062"},"s":81,"on":true,"l":[1]}"#;
    for (text, expected) in [
        ("has(payload.p.mcc)", Verdict::Match),
        ("has(payload.p.off)", Verdict::Match),
        ("has(payload.p.mnc)", Verdict::NoMatch),
        ("has(payload.q.mnc)", Verdict::Invalid(NoField)),
        ("has(payload.s.mnc)", Verdict::Invalid(WrongType)),
        ("payload.s > 80", Verdict::Match),
        ("payload.s > 81", Verdict::NoMatch),
        ("80 < payload.s", Verdict::Match),
        ("payload.s == 81.0", Verdict::Match),
        ("payload.s == \"81\"", Verdict::NoMatch),
        ("payload.s > \"81\"", Verdict::Invalid(WrongType)),
        ("payload.q > 80", Verdict::Invalid(NoField)),
        ("payload.p.off == null", Verdict::Match),
        ("payload.p.t == \"ab\"", Verdict::Match),
        ("payload.p.t.endsWith(\"b\")", Verdict::Match),
        ("payload.on", Verdict::Match),
        ("!payload.on", Verdict::NoMatch),
        ("payload.s", Verdict::Invalid(WrongType)),
        ("payload.l[0] == 1", Verdict::Match),
        ("payload.l[1] == 1", Verdict::Invalid(NoField)),
        ("payload.s in [80, 81]", Verdict::Match),
        // What is not there gives way to a side that decides.
        ("payload.q > 80 || payload.s > 80", Verdict::Match),
        ("payload.q > 80 && payload.s > 81", Verdict::NoMatch),
        ("payload.q > 80 && payload.s > 80", Verdict::Invalid(NoField)),
        ("payload.q > 80 && payload.s > \"\"", Verdict::Invalid(WrongType)),
    ] {
        assert_eq!(both(text, payload), (expected, expected), "{text}");
    }
}

#[test]
fn of_user_properties_with_one_name_the_last_one_counts() {
    let (fast, slow) = both("properties.a == \"1\"", b"");
    assert_eq!((fast, slow), (Verdict::Match, Verdict::Match));
}

#[test]
fn what_needs_the_interpreter_says_what_it_should() {
    use weir_flow::Fault::{NoField, OutOfRange, WrongType};
    let mut scratch = Scratch::default();
    let payload = br#"{"l":[{"id":1},{"id":7}],"a":2,"b":3,"s":"x","z":0}"#;
    let message = Message { topic: "ud/7", payload, qos: 0, retain: false, user_properties: &[] };
    for (text, expected) in [
        ("payload.l.exists(x, x.id == 7)", Verdict::Match),
        ("payload.l.all(x, x.id > 1)", Verdict::NoMatch),
        ("payload.l.filter(x, x.id > 1).size() == 1", Verdict::Match),
        ("payload.l.map(x, x.id + 1) == [2, 8]", Verdict::Match),
        ("payload.a < payload.b", Verdict::Match),
        ("payload.a * 2 + 1 == 5", Verdict::Match),
        ("payload.a / payload.z == 1", Verdict::Invalid(OutOfRange)),
        ("payload.a + payload.s == 1", Verdict::Invalid(WrongType)),
        ("payload.a < payload.c", Verdict::Invalid(NoField)),
        ("topic == \"ud/\" + \"7\"", Verdict::Match),
        ("size(payload.l) == 2", Verdict::Match),
        ("payload.a > 1 ? payload.b == 3 : false", Verdict::Match),
        ("\"a\" in payload", Verdict::Match),
        ("18446744073709551615 + payload.a > 0", Verdict::Invalid(OutOfRange)),
    ] {
        let condition = Condition::parse(text).unwrap();
        assert!(!condition.is_fast(), "{text}");
        assert_eq!(condition.check(&message, &mut scratch), expected, "{text}");
    }
}
