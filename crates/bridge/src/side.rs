//! A bridge's client at one end: what it has asked for there, and what may be sent to it.

use crate::settings::Dialect;
use crate::topics::{End, Routes, Topic};
use weir_client::{Client, ServerLimits, Sink, Sources};
use weir_wire::packet::{RetainHandling, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf};
use weir_wire::{Properties, QoS};

/// With which QoS messages are relayed at most. A client that has lost what it knew of messages of
/// QoS 2, as one does that is started again, would use their identifiers for others, which the
/// broker would then take for those. So what is to arrive is relayed at least once.
pub(crate) const QOS_MAX: QoS = QoS::AtLeastOnce;

/// Filters of one SUBSCRIBE: there are brokers that take no more.
const FILTERS_MAX: usize = 8;

/// Where the bytes of both clients go.
pub(crate) trait Port {
    /// Appends to the connection's output.
    fn write(&mut self, end: End, bytes: &[u8]);

    /// Bytes that wait in it.
    fn pending(&self, end: End) -> usize;
}

/// What the sessions at both ends may have subscribed to, and is not wanted any more.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    pub(crate) local: Vec<String>,
    pub(crate) remote: Vec<String>,
}

impl Stale {
    /// What these topics subscribe to.
    pub(crate) fn add(&mut self, topics: &[Topic]) {
        let Self { local, remote } = self;
        for (end, stale) in [(End::Local, local), (End::Remote, remote)] {
            let routes = Routes::from(end, topics);
            stale.extend(routes.filters().into_iter().map(|(filter, _)| filter.to_owned()));
            stale.sort_unstable();
            stale.dedup();
        }
    }

    /// What these topics subscribe to is wanted.
    pub(crate) fn take_out(&mut self, topics: &[Topic]) {
        let Self { local, remote } = self;
        for (end, stale) in [(End::Local, local), (End::Remote, remote)] {
            let routes = Routes::from(end, topics);
            let wanted = routes.filters();
            stale.retain(|filter| wanted.iter().all(|(other, _)| other != filter));
        }
    }
}

/// The client at one end.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) client: Client,
    /// What comes from here and is not acknowledged here yet.
    pub(crate) sources: Sources,
    /// Where that goes.
    pub(crate) routes: Routes,
    /// As the CONNACK said it last.
    pub(crate) limits: ServerLimits,
    /// What the session may have subscribed to, and is not wanted any more.
    pub(crate) stale: Vec<String>,
    /// The broker has acknowledged the subscriptions of the session that it had last.
    is_subscribed: bool,
    /// SUBACK and UNSUBACK.
    acks_due: usize,
    /// The client is connected, and subscribed if there is something to subscribe to.
    pub(crate) is_ready: bool,
    /// There was no room for a message: it and all after it are left to this broker.
    pub(crate) is_deferring: bool,
}

impl Side {
    pub(crate) fn new(routes: Routes, stale: Vec<String>, dialect: Dialect) -> Self {
        Self {
            client: Client::new(dialect.version()),
            sources: Sources::default(),
            routes,
            limits: ServerLimits::NONE,
            stale,
            is_subscribed: false,
            acks_due: 0,
            is_ready: false,
            is_deferring: false,
        }
    }

    /// The connection is gone, with all that was open on it: it comes again on another.
    pub(crate) fn forget(&mut self) {
        self.client.closed();
        self.client.forget_open();
        self.sources.forget();
        (self.acks_due, self.is_ready, self.is_deferring) = (0, false, false);
    }

    /// Writes UNSUBSCRIBE for what is stale, and SUBSCRIBE for all filters, unless the broker has
    /// what this process asked for.
    pub(crate) fn subscribe(
        &mut self,
        dialect: Dialect,
        session_present: bool,
        now_us: u64,
        out: &mut impl Sink,
    ) {
        if !session_present {
            self.stale.clear();
        }
        self.unsubscribe(now_us, out);
        if session_present && self.is_subscribed || self.routes.is_empty() {
            self.is_ready = self.acks_due == 0;
            return;
        }
        self.is_subscribed = false;
        let is_v5 = dialect == Dialect::V5;
        let retain_handling = match session_present && is_v5 {
            true => RetainHandling::SendIfNew,
            false => RetainHandling::Send,
        };
        for filters in self.routes.filters().chunks(FILTERS_MAX) {
            let mut packet = SubscribeBuf::new();
            for &(filter, qos) in filters {
                packet.push(
                    filter,
                    SubscriptionOptions {
                        qos: qos.min(QOS_MAX),
                        no_local: is_v5,
                        retain_as_published: is_v5,
                        retain_handling,
                    },
                );
            }
            self.client.subscribe_with(&packet, Properties::EMPTY, now_us, out);
            self.acks_due += 1;
        }
    }

    fn unsubscribe(&mut self, now_us: u64, out: &mut impl Sink) {
        for filters in self.stale.chunks(FILTERS_MAX) {
            let mut packet = UnsubscribeBuf::new();
            filters.iter().for_each(|filter| packet.push(filter));
            self.client.unsubscribe_with(&packet, Properties::EMPTY, now_us, out);
            self.acks_due += 1;
        }
    }

    /// A SUBACK or UNSUBACK came. Says whether it was the last.
    pub(crate) fn subscribed(&mut self) -> bool {
        self.acks_due = self.acks_due.saturating_sub(1);
        self.is_ready = self.acks_due == 0;
        self.is_subscribed = self.is_ready && !self.routes.is_empty();
        if self.is_ready {
            self.stale.clear();
        }
        self.is_ready
    }

    /// Acknowledges what waits for nothing any more.
    pub(crate) fn acknowledge(&mut self, now_us: u64, out: &mut impl Sink) {
        while let Some((packet_id, qos)) = self.sources.pop_done() {
            self.client.acknowledge(packet_id, qos, now_us, out);
        }
    }

    /// Whether messages were left to the broker and all others are settled: on a new connection
    /// there is room for some of them.
    pub(crate) fn is_to_be_renewed(&self) -> bool {
        self.is_deferring && self.sources.is_empty()
    }
}
