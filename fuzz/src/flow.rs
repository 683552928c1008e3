//! Expressions and payloads from strangers: refused or evaluated, the same by both ways.

use weir_flow::{Condition, Expression, Fault, Flow, Message, Scratch, Verdict};

/// Conditions of every kind that runs without a tree.
const CONDITIONS: [&str; 6] = [
    "has(payload.p.mcc) && has(payload.p.mnc)",
    "payload.pos.s > 80 || payload.tp == \"ud\"",
    "!(payload.a <= -1.5) && payload.b.c in [1, 2.0, \"x\", null, true]",
    "payload.s.startsWith(\"a\") || payload.s.contains(\"b\") || payload.s.endsWith(\"c\")",
    "payload[0].a == 1u || payload[\"a b\"]",
    "payload == null",
];

const RULES: &str = r#"
[[flow]]
name = "topic"
from = "in/#"
to = "out/{payload.p.mcc}/{topic[1]}"
payload = 'payload.p'
[[flow]]
name = "made"
from = "in/#"
to = "made"
payload = '{"a": payload, "b": [payload]}'
"#;

const PAYLOAD: &[u8] = br#"{"a":1,"b":[1,2.5,"x",null,true],"p":{"mcc":257,"s":"text"},"e":{}}"#;

fn message(payload: &[u8]) -> Message<'_> {
    Message {
        topic: "in/unit",
        payload,
        qos: 1,
        retain: false,
        user_properties: &[("name", "value"), ("site", "minsk")],
    }
}

/// Text as an expression, with a payload after a null character if there is one.
pub fn expression(input: &[u8]) {
    let at = input.iter().position(|byte| *byte == 0);
    let (text, payload) = match at {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, PAYLOAD),
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    if let Err(error) = Expression::parse(text) {
        assert!(error.at <= text.len(), "{error}");
        assert!(Condition::parse(text).is_err(), "{text}");
    }
    match Condition::parse(text) {
        Ok(condition) => same(&condition, payload),
        Err(error) => assert!(error.at <= text.len(), "{error}"),
    }
}

/// Bytes as a payload, for conditions and rules.
pub fn payload(input: &[u8]) {
    for text in CONDITIONS {
        let condition = Condition::parse(text).expect("a condition of ours");
        assert!(condition.is_fast(), "{text}");
        same(&condition, input);
    }
    let mut flow = Flow::parse(RULES).expect("rules of ours");
    flow.apply(&message(input), 0, &mut |output| {
        assert!(!output.topic.is_empty() && !output.topic.contains(['+', '#', '\0']));
        let made = message(output.payload);
        // What was made is JSON again, but for what is too deep only now.
        let condition = Condition::parse("payload != null").expect("a condition of ours");
        match condition.check(&made, &mut Scratch::default()) {
            Verdict::Invalid(fault) => assert_eq!(fault, Fault::TooDeep),
            Verdict::Match | Verdict::NoMatch => {}
        }
    });
}

fn same(condition: &Condition, payload: &[u8]) {
    let message = message(payload);
    let mut scratch = Scratch::default();
    let mut reading = scratch.reading(&message);
    let fast = reading.check(condition);
    let slow = reading.check_by_interpreter(condition);
    // Each way has its own price of a search.
    let is_too_costly = |verdict| verdict == Verdict::Invalid(Fault::TooCostly);
    assert!(
        fast == slow || is_too_costly(slow) || is_too_costly(fast),
        "{}: {fast:?}, by the interpreter {slow:?}",
        condition.text()
    );
}
