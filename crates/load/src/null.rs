//! A broker that does next to nothing: what the load generator reaches against it is the
//! generator's own ceiling.
//!
//! It answers CONNECT, SUBSCRIBE, PUBLISH of QoS 0 and 1 and PINGREQ, encodes each message once
//! and appends it to every subscriber's output. It keeps no session and no window, resends
//! nothing, and gives every message the same packet identifier.

use crate::Stop;
use crate::cpu::thread_cpu_us;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use weir_reactor::{Closed, Handler, Io, ListenerId, Reactor, Token, Transport};
use weir_wire::packet::{Ack, ConnAck, PINGRESP, Publish, SubAck, Subscribe};
use weir_wire::topic::TopicFilter;
use weir_wire::{Frame, Packet, PacketId, Properties, QoS, ReasonCode, Version};

/// The loop looks up at least this often, so that a stop is soon heard.
const TURN_MAX: Duration = Duration::from_millis(50);

/// Largest packet it takes: the load's own are small.
const PACKET_BYTES_MAX: u32 = (1024 + 128) * 1024;

/// A receiver with so much output waiting is too slow; what more comes for it is dropped.
const PENDING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Serves the connections of `listener` until it is stopped, and burns on top `burned` times the
/// CPU of each turn: a broker that costs more by a known share, however fast the host is.
///
/// # Errors
/// What the system says of epoll.
pub fn serve(listener: TcpListener, burned: f64, stop: &Stop) -> io::Result<()> {
    let mut reactor = Reactor::new()?;
    reactor.listen(ListenerId(0), listener, Transport::Plain)?;
    let mut null = Null::default();
    let mut began_us = thread_cpu_us();
    while !stop.is_stopped() {
        reactor.turn(Some(TURN_MAX), &mut null)?;
        if burned > 0.0 {
            let used_us = thread_cpu_us() - began_us;
            burn((used_us as f64 * burned).round() as u64);
            began_us = thread_cpu_us();
        }
    }
    Ok(())
}

#[derive(Default)]
struct Null {
    versions: HashMap<Token, Version, FixedState>,
    /// Filter, subscriber, QoS.
    subscriptions: Vec<(Box<str>, Token, QoS)>,
    /// Who hears a topic, found when it is first published to.
    heard: HashMap<Box<str>, Vec<(Token, QoS)>, FixedState>,
    scratch: Vec<u8>,
}

impl Null {
    /// Says whether the connection may go on.
    fn packet(&mut self, io: &mut Io, token: Token, packet: &Packet<'_>) -> bool {
        match packet {
            Packet::Publish(publish) => self.publish(io, token, publish),
            Packet::PubAck(_) => {}
            Packet::Connect(connect) => {
                self.versions.insert(token, connect.version);
                let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
                let connack = ConnAck { session_present: false, reason, properties };
                self.write(io, token, &Packet::ConnAck(connack));
            }
            Packet::Subscribe(subscribe) => self.subscribe(io, token, subscribe),
            Packet::PingReq => io.write(token, &PINGRESP),
            _ => {
                self.forget(token);
                io.close(token);
                return false;
            }
        }
        true
    }

    fn subscribe(&mut self, io: &mut Io, token: Token, subscribe: &Subscribe<'_>) {
        let mut codes = Vec::new();
        for (filter, options) in subscribe.filters() {
            let qos = options.qos.min(QoS::AtLeastOnce);
            self.subscriptions.push((filter.into(), token, qos));
            codes.push(qos as u8);
        }
        self.heard.clear();
        let (packet_id, properties) = (subscribe.packet_id, Properties::EMPTY);
        self.write(io, token, &Packet::SubAck(SubAck { packet_id, properties, codes: &codes }));
    }

    fn publish(&mut self, io: &mut Io, token: Token, publish: &Publish<'_>) {
        if let Some(packet_id) = publish.packet_id {
            let [high, low] = packet_id.value().to_be_bytes();
            match publish.qos {
                QoS::ExactlyOnce => {
                    self.write(io, token, &Packet::PubRec(Ack::success(packet_id)));
                }
                _ => io.write(token, &[0x40, 2, high, low]),
            }
        }
        if !self.heard.contains_key(publish.topic) {
            let heard = self.receivers(publish.topic);
            self.heard.insert(publish.topic.into(), heard);
        }
        let Self { heard, versions, scratch, .. } = self;
        let mut encoded = None;
        for &(to, qos) in heard.get(publish.topic).into_iter().flatten() {
            let Some(&version) = versions.get(&to) else { continue };
            let form = (version, qos.min(publish.qos));
            if encoded != Some(form) {
                scratch.clear();
                let packet_id = (form.1 != QoS::AtMostOnce).then_some(PacketId::FIRST);
                let (qos, dup, retain) = (form.1, false, false);
                let properties = Properties::EMPTY;
                Publish { qos, dup, retain, packet_id, properties, ..*publish }
                    .encode(version, scratch);
                encoded = Some(form);
            }
            if io.pending(to) <= PENDING_BYTES_MAX {
                io.write(to, scratch);
            }
        }
    }

    fn receivers(&self, topic: &str) -> Vec<(Token, QoS)> {
        let matches = |text: &str| TopicFilter::parse(text).is_some_and(|f| f.matches(topic));
        let matching = self.subscriptions.iter().filter(|(filter, _, _)| matches(filter));
        matching.map(|&(_, token, qos)| (token, qos)).collect()
    }

    fn write(&self, io: &mut Io, token: Token, packet: &Packet<'_>) {
        let Some(&version) = self.versions.get(&token) else { return };
        let mut bytes = Vec::new();
        packet.encode(version, &mut bytes);
        io.write(token, &bytes);
    }

    fn forget(&mut self, token: Token) {
        self.versions.remove(&token);
        self.subscriptions.retain(|(_, subscriber, _)| *subscriber != token);
        self.heard.clear();
    }
}

/// Uses so many microseconds of the thread's CPU.
fn burn(length_us: u64) {
    let begin_us = thread_cpu_us();
    while thread_cpu_us() - begin_us < length_us {
        std::hint::spin_loop();
    }
}

impl Handler for Null {
    fn accepted(&mut self, _io: &mut Io, _token: Token, _by: ListenerId, _peer: SocketAddr) {}

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let version = self.versions.get(&token).copied().unwrap_or(Version::V5);
            let packet = match Frame::check(&bytes[at..], PACKET_BYTES_MAX) {
                Ok(None) => return at,
                Ok(Some(frame)) => {
                    at += frame.bytes;
                    Packet::decode(version, frame).ok()
                }
                Err(_) => None,
            };
            let Some(packet) = packet else {
                self.forget(token);
                io.abort(token);
                return bytes.len();
            };
            if !self.packet(io, token, &packet) {
                return bytes.len();
            }
        }
    }

    fn closed(&mut self, _io: &mut Io, token: Token, _cause: Closed) {
        self.forget(token);
    }

    fn turn_end(&mut self, _io: &mut Io) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_burnt_is_cpu_of_the_thread() {
        let begin_us = thread_cpu_us();
        burn(2_000);
        assert!(thread_cpu_us() - begin_us >= 2_000);
    }
}
