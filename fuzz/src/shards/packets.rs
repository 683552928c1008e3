//! Packets made of choices: well-formed, mostly sensible, in the client's version.

use super::client::Client;
use super::script::Script;
use weir_wire::packet::{
    Ack, Auth, Connect, Disconnect, PINGREQ, Publish, RetainHandling, SubscribeBuf,
    SubscriptionOptions, UnsubscribeBuf, Will,
};
use weir_wire::{Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

/// Enough for two shards to own some each.
pub const CLIENT_IDS: &[&str] =
    &["", "c0", "c1", "c2", "c3", "c4", "c5", "a-long-client-identifier"];

const TOPICS: &[&str] = &[
    "a",
    "a/b",
    "a/b/c",
    "b",
    "topic/with/a/name",
    "topic/a",
    "topic/b",
    "topic/c",
    "$SYS/a",
    "a//b",
    "ü",
    "a/b/c/d/e/f/g",
    "/",
];

const FILTERS: &[&str] = &[
    "a",
    "a/b",
    "a/+",
    "a/#",
    "#",
    "+/b",
    "+",
    "topic/with/a/name",
    "topic/#",
    "$SYS/#",
    "$share/g/a",
    "$share/g/a/#",
    "$share/h/#",
    "$share/sticky/#",
    "a/b/c/d/e/f/g",
    "a/#/b",
    "$share//a",
    "$share/g",
    "",
];

const QOS: &[QoS] = &[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Makes packets for one client.
pub struct Packets<'a, 'b> {
    script: &'a mut Script<'b>,
    version: Version,
}

impl<'a, 'b> Packets<'a, 'b> {
    pub fn new(script: &'a mut Script<'b>, client: Option<&Client>) -> Self {
        let version = client.and_then(|client| client.version).unwrap_or(Version::V5);
        Self { script, version }
    }

    /// Whether the packet of a kind is CONNECT.
    pub const fn is_connect(kind: u8) -> bool {
        kind % 16 < 2
    }

    /// The packet of a kind, or nothing where the script ends inside it.
    pub fn packet(&mut self, kind: u8) -> Option<Vec<u8>> {
        match kind % 16 {
            0 | 1 => self.connect(),
            2..=5 => self.publish(),
            6 | 7 => self.subscribe(),
            8 => self.unsubscribe(),
            9..=12 => self.ack(kind % 16),
            13 => Some(PINGREQ.to_vec()),
            14 => self.disconnect(),
            _ => self.auth(),
        }
    }

    fn encoded(&self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        packet.encode(self.version, &mut bytes);
        Some(bytes)
    }

    fn connect(&mut self) -> Option<Vec<u8>> {
        self.version =
            self.script.pick(&[Version::V5, Version::V5, Version::V311, Version::V31])?;
        let client_id = self.script.pick(CLIENT_IDS)?;
        let flags = self.script.byte()?;
        let mut properties = PropertiesBuf::new();
        let is_v5 = self.version.is_v5();
        if is_v5 {
            self.connect_properties(&mut properties)?;
        }
        let has_will = flags & 0b10 != 0;
        let mut will_properties = PropertiesBuf::new();
        if has_will && is_v5 {
            will_properties.push(Property::WillDelayInterval(self.seconds()?));
            self.message_properties(&mut will_properties)?;
        }
        let will = if has_will { Some(self.will(&will_properties)?) } else { None };
        let has_user_name = flags & 0b100 != 0;
        let connect = Connect {
            version: self.version,
            clean_start: flags & 1 != 0,
            keep_alive_s: if flags & 0b1000 == 0 { 0 } else { 10 },
            client_id,
            will,
            user_name: has_user_name.then_some("u"),
            password: has_user_name.then_some(b"p"),
            properties: properties.as_properties(),
        };
        self.encoded(&Packet::Connect(connect))
    }

    fn connect_properties(&mut self, properties: &mut PropertiesBuf) -> Option<()> {
        let which = self.script.byte()?;
        if which & 1 != 0 {
            properties.push(Property::SessionExpiryInterval(self.seconds()?));
        }
        if which & 0b10 != 0 {
            properties.push(Property::ReceiveMaximum(u16::from(self.script.byte()? % 4) + 1));
        }
        if which & 0b100 != 0 {
            properties.push(Property::MaximumPacketSize(u32::from(self.script.byte()?) + 1));
        }
        if which & 0b1000 != 0 {
            properties.push(Property::TopicAliasMaximum(u16::from(self.script.byte()? % 4)));
        }
        if which & 0b1_0000 != 0 {
            properties.push(Property::RequestProblemInformation(0));
        }
        if which & 0b10_0000 != 0 {
            properties.push(Property::AuthenticationMethod("m"));
        }
        if which & 0b100_0000 != 0 {
            properties.push(Property::RequestResponseInformation(1));
        }
        Some(())
    }

    fn will<'p>(&mut self, properties: &'p PropertiesBuf) -> Option<Will<'p>> {
        Some(Will {
            topic: self.script.pick(TOPICS)?,
            payload: self.payload()?,
            qos: self.script.pick(QOS)?,
            retain: self.script.byte()? & 1 != 0,
            properties: properties.as_properties(),
        })
    }

    fn publish(&mut self) -> Option<Vec<u8>> {
        let (topic, qos) = (self.script.pick(TOPICS)?, self.script.pick(QOS)?);
        let flags = self.script.byte()?;
        let mut properties = PropertiesBuf::new();
        let has_alias = flags & 0b100 != 0 && self.version.is_v5();
        if has_alias {
            properties.push(Property::TopicAlias(u16::from(self.script.byte()? % 5)));
        }
        if flags & 0b1000 != 0 && self.version.is_v5() {
            self.message_properties(&mut properties)?;
        }
        let is_acknowledged = qos != QoS::AtMostOnce;
        let packet_id = if is_acknowledged { Some(self.packet_id()?) } else { None };
        let publish = Publish {
            dup: is_acknowledged && flags & 1 != 0,
            qos,
            retain: flags & 0b10 != 0,
            topic: if has_alias && flags & 0b1_0000 != 0 { "" } else { topic },
            packet_id,
            properties: properties.as_properties(),
            payload: self.payload()?,
        };
        self.encoded(&Packet::Publish(publish))
    }

    fn message_properties(&mut self, properties: &mut PropertiesBuf) -> Option<()> {
        let which = self.script.byte()?;
        if which & 1 != 0 {
            properties.push(Property::MessageExpiryInterval(self.seconds()?));
        }
        if which & 0b10 != 0 {
            properties.push(Property::PayloadFormatIndicator(1));
        }
        if which & 0b100 != 0 {
            properties.push(Property::ResponseTopic("a"));
        }
        if which & 0b1000 != 0 {
            properties.push(Property::CorrelationData(&[0xFF; 3]));
        }
        if which & 0b1_0000 != 0 {
            properties.push(Property::UserProperty("name", "value"));
        }
        Some(())
    }

    fn subscribe(&mut self) -> Option<Vec<u8>> {
        let count = self.script.byte()? % 4 + 1;
        let mut filters = SubscribeBuf::new();
        for _ in 0..count {
            let (filter, options) = (self.script.pick(FILTERS)?, self.script.byte()?);
            let handling =
                [RetainHandling::Send, RetainHandling::SendIfNew, RetainHandling::DontSend];
            filters.push(
                filter,
                SubscriptionOptions {
                    qos: QOS[usize::from(options % 3)],
                    no_local: options & 0x10 != 0,
                    retain_as_published: options & 0x20 != 0,
                    retain_handling: handling[usize::from(options >> 6) % 3],
                },
            );
        }
        let mut properties = PropertiesBuf::new();
        let id = u32::from(self.script.byte()?);
        if id > 0x40 && self.version.is_v5() {
            properties.push(Property::SubscriptionIdentifier(id));
        }
        let packet_id = self.packet_id()?;
        let subscribe = filters.subscribe(self.version, packet_id, properties.as_properties());
        self.encoded(&Packet::Subscribe(subscribe))
    }

    fn unsubscribe(&mut self) -> Option<Vec<u8>> {
        let count = self.script.byte()? % 3 + 1;
        let mut filters = UnsubscribeBuf::new();
        for _ in 0..count {
            filters.push(self.script.pick(FILTERS)?);
        }
        let packet_id = self.packet_id()?;
        let unsubscribe = filters.unsubscribe(packet_id, Properties::EMPTY);
        self.encoded(&Packet::Unsubscribe(unsubscribe))
    }

    fn ack(&mut self, kind: u8) -> Option<Vec<u8>> {
        let mut ack = Ack::success(self.packet_id()?);
        let fails = self.script.byte()? & 1 != 0 && self.version.is_v5();
        let packet = match kind {
            9 | 10 => {
                if fails {
                    ack.reason = ReasonCode::UnspecifiedError;
                }
                if kind == 9 { Packet::PubAck(ack) } else { Packet::PubRec(ack) }
            }
            _ => {
                if fails {
                    ack.reason = ReasonCode::PacketIdentifierNotFound;
                }
                if kind == 11 { Packet::PubRel(ack) } else { Packet::PubComp(ack) }
            }
        };
        self.encoded(&packet)
    }

    fn disconnect(&mut self) -> Option<Vec<u8>> {
        let reason = self.script.pick(&[ReasonCode::Success, ReasonCode::DisconnectWithWill])?;
        let mut properties = PropertiesBuf::new();
        if self.version.is_v5() && self.script.byte()? & 1 != 0 {
            properties.push(Property::SessionExpiryInterval(self.seconds()?));
        }
        let properties = properties.as_properties();
        self.encoded(&Packet::Disconnect(Disconnect { reason, properties }))
    }

    fn auth(&mut self) -> Option<Vec<u8>> {
        let reason =
            self.script.pick(&[ReasonCode::ContinueAuthentication, ReasonCode::ReAuthenticate])?;
        let mut properties = PropertiesBuf::new();
        properties.push(Property::AuthenticationMethod(self.script.pick(&["m", "n"])?));
        let mut bytes = Vec::new();
        Auth { reason, properties: properties.as_properties() }.encode(Version::V5, &mut bytes);
        Some(bytes)
    }

    /// Few of them, so that they meet.
    fn packet_id(&mut self) -> Option<PacketId> {
        PacketId::new(u16::from(self.script.byte()? % 8) + 1)
    }

    fn payload(&mut self) -> Option<&'static [u8]> {
        const COUNTS: [usize; 8] = [0, 1, 2, 5, 20, 100, 300, 600];
        const FILL: &[u8] = &[b'x'; 600];
        Some(&FILL[..self.script.pick(&COUNTS)?])
    }

    fn seconds(&mut self) -> Option<u32> {
        self.script.pick(&[0, 1, 5, 60, 1000, u32::MAX])
    }
}

/// CONNECT of a client that comes back for its session.
pub fn resume(client_id: &str) -> Vec<u8> {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SessionExpiryInterval(100));
    let mut bytes = Vec::new();
    Connect {
        clean_start: false,
        properties: properties.as_properties(),
        ..Connect::new(Version::V5, client_id)
    }
    .encode(&mut bytes);
    bytes
}

/// A topic that nobody else gets: other clients' queues do not matter.
fn topic_of(client_id: &str) -> String {
    format!("$alive/{client_id}")
}

/// SUBSCRIBE to the client's own topic.
pub fn subscribe_own(client_id: &str) -> Vec<u8> {
    let mut filters = SubscribeBuf::new();
    let filter = topic_of(client_id);
    filters.push(&filter, SubscriptionOptions { qos: QoS::AtLeastOnce, ..Default::default() });
    let mut bytes = Vec::new();
    let subscribe = filters.subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(Version::V5, &mut bytes);
    bytes
}

/// PUBLISH of QoS 1 there.
pub fn publish_own(client_id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: &topic_of(client_id),
        packet_id: Some(PacketId::FIRST),
        properties: Properties::EMPTY,
        payload: &[],
    }
    .encode(Version::V5, &mut bytes);
    bytes
}
