//! A packet on one line, for `-d`. Of credentials it says only that they are there.

use std::fmt::Write;
use weir_connection::named;
use weir_wire::packet::{Ack, Connect, Publish};
use weir_wire::{Packet, Properties, ReasonCode};

pub(crate) fn line(packet: &Packet<'_>) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut text, packet);
    text
}

fn write(out: &mut String, packet: &Packet<'_>) -> std::fmt::Result {
    match packet {
        Packet::Connect(packet) => connect(out, packet),
        Packet::ConnAck(packet) => {
            write!(out, "CONNACK: {}", named(packet.reason, None))?;
            if packet.session_present {
                write!(out, ", session present")?;
            }
            properties(out, packet.properties)
        }
        Packet::Publish(packet) => publish(out, packet),
        Packet::PubAck(packet) => ack(out, "PUBACK", packet),
        Packet::PubRec(packet) => ack(out, "PUBREC", packet),
        Packet::PubRel(packet) => ack(out, "PUBREL", packet),
        Packet::PubComp(packet) => ack(out, "PUBCOMP", packet),
        Packet::Subscribe(packet) => {
            write!(out, "SUBSCRIBE {}:", packet.packet_id.value())?;
            for (filter, options) in packet.filters() {
                write!(out, " {filter} (options 0x{:02x})", options.to_byte())?;
            }
            properties(out, packet.properties)
        }
        Packet::SubAck(packet) => {
            write!(out, "SUBACK {}:", packet.packet_id.value())?;
            codes(out, packet.codes)?;
            properties(out, packet.properties)
        }
        Packet::Unsubscribe(packet) => {
            write!(out, "UNSUBSCRIBE {}:", packet.packet_id.value())?;
            packet.filters().try_for_each(|filter| write!(out, " {filter}"))?;
            properties(out, packet.properties)
        }
        Packet::UnsubAck(packet) => {
            write!(out, "UNSUBACK {}:", packet.packet_id.value())?;
            codes(out, packet.codes)?;
            properties(out, packet.properties)
        }
        Packet::PingReq => write!(out, "PINGREQ"),
        Packet::PingResp => write!(out, "PINGRESP"),
        Packet::Disconnect(packet) => {
            write!(out, "DISCONNECT: {}", named(packet.reason, None))?;
            properties(out, packet.properties)
        }
        Packet::Auth(packet) => {
            write!(out, "AUTH: {}", named(packet.reason, None))?;
            properties(out, packet.properties)
        }
    }
}

fn connect(out: &mut String, packet: &Connect<'_>) -> std::fmt::Result {
    let version = packet.version as u8;
    write!(out, "CONNECT: client {:?}, protocol level {version}", packet.client_id)?;
    write!(out, ", keep alive {} s", packet.keep_alive_s)?;
    if packet.clean_start {
        write!(out, ", clean")?;
    }
    if packet.user_name.is_some() {
        write!(out, ", user name")?;
    }
    if packet.password.is_some() {
        write!(out, ", password")?;
    }
    if let Some(will) = &packet.will {
        let (qos, retained) = (will.qos as u8, if will.retain { ", retained" } else { "" });
        let bytes = will.payload.len();
        write!(out, ", will {} of {bytes} bytes at QoS {qos}{retained}", will.topic)?;
        properties(out, will.properties)?;
    }
    properties(out, packet.properties)
}

fn publish(out: &mut String, packet: &Publish<'_>) -> std::fmt::Result {
    write!(out, "PUBLISH")?;
    if let Some(packet_id) = packet.packet_id {
        write!(out, " {}", packet_id.value())?;
    }
    let Publish { topic, payload, qos, .. } = packet;
    write!(out, ": {topic}, {} bytes, QoS {}", payload.len(), *qos as u8)?;
    if packet.retain {
        write!(out, ", retained")?;
    }
    if packet.dup {
        write!(out, ", again")?;
    }
    properties(out, packet.properties)
}

fn ack(out: &mut String, name: &str, packet: &Ack<'_>) -> std::fmt::Result {
    write!(out, "{name} {}: {}", packet.packet_id.value(), named(packet.reason, None))?;
    properties(out, packet.properties)
}

fn codes(out: &mut String, codes: &[u8]) -> std::fmt::Result {
    for &code in codes {
        match ReasonCode::from_u8(code) {
            Some(ReasonCode::Success) => write!(out, " 0")?,
            Some(reason) => write!(out, " {}", named(reason, None))?,
            None => write!(out, " 0x{code:02x}")?,
        }
    }
    Ok(())
}

fn properties(out: &mut String, properties: Properties<'_>) -> std::fmt::Result {
    properties.iter().try_for_each(|property| write!(out, ", {property:?}"))
}
