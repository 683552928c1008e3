//! CONNECT (section 3.1).
use crate::{Properties, QoS, Version};

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
    /// Appends the whole packet.
    pub fn encode(&self, out: &mut Vec<u8>) {
        todo!()
    }
}
