//! Payloads that are malformed or hostile: each ends as it is written down, by both ways.

use weir_flow::Fault::{NoField, NotJson, TooCostly, TooDeep, TooLarge, WrongType};
use weir_flow::Verdict::{Invalid, Match, NoMatch};
use weir_flow::{
    Condition, Message, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX, STEPS_PER_MESSAGE_MAX, Scratch,
    Verdict,
};

/// What is asked of every payload here.
const CONDITION: &str = "has(payload.p.mcc) && payload.p.mcc > 200";

/// A message of a Wialon gateway, 300 bytes.
const WIALON: &str = include_str!("../wialon.json");

/// Payload, what is said of it.
type Case = (Vec<u8>, Verdict);

fn table() -> Vec<Case> {
    let deep = |depth: usize| format!("{{\"p\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let cases: Vec<(String, Verdict)> = vec![
        (WIALON.trim_end().to_owned(), Match),
        // Types that are not what the condition takes.
        (r#"{"p":{"mcc":201}}"#.into(), Match),
        (r#"{"p":{"mcc":200}}"#.into(), NoMatch),
        (r#"{"p":{"mcc":200.5}}"#.into(), Match),
        (r#"{"p":{"mcc":"257"}}"#.into(), Invalid(WrongType)),
        (r#"{"p":{"mcc":true}}"#.into(), Invalid(WrongType)),
        (r#"{"p":{"mcc":null}}"#.into(), Invalid(WrongType)),
        (r#"{"p":{"mcc":{}}}"#.into(), Invalid(WrongType)),
        (r#"{"p":{"mcc":[257]}}"#.into(), Invalid(WrongType)),
        (r#"{"p":{}}"#.into(), NoMatch),
        (r#"{"p":{"MCC":257}}"#.into(), NoMatch),
        (r#"{"p":null}"#.into(), Invalid(WrongType)),
        (r#"{"p":5}"#.into(), Invalid(WrongType)),
        (r#"{"p":"mcc"}"#.into(), Invalid(WrongType)),
        (r#"{"p":true}"#.into(), Invalid(WrongType)),
        (r#"{"p":[]}"#.into(), Invalid(WrongType)),
        (r#"{"p":[{"mcc":257}]}"#.into(), Invalid(WrongType)),
        ("{}".into(), Invalid(NoField)),
        (r#"{"q":{"mcc":257}}"#.into(), Invalid(NoField)),
        (r#"{"P":{"mcc":257}}"#.into(), Invalid(NoField)),
        ("[]".into(), Invalid(WrongType)),
        ("5".into(), Invalid(WrongType)),
        ("\"p\"".into(), Invalid(WrongType)),
        ("null".into(), Invalid(WrongType)),
        ("true".into(), Invalid(WrongType)),
        // Keys that are there twice: the last one counts.
        (r#"{"p":{"mcc":1},"p":{"mcc":257}}"#.into(), Match),
        (r#"{"p":{"mcc":257},"p":{"mcc":1}}"#.into(), NoMatch),
        (r#"{"p":{"mcc":257},"p":{}}"#.into(), NoMatch),
        (r#"{"p":{"mcc":257},"p":5}"#.into(), Invalid(WrongType)),
        (r#"{"p":5,"p":{"mcc":257}}"#.into(), Match),
        (r#"{"p":{"mcc":1,"mcc":257}}"#.into(), Match),
        (r#"{"p":{"mcc":257,"mcc":1}}"#.into(), NoMatch),
        (r#"{"p":{"mcc":1,"\u006dcc":257}}"#.into(), Match),
        (r#"{"p":{"\u006D\u0063\u0063":257}}"#.into(), Match),
        (r#"{"\u0070":{"mcc":257}}"#.into(), Match),
        (r#"{"p":{"mcc\u0000":257}}"#.into(), NoMatch),
        // Huge numbers: over 64 bits a double, over a double infinite.
        (format!(r#"{{"p":{{"mcc":{}}}}}"#, "9".repeat(20)), Match),
        (format!(r#"{{"p":{{"mcc":{}}}}}"#, "9".repeat(10_000)), Match),
        (format!(r#"{{"p":{{"mcc":-{}}}}}"#, "9".repeat(10_000)), NoMatch),
        (format!(r#"{{"p":{{"mcc":0.{}}}}}"#, "1".repeat(10_000)), NoMatch),
        (r#"{"p":{"mcc":1e308}}"#.into(), Match),
        (r#"{"p":{"mcc":1e309}}"#.into(), Match),
        (r#"{"p":{"mcc":-1e309}}"#.into(), NoMatch),
        (r#"{"p":{"mcc":1e999999999999}}"#.into(), Match),
        (r#"{"p":{"mcc":1e-999999999999}}"#.into(), NoMatch),
        (r#"{"p":{"mcc":-0}}"#.into(), NoMatch),
        // Depth.
        (deep(PAYLOAD_DEPTH_MAX - 1), Invalid(WrongType)),
        (deep(PAYLOAD_DEPTH_MAX), Invalid(TooDeep)),
        (deep(100_000), Invalid(TooDeep)),
        ("[".repeat(100_000), Invalid(TooDeep)),
        ("{\"a\":".repeat(50_000), Invalid(TooDeep)),
        ("[{\"a\":".repeat(50), Invalid(TooDeep)),
        ("]".repeat(100_000), Invalid(NotJson)),
        // Length.
        (" ".repeat(PAYLOAD_BYTES_MAX), Invalid(NotJson)),
        (" ".repeat(PAYLOAD_BYTES_MAX + 1), Invalid(TooLarge)),
        ("[".repeat(PAYLOAD_BYTES_MAX + 1), Invalid(TooLarge)),
        (format!("{}{}", WIALON.trim_end(), " ".repeat(1_000)), Match),
    ];
    cases.into_iter().map(|(text, verdict)| (text.into_bytes(), verdict)).collect()
}

/// Values that are no JSON.
const BAD_VALUES: &[&str] = &[
    "NaN",
    "nan",
    "Infinity",
    "-Infinity",
    "inf",
    "undefined",
    "None",
    "True",
    "FALSE",
    "nul",
    "nulll",
    "tru",
    "truee",
    "fals",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "-",
    "+1",
    "--1",
    "1e",
    "1e+",
    "1E-",
    "1.e5",
    "1..2",
    "1.2.3",
    "0x10",
    "1_000",
    "1,",
    ",1",
    "",
    "'a'",
    "a",
    "\"a",
    "a\"",
    "\"\"\"",
    "\"\\x41\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\",
    "\"\\\"",
    "\"\\'\"",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "[",
    "]",
    "[}",
    "{]",
    "{\"a\"}",
    "{\"a\":}",
    "{:1}",
    "{\"a\":1,}",
    "{,}",
    "{a:1}",
    "{1:1}",
    "{null:1}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":1:2}",
    "{\"a\":1 \"b\":2}",
    "// x",
    "/* x */ 1",
    "# x",
    "1 1",
    "\u{feff}1",
    "\u{a0}1",
    "\u{2028}",
    "{}{}",
    "[][]",
    "\"a\"\"b\"",
    "1;",
    "(1)",
    "<a/>",
    "\u{0}",
    "1\u{0}",
    "\u{c}1",
    "\u{b}1",
    // Halves of surrogate pairs, alone, in the wrong order, and cut.
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud800x\"",
    "\"\\ud800\\n\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud800\\ud800\"",
    "\"\\udbff\\ue000\"",
    "\"\\ud800\\udc0\"",
    "\"\\ud83d\\\"",
];

/// What is no UTF-8: lone and missing continuations, too long forms, surrogates, over U+10FFFF.
const NO_UTF8: &[&[u8]] = &[
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc3",
    b"\xc3\x28",
    b"\xe0\x80\x80",
    b"\xe2\x82",
    b"\xe2\x28\xa1",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf0\x80\x80\x80",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xfe",
    b"\xff",
    b"\xff\xfe",
];

/// Values that are no JSON, each to stand in the place of a value of a message.
fn bad_values() -> Vec<Vec<u8>> {
    let texts = BAD_VALUES.iter().map(|text| text.as_bytes().to_vec());
    // Control characters in text, in its first word and after it.
    let short = (0..0x20).map(|byte| vec![b'"', byte, b'"']);
    let long = (0..0x20).map(|byte| [b"\"1234567890".as_slice(), &[byte], b"\""].concat());
    let quoted = NO_UTF8.iter().map(|bytes| [b"\"", *bytes, b"\""].concat());
    let bare = NO_UTF8.iter().map(|bytes| bytes.to_vec());
    texts.chain(short).chain(long).chain(quoted).chain(bare).collect()
}

/// Payloads that are no JSON: cut anywhere, with a bad value before and after what is asked for.
fn generated() -> Vec<Case> {
    let whole = WIALON.trim_end().as_bytes();
    let mut cases: Vec<Case> =
        (0..whole.len()).map(|end| (whole[..end].to_vec(), Invalid(NotJson))).collect();
    for value in bad_values() {
        for (before, after) in [
            (&b"{\"x\":"[..], &b",\"p\":{\"mcc\":257}}"[..]),
            (b"{\"p\":{\"mcc\":257},\"x\":", b"}"),
        ] {
            cases.push(([before, &value, after].concat(), Invalid(NotJson)));
        }
    }
    for after in ["}", "]", ",", "x", "\u{0}", "{}", " 1", "\"", "\u{feff}"] {
        cases.push(([whole, after.as_bytes()].concat(), Invalid(NotJson)));
    }
    cases
}

#[test]
fn five_hundred_payloads_end_as_written_down() {
    let condition = Condition::parse(CONDITION).unwrap();
    assert!(condition.is_fast());
    let cases: Vec<Case> = table().into_iter().chain(generated()).collect();
    assert!(cases.len() >= 500, "{}", cases.len());
    let mut scratch = Scratch::default();
    for (payload, expected) in &cases {
        let message =
            Message { topic: "ud/7", payload, qos: 0, retain: false, user_properties: &[] };
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(400)]).into_owned();
        let mut reading = scratch.reading(&message);
        assert_eq!(reading.check(&condition), *expected, "{shown}");
        // The interpreter has a bound of steps besides: what it reaches is not evaluated.
        let slow = reading.check_by_interpreter(&condition);
        assert!(slow == *expected || slow == Invalid(TooCostly), "{slow:?}: {shown}");
    }
}

#[test]
fn a_condition_that_does_not_look_at_the_payload_takes_any() {
    let mut scratch = Scratch::default();
    let condition = Condition::parse("topic.startsWith(\"ud/\") && qos == 0").unwrap();
    for (payload, _) in generated() {
        let message = Message {
            topic: "ud/7",
            payload: &payload,
            qos: 0,
            retain: false,
            user_properties: &[],
        };
        assert_eq!(condition.check(&message, &mut scratch), Match);
    }
}

#[test]
fn what_costs_too_much_on_a_payload_is_not_evaluated() {
    let mut scratch = Scratch::default();
    let list = |length: usize| {
        let numbers: Vec<String> = (0..length).map(|number| number.to_string()).collect();
        format!("{{\"l\":[{}]}}", numbers.join(","))
    };
    let mut check = |text: &str, payload: &str| {
        let payload = payload.as_bytes();
        let message = Message { topic: "t", payload, qos: 0, retain: false, user_properties: &[] };
        Condition::parse(text).unwrap().check(&message, &mut scratch)
    };
    let once = "payload.l.all(x, x >= 0)";
    let twice = "payload.l.all(x, payload.l.all(y, x + y >= 0))";
    let thrice = "payload.l.all(x, payload.l.all(y, payload.l.all(z, x + y + z >= 0)))";
    assert_eq!(check(once, &list(1_000)), Match);
    // Once through a long list is within the bound: it grows as the list does.
    assert_eq!(check(once, &list(20_000)), Match);
    assert_eq!(check(twice, &list(20)), Match);
    assert_eq!(check(twice, &list(1_000)), Invalid(TooCostly));
    assert_eq!(check(thrice, &list(5)), Match);
    assert_eq!(check(thrice, &list(100)), Invalid(TooCostly));
    // A list that is gathered is copied for each element.
    assert_eq!(check("payload.l.map(x, x).size() > 0", &list(100)), Match);
    assert_eq!(check("payload.l.map(x, x).size() > 0", &list(3_000)), Invalid(TooCostly));
    let gathered = "payload.l.map(x, payload.l).map(y, y.map(z, z)).size() > 0";
    assert_eq!(check(gathered, &list(1_000)), Invalid(TooCostly));
}

#[test]
fn conditions_of_one_message_share_a_bound_of_steps() {
    let payload = format!("[{}]", ["1"; 50].join(","));
    let message = Message {
        topic: "t",
        payload: payload.as_bytes(),
        qos: 0,
        retain: false,
        user_properties: &[],
    };
    let costly = |number: u32| {
        let text = format!("payload.all(a, payload.all(b, a + b > {number}))");
        Condition::parse(&text).unwrap()
    };
    let conditions: Vec<Condition> = (0..120).map(costly).collect();
    let mut scratch = Scratch::default();
    let mut reading = scratch.reading(&message);
    let verdicts: Vec<Verdict> = conditions.iter().map(|one| reading.check(one)).collect();
    assert_eq!(verdicts[0], Match, "one alone is within its bound");
    assert_eq!(verdicts[119], Invalid(TooCostly), "a thousand such would stop a broker");
    // What needs no tree goes on, and the next message has its own steps.
    assert_eq!(reading.check(&Condition::parse("payload[0] == 1").unwrap()), Match);
    assert_eq!(scratch.reading(&message).check(&conditions[119]), NoMatch);
}

#[test]
fn conditions_without_a_tree_have_a_bound_too() {
    let payload = format!("[{}]", ["1"; 100_000].join(","));
    let properties = vec![("name", "value"); 80_000];
    let mut message = Message {
        topic: "t",
        payload: payload.as_bytes(),
        qos: 0,
        retain: false,
        user_properties: &[],
    };
    let several = |count: u32, part: fn(u32) -> String| {
        let parts: Vec<String> = (0..count).map(part).collect();
        Condition::parse(&parts.join(" || ")).unwrap()
    };
    let wide = |part| several(56, part);
    let elements = wide(|at| format!("payload[{at}] == 2"));
    let named = wide(|at| format!("has(properties.p{at})"));
    assert!(elements.is_fast() && named.is_fast());
    let mut scratch = Scratch::default();
    assert_eq!(elements.check(&message, &mut scratch), Invalid(TooCostly));
    let narrow = Condition::parse("payload[9] == 2").unwrap();
    let mut reading = scratch.reading(&message);
    let verdicts: Vec<Verdict> = (0..100).map(|_| reading.check(&narrow)).collect();
    assert_eq!((verdicts[0], verdicts[99]), (NoMatch, Invalid(TooCostly)));
    message.user_properties = &properties;
    assert_eq!(named.check(&message, &mut scratch), Invalid(TooCostly));
    // A search is dearer than a test: of a long text there are few.
    let text = format!("{{\"l\":\"{}\"}}", "\\u00e9".repeat(15_000));
    let found = several(40, |at| format!("payload.l.contains(\"{at}\")"));
    let equal = several(40, |at| format!("payload.l == \"{at}\""));
    let texts = Message { payload: text.as_bytes(), user_properties: &[], ..message };
    assert_eq!(equal.check(&texts, &mut scratch), NoMatch);
    assert_eq!(found.check(&texts, &mut scratch), Invalid(TooCostly));
    // The smallest of messages takes as much as one with some values.
    let tiny = Message { payload: b"1", user_properties: &[], ..message };
    let qos = wide(|at| format!("qos == {}", at + 3));
    let mut reading = scratch.reading(&tiny);
    assert_eq!(reading.check(&qos), NoMatch);
    assert!(reading.steps_left() <= STEPS_PER_MESSAGE_MAX - 56 * 16);
    let short = Message { payload: b"[1]", user_properties: &[], ..message };
    assert_eq!(elements.check(&short, &mut scratch), Invalid(NoField));
}

#[test]
fn the_longest_expressions_fit_a_small_stack() {
    let chain = |part: &str, sign: &str, count: usize| vec![part; count].join(sign);
    let texts = [
        chain("payload.a", " || ", 100),
        chain("payload.a == 1", " && ", 60),
        format!("{} > 0", chain("payload.n", " + ", 127)),
        format!("{}payload.a", "!".repeat(500)),
        format!("{}payload.n > 0", "-".repeat(500)),
        format!("payload{} == 1", ".a".repeat(250)),
        format!("payload{} == 1", "[0]".repeat(168)),
        format!("{}payload.a{}", "(".repeat(16), ")".repeat(16)),
    ];
    let run = move || {
        let mut scratch = Scratch::default();
        let payload = br#"{"a":true,"n":1}"#;
        for text in texts {
            assert!(!Condition::parse(&text).is_err_and(|error| error.message.contains("words")));
            // Another refusal is as good.
            if let Ok(condition) = Condition::parse(&text) {
                let message =
                    Message { topic: "t", payload, qos: 0, retain: false, user_properties: &[] };
                let mut reading = scratch.reading(&message);
                assert_eq!(reading.check(&condition), reading.check_by_interpreter(&condition));
            }
        }
    };
    // A shard's thread has 2 MiB.
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap().join().unwrap();
}
