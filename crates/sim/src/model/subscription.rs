//! Subscriptions, and from when until when they hold.

use super::{Intake, Model};
use crate::names::{ConnNo, SessionNo, SubscriptionNo};
use crate::topics;
use weir_wire::QoS;
use weir_wire::packet::{RetainHandling, SubscriptionOptions};

/// A session's subscription to a filter.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Whose.
    pub session: SessionNo,
    /// The filter that topics are matched with.
    pub filter: &'static str,
    /// The share name of a shared one.
    pub share: Option<&'static str>,
    /// Its options, each with when they came.
    pub options: Vec<(u64, SubscriptionOptions)>,
    /// When the broker took the SUBSCRIBE in: it may have effect.
    pub noted: u64,
    /// When it must have effect.
    pub effective: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
    /// What was published between the two is not owed: what was changed then, and had not been
    /// promised, was lost in a crash.
    pub unsure: Vec<(u64, u64)>,
    /// Wills that were on their way between the two are not owed: nobody waits for their receipts,
    /// so nobody sends them again to who is in the place of a lost node.
    pub misses_wills: Vec<(u64, u64)>,
}

/// One filter of a SUBSCRIBE.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// The subscription it made or changed.
    pub subscription: SubscriptionNo,
    /// On which connection.
    pub conn: ConnNo,
    /// When the broker took it in.
    pub noted: u64,
    /// When it must have effect.
    pub effective: Option<u64>,
    /// Whether it asks for retained messages.
    pub wants_retained: bool,
    /// A crash came: what was not sent by then is not sent any more.
    pub is_broken: bool,
}

impl Subscription {
    /// Whether it may bring this message: they were there together.
    pub fn may_bring(&self, intake: &Intake, topic: &str) -> bool {
        let settled = if self.share.is_some() { intake.chosen() } else { intake.settled };
        let is_together = settled.is_none_or(|settled| self.noted <= settled)
            && self.ended.is_none_or(|ended| intake.at <= ended);
        is_together
            && topics::matches(self.filter, topic)
            && self.options_during(intake).any(|options| !self.is_own(options, intake))
    }

    /// Whether it must bring this message, with an acknowledgement.
    pub fn must_bring(&self, intake: &Intake, topic: &str) -> bool {
        let is_throughout = self.effective.is_some_and(|effective| effective < intake.at)
            && self.ended.is_none_or(|ended| {
                // [MQTT-4.5.0-1]: it was subscribed when the broker said that it has the message.
                let is_before = |at: Option<u64>| at.is_some_and(|at| at < ended);
                is_before(intake.settled) || is_before(intake.acked_at)
            });
        let is_unsure = |&(from, to): &(u64, u64)| from <= intake.at && intake.at <= to;
        is_throughout
            && !self.may_miss(intake)
            && !self.unsure.iter().any(is_unsure)
            && topics::matches(self.filter, topic)
            && self
                .options_during(intake)
                .all(|options| options.qos > QoS::AtMostOnce && !self.is_own(options, intake))
    }

    /// Whether it is a will that was on its way when the session's node was lost.
    pub fn may_miss(&self, intake: &Intake) -> bool {
        intake.is_will_during(&self.misses_wills)
    }

    fn is_own(&self, options: SubscriptionOptions, intake: &Intake) -> bool {
        options.no_local && intake.session == Some(self.session)
    }

    /// The options that held from when the message was taken in until all was done.
    fn options_during(&self, intake: &Intake) -> impl Iterator<Item = SubscriptionOptions> {
        let last = self.options.iter().rposition(|&(at, _)| at <= intake.at).unwrap_or(0);
        let settled = if self.share.is_some() { intake.chosen() } else { intake.settled };
        let settled = settled.unwrap_or(u64::MAX);
        let from = self.options[last..].iter();
        let first = self.options[last].0;
        from.take_while(move |&&(at, _)| at <= settled || at == first).map(|&(_, options)| options)
    }
}

impl Model {
    /// What of its retained messages a session has not got yet may be sent anew from the beginning,
    /// also what was published meanwhile.
    pub(super) fn may_replay_again(&mut self, session: SessionNo) {
        let noted = self.at;
        let asks = |it: &&Subscribe| {
            it.wants_retained && self.subscriptions[it.subscription.0].session == session
        };
        let is_broken = true;
        let again = |it: &Subscribe| Subscribe { noted, effective: None, is_broken, ..it.clone() };
        let mut again: Vec<Subscribe> =
            self.recent.subscribes.iter().filter(asks).map(again).collect();
        again.sort_by_key(|it| it.subscription.0);
        again.dedup_by_key(|it| it.subscription);
        self.recent.subscribes.extend(again);
    }

    /// A filter of a SUBSCRIBE was taken in. Returns its place among the recent ones.
    pub(super) fn subscribe(
        &mut self,
        conn: ConnNo,
        session: SessionNo,
        text: &'static str,
        options: SubscriptionOptions,
    ) -> usize {
        let at = self.tick();
        let known = self.session(session).subscriptions.get(text).copied();
        let number = known.unwrap_or(SubscriptionNo(self.subscriptions.len()));
        let (filter, share) = topics::split(text);
        if known.is_none() {
            self.subscriptions.push(Subscription {
                session,
                filter,
                share,
                options: Vec::new(),
                noted: at,
                effective: None,
                ended: None,
                unsure: Vec::new(),
                misses_wills: Vec::new(),
            });
            self.sessions[session.0].subscriptions.insert(text, number);
        }
        self.subscriptions[number.0].options.push((at, options));
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => known.is_none(),
            RetainHandling::DontSend => false,
        };
        let place = self.recent.subscribes.len();
        self.recent.subscribes.push(Subscribe {
            subscription: number,
            conn,
            noted: at,
            effective: None,
            wants_retained: wants_retained && share.is_none(),
            is_broken: false,
        });
        self.unsettled().subscribes.push(place);
        place
    }

    pub(super) fn unsubscribe(&mut self, session: SessionNo, text: &str) {
        let at = self.tick();
        if let Some(number) = self.sessions[session.0].subscriptions.remove(text) {
            self.subscriptions[number.0].ended = Some(at);
        }
    }

    /// The filter of a SUBSCRIBE is known everywhere.
    pub(crate) fn effective(&mut self, place: usize, at: u64) {
        let subscribe = &mut self.recent.subscribes[place];
        subscribe.effective.get_or_insert(at);
        let subscription = &mut self.subscriptions[subscribe.subscription.0];
        subscription.effective.get_or_insert(at);
    }
}
