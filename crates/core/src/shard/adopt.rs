//! Sessions of a node that is here for no client come to this one.
//!
//! They are claimed as if their clients had come, and handed over as always; but they stay absent,
//! their time goes on, and their wills come along: no client has come. Only so many come at a time,
//! so that clients who come for theirs find the way free.

use super::Shard;
use crate::answers::Reply;
use crate::claims::{Adopted, Asking};
use crate::keys::{Claim, Micros, SessionKey, ShardId};
use crate::mail::{Mail, SessionMail};
use crate::session::Absence;
use crate::sink::Sink;
use crate::timers::Timer;
use std::ops::Range;

/// Sessions that are claimed at a time.
const ADOPTING_MAX: usize = 32;

impl Shard {
    /// From now on this shard takes over each session that the shards of another node say they
    /// have, if it has none of that client. Comes before that node is here.
    pub fn adopt_from(&mut self, node: Range<u16>) {
        self.claims.adopts_from.push(node);
    }

    /// It takes over none of that node's any more.
    pub fn adopt_no_more(&mut self, node: &Range<u16>) {
        self.claims.adopts_from.retain(|other| other != node);
        self.claims.to_adopt.retain(|(from, _)| !node.contains(&from.0));
    }

    /// A shard has a session of a client that has none here: it is claimed if it is to be.
    pub(super) fn adopt(
        &mut self,
        from: ShardId,
        client_id: &str,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let adopts = &self.claims.adopts_from;
        if !adopts.iter().any(|node| node.contains(&from.0))
            || self.claims.asking.contains_key(client_id)
            || self.is_moving(client_id)
        {
            return;
        }
        if self.claims.adopting >= ADOPTING_MAX {
            return self.claims.to_adopt.push_back((from, client_id.into()));
        }
        self.claims.adopting += 1;
        let claim = self.claims.next(self.place.id, now);
        self.answers.begin();
        let (client_id, number) = (Box::from(client_id), self.answers.mailed(from));
        let (is_clean, to_claim) = (false, Box::clone(&client_id));
        let mail = SessionMail::Claim { client_id: to_claim, claim, is_clean, number };
        sink.mail(from, Mail::Session(mail));
        // As of a client that has left before it was let in: whoever claims the session waits.
        let (admitted, newer, is_outbid, tries) = (None, None, false, 0);
        let asking =
            Asking { client_id: client_id.clone(), claim, admitted, newer, is_outbid, tries };
        let ticket = self.answers.insert(None, Reply::Claim(Box::new(asking)), 0, now);
        self.claims.asking.insert(client_id, ticket);
    }

    /// One of them is here, or is not to come: others are claimed whose clients have not come yet.
    pub(super) fn adopt_next(&mut self, now: Micros, sink: &mut impl Sink) {
        self.claims.adopting -= 1;
        while self.claims.adopting < ADOPTING_MAX
            && let Some((from, client_id)) = self.claims.to_adopt.pop_front()
        {
            if self.clients.find(&client_id).is_none() {
                self.adopt(from, &client_id, now, sink);
            }
        }
    }

    /// How long a session stays absent that comes by this claim, if no client has come for it.
    pub(super) fn adopted(
        &mut self,
        client_id: &str,
        claim: Claim,
        absence: Option<Box<Absence>>,
    ) -> Option<Adopted> {
        let own = self.asking(client_id)?;
        (own.claim == claim && own.admitted.is_none()).then_some(Adopted(absence?))
    }

    /// It is absent as it was where it comes from.
    pub(super) fn stay_absent(
        &mut self,
        key: SessionKey,
        Adopted(absence): Adopted,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let timers =
            [(absence.will_at, Timer::Will(key)), (absence.expires_at, Timer::Expiry(key))];
        for (at, timer) in timers {
            at.into_iter().for_each(|at| self.timers.set(at, timer));
        }
        let has_will = absence.will.is_some();
        if has_will || absence.expires_at.is_some() {
            self.clients[key].cold().absence = Some(absence);
        }
        if has_will {
            self.tell_will(key, None, now, sink);
        }
    }
}
