//! What the broker has to be, in the plainest words: sessions, subscriptions, and who is due what.
//!
//! It sees every packet that a shard consumed and every packet that a shard wrote, so it knows the
//! state of each session. It does not know how the broker keeps it. Where shards talk by mail,
//! an event has a time from which it may have effect and one by which it must: see
//! [`Model::settled`].

mod connection;
mod copies;
mod crash;
mod inbound;
mod notice;
mod session;
mod subscription;

pub use connection::{Conn, Owed, Will};
pub use copies::WillIs;
pub use crash::Kept;
pub use notice::Said;
pub use session::{Deadlines, Orphan, Out, OutStep, Session, Unreleased};
pub use subscription::{Subscribe, Subscription};

use crate::finding::{Checker, Finding};
use crate::message::Message;
use crate::names::{ClientNo, ConnNo, MessageNo, Root, SessionNo, SubscriptionNo};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::{Limits, Micros};
use weir_wire::QoS;

/// Everything known of a run.
#[derive(Debug)]
pub struct Model {
    /// Events so far: the order of everything.
    pub at: u64,
    /// The time of the run.
    pub now: Micros,
    /// The bounds that the shards have.
    pub limits: Limits,
    /// Every connection of the run, by its number.
    pub conns: Vec<Conn>,
    /// Every session of the run, by its number.
    pub sessions: Vec<Session>,
    /// The sessions that are there now.
    pub alive: BTreeMap<ClientNo, SessionNo>,
    /// Every message of the run, by its number.
    pub messages: Vec<Message>,
    /// Every subscription of the run, by its number.
    pub subscriptions: Vec<Subscription>,
    /// What happened since the last calm.
    pub recent: Recent,
    /// What may be retained, with what it superseded not long ago.
    pub retains: Vec<Retain>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The shards keep a log.
    pub is_logged: bool,
    /// The log of each node is at another one as well.
    pub is_copied: bool,
    /// Whether memory is short at times.
    pub is_pressed: bool,
    /// What was ever sent, by session and packet identifier.
    pub(crate) sent: BTreeSet<(SessionNo, u16, MessageNo)>,
    /// By shard: when the last change of a session was consumed that was promised to outlive a
    /// crash.
    promised: BTreeMap<usize, u64>,
    /// Clients that have come to other nodes, and whether with a clean start.
    claimed: BTreeMap<ClientNo, bool>,
    /// Wills of nodes that were lost.
    orphans: Vec<Orphan>,
    /// Wills that may be published, or not.
    doubtful_wills: BTreeSet<MessageNo>,
    /// When nodes were lost, up to when others were in their places: a will that was on its way
    /// from or to one may have gone with it, as nobody waits for its receipts.
    wills_on_their_way: Vec<(u64, u64)>,
    call: Call,
}

/// What happened since everything was last delivered: beyond that, nobody is owed anything.
#[derive(Debug, Default)]
pub struct Recent {
    /// Messages that the broker took in, in order.
    pub intakes: Vec<Intake>,
    /// Whether a node was lost that others have copies of.
    pub has_lost_node: bool,
    /// SUBSCRIBE packets, a filter each.
    pub subscribes: Vec<Subscribe>,
    /// PUBLISH packets to clients, but for those with DUP.
    pub copies: Vec<Copy>,
    /// Messages that came to a client's application.
    pub arrivals: Vec<Arrival>,
    /// Messages that the broker said it dropped.
    pub drops: BTreeMap<(SessionNo, &'static str), usize>,
    /// Sessions that have gone to another node.
    pub moved: BTreeSet<SessionNo>,
    /// Groups, by filter and share name, with a member whose session was over on its way: where it
    /// was to go it may be chosen until that hears of it.
    pub left_while_moving: BTreeSet<(&'static str, &'static str)>,
    /// By the call that they came with.
    unsettled: BTreeMap<Root, Unsettled>,
}

/// One time that the broker took a message in. A repeated PUBLISH of QoS 1 is taken in again.
#[derive(Clone, Debug)]
pub struct Intake {
    /// Which message.
    pub message: MessageNo,
    /// Whose session; nobody's for a will.
    pub session: Option<SessionNo>,
    /// Which shard.
    pub shard: usize,
    /// When.
    pub at: u64,
    /// When all that it set off was done.
    pub settled: Option<u64>,
    /// The time of that.
    pub settled_at: Option<Micros>,
    /// Whether the publisher was told that the broker has it. Always, for a will.
    pub is_acked: bool,
    /// When it was told; never, for a will.
    pub acked_at: Option<u64>,
    /// When it is not to be sent any more.
    pub expires_at: Option<Micros>,
    /// A crash came before anybody was told that the broker has it.
    pub is_doubtful: bool,
    /// How often a node was lost meanwhile that may have given it to a member of a group elsewhere,
    /// and is mailed it again.
    pub again: usize,
    /// Members of groups may be chosen for it after all that it set off was done.
    pub may_be_held: bool,
    /// At QoS 2 the publisher does not wait for that.
    pub is_exact: bool,
}

impl Intake {
    /// When members of groups have been chosen for it: at last when the publisher is told, or
    /// at any time.
    pub fn chosen(&self) -> Option<u64> {
        if !self.may_be_held {
            return self.settled;
        }
        Some(self.settled?.max(self.acked_at?)).filter(|_| !self.is_exact)
    }

