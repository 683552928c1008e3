//! A client's connection over a blocking socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;
use weir_bench::driver::Login;
use weir_load::Stream;
use weir_wire::packet::{Ack, Connect, SubscribeBuf, SubscriptionOptions};
use weir_wire::{
    Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// Where the broker is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its address.
    pub target: SocketAddr,
    /// What is spoken.
    pub version: Version,
    /// Who the client is, and by which way it comes.
    pub login: Login,
    /// How long the network may take to connect, and a packet to leave.
    pub reach_max: Duration,
    /// How long CONNACK may take.
    pub answer_max: Duration,
}

/// What CONNACK says.
#[derive(Clone, Copy, Debug)]
pub struct Welcome {
    /// Whether the broker has the client's session.
    pub is_session_present: bool,
    /// How many messages at QoS 1 and 2 may be in flight to the broker.
    pub receive_max: u16,
}

/// Whether a broker that refuses for this reason may accept a little later.
fn is_not_now(reason: ReasonCode) -> bool {
    matches!(reason, ReasonCode::ServerUnavailable | ReasonCode::ServerBusy)
}

/// A connection that CONNACK has accepted.
#[derive(Debug)]
pub struct Link {
    stream: Stream,
    version: Version,
    input: Vec<u8>,
    /// How much of `input` was handled.
    taken: usize,
    output: Vec<u8>,
    wait: Duration,
}

impl Link {
    /// Connects; `clean` makes a new session, and `lasts` one that outlives its connection.
    ///
    /// # Errors
    /// [`ErrorKind::ResourceBusy`] if the broker is not ready yet, [`ErrorKind::TimedOut`] if it is
    /// silent, and what the system says.
    pub fn connect(
        place: &Place,
        client_id: &str,
        clean: bool,
        lasts: bool,
    ) -> io::Result<(Self, Welcome)> {
        let version = place.version;
        let stream = Stream::connect(place.target, &place.login.route, place.reach_max)?;
        let (input, output) = (Vec::new(), Vec::new());
        let mut link = Self { stream, version, input, taken: 0, output, wait: place.reach_max };
        let credentials = &place.login.credentials;
        let mut properties = PropertiesBuf::new();
        if lasts && version.is_v5() {
            // It never expires.
            properties.push(Property::SessionExpiryInterval(u32::MAX));
        }
        link.push(&Packet::Connect(Connect {
            version,
            // Before 5.0 the same flag says that the session ends with the connection.
            clean_start: clean && (version.is_v5() || !lasts),
            keep_alive_s: 0,
            client_id,
            will: None,
            user_name: credentials.user_name.as_deref(),
            password: credentials.password.as_deref().map(str::as_bytes),
            properties: properties.as_properties(),
        }));
        link.flush()?;
        let welcome = link.packet(place.answer_max, |packet| match packet {
            Packet::ConnAck(connack) if connack.reason == ReasonCode::Success => {
                let receive_max = |property| match property {
                    Property::ReceiveMaximum(count) => Some(count),
                    _ => None,
                };
                Ok(Welcome {
                    is_session_present: connack.session_present,
                    receive_max: connack.properties.find(receive_max).unwrap_or(u16::MAX),
                })
            }
            // It takes up what it has on its disk, perhaps.
            Packet::ConnAck(connack) if is_not_now(connack.reason) => Err(io::Error::new(
                ErrorKind::ResourceBusy,
                format!("it says {:?}", connack.reason),
            )),
            other => Err(io::Error::other(format!("it answered CONNECT with {other:?}"))),
        })?;
        Ok((link, welcome.ok_or(ErrorKind::TimedOut)??))
    }

    /// Writes a packet that leaves with the next [`Link::flush`].
    pub fn push(&mut self, packet: &Packet<'_>) {
        packet.encode(self.version, &mut self.output);
    }

    /// Writes an acknowledgement.
    pub fn answer(&mut self, ack: fn(Ack<'static>) -> Packet<'static>, packet_id: PacketId) {
        self.push(&ack(Ack::success(packet_id)));
    }

    /// Writes what follows a PUBLISH of the broker: nothing at QoS 0.
    pub fn acknowledge(&mut self, qos: QoS, packet_id: Option<PacketId>) {
        match (qos, packet_id) {
            (QoS::AtLeastOnce, Some(id)) => self.answer(Packet::PubAck, id),
            (QoS::ExactlyOnce, Some(id)) => self.answer(Packet::PubRec, id),
            _ => {}
        }
    }

    /// Writes a SUBSCRIBE.
    pub fn subscribe<'a>(&mut self, filters: impl Iterator<Item = (&'a str, QoS)>) {
        let mut list = SubscribeBuf::new();
        for (filter, qos) in filters {
            list.push(filter, SubscriptionOptions { qos, ..SubscriptionOptions::default() });
        }
        let subscribe = list.subscribe(self.version, PacketId::FIRST, Properties::EMPTY);
        self.push(&Packet::Subscribe(subscribe));
    }

    /// Sends what was written.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// What `look` makes of the next packet; nothing if none comes within `wait`.
    ///
    /// # Errors
    /// What the system says, and [`ErrorKind::InvalidData`] for what is not MQTT.
    pub fn packet<T>(
        &mut self,
        wait: Duration,
        look: impl FnOnce(&Packet<'_>) -> T,
    ) -> io::Result<Option<T>> {
        loop {
            let fault = |error| io::Error::new(ErrorKind::InvalidData, error);
            let rest = &self.input[self.taken..];
            if let Some(frame) = Frame::check(rest, u32::MAX).map_err(fault)? {
                self.taken += frame.bytes;
                return Ok(Some(look(&Packet::decode(self.version, frame).map_err(fault)?)));
            }
            if !self.fill(wait)? {
                return Ok(None);
            }
        }
    }

    /// Whether a packet is there without waiting.
    pub fn has_packet(&self) -> bool {
        matches!(Frame::check(&self.input[self.taken..], u32::MAX), Ok(Some(_)))
    }

    /// Reads more; says whether something came within `wait`.
    fn fill(&mut self, wait: Duration) -> io::Result<bool> {
        if self.wait != wait {
            self.stream.set_read_timeout(wait)?;
            self.wait = wait;
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            },
        }
    }
}
