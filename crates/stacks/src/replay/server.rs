//! The server's side of MQTT, and who is played to.

use super::feed::{Feed, Recorded};
use super::lines::{Counts, Order, RESULT_TOPIC, Said};
use super::play::{Playing, Progress};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;
use weir_reactor::{Closed, Handler, Io, ListenerId, Token, now_us};
use weir_wire::packet::{Ack, ConnAck, PINGRESP, Publish, SubAck, Subscribe, UnsubAck};
use weir_wire::{Frame, Packet, PacketId, Properties, Property, QoS, ReasonCode, Version};

/// Largest packet it takes: results are as small as the feed.
const PACKET_BYTES_MAX: u32 = 64 * 1024;

/// Connections at once; a stack has one or a few.
const CONNECTIONS_MAX: usize = 1_000;

/// Return code of a subscription that is refused: failure before 5.0, quota exceeded since.
const SUBSCRIPTION_REFUSED: u8 = 0x97;

/// A connection of the stack.
struct Peer {
    version: Version,
    client_id: Box<str>,
    /// QoS 1 messages it takes at once.
    receive_maximum: u16,
}

/// Who subscribed.
#[derive(Clone, Copy)]
struct Listener {
    token: Token,
    version: Version,
    qos: QoS,
    receive_maximum: u16,
}

pub(super) struct Server<W> {
    output: W,
    error: Option<io::Error>,
    recorded: Recorded,
    /// All connections; those that have sent CONNECT have a peer.
    peers: HashMap<Token, Option<Peer>, FixedState>,
    listener: Option<Listener>,
    playing: Option<Playing>,
    /// Sequence of the first message of the next play.
    next: u64,
    counts: Counts,
    scratch: Vec<u8>,
}

