//! The file: a header, then chunks, each with its kind and its length.

use crate::chunk::{Malformed, Reader};
use std::collections::BTreeMap;
use weir_wire::packet::SubscriptionOptions;
use weir_wire::topic::is_valid_name;
use weir_wire::{Frame, Packet, PropertiesBuf, Property, QoS, REMAINING_LENGTH_MAX, Version};

/// What the file begins with.
const MAGIC: [u8; 15] = *b"\0\xB5\0mosquitto db";

/// Formats that are read.
const VERSIONS: [u32; 2] = [5, 6];

/// What the file says of itself.
const CONFIGURATION: u32 = 1;
/// A message, whoever is to get it.
const MESSAGE: u32 = 2;
/// A message of a client: on its way in or out.
const DELIVERY: u32 = 3;
const RETAINED: u32 = 4;
const SUBSCRIPTION: u32 = 5;
const CLIENT: u32 = 6;

/// What is in a file.
#[derive(Debug, Default)]
pub struct Database<'a> {
    pub(crate) version: u32,
    /// By their numbers.
    pub(crate) messages: BTreeMap<u64, Stored<'a>>,
    pub(crate) clients: Vec<Client<'a>>,
    by_id: BTreeMap<&'a str, usize>,
    /// Numbers of the messages.
    pub(crate) retained: Vec<u64>,
    /// Subscriptions and deliveries of clients that the file does not have.
    pub(crate) strays: u64,
    /// Chunks that are not known.
    pub(crate) unknown: u64,
}

#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) properties: PropertiesBuf,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Seconds since 1970.
    pub(crate) expires_at_s: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Client<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) expiry_s: u32,
    /// Seconds since 1970.
    pub(crate) expires_at_s: Option<u64>,
    pub(crate) subscriptions: Vec<Subscription<'a>>,
    /// In the order of the file, which is that of their arrival.
    pub(crate) deliveries: Vec<Delivery>,
}

#[derive(Debug)]
pub(crate) struct Subscription<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: SubscriptionOptions,
    pub(crate) subscription_id: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) message: u64,
    /// 0 while it waits in the queue.
    pub(crate) packet_id: u16,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) state: State,
    pub(crate) subscription_id: Option<u32>,
}

/// How far a delivery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits in the queue.
    Queued,
    /// PUBLISH was sent, or is to be.
    Published,
    /// Of a delivery at QoS 2 only the identifier is still owed.
    Released,
    /// A message at QoS 2 from the client whose PUBREL has not come. Nobody has it yet.
    Incoming,
    /// The client has to send it again, as it got no answer.
    Unanswered,
}

impl<'a> Database<'a> {
    /// Takes the file apart.
    ///
    /// # Errors
    /// It is not Mosquitto's, of another format, or not whole.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut file = Reader::new(bytes);
        let not_its = file.malformed("this is no persistence file of Mosquitto's");
        if file.bytes(MAGIC.len()).map_err(|_| not_its)? != MAGIC {
            return Err(not_its);
        }
        // There is room for a checksum, which no version writes.
        file.u32()?;
        let other = file.malformed("a format other than 5 and 6, those of Mosquitto 1.6 to 2.1");
        let version = file.u32()?;
        if !VERSIONS.contains(&version) {
            return Err(other);
        }
        let mut database = Self { version, ..Self::default() };
        while !file.is_empty() {
            let kind = file.u32()?;
            let length = file.u32()? as usize;
            database.chunk(kind, file.part(length)?)?;
        }
        Ok(database)
    }

    fn chunk(&mut self, kind: u32, mut chunk: Reader<'a>) -> Result<(), Malformed> {
        let from = &mut chunk;
        match kind {
            CONFIGURATION => configuration(from),
            MESSAGE => self.message(from),
            DELIVERY => self.delivery(from),
            RETAINED => {
                self.retained.push(from.u64()?);
                Ok(())
            }
            SUBSCRIPTION => self.subscription(from),
            CLIENT => self.client(from),
            _ => {
                self.unknown += 1;
                Ok(())
            }
        }
    }

    fn message(&mut self, from: &mut Reader<'a>) -> Result<(), Malformed> {
        let number = from.u64()?;
        let expires_at_s = seconds(from.i64()?);
        let payload_bytes = from.u32()? as usize;
        let _packet_id = from.u16()?;
        let (client_id, user_name, topic) = (from.u16()?, from.u16()?, from.u16()?);
        let _port = from.u16()?;
        let (qos, retain) = (qos(from)?, from.u8()? != 0);
        from.bytes(usize::from(client_id) + usize::from(user_name))?;
        let not_a_topic = from.malformed("a topic that no message can have");
        let topic = from.text(topic)?;
        if !is_valid_name(topic) {
            return Err(not_a_topic);
        }
        let payload = from.bytes(payload_bytes)?;
        let (properties, _) = properties(from)?;
        let stored = Stored { topic, payload, properties, qos, retain, expires_at_s };
        self.messages.insert(number, stored);
        Ok(())
    }

    fn client(&mut self, from: &mut Reader<'a>) -> Result<(), Malformed> {
        let expires_at_s = seconds(from.i64()?);
        let expiry_s = from.u32()?;
        let _last_packet_id = from.u16()?;
        let id_bytes = from.u16()?;
        if self.version > 5 {
            // The listener's port, the length of the user name, and bytes that mean nothing.
            from.bytes(8)?;
        }
        let offset = from.offset();
        let client_id = from.text(id_bytes)?;
        if client_id.is_empty() || self.by_id.contains_key(client_id) {
            let what = "a client without an identifier, or with one that another has";
            return Err(Malformed { offset, what });
        }
        self.by_id.insert(client_id, self.clients.len());
        let (subscriptions, deliveries) = (Vec::new(), Vec::new());
        let client = Client { client_id, expiry_s, expires_at_s, subscriptions, deliveries };
        self.clients.push(client);
        Ok(())
    }

    fn delivery(&mut self, from: &mut Reader<'a>) -> Result<(), Malformed> {
        let message = from.u64()?;
        let (packet_id, id_bytes) = (from.u16()?, from.u16()?);
        let qos = qos(from)?;
        let (state, flags, direction) = (from.u8()?, from.u8()?, from.u8()?);
        let unknown = from.malformed("a delivery in a state that is not known");
        let state = State::of(state, direction != 0).ok_or(unknown)?;
        let client_id = from.text(id_bytes)?;
        let (_, subscription_id) = properties(from)?;
        let retain = flags & 0xF0 != 0;
        let delivery = Delivery { message, packet_id, qos, retain, state, subscription_id };
        match self.by_id.get(client_id) {
            Some(&at) => self.clients[at].deliveries.push(delivery),
            None => self.strays += 1,
        }
        Ok(())
    }

    fn subscription(&mut self, from: &mut Reader<'a>) -> Result<(), Malformed> {
        let number = from.u32()?;
        let (id_bytes, topic_bytes) = (from.u16()?, from.u16()?);
        let bad = from.malformed("options that no subscription can have");
        let (qos, options) = (from.u8()?, from.u8()?);
        let options = SubscriptionOptions::from_byte(Version::V5, qos | options);
        let options = options.map_err(|_| bad)?;
        // Bytes that mean nothing.
        from.bytes(2)?;
        let client_id = from.text(id_bytes)?;
        let name = from.text(topic_bytes)?;
        let subscription_id = Some(number).filter(|&number| number != 0);
        let subscription = Subscription { name, options, subscription_id };
        match self.by_id.get(client_id) {
            Some(&at) => self.clients[at].subscriptions.push(subscription),
            None => self.strays += 1,
        }
        Ok(())
    }
}

