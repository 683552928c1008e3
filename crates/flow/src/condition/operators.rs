//! The operators of the interpreter where they meet numbers.
//!
//! The `cel` crate's own refuse to calculate with an integer and a double, and round an integer
//! before they compare it with a double. So calls of them become calls of functions of ours, which
//! do the same for everything but numbers.

use crate::Fault;
use crate::number::{Number, Operation};
use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelUInt, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError, IdedExpr, Value};
use std::cmp::Ordering;

type Outcome<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;
type Function = for<'b, 'v> fn(Vec<CowVal<'b, 'v>>) -> Outcome<'b, 'v>;

/// The operators that meet numbers, the number of their sides, what they are called instead (no
/// expression can write it), and what does their work.
const OPERATORS: [(&str, usize, &str, Function); 13] = [
    (operators::ADD, 2, "@add", |sides| add(&sides)),
    (operators::SUBSTRACT, 2, "@subtract", |sides| calculate(&sides, Operation::Subtract)),
    (operators::MULTIPLY, 2, "@multiply", |sides| calculate(&sides, Operation::Multiply)),
    (operators::DIVIDE, 2, "@divide", |sides| calculate(&sides, Operation::Divide)),
    (operators::MODULO, 2, "@remainder", |sides| calculate(&sides, Operation::Remainder)),
    (operators::NEGATE, 1, "@negate", |sides| negate(&sides)),
    (operators::EQUALS, 2, "@equal", |sides| Ok(truth(equal(&sides)?))),
    (operators::NOT_EQUALS, 2, "@not_equal", |sides| Ok(truth(!equal(&sides)?))),
    (operators::LESS, 2, "@less", |sides| Ok(truth(order(&sides)?.is_lt()))),
    (operators::LESS_EQUALS, 2, "@less_or_equal", |sides| Ok(truth(order(&sides)?.is_le()))),
    (operators::GREATER, 2, "@greater", |sides| Ok(truth(order(&sides)?.is_gt()))),
    (operators::GREATER_EQUALS, 2, "@greater_or_equal", |sides| Ok(truth(order(&sides)?.is_ge()))),
    // The interpreter's own is called "@in".
    (operators::IN, 2, "@within", |sides| within(&sides)),
];

/// The functions of the language, and ours.
pub(super) fn environment() -> Env {
    let mut env = Env::stdlib();
    for (_, sides, name, function) in OPERATORS {
        env.add_overload(name, name, (0..sides).map(|_| DYN_TYPE).collect(), function)
            .expect("each name is there once");
    }
    env
}

/// Lets an expression call ours.
pub(super) fn replace(part: &mut IdedExpr) {
    match &mut part.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => replace(&mut select.operand),
        Expr::Call(call) => replace_call(call),
        Expr::List(list) => list.elements.iter_mut().for_each(replace),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    replace(&mut entry.key);
                    replace(&mut entry.value);
                }
            }
        }
        // Refused by the checks.
        Expr::Struct(_) => {}
        Expr::Comprehension(comprehension) => {
            replace(&mut comprehension.iter_range);
            replace(&mut comprehension.accu_init);
            replace(&mut comprehension.loop_cond);
            replace(&mut comprehension.loop_step);
            replace(&mut comprehension.result);
        }
    }
}

fn replace_call(call: &mut CallExpr) {
    call.target.as_deref_mut().map(replace);
    call.args.iter_mut().for_each(replace);
    // A side that is no number makes the other one none either, or the two unequal. And the
    // interpreter knows `list + [x]` by its form, and does not copy the list for it.
    let known = match call.func_name.as_str() {
        operators::ADD => call.args.iter().any(|side| is_text(side) || is_list(side)),
        operators::IN => call.args.first().is_some_and(is_text),
        _ => call.args.iter().any(is_text),
    };
    let ours = OPERATORS.iter().find(|(name, ..)| *name == call.func_name);
    if let (Some((_, sides, name, _)), false, None) = (ours, known, &call.target)
        && call.args.len() == *sides
    {
        (*name).clone_into(&mut call.func_name);
    }
}

fn is_text(part: &IdedExpr) -> bool {
    matches!(part.expr, Expr::Literal(LiteralValue::String(_)))
}

fn is_list(part: &IdedExpr) -> bool {
    matches!(part.expr, Expr::List(_))
}

fn number(value: &dyn Val) -> Option<Number> {
    if let Some(value) = value.downcast_ref::<CelInt>() {
        return Some(Number::Int(*value.inner()));
    }
    if let Some(value) = value.downcast_ref::<CelDouble>() {
        return Some(Number::Double(*value.inner()));
    }
    value.downcast_ref::<CelUInt>().map(|value| Number::from(*value.inner()))
}

