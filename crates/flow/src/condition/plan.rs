//! Conditions without a tree: tests of presence, comparisons with constants, joined by `&&`, `||`
//! and `!`.
//!
//! What a plan says is what the interpreter says, faults included. In `&&` and `||` a fault on the
//! left gives way to a right side that decides; of two faults the right one is told.

use super::Message;
use super::cost::{ESCAPED_STEPS, NUMBER_STEPS, SEARCH_STEPS, TEXTS_MIN, VALUES_MIN};
use super::resolve::{Paths, Slot};
use crate::Fault;
use crate::json::{Entry, Json, Kind, Name, text};
use crate::number::Number;
use crate::path::{Path, Segment};
use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use std::cmp::Ordering;

/// What a test comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    True,
    False,
    /// A value that is neither: a fault, but for the right side of a test that has one already.
    NotBool,
    Fault(Fault),
}

impl Outcome {
    fn of(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }

    fn not(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::NotBool => Self::Fault(Fault::WrongType),
            fault @ Self::Fault(_) => fault,
        }
    }

    /// Joins with a right side by `||` (`decides` is true) or `&&` (false).
    fn join(self, decides: Self, right: impl FnOnce() -> Self) -> Self {
        let left = match self {
            left if left == decides => return left,
            Self::NotBool => Some(Fault::WrongType),
            Self::Fault(fault) => Some(fault),
            _ => None,
        };
        match (left, right()) {
            (_, fault @ Self::Fault(_)) => fault,
            (_, right) if right == decides => right,
            (Some(fault), _) => Self::Fault(fault),
            (None, Self::NotBool) => Self::Fault(Fault::WrongType),
            (None, right) => right,
        }
    }
}

#[derive(Debug)]
enum Test {
    Always(bool),
    And(Box<(Test, Test)>),
    Or(Box<(Test, Test)>),
    Not(Box<Test>),
    /// The value itself.
    Holds(Operand),
    /// `has(payload.a.b)`: the slot of what it is asked of, and the field.
    Present {
        of: usize,
        slot: usize,
    },
    /// `has(properties.a)`.
    Property(String),
    Compare(Operand, Comparison, Literal),
    /// `x in [..]`.
    OneOf(Operand, Vec<Literal>),
    Affix(Operand, Affix, String),
}

#[derive(Debug)]
enum Operand {
    Payload(usize),
    Topic,
    Property(String),
    Qos,
    Retain,
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy)]
enum Affix {
    Start,
    End,
    Part,
}

#[derive(Debug, Clone, PartialEq)]
enum Literal {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
}

/// A value of a message, read as far as it is needed.
#[derive(Debug, Clone, Copy)]
enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    /// Text of JSON with escapes in it.
    Escaped(&'a str),
    Container,
}

/// A condition that needs no tree.
#[derive(Debug)]
pub(super) struct Plan {
    paths: Paths,
    test: Test,
    /// What may each go through the whole of a message: segments of paths, and tests.
    parts: u64,
    /// What searches take for each 16 bytes of text.
    searches: u64,
}

impl Plan {
    /// None where the expression has a part that needs the interpreter.
    pub(super) fn of(root: &IdedExpr) -> Option<Self> {
        let mut paths = Paths::default();
        let test = test(&root.expr, &mut paths)?;
        let parts = (paths.len() + test.len()) as u64;
        let searches = test.searches();
        Some(Self { paths, test, parts, searches })
    }

    /// Steps that it takes at most where there are `n` values to look at, `texts` of which are 16
    /// bytes of text each.
    pub(super) fn steps(&self, n: u64, texts: u64) -> u64 {
        let parts = self.parts.saturating_mul(n.max(VALUES_MIN));
        parts.saturating_add(self.searches.saturating_mul(texts.max(TEXTS_MIN)))
    }

    /// Evaluates it.
    pub(super) fn run(
        &self,
        message: &Message<'_>,
        json: &Json<'_>,
        slots: &mut Vec<Slot>,
    ) -> Outcome {
        self.paths.find(json, slots);
        Run { message, json, slots }.test(&self.test)
    }
}

