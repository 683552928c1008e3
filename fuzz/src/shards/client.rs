//! A client that keeps the books of its connection: what the broker owes it, and may send it.

use crate::packet::check_frame;
use std::collections::BTreeMap;
use weir_wire::packet::{Ack, ConnAck, Connect, Publish};
use weir_wire::{Frame, Packet, PacketId, PacketKind, Property, ReasonCode, Version};

/// One connection, as its client sees it.
#[derive(Debug)]
pub struct Client {
    /// From its CONNECT, once that was sent.
    pub version: Option<Version>,
    /// Sent and not yet consumed by the shard.
    pub unread: Vec<u8>,
    /// PUBLISH packets received that are not retained messages of a new subscription.
    pub live_received: usize,
    /// Its last SUBSCRIBE was granted.
    pub is_subscribed: bool,
    /// Which shard has the connection.
    pub shard: usize,
    /// Its socket takes nothing.
    pub is_stuck: bool,
    /// So many of `unread` are in the books.
    noted: usize,
    /// It sent what is no packet: what follows is in no book.
    is_garbled: bool,
    is_accepted: bool,
    /// The broker has said its last word.
    is_over: bool,
    packet_bytes_max: usize,
    receive_maximum: usize,
    aliases_max: u16,
    aliases: BTreeMap<u16, String>,
    /// Identifiers of deliveries of QoS 1 and 2 that are not done.
    open: Vec<PacketId>,
    /// Acknowledged before they came: the shard may take that for an answer to what it sends on
    /// the way.
    early: Vec<PacketId>,
    /// Answers that the broker owes: how many codes each is to have.
    owed: BTreeMap<(u8, u16), Vec<usize>>,
    /// Answers that the client owes.
    owing: Vec<(PacketKind, PacketId)>,
}

const PINGRESP: (u8, u16) = (PacketKind::PingResp as u8, 0);

impl Client {
    pub fn new(shard: usize) -> Self {
        Self {
            version: None,
            unread: Vec::new(),
            live_received: 0,
            is_subscribed: false,
            shard,
            is_stuck: false,
            noted: 0,
            is_garbled: false,
            is_accepted: false,
            is_over: false,
            packet_bytes_max: usize::MAX,
            receive_maximum: usize::from(u16::MAX),
            aliases_max: 0,
            aliases: BTreeMap::new(),
            open: Vec::new(),
            early: Vec::new(),
            owed: BTreeMap::new(),
            owing: Vec::new(),
        }
    }

    /// The shard has consumed so many bytes.
    pub fn consumed(&mut self, count: usize) {
        self.unread.drain(..count);
        self.noted = self.noted.saturating_sub(count);
    }

    /// Enters the whole packets of `unread` in the books: the shard may answer them now.
    pub fn note(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        while !self.is_garbled {
            match Frame::check(&unread[self.noted..], u32::MAX) {
                Ok(None) => break,
                Ok(Some(frame)) => match Packet::decode(self.version.unwrap_or(Version::V5), frame)
                {
                    Ok(packet) => {
                        self.noted += frame.bytes;
                        self.note_packet(&packet);
                    }
                    Err(_) => self.is_garbled = true,
                },
                Err(_) => self.is_garbled = true,
            }
        }
        self.unread = unread;
    }

    fn note_packet(&mut self, packet: &Packet<'_>) {
        match packet {
            Packet::Connect(connect) if self.version.is_none() => self.note_connect(connect),
            Packet::Publish(Publish { packet_id: Some(packet_id), qos, .. }) => {
                let kind = if *qos as u8 == 1 { PacketKind::PubAck } else { PacketKind::PubRec };
                self.owe(kind, *packet_id, 0);
            }
            Packet::PubRel(ack) => self.owe(PacketKind::PubComp, ack.packet_id, 0),
            Packet::PubAck(ack) | Packet::PubComp(ack) => self.done(ack.packet_id),
            Packet::PubRec(ack) if ack.reason.is_error() => self.done(ack.packet_id),
            Packet::Subscribe(subscribe) => {
                self.owe(PacketKind::SubAck, subscribe.packet_id, subscribe.filters().count());
            }
            Packet::Unsubscribe(packet) => {
                let is_v5 = self.version.is_some_and(Version::is_v5);
                let codes = if is_v5 { packet.filters().count() } else { 0 };
                self.owe(PacketKind::UnsubAck, packet.packet_id, codes);
            }
            Packet::PingReq => self.owed.entry(PINGRESP).or_default().push(0),
            _ => {}
        }
    }

    fn note_connect(&mut self, connect: &Connect<'_>) {
        self.version = Some(connect.version);
        for property in connect.properties.iter() {
            match property {
                Property::ReceiveMaximum(maximum) => self.receive_maximum = maximum.into(),
                Property::MaximumPacketSize(bytes) => self.packet_bytes_max = bytes as usize,
                Property::TopicAliasMaximum(maximum) => self.aliases_max = maximum,
                _ => {}
            }
        }
    }

    fn owe(&mut self, kind: PacketKind, packet_id: PacketId, codes: usize) {
        self.owed.entry((kind as u8, packet_id.value())).or_default().push(codes);
    }

