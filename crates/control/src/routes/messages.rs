//! `/api/v1/publish`: messages of whoever runs the broker; and how messages are shown.

use super::operation::Accepted;
use super::{Problem, wrong_answer};
use crate::asks::Asks;
use crate::port::{Answer, Full, Message, Request};
use crate::read::json_bytes;
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes that a text may be longer than as base64, so that a short one is readable.
const PLAIN_BYTES: usize = 1_024;

/// Messages that one request may publish.
const BULK_MAX: usize = 1_000;

/// How a payload is written as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    /// As text, which has to be UTF-8.
    #[default]
    Plain,
    Base64,
}

/// A message that is to be published.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    #[schemars(length(min = 1))]
    topic: String,
    #[serde(default)]
    payload: String,
    #[serde(default)]
    payload_encoding: Encoding,
    #[serde(default)]
    #[schemars(range(max = 2))]
    qos: u8,
    #[serde(default)]
    retain: bool,
}

impl Wanted {
    fn message(self) -> Result<Message, Problem> {
        let Self { topic, payload, payload_encoding, qos, retain } = self;
        if qos > 2 {
            return Err(Problem::bad_request("qos must be 0, 1 or 2"));
        }
        let payload = match payload_encoding {
            Encoding::Plain => payload.into_bytes(),
            Encoding::Base64 => STANDARD
                .decode(payload)
                .map_err(|error| Problem::bad_request(format!("payload: {error}")))?,
        };
        Ok(Message { topic, payload, qos, retain })
    }
}

/// Publishes one message. It is on its way when the answer comes, and maybe not yet on a disk.
pub(super) async fn publish(
    State(asks): State<Arc<Asks>>,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<Accepted, Problem> {
    let Json(wanted) = wanted?;
    send(&asks, wanted.message()?).await?;
    Ok(Accepted)
}

/// Publishes several, in order, up to the first that cannot be.
pub(super) async fn publish_bulk(
    State(asks): State<Arc<Asks>>,
    wanted: Result<Json<Vec<Wanted>>, JsonRejection>,
) -> Result<Accepted, Problem> {
    let Json(wanted) = wanted?;
    if wanted.len() > BULK_MAX {
        return Err(Problem::bad_request(format!("at most {BULK_MAX} messages at a time")));
    }
    let messages = wanted.into_iter().map(Wanted::message).collect::<Result<Vec<_>, _>>()?;
    // One after the other: side by side, each would take as long as all, and none be done in time.
    let _turn = asks.bulk.acquire().await.map_err(|_| Full)?;
    for (at, message) in messages.into_iter().enumerate() {
        send(&asks, message).await.map_err(|problem| problem.at(at))?;
    }
    Ok(Accepted)
}

async fn send(asks: &Asks, message: Message) -> Result<(), Problem> {
    let owner = asks.owner(&message.topic);
    let Answer::Published(published) = asks.ask(owner, Request::Publish(message)).await? else {
        return Err(wrong_answer());
    };
    published.map_err(Problem::from)
}

/// A message for a reader.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Shown {
    topic: String,
    qos: u8,
    payload_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_encoding: Option<Encoding>,
}

impl Shown {
    /// With its payload, if it is wanted: as base64 also where that is shorter than what JSON makes
    /// of the text.
    pub(super) fn new(message: &Message, with_payload: bool) -> Self {
        let encoded = with_payload.then(|| match std::str::from_utf8(&message.payload) {
            Ok(text) if json_bytes(text) <= text.len().div_ceil(3) * 4 + PLAIN_BYTES => {
                (text.to_owned(), Encoding::Plain)
            }
            _ => (STANDARD.encode(&message.payload), Encoding::Base64),
        });
        let (payload, payload_encoding) = encoded.unzip();
        let payload_bytes = message.payload.len();
        Self {
            topic: message.topic.clone(),
            qos: message.qos,
            payload_bytes,
            payload,
            payload_encoding,
        }
    }

    /// The bytes of its texts in JSON.
    pub(super) fn bytes(&self) -> usize {
        json_bytes(&self.topic) + self.payload.as_deref().map_or(0, json_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_never_much_longer_than_its_base64() {
        let encoding = |payload: &[u8]| {
            let topic = String::new();
            let message = Message { topic, payload: payload.into(), qos: 0, retain: true };
            let shown = Shown::new(&message, true);
            assert!(shown.bytes() <= payload.len().div_ceil(3) * 4 + PLAIN_BYTES);
            shown.payload_encoding
        };
        assert_eq!(encoding(&[b'x'; 100_000]), Some(Encoding::Plain));
        assert_eq!(encoding(b"\x1b[31m\"quoted\"\n"), Some(Encoding::Plain));
        assert_eq!(encoding(&[1; 100_000]), Some(Encoding::Base64));
        assert_eq!(encoding(&[0xff; 10]), Some(Encoding::Base64));
    }
}
