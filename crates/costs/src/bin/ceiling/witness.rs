//! Whether what a broker acknowledges under an attack is still there after it.
//!
//! One client publishes to a session that is away, a message at a time. What was acknowledged with
//! success has to be given to the session when it comes back.

use crate::client::{connect, publish, read_some, subscribe};
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use weir_wire::packet::Ack;
use weir_wire::{Frame, Packet, PacketKind, QoS, Version};

/// Bytes of a message, its number included.
const MESSAGE_BYTES: usize = 1_000;

/// Between two messages, so that the session's queue is not full whatever happens.
const PAUSE: Duration = Duration::from_millis(10);

const SESSION: &str = "witness";
const EXPIRY_S: u32 = 1_000;

/// After the attack, the session is tried to be resumed for this long.
const RETURN_MAX: Duration = Duration::from_secs(10);

/// Packets larger than this are a fault of the broker here.
const PACKET_BYTES_MAX: u32 = 1 << 20;

/// A session that is away, and what was published to it.
pub(crate) struct Witness {
    address: SocketAddr,
    acknowledged: BTreeSet<u64>,
}

impl Witness {
    /// Makes the session, and leaves.
    ///
    /// # Errors
    /// The broker does not serve.
    pub(crate) fn new(address: SocketAddr) -> anyhow::Result<Self> {
        let mut buffer = [0; 1024];
        let mut stream = connect(address, SESSION, EXPIRY_S, b"").context("the witness")?;
        read_some(&mut stream, &mut buffer)?;
        stream.write_all(&subscribe(&["witness".to_owned()]))?;
        read_some(&mut stream, &mut buffer)?;
        Ok(Self { address, acknowledged: BTreeSet::new() })
    }

    /// Publishes until then, each message once, on as many connections as it takes.
    pub(crate) fn publish(&mut self, until: Instant) {
        let mut number = 0;
        while Instant::now() < until {
            // Who is refused tries again.
            let _ = self.publish_on_one_connection(&mut number, until);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn publish_on_one_connection(
        &mut self,
        number: &mut u64,
        until: Instant,
    ) -> std::io::Result<()> {
        let mut packets = Packets::new(connect(self.address, "witness-publisher", 0, b"")?);
        packets.next(|_| ())?;
        while Instant::now() < until {
            *number += 1;
            let mut payload = vec![b'w'; MESSAGE_BYTES];
            payload[..8].copy_from_slice(&number.to_be_bytes());
            let message = publish("witness", QoS::AtLeastOnce, 1, 0, &payload);
            packets.stream.write_all(&message)?;
            let is_taken = packets
                .next(|packet| matches!(packet, Packet::PubAck(ack) if !ack.reason.is_error()))?;
            if is_taken {
                self.acknowledged.insert(*number);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Messages that were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Comes back for its messages. Returns how many of the acknowledged ones are not there.
    ///
    /// # Errors
    /// The session cannot be resumed.
    pub(crate) fn lost(mut self) -> anyhow::Result<usize> {
        let deadline = Instant::now() + RETURN_MAX;
        loop {
            match self.take_messages() {
                Ok(()) => return Ok(0),
                Err(error) if Instant::now() >= deadline => {
                    anyhow::ensure!(is_timeout(&error), "the witness is refused: {error}");
                    return Ok(self.acknowledged.len());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn take_messages(&mut self) -> std::io::Result<()> {
        let mut packets = Packets::new(connect(self.address, SESSION, EXPIRY_S, b"")?);
        while !self.acknowledged.is_empty() {
            let Some((number, packet_id)) = packets.next(|packet| match packet {
                Packet::Publish(publish) => {
                    let number = publish.payload.first_chunk().copied().map(u64::from_be_bytes);
                    number.zip(publish.packet_id)
                }
                _ => None,
            })?
            else {
                continue;
            };
            self.acknowledged.remove(&number);
            let mut bytes = Vec::new();
            Ack::success(packet_id).encode(PacketKind::PubAck, Version::V5, &mut bytes);
            packets.stream.write_all(&bytes)?;
        }
        Ok(())
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The packets of a connection.
struct Packets {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Packets {
    fn new(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    /// What `look` says of the next packet, which is waited for.
    fn next<T>(&mut self, look: impl FnOnce(Packet<'_>) -> T) -> std::io::Result<T> {
        let invalid = |error| std::io::Error::new(ErrorKind::InvalidData, error);
        loop {
            if let Some(frame) = Frame::check(&self.read, PACKET_BYTES_MAX).map_err(invalid)? {
                let packet = Packet::decode(Version::V5, frame).map_err(invalid)?;
                let (said, bytes) = (look(packet), frame.bytes);
                self.read.drain(..bytes);
                return Ok(said);
            }
            let mut part = [0; 16 * 1024];
            match self.stream.read(&mut part)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                bytes => self.read.extend_from_slice(&part[..bytes]),
            }
        }
    }
}