fn test(part: &Expr, paths: &mut Paths) -> Option<Test> {
    match part {
        Expr::Literal(LiteralValue::Boolean(holds)) => Some(Test::Always(**holds)),
        Expr::Select(select) if select.test => {
            if let Expr::Ident(name) = &select.operand.expr
                && name == "properties"
            {
                return Some(Test::Property(select.field.clone()));
            }
            let mut segments = segments(&select.operand.expr)?;
            let of = paths.add(&segments);
            segments.push(Segment::Field(Name::new(&select.field)));
            Some(Test::Present { of, slot: paths.add(&segments) })
        }
        Expr::Call(call) => call_test(call, paths),
        _ => Some(Test::Holds(operand(part, paths)?)),
    }
}

fn call_test(call: &CallExpr, paths: &mut Paths) -> Option<Test> {
    let (name, target) = (call.func_name.as_str(), call.target.as_deref());
    match (name, target, call.args.as_slice()) {
        (operators::LOGICAL_AND, None, [left, right]) => {
            Some(Test::And(Box::new((test(&left.expr, paths)?, test(&right.expr, paths)?))))
        }
        (operators::LOGICAL_OR, None, [left, right]) => {
            Some(Test::Or(Box::new((test(&left.expr, paths)?, test(&right.expr, paths)?))))
        }
        (operators::LOGICAL_NOT, None, [part]) => {
            Some(Test::Not(Box::new(test(&part.expr, paths)?)))
        }
        (operators::IN, None, [left, right]) => {
            let Expr::List(list) = &right.expr else {
                return None;
            };
            let literals: Option<Vec<Literal>> =
                list.elements.iter().map(|element| literal(&element.expr)).collect();
            Some(Test::OneOf(operand(&left.expr, paths)?, literals?))
        }
        ("startsWith" | "endsWith" | "contains", Some(target), [part]) => {
            let Literal::Text(text) = literal(&part.expr)? else {
                return None;
            };
            let affix = match name {
                "startsWith" => Affix::Start,
                "endsWith" => Affix::End,
                _ => Affix::Part,
            };
            Some(Test::Affix(operand(&target.expr, paths)?, affix, text))
        }
        (operators::INDEX, None, _) => {
            let path = Path { segments: segments(&Expr::Call(call.clone()))? };
            Some(Test::Holds(Operand::Payload(paths.add(&path.segments))))
        }
        (_, None, [left, right]) => {
            let comparison = comparison(name)?;
            if let Some(literal) = literal(&right.expr) {
                return Some(Test::Compare(operand(&left.expr, paths)?, comparison, literal));
            }
            let literal = literal(&left.expr)?;
            Some(Test::Compare(operand(&right.expr, paths)?, comparison.turned(), literal))
        }
        _ => None,
    }
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        operators::EQUALS => Comparison::Equal,
        operators::NOT_EQUALS => Comparison::NotEqual,
        operators::LESS => Comparison::Less,
        operators::LESS_EQUALS => Comparison::LessOrEqual,
        operators::GREATER => Comparison::Greater,
        operators::GREATER_EQUALS => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

impl Comparison {
    /// The same with its sides exchanged.
    fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }
}

fn operand(part: &Expr, paths: &mut Paths) -> Option<Operand> {
    match part {
        Expr::Ident(name) => match name.as_str() {
            "topic" => return Some(Operand::Topic),
            "qos" => return Some(Operand::Qos),
            "retain" => return Some(Operand::Retain),
            _ => {}
        },
        Expr::Select(select) if !select.test => {
            if let Expr::Ident(name) = &select.operand.expr
                && name == "properties"
            {
                return Some(Operand::Property(select.field.clone()));
            }
        }
        _ => {}
    }
    Some(Operand::Payload(paths.add(&segments(part)?)))
}

