//! The messages of one connection: in, through the rules, out, and acknowledged.
//!
//! A message of QoS 1 is acknowledged when the broker has acknowledged all its results of QoS 1,
//! and in the order in which messages came. Results wait in [`HeldResults`] while the broker's
//! window is full: to stop reading would stop the acknowledgements that open it.
//!
//! A broker that keeps to our Receive Maximum bounds what waits, but not all do. Beyond it
//! messages are taken up to [`OPEN_MAX`], and their results up to a bound of bytes. From the first
//! message for which there is no room on, all are left to the broker until what was taken is
//! settled. Then the connection is made again, and what was left comes again: each connection
//! settles some of it.

use crate::counts::{Count, Counts};
use crate::held::{Held, HeldResults};
use crate::work::Work;
use weir_client::{Client, Event, OPEN_MAX, Sink, Sources};
use weir_connection::Carried;
use weir_flow::Output;
use weir_reactor::{Io, Token};
use weir_wire::packet::Publish;
use weir_wire::{QoS, ReasonCode, Version};

/// A PUBLISH is at most so much longer than its topic and payload: fixed header, length of the
/// topic, packet identifier, length of no properties.
const PUBLISH_BYTES: usize = 5 + 2 + 2 + 1;

/// What a packet's length can say (section 2.1.4).
const PACKET_BYTES_MAX: usize = weir_wire::REMAINING_LENGTH_MAX as usize;

/// The tag of a result whose message waits for no acknowledgement.
const NO_SOURCE: u64 = u64::MAX;

/// The way out of a connection, in one turn.
pub(crate) struct Port<'a> {
    pub(crate) io: &'a mut Io,
    pub(crate) token: Token,
    pub(crate) now_us: u64,
}

impl Sink for Port<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.io.write(self.token, bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}

/// A client with what is open on its connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) counts: Counts,
    sources: Sources,
    held: HeldResults,
    scratch: Vec<u8>,
    /// Reading has stopped, since then, because the broker does not take our output.
    pub(crate) paused_us: Option<u64>,
    /// CONNACK came, and SUBSCRIBE is to be written; with whether the broker had the session.
    pub(crate) subscribe_due: Option<bool>,
    /// Messages that a broker may have open which keeps to what we told it.
    window: usize,
    /// There was no room for a message: it and all after it are left to the broker.
    is_deferring: bool,
    /// Longest packet that the broker takes.
    packet_bytes_max: usize,
}

impl Link {
    /// `receive_maximum` is ours, as a CONNECT of 5.0 says it.
    pub(crate) fn new(version: Version, receive_maximum: u16) -> Self {
        Self {
            client: Client::new(version),
            counts: Counts::default(),
            sources: Sources::default(),
            held: HeldResults::default(),
            scratch: Vec::new(),
            paused_us: None,
            subscribe_due: None,
            window: if version.is_v5() { receive_maximum.into() } else { OPEN_MAX },
            is_deferring: false,
            packet_bytes_max: PACKET_BYTES_MAX,
        }
    }

    /// The broker takes packets up to this length.
    pub(crate) fn limit_packets(&mut self, bytes_max: usize) {
        self.packet_bytes_max = bytes_max.min(PACKET_BYTES_MAX);
    }

    /// A message came.
    #[inline]
    pub(crate) fn message(
        &mut self,
        publish: &Publish<'_>,
        work: &mut impl Work,
        port: &mut Port<'_>,
    ) {
        if publish.packet_id.is_some() && (self.is_deferring || self.sources.len() >= OPEN_MAX) {
            return self.defer();
        }
        // A message before which nothing waits would find no more room another time.
        let is_first = self.sources.is_empty() && self.held.is_empty();
        let begin = |packet_id| self.sources.begin(packet_id, publish.qos);
        let number = publish.packet_id.map(begin);
        let mut has_room = true;
        let now_us = port.now_us;
        let tally = work.apply(publish, now_us, &mut |output| {
            if !has_room || self.result(&output, number, port) {
            } else if number.is_none() || is_first {
                self.counts.add(Count::Overflowed, 1);
            } else {
                has_room = false;
            }
        });
        if !has_room {
            self.sources.take_back();
            return self.defer();
        }
        self.counts.add(Count::Received, 1);
        self.counts.add(Count::Redelivered, u64::from(publish.dup));
        self.counts.add(Count::Matched, tally.matched);
        self.counts.add(Count::Dropped, tally.dropped);
        self.counts.add(Count::Invalid, tally.invalid);
        if number.is_some() {
            self.counts.add(Count::BeyondWindow, u64::from(self.sources.len() > self.window));
            self.acknowledge(port);
        }
    }

