//! CONNECT (section 3.1).

use crate::primitive::{Reader, put_binary, put_packet, put_string, put_u16};
use crate::property::Place;
use crate::topic::is_valid_name;
use crate::{Frame, PacketKind, Properties, QoS, Version, WireError};

/// The will inside CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// Where the will is published; a valid topic name.
    pub topic: &'a str,
    /// What is published.
    pub payload: &'a [u8],
    /// With which QoS.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// Will properties; empty before 5.0.
    pub properties: Properties<'a>,
}

/// A request to connect. The reserved flag, flags without their fields and the like are refused
/// at decode \[MQTT-3.1.2-3\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// From the protocol name and level.
    pub version: Version,
    /// Clean Start (5.0) or Clean Session.
    pub clean_start: bool,
    /// Keep alive in seconds; 0 is off.
    pub keep_alive_s: u16,
    /// May be empty.
    pub client_id: &'a str,
    /// The will, if its flag is set.
    pub will: Option<Will<'a>>,
    /// The user name, if its flag is set.
    pub user_name: Option<&'a str>,
    /// The password, if its flag is set.
    pub password: Option<&'a [u8]>,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
}

impl<'a> Connect<'a> {
    /// Of a client with a clean start, and no more than that: no will, name or keep alive.
    pub const fn new(version: Version, client_id: &'a str) -> Self {
        Self {
            version,
            clean_start: true,
            keep_alive_s: 0,
            client_id,
            will: None,
            user_name: None,
            password: None,
            properties: Properties::EMPTY,
        }
    }

    pub(crate) fn decode(frame: Frame<'a>) -> Result<Self, WireError> {
        let mut reader = Reader::new(frame.body);
        let version = decode_version(&mut reader)?;
        frame.check_header(version)?;
        let flags = reader.u8()?;
        check_flags(version, flags)?;
        let keep_alive_s = reader.u16()?;
        let place = Place::Packet(PacketKind::Connect);
        let properties = Properties::decode(version, place, &mut reader)?;
        let client_id = reader.string()?;
        let will =
            if flags & WILL != 0 { Some(Will::decode(version, flags, &mut reader)?) } else { None };
        let user_name = if has_field(version, flags & USER_NAME, reader) {
            Some(reader.string()?)
        } else {
            None
        };
        let password = if has_field(version, flags & PASSWORD, reader) {
            Some(reader.binary()?)
        } else {
            None
        };
        reader.finish()?;
        let clean_start = flags & CLEAN_START != 0;
        Ok(Self {
            version,
            clean_start,
            keep_alive_s,
            client_id,
            will,
            user_name,
            password,
            properties,
        })
    }

    /// Appends the whole packet. Before 5.0 properties are left out; that a password comes with
    /// a user name there is the caller's promise.
    ///
    /// # Panics
    /// If a string or binary is longer than 65,535 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_packet(out, PacketKind::Connect.first_byte(), |out| {
            let name = if self.version == Version::V31 { NAME_31 } else { NAME };
            put_binary(out, name);
            out.extend_from_slice(&[self.version as u8, self.flags()]);
            put_u16(out, self.keep_alive_s);
            self.properties.encode(self.version, out);
            put_string(out, self.client_id);
            if let Some(will) = &self.will {
                will.properties.encode(self.version, out);
                put_string(out, will.topic);
                put_binary(out, will.payload);
            }
            if let Some(user_name) = self.user_name {
                put_string(out, user_name);
            }
            if let Some(password) = self.password {
                put_binary(out, password);
            }
        });
    }

    fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        flag(self.clean_start, CLEAN_START)
            | self.will.map_or(0, |will| {
                WILL | (will.qos as u8) << WILL_QOS_SHIFT | flag(will.retain, WILL_RETAIN)
            })
            | flag(self.user_name.is_some(), USER_NAME)
            | flag(self.password.is_some(), PASSWORD)
    }
}

impl<'a> Will<'a> {
    fn decode(version: Version, flags: u8, reader: &mut Reader<'a>) -> Result<Self, WireError> {
        // [MQTT-3.1.2-12]
        let Some(qos) = QoS::from_u8(flags >> WILL_QOS_SHIFT & 0b11) else {
            return Err(WireError::Malformed("will QoS 3"));
        };
        let properties = Properties::decode(version, Place::Will, reader)?;
        let topic = reader.text()?;
        if !is_valid_name(topic) {
            return Err(WireError::Malformed("will topic that is not a topic name"));
        }
        let retain = flags & WILL_RETAIN != 0;
        Ok(Self { topic, payload: reader.binary()?, qos, retain, properties })
    }
}

const NAME: &[u8] = b"MQTT";
const NAME_31: &[u8] = b"MQIsdp";

const RESERVED: u8 = 0b0000_0001;
const CLEAN_START: u8 = 0b0000_0010;
const WILL: u8 = 0b0000_0100;
const WILL_QOS_SHIFT: u8 = 3;
const WILL_QOS: u8 = 0b0001_1000;
const WILL_RETAIN: u8 = 0b0010_0000;
const PASSWORD: u8 = 0b0100_0000;
const USER_NAME: u8 = 0b1000_0000;

fn decode_version(reader: &mut Reader<'_>) -> Result<Version, WireError> {
    match (reader.binary()?, reader.u8()?) {
        (NAME, 5) => Ok(Version::V5),
        (NAME, 4) => Ok(Version::V311),
        (NAME_31, 3) => Ok(Version::V31),
        (_, level) => Err(WireError::UnsupportedVersion { level }),
    }
}

fn check_flags(version: Version, flags: u8) -> Result<(), WireError> {
    // [MQTT-3.1.2-3]
    if flags & RESERVED != 0 {
        return Err(WireError::Malformed("reserved connect flag"));
    }
    // [MQTT-3.1.2-11, 3.1.2-13]
    if flags & WILL == 0 && flags & (WILL_QOS | WILL_RETAIN) != 0 {
        return Err(WireError::Malformed("will QoS or will retain without a will"));
    }
    // [MQTT-3.1.2-22] of 3.1.1; 5.0 allows a password alone.
    if !version.is_v5() && flags & (USER_NAME | PASSWORD) == PASSWORD {
        return Err(WireError::Malformed("password without a user name"));
    }
    Ok(())
}

/// Whether a field with this flag follows. In 3.1 the remaining length takes precedence over the
/// flags of user name and password: both may be missing at the end.
fn has_field(version: Version, flag: u8, reader: Reader<'_>) -> bool {
    flag != 0 && !(version == Version::V31 && reader.is_empty())
}