    /// Whether it is a will that was on its way in one of these times.
    pub fn is_will_during(&self, times: &[(u64, u64)]) -> bool {
        let is_during = |&(from, to): &(u64, u64)| {
            self.settled.is_none_or(|settled| from <= settled) && self.at <= to
        };
        self.session.is_none() && times.iter().any(is_during)
    }
}

/// One change of a topic's retained message.
#[derive(Clone, Debug)]
pub struct Retain {
    /// The topic.
    pub topic: &'static str,
    /// The message; nothing clears.
    pub message: Option<MessageNo>,
    /// Its place among the intakes since the last calm.
    pub intake: Option<usize>,
    /// On which shard it was published.
    pub shard: usize,
    /// The call that published it, if it is a will: several in one call have no order.
    pub will_of: Option<Root>,
    /// When.
    pub at: u64,
    /// By when the topic's owner had it.
    pub settled: Option<u64>,
    /// When it is gone by itself.
    pub expires_at: Option<Micros>,
    /// Whether it may not have been: it came again, and the first time may have been refused.
    pub is_doubtful: bool,
}

/// A PUBLISH to a client for the first time.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// To whom.
    pub session: SessionNo,
    /// What.
    pub message: MessageNo,
    /// Its RETAIN flag.
    pub retain: bool,
    /// With which QoS.
    pub qos: QoS,
    /// When.
    pub at: u64,
}

/// A message that came to a client's application: for QoS 2, once per exchange.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// To whom.
    pub session: SessionNo,
    /// What.
    pub message: MessageNo,
    /// With which QoS.
    pub qos: QoS,
    /// Its RETAIN flag.
    pub retain: bool,
    /// When.
    pub at: u64,
}

/// What waits for the letters of a call.
#[derive(Debug, Default)]
struct Unsettled {
    intakes: Vec<usize>,
    retains: Vec<u64>,
    subscribes: Vec<usize>,
}

/// The call of a shard that is going on.
#[derive(Debug, Default)]
struct Call {
    root: Option<Root>,
    shard: usize,
    /// Connections that the shard has to close before it returns.
    closing: Vec<ConnNo>,
    /// The connection whose input it is.
    input: Option<ConnNo>,
    /// It, if the shard leaves it open.
    open: Option<ConnNo>,
    /// It, if its client has sent DISCONNECT.
    leaving: Option<ConnNo>,
    /// Clients whose queue ran over, or whose PUBLISH was refused.
    blamed: Vec<ClientNo>,
    wills: Vec<usize>,
}

impl Model {
    /// Nobody is there yet.
    pub fn new(limits: Limits, now: Micros) -> Self {
        Self {
            at: 0,
            now,
            limits,
            conns: Vec::new(),
            sessions: Vec::new(),
            alive: BTreeMap::new(),
            messages: Vec::new(),
            subscriptions: Vec::new(),
            recent: Recent::default(),
            retains: Vec::new(),
            findings: Vec::new(),
            is_logged: false,
            is_copied: false,
            is_pressed: false,
            sent: BTreeSet::new(),
            promised: BTreeMap::new(),
            claimed: BTreeMap::new(),
            orphans: Vec::new(),
            doubtful_wills: BTreeSet::new(),
            wills_on_their_way: Vec::new(),
            call: Call::default(),
        }
    }

    /// Something is wrong.
    pub fn fail(&mut self, checker: Checker, what: String) {
        self.findings.push(Finding { checker, what });
    }

    pub(crate) fn tick(&mut self) -> u64 {
        self.at += 1;
        self.at
    }

    /// A message is there to be published.
    pub fn add_message(&mut self, message: Message) -> MessageNo {
        self.messages.push(message);
        MessageNo(self.messages.len() - 1)
    }

    pub(crate) fn message(&self, number: MessageNo) -> &Message {
        &self.messages[number.0]
    }

    pub(crate) fn session(&self, number: SessionNo) -> &Session {
        &self.sessions[number.0]
    }

    pub(crate) fn subscription(&self, number: SubscriptionNo) -> &Subscription {
        &self.subscriptions[number.0]
    }

    /// A shard is about to be called.
    pub fn begin_call(&mut self, root: Root, shard: usize) {
        self.call = Call { root: Some(root), shard, ..Call::default() };
    }

    /// It has returned.
    pub fn end_call(&mut self) {
        let is_owed_nothing = |conn: &ConnNo| self.conns[conn.0].owed.is_empty();
        // What it is sent may wait for the log.
        let leaving = self.call.leaving.take().filter(|_| !self.is_logged);
        let late = leaving.filter(is_owed_nothing);
        for conn in std::mem::take(&mut self.call.closing).into_iter().chain(late) {
            let what = format!("connection {} should have been closed", conn.0);
            self.fail(Checker::Lifetime, what);
        }
    }