    fn done(&mut self, packet_id: PacketId) {
        if !self.open.contains(&packet_id) {
            self.early.push(packet_id);
        }
        self.open.retain(|&open| open != packet_id);
    }

    /// Reads what the shard wrote: whole packets, each in its place.
    pub fn read(&mut self, output: &[u8]) {
        let mut rest = output;
        while let Ok(Some(frame)) = Frame::check(rest, u32::MAX) {
            rest = &rest[frame.bytes..];
            assert!(!self.is_over, "{:?} after the last packet", frame.kind);
            assert!(frame.bytes <= self.packet_bytes_max, "{:?} is too large", frame.kind);
            // Who said no version is refused in any.
            let is_older = self.version.is_none() && frame.bytes == 4;
            let version =
                self.version.unwrap_or(if is_older { Version::V311 } else { Version::V5 });
            check_frame(version, frame);
            match Packet::decode(version, frame) {
                Ok(packet) => self.read_packet(&packet, version),
                Err(error) => panic!("{:?} is malformed: {error}: {:02x?}", frame.kind, frame.body),
            }
        }
        assert!(rest.is_empty(), "a part of a packet is written");
    }

    fn read_packet(&mut self, packet: &Packet<'_>, version: Version) {
        let is_first = matches!(packet, Packet::ConnAck(_) | Packet::Auth(_));
        assert!(self.is_accepted || is_first, "{packet:?} before CONNACK");
        match packet {
            Packet::ConnAck(ConnAck { reason, .. }) => {
                assert!(!self.is_accepted, "a second CONNACK");
                self.is_accepted = *reason == ReasonCode::Success;
                assert!(!self.is_accepted || self.version.is_some(), "accepted without a CONNECT");
                self.is_over = !self.is_accepted;
            }
            Packet::Publish(publish) => self.read_publish(publish),
            Packet::PubAck(ack) => self.answered(PacketKind::PubAck, ack, 0),
            Packet::PubRec(ack) => self.answered(PacketKind::PubRec, ack, 0),
            Packet::PubComp(ack) => self.answered(PacketKind::PubComp, ack, 0),
            // Also a resumed session's, without a PUBREC on this connection.
            Packet::PubRel(ack) => self.owing.push((PacketKind::PubComp, ack.packet_id)),
            Packet::SubAck(suback) => {
                self.is_subscribed = suback.codes.iter().all(|&code| code < 0x80);
                let ack = Ack::success(suback.packet_id);
                self.answered(PacketKind::SubAck, &ack, suback.codes.len());
            }
            Packet::UnsubAck(unsuback) => {
                let ack = Ack::success(unsuback.packet_id);
                self.answered(PacketKind::UnsubAck, &ack, unsuback.codes.len());
            }
            Packet::PingResp => {
                let owed = self.owed.get_mut(&PINGRESP).and_then(Vec::pop);
                assert!(owed.is_some(), "a PINGRESP to nothing");
            }
            Packet::Disconnect(_) => {
                assert!(version.is_v5(), "DISCONNECT from a server before 5.0");
                self.is_over = true;
            }
            Packet::Auth(_) => assert!(version.is_v5(), "AUTH before 5.0"),
            Packet::Connect(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq => panic!("{packet:?} from a server"),
        }
    }

    fn read_publish(&mut self, publish: &Publish<'_>) {
        let alias = publish.properties.find(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        });
        if let Some(alias) = alias {
            assert!(alias > 0 && alias <= self.aliases_max, "a topic alias of {alias}");
            if publish.topic.is_empty() {
                assert!(self.aliases.contains_key(&alias), "an unknown topic alias");
            } else {
                self.aliases.insert(alias, publish.topic.to_owned());
            }
        }
        self.live_received += usize::from(!publish.retain);
        let Some(packet_id) = publish.packet_id else { return };
        if !self.open.contains(&packet_id) {
            self.open.push(packet_id);
        } else {
            panic!("identifier {} is given twice", packet_id.value());
        }
        if let Some(at) = self.early.iter().position(|&early| early == packet_id) {
            self.early.swap_remove(at);
            self.open.retain(|&open| open != packet_id);
        }
        assert!(self.open.len() <= self.receive_maximum, "more than the Receive Maximum");
        let kind = if publish.qos as u8 == 1 { PacketKind::PubAck } else { PacketKind::PubRec };
        self.owing.push((kind, packet_id));
    }

    /// An answer is owed, once, with so many codes.
    fn answered(&mut self, kind: PacketKind, ack: &Ack<'_>, codes: usize) {
        let owed = self.owed.get_mut(&(kind as u8, ack.packet_id.value()));
        let at = owed.as_ref().and_then(|owed| owed.iter().position(|&count| count == codes));
        match (owed, at) {
            (Some(owed), Some(at)) => drop(owed.swap_remove(at)),
            _ => panic!("{kind:?} {} with {codes} codes answers nothing", ack.packet_id.value()),
        }
    }

    /// The acknowledgements that the client owes.
    pub fn acknowledgements(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, packet_id) in std::mem::take(&mut self.owing) {
            Ack::success(packet_id).encode(kind, Version::V311, &mut bytes);
        }
        bytes
    }
}
