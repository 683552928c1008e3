//! Sessions: how they begin, are resumed, and end.

use super::{Model, Will};
use crate::names::{ClientNo, ConnNo, MessageNo, SessionNo, SubscriptionNo};
use std::collections::BTreeMap;
use weir_core::Micros;
use weir_wire::QoS;

/// A message of QoS 2 that was taken in and not yet released.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unreleased {
    /// Its place among the intakes since the last calm.
    pub intake: Option<usize>,
    /// A shard said late that it does not take a message of this client on its topic, maybe this
    /// one: if it comes again, it may be new.
    pub is_doubtful: bool,
}

/// A session of the broker.
#[derive(Clone, Debug)]
pub struct Session {
    /// Whose.
    pub client: ClientNo,
    /// The shard that has it.
    pub shard: usize,
    /// Its connection, while there is one.
    pub conn: Option<ConnNo>,
    /// When it ended.
    pub ended: Option<u64>,
    /// Seconds it outlives its connection; `u32::MAX` is for ever.
    pub expiry_s: u32,
    /// While absent: when it ends.
    pub expires_at: Option<Micros>,
    /// While absent: the will that waits, and when it is due.
    pub will: Option<(MessageNo, Micros)>,
    /// QoS 2 messages taken in and not yet released, by packet identifier.
    pub unreleased: BTreeMap<u16, Unreleased>,
    /// What was sent and is not done, by packet identifier.
    pub out: BTreeMap<u16, Out>,
    /// What it is subscribed to now, shared subscriptions too.
    pub subscriptions: BTreeMap<&'static str, SubscriptionNo>,
    /// While it goes to another node, and is not known to be there: from which shard to which.
    pub moving: Option<(usize, usize)>,
    /// How often it has come to another node.
    pub times_moved: usize,
    /// When it would have ended, and its will been due, had it not left.
    pub parked: Deadlines,
    /// It was to go, and is to go anew.
    pub comes_anew: bool,
    /// Its client has come to another node, and waits for it.
    pub is_awaited: bool,
    /// Its time is over, but for that: a shard ends it if it does not know of it any more.
    pub is_overdue: bool,
    /// The will of its last connection, which its client has taken back by coming elsewhere.
    pub taken_back: Option<(MessageNo, Micros)>,
    /// Until then a will that a log has brought waits for other nodes, and so does the end of the
    /// session, which is the will's as well.
    pub will_waits: Micros,
    /// Another node publishes the will that a log has brought, and has not said so yet.
    pub is_will_untold: bool,
}

/// While a session is absent: when it ends, and its will with when that is due.
pub type Deadlines = (Option<Micros>, Option<(MessageNo, Micros)>);

/// A will whose client's node is lost.
#[derive(Clone, Copy, Debug)]
pub struct Orphan {
    /// Whose.
    pub client: ClientNo,
    /// What it says.
    pub message: MessageNo,
    /// When it is due.
    pub due: Micros,
    /// The shard that is to publish it.
    pub shard: usize,
}

/// A delivery of QoS 1 or 2 that is not done.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    /// The message; nothing if it has no payload.
    pub message: Option<MessageNo>,
    /// With which QoS.
    pub qos: QoS,
    /// What the client is to say next.
    pub step: OutStep,
    /// The connection on which the PUBLISH was last sent.
    pub conn: ConnNo,
    /// When it was first sent.
    pub at: u64,
}

/// What the broker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutStep {
    /// PUBACK or PUBREC.
    First,
    /// PUBCOMP.
    PubComp,
}

impl Model {
    pub(super) fn new_session(&mut self, client: ClientNo) -> SessionNo {
        let number = SessionNo(self.sessions.len());
        self.sessions.push(Session {
            client,
            shard: self.call.shard,
            conn: None,
            ended: None,
            expiry_s: 0,
            expires_at: None,
            will: None,
            unreleased: BTreeMap::new(),
            out: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            moving: None,
            times_moved: 0,
            parked: (None, None),
            comes_anew: false,
            is_awaited: false,
            is_overdue: false,
            taken_back: None,
            will_waits: Micros(0),
            is_will_untold: false,
        });
        self.alive.insert(client, number);
        number
    }

