//! Whether a condition can be true of any message at all, as far as it can be told from its text.

use super::cost::Cost;
use super::operators;
use crate::number::Number;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators as cel_operators};
use cel::{Context, IdedExpr, Value};
use std::cmp::Ordering;
use std::sync::Arc;

/// Whether it is true of no message. Not all of those are found.
pub(super) fn is_never_true(root: &IdedExpr) -> bool {
    constant(root) == Some(false)
}

/// False of what is never true, and true of what is never false. It may still be a fault.
fn constant(part: &IdedExpr) -> Option<bool> {
    let Expr::Call(call) = &part.expr else {
        return match &part.expr {
            Expr::Literal(LiteralValue::Boolean(holds)) => Some(**holds),
            _ => None,
        };
    };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (cel_operators::LOGICAL_NOT, [of]) => constant(of).map(|holds| !holds),
        (cel_operators::LOGICAL_AND, [left, right]) => match (constant(left), constant(right)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        (cel_operators::LOGICAL_OR, [left, right]) => match (constant(left), constant(right)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        (cel_operators::IN, [_, list]) if is_empty(list) => Some(false),
        (name, [left, right]) => {
            let known = match (number(left), number(right)) {
                (None, Some(number)) => compared(left, name, number),
                (Some(number), None) => compared(right, turned(name), number),
                _ => None,
            };
            known.or_else(|| evaluated(part, call))
        }
        _ => None,
    }
}

fn is_empty(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::List(list) if list.elements.is_empty())
}

/// What a comparison of `qos` with a number comes to, as all values of it are known. Of a payload
/// every number that can be written can be met.
fn compared(side: &IdedExpr, name: &str, number: Number) -> Option<bool> {
    let holds: fn(Ordering) -> bool = match name {
        cel_operators::EQUALS => Ordering::is_eq,
        cel_operators::NOT_EQUALS => Ordering::is_ne,
        cel_operators::LESS => Ordering::is_lt,
        cel_operators::LESS_EQUALS => Ordering::is_le,
        cel_operators::GREATER => Ordering::is_gt,
        cel_operators::GREATER_EQUALS => Ordering::is_ge,
        _ => return None,
    };
    if matches!(&side.expr, Expr::Ident(name) if name == "qos") {
        let of = |qos: i64| Number::Int(qos).order(number).is_some_and(holds);
        return match [of(0), of(1), of(2)] {
            [false, false, false] => Some(false),
            [true, true, true] => Some(true),
            _ => None,
        };
    }
    None
}

fn turned(name: &str) -> &str {
    match name {
        cel_operators::LESS => cel_operators::GREATER,
        cel_operators::LESS_EQUALS => cel_operators::GREATER_EQUALS,
        cel_operators::GREATER => cel_operators::LESS,
        cel_operators::GREATER_EQUALS => cel_operators::LESS_EQUALS,
        same => same,
    }
}

fn number(part: &IdedExpr) -> Option<Number> {
    match &part.expr {
        Expr::Literal(LiteralValue::Int(value)) => Some(Number::Int(**value)),
        Expr::Literal(LiteralValue::UInt(value)) => Some(Number::from(**value)),
        Expr::Literal(LiteralValue::Double(value)) => Some(Number::Double(**value)),
        Expr::Call(call) if call.func_name == cel_operators::NEGATE => {
            number(call.args.first()?)?.negated()
        }
        _ => None,
    }
}

/// What the interpreter says of two sides without a variable.
fn evaluated(part: &IdedExpr, call: &CallExpr) -> Option<bool> {
    if !call.args.iter().all(is_plain) {
        return None;
    }
    Cost::of(part).ok()?.allow(1).ok()?;
    let mut part = part.clone();
    operators::replace(&mut part);
    match Value::resolve(&part, &Context::with_env(Arc::new(operators::environment()))) {
        Ok(Value::Bool(holds)) => Some(holds),
        _ => None,
    }
}

/// Whether it is made of constants and operators alone.
fn is_plain(part: &IdedExpr) -> bool {
    match &part.expr {
        Expr::Literal(_) => true,
        Expr::List(list) => list.elements.iter().all(is_plain),
        Expr::Call(call) => call.target.is_none() && call.args.iter().all(is_plain),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::Condition;

    #[test]
    fn what_is_false_of_every_message_is_told() {
        for text in [
            "false",
            "1 > 2",
            "2 * 3 == 7",
            "1.5 in [1, 2]",
            "qos > 2",
            "3 <= qos",
            "qos == 1.5",
            "qos < -1",
            "payload.a in []",
            "payload.a > 1 && qos == 3",
            "(payload.a > 1 && 1 > 2) || qos == 3",
            "!(qos < 3 || payload.a)",
            "!true",
        ] {
            assert!(Condition::parse(text).unwrap().never_matches(), "{text}");
        }
    }

    #[test]
    fn what_may_match_is_not() {
        for text in [
            "true",
            "payload.a",
            "payload.a > 1 || qos == 3",
            "qos > 1",
            "qos == 2.0",
            "!(qos == 3)",
            "payload.a > 18446744073709551615",
            "payload.a < -9223372036854775808",
            "payload.a > 1e308",
            "payload.a in [1]",
            "payload.a + 1 > 2",
            "[1].exists(x, x == payload.a)",
            "1 < 2",
        ] {
            assert!(!Condition::parse(text).unwrap().never_matches(), "{text}");
        }
    }
}