/// A number as a value of the interpreter.
pub(super) fn value(number: Number) -> Box<dyn Val> {
    match number {
        Number::Int(value) => Box::new(CelInt::from(value)),
        Number::Uint(value) => Box::new(CelUInt::from(value)),
        Number::Double(value) => Box::new(CelDouble::from(value)),
    }
}

/// The interpreter's name for a fault of ours.
fn fault(fault: Fault) -> ExecutionError {
    match fault {
        Fault::OutOfRange => ExecutionError::Overflow("number", Value::Null, Value::Null),
        _ => ExecutionError::UnsupportedBinaryOperator("number", Value::Null, Value::Null),
    }
}

fn calculate<'b, 'v>(sides: &[CowVal<'b, 'v>], operation: Operation) -> Outcome<'b, 'v> {
    let (left, right) = two(sides)?;
    let (Some(left), Some(right)) = (number(left), number(right)) else {
        return Err(fault(Fault::WrongType));
    };
    left.calculate(operation, right).map(|of| CowVal::Owned(value(of))).map_err(fault)
}

/// Of numbers their sum; text and lists are joined as the interpreter does.
fn add<'b, 'v>(sides: &[CowVal<'b, 'v>]) -> Outcome<'b, 'v> {
    let (left, right) = two(sides)?;
    match left.as_adder() {
        Some(adder) if number(left).is_none() => Ok(CowVal::Owned(adder.add(right)?.into_owned())),
        _ => calculate(sides, Operation::Add),
    }
}

/// `x in y`: an element of a list, a key of a map.
fn within<'b, 'v>(sides: &[CowVal<'b, 'v>]) -> Outcome<'b, 'v> {
    let (value, container) = two(sides)?;
    if let Some(list) = container.downcast_ref::<CelList>() {
        return Ok(truth(list.inner().iter().any(|element| same(value, element.as_ref()))));
    }
    let container = container.as_container().ok_or_else(|| fault(Fault::WrongType))?;
    container.contains(value).map(truth)
}

fn two<'a, 'v>(
    sides: &'a [CowVal<'_, 'v>],
) -> Result<(&'a (dyn Val + 'v), &'a (dyn Val + 'v)), ExecutionError> {
    match sides {
        [left, right] => Ok((left.as_ref(), right.as_ref())),
        _ => Err(fault(Fault::WrongType)),
    }
}

fn equal(sides: &[CowVal<'_, '_>]) -> Result<bool, ExecutionError> {
    two(sides).map(|(left, right)| same(left, right))
}

fn order(sides: &[CowVal<'_, '_>]) -> Result<Ordering, ExecutionError> {
    let (left, right) = two(sides)?;
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return left.order(right).ok_or_else(|| fault(Fault::WrongType));
    }
    left.as_comparer().ok_or_else(|| fault(Fault::WrongType))?.compare(right)
}

/// Whether two values are equal, with all that is in them. A payload's depth is bounded, and so is
/// that of an expression.
fn same(left: &dyn Val, right: &dyn Val) -> bool {
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return left.order(right) == Some(Ordering::Equal);
    }
    if let (Some(left), Some(right)) =
        (left.downcast_ref::<CelList>(), right.downcast_ref::<CelList>())
    {
        let (left, right) = (left.inner(), right.inner());
        let mut both = left.iter().zip(right);
        return left.len() == right.len()
            && both.all(|(left, right)| same(left.as_ref(), right.as_ref()));
    }
    if let (Some(left), Some(right)) =
        (left.downcast_ref::<CelMap>(), right.downcast_ref::<CelMap>())
    {
        let of = |key: &dyn Val| right.as_indexer().and_then(|right| right.get(key).ok());
        let mut members = left.inner().iter();
        return left.inner().len() == right.inner().len()
            && members.all(|(key, value)| {
                of(key.inner()).is_some_and(|other| same(value.as_ref(), other.as_ref()))
            });
    }
    left.equals(right)
}

fn truth<'b, 'v>(holds: bool) -> CowVal<'b, 'v> {
    CowVal::Borrowed(if holds { &CelBool::TRUE } else { &CelBool::FALSE })
}

/// The negative of a number.
fn negate<'b, 'v>(sides: &[CowVal<'b, 'v>]) -> Outcome<'b, 'v> {
    let of = sides.first().and_then(|side| number(side.as_ref()));
    let of = of.ok_or_else(|| fault(Fault::WrongType))?;
    of.negated().map(|of| CowVal::Owned(value(of))).ok_or_else(|| fault(Fault::OutOfRange))
}
