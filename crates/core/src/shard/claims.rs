//! Who has a client's session, of all nodes: a client is let in once no other node has one.
//!
//! Whoever lets a client in claims its session from the one shard of each other node that may have
//! it. That shard ends the client's connection, hands the session over if it is to be kept
//! (`shard/handover.rs`), and only then sends the receipt that the CONNACK waits for; without a
//! session it sends it at once, with all others of the turn. So nothing has to be known of where
//! sessions are, and nothing is to be rebuilt when a node is lost: then nobody waits for it.
//!
//! Of two claims at once the higher one wins. The shard of the lower one says so when it hears of
//! the other, refuses its client, and hands on what it is given meanwhile. A shard that has a
//! session by a claim higher than one that comes says that; then the other claims again.
//!
//! A node that was lost and is back may have sessions that others have begun anew meanwhile. Nodes
//! that meet tell each other of all sessions that are kept: the lower claim's is dropped.

use super::Shard;
use super::connect::OWN_CLIENT_IDS;
use super::connection::{AwaitAuth, Connection, Phase, Refusal, connect_again};
use super::slices::{ClaimsOf, Work};
use crate::answers::{Answer, Reply};
use crate::claims::{Asking, Claimant};
use crate::keys::{Claim, ConnKey, Micros, SessionKey, ShardId, Ticket};
use crate::mail::{Mail, SessionMail};
use crate::parcel::Admitted;
use crate::sink::{Notice, Sink};
use std::collections::VecDeque;
use std::ops::Range;
use weir_wire::ReasonCode;

/// How often a client is claimed whose session others have by a higher claim each time.
const TRIES_MAX: u8 = 4;

/// Steps of a client that waits to be let in, and is claimed from a node that is here.
const CLAIM_STEPS: u64 = 24;

impl Shard {
    /// Whether other nodes are to be asked before a client is let in.
    pub(super) fn is_claimed(&self, client_id: &str) -> bool {
        self.place.has_nodes() && !client_id.is_empty() && !client_id.starts_with(OWN_CLIENT_IDS)
    }

    /// Claims the session of a client that is who it says, and lets it in when no other node has
    /// it.
    pub(super) fn claim(
        &mut self,
        conn: ConnKey,
        admitted: Box<Admitted>,
        tries: u8,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(connect) = connect_again(&admitted.connect) else { return };
        let (client_id, version): (Box<str>, _) = (connect.client_id.into(), connect.version);
        let (body, is_clean) = (admitted.connect.clone(), connect.clean_start);
        let claim = self.claims.next(self.place.id, now);
        self.came_elsewhere(&client_id, claim, is_clean, now);
        self.answers.begin();
        for owner in self.place.owners_elsewhere(&client_id) {
            let (client_id, number) = (client_id.clone(), self.answers.mailed(owner));
            let mail = SessionMail::Claim { client_id, claim, is_clean, number };
            sink.mail(owner, Mail::Session(mail));
        }
        let (admitted, newer, is_outbid) = (Some(admitted), None, false);
        let asking =
            Asking { client_id: client_id.clone(), claim, admitted, newer, is_outbid, tries };
        let reply = Reply::Claim(Box::new(asking));
        let ticket = self.answers.insert(Some(conn), reply, 0, now);
        if let Some(connection) = self.connections.get_mut(conn) {
            let (method, asked) = (None, Some(ticket));
            let waiting = AwaitAuth { connect: body, version, method, asked };
            connection.phase = Phase::AwaitAuth(Box::new(waiting));
        }
        self.outbid(&client_id, claim, sink);
        if let Some(older) = self.claims.asking.insert(client_id, ticket) {
            // [MQTT-3.1.4-3]
            self.refuse_asking(older, sink);
        }
    }

    /// A client has come again here: who has claimed its session before waits for nothing more.
    fn outbid(&mut self, client_id: &str, claim: Claim, sink: &mut impl Sink) {
        for claimant in self.claims.waiting.remove(client_id).into_iter().flatten() {
            self.outbid_claimant(client_id, claimant, claim, sink);
        }
    }

    /// A client has come again elsewhere, by this claim: whoever has claimed its session before
    /// waits for nothing more, and refuses its client.
    fn outbid_claimant(
        &mut self,
        client_id: &str,
        Claimant { shard, number, .. }: Claimant,
        claim: Claim,
        sink: &mut impl Sink,
    ) {
        tell_held(shard, client_id, claim, true, sink);
        self.answers.receipts.note_done(shard, number);
    }