    /// A client's session leaves its shard, or comes to another: nobody has it in between.
    pub(crate) fn moves(&mut self, client: ClientNo, to: Option<usize>) {
        if let Some(&number) = self.alive.get(&client) {
            self.sessions[number.0].shard = to.unwrap_or(usize::MAX);
        }
    }

    /// A session leaves for another node: what was to happen in its client's absence will not.
    pub(crate) fn leaves(&mut self, client: ClientNo, way: (usize, usize)) {
        if let Some(&number) = self.alive.get(&client) {
            let session = &mut self.sessions[number.0];
            if session.shard != way.0 {
                // It is another's, which a log has brought once more.
                return;
            }
            session.is_awaited = false;
            if std::mem::take(&mut session.comes_anew) {
                session.moving = Some(way);
                self.recent.moved.insert(number);
                self.may_replay_again(number);
                return self.moves(client, None);
            }
            let waits = session.will_waits;
            // It was due, and waited for other nodes, which have said that it is not theirs.
            let put_off = session.will.take_if(|(_, due)| waits != Micros(0) && *due == waits);
            // One that its client takes back where it goes may be in a log still.
            let taken_back = session.taken_back.take();
            session.parked = (session.expires_at.take(), session.will.take().or(taken_back));
            session.moving = Some(way);
            self.recent.moved.insert(number);
            (session.will_waits, session.is_will_untold) = (Micros(0), false);
            self.publish_will(put_off.map(|(message, _)| message));
            self.may_replay_again(number);
        }
        self.moves(client, None);
    }

    /// Its client has come to another node, and waits for it: it is not over before.
    pub(crate) fn is_awaited(&mut self, client: ClientNo, at: usize) {
        if let Some(&number) = self.alive.get(&client) {
            let session = &mut self.sessions[number.0];
            let is_to_come = session.moving.is_some_and(|(_, to)| to == at);
            session.is_awaited |= session.shard == at || is_to_come;
        }
    }

    /// It stays there until it leaves anew: its client has come for it.
    pub(crate) fn stays(&mut self, client: ClientNo, at: usize) {
        if let Some(&number) = self.alive.get(&client) {
            let session = &mut self.sessions[number.0];
            if session.moving.take_if(|(from, _)| *from == at).is_some() {
                (session.shard, session.comes_anew) = (at, true);
            }
        }
    }

    /// It has come to a shard of another node, where its client may be or not. One that is adopted
    /// has come for no client: its time goes on.
    pub(crate) fn comes(&mut self, client: ClientNo, to: usize, is_adopted: bool) {
        self.moves(client, Some(to));
        if let Some(&number) = self.alive.get(&client) {
            let (now, session) = (self.now, &mut self.sessions[number.0]);
            session.times_moved += 1;
            if is_adopted {
                (session.expires_at, session.will) = session.parked;
                return;
            }
            let expiry_s = session.expiry_s;
            session.expires_at = (expiry_s != u32::MAX).then(|| now + Micros::from_secs(expiry_s));
        }
    }

    /// The session has no connection any more: it ends, or waits for its client.
    pub(super) fn leave(&mut self, number: SessionNo, will: Option<Will>) {
        let now = self.now;
        let session = &mut self.sessions[number.0];
        session.conn = None;
        let expiry_s = session.expiry_s;
        if expiry_s == 0 {
            self.end_session(number);
            self.publish_will(will.map(|will| will.message));
            return;
        }
        session.expires_at = (expiry_s != u32::MAX).then(|| now + Micros::from_secs(expiry_s));
        let Some(will) = will else { return };
        if will.delay_s == 0 {
            return self.publish_will(Some(will.message));
        }
        session.will = Some((will.message, now + Micros::from_secs(will.delay_s.min(expiry_s))));
    }