impl<W: Write> Server<W> {
    pub(super) fn new(output: W) -> Self {
        Self {
            output,
            error: None,
            recorded: Recorded::new(),
            peers: HashMap::default(),
            listener: None,
            playing: None,
            next: 0,
            counts: Counts::default(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn say(&mut self, said: &Said) {
        let line = serde_json::to_string(said).map_err(io::Error::from);
        let written = line.and_then(|line| {
            writeln!(self.output, "{line}")?;
            self.output.flush()
        });
        self.error = self.error.take().or(written.err());
    }

    /// Whoever gives the orders is gone.
    pub(super) fn output_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Until the next message is due, if that is known.
    pub(super) fn wait(&self) -> Option<Duration> {
        let wait_us = self.playing.as_ref()?.wait_us(now_us())?;
        Some(Duration::from_micros(wait_us))
    }

    pub(super) fn order(&mut self, io: &mut Io, order: &Order) {
        match order {
            Order::Counts {} => self.say(&Said::Counts(self.counts)),
            Order::Play(play) => {
                let why = match (play.check(), &self.listener, &self.playing) {
                    (Err(error), _, _) => error.to_string(),
                    (_, None, _) => "no stack has subscribed".to_owned(),
                    (_, _, Some(_)) => "a play is under way".to_owned(),
                    (Ok(()), Some(listener), None) => {
                        let (of, mut play) = (*listener, *play);
                        play.window = play.window.min(of.receive_maximum.into());
                        let feed = Feed::new(&self.recorded, of.version, of.qos);
                        let to = (of.token, feed, of.qos);
                        let now = (now_us(), io.stats().writes);
                        let playing = Playing::new(play, to, (&self.recorded, self.next), now);
                        let (start_us, measure_us) = (playing.start_us(), playing.measure_us);
                        self.playing = Some(playing);
                        return self.say(&Said::Playing { start_us, measure_us });
                    }
                };
                self.say(&Said::Failed { why });
            }
        }
    }

    /// Says whether the connection may go on.
    fn packet(&mut self, io: &mut Io, token: Token, packet: &Packet<'_>) -> bool {
        let is_known = matches!(self.peers.get(&token), Some(Some(_)));
        match packet {
            Packet::Connect(connect) if !is_known => {
                let pick = |property| match property {
                    Property::ReceiveMaximum(maximum) => Some(maximum),
                    _ => None,
                };
                let receive_maximum = connect.properties.find(pick).unwrap_or(u16::MAX);
                let (version, client_id) = (connect.version, connect.client_id.into());
                self.peers.insert(token, Some(Peer { version, client_id, receive_maximum }));
                self.counts.connects += 1;
                let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
                let connack = ConnAck { session_present: false, reason, properties };
                self.write(io, token, &Packet::ConnAck(connack));
            }
            Packet::Publish(publish) if is_known => self.published(io, token, publish),
            Packet::PubRel(ack) if is_known => {
                self.write(io, token, &Packet::PubComp(Ack::success(ack.packet_id)));
            }
            Packet::PubAck(ack) if is_known => {
                if let Some(playing) = self.playing.as_mut().filter(|of| of.is_of(token)) {
                    playing.acknowledged(ack.packet_id, now_us());
                }
            }
            Packet::Subscribe(subscribe) if is_known => self.subscribe(io, token, subscribe),
            Packet::Unsubscribe(unsubscribe) if is_known => {
                let codes: Vec<u8> = unsubscribe.filters().map(|_| 0).collect();
                let (packet_id, properties) = (unsubscribe.packet_id, Properties::EMPTY);
                let unsuback = UnsubAck { packet_id, properties, codes: &codes };
                self.write(io, token, &Packet::UnsubAck(unsuback));
                self.stop_playing_to(io, token, "it unsubscribed");
            }
            Packet::PingReq if is_known => io.write(token, &PINGRESP),
            Packet::Disconnect(_) if is_known => {
                self.counts.disconnects += 1;
                self.forget(io, token, "it disconnected");
                io.close(token);
                return false;
            }
            _ => {
                self.malformed(io, token);
                return false;
            }
        }
        true
    }

    fn subscribe(&mut self, io: &mut Io, token: Token, subscribe: &Subscribe<'_>) {
        let Some(Some(peer)) = self.peers.get(&token) else { return };
        let (version, receive_maximum) = (peer.version, peer.receive_maximum);
        let (client_id, level) = (String::from(&*peer.client_id), version as u8);
        let mut codes = Vec::new();
        let mut subscribed = None;
        for (filter, options) in subscribe.filters() {
            let qos = options.qos.min(QoS::AtLeastOnce);
            // One stack at a time, with one filter: the whole feed goes to it.
            if self.listener.is_some() {
                self.counts.refused += 1;
                codes.push(SUBSCRIPTION_REFUSED);
                continue;
            }
            self.listener = Some(Listener { token, version, qos, receive_maximum });
            codes.push(qos as u8);
            subscribed = Some((filter.to_owned(), qos as u8));
        }
        let (packet_id, properties) = (subscribe.packet_id, Properties::EMPTY);
        self.write(io, token, &Packet::SubAck(SubAck { packet_id, properties, codes: &codes }));
        if let Some((filter, qos)) = subscribed {
            self.say(&Said::Subscribed { client_id, level, filter, qos });
        }
    }

    fn published(&mut self, io: &mut Io, token: Token, publish: &Publish<'_>) {
        if let Some(packet_id) = publish.packet_id {
            self.acknowledge(io, token, publish.qos, packet_id);
        }
        self.counts.published += 1;
        self.counts.published_bytes += publish.payload.len() as u64;
        self.counts.astray += u64::from(publish.topic != RESULT_TOPIC);
        self.counts.retained += u64::from(publish.retain);
        if let Some(playing) = &mut self.playing {
            playing.result(&self.recorded, publish, now_us());
        }
    }

    fn acknowledge(&mut self, io: &mut Io, token: Token, qos: QoS, packet_id: PacketId) {
        let [high, low] = packet_id.value().to_be_bytes();
        match qos {
            QoS::ExactlyOnce => self.write(io, token, &Packet::PubRec(Ack::success(packet_id))),
            _ => io.write(token, &[0x40, 2, high, low]),
        }
    }

    fn write(&mut self, io: &mut Io, token: Token, packet: &Packet<'_>) {
        let Some(Some(peer)) = self.peers.get(&token) else { return };
        self.scratch.clear();
        packet.encode(peer.version, &mut self.scratch);
        io.write(token, &self.scratch);
    }

    fn malformed(&mut self, io: &mut Io, token: Token) {
        self.counts.malformed += 1;
        self.forget(io, token, "it sent what is malformed or out of place");
        io.abort(token);
    }

    fn forget(&mut self, io: &mut Io, token: Token, why: &str) {
        self.peers.remove(&token);
        self.stop_playing_to(io, token, why);
    }

    /// The connection that was played to is no longer: the books are closed as they stand.
    fn stop_playing_to(&mut self, io: &mut Io, token: Token, why: &str) {
        if self.listener.is_some_and(|listener| listener.token == token) {
            self.listener = None;
        }
        if let Some(mut playing) = self.playing.take_if(|playing| playing.is_of(token)) {
            let why = Some(format!("the stack was gone before the end of the play: {why}"));
            let played = playing.close(io.stats().writes, now_us(), why);
            self.next = playing.end();
            self.say(&Said::Played(played));
        }
    }

    fn step(&mut self, io: &mut Io) {
        let Some(playing) = &mut self.playing else { return };
        match playing.step(io, now_us()) {
            Progress::Nothing => {}
            Progress::Sent(at_us) => self.say(&Said::Sent { at_us }),
            Progress::Over(played) => {
                self.next = playing.end();
                self.playing = None;
                self.say(&Said::Played(played));
            }
        }
    }
}

impl<W: Write> Handler for Server<W> {
    fn accepted(&mut self, io: &mut Io, token: Token, _by: ListenerId, _peer: SocketAddr) {
        if self.peers.len() >= CONNECTIONS_MAX {
            self.counts.refused += 1;
            io.abort(token);
            return;
        }
        self.peers.insert(token, None);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let peer = self.peers.get(&token).and_then(Option::as_ref);
            let version = peer.map_or(Version::V5, |peer| peer.version);
            let packet = match Frame::check(&bytes[at..], PACKET_BYTES_MAX) {
                Ok(None) => return at,
                Ok(Some(frame)) => {
                    at += frame.bytes;
                    Packet::decode(version, frame).ok()
                }
                Err(_) => None,
            };
            let Some(packet) = packet else {
                self.malformed(io, token);
                return bytes.len();
            };
            if !self.packet(io, token, &packet) {
                return bytes.len();
            }
        }
    }

    fn closed(&mut self, io: &mut Io, token: Token, _cause: Closed) {
        if self.peers.contains_key(&token) {
            self.counts.dropped += 1;
        }
        self.forget(io, token, "its connection ended");
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.step(io);
    }
}
