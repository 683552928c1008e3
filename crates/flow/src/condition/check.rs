//! Names and types of an expression, checked before it ever runs.
//!
//! Of the payload only that it is JSON is known, so most types show at run time alone. What can be
//! told is told here, with its place: unknown names, wrong counts of arguments, text against number.

use super::{ConditionError, source};
use cel::IdedExpr;
use cel::common::ast::{CallExpr, EntryExpr, Expr, operators};
use std::collections::BTreeMap;

/// The names an expression may use.
const VARIABLES: [(&str, Type); 5] = [
    ("topic", Type::Text),
    ("payload", Type::Any),
    ("properties", Type::Map),
    ("qos", Type::Number),
    ("retain", Type::Bool),
];

/// What a value is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Any,
    Bool,
    Number,
    Text,
    Bytes,
    List,
    Map,
    Null,
}

impl Type {
    /// Whether a value of this type may be of the other.
    pub(super) fn fits(self, other: Self) -> bool {
        self == other || self == Self::Any || other == Self::Any
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Null => "null",
        }
    }
}

/// What was found of an expression.
pub(super) struct Checked {
    pub(super) of: Type,
    pub(super) reads_payload: bool,
}

/// Checks a whole expression.
pub(super) fn check(text: &str, root: &IdedExpr) -> Result<Checked, ConditionError> {
    let mut checker = Checker { text, seen: BTreeMap::new(), at: 0, locals: Vec::new() };
    let of = checker.visit(&root.expr)?;
    Ok(Checked { of, reads_payload: checker.seen.contains_key("payload") })
}

struct Checker<'a> {
    text: &'a str,
    /// How often each name was passed, so that the place of the next one can be told.
    seen: BTreeMap<&'a str, usize>,
    /// The place of the last name passed.
    at: usize,
    /// The variables of the comprehensions around.
    locals: Vec<&'a str>,
}