    /// A client that waited to be let in has come again, here or elsewhere.
    fn refuse_asking(&mut self, ticket: Ticket, sink: &mut impl Sink) {
        let Some(Answer { conn: Some(conn), .. }) = self.answers.get(ticket) else { return };
        let detail = "the client has come again meanwhile";
        self.refuse_unknown(*conn, Refusal::new(ReasonCode::ServerBusy, detail), sink);
    }

    /// No other node has a session of a client any more, or all that have one have said so. The
    /// client may have left meanwhile.
    pub(super) fn claimed(&mut self, ticket: Ticket, now: Micros, sink: &mut impl Sink) {
        let Some(Answer { conn, reply: Reply::Claim(asking), .. }) = self.answers.remove(ticket)
        else {
            return;
        };
        let client_id = asking.client_id.clone();
        if self.claims.asking.get(&client_id) == Some(&ticket) {
            self.claims.asking.remove(&client_id);
        }
        let is_adopted = asking.admitted.is_none();
        if let Some(conn) = conn {
            self.end_asking_on(conn, *asking, now, sink);
        }
        self.answer_claimants(&client_id, now, sink);
        if is_adopted {
            self.adopt_next(now, sink);
        }
    }

    fn end_asking_on(
        &mut self,
        conn: ConnKey,
        Asking { admitted, newer, is_outbid, tries, .. }: Asking,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let connection = self.connections.get_mut(conn);
        let Some(waiting) = connection.and_then(Connection::take_waiting) else { return };
        let Some(admitted) = admitted else { return };
        if is_outbid || (newer.is_some() && tries >= TRIES_MAX) {
            let detail = "the client has come to another node meanwhile";
            let refusal = Refusal::new(ReasonCode::ServerBusy, detail);
            let connect = connect_again(&waiting.connect);
            self.refuse_connect(conn, waiting.version, connect.as_ref(), refusal, sink);
        } else if newer.is_some() {
            self.claim(conn, admitted, tries + 1, now, sink);
        } else {
            self.admit_claimed(conn, &admitted, now, sink);
            if self.connections.get(conn).is_some() {
                sink.resume(conn);
            }
        }
    }

    /// A letter about a session, from a shard of another node.
    pub(super) fn mail_of_session(
        &mut self,
        from: ShardId,
        mail: SessionMail,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        match mail {
            SessionMail::Claim { client_id, claim, is_clean, number } => {
                let claimant = Claimant { shard: from, claim, is_clean, number };
                self.on_claim(&client_id, claimant, now, sink);
            }
            SessionMail::Held { client_id, claim, is_asking } => {
                self.on_held(from, &client_id, (claim, is_asking), now, sink);
            }
            SessionMail::Leaving { claim, held, records } => {
                self.on_leaving((claim, from), held, &records, now, sink);
            }
            SessionMail::Moving { claim, from: holder } => {
                self.on_moving(from, (claim, holder), now, sink);
            }
            SessionMail::Switched { claim, from: holder } => {
                self.on_switched(from, (claim, holder), now, sink);
            }
            SessionMail::Part { claim, part } => self.on_part((claim, from), part, now, sink),
            SessionMail::Taken { claim } => self.on_taken(from, claim, now, sink),
            SessionMail::Stays { claim, anew } => self.on_stays((claim, from), anew, now, sink),
            SessionMail::Will { client_id, claim, will, wait_s } => {
                self.on_will(&client_id, (from, claim), (&will, wait_s), now);
            }
            SessionMail::WillOver { client_id } => self.will_is_over(&client_id, from),
            SessionMail::WillTaken { client_id, claim } => {
                self.on_will_taken(&client_id, claim, sink);
            }
            SessionMail::Unwatch => self.watched.unwatch(from),
            SessionMail::Closing => self.claims.closing.insert(from),
        }
    }

    /// Another node's shard has a client that this one may have a session of.
    fn on_claim(&mut self, client_id: &str, claimant: Claimant, now: Micros, sink: &mut impl Sink) {
        let Claimant { shard, claim, number, .. } = claimant;
        self.claims.note(claim);
        self.came_elsewhere(client_id, claim, claimant.is_clean, now);
        if let Some(own) = self.asking(client_id) {
            // Whoever has a client gets what comes here for none.
            if own.claim > claim && own.admitted.is_some() {
                tell_held(shard, client_id, own.claim, true, sink);
                return self.answers.receipts.note(shard, number);
            }
            own.is_outbid = true;
            return self.keep_waiting(client_id, claimant);
        }
        if self.is_moving(client_id) || self.claims.waiting.contains_key(client_id) {
            return self.keep_waiting(client_id, claimant);
        }
        let Some(key) = self.clients.find(client_id) else {
            if !self.log.may_bring_back() {
                return self.answers.receipts.note(shard, number);
            }
            // It may be this client's that is over, by a claim before this.
            self.answers.receipts.note_pending(shard, number);
            self.begin_answer();
            self.log.rely_on_all();
            return self.claim_done(claimant, now);
        };
        let held = self.claims.rank(key);
        if held > claim {
            tell_held(shard, client_id, held, false, sink);
            return self.answers.receipts.note(shard, number);
        }
        if self.leaves_later(client_id) {
            self.claims.put_off.push_back(client_id.into());
            return self.keep_waiting(client_id, claimant);
        }
        self.answers.receipts.note_pending(shard, number);
        self.give_up(client_id, claimant, now, sink);
    }

