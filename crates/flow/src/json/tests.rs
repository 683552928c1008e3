use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn read(text: &[u8]) -> Result<Value, Fault> {
    let mut index = Index::default();
    let read = index.read(text)?;
    Ok(value(&index.json(read), 0))
}

/// The value by way of the index.
fn value(json: &Json<'_>, at: usize) -> Value {
    let entry = json.entry(at).unwrap();
    let string = |entry: Entry| text::characters(json.raw(entry)).collect::<String>();
    match entry.kind {
        Kind::Object => {
            let members = json.members(at).map(|(key, at)| (string(key), value(json, at)));
            Value::Object(members.collect())
        }
        Kind::Array => json.elements(at).map(|at| value(json, at)).collect(),
        Kind::Text | Kind::Escaped => Value::String(string(entry)),
        Kind::True => Value::Bool(true),
        Kind::False => Value::Bool(false),
        Kind::Null => Value::Null,
        Kind::Whole | Kind::Fraction => match json.number(entry) {
            Number::Int(value) => value.into(),
            Number::Uint(value) => value.into(),
            Number::Double(value) => value.into(),
        },
    }
}

#[test]
fn values_are_read_with_their_places() {
    let text = r#" {"a": [1, -2.5, "x\u00e9\n"], "b": {}, "c": null, "d": [], "a2": true} "#;
    assert_eq!(read(text.as_bytes()), Ok(serde_json::from_str(text).unwrap()));
    let mut index = Index::default();
    let read = index.read(text.as_bytes()).unwrap();
    let json = index.json(read);
    let at = json.member(0, &Name::new("a")).unwrap();
    assert_eq!(json.whole(json.entry(at).unwrap()), r#"[1, -2.5, "x\u00e9\n"]"#);
    let third = json.elements(at).nth(2).unwrap();
    assert_eq!(json.whole(json.entry(third).unwrap()), r#""x\u00e9\n""#);
    assert_eq!(json.member(0, &Name::new("nothing")), None);
    assert_eq!(json.member(at, &Name::new("a")), None);
}

#[test]
fn of_keys_that_are_there_twice_the_last_one_counts() {
    let text = r#"{"a":1,"a":2,"\u0061":3}"#;
    let mut index = Index::default();
    let read = index.read(text.as_bytes()).unwrap();
    let json = index.json(read);
    let at = json.member(0, &Name::new("a")).unwrap();
    assert_eq!(json.number(json.entry(at).unwrap()), Number::Int(3));
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(nested(PAYLOAD_DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(read(nested(PAYLOAD_DEPTH_MAX + 1).as_bytes()), Err(Fault::TooDeep));
    assert_eq!(read("[".repeat(100_000).as_bytes()), Err(Fault::TooDeep));
    let long = |length: usize| format!("\"{}\"", "a".repeat(length - 2));
    assert!(read(long(PAYLOAD_BYTES_MAX).as_bytes()).is_ok());
    assert_eq!(read(long(PAYLOAD_BYTES_MAX + 1).as_bytes()), Err(Fault::TooLarge));
}

#[test]
fn numbers_are_whole_or_double() {
    for (text, expected) in [
        ("0", Number::Int(0)),
        ("-0", Number::Int(0)),
        ("9223372036854775807", Number::Int(i64::MAX)),
        ("-9223372036854775808", Number::Int(i64::MIN)),
        ("9223372036854775808", Number::Uint(9_223_372_036_854_775_808)),
        ("18446744073709551615", Number::Uint(u64::MAX)),
        ("18446744073709551616", Number::Double(18_446_744_073_709_551_616.0)),
        ("-9223372036854775809", Number::Double(-9_223_372_036_854_775_809.0)),
        ("1.0", Number::Double(1.0)),
        ("1e2", Number::Double(100.0)),
        ("1E+2", Number::Double(100.0)),
        ("1e999", Number::Double(f64::INFINITY)),
        ("-1e999", Number::Double(f64::NEG_INFINITY)),
        ("1e-999", Number::Double(0.0)),
    ] {
        let mut index = Index::default();
        let read = index.read(text.as_bytes()).unwrap();
        let json = index.json(read);
        assert_eq!(json.number(json.entry(0).unwrap()), expected, "{text}");
    }
}

/// Text that is nearly JSON: tokens of it in any order.
fn nearly() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\\",
        "1",
        "-",
        "0",
        "01",
        "1.5",
        ".",
        "1e5",
        "e",
        "+",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "é",
        "{}",
        "[]",
        "{\"a\":1}",
        "\u{1}",
        "\"abcdefgh\"",
        "\t",
    ]);
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

/// JSON that is valid.
fn valid() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(".{0,9}", inner, 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_json_is_what_another_reader_says(text in nearly()) {
        // Here a negative zero is the integer, there a double.
        prop_assume!(!text.contains("-0"));
        let other = serde_json::from_str::<Value>(&text);
        // It refuses a number that no double holds, which the grammar allows.
        let is_too_large = |error: &serde_json::Error| error.to_string().contains("out of range");
        prop_assume!(!other.as_ref().is_err_and(is_too_large));
        let ours = read(text.as_bytes());
        prop_assert_eq!(ours.is_ok(), other.is_ok(), "{}", text);
        if let (Ok(ours), Ok(other)) = (ours, other) {
            prop_assert_eq!(ours, other);
        }
    }

    #[test]
    fn valid_json_is_read_as_it_is(value in valid(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        prop_assert_eq!(read(text.as_bytes()), Ok(value));
    }

    #[test]
    fn a_cut_or_a_changed_byte_never_panics_and_says_what_another_reader_says(
        value in valid(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut text = value.to_string().into_bytes();
        let at = at.index(text.len());
        if cut {
            text.truncate(at);
        } else {
            text[at] = byte;
        }
        let other = serde_json::from_slice::<Value>(&text);
        // A changed digit can make a number that the other reader refuses as too large.
        let overflow = other.as_ref().is_err_and(|error| error.to_string().contains("range"));
        if !overflow {
            prop_assert_eq!(read(&text).is_ok(), other.is_ok(), "{:?}", text);
        }
    }

    #[test]
    fn text_written_is_read_back(text in any::<String>()) {
        let mut out = Vec::new();
        text::write(&text, &mut out);
        prop_assert_eq!(read(&out), Ok(Value::String(text)));
    }
}
