//! The last messages that a shard dropped and refused, for whoever asks why one did not arrive.
//!
//! Kept only where there is a control thread. A message that arrives costs nothing here.

use jiff::Timestamp;
use std::collections::VecDeque;
use weir_control::{Drop, DropKind, DropQuery};
use weir_core::Notice;
use weir_wire::ReasonCode;
use weir_wire::topic::TopicFilter;

/// How many are kept; the oldest goes.
const KEPT_MAX: usize = 1024;

/// Bytes of a name or a detail that are kept; clients choose how long these are.
const TEXT_BYTES_MAX: usize = 256;

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// One of them. Its texts are written anew when another takes its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    at: Timestamp,
    kind: DropKind,
    client_id: String,
    topic: String,
    reason: &'static str,
    detail: String,
    times: u64,
}

/// What happened, as a notice tells it.
#[derive(Clone, Copy)]
struct Told<'a> {
    kind: DropKind,
    client_id: &'a str,
    topic: &'a str,
    reason: &'static str,
    detail: &'a str,
}

/// The last of them, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Drops(VecDeque<Kept>);

impl Drops {
    /// Keeps what the notice tells, if that is a drop or a refusal. The same as before counts.
    #[cold]
    pub(crate) fn note(&mut self, notice: &Notice<'_>) {
        let Some(told) = Told::of(notice) else { return };
        let now = Timestamp::now();
        if let Some(last) = self.0.back_mut()
            && last.is(&told)
        {
            (last.at, last.times) = (now, last.times + 1);
            return;
        }
        let oldest = if self.0.len() < KEPT_MAX { None } else { self.0.pop_front() };
        let mut kept = oldest.unwrap_or_default();
        kept.write(&told, now);
        self.0.push_back(kept);
    }

    /// Those that are asked for, the newest first.
    pub(crate) fn page(&self, query: &DropQuery) -> Vec<Kept> {
        let (client_id, topic) = (query.client_id.as_deref(), query.topic.as_deref());
        let filter = topic.and_then(TopicFilter::parse);
        let is_wanted = |kept: &&Kept| {
            client_id.is_none_or(|id| kept.client_id == cut(id))
                && query.kind.is_none_or(|kind| kept.kind == kind)
                && topic.is_none_or(|topic| {
                    let matches = filter.is_some_and(|filter| filter.matches(&kept.topic));
                    matches || kept.topic == cut(topic)
                })
        };
        self.0.iter().rev().filter(is_wanted).take(query.drops_max.into()).cloned().collect()
    }
}

impl Kept {
    fn is(&self, told: &Told<'_>) -> bool {
        self.kind == told.kind
            && self.reason == told.reason
            && self.client_id == cut(told.client_id)
            && self.topic == cut(told.topic)
            && self.detail == cut(told.detail)
    }

    fn write(&mut self, told: &Told<'_>, now: Timestamp) {
        let Told { kind, client_id, topic, reason, detail } = *told;
        (self.at, self.kind, self.reason, self.times) = (now, kind, reason, 1);
        for (text, told) in
            [(&mut self.client_id, client_id), (&mut self.topic, topic), (&mut self.detail, detail)]
        {
            text.clear();
            text.push_str(cut(told));
        }
    }
}

impl<'a> Told<'a> {
    fn of(notice: &Notice<'a>) -> Option<Self> {
        let told = |kind, client_id, topic, reason, detail| {
            Some(Self { kind, client_id, topic, reason, detail })
        };
        match *notice {
            Notice::Dropped { client_id, topic, cause, .. }
            | Notice::Withheld { client_id, topic, cause } => {
                told(DropKind::Dropped, client_id, topic, cause, "")
            }
            Notice::ConditionLeftOut { client_id, topic, condition } => {
                let reason = "the condition was left out: it costs more than its part";
                told(DropKind::Dropped, client_id, topic, reason, condition)
            }
            Notice::Refused { client_id, topic, reason, detail, .. } => {
                told(DropKind::PublishRefused, client_id, topic, reason.name(), detail)
            }
            Notice::FilterRefused { client_id, filter, reason, detail } => {
                told(DropKind::FilterRefused, client_id, filter, reason.name(), detail)
            }
            Notice::Ended { client_id, was_live, reason, detail, .. } => {
                let kind = match was_live {
                    true if is_usual(reason) => return None,
                    true => DropKind::ConnectionEnded,
                    false => DropKind::ConnectionRefused,
                };
                told(kind, client_id, "", reason.name(), detail)
            }
            Notice::SessionEnded { client_id, cause } => {
                told(DropKind::SessionEnded, client_id, "", cause, "")
            }
            Notice::Connected { .. } | Notice::Left { .. } | Notice::Moved { .. } => None,
        }
    }
}

