//! Names and types of an expression, checked before it ever runs.
//!
//! Of the payload only that it is JSON is known, so most types show at run time alone. What can be
//! told is told here, with its place: unknown names, wrong counts of arguments, text against a
//! number.

use super::{ConditionError, source};
use cel::IdedExpr;
use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, SourceInfo, operators};

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
pub(super) fn check(
    text: &str,
    root: &IdedExpr,
    places: &SourceInfo,
) -> Result<Checked, ConditionError> {
    let mut checker = Checker { text, places, reads_payload: false, locals: Vec::new() };
    let of = checker.visit(root)?;
    Ok(Checked { of, reads_payload: checker.reads_payload })
}

struct Checker<'a> {
    text: &'a str,
    /// Where the parts stand in the text.
    places: &'a SourceInfo,
    reads_payload: bool,
    /// The variables of the comprehensions around.
    locals: Vec<&'a str>,
}

impl<'a> Checker<'a> {
    fn visit(&mut self, part: &'a IdedExpr) -> Result<Type, ConditionError> {
        match &part.expr {
            Expr::Unspecified => Err(self.fault(part, "something is missing")),
            Expr::Literal(literal) => Ok(literal_type(literal)),
            Expr::Ident(name) => self.variable(part, name),
            Expr::Select(select) => {
                let of = self.visit(&select.operand)?;
                if !of.fits(Type::Map) {
                    let message = format!("{} has no field .{}", of.name(), select.field);
                    return Err(self.fault(&select.operand, message));
                }
                Ok(if select.test { Type::Bool } else { Type::Any })
            }
            Expr::Call(call) => self.call(part, call),
            Expr::List(list) => {
                for element in &list.elements {
                    self.visit(element)?;
                }
                Ok(Type::List)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(self.fault(part, "a map has keys and values"));
                    };
                    self.expect(&entry.key, Type::Text)?;
                    self.visit(&entry.value)?;
                }
                Ok(Type::Map)
            }
            Expr::Struct(of) => {
                let at = source::last(self.text, &of.type_name, self.at(part));
                Err(ConditionError::new(at, "there are no messages of a type"))
            }
            Expr::Comprehension(comprehension) => {
                let range = self.visit(&comprehension.iter_range)?;
                if !(range.fits(Type::List) || range.fits(Type::Map)) {
                    let message = format!("{} has no elements to go through", range.name());
                    return Err(self.fault(&comprehension.iter_range, message));
                }
                let before = self.locals.len();
                self.locals
                    .extend([comprehension.iter_var.as_str(), comprehension.accu_var.as_str()]);
                self.locals.extend(comprehension.iter_var2.as_deref());
                let gathers = self.visit(&comprehension.accu_init)?;
                self.visit(&comprehension.loop_cond)?;
                self.visit(&comprehension.loop_step)?;
                let of = self.visit(&comprehension.result)?;
                self.locals.truncate(before);
                Ok(if of == Type::Any { gathers } else { of })
            }
        }
    }

    fn variable(&mut self, part: &IdedExpr, name: &'a str) -> Result<Type, ConditionError> {
        if self.locals.contains(&name) {
            return Ok(Type::Any);
        }
        self.reads_payload |= name == "payload";
        match VARIABLES.iter().find(|(known, _)| *known == name) {
            Some((_, of)) => Ok(*of),
            None => {
                let known = "topic, payload, properties, qos, retain";
                Err(self.fault(part, format!("there is no {name}; there are {known}")))
            }
        }
    }

    fn call(&mut self, part: &'a IdedExpr, call: &'a CallExpr) -> Result<Type, ConditionError> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                self.expect(left, Type::Bool)?;
                self.expect(right, Type::Bool)
            }
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [of]) => {
                self.expect(of, Type::Bool)
            }
            (operators::NEGATE, [of]) => self.expect(of, Type::Number),
            (operators::CONDITIONAL, [test, left, right]) => {
                self.expect(test, Type::Bool)?;
                let (left, right) = (self.visit(left)?, self.visit(right)?);
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
            ) => match self.same(left, right)? {
                of @ (Type::List | Type::Map | Type::Null) => {
                    let message = format!("{} is neither less nor greater", of.name());
                    Err(self.fault(left, message))
                }
                _ => Ok(Type::Bool),
            },
            (
                operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
                [left, right],
            ) => {
                self.expect(left, Type::Number)?;
                self.expect(right, Type::Number)
            }
            (operators::ADD, [left, right]) => match self.same(left, right)? {
                of @ (Type::Bool | Type::Map | Type::Null) => {
                    Err(self.fault(left, format!("{} cannot be added", of.name())))
                }
                of => Ok(of),
            },
            (operators::IN, [left, right]) => {
                self.visit(left)?;
                let of = self.visit(right)?;
                match of.fits(Type::List) || of.fits(Type::Map) {
                    true => Ok(Type::Bool),
                    false => Err(self.fault(right, format!("nothing is in {}", of.name()))),
                }
            }
            (operators::INDEX, [left, right]) => self.indexed(left, right),
            (name, _) => self.function(part, name, call),
        }
    }

    /// Of a part that must be of a type: that type, where it is not known to be another.
    fn expect(&mut self, part: &'a IdedExpr, wanted: Type) -> Result<Type, ConditionError> {
        let of = self.visit(part)?;
        if of.fits(wanted) {
            return Ok(wanted);
        }
        let message = format!("this is {}, it must be {}", of.name(), wanted.name());
        Err(self.fault(part, message))
    }

    /// Of two sides that must be of one type: that type, as far as it is known.
    fn same(&mut self, left: &'a IdedExpr, right: &'a IdedExpr) -> Result<Type, ConditionError> {
        let (of, other) = (self.visit(left)?, self.visit(right)?);
        if of.fits(other) || of == Type::Null || other == Type::Null {
            return Ok(if of == Type::Any { other } else { of });
        }
        Err(self.fault(left, format!("{} against {}", of.name(), other.name())))
    }

    fn indexed(&mut self, left: &'a IdedExpr, right: &'a IdedExpr) -> Result<Type, ConditionError> {
        let of = self.visit(left)?;
        let wanted = match of {
            Type::List => Type::Number,
            Type::Map => Type::Text,
            Type::Any => Type::Any,
            _ => return Err(self.fault(left, format!("{} has no elements", of.name()))),
        };
        self.expect(right, wanted)?;
        Ok(Type::Any)
    }

    fn function(
        &mut self,
        part: &IdedExpr,
        name: &'a str,
        call: &'a CallExpr,
    ) -> Result<Type, ConditionError> {
        let at = source::last(self.text, name, self.at(part));
        let form = match (name, call.target.as_deref(), call.args.as_slice()) {
            ("size", Some(of), []) | ("size", None, [of]) => {
                let sized = [Type::Text, Type::List, Type::Map, Type::Bytes];
                let found = self.visit(of)?;
                return match sized.into_iter().any(|sized| found.fits(sized)) {
                    true => Ok(Type::Number),
                    false => Err(self.fault(of, format!("{} has no size", found.name()))),
                };
            }
            ("startsWith" | "endsWith" | "contains", Some(of), [affix]) => {
                self.expect(of, Type::Text)?;
                self.expect(affix, Type::Text)?;
                return Ok(Type::Bool);
            }
            ("int" | "uint" | "double", None, [of]) => {
                self.visit(of)?;
                return Ok(Type::Number);
            }
            ("string", None, [of]) => {
                self.visit(of)?;
                return Ok(Type::Text);
            }
            ("size", ..) => "takes one value: size(x) or x.size()".to_owned(),
            ("startsWith" | "endsWith" | "contains", ..) => {
                format!("takes one text: x.{name}(\"text\")")
            }
            ("int" | "uint" | "double" | "string", ..) => format!("takes one value: {name}(x)"),
            ("has" | "all" | "exists" | "exists_one" | "map" | "filter", ..) => {
                "does not take these arguments".to_owned()
            }
            _ => return Err(ConditionError::new(at, format!("there is no function {name}"))),
        };
        Err(ConditionError::new(at, format!("{name} {form}")))
    }

    fn fault(&self, part: &IdedExpr, message: impl Into<String>) -> ConditionError {
        ConditionError::new(self.start(part), message)
    }

    /// The byte at which a part begins.
    fn start(&self, part: &IdedExpr) -> usize {
        let first = match &part.expr {
            Expr::Select(select) => self.start(&select.operand),
            Expr::Call(call) => {
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                parts.map(|part| self.start(part)).min().unwrap_or(usize::MAX)
            }
            Expr::Comprehension(comprehension) => self.start(&comprehension.iter_range),
            _ => usize::MAX,
        };
        first.min(self.at(part))
    }

    /// The byte of what the parser names a part by: an operator, a bracket, the word itself.
    fn at(&self, part: &IdedExpr) -> usize {
        let place = self.places.offset_for(part.id);
        place.map_or(0, |(start, _)| start as usize).min(self.text.len())
    }
}

/// The type of a constant.
fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Type::Number,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Null => Type::Null,
    }
}
