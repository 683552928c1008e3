//! The client's state machine.

use crate::error::{ClientError, PublishError, never_sent};
use crate::open::{Open, OpenMessage, Step, Tagged};
use crate::options::ConnectOptions;
use crate::sink::{Event, Sink};
use weir_wire::packet::{
    Ack, ConnAck, Connect, Disconnect, PINGREQ, Publish, SubscribeBuf, SubscriptionOptions,
    UnsubscribeBuf,
};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode,
    Version,
};

/// Largest PUBLISH taken from a server that has accepted the client.
const MESSAGE_BYTES_MAX: u32 = weir_wire::REMAINING_LENGTH_MAX;

/// Largest other packet taken from a server: room for a reason string and some user properties, or
/// the codes of as many filters. Nobody has asked for more.
pub const ANSWER_BYTES_MAX: u32 = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    AwaitConnAck,
    Live,
    Ended,
}

/// One client. About 150 bytes, and no heap while nothing is open.
#[derive(Debug)]
pub struct Client {
    version: Version,
    phase: Phase,
    receive_maximum: u16,
    keep_alive_us: u64,
    /// When something was last written.
    written_us: u64,
    open: Open,
    /// QoS 2 messages received and not yet released, sorted.
    unreleased: Vec<PacketId>,
    /// The server had a session: it may answer what another client of this identifier sent.
    is_resumed: bool,
    /// Topic Alias Maximum of our CONNECT, and the topics the server has set, from alias 1 on.
    alias_maximum: u16,
    aliases: Vec<Box<str>>,
    /// SUBSCRIBE and UNSUBSCRIBE that are not answered yet.
    requests: Vec<Request>,
}

/// A packet that asks for a SUBACK or an UNSUBACK.
#[derive(Clone, Copy, Debug)]
struct Request {
    packet_id: PacketId,
    /// Of the answer.
    kind: PacketKind,
    filters: usize,
}

impl Client {
    /// A client that is not connected.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            phase: Phase::New,
            receive_maximum: u16::MAX,
            keep_alive_us: 0,
            written_us: 0,
            open: Open::default(),
            unreleased: Vec::new(),
            is_resumed: false,
            alias_maximum: 0,
            aliases: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Whether CONNACK has come and nothing has ended since.
    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Messages published and not yet acknowledged: their tags, oldest first.
    pub fn open_tags(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.tags()
    }

    /// How many messages are published and not yet acknowledged.
    pub fn open_count(&self) -> u16 {
        self.open.count()
    }

