//! The interpreter: the `cel` crate's parser and evaluation, and the tree of values it works on.

use super::{ConditionError, Message, operators, source};
use crate::json::{Json, Kind, PAYLOAD_BYTES_MAX, text};
use crate::{Fault, json};
use cel::common::ast::SourceInfo;
use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString};
use cel::common::value::Val;
use cel::objects::Key;
use cel::{Context, Env, ExecutionError, IdedExpr, Program, Value};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What the parser says in front of an error of the grammar.
const GRAMMAR: &str = "Syntax error: ";

/// A parser's message in words for who wrote the expression, on one line.
fn told(message: &str) -> String {
    let message = message.strip_prefix(GRAMMAR).unwrap_or(message);
    // A list of all that could stand here, or the insides of an error.
    let long = message.find(" expecting {").or_else(|| message.find(": Invalid"));
    let message = long.and_then(|at| message.get(..at)).unwrap_or(message);
    message
        .replace("mismatched input", "unexpected")
        .replace("extraneous input", "unexpected")
        .replace("no viable alternative at input", "unexpected")
        .replace("token recognition error at:", "this is no word or sign:")
        .replace("'<EOF>'", "end")
        .replace("<EOF>", "the end")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// An expression as the interpreter takes it.
pub(super) struct Compiled {
    program: Program,
    /// The same where numbers mix.
    mixing: IdedExpr,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

impl Compiled {
    /// Parses what `source` let through.
    pub(super) fn parse(text: &str) -> Result<Self, ConditionError> {
        // The parser is not ours and the text can come from any client: what it does not expect
        // must end the expression and nothing else.
        let parsed = catch_unwind(AssertUnwindSafe(|| Program::compile(&source::readable(text))));
        let errors = match parsed {
            Ok(Ok(program)) => {
                let mut mixing = program.expression().clone();
                operators::replace(&mut mixing);
                return Ok(Self { program, mixing });
            }
            Ok(Err(errors)) => errors,
            Err(_) => return Err(ConditionError::new(0, "the expression cannot be read")),
        };
        // What the grammar does not take says more than what is missing after it.
        let mut grammar = errors.errors.iter().filter(|error| error.msg.starts_with(GRAMMAR));
        Err(match grammar.next().or(errors.errors.first()) {
            Some(error) => {
                let (line, column) = error.pos;
                ConditionError::new(source::byte(text, line, column), told(&error.msg))
            }
            None => ConditionError::new(0, "the expression cannot be read"),
        })
    }

    /// Where the parts stand in the text.
    pub(super) fn places(&self) -> &SourceInfo {
        self.program.source_info()
    }

    pub(super) fn root(&self) -> &IdedExpr {
        self.program.expression()
    }
}

/// The functions that expressions call: made once, as that takes as long as an expression.
pub(super) struct Functions(Arc<Env>);

impl Default for Functions {
    fn default() -> Self {
        Self(Arc::new(operators::environment()))
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

/// What expressions see of one message.
pub(super) struct Tree {
    context: Context<'static, 'static>,
    has_payload: bool,
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("has_payload", &self.has_payload).finish_non_exhaustive()
    }
}

impl Tree {
    /// Without the payload.
    pub(super) fn of(message: &Message<'_>, functions: &Functions) -> Self {
        let mut context = Context::with_env(Arc::clone(&functions.0));
        context.add_variable_as_val("topic", Box::new(CelString::from(message.topic.to_owned())));
        context.add_variable_as_val("qos", Box::new(CelInt::from(i64::from(message.qos))));
        context.add_variable_as_val("retain", Box::new(CelBool::from(message.retain)));
        let properties = message.user_properties.iter().map(|(name, value)| {
            let value: Box<dyn Val> = Box::new(CelString::from((*value).to_owned()));
            (CelMapKey::from((*name).to_owned()), value)
        });
        context.add_variable_as_val("properties", map(properties));
        Self { context, has_payload: false }
    }

    /// Adds the payload, if it is not there yet.
    pub(super) fn read(&mut self, json: &Json<'_>) {
        if !self.has_payload {
            self.context.add_variable_as_val("payload", value(json, 0));
            self.has_payload = true;
        }
    }

    /// Whether a condition is true.
    pub(super) fn test(&self, compiled: &Compiled) -> Result<bool, Fault> {
        match self.run(compiled)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err(Fault::WrongType),
        }
    }

    /// Appends the value of an expression as JSON.
    pub(super) fn write(&self, compiled: &Compiled, out: &mut Vec<u8>) -> Result<(), Fault> {
        write(&self.run(compiled)?, out)
    }

    fn run(&self, compiled: &Compiled) -> Result<Value, Fault> {
        Value::resolve(&compiled.mixing, &self.context).map_err(|error| fault(&error))
    }
}

fn fault(error: &ExecutionError) -> Fault {
    match error {
        ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_) => Fault::NoField,
        ExecutionError::DivisionByZero(_)
        | ExecutionError::RemainderByZero(_)
        | ExecutionError::Overflow(..) => Fault::OutOfRange,
        _ => Fault::WrongType,
    }
}

/// The members of a map; of those with one name the last one counts.
#[expect(clippy::disallowed_types, reason = "the interpreter's own; nothing depends on its order")]
fn map(members: impl Iterator<Item = (CelMapKey<'static>, Box<dyn Val>)>) -> Box<dyn Val> {
    Box::new(CelMap::from(members.collect::<std::collections::HashMap<_, _>>()))
}

/// The value at a place. Its depth is bounded by that of the payload.
fn value(json: &Json<'_>, at: usize) -> Box<dyn Val> {
    let Some(entry) = json.entry(at) else {
        return Box::new(CelNull);
    };
    match entry.kind {
        Kind::Object => map(json
            .members(at)
            .map(|(key, at)| (CelMapKey::from(string(json, key)), value(json, at)))),
        Kind::Array => {
            let elements: Vec<Box<dyn Val>> =
                json.elements(at).map(|element| value(json, element)).collect();
            Box::new(CelList::from(elements))
        }
        Kind::Text | Kind::Escaped => Box::new(CelString::from(string(json, entry))),
        Kind::Whole | Kind::Fraction => operators::value(json.number(entry)),
        Kind::True => Box::new(CelBool::from(true)),
        Kind::False => Box::new(CelBool::from(false)),
        Kind::Null => Box::new(CelNull),
    }
}

fn string(json: &Json<'_>, entry: json::Entry) -> String {
    match entry.kind {
        Kind::Escaped => text::characters(json.raw(entry)).collect(),
        _ => json.raw(entry).to_owned(),
    }
}

/// Appends a value as JSON, the members of a map in the order of their keys.
fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::UInt(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Float(value) if value.is_finite() => {
            out.extend_from_slice(format!("{value:?}").as_bytes());
        }
        Value::Float(_) => return Err(Fault::OutOfRange),
        Value::String(value) => text::write(value, out),
        Value::List(elements) => {
            out.push(b'[');
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(element, out)?;
            }
            out.push(b']');
        }
        Value::Map(map) => {
            let mut members: Vec<(&str, &Value)> = Vec::with_capacity(map.map.len());
            for (key, value) in map.map.iter() {
                let Key::String(key) = key else {
                    return Err(Fault::WrongType);
                };
                members.push((key, value));
            }
            members.sort_unstable_by_key(|(key, _)| *key);
            out.push(b'{');
            for (at, (key, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                text::write(key, out);
                out.push(b':');
                write(value, out)?;
            }
            out.push(b'}');
        }
        _ => return Err(Fault::WrongType),
    }
    if out.len() > PAYLOAD_BYTES_MAX { Err(Fault::ResultTooLarge) } else { Ok(()) }
}
