//! Expressions that cannot be used: each is refused with the byte where it is wrong.

use weir_flow::{BRACKETS_DEPTH_MAX, Condition, EXPRESSION_BYTES_MAX, EXPRESSION_TOKENS_MAX};

/// The expression with `§` in front of the byte where it is wrong.
const BAD: &[&str] = &[
    // Nothing to read.
    "§",
    "§   ",
    "§// only a comment",
    // Grammar.
    "payload.a ==§",
    "payload.a == §== 1",
    "payload.a ==§= 1",
    "payload.a §= 1",
    "payload.a && §",
    "§&& payload.a",
    "§|| true",
    "payload.a §& payload.b",
    "payload.a §| payload.b",
    "payload.a §and payload.b",
    "not §payload.a",
    "payload.a <§> 1",
    "payload.a §=> 1",
    "payload.§",
    "payload.§.a",
    ".payload.§",
    "payload§.1a",
    "payload[§",
    "payload[§]",
    r#"payload["a"§"#,
    "payload.a§]",
    "(payload.a§",
    "payload.a§)",
    "((true)§",
    "{§",
    r#"{"a"§"#,
    r#"{"a": §"#,
    r#"{"a": 1 == 2§"#,
    "[1, 2§",
    "[1, §, 2] == []",
    "has(§",
    "§has()",
    "has(§payload)",
    "§has(payload.a, payload.b)",
    r#"has(payload§["a"])"#,
    "has(§1)",
    r#"has(topic §== "x")"#,
    "payload.l.§all(x)",
    "payload.l.all(x, §)",
    "payload.l.all(§1, true)",
    "payload.l.exists(x§.y, true)",
    "payload.l.§map(x)",
    "payload.l.§filter(x, y, z)",
    "§all(x, true)",
    r#"§"open"#,
    "§'open",
    r#"§"bad \q escape" == topic"#,
    r#"§"\u12" == topic"#,
    r#"§"\ud800" == topic"#,
    "payload.a == 01§x",
    "1.2§.3 == 1",
    "1§e == 1",
    "0§xZZ == 1",
    "§99999999999999999999 == 1",
    "payload.a == 1 §2",
    "payload.a §payload.b",
    "true §true",
    "true§;",
    "§@payload",
    "payload.a §# 1",
    "§$topic",
    "payload.a ? true§",
    "payload.a ? true :§",
    "true ? §: false",
    "§`a` == 1",
    "§for",
    // Names.
    "§what",
    "§what == 1",
    "payload.a == 1 && §whatever.b == 2",
    "§Payload.a == 1",
    "§payloads.a == 1",
    "payload.l.exists(x, §y == 1)",
    "payload.l.exists(x, x == 1) && §x == 1",
    "topic == §tpoic",
    // Functions.
    "§now() > 0",
    r#"payload.a.§matches("x")"#,
    r#"§matches(topic, "x")"#,
    r#"topic.§lowerAscii() == "x""#,
    r#"topic.§split("/") == []"#,
    r#"§duration("1s") == 1"#,
    "§timestamp(0) == 1",
    "§type(payload) == 1",
    "§size() == 1",
    "§size(payload, 1) == 1",
    "topic.§startsWith() == true",
    r#"topic.§startsWith("a", "b")"#,
    r#"§startsWith(topic, "a")"#,
    r#"§string() == "a""#,
    "topic.§endsWith()",
    "§int(1, 2) == 1",
    "§max(1, 2) == 2",
    // Types.
    "§topic",
    "§qos",
    "§1 + 2",
    r#"§"text""#,
    "§[true]",
    r#"§{"a": true}"#,
    "§null",
    "§payload.a + 1",
    "§size(topic)",
    "§payload.l.map(x, x)",
    "§topic > 5",
    "§topic == 5",
    "payload.a == 1 && §topic == 5",
    "§retain == 1",
    r#"§qos == "1""#,
    "§qos.a == 1",
    "§topic.a == 1",
    "has(§topic.a)",
    r#"§topic[0] == "u""#,
    r#"properties[§0] == "u""#,
    "§qos.size() == 1",
    r#"§qos.startsWith("1")"#,
    "topic.startsWith(§qos)",
    "§topic && true",
    "true || §qos",
    "!§topic",
    "-§topic == 1",
    "§topic - 1 == 1",
    "§retain + retain == 2",
    "§properties + properties == 1",
    r#"§topic + 1 == "1""#,
    "payload.a in §topic",
    "1 in §qos",
    "§qos.all(x, x == 1)",
    "§properties < properties",
    "§null < null",
    "§qos ? true : false",
    "{§1: 2}",
    "§properties == topic",
    "§Message{} == 1",
];

#[test]
fn a_hundred_bad_expressions_are_refused_with_their_place() {
    let mut wrong = String::new();
    for bad in BAD {
        let text = bad.replacen('§', "", 1);
        let told = match Condition::parse(&text) {
            Err(error) => {
                assert!(!error.message.is_empty() && !error.to_string().contains('\n'), "{text:?}");
                let at = error.at.min(text.len());
                format!("{}§{} ({error})", &text[..at], &text[at..])
            }
            Ok(_) => format!("{text} (it is accepted)"),
        };
        if !told.starts_with(&format!("{bad} (at byte ")) {
            wrong += &format!("\n{told}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(BAD.len() >= 100, "{}", BAD.len());
}

#[test]
fn the_bounds_of_an_expression_hold() {
    let fits = |text: &str| Condition::parse(text).map(|_| ()).map_err(|error| error.at);
    let padded = |length: usize| format!("{:<length$}", "true");
    assert_eq!(fits(&padded(EXPRESSION_BYTES_MAX)), Ok(()));
    assert_eq!(fits(&padded(EXPRESSION_BYTES_MAX + 1)), Err(EXPRESSION_BYTES_MAX));

    let nested = |depth: usize| format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(fits(&nested(BRACKETS_DEPTH_MAX)), Ok(()));
    assert_eq!(fits(&nested(BRACKETS_DEPTH_MAX + 1)), Err(BRACKETS_DEPTH_MAX));
    let choices = |depth: usize| format!("{}true", "true ? true : ".repeat(depth));
    assert_eq!(fits(&choices(BRACKETS_DEPTH_MAX)), Ok(()));
    assert!(fits(&choices(BRACKETS_DEPTH_MAX + 1)).is_err());

    // Each sum is two more words: 1, then + 1 so often, then > 0.
    let sum = |words: usize| format!("1{} > 0", "+1".repeat((words - 3) / 2));
    assert_eq!(fits(&sum(EXPRESSION_TOKENS_MAX - 1)), Ok(()));
    assert!(fits(&sum(EXPRESSION_TOKENS_MAX + 1)).is_err());
    assert!(fits(&"[".repeat(100_000)).is_err());
    assert!(fits(&"!".repeat(4000)).is_err());
    assert!(fits(&"-".repeat(4000)).is_err());
}