    /// What is published and not yet acknowledged, oldest first: to be written again once a
    /// server that has the session is connected to (section 4.4 of both standards).
    pub fn open_messages(&self) -> impl Iterator<Item = OpenMessage> + '_ {
        self.open.messages()
    }

    /// Forgets them and returns their tags, oldest first: the server has no session any more.
    pub fn forget_open(&mut self) -> Vec<u64> {
        let tags = self.open.tags().collect();
        self.open = Open::default();
        tags
    }

    /// Writes CONNECT.
    pub fn connect(&mut self, options: &ConnectOptions<'_>, now_us: u64, sink: &mut impl Sink) {
        let mut properties = PropertiesBuf::new();
        if options.version.is_v5() && options.session_expiry_s > 0 {
            properties.push(Property::SessionExpiryInterval(options.session_expiry_s));
        }
        let connect = Connect {
            version: options.version,
            clean_start: options.clean_start,
            keep_alive_s: options.keep_alive_s,
            client_id: options.client_id,
            will: None,
            user_name: options.user_name,
            password: options.password,
            properties: properties.as_properties(),
        };
        self.connect_with(&connect, now_us, sink);
    }

    /// Writes this CONNECT, with its will and properties. After a lost connection the same client
    /// may connect again: if the server has the session, QoS 2 messages told already are not told
    /// again.
    pub fn connect_with(&mut self, connect: &Connect<'_>, now_us: u64, sink: &mut impl Sink) {
        let mut bytes = Vec::with_capacity(64);
        connect.encode(&mut bytes);
        let alias_maximum = |property| match property {
            Property::TopicAliasMaximum(maximum) => Some(maximum),
            _ => None,
        };
        self.version = connect.version;
        self.phase = Phase::AwaitConnAck;
        self.keep_alive_us = u64::from(connect.keep_alive_s) * 1_000_000;
        self.alias_maximum = connect.properties.find(alias_maximum).unwrap_or(0);
        self.aliases.clear();
        self.requests = Vec::new();
        self.receive_maximum = u16::MAX;
        self.written_us = now_us;
        sink.write(&bytes);
    }

    /// Writes SUBSCRIBE for one filter.
    pub fn subscribe(
        &mut self,
        filter: &str,
        qos: QoS,
        now_us: u64,
        sink: &mut impl Sink,
    ) -> PacketId {
        let mut filters = SubscribeBuf::new();
        filters.push(filter, SubscriptionOptions { qos, ..SubscriptionOptions::default() });
        self.subscribe_with(&filters, Properties::EMPTY, now_us, sink)
    }

    /// Writes SUBSCRIBE for at least one filter; one SUBACK answers them all.
    pub fn subscribe_with(
        &mut self,
        filters: &SubscribeBuf,
        properties: Properties<'_>,
        now_us: u64,
        sink: &mut impl Sink,
    ) -> PacketId {
        let packet_id = self.open.push(None);
        let mut bytes = Vec::with_capacity(64);
        let subscribe = filters.subscribe(self.version, packet_id, properties);
        subscribe.encode(self.version, &mut bytes);
        let filters = subscribe.filters().count();
        self.requests.push(Request { packet_id, kind: PacketKind::SubAck, filters });
        self.written_us = now_us;
        sink.write(&bytes);
        packet_id
    }

    /// Writes UNSUBSCRIBE for one filter.
    pub fn unsubscribe(&mut self, filter: &str, now_us: u64, sink: &mut impl Sink) -> PacketId {
        let mut filters = UnsubscribeBuf::new();
        filters.push(filter);
        self.unsubscribe_with(&filters, Properties::EMPTY, now_us, sink)
    }

    /// Writes UNSUBSCRIBE for at least one filter; one UNSUBACK answers them all.
    pub fn unsubscribe_with(
        &mut self,
        filters: &UnsubscribeBuf,
        properties: Properties<'_>,
        now_us: u64,
        sink: &mut impl Sink,
    ) -> PacketId {
        let packet_id = self.open.push(None);
        let mut bytes = Vec::with_capacity(64);
        let unsubscribe = filters.unsubscribe(packet_id, properties);
        unsubscribe.encode(self.version, &mut bytes);
        let filters = unsubscribe.filters().count();
        self.requests.push(Request { packet_id, kind: PacketKind::UnsubAck, filters });
        self.written_us = now_us;
        sink.write(&bytes);
        packet_id
    }

    /// Whether a message of this QoS could be published now.
    #[inline]
    pub fn can_publish(&self, qos: QoS) -> bool {
        self.is_live() && (qos == QoS::AtMostOnce || self.open.has_room(self.receive_maximum))
    }

    /// Writes PUBLISH. At QoS 1 and 2 an [`Event::Acknowledged`] with `tag` follows. `scratch` is
    /// the caller's memory for encoding.
    ///
    /// # Errors
    /// Not connected, or the window is full; then nothing is written.
    #[inline]
    pub fn publish(
        &mut self,
        message: (&str, &[u8], QoS, bool),
        tag: u64,
        now_us: u64,
        scratch: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), PublishError> {
        self.publish_with(message, Properties::EMPTY, tag, now_us, scratch, sink)
    }

    /// As [`Client::publish`], with properties. The topic may be empty if they hold a topic alias
    /// that the server knows.
    ///
    /// # Errors
    /// Not connected, or the window is full; then nothing is written.
    #[inline]
    pub fn publish_with(
        &mut self,
        message: (&str, &[u8], QoS, bool),
        properties: Properties<'_>,
        tag: u64,
        now_us: u64,
        scratch: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), PublishError> {
        let (topic, payload, qos, retain) = message;
        if !self.is_live() {
            return Err(PublishError::NotConnected);
        }
        if !self.can_publish(qos) {
            return Err(PublishError::WindowFull);
        }
        let packet_id = match qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => Some(self.open.push(Some(Tagged { tag, step: Step::Acknowledge }))),
            QoS::ExactlyOnce => Some(self.open.push(Some(Tagged { tag, step: Step::Receive }))),
        };
        scratch.clear();
        Publish { dup: false, qos, retain, topic, packet_id, properties, payload }
            .encode(self.version, scratch);
        self.written_us = now_us;
        sink.write(scratch);
        Ok(())
    }

    /// Writes DISCONNECT; nothing more will come.
    pub fn disconnect(&mut self, sink: &mut impl Sink) {
        let reason = ReasonCode::Success;
        self.disconnect_with(&Disconnect { reason, properties: Properties::EMPTY }, sink);
    }

    /// Writes this DISCONNECT, of which versions before 5.0 say neither reason nor properties;
    /// nothing more will come.
    pub fn disconnect_with(&mut self, disconnect: &Disconnect<'_>, sink: &mut impl Sink) {
        if self.phase == Phase::Live {
            let mut bytes = Vec::with_capacity(4);
            disconnect.encode(self.version, &mut bytes);
            sink.write(&bytes);
        }
        self.phase = Phase::Ended;
    }

    /// The connection is gone: nothing is written until the client connects again.
    pub fn closed(&mut self) {
        self.phase = Phase::Ended;
    }

    /// When [`Client::handle_timeout`] is to be called, in microseconds; later if something is
    /// written meanwhile.
    pub fn poll_timeout(&self) -> Option<u64> {
        let is_on = self.phase == Phase::Live && self.keep_alive_us > 0;
        is_on.then_some(self.written_us + self.keep_alive_us)
    }

    /// Writes PINGREQ if nothing was written for the keep alive \[MQTT-3.1.2-20\].
    pub fn handle_timeout(&mut self, now_us: u64, sink: &mut impl Sink) {
        if self.poll_timeout().is_some_and(|due_us| due_us <= now_us) {
            self.written_us = now_us;
            sink.write(&PINGREQ);
        }
    }

    /// The PUBLISH at the start of `bytes` and its length, if there is a whole one and the client
    /// is connected: for a caller that acknowledges messages itself, with
    /// [`Client::acknowledge`], and hands everything else to [`Client::handle`], which answers
    /// PUBREL too. It must have announced no topic aliases. A message of QoS 2 is returned each
    /// time it comes: to keep it from happening twice is the caller's.
    ///
    /// # Errors
    /// What no server may send, a topic alias; the connection is to be ended.
    #[inline]
    pub fn peek_message<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<Option<(Publish<'a>, usize)>, ClientError> {
        const PUBLISH: u8 = PacketKind::Publish as u8;
        if self.phase != Phase::Live || bytes.first().is_none_or(|first| first >> 4 != PUBLISH) {
            return Ok(None);
        }
        let Some(frame) = self.frame(bytes)? else { return Ok(None) };
        let Packet::Publish(publish) = Packet::decode(self.version, frame)? else {
            return Ok(None);
        };
        let is_alias = |property| matches!(property, Property::TopicAlias(_)).then_some(());
        if !publish.properties.is_empty() && publish.properties.find(is_alias).is_some() {
            return Err(ClientError::Protocol("a topic alias above the maximum"));
        }
        Ok(Some((publish, frame.bytes)))
    }

    /// Writes PUBACK or PUBREC for a message of QoS 1 or 2 that [`Client::peek_message`] returned
    /// on this connection. The order must be that of the messages \[MQTT-4.6.0-2\],
    /// \[MQTT-4.6.0-3\].
    #[inline]
    pub fn acknowledge(
        &mut self,
        packet_id: PacketId,
        qos: QoS,
        now_us: u64,
        sink: &mut impl Sink,
    ) {
        if self.phase == Phase::Live {
            let kind = match qos {
                QoS::ExactlyOnce => PacketKind::PubRec,
                QoS::AtMostOnce | QoS::AtLeastOnce => PacketKind::PubAck,
            };
            self.answer(kind, packet_id, now_us, sink);
        }
    }

    /// The packet at the start of `bytes`, not yet decoded, if it is all there.
    ///
    /// # Errors
    /// What is no packet, or one that is longer than any that is taken now: that is known before
    /// it is there, so that no server makes a client keep more.
    #[inline]
    pub fn frame<'a>(&self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, ClientError> {
        const PUBLISH: u8 = PacketKind::Publish as u8;
        let is_message = bytes.first().is_some_and(|first| first >> 4 == PUBLISH);
        let is_live = self.phase == Phase::Live;
        let bytes_max = if is_message && is_live { MESSAGE_BYTES_MAX } else { ANSWER_BYTES_MAX };
        Ok(Frame::check(bytes, bytes_max)?)
    }

    /// Bytes came in, those not consumed the last time first. Returns how many were consumed.
    ///
    /// # Errors
    /// What no server may send; the connection is to be ended.
    pub fn handle(
        &mut self,
        bytes: &[u8],
        now_us: u64,
        sink: &mut impl Sink,
    ) -> Result<usize, ClientError> {
        let mut at = 0;
        while let Some(frame) = self.frame(&bytes[at..])? {
            if self.phase == Phase::Ended {
                return Ok(bytes.len());
            }
            at += frame.bytes;
            self.packet(Packet::decode(self.version, frame)?, now_us, sink)?;
        }
        Ok(at)
    }

    fn packet(
        &mut self,
        packet: Packet<'_>,
        now_us: u64,
        sink: &mut impl Sink,
    ) -> Result<(), ClientError> {
        sink.packet(&packet);
        if self.phase == Phase::AwaitConnAck {
            let Packet::ConnAck(connack) = packet else {
                return Err(ClientError::Protocol("a packet before CONNACK"));
            };
            self.connack(&connack, sink);
            return Ok(());
        }
        match packet {
            Packet::Publish(publish) => self.message(publish, now_us, sink)?,
            Packet::PubAck(ack) => self.finish(&ack, Step::Acknowledge, sink)?,
            Packet::PubRec(ack) => self.pubrec(&ack, now_us, sink)?,
            Packet::PubComp(ack) => self.finish(&ack, Step::Complete, sink)?,
            Packet::PubRel(ack) => {
                if let Ok(at) = self.unreleased.binary_search(&ack.packet_id) {
                    self.unreleased.remove(at);
                }
                self.answer(PacketKind::PubComp, ack.packet_id, now_us, sink);
            }
            Packet::SubAck(suback) => {
                let (packet_id, codes) = (suback.packet_id, suback.codes);
                // [MQTT-3.8.4-6]
                if self.requested(PacketKind::SubAck, packet_id)? != codes.len() {
                    let rule = "a SUBACK with another number of codes than there were filters";
                    return Err(ClientError::Protocol(rule));
                }
                sink.event(Event::Subscribed { packet_id, codes });
            }
            Packet::UnsubAck(unsuback) => {
                let filters = self.requested(PacketKind::UnsubAck, unsuback.packet_id)?;
                // [MQTT-3.11.3-1], since 5.0
                if self.version.is_v5() && filters != unsuback.codes.len() {
                    let rule = "an UNSUBACK with another number of codes than there were filters";
                    return Err(ClientError::Protocol(rule));
                }
                sink.event(Event::Unsubscribed { packet_id: unsuback.packet_id });
            }
            Packet::PingResp => {}
            Packet::Disconnect(disconnect) if self.version.is_v5() => {
                self.phase = Phase::Ended;
                sink.event(Event::Disconnected(disconnect.reason));
            }
            packet => return Err(ClientError::Protocol(never_sent(&packet))),
        }
        Ok(())
    }

    /// The request that is answered is done. Says how many filters it had.
    fn requested(&mut self, kind: PacketKind, packet_id: PacketId) -> Result<usize, ClientError> {
        let is_it = |one: &Request| one.kind == kind && one.packet_id == packet_id;
        let Some(at) = self.requests.iter().position(is_it) else {
            let rule = "a SUBACK or UNSUBACK of something that was not asked for";
            return Err(ClientError::Protocol(rule));
        };
        let filters = self.requests.swap_remove(at).filters;
        if self.requests.is_empty() {
            self.requests = Vec::new();
        }
        Ok(filters)
    }

    fn connack(&mut self, connack: &ConnAck<'_>, sink: &mut impl Sink) {
        if connack.reason.is_error() {
            self.phase = Phase::Ended;
            return sink.event(Event::Refused(connack.reason));
        }
        self.phase = Phase::Live;
        self.is_resumed = connack.session_present;
        if !connack.session_present {
            // The server forgot what it owes an end: the identifiers are new messages'.
            self.unreleased.clear();
        }
        for property in connack.properties.iter() {
            match property {
                Property::ReceiveMaximum(maximum) => self.receive_maximum = maximum,
                Property::ServerKeepAlive(seconds) => {
                    self.keep_alive_us = u64::from(seconds) * 1_000_000;
                }
                _ => {}
            }
        }
        sink.event(Event::Connected { session_present: connack.session_present });
    }

    #[inline]
    fn message(
        &mut self,
        publish: Publish<'_>,
        now_us: u64,
        sink: &mut impl Sink,
    ) -> Result<(), ClientError> {
        let alias = if publish.properties.is_empty() { None } else { self.note_alias(&publish)? };
        match (publish.qos, publish.packet_id) {
            (QoS::AtLeastOnce, Some(packet_id)) => {
                self.answer(PacketKind::PubAck, packet_id, now_us, sink);
            }
            (QoS::ExactlyOnce, Some(packet_id)) => {
                self.answer(PacketKind::PubRec, packet_id, now_us, sink);
                match self.unreleased.binary_search(&packet_id) {
                    // Had already: exactly once.
                    Ok(_) => return Ok(()),
                    Err(at) => self.unreleased.insert(at, packet_id),
                }
            }
            _ => {}
        }
        let topic = alias.map_or(publish.topic, |at| &self.aliases[at]);
        sink.event(Event::Message(Publish { topic, ..publish }));
        Ok(())
    }

    /// Keeps the topic of an alias that is set, and says where: the message is of that topic.
    #[inline(never)]
    fn note_alias(&mut self, publish: &Publish<'_>) -> Result<Option<usize>, ClientError> {
        let alias = |property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        };
        let Some(alias) = publish.properties.find(alias) else { return Ok(None) };
        // [MQTT-3.1.2-26]
        if alias == 0 || alias > self.alias_maximum {
            return Err(ClientError::Protocol("a topic alias above the maximum"));
        }
        let at = usize::from(alias) - 1;
        if self.aliases.len() <= at {
            self.aliases.resize(at + 1, Box::default());
        }
        if !publish.topic.is_empty() {
            self.aliases[at] = publish.topic.into();
        }
        if self.aliases[at].is_empty() {
            return Err(ClientError::Protocol("a topic alias that was never set"));
        }
        Ok(Some(at))
    }

    fn pubrec(
        &mut self,
        ack: &Ack<'_>,
        now_us: u64,
        sink: &mut impl Sink,
    ) -> Result<(), ClientError> {
        match self.open.get_mut(ack.packet_id) {
            Some(tagged) if tagged.step == Step::Receive && !ack.reason.is_error() => {
                tagged.step = Step::Complete;
            }
            Some(tagged) if tagged.step == Step::Receive => {
                return self.finish(ack, Step::Receive, sink);
            }
            Some(tagged) if tagged.step == Step::Complete => {}
            // Some servers send PUBREC again when their session is resumed.
            _ if self.is_resumed => {}
            _ => return Err(self.unexpected(ack.packet_id)),
        }
        if !ack.reason.is_error() {
            // An identifier we do not know is answered too: the server is owed an end.
            self.answer(PacketKind::PubRel, ack.packet_id, now_us, sink);
        }
        Ok(())
    }

    #[inline]
    fn finish(
        &mut self,
        ack: &Ack<'_>,
        step: Step,
        sink: &mut impl Sink,
    ) -> Result<(), ClientError> {
        match self.open.finish(ack.packet_id, step) {
            Some(tag) => sink.event(Event::Acknowledged { tag, reason: ack.reason }),
            // Of what was sent before the connection was lost, or by another client.
            None if self.is_resumed && self.open.get_mut(ack.packet_id).is_none() => {}
            None => return Err(self.unexpected(ack.packet_id)),
        }
        Ok(())
    }

    /// What an acknowledgement is that nothing waits for.
    #[cold]
    fn unexpected(&mut self, packet_id: PacketId) -> ClientError {
        ClientError::Protocol(match self.open.get_mut(packet_id) {
            Some(_) => "an acknowledgement that the message's QoS does not have there",
            None => "an acknowledgement of a message that is not open",
        })
    }

    /// Four bytes: the shortest form of PUBACK, PUBREC, PUBREL and PUBCOMP in every version.
    #[inline]
    fn answer(&mut self, kind: PacketKind, packet_id: PacketId, now_us: u64, sink: &mut impl Sink) {
        let flags = if kind == PacketKind::PubRel { 0b0010 } else { 0 };
        let [high, low] = packet_id.value().to_be_bytes();
        self.written_us = now_us;
        sink.write(&[(kind as u8) << 4 | flags, 2, high, low]);
    }
}

const _: () = assert!(size_of::<Client>() <= 150, "a load generator holds 100,000 of them");