impl<'a> Checker<'a> {
    fn visit(&mut self, part: &'a Expr) -> Result<Type, ConditionError> {
        match part {
            Expr::Unspecified => Err(self.fault("something is missing")),
            Expr::Literal(literal) => Ok(super::plan::literal_type(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let of = self.visit(&select.operand.expr)?;
                if !of.fits(Type::Map) {
                    let message = format!("{} has no field .{}", of.name(), select.field);
                    return Err(self.fault(message));
                }
                Ok(if select.test { Type::Bool } else { Type::Any })
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                for element in &list.elements {
                    self.visit(&element.expr)?;
                }
                Ok(Type::List)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(self.fault("a map has keys and values"));
                    };
                    let key = self.visit(&entry.key.expr)?;
                    if !key.fits(Type::Text) {
                        return Err(self.fault(format!("a key is text, this is {}", key.name())));
                    }
                    self.visit(&entry.value.expr)?;
                }
                Ok(Type::Map)
            }
            Expr::Struct(of) => {
                let at = source::place(self.text, &of.type_name, 0).unwrap_or(self.at);
                Err(ConditionError::new(at, "there are no messages of a type"))
            }
            Expr::Comprehension(comprehension) => {
                let range = self.visit(&comprehension.iter_range.expr)?;
                if !(range.fits(Type::List) || range.fits(Type::Map)) {
                    let message = format!("{} has no elements to go through", range.name());
                    return Err(self.fault(message));
                }
                let before = self.locals.len();
                self.locals
                    .extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
                self.locals.extend(comprehension.iter_var2.as_deref());
                let gathers = self.visit(&comprehension.accu_init.expr)?;
                self.visit(&comprehension.loop_cond.expr)?;
                self.visit(&comprehension.loop_step.expr)?;
                let of = self.visit(&comprehension.result.expr)?;
                self.locals.truncate(before);
                Ok(if of == Type::Any { gathers } else { of })
            }
        }
    }

    /// Passes a name; returns its type.
    fn variable(&mut self, name: &'a str) -> Result<Type, ConditionError> {
        self.pass(name);
        if self.locals.contains(&name) {
            return Ok(Type::Any);
        }
        match VARIABLES.iter().find(|(known, _)| *known == name) {
            Some((_, of)) => Ok(*of),
            None => {
                let known = "topic, payload, properties, qos, retain";
                Err(self.fault(format!("there is no {name}; there are {known}")))
            }
        }
    }

    fn pass(&mut self, name: &'a str) {
        let nth = self.seen.entry(name).or_insert(0);
        if let Some(at) = source::place(self.text, name, *nth) {
            self.at = at;
        }
        *nth += 1;
    }

    fn call(&mut self, call: &'a CallExpr) -> Result<Type, ConditionError> {
        let parts: Vec<&'a IdedExpr> =
            call.target.as_deref().into_iter().chain(&call.args).collect();
        match (call.func_name.as_str(), parts.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                self.expect(left, Type::Bool)?;
                self.expect(right, Type::Bool)?;
                Ok(Type::Bool)
            }
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [part]) => {
                self.expect(part, Type::Bool)?;
                Ok(Type::Bool)
            }
            (operators::NEGATE, [part]) => {
                self.expect(part, Type::Number)?;
                Ok(Type::Number)
            }
            (operators::CONDITIONAL, [test, left, right]) => {
                self.expect(test, Type::Bool)?;
                let (left, right) = (self.visit(&left.expr)?, self.visit(&right.expr)?);
                Ok(if left == right { left } else { Type::Any })
            }
            (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
                self.same(left, right)?;
                Ok(Type::Bool)
            }
            (
                operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                [left, right],
            ) => self.ordered(left, right),
            (
                operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
                [left, right],
            ) => {
                self.expect(left, Type::Number)?;
                self.expect(right, Type::Number)?;
                Ok(Type::Number)
            }
            (operators::ADD, [left, right]) => self.added(left, right),
            (operators::IN, [left, right]) => {
                self.visit(&left.expr)?;
                let of = self.visit(&right.expr)?;
                if !(of.fits(Type::List) || of.fits(Type::Map)) {
                    return Err(self.fault(format!("nothing is in {}", of.name())));
                }
                Ok(Type::Bool)
            }
            (operators::INDEX, [left, right]) => self.indexed(left, right),
            (name, _) => self.function(name, call),
        }
    }

    fn expect(&mut self, part: &'a IdedExpr, wanted: Type) -> Result<Type, ConditionError> {
        let of = self.visit(&part.expr)?;
        match of.fits(wanted) {
            true => Ok(of),
            false => {
                Err(self.fault(format!("this is {}, it must be {}", of.name(), wanted.name())))
            }
        }
    }

    fn same(&mut self, left: &'a IdedExpr, right: &'a IdedExpr) -> Result<Type, ConditionError> {
        let (left, right) = (self.visit(&left.expr)?, self.visit(&right.expr)?);
        match left.fits(right) || left == Type::Null || right == Type::Null {
            true => Ok(if left == Type::Any { right } else { left }),
            false => Err(self.fault(format!("{} against {}", left.name(), right.name()))),
        }
    }

    fn ordered(&mut self, left: &'a IdedExpr, right: &'a IdedExpr) -> Result<Type, ConditionError> {
        match self.same(left, right)? {
            of @ (Type::List | Type::Map | Type::Null) => {
                Err(self.fault(format!("{} is neither less nor greater", of.name())))
            }
            _ => Ok(Type::Bool),
        }
    }

    fn added(&mut self, left: &'a IdedExpr, right: &'a IdedExpr) -> Result<Type, ConditionError> {
        match self.same(left, right)? {
            of @ (Type::Bool | Type::Map | Type::Null) => {
                Err(self.fault(format!("{} cannot be added", of.name())))
            }
            of => Ok(of),
        }
    }

    fn indexed(&mut self, left: &'a IdedExpr, right: &'a IdedExpr) -> Result<Type, ConditionError> {
        let of = self.visit(&left.expr)?;
        let wanted = match of {
            Type::List => Type::Number,
            Type::Map => Type::Text,
            Type::Any => Type::Any,
            _ => return Err(self.fault(format!("{} has no elements", of.name()))),
        };
        self.expect(right, wanted)?;
        Ok(Type::Any)
    }

    fn function(&mut self, name: &'a str, call: &'a CallExpr) -> Result<Type, ConditionError> {
        let nth = self.seen.entry(name).or_insert(0);
        let at = source::call(self.text, name, *nth).unwrap_or(self.at);
        *nth += 1;
        let fault = |message: String| ConditionError::new(at, message);
        let target = call.target.as_deref();
        let form = match (name, target, call.args.as_slice()) {
            ("size", Some(of), []) | ("size", None, [of]) => {
                let of = self.visit(&of.expr)?;
                let sized = [Type::Text, Type::List, Type::Map, Type::Bytes];
                return match sized.into_iter().any(|sized| of.fits(sized)) {
                    true => Ok(Type::Number),
                    false => Err(fault(format!("{} has no size", of.name()))),
                };
            }
            ("startsWith" | "endsWith" | "contains", Some(of), [part]) => {
                self.expect(of, Type::Text)?;
                self.expect(part, Type::Text)?;
                return Ok(Type::Bool);
            }
            ("int" | "uint" | "double", None, [of]) => {
                self.visit(&of.expr)?;
                return Ok(Type::Number);
            }
            ("string", None, [of]) => {
                self.visit(&of.expr)?;
                return Ok(Type::Text);
            }
            ("size", ..) => "one value: size(x) or x.size()",
            ("startsWith" | "endsWith" | "contains", ..) => "one text: x.NAME(\"text\")",
            ("int" | "uint" | "double" | "string", ..) => "one value: NAME(x)",
            ("has" | "all" | "exists" | "exists_one" | "map" | "filter", ..) => {
                return Err(fault(format!("{name} does not take these arguments")));
            }
            _ => return Err(fault(format!("there is no function {name}"))),
        };
        Err(fault(format!("{name} takes {}", form.replace("NAME", name))))
    }

    fn fault(&self, message: impl Into<String>) -> ConditionError {
        ConditionError::new(self.at, message)
    }
}