    /// The session is over, and a will that waits is due with it [MQTT-3.1.2-8].
    pub(crate) fn end_session(&mut self, number: SessionNo) {
        let at = self.tick();
        let session = &mut self.sessions[number.0];
        session.ended = Some(at);
        session.unreleased.clear();
        session.out.clear();
        let will = session.will.take();
        let (client, is_moving) = (session.client, session.moving.is_some());
        let subscriptions = std::mem::take(&mut session.subscriptions);
        self.alive.remove(&client);
        for subscription in subscriptions.into_values() {
            let subscription = &mut self.subscriptions[subscription.0];
            subscription.ended = Some(at);
            if is_moving && let Some(share) = subscription.share {
                self.recent.left_while_moving.insert((subscription.filter, share));
            }
        }
        self.publish_will(will.map(|(message, _)| message));
    }

    pub(super) fn publish_will(&mut self, will: Option<MessageNo>) {
        if let Some(message) = will {
            let intake = self.take_in(message, None);
            self.recent.intakes[intake].is_acked &= !self.doubtful_wills.contains(&message);
        }
    }

    /// A shard hears that a client has come to another node since its own was lost: a will that
    /// waits is due at once if it begins anew, and not at all otherwise.
    pub fn came(&mut self, client: ClientNo, shard: usize, is_clean: bool) {
        let now = self.now;
        let is_its = |orphan: &Orphan| orphan.client == client && orphan.shard == shard;
        if is_clean {
            let its = self.orphans.iter_mut().filter(|orphan| is_its(orphan));
            its.for_each(|orphan| orphan.due = now);
        } else {
            self.orphans.retain(|orphan| orphan.due <= now || !is_its(orphan));
        }
    }

    /// What is due on a shard by the time `now`: delayed wills, ends of sessions. Comes before the
    /// shard is told of that time.
    pub fn pass(&mut self, shard: usize, now: Micros) {
        let is_due = |orphan: &mut Orphan| orphan.shard == shard && orphan.due <= now;
        let orphans: Vec<Orphan> = self.orphans.extract_if(.., is_due).collect();
        orphans.into_iter().for_each(|orphan| self.publish_will(Some(orphan.message)));
        while let Some((due, is_end, number)) = self.next_due(shard)
            && due <= now
        {
            // Its client may have come, and left again, where nobody is to be asked any more.
            let has_moved = self.is_copied && self.recent.moved.contains(&number);
            let is_asked_for = has_moved || self.is_asked_for(self.session(number).client);
            let session = &mut self.sessions[number.0];
            let waits = session.will_waits;
            if now < waits && (session.will.is_some() || session.is_will_untold) {
                if is_end {
                    session.expires_at = Some(waits);
                } else {
                    session.will = session.will.map(|(message, _)| (message, waits));
                }
            } else if is_end && (session.is_awaited || is_asked_for) {
                (session.expires_at, session.is_overdue) = (None, true);
            } else if is_end {
                self.end_session(number);
            } else {
                let will = self.sessions[number.0].will.take();
                self.publish_will(will.map(|(message, _)| message));
            }
        }
    }

    /// Sessions whose time is over that may be there still.
    pub fn overdue(&self) -> Vec<SessionNo> {
        let is_overdue = |session: &Session| {
            let is_due = session.parked.0.is_some_and(|at| at <= self.now);
            session.is_overdue || is_due && (session.comes_anew || session.moving.is_some())
        };
        let all = self.alive.values().copied();
        all.filter(|&number| is_overdue(self.session(number))).collect()
    }

    /// When the first will of a lost node is due on a shard.
    pub fn next_orphan(&self, shard: usize) -> Option<Micros> {
        let its = self.orphans.iter().filter(|orphan| orphan.shard == shard);
        its.map(|orphan| orphan.due).min()
    }

    /// When the last of all is due.
    pub fn last_orphan(&self) -> Option<Micros> {
        self.orphans.iter().map(|orphan| orphan.due).max()
    }

    /// The earliest deadline of the sessions on a shard; whether it is the session's end.
    pub fn next_due(&self, shard: usize) -> Option<(Micros, bool, SessionNo)> {
        let here = self.alive.values().filter(|&&number| self.session(number).shard == shard);
        let deadlines = here.flat_map(|&number| {
            let session = self.session(number);
            let will = session.will.map(|(_, due)| (due, false, number));
            let end = session.expires_at.map(|due| (due, true, number));
            will.into_iter().chain(end)
        });
        deadlines.min()
    }
}
