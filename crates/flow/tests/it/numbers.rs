//! Numbers compare by their value and mix in calculations, against an oracle that is exact.

use proptest::prelude::*;
use std::cmp::Ordering;
use weir_flow::{Condition, Fault, Message, Scratch, Verdict};

/// Both ways to evaluate a condition, which must agree.
fn check(text: &str, payload: &str) -> Verdict {
    let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let message = Message {
        topic: "t",
        payload: payload.as_bytes(),
        qos: 0,
        retain: false,
        user_properties: &[],
    };
    let mut scratch = Scratch::default();
    let mut reading = scratch.reading(&message);
    let verdict = reading.check(&condition);
    assert_eq!(verdict, reading.check_by_interpreter(&condition), "{text} on {payload}");
    verdict
}

fn verdict(holds: bool) -> Verdict {
    if holds { Verdict::Match } else { Verdict::NoMatch }
}

const OUT_OF_RANGE: Verdict = Verdict::Invalid(Fault::OutOfRange);
const WRONG_TYPE: Verdict = Verdict::Invalid(Fault::WrongType);

#[test]
fn whole_numbers_and_fractions_mix() {
    for (text, payload, expected) in [
        ("payload.a + payload.b > 2 * payload.c", r#"{"a":9.5,"b":21,"c":15}"#, Verdict::Match),
        ("payload.a + payload.b > 2 * payload.c", r#"{"a":9,"b":21,"c":15}"#, Verdict::NoMatch),
        ("payload.temp * 1.8 + 32.0 > 100.0", r#"{"temp":40}"#, Verdict::Match),
        ("payload.temp * 1.8 + 32.0 > 100.0", r#"{"temp":40.5}"#, Verdict::Match),
        ("payload.temp * 1.8 + 32 > 100", r#"{"temp":40}"#, Verdict::Match),
        ("payload.a / 2 == 2", r#"{"a":5}"#, Verdict::Match),
        ("payload.a / 2 == 2.5", r#"{"a":5.0}"#, Verdict::Match),
        ("payload.a / 2.0 == 2.5", r#"{"a":5}"#, Verdict::Match),
        ("-payload.a / 2 == -2", r#"{"a":5}"#, Verdict::Match),
        ("payload.a % 3 == 2", r#"{"a":5}"#, Verdict::Match),
        ("payload.a % 3 == 2", r#"{"a":5.0}"#, WRONG_TYPE),
        ("payload.a / 0 == 1", r#"{"a":5}"#, OUT_OF_RANGE),
        ("payload.a % 0 == 1", r#"{"a":5}"#, OUT_OF_RANGE),
        ("payload.a / 0.0 > 1e308", r#"{"a":5}"#, Verdict::Match),
        ("0.0 / payload.a == 0.0 / payload.a", r#"{"a":0}"#, Verdict::NoMatch),
        ("0.0 / payload.a < 1", r#"{"a":0}"#, WRONG_TYPE),
        ("payload.a * payload.a > 0", r#"{"a":18446744073709551615}"#, OUT_OF_RANGE),
        ("payload.a + 1 == 9223372036854775808", r#"{"a":9223372036854775807}"#, Verdict::Match),
        ("payload.a + 1 > 0", r#"{"a":18446744073709551615}"#, OUT_OF_RANGE),
        ("payload.a - 1 < 0", r#"{"a":-9223372036854775808}"#, OUT_OF_RANGE),
        ("payload.a - 1u == -1", r#"{"a":0}"#, Verdict::Match),
        ("-payload.a == 9223372036854775808", r#"{"a":-9223372036854775808}"#, Verdict::Match),
        ("-payload.a < 0", r#"{"a":18446744073709551615}"#, OUT_OF_RANGE),
        ("payload.a + \"b\" == \"ab\"", r#"{"a":"a"}"#, Verdict::Match),
        ("payload.a + payload.a == \"aa\"", r#"{"a":"a"}"#, Verdict::Match),
        ("payload.a + payload.a == [1, 2.0, 1.0, 2]", r#"{"a":[1.0,2]}"#, Verdict::Match),
        ("payload.a + payload.b == 1", r#"{"a":"a","b":1}"#, WRONG_TYPE),
        ("payload.a + payload.b == 1", r#"{"a":1,"b":"a"}"#, WRONG_TYPE),
        ("payload.a - payload.b == 1", r#"{"a":"a","b":"a"}"#, WRONG_TYPE),
        ("payload.a.map(x, x * 2.5) == [2.5, 5]", r#"{"a":[1,2]}"#, Verdict::Match),
        ("payload.a.exists_one(x, x > 1.5)", r#"{"a":[1,2]}"#, Verdict::Match),
        ("payload.a.exists(x, x + 0.5 > 2)", r#"{"a":[1,2]}"#, Verdict::Match),
    ] {
        assert_eq!(check(text, payload), expected, "{text} on {payload}");
    }
}

#[test]
fn what_lies_in_lists_and_maps_is_compared_exactly_too() {
    let payload = r#"{"l":[9007199254740993,18446744073709551615],"m":{"a":9007199254740993},
        "d":9007199254740992.0,"i":18446744073709551615}"#;
    for (text, holds) in [
        ("payload.d in payload.l", false),
        ("payload.l == [9007199254740993, 18446744073709551615]", true),
        ("payload.l == [9007199254740992.0, 18446744073709551615]", false),
        ("payload.l != [9007199254740992.0, 18446744073709551615]", true),
        ("payload.m == {\"a\": 9007199254740993}", true),
        ("payload.m == {\"a\": payload.d}", false),
        ("payload.m == {\"b\": 9007199254740993}", false),
        ("payload.i in payload.l", true),
        ("payload.i in [18446744073709551614]", false),
        ("payload.i in [18446744073709551614, 18446744073709551615]", true),
        ("payload.d in [9007199254740993]", false),
        ("string(payload.i) == \"18446744073709551615\"", true),
        ("payload.l.exists(x, x == 18446744073709551614)", false),
        ("payload.l.exists(x, x == 18446744073709551615)", true),
        ("\"m\" in payload", true),
    ] {
        assert_eq!(check(text, payload), verdict(holds), "{text}");
    }
}

#[test]
fn constants_of_64_bits_need_no_suffix() {
    for (constant, json) in [
        ("9223372036854775808", "9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("018446744073709551615", "18446744073709551615"),
        ("18446744073709551615u", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551616.0", "18446744073709551616"),
        ("1.9223372036854775808", "1.9223372036854775808"),
        ("9223372036854775808.0", "9223372036854775808"),
    ] {
        let payload = format!("{{\"a\":{json}}}");
        assert_eq!(
            check(&format!("payload.a=={constant}"), &payload),
            Verdict::Match,
            "{constant}"
        );
        assert_eq!(check(&format!("{constant} < payload.a"), &payload), Verdict::NoMatch);
        // Errors name the byte of the text as it was written.
        let error = Condition::parse(&format!("payload.a == {constant} && what")).unwrap_err();
        assert_eq!(error.at, "payload.a ==  && ".len() + constant.len(), "{constant}");
    }
    assert_eq!(
        check("payload.a == \"9223372036854775808\"", r#"{"a":"9223372036854775808"}"#),
        Verdict::Match
    );
    for beyond in ["18446744073709551616", "-9223372036854775809"] {
        assert_ne!(
            Condition::parse(&format!("payload.a == {beyond}")).map(|condition| {
                let message = Message {
                    topic: "t",
                    payload: b"{\"a\":1}",
                    qos: 0,
                    retain: false,
                    user_properties: &[],
                };
                condition.check(&message, &mut Scratch::default())
            }),
            Ok(Verdict::Match),
            "{beyond}"
        );
    }
}

/// A number as JSON and as an expression write it, and its value times 2 to the power of 10.
#[derive(Debug, Clone)]
struct Exact {
    text: String,
    scaled: i128,
    whole: Option<i128>,
    double: f64,
}

impl Exact {
    fn whole(value: i128) -> Self {
        let scaled = value << SCALE;
        Self { text: value.to_string(), scaled, whole: Some(value), double: value as f64 }
    }

    /// `mantissa` of at most 53 bits, times a power of 2.
    fn double(mantissa: i64, power: i32) -> Self {
        let double = mantissa as f64 * f64::from(power).exp2();
        let scaled = i128::from(mantissa) << (power + SCALE);
        Self { text: format!("{double:?}"), scaled, whole: None, double }
    }
}

const SCALE: i32 = 10;

/// Where rounding and the ends of the types lie.
const EDGES: [i128; 6] = [0, 1 << 52, 1 << 53, 1 << 54, 1 << 63, 1 << 64];

fn exact() -> impl Strategy<Value = Exact> {
    let sign = prop::sample::select(vec![1_i128, -1]);
    let edge = prop::sample::select(EDGES.to_vec());
    let near = (edge, -4..=4_i128, sign.clone()).prop_map(|(edge, by, sign)| sign * (edge + by));
    let ours = |value: &i128| i64::try_from(*value).is_ok() || u64::try_from(*value).is_ok();
    prop_oneof![
        4 => near.prop_filter("of 64 bits", ours).prop_map(Exact::whole),
        1 => any::<i64>().prop_map(|value| Exact::whole(value.into())),
        1 => any::<u64>().prop_map(|value| Exact::whole(value.into())),
        1 => (-20..20_i128).prop_map(Exact::whole),
        // Just at the edges: 2^52 to 2^65, and the doubles next to them.
        4 => ((1_i64 << 52) - 4..=(1_i64 << 52) + 4, 0..=13, sign)
            .prop_map(|(mantissa, power, sign)| Exact::double(mantissa * sign as i64, power)),
        2 => (-80..80_i64, -3..=0).prop_map(|(mantissa, power)| Exact::double(mantissa, power)),
    ]
}

type Holds = fn(Ordering) -> bool;

fn comparison() -> impl Strategy<Value = (&'static str, Holds)> {
    let all: Vec<(&str, Holds)> = vec![
        ("==", Ordering::is_eq),
        ("!=", Ordering::is_ne),
        ("<", Ordering::is_lt),
        ("<=", Ordering::is_le),
        (">", Ordering::is_gt),
        (">=", Ordering::is_ge),
    ];
    prop::sample::select(all)
}

/// What a calculation comes to: a whole number, none, or a double.
fn calculated(left: &Exact, operation: char, right: &Exact) -> Option<Result<i128, f64>> {
    if let (Some(left), Some(right)) = (left.whole, right.whole) {
        let value = match operation {
            '+' => left.checked_add(right),
            '-' => left.checked_sub(right),
            '*' => left.checked_mul(right),
            _ => left.checked_div(right),
        }?;
        let ours = i64::try_from(value).is_ok() || u64::try_from(value).is_ok();
        return ours.then_some(Ok(value));
    }
    Some(Err(match operation {
        '+' => left.double + right.double,
        '-' => left.double - right.double,
        '*' => left.double * right.double,
        _ => left.double / right.double,
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn comparisons_are_exact(left in exact(), right in exact(), (sign, holds) in comparison()) {
        let expected = verdict(holds(left.scaled.cmp(&right.scaled)));
        let payload = format!("{{\"a\":{},\"b\":{}}}", left.text, right.text);
        // By a plan, turned round, and by the interpreter alone.
        let with_constant = format!("payload.a {sign} {}", right.text);
        prop_assert_eq!(check(&with_constant, &payload), expected, "{}", with_constant);
        let turned = format!("{} {sign} payload.b", left.text);
        prop_assert_eq!(check(&turned, &payload), expected, "{}", turned);
        let of_two = format!("payload.a {sign} payload.b");
        prop_assert_eq!(check(&of_two, &payload), expected, "{}", payload);
        let equal = verdict(left.scaled == right.scaled);
        let within = format!("payload.a in [\"\", {}]", right.text);
        prop_assert_eq!(check(&within, &payload), equal, "{}", within);
        let within = format!("payload.a in [payload.b, {}]", right.text);
        prop_assert_eq!(check(&within, &payload), equal, "{}", within);
    }

    #[test]
    fn calculations_are_whole_or_double(
        left in exact(), right in exact(),
        operation in prop::sample::select(vec!['+', '-', '*', '/']),
    ) {
        let payload = format!("{{\"a\":{},\"b\":{}}}", left.text, right.text);
        let (text, expected) = match calculated(&left, operation, &right) {
            None => (format!("payload.a {operation} payload.b == 0"), OUT_OF_RANGE),
            Some(Ok(value)) => {
                (format!("payload.a {operation} payload.b == {value}"), Verdict::Match)
            }
            // What is infinite or not a number can be written in no expression.
            Some(Err(value)) if !value.is_finite() => return Ok(()),
            Some(Err(value)) => {
                (format!("payload.a {operation} payload.b == {value:?}"), Verdict::Match)
            }
        };
        prop_assert_eq!(check(&text, &payload), expected, "{} on {}", text, payload);
    }
}