/// The path that an expression is, where it is nothing but a path into the payload.
pub(super) fn path(root: &IdedExpr) -> Option<Path> {
    Some(Path { segments: segments(&root.expr)? })
}

fn segments(part: &Expr) -> Option<Vec<Segment>> {
    match part {
        Expr::Ident(name) if name == "payload" => Some(Vec::new()),
        Expr::Select(select) if !select.test => {
            let mut segments = segments(&select.operand.expr)?;
            segments.push(Segment::Field(Name::new(&select.field)));
            Some(segments)
        }
        Expr::Call(call) if call.func_name == operators::INDEX => {
            let [of, index] = call.args.as_slice() else {
                return None;
            };
            let mut segments = segments(&of.expr)?;
            segments.push(match literal(&index.expr)? {
                Literal::Text(name) => Segment::Field(Name::new(&name)),
                Literal::Number(Number::Int(index)) => Segment::Item(usize::try_from(index).ok()?),
                _ => return None,
            });
            Some(segments)
        }
        _ => None,
    }
}

fn literal(part: &Expr) -> Option<Literal> {
    match part {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::Boolean(value) => Literal::Bool(**value),
            LiteralValue::Int(value) => Literal::Number(Number::Int(**value)),
            LiteralValue::UInt(value) => Literal::Number(Number::from(**value)),
            LiteralValue::Double(value) => Literal::Number(Number::Double(**value)),
            LiteralValue::String(value) => Literal::Text(value.inner().to_owned()),
            LiteralValue::Null => Literal::Null,
            LiteralValue::Bytes(_) => return None,
        }),
        Expr::Call(call) if call.func_name == operators::NEGATE => match call.args.as_slice() {
            [part] => match literal(&part.expr)? {
                Literal::Number(value) => Some(Literal::Number(value.negated()?)),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

impl Test {
    /// How many tests it is made of.
    fn len(&self) -> usize {
        match self {
            Self::And(sides) | Self::Or(sides) => sides.0.len() + sides.1.len(),
            Self::Not(part) => part.len(),
            _ => 1,
        }
    }

    /// Steps of what goes through a whole text, for each 16 bytes of it.
    fn searches(&self) -> u64 {
        match self {
            Self::And(sides) | Self::Or(sides) => sides.0.searches() + sides.1.searches(),
            Self::Not(part) => part.searches(),
            Self::Compare(Operand::Payload(_), _, Literal::Number(_))
            | Self::OneOf(Operand::Payload(_), _) => NUMBER_STEPS,
            Self::Affix(Operand::Payload(_), ..) => ESCAPED_STEPS,
            Self::Affix(_, Affix::Part, _) => SEARCH_STEPS,
            _ => 0,
        }
    }
}

/// One evaluation.
struct Run<'a> {
    message: &'a Message<'a>,
    json: &'a Json<'a>,
    slots: &'a [Slot],
}

impl<'a> Run<'a> {
    fn test(&self, test: &'a Test) -> Outcome {
        match test {
            Test::Always(holds) => Outcome::of(*holds),
            Test::And(sides) => self.test(&sides.0).join(Outcome::False, || self.test(&sides.1)),
            Test::Or(sides) => self.test(&sides.0).join(Outcome::True, || self.test(&sides.1)),
            Test::Not(part) => self.test(part).not(),
            Test::Holds(operand) => match self.scalar(operand) {
                Ok(Scalar::Bool(holds)) => Outcome::of(holds),
                Ok(_) => Outcome::NotBool,
                Err(fault) => Outcome::Fault(fault),
            },
            Test::Present { of, slot } => self.present(*of, *slot),
            Test::Property(name) => Outcome::of(self.message.property(name).is_some()),
            Test::Compare(operand, comparison, literal) => {
                self.told(operand, |value| value.compare(*comparison, literal))
            }
            Test::OneOf(operand, literals) => {
                self.told(operand, |value| Ok(literals.iter().any(|literal| value.equals(literal))))
            }
            Test::Affix(operand, affix, text) => {
                self.told(operand, |value| value.affix(*affix, text))
            }
        }
    }

    fn told(
        &self,
        operand: &Operand,
        ask: impl FnOnce(Scalar<'a>) -> Result<bool, Fault>,
    ) -> Outcome {
        match self.scalar(operand).and_then(ask) {
            Ok(holds) => Outcome::of(holds),
            Err(fault) => Outcome::Fault(fault),
        }
    }

    fn present(&self, of: usize, slot: usize) -> Outcome {
        let of = match self.entry(of) {
            Ok(entry) => entry,
            Err(fault) => return Outcome::Fault(fault),
        };
        match of.kind {
            Kind::Object => Outcome::of(self.entry(slot).is_ok()),
            _ => Outcome::Fault(Fault::WrongType),
        }
    }

    fn entry(&self, slot: usize) -> Result<Entry, Fault> {
        let at = Paths::place(self.slots, slot)?;
        self.json.entry(at).ok_or(Fault::NoField)
    }

    fn scalar(&self, operand: &Operand) -> Result<Scalar<'a>, Fault> {
        Ok(match operand {
            Operand::Payload(slot) => Scalar::of(self.json, self.entry(*slot)?),
            Operand::Topic => Scalar::Text(self.message.topic),
            Operand::Property(name) => {
                Scalar::Text(self.message.property(name).ok_or(Fault::NoField)?)
            }
            Operand::Qos => Scalar::Number(Number::Int(self.message.qos.into())),
            Operand::Retain => Scalar::Bool(self.message.retain),
        })
    }
}

impl<'a> Scalar<'a> {
    fn of(json: &Json<'a>, entry: Entry) -> Self {
        match entry.kind {
            Kind::Object | Kind::Array => Self::Container,
            Kind::Text => Self::Text(json.raw(entry)),
            Kind::Escaped => Self::Escaped(json.raw(entry)),
            Kind::True => Self::Bool(true),
            Kind::False => Self::Bool(false),
            Kind::Null => Self::Null,
            Kind::Whole | Kind::Fraction => Self::Number(json.number(entry)),
        }
    }

    fn compare(self, comparison: Comparison, literal: &Literal) -> Result<bool, Fault> {
        match comparison {
            Comparison::Equal => return Ok(self.equals(literal)),
            Comparison::NotEqual => return Ok(!self.equals(literal)),
            _ => {}
        }
        let order = self.order(literal).ok_or(Fault::WrongType)?;
        Ok(match comparison {
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            _ => order != Ordering::Less,
        })
    }

    fn equals(self, literal: &Literal) -> bool {
        match (self, literal) {
            (Self::Null, Literal::Null) => true,
            (Self::Null, _) | (_, Literal::Null) => false,
            _ => self.order(literal) == Some(Ordering::Equal),
        }
    }

    /// None where there is no order between them.
    fn order(self, literal: &Literal) -> Option<Ordering> {
        match (self, literal) {
            (Self::Bool(value), Literal::Bool(other)) => Some(value.cmp(other)),
            (Self::Number(value), Literal::Number(other)) => value.order(*other),
            (Self::Text(value), Literal::Text(other)) => Some(value.cmp(other)),
            (Self::Escaped(value), Literal::Text(other)) => {
                Some(text::characters(value).cmp(other.chars()))
            }
            _ => None,
        }
    }

    fn affix(self, affix: Affix, wanted: &str) -> Result<bool, Fault> {
        match self {
            Self::Text(text) => Ok(match affix {
                Affix::Start => text.starts_with(wanted),
                Affix::End => text.ends_with(wanted),
                Affix::Part => text.contains(wanted),
            }),
            Self::Escaped(raw) => {
                // Rare: such text is decoded, which is the one allocation of a plan.
                let text: String = text::characters(raw).collect();
                Scalar::Text(&text).affix(affix, wanted)
            }
            _ => Err(Fault::WrongType),
        }
    }
}