    /// Whether the client's session leaves or comes, or was over meanwhile and is still expected.
    pub(super) fn is_moving(&self, client_id: &str) -> bool {
        let moves = |key| self.claims.way(key).is_some() || self.waits_for_lists(key);
        self.claims.ending.contains(client_id) || self.clients.find(client_id).is_some_and(moves)
    }

    /// Whether a session goes nowhere before all nodes have told this one what they have. They may
    /// still say that they have sent the will of a session from a log. And where logs are copied,
    /// a node that has not told may take this one for the one that was here before: what it has
    /// mailed to that is to come before the session goes.
    fn waits_for_lists(&self, key: SessionKey) -> bool {
        let absence = || self.clients[key].cold.as_ref()?.absence.as_ref();
        let has_will = || absence().is_some_and(|absence| absence.will.is_some());
        let may_wait =
            self.unreceived.is_copied || self.claims.held(key) == Claim::NONE && has_will();
        may_wait && self.has_unlisted()
    }

    pub(super) fn keep_waiting(&mut self, client_id: &str, claimant: Claimant) {
        self.answers.receipts.note_pending(claimant.shard, claimant.number);
        self.claims.waiting.entry(client_id.into()).or_default().push(claimant);
    }

    /// The client that waits here to be let in.
    pub(super) fn asking(&mut self, client_id: &str) -> Option<&mut Asking> {
        let &ticket = self.claims.asking.get(client_id)?;
        match self.answers.reply_mut(ticket) {
            Some(Reply::Claim(asking)) => Some(asking),
            _ => None,
        }
    }

    /// Other nodes have said what they have to, or are lost.
    pub(super) fn answer_all_claimants(&mut self, now: Micros, sink: &mut impl Sink) {
        self.look_at_held_picks();
        self.send_wills_that_are_put_off(now);
        self.claims.put_off.clear();
        let all: Vec<Box<str>> = self.claims.waiting.keys().cloned().collect();
        all.iter().for_each(|client_id| self.answer_claimants(client_id, now, sink));
    }

    /// Nothing goes on here of a client that others wait for: the highest of their claims gets what
    /// there is.
    pub(super) fn answer_claimants(&mut self, client_id: &str, now: Micros, sink: &mut impl Sink) {
        self.look_at_held_picks();
        if self.claims.waiting.is_empty() || self.claims.asking.contains_key(client_id) {
            return;
        }
        if self.is_moving(client_id) {
            return;
        }
        if self.leaves_later(client_id) {
            return self.claims.put_off.push_back(client_id.into());
        }
        let Some(mut all) = self.claims.waiting.remove(client_id) else { return };
        all.sort_unstable_by_key(|claimant| claimant.claim);
        let Some(highest) = all.pop() else { return };
        // Else they might let their clients in before the highest claim has come to them.
        all.into_iter().for_each(|it| self.outbid_claimant(client_id, it, highest.claim, sink));
        self.give_up(client_id, highest, now, sink);
    }

    /// Ends the connection of a client that has come to another node [MQTT-3.1.4-3], and its
    /// session, or hands that over. The claimant's letter is pending.
    fn give_up(&mut self, client_id: &str, claimant: Claimant, now: Micros, sink: &mut impl Sink) {
        self.begin_answer();
        self.claims.claimed_at = now;
        if let Some(key) = self.clients.find(client_id) {
            self.end_predecessor(key, now, sink);
        }
        // It may have ended with its connection.
        if let Some(key) = self.clients.find(client_id) {
            if !claimant.is_clean {
                return self.hand_over(key, claimant, sink);
            }
            self.end_session(key, sink);
        }
        self.claim_done(claimant, now);
    }

