//! One operation of the API: its route, and what of it a description needs, which the types of its
//! handler say.

use super::Problem;
use crate::asks::Asks;
use crate::tokens::Token;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection, StringRejection};
use axum::extract::{Path, Query, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, NoContent, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Extension, Json};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is done for one method of one path.
pub(super) struct Operation {
    /// As axum writes it.
    pub(super) path: &'static str,
    /// In small letters.
    pub(super) method: &'static str,
    /// What it does, in a sentence.
    pub(super) summary: &'static str,
    /// Answers that its types do not show: statuses, and what they mean here.
    pub(super) faults: &'static [(u16, &'static str)],
    pub(super) takes_body: bool,
    pub(super) describe: fn(&mut Description),
    pub(super) handler: MethodRouter<Arc<Asks>>,
}

impl Operation {
    pub(super) fn get<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Asks>> + Described<T>,
        T: 'static,
    {
        Self::new::<H, T>("get", path, summary, get(handler))
    }

    pub(super) fn post<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Asks>> + Described<T>,
        T: 'static,
    {
        Self::new::<H, T>("post", path, summary, post(handler))
    }

    pub(super) fn put<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Asks>> + Described<T>,
        T: 'static,
    {
        Self::new::<H, T>("put", path, summary, put(handler))
    }

    pub(super) fn delete<H, T>(path: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Asks>> + Described<T>,
        T: 'static,
    {
        Self::new::<H, T>("delete", path, summary, delete(handler))
    }

    /// With answers beside those that every request may get.
    pub(super) fn fails(mut self, faults: &'static [(u16, &'static str)]) -> Self {
        self.faults = faults;
        self
    }

    fn new<H: Described<T>, T>(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        handler: MethodRouter<Arc<Asks>>,
    ) -> Self {
        let (takes_body, describe) = (H::TAKES_BODY, H::describe);
        Self { path, method, summary, faults: &[], takes_body, describe, handler }
    }
}

/// What the types of a handler say.
pub(super) struct Description {
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<Value>,
    /// By status.
    pub(super) answers: BTreeMap<u16, Value>,
    /// Schemas of what comes in, and of what goes out.
    inward: SchemaGenerator,
    outward: SchemaGenerator,
}

impl Description {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
            inward: settings()
                .with_transform(RecursiveTransform(bound))
                .for_deserialize()
                .into_generator(),
            outward: settings().for_serialize().into_generator(),
        }
    }

    pub(super) fn schema_of_answer<T: JsonSchema>(&mut self) -> Value {
        self.outward.subschema_for::<T>().into()
    }

    /// The schemas that others name.
    pub(super) fn schemas(&mut self) -> Map<String, Value> {
        let mut schemas = self.outward.take_definitions(true);
        schemas.extend(self.inward.take_definitions(true));
        schemas
    }

    fn answers(&mut self, status: StatusCode, what: &str, content: Option<(&str, Value)>) {
        let mut answer = json!({ "description": what });
        if let Some((kind, schema)) = content {
            answer["content"] = json!({ kind: { "schema": schema } });
        }
        self.answers.insert(status.as_u16(), answer);
    }

    fn takes_path(&mut self, schema: &Value) {
        // The path has the name.
        self.parameters.push(json!({ "in": "path", "required": true, "schema": schema }));
        self.may_be_malformed();
    }

    fn may_be_malformed(&mut self) {
        self.fails(StatusCode::BAD_REQUEST, "The request cannot be; the text says why.");
    }

    pub(super) fn fails(&mut self, status: StatusCode, what: &str) {
        let schema = self.schema_of_answer::<Problem>();
        self.answers(status, what, Some(("application/json", schema)));
    }
}

/// A handler whose types say what it takes and answers.
pub(super) trait Described<T> {
    const TAKES_BODY: bool;

    fn describe(into: &mut Description);
}

/// Something that a handler takes.
pub(super) trait Input {
    const IS_BODY: bool = false;

    fn describe(_into: &mut Description) {}
}

/// Something that a handler answers.
pub(super) trait Output {
    fn describe(into: &mut Description);
}

macro_rules! described {
    ($($input:ident)*) => {
        // `M` is how axum tells apart what a last argument may be.
        impl<F, A, O, M, $($input),*> Described<(M, $($input,)*)> for F
        where
            F: FnOnce($($input),*) -> A,
            A: Future<Output = O>,
            O: Output,
            $($input: Input),*
        {
            const TAKES_BODY: bool = $($input::IS_BODY)||*;

            fn describe(into: &mut Description) {
                $($input::describe(into);)*
                O::describe(into);
            }
        }
    };
}
described!(I1);
described!(I1 I2);
described!(I1 I2 I3);
described!(I1 I2 I3 I4);

impl<F, A, O> Described<((),)> for F
where
    F: FnOnce() -> A,
    A: Future<Output = O>,
    O: Output,
{
    const TAKES_BODY: bool = false;

    fn describe(into: &mut Description) {
        O::describe(into);
    }
}