    /// Leaves a message to the broker, and all that come after it on this connection: they must be
    /// acknowledged in the order in which they came.
    fn defer(&mut self) {
        self.is_deferring = true;
        self.counts.add(Count::Deferred, 1);
    }

    /// Whether messages were left to the broker and all others are settled: on a new connection
    /// there is room for some of them.
    pub(crate) fn is_to_be_renewed(&self) -> bool {
        self.is_deferring && self.is_settled()
    }

    /// Publishes a result of the message `number`, or keeps it until the window opens. Says
    /// whether there was room for it.
    fn result(&mut self, output: &Output<'_>, number: Option<u64>, port: &mut Port<'_>) -> bool {
        let Output { topic, payload, retain, .. } = *output;
        let qos = if output.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce };
        if PUBLISH_BYTES + topic.len() + payload.len() > self.packet_bytes_max {
            self.counts.add(Count::TooLarge, 1);
            return true;
        }
        let tag = number.unwrap_or(NO_SOURCE);
        let waits = qos == QoS::AtLeastOnce
            && !(self.held.is_empty() && self.client.can_publish(QoS::AtLeastOnce));
        if waits {
            if !self.held.push(&Held { topic, payload, qos, retain, tag }) {
                return false;
            }
        } else {
            let message = (topic, payload, qos, retain);
            let Self { client, scratch, .. } = self;
            let published = client.publish(message, tag, port.now_us, scratch, port);
            debug_assert!(published.is_ok(), "there is room, and what came in came live");
            self.counts.add(Count::Published, 1);
        }
        if let (Some(number), QoS::AtLeastOnce) = (number, qos) {
            self.sources.add_result(number);
        }
        true
    }

    /// The broker has answered a result.
    pub(crate) fn answered(&mut self, tag: u64, reason: ReasonCode, port: &mut Port<'_>) {
        // What is refused now is refused again: to wait for it would hold its message for ever.
        let count = if reason.is_error() { Count::Refused } else { Count::Acknowledged };
        self.counts.add(count, 1);
        if tag != NO_SOURCE {
            self.sources.result_done(tag);
            self.acknowledge(port);
        }
        let Self { client, held, scratch, counts, .. } = self;
        while let Some(Held { topic, payload, qos, retain, tag }) = held.front() {
            let message = (topic, payload, qos, retain);
            if client.publish(message, tag, port.now_us, scratch, port).is_err() {
                break;
            }
            counts.add(Count::Published, 1);
            held.pop();
        }
    }

    fn acknowledge(&mut self, port: &mut Port<'_>) {
        while let Some((packet_id, qos)) = self.sources.pop_done() {
            self.client.acknowledge(packet_id, qos, port.now_us, port);
        }
    }

    /// Results that the broker has not acknowledged, those that wait to be sent included.
    pub(crate) fn open_results(&self) -> u64 {
        u64::from(self.client.open_count()) + self.held.len() as u64
    }

    /// Whether nothing waits for an acknowledgement, on either side.
    pub(crate) fn is_settled(&self) -> bool {
        self.open_results() == 0 && self.sources.is_empty()
    }
}

impl Carried for Link {
    fn is_live(&self) -> bool {
        self.client.is_live()
    }

    fn lost(&mut self) {
        self.counts.add(Count::Lost, 1);
    }

    /// With all that was open on it: what was not acknowledged comes again.
    fn forget(&mut self) {
        (self.paused_us, self.subscribe_due, self.is_deferring) = (None, None, false);
        self.counts.add(Count::Unsettled, self.sources.forget());
        self.client.forget_open();
        self.held.clear();
        self.client.closed();
    }
}