impl State {
    fn of(number: u8, is_out: bool) -> Option<Self> {
        match number {
            11 if is_out => Some(Self::Queued),
            1..=5 if is_out => Some(Self::Published),
            6 | 9 if is_out => Some(Self::Released),
            // PUBREC was sent, or is to be.
            7 | 8 | 10 if !is_out => Some(Self::Incoming),
            0..=11 if !is_out => Some(Self::Unanswered),
            _ => None,
        }
    }
}

fn configuration(from: &mut Reader<'_>) -> Result<(), Malformed> {
    let _last_number = from.u64()?;
    let _is_shut_down = from.u8()?;
    let other = from.malformed("numbers of messages that have not 8 bytes");
    if from.u8()? == 8 { Ok(()) } else { Err(other) }
}

fn qos(from: &mut Reader<'_>) -> Result<QoS, Malformed> {
    let bad = from.malformed("a QoS above 2");
    match from.u8()? {
        0 => Ok(QoS::AtMostOnce),
        1 => Ok(QoS::AtLeastOnce),
        2 => Ok(QoS::ExactlyOnce),
        _ => Err(bad),
    }
}

/// A time; 0 is none.
fn seconds(at: i64) -> Option<u64> {
    u64::try_from(at).ok().filter(|&at| at > 0)
}

/// The properties to the end of a chunk, as a PUBLISH has them: those that are passed on, and a
/// subscription identifier.
fn properties(from: &mut Reader<'_>) -> Result<(PropertiesBuf, Option<u32>), Malformed> {
    let bad = from.malformed("properties that no PUBLISH can have");
    let encoded = from.rest();
    let mut kept = PropertiesBuf::new();
    let mut subscription_id = None;
    if encoded.is_empty() {
        return Ok((kept, None));
    }
    // They are checked as those of a packet, which this makes one of.
    let mut packet = vec![0x30];
    let mut length = encoded.len() + 3;
    while length >= 0x80 {
        packet.push(length as u8 | 0x80);
        length >>= 7;
    }
    packet.push(length as u8);
    packet.extend_from_slice(b"\0\x01t");
    packet.extend_from_slice(encoded);
    let frame = Frame::check(&packet, REMAINING_LENGTH_MAX).map_err(|_| bad)?.ok_or(bad)?;
    let Ok(Packet::Publish(publish)) = Packet::decode(Version::V5, frame) else { return Err(bad) };
    for property in publish.properties.iter() {
        match property {
            Property::SubscriptionIdentifier(number) => subscription_id = Some(number),
            Property::PayloadFormatIndicator(_)
            | Property::ContentType(_)
            | Property::ResponseTopic(_)
            | Property::CorrelationData(_)
            | Property::UserProperty(..) => kept.push(property),
            _ => {}
        }
    }
    if publish.payload.is_empty() { Ok((kept, subscription_id)) } else { Err(bad) }
}
