//! From when on what a shard routes is for where a session goes.

use super::super::Shard;
use crate::answers::Reply;
use crate::claims::Way;
use crate::keys::{Micros, ShardId};
use crate::mail::{Mail, SessionMail};
use crate::sink::Sink;
use std::ops::Range;

impl Shard {
    /// A session moves to `to`, which has told this shard of its subscriptions: of letters with
    /// messages that it has routed already, those that wait for a commit leave before.
    pub(in super::super) fn on_moving(
        &mut self,
        to: ShardId,
        way: Way,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if self.outbox.may_note() {
            return self.switch(to, way, now, sink);
        }
        self.claims.switching.insert(way);
        self.note_behind_letters(Reply::Switched { to, way }, now);
    }

    /// What this shard routes from now on is for where the session goes.
    pub(in super::super) fn switch(
        &mut self,
        to: ShardId,
        way: Way,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let (claim, from) = way;
        self.claims.switching.remove(&way);
        for shard in [from, to] {
            if shard == self.place.id {
                self.on_switched(shard, way, now, sink);
            } else if self.place.has(shard) {
                sink.mail(shard, Mail::Session(SessionMail::Switched { claim, from }));
            } else {
                self.claims.unsaid.push((shard, way));
            }
        }
    }

    /// Another node is here, which others have known before: sessions of it wait for what this one
    /// was to say to it.
    pub(in super::super) fn say_switched(&mut self, node: &Range<u16>, sink: &mut impl Sink) {
        let is_its = |(shard, _): &mut (ShardId, Way)| node.contains(&shard.0);
        for (shard, (claim, from)) in self.claims.unsaid.extract_if(.., is_its) {
            sink.mail(shard, Mail::Session(SessionMail::Switched { claim, from }));
        }
    }
}
