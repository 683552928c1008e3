//! What is known of each client, and what the clients say, noted.

use super::inspection::{Inspection, Listener};
use crate::audit::{Audit, Received};
use crate::outcome::{Access, Altered, Connections, Operations};
use crate::publisher::Publisher;
use crate::recorder::Recorder;
use crate::rotation::Rotation;
use crate::stamp::Stamp;
use crate::steps::SessionKept;
use weir_client::{Event, Sink};
use weir_reactor::{Io, Token, now_us};
use weir_wire::packet::Publish;
use weir_wire::{PacketId, ReasonCode};

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its turn has not come.
    Planned,
    /// connect() is under way, or CONNACK is awaited.
    Connecting,
    /// CONNACK has come; this turn it subscribes.
    Accepted,
    /// SUBACKs are awaited.
    Subscribing,
    /// Connected and subscribed.
    Ready,
    /// Never connected, or its subscription was refused or never answered.
    Failed,
    /// Not connected for now: it comes, or comes back.
    Away,
    /// Was connected, and the other side ended that.
    Dropped,
    /// The run is over for it.
    Done,
}

/// One client beside its protocol state.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) token: Option<Token>,
    pub(crate) group: u16,
    /// Subscriptions not yet answered.
    pub(crate) subscriptions_open: u16,
    /// Index among all clients of the plan.
    pub(crate) client: u32,
    /// Index within its group.
    pub(crate) index: u32,
    /// Which node of the broker it is connected to, or tries.
    pub(crate) rotation: Rotation,
    /// The worst that has become of its session.
    pub(crate) session: SessionKept,
    /// Its publisher, if it is one.
    pub(crate) publisher: Option<u32>,
    /// When the operation under way was begun.
    pub(crate) asked_us: u64,
    /// When TCP was there, where a handshake follows; else 0.
    pub(crate) reached_us: u64,
    /// When that was over.
    pub(crate) opened_us: u64,
    /// When its last subscription was granted; the end of time while one is open.
    pub(crate) subscribed_us: u64,
    /// Whether it subscribed anew while no message of QoS 1 or 2 was open.
    pub(crate) was_quiet: bool,
    /// When its connection ended, until it is ready again; 0 for one that never did.
    pub(crate) lost_us: u64,
    /// When something last came.
    pub(crate) heard_us: u64,
    /// When PINGREQ was last asked for.
    pub(crate) pinged_us: u64,
    /// Whether the broker said so in its last CONNACK.
    pub(crate) has_session: bool,
    /// Whether its session has its subscriptions: each was answered.
    pub(crate) is_subscribed: bool,
    /// Until when it reads nothing.
    pub(crate) stalled_until_us: u64,
    /// Whether it stands in the heap of pings.
    pub(crate) is_pinging: bool,
    /// What the broker's DISCONNECT said, if one came.
    pub(crate) disconnect: Option<ReasonCode>,
}

/// Everything but the clients themselves and the reactor, so that a client can be borrowed while
/// what it says is noted.
pub(crate) struct Book {
    pub(crate) slots: Vec<Slot>,
    pub(crate) publishers: Vec<Publisher>,
    pub(crate) audit: Audit,
    pub(super) inspection: Inspection,
    pub(crate) recorder: Recorder,
    pub(crate) connections: Connections,
    pub(crate) subscriptions: Operations,
    /// What the last CONNECT went over and said.
    pub(crate) access: Option<Access>,
    /// Deliveries owed for what is accepted so far.
    pub(crate) owed: u64,
    /// Messages of QoS 1 and 2 sent and not acknowledged.
    pub(crate) open: u64,
    /// Messages due and not sent.
    pub(crate) backlog: u64,
    /// Time of the read being handled.
    pub(crate) read_us: u64,
    /// Clients that are Ready now.
    pub(crate) ready: u64,
    /// Clients with CONNACK that are still there.
    pub(crate) live: u64,
    /// Connections that failed without a word of the broker, and since when.
    pub(crate) unreachable: u64,
    pub(crate) unreachable_since_us: Option<u64>,
    pub(crate) last_cause: String,
    /// Deliveries not timed: the publisher's clock is not ours.
    pub(crate) unclocked: u64,
}

/// The sink of one client for one call.
pub(super) struct ClientSink<'a> {
    pub(super) io: &'a mut Io,
    pub(super) token: Token,
    pub(super) client: u32,
    pub(super) book: &'a mut Book,
}

