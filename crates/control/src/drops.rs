//! Messages that were dropped, and what was refused, as they are shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message that was dropped, or something that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drop {
    /// When, the last time (RFC 3339).
    pub at: String,
    /// What was dropped or refused.
    pub kind: DropKind,
    /// The receiver of a message, else who was refused; empty if that is not known.
    pub client_id: String,
    /// The message's topic, or the filter; empty for connections and sessions, and for a message
    /// that was on the disk.
    pub topic: String,
    /// Which bound or rule it was, or the reason code.
    pub reason: String,
    /// In words, where there is more to say than the reason.
    pub detail: Option<String>,
    /// How often in a row.
    pub times: u64,
}

impl Drop {
    /// What happened and why, to stand in a sentence; names in quotes and escaped.
    pub fn sentence(&self) -> String {
        let Self { client_id, topic, reason, .. } = self;
        let who = match client_id.is_empty() {
            true => "somebody".into(),
            false => format!("{client_id:?}"),
        };
        let what = match self.kind {
            DropKind::Dropped if topic.is_empty() => format!("{who} did not get a message"),
            DropKind::Dropped => format!("{who} did not get a message to {topic:?}"),
            DropKind::PublishRefused => format!("{who} could not publish to {topic:?}"),
            DropKind::FilterRefused => format!("{who} could not subscribe to {topic:?}"),
            DropKind::ConnectionRefused => format!("{who} could not connect"),
            DropKind::ConnectionEnded => format!("the connection of {who} was ended"),
            DropKind::SessionEnded => format!("the session of {who} was ended"),
        };
        let detail = self.detail.as_ref().map(|detail| format!(" ({})", detail.escape_debug()));
        format!("{what}: {reason}{}", detail.unwrap_or_default())
    }
}

/// What was dropped or refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DropKind {
    /// A message, for one receiver.
    #[default]
    Dropped,
    /// A PUBLISH: nobody gets it, or it is not retained.
    PublishRefused,
    /// A filter of a SUBSCRIBE.
    FilterRefused,
    /// A CONNECT, or what came in its place.
    ConnectionRefused,
    /// A connection that was ended for a fault or a bound.
    ConnectionEnded,
    /// The session of an absent client, before its time.
    SessionEnded,
}

/// Which of them are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropQuery {
    /// Only those of this client.
    pub client_id: Option<Box<str>>,
    /// Only those of topics that match this filter.
    pub topic: Option<Box<str>>,
    /// Only those of this kind.
    pub kind: Option<DropKind>,
    /// So many at most.
    pub drops_max: u16,
}