impl Input for State<Arc<Asks>> {}
impl Input for HeaderMap {}
impl Input for Option<Extension<Token>> {}

impl<Q: JsonSchema> Input for Result<Query<Q>, QueryRejection> {
    fn describe(into: &mut Description) {
        let mut schema = Q::json_schema(&mut into.inward);
        RecursiveTransform(bound).transform(&mut schema);
        let schema = Value::from(schema);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let (mut schema, mut parameter) =
                (schema.clone(), json!({ "name": name, "in": "query" }));
            let about = schema.as_object_mut().and_then(|it| it.remove("description"));
            parameter["description"] = about.unwrap_or_default();
            parameter["required"] = required.contains(&name.as_str().into()).into();
            parameter["schema"] = without_null(schema);
            into.parameters.push(parameter);
        }
        into.may_be_malformed();
    }
}

impl<P: JsonSchema> Input for Result<Path<P>, PathRejection> {
    fn describe(into: &mut Description) {
        // It is another path with nothing at its place.
        let mut schema = P::json_schema(&mut into.inward);
        RecursiveTransform(bound).transform(&mut schema);
        let mut schema = Value::from(schema);
        if schema["type"] == "string" {
            schema["minLength"] = 1.into();
        }
        into.takes_path(&schema);
    }
}

impl<B: JsonSchema> Input for Result<Json<B>, JsonRejection> {
    const IS_BODY: bool = true;

    fn describe(into: &mut Description) {
        let schema = into.inward.subschema_for::<B>();
        let content = json!({ "application/json": { "schema": schema } });
        into.body = Some(json!({ "required": true, "content": content }));
        into.may_be_malformed();
        into.fails(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type is not application/json.");
        into.fails(StatusCode::UNPROCESSABLE_ENTITY, "JSON, but not what is wanted here.");
    }
}

impl Input for Result<String, StringRejection> {
    const IS_BODY: bool = true;

    fn describe(into: &mut Description) {
        let content = json!({ "text/plain": { "schema": { "type": "string" } } });
        into.body = Some(json!({ "required": true, "content": content }));
        into.may_be_malformed();
    }
}

impl<T: JsonSchema> Output for Json<T> {
    fn describe(into: &mut Description) {
        let schema = into.schema_of_answer::<T>();
        into.answers(StatusCode::OK, "Done.", Some(("application/json", schema)));
    }
}

impl Output for &'static str {
    fn describe(into: &mut Description) {
        String::describe(into);
    }
}

impl Output for String {
    fn describe(into: &mut Description) {
        let schema = json!({ "type": "string" });
        into.answers(StatusCode::OK, "Done.", Some(("text/plain", schema)));
    }
}

impl Output for NoContent {
    fn describe(into: &mut Description) {
        into.answers(StatusCode::NO_CONTENT, "Done.", None);
    }
}

impl<T: Output> Output for Result<T, Problem> {
    fn describe(into: &mut Description) {
        T::describe(into);
    }
}

/// Some answers have another status where something failed: which ones, their route says.
impl<T: Output> Output for (StatusCode, T) {
    fn describe(into: &mut Description) {
        T::describe(into);
    }
}

/// It will be done, and nobody has waited for it.
pub(super) struct Accepted;

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        StatusCode::ACCEPTED.into_response()
    }
}

impl Output for Accepted {
    fn describe(into: &mut Description) {
        into.answers(StatusCode::ACCEPTED, "On its way.", None);
    }
}

/// A text of a kind that its maker knows.
pub(super) struct Text {
    pub(super) kind: &'static str,
    pub(super) text: String,
}

impl IntoResponse for Text {
    fn into_response(self) -> Response {
        ([(axum::http::header::CONTENT_TYPE, self.kind)], self.text).into_response()
    }
}

impl Output for Text {
    fn describe(into: &mut Description) {
        let text = json!({ "schema": { "type": "string" } });
        let content = json!({
            "text/plain": text,
            "application/openmetrics-text": text,
            "application/toml": text,
            "application/x-ndjson": text,
        });
        into.answers.insert(200, json!({ "description": "Done.", "content": content }));
    }
}

/// Says the bounds that a format implies, which few programs know.
fn bound(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str);
    let max: u64 = match format {
        Some("uint8") => u8::MAX.into(),
        Some("uint16") => u16::MAX.into(),
        Some("uint32") => u32::MAX.into(),
        Some("uint" | "uint64") => u64::MAX,
        _ => return,
    };
    schema.ensure_object().entry("maximum").or_insert_with(|| max.into());
}

/// A query has a value or has none.
fn without_null(mut schema: Value) -> Value {
    if let Some(kinds) = schema.get_mut("type").and_then(Value::as_array_mut) {
        kinds.retain(|kind| kind != "null");
        if let [kind] = &kinds[..] {
            schema["type"] = kind.clone();
        }
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
        if let [choice] = &choices[..] {
            return choice.clone();
        }
    }
    schema
}