impl From<Kept> for Drop {
    fn from(kept: Kept) -> Self {
        let Kept { at, kind, client_id, topic, reason, detail, times } = kept;
        let (at, reason) = (format!("{at:.3}"), reason.to_owned());
        let detail = Some(detail).filter(|detail| !detail.is_empty());
        Self { at, kind, client_id, topic, reason, detail, times }
    }
}

/// Whether this is how clients go, and no fault.
pub(crate) fn is_usual(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::KeepAliveTimeout
            | ReasonCode::SessionTakenOver
            | ReasonCode::AdministrativeAction
            | ReasonCode::UseAnotherServer
            | ReasonCode::ServerMoved
            | ReasonCode::ServerShuttingDown
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped<'a>(client_id: &'a str, topic: &'a str) -> Notice<'a> {
        Notice::Dropped { conn: None, client_id, topic, cause: "queue full" }
    }

    fn topics(drops: &Drops, client_id: Option<&str>, topic: Option<&str>) -> Vec<String> {
        let [client_id, topic] = [client_id, topic].map(|text| text.map(Box::from));
        let page = drops.page(&DropQuery { client_id, topic, kind: None, drops_max: 10 });
        page.into_iter().map(|kept| kept.topic).collect()
    }

    #[test]
    fn the_newest_are_kept_and_come_first() {
        let mut drops = Drops::default();
        for at in 0..3 * KEPT_MAX {
            drops.note(&dropped("c", &format!("t/{at}")));
        }
        assert_eq!(drops.0.len(), KEPT_MAX);
        let newest = 3 * KEPT_MAX - 1;
        assert_eq!(
            topics(&drops, None, None)[..2],
            [format!("t/{newest}"), format!("t/{}", newest - 1)]
        );
        assert_eq!(drops.0[0].topic, format!("t/{}", 2 * KEPT_MAX));
    }

    #[test]
    fn the_same_again_counts_and_takes_no_other_place() {
        let mut drops = Drops::default();
        for _ in 0..10 {
            drops.note(&dropped("a", "t"));
        }
        drops.note(&dropped("b", "t"));
        let page = drops.page(&DropQuery { drops_max: 10, ..DropQuery::default() });
        let counts: Vec<_> = page.iter().map(|kept| (kept.times, &*kept.client_id)).collect();
        assert_eq!(counts, [(1, "b"), (10, "a")]);
    }

    #[test]
    fn a_client_and_a_filter_choose_some() {
        let mut drops = Drops::default();
        for (client_id, topic) in [("a", "x/1"), ("a", "x/2"), ("b", "x/1"), ("a", "y")] {
            drops.note(&dropped(client_id, topic));
        }
        assert_eq!(topics(&drops, Some("a"), Some("x/+")), ["x/2", "x/1"]);
        assert_eq!(topics(&drops, None, Some("x/1")), ["x/1", "x/1"]);
        assert_eq!(topics(&drops, Some("c"), None), [""; 0]);
    }

    #[test]
    fn a_kind_is_found_behind_many_of_another() {
        let mut drops = Drops::default();
        let (client_id, reason) = ("a", ReasonCode::NotAuthorized);
        drops.note(&Notice::Refused { conn: None, client_id, topic: "t", reason, detail: "" });
        for at in 0..10 {
            drops.note(&dropped(&format!("b{at}"), "t"));
        }
        let kind = Some(DropKind::PublishRefused);
        let page = drops.page(&DropQuery { kind, drops_max: 1, ..DropQuery::default() });
        assert_eq!(page.len(), 1);
        assert_eq!((page[0].kind, &*page[0].client_id), (DropKind::PublishRefused, "a"));
    }

    #[test]
    fn texts_are_cut_and_found_nevertheless() {
        let (mut drops, long) = (Drops::default(), "é".repeat(40_000));
        drops.note(&dropped(&long, &long));
        assert_eq!(topics(&drops, Some(&long), Some(&long)), [long[..TEXT_BYTES_MAX].to_owned()]);
    }

    #[test]
    fn how_clients_usually_go_is_no_refusal() {
        let ended = |was_live, reason| Notice::Ended {
            conn: weir_core::ConnKey(1),
            client_id: "c",
            user_name: None,
            was_live,
            reason,
            detail: "",
        };
        let mut drops = Drops::default();
        drops.note(&ended(true, ReasonCode::SessionTakenOver));
        drops.note(&ended(true, ReasonCode::UseAnotherServer));
        assert!(drops.0.is_empty());
        drops.note(&ended(true, ReasonCode::QuotaExceeded));
        drops.note(&ended(false, ReasonCode::NotAuthorized));
        let kinds: Vec<_> = drops.0.iter().map(|kept| kept.kind).collect();
        assert_eq!(kinds, [DropKind::ConnectionEnded, DropKind::ConnectionRefused]);
    }
}