impl Sink for ClientSink<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.io.write(self.token, bytes);
    }

    #[inline]
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Message(publish) => {
                self.book.message(self.client, Stamp::find(publish.payload), &publish);
            }
            Event::Acknowledged { tag, reason } => self.book.acknowledged(self.client, tag, reason),
            Event::Connected { session_present } => {
                self.book.connected(self.client, session_present);
            }
            Event::Refused(reason) => {
                self.book.refused(self.client, &format!("refused: {}", reason.name()));
            }
            Event::Subscribed { packet_id, codes } => {
                self.book.subscribed(self.client, packet_id, codes);
            }
            Event::Disconnected(reason) => {
                self.book.slots[self.client as usize].disconnect = Some(reason);
            }
            Event::Unsubscribed { .. } => {}
        }
    }
}

impl Book {
    #[inline]
    fn message(&mut self, client: u32, stamp: Option<Stamp>, publish: &Publish<'_>) {
        let publisher_of = |stamp: &Stamp| self.publishers.get(stamp.publisher as usize);
        let was_sent =
            |stamp: &Stamp| publisher_of(stamp).is_some_and(|of| stamp.sequence < of.sent);
        // A broker may publish a will before the client is to be cut, if it loses the connection.
        let is_will = |stamp: &Stamp| publisher_of(stamp).is_some_and(|of| of.is_will);
        let (stamp, unsent) = match stamp {
            Some(stamp) if was_sent(&stamp) => (Some(stamp), None),
            unsent => (None, unsent.filter(|stamp| !is_will(stamp))),
        };
        let (received, is_measured) = match unsent {
            Some(unsent) => (self.audit.unsent(unsent), false),
            None => self.audit.receive(client, stamp, publish.dup),
        };
        let counts = &mut self.recorder.counts;
        counts.received += 1;
        if received != Received::Stray
            && let Some(stamp) = stamp
        {
            let publisher = &self.publishers[stamp.publisher as usize];
            let &Slot { group, index, asked_us, subscribed_us, was_quiet, rotation, .. } =
                &self.slots[client as usize];
            self.recorder.counts.crossed += u64::from(rotation.node() != publisher.node);
            let to = Listener { group, index, asked_us, subscribed_us, was_quiet };
            let altered = self.inspection.altered(publisher, to, stamp, publish);
            if altered != Altered::default() {
                self.audit.note_altered(client, stamp, altered);
            }
        }
        let counts = &mut self.recorder.counts;
        match received {
            Received::First => {}
            Received::Reordered => counts.reordered += 1,
            Received::Duplicated => {
                counts.duplicated += 1;
                return;
            }
            Received::Late | Received::Stray => return,
        }
        let Some(stamp) = stamp else { return };
        let publisher = &self.publishers[stamp.publisher as usize];
        if !publisher.is_clocked {
            self.unclocked += u64::from(is_measured);
            return;
        }
        let intended_us = if publish.retain || stamp.intended_us == 0 {
            self.owed_since_us(client, stamp)
        } else {
            stamp.intended_us
        };
        let latency_us = self.read_us.saturating_sub(intended_us);
        self.recorder.end_to_end.record(latency_us, is_measured);
        if is_measured && let Some(delay_us) = publisher.delay_us(stamp.sequence) {
            self.recorder.from_send.saturating_record(latency_us.saturating_sub(delay_us));
        }
    }

    /// A retained message that waited for its subscriber is owed from SUBSCRIBE on, a will from
    /// when its client was to be cut.
    #[cold]
    fn owed_since_us(&self, client: u32, stamp: Stamp) -> u64 {
        let publisher = &self.publishers[stamp.publisher as usize];
        let intended_us = if publisher.is_will { publisher.cut_us } else { stamp.intended_us };
        intended_us.max(self.slots[client as usize].asked_us)
    }

    fn acknowledged(&mut self, client: u32, tag: u64, reason: ReasonCode) {
        let Some(at) = self.slots[client as usize].publisher else { return };
        let sequence = tag as u32;
        self.open -= 1;
        if reason.is_error() {
            self.publishers[at as usize].refused.push(sequence);
            self.recorder.counts.publish_failures += 1;
            return;
        }
        self.owed += u64::from(self.audit.receivers_of(at));
        self.recorder.counts.acknowledged += 1;
        let latency_us = (self.read_us as u32).wrapping_sub((tag >> 32) as u32);
        let is_measured = self.audit.is_measured(at, sequence);
        self.recorder.acknowledge.record(u64::from(latency_us), is_measured);
        if is_measured && let Some(delay_us) = self.publishers[at as usize].delay_us(sequence) {
            let latency_us = u64::from(latency_us) + delay_us;
            self.recorder.acknowledge_from_intended.saturating_record(latency_us);
        }
    }

