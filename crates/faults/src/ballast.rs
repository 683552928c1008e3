//! Messages that use up what a store has in reserve: only then does a node whose disk is full know
//! that it is.

use crate::client::{place, say_goodbye};
use std::io::{self, ErrorKind};
use std::time::Duration;
use weir_crash::link::Link;
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode};

const TOPIC: &str = "ballast";

/// Whose queue they stay in.
const SINK: &str = "ballast";

/// Below the longest packet of the nodes.
const PAYLOAD_BYTES: usize = 60_000;

/// More than the store has room for.
const MESSAGES_MAX: usize = 10_000;

const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Publishes until the node says that it has no room.
pub(crate) fn load(node: usize) -> io::Result<()> {
    let place = place(node, ANSWER_MAX);
    let (mut sink, _) = Link::connect(&place, SINK, true, true)?;
    sink.subscribe([(TOPIC, QoS::AtLeastOnce)].into_iter());
    sink.flush()?;
    let is_granted = |packet: &Packet<'_>| matches!(packet, Packet::SubAck(_));
    sink.packet(ANSWER_MAX, is_granted)?.ok_or(ErrorKind::TimedOut)?;
    say_goodbye(&mut sink)?;
    let (mut publisher, _) = Link::connect(&place, "ballast-publisher", true, false)?;
    let payload = vec![b'.'; PAYLOAD_BYTES];
    for _ in 0..MESSAGES_MAX {
        publisher.push(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: TOPIC,
            packet_id: Some(PacketId::FIRST),
            properties: Properties::EMPTY,
            payload: &payload,
        }));
        publisher.flush()?;
        let reason = |packet: &Packet<'_>| match packet {
            Packet::PubAck(ack) => Some(ack.reason),
            _ => None,
        };
        let reason = publisher.packet(ANSWER_MAX, reason)?.ok_or(ErrorKind::TimedOut)?;
        if reason == Some(ReasonCode::QuotaExceeded) {
            return Ok(());
        }
    }
    Err(io::Error::other("it takes more than its disk has room for"))
}

/// Ends the session that has them.
pub(crate) fn drop_all(node: usize) -> io::Result<()> {
    let (mut sink, _) = Link::connect(&place(node, ANSWER_MAX), SINK, true, false)?;
    say_goodbye(&mut sink)
}