    /// What was claimed is not here any more, or once that outlives a crash.
    pub(super) fn claim_done(&mut self, claimant: Claimant, now: Micros) {
        let Claimant { shard: from, number, .. } = claimant;
        if !self.must_wait() {
            return self.answers.receipts.note_done(from, number);
        }
        self.insert_answer(None, Reply::Receipt { from, number }, 0, now);
    }

    /// A shard of another node has a session of this client, or is about to.
    fn on_held(
        &mut self,
        from: ShardId,
        client_id: &str,
        (claim, is_asking): (Claim, bool),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.claims.note(claim);
        // One that was made anew here is higher than that of a client that has come since.
        let is_own = claim.shard() == self.place.id;
        if let Some(own) = self.asking(client_id)
            && own.claim < claim
            && !is_own
        {
            own.is_outbid |= is_asking;
            own.newer = own.newer.max(Some(claim));
        }
        if is_asking {
            return;
        }
        let Some(key) = self.clients.find(client_id) else {
            return self.adopt(from, client_id, now, sink);
        };
        let held = self.claims.rank(key);
        if self.claims.way(key).is_some() {
            return;
        }
        if (held, from) > (claim, self.place.id) {
            return tell_held(from, client_id, held, is_asking, sink);
        }
        self.drop_stale(key, now, sink);
        self.adopt(from, client_id, now, sink);
    }

    /// Another node has begun the client's session anew while this one was lost.
    pub(super) fn drop_stale(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let client_id = self.clients[key].client_id.clone();
        self.stats.sessions_stale += 1;
        let cause = "begun anew on another node";
        sink.notice(Notice::SessionEnded { client_id: &client_id, cause });
        self.end_predecessor(key, now, sink);
        if let Some(key) = self.clients.find(&client_id) {
            if self.claims.held(key) == Claim::NONE {
                // Of one that a log has brought others have the will, or have sent it.
                self.drop_will(key, sink);
            }
            self.end_session(key, sink);
        }
    }

    /// Another node is here: those who wait to be let in wait for it too. Each by a claim that no
    /// node in that place has heard of before: what is still on its way of a session that was to
    /// come from that one, such as where others have switched, is not taken for what comes now.
    pub(super) fn claim_of(&mut self, node: &Range<u16>, now: Micros, sink: &mut impl Sink) {
        let Some(visit) = self.place.visit(node) else { return };
        let tickets: VecDeque<Ticket> = self.claims.asking.values().copied().collect();
        for &ticket in &tickets {
            // Nobody is let in before that node is asked.
            self.answers.wait_for_one_more(ticket);
        }
        let of = ClaimsOf { node: node.clone(), visit, tickets };
        self.go_on_claiming(Box::new(of), now, sink);
    }

    pub(super) fn go_on_claiming(
        &mut self,
        mut of: Box<ClaimsOf>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        while let Some(ticket) = of.tickets.pop_front() {
            self.slices.add(CLAIM_STEPS);
            if self.place.visit(&of.node) == Some(of.visit) {
                self.claim_again(ticket, &of.node, now, sink);
            }
            self.met(ticket, now, sink);
            if self.slices.is_spent() && !of.tickets.is_empty() {
                return self.slices.put_off(Work::Claims(of), now);
            }
        }
    }

    fn claim_again(
        &mut self,
        ticket: Ticket,
        node: &Range<u16>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let claim = self.claims.next(self.place.id, now);
        self.answers.begin();
        let Some(Reply::Claim(asking)) = self.answers.reply_mut(ticket) else { return };
        if asking.is_outbid {
            return;
        }
        let client_id = asking.client_id.clone();
        let admitted = asking.admitted.as_ref();
        let connect = admitted.and_then(|admitted| connect_again(&admitted.connect));
        // Nothing if the session is to come for no client.
        let start = connect.map(|connect| connect.clean_start);
        let is_clean = start.unwrap_or_default();
        let owner = self.place.owner_at(node, &client_id);
        let number = self.answers.mailed(owner);
        if start.is_some() {
            // By this claim it comes behind who was there.
            self.came_elsewhere(&client_id, claim, is_clean, now);
        }
        let mail = SessionMail::Claim { client_id, claim, is_clean, number };
        sink.mail(owner, Mail::Session(mail));
        self.answers.add_mailed(ticket);
    }
}

/// Tells a shard of another node of a session that is here by this claim, or is to be.
pub(super) fn tell_held(
    to: ShardId,
    client_id: &str,
    claim: Claim,
    is_asking: bool,
    sink: &mut impl Sink,
) {
    let mail = SessionMail::Held { client_id: client_id.into(), claim, is_asking };
    sink.mail(to, Mail::Session(mail));
}