    fn connected(&mut self, client: u32, session_present: bool) {
        let slot = &mut self.slots[client as usize];
        slot.state = State::Accepted;
        slot.has_session = session_present;
        slot.is_subscribed &= session_present;
        slot.rotation.arrive();
        if let Some(publisher) = slot.publisher {
            self.publishers[publisher as usize].node = slot.rotation.node();
        }
        let latency_us = self.read_us.saturating_sub(slot.asked_us);
        self.live += 1;
        self.connections.connected += u64::from(slot.lost_us == 0);
        self.recorder.counts.connected += 1;
        self.recorder.connect.record(latency_us, true);
        let &mut Slot { asked_us, reached_us, opened_us, .. } = slot;
        if reached_us > 0 {
            self.recorder.parts.record([asked_us, reached_us, opened_us, self.read_us]);
        }
    }

    /// The client never got a connection, and not because the broker said so.
    pub(super) fn unreachable(&mut self, client: u32, cause: &str) {
        self.unreachable += 1;
        self.unreachable_since_us.get_or_insert_with(now_us);
        self.failed(client, cause);
    }

    /// CONNACK says no. One that was there before tries again: the engine counts that.
    fn refused(&mut self, client: u32, cause: &str) {
        let slot = &mut self.slots[client as usize];
        if slot.lost_us == 0 {
            return self.failed(client, cause);
        }
        slot.state = State::Failed;
        cause.clone_into(&mut self.last_cause);
    }

    /// The client never got a connection.
    pub(super) fn failed(&mut self, client: u32, cause: &str) {
        let slot = &mut self.slots[client as usize];
        slot.state = State::Failed;
        self.recorder.counts.connect_failures += 1;
        cause.clone_into(&mut self.last_cause);
        *self.connections.failed.entry(cause.to_owned()).or_default() += 1;
    }

    /// The other side ended the client's connection.
    pub(super) fn dropped(&mut self, client: u32, cause: &str) {
        let slot = &mut self.slots[client as usize];
        if slot.state == State::Ready {
            self.ready -= 1;
        }
        slot.state = State::Dropped;
        slot.session = SessionKept::Away;
        self.live -= 1;
        self.recorder.counts.connect_failures += 1;
        let cause = match slot.disconnect {
            Some(reason) => format!("DISCONNECT: {}", reason.name()),
            None => cause.to_owned(),
        };
        *self.connections.dropped.entry(cause).or_default() += 1;
    }

    fn subscribed(&mut self, client: u32, packet_id: PacketId, codes: &[u8]) {
        let slot = &mut self.slots[client as usize];
        let asked = self.inspection.take_request(client, slot.group, packet_id);
        let latency_us = self.read_us.saturating_sub(slot.asked_us);
        slot.subscriptions_open = slot.subscriptions_open.saturating_sub(1);
        let is_done = slot.subscriptions_open == 0 && slot.state == State::Subscribing;
        if is_done {
            slot.state = State::Ready;
            slot.is_subscribed = true;
            slot.subscribed_us = self.read_us;
            self.ready += 1;
        }
        match codes.first() {
            Some(&code) if code < 0x80 => {
                self.subscriptions.granted += 1;
                if let Some(asked) = asked.filter(|&asked| asked as u8 != code) {
                    let text = format!("QoS {code} instead of {}", asked as u8);
                    *self.subscriptions.other_qos.entry(text).or_default() += 1;
                }
                self.recorder.counts.subscribed += 1;
                self.recorder.subscribe.record(latency_us, true);
            }
            code => {
                let reason = code.and_then(|&code| ReasonCode::from_u8(code));
                self.unsubscribed(reason.map_or("refused", ReasonCode::name));
            }
        }
    }

    pub(super) fn unsubscribed(&mut self, cause: &str) {
        self.recorder.counts.subscribe_failures += 1;
        *self.subscriptions.failed.entry(cause.to_owned()).or_default() += 1;
    }

    /// What was seen of a broker that went away.
    pub(super) fn seen_of_broker(&self) -> String {
        let Connections { connected, dropped, .. } = &self.connections;
        let Some((cause, _)) = dropped.iter().max_by_key(|(_, count)| **count) else {
            return format!("no connection could be made: {}", self.last_cause);
        };
        let dropped: u64 = dropped.values().sum();
        format!("{dropped} of {connected} connections were ended by the broker's side: {cause}")
    }
}