    /// All letters that the call set off have been delivered: what it said is in force everywhere.
    pub fn settled(&mut self, root: Root) {
        let at = self.tick();
        let now = self.now;
        let Some(unsettled) = self.recent.unsettled.remove(&root) else { return };
        for intake in unsettled.intakes {
            let intake = &mut self.recent.intakes[intake];
            (intake.settled, intake.settled_at) = (Some(at), Some(now));
        }
        for retain in &mut self.retains {
            if unsettled.retains.contains(&retain.at) {
                retain.settled = Some(at);
            }
        }
        for subscribe in unsettled.subscribes {
            self.effective(subscribe, at);
        }
    }

    /// Whether what a call took in is not known to be everywhere.
    pub(crate) fn is_unsettled(&self, root: Root) -> bool {
        self.recent.unsettled.contains_key(&root)
    }

    /// The wills that became due with the present call, by their places among the intakes.
    pub(crate) fn wills_of_call(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.call.wills)
    }

    /// Wills that became due before are published only now: from now on they age.
    pub(crate) fn published_late(&mut self, wills: &[usize]) {
        let Self { recent, messages, retains, now, .. } = self;
        for &place in wills {
            let intake = &mut recent.intakes[place];
            let Some(expiry_s) = messages[intake.message.0].expiry_s else { continue };
            intake.expires_at = Some(*now + Micros::from_secs(expiry_s));
            let its = retains.iter_mut().filter(|retain| retain.intake == Some(place));
            its.for_each(|retain| retain.expires_at = intake.expires_at);
        }
    }

    /// The broker took a message in.
    fn take_in(&mut self, message: MessageNo, session: Option<SessionNo>) -> usize {
        let at = self.tick();
        let now = self.now;
        let found = self.message(message);
        let expires_at = found.expiry_s.map(|seconds| now + Micros::from_secs(seconds));
        let (topic, is_retain, is_empty) = (found.topic, found.retain, found.is_empty);
        let is_exact = found.qos == QoS::ExactlyOnce;
        let intake = self.recent.intakes.len();
        self.recent.intakes.push(Intake {
            message,
            session,
            shard: self.call.shard,
            at,
            settled: None,
            settled_at: None,
            is_acked: session.is_none(),
            acked_at: None,
            expires_at,
            is_doubtful: false,
            again: 0,
            may_be_held: self.is_copied,
            is_exact,
        });
        if session.is_none() {
            self.call.wills.push(intake);
        }
        let is_doubtful = self.doubtful_wills.contains(&message);
        let unsettled = self.unsettled();
        unsettled.intakes.push(intake);
        if is_retain {
            unsettled.retains.push(at);
            self.retains.push(Retain {
                topic,
                message: (!is_empty).then_some(message),
                intake: Some(intake),
                shard: self.call.shard,
                will_of: self.call.root.filter(|_| session.is_none()),
                at,
                settled: None,
                expires_at,
                is_doubtful,
            });
        }
        intake
    }

    fn unsettled(&mut self) -> &mut Unsettled {
        // Outside of a call nothing is taken in.
        let root = self.call.root.unwrap_or(Root(0));
        self.recent.unsettled.entry(root).or_default()
    }

    /// The broker has said that it does not take this message.
    fn refuse_intake(&mut self, intake: usize) {
        self.retains.retain(|retain| retain.intake != Some(intake));
    }

    /// A message came to a client's application.
    pub fn arrived(&mut self, conn: ConnNo, message: MessageNo, qos: QoS, retain: bool) {
        let at = self.tick();
        if let Some(session) = self.conns[conn.0].session {
            self.recent.arrivals.push(Arrival { session, message, qos, retain, at });
        }
    }

    /// The retained messages that may be the last of their topic: where two were on their way at
    /// once, either.
    pub fn candidates(&self) -> Vec<Retain> {
        let is_replaced = |old: &Retain| {
            self.retains.iter().any(|new| {
                let is_later = old.settled.is_some_and(|settled| settled < new.at)
                    || (old.shard == new.shard && old.at < new.at);
                let is_together = old.will_of.is_some() && old.will_of == new.will_of;
                new.topic == old.topic && is_later && !is_together && !new.is_doubtful
            })
        };
        self.retains.iter().filter(|retain| !is_replaced(retain)).cloned().collect()
    }

    /// Everything has been delivered and checked.
    pub fn forget(&mut self) {
        self.retains = self.candidates();
        for retain in &mut self.retains {
            retain.intake = None;
            retain.settled.get_or_insert(self.at);
        }
        self.recent = Recent::default();
        let unreleased = self.sessions.iter_mut().flat_map(|it| it.unreleased.values_mut());
        unreleased.for_each(|message| message.intake = None);
    }
}
