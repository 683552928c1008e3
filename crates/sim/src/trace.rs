//! What happened, a line an event: hashed always, printed on demand.

use std::fmt::{self, Write};
use weir_wire::packet::Packet;
use weir_wire::{Properties, Property};

/// The trace of a run. Two runs are the same if their hashes are.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    is_printed: bool,
    line: String,
    lines: Vec<String>,
}

impl Trace {
    /// An empty trace; `is_printed` keeps the lines for [`Trace::lines`].
    pub fn new(is_printed: bool) -> Self {
        Self { hash: FNV_BASIS, is_printed, line: String::new(), lines: Vec::new() }
    }

    /// Adds a line.
    pub fn add(&mut self, text: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a String does not fail.
        let _ = self.line.write_fmt(text);
        for &byte in self.line.as_bytes().iter().chain(b"\n") {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        if self.is_printed {
            self.lines.push(self.line.clone());
        }
    }

    /// FNV-1a over all lines.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, if they are kept.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

const FNV_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01B3;

/// A packet in one line.
#[derive(Debug)]
pub(crate) struct Line<'a>(pub(crate) &'a Packet<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Packet::Connect(connect) => {
                write!(f, "CONNECT {:?} {:?}", connect.version, connect.client_id)?;
                write!(f, "{}", if connect.clean_start { " clean" } else { "" })?;
                write!(f, " keep alive {}", connect.keep_alive_s)?;
                if let Some(will) = &connect.will {
                    let text = String::from_utf8_lossy(will.payload);
                    write!(f, " will {} q{} {text}", will.topic, will.qos as u8)?;
                    write!(f, "{}{}", flag(will.retain, " retain"), List(will.properties))?;
                }
                write!(f, "{}", List(connect.properties))
            }
            Packet::ConnAck(connack) => {
                let present = flag(connack.session_present, " present");
                write!(f, "CONNACK {:?}{present}{}", connack.reason, List(connack.properties))
            }
            Packet::Publish(publish) => {
                write!(f, "PUBLISH {:?} q{}", publish.topic, publish.qos as u8)?;
                if let Some(packet_id) = publish.packet_id {
                    write!(f, " #{}", packet_id.value())?;
                }
                write!(f, "{}{}", flag(publish.dup, " dup"), flag(publish.retain, " retain"))?;
                let payload = String::from_utf8_lossy(publish.payload);
                let text = payload.trim_end_matches('.');
                write!(f, " {text:?}{}", List(publish.properties))
            }
            Packet::PubAck(ack) => write!(f, "PUBACK #{} {:?}", ack.packet_id.value(), ack.reason),
            Packet::PubRec(ack) => write!(f, "PUBREC #{} {:?}", ack.packet_id.value(), ack.reason),
            Packet::PubRel(ack) => write!(f, "PUBREL #{} {:?}", ack.packet_id.value(), ack.reason),
            Packet::PubComp(ack) => {
                write!(f, "PUBCOMP #{} {:?}", ack.packet_id.value(), ack.reason)
            }
            Packet::Subscribe(subscribe) => {
                write!(f, "SUBSCRIBE #{}", subscribe.packet_id.value())?;
                for (filter, options) in subscribe.filters() {
                    write!(f, " {filter} q{}", options.qos as u8)?;
                    write!(f, "{}", flag(options.no_local, " no-local"))?;
                    write!(f, "{}", flag(options.retain_as_published, " as-published"))?;
                    write!(f, " {:?}", options.retain_handling)?;
                }
                write!(f, "{}", List(subscribe.properties))
            }
            Packet::SubAck(suback) => {
                write!(f, "SUBACK #{} {:?}", suback.packet_id.value(), suback.codes)
            }
            Packet::Unsubscribe(unsubscribe) => {
                write!(f, "UNSUBSCRIBE #{}", unsubscribe.packet_id.value())?;
                unsubscribe.filters().try_for_each(|filter| write!(f, " {filter}"))
            }
            Packet::UnsubAck(unsuback) => {
                write!(f, "UNSUBACK #{} {:?}", unsuback.packet_id.value(), unsuback.codes)
            }
            Packet::PingReq => f.write_str("PINGREQ"),
            Packet::PingResp => f.write_str("PINGRESP"),
            Packet::Disconnect(disconnect) => {
                write!(f, "DISCONNECT {:?}{}", disconnect.reason, List(disconnect.properties))
            }
            Packet::Auth(auth) => write!(f, "AUTH {:?}", auth.reason),
        }
    }
}

fn flag(is_set: bool, text: &'static str) -> &'static str {
    if is_set { text } else { "" }
}

struct List<'a>(Properties<'a>);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|property| match property {
            Property::UserProperty(name, value) => write!(f, " {name}={value}"),
            other => write!(f, " {other:?}"),
        })
    }
}
