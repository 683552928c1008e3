//! A session that is on its way while a third node is lost comes anew.
//!
//! Who was lost may have said to one of the two shards that it had switched, and not to the other.
//! Then each would leave what comes again from whoever is in its place to the other. Where logs are
//! copied, the session has all of it where it was: there it stays, and is claimed anew.

use super::super::Shard;
use super::tell_held;
use crate::claims::{Claimant, Coming, Way};
use crate::keys::{Claim, Micros, ShardId};
use crate::mail::{Mail, SessionMail};
use crate::sink::Sink;
use std::ops::Range;

impl Shard {
    /// Another node is here: sessions that come get what it routes. One that comes for no client
    /// goes on: it has left a node that is lost itself, and its will and its time come along.
    pub(in super::super) fn move_from(
        &mut self,
        node: &Range<u16>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let ways: Vec<Way> = self.claims.coming.keys().copied().collect();
        for way @ (claim, from) in ways {
            let is_adopted = |it: &Coming| it.adopted.is_some();
            if !self.unreceived.is_copied || self.claims.coming.get(&way).is_some_and(is_adopted) {
                for shard in node.clone().map(ShardId) {
                    sink.mail(shard, Mail::Session(SessionMail::Moving { claim, from }));
                }
            } else {
                self.claim_anew(way, now, sink);
            }
        }
    }

    fn claim_anew(&mut self, way @ (claim, from): Way, now: Micros, sink: &mut impl Sink) {
        let Some(coming) = self.claims.coming.remove(&way) else { return };
        self.claims.end_way(coming.key);
        let client_id = self.clients[coming.key].client_id.clone();
        self.end_session(coming.key, sink);
        let is_wanted = self.asking(&client_id).is_some_and(|asking| !asking.is_outbid);
        let ticket = self.claims.asking.get(&*client_id).copied().filter(|_| is_wanted);
        let anew = ticket.map(|ticket| {
            self.answers.begin();
            let anew = (self.claims.next(self.place.id, now), self.answers.mailed(from));
            self.answers.add_mailed(ticket);
            anew
        });
        sink.mail(from, Mail::Session(SessionMail::Stays { claim, anew }));
        self.answer_claimants(&client_id, now, sink);
    }

    /// A session is not to go by this claim, but by the one that is made anew.
    pub(in super::super) fn on_stays(
        &mut self,
        (claim, from): (Claim, ShardId),
        anew: Option<(Claim, u64)>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(leaving) = self.take_leaving(claim, from) else {
            let numbers = anew.map(|(_, number)| number);
            return numbers.into_iter().for_each(|it| self.answers.receipts.note(from, it));
        };
        self.answers.receipts.note_done(from, leaving.to.number);
        // Its client has come in time.
        leaving.key.into_iter().for_each(|key| self.be_absent(key, now));
        if let Some((claim, number)) = anew {
            self.claims.note(claim);
            let own = self.asking(&leaving.client_id).map(|asking| asking.claim);
            if let Some(own) = own {
                // It has come here since, by a claim that is known there, or will be.
                tell_held(from, &leaving.client_id, own, true, sink);
                self.answers.receipts.note(from, number);
            } else {
                let claimant = Claimant { shard: from, claim, is_clean: false, number };
                self.keep_waiting(&leaving.client_id, claimant);
            }
        }
        self.stay(&leaving, now, sink);
        self.hand_over_next(now, sink);
    }
}
