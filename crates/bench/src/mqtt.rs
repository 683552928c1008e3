//! As much MQTT as it takes to ask a broker whether it is there, and how far: written by hand, so
//! that the suite shares no codec with any broker.

use crate::login::Login;
use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use weir_load::Stream;
use weir_load::plan::{Credentials, ProtocolVersion};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(1);
const PINGREQ: [u8; 2] = [0xC0, 0];
const DISCONNECT: [u8; 2] = [0xE0, 0];

/// Of a subscription that nobody else publishes to, with a packet identifier of 1.
const FILTER: &[u8] = b"weir/ready";

/// The packet type of PUBLISH.
const PUBLISH: u8 = 3;

/// A connection that CONNACK has accepted.
struct Probe(Stream);

impl Probe {
    fn connect(target: SocketAddr, version: ProtocolVersion, login: &Login) -> io::Result<Self> {
        let mut stream = Stream::connect(target, &login.route, CONNECT_TIMEOUT)?;
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // At most 23 bytes, which every server must allow: [MQTT-3.1.3-5].
        let client_id = format!("weir-{:08x}-{count:04x}", std::process::id());
        // Clean session, keep alive 60 s; 5.0 has properties, of which there are none.
        let (level, properties): (u8, &[u8]) = match version {
            ProtocolVersion::V311 => (4, &[]),
            ProtocolVersion::V5 => (5, &[0]),
        };
        let Credentials { user_name, password } = &login.first();
        let flags = 2 | u8::from(user_name.is_some()) << 7 | u8::from(password.is_some()) << 6;
        let mut body = vec![0, 4];
        body.extend_from_slice(b"MQTT");
        body.extend_from_slice(&[level, flags, 0, 60]);
        body.extend_from_slice(properties);
        let texts = [Some(&client_id), user_name.as_ref(), password.as_ref()];
        for text in texts.into_iter().flatten() {
            body.extend_from_slice(&(text.len() as u16).to_be_bytes());
            body.extend_from_slice(text.as_bytes());
        }
        let mut packet = vec![0x10];
        packet.extend(remaining_length(body.len()));
        packet.extend(body);
        stream.write_all(&packet)?;
        connack(&mut stream)?;
        stream.set_read_timeout(PING_TIMEOUT)?;
        Ok(Self(stream))
    }

    /// Whether a subscription is granted.
    fn subscribe(&mut self, version: ProtocolVersion) -> io::Result<bool> {
        let mut body = vec![0, 1];
        body.extend_from_slice(match version {
            ProtocolVersion::V311 => &[],
            ProtocolVersion::V5 => &[0],
        });
        body.extend_from_slice(&(FILTER.len() as u16).to_be_bytes());
        body.extend_from_slice(FILTER);
        body.push(0);
        let mut packet = vec![0x82];
        packet.extend(remaining_length(body.len()));
        packet.extend(body);
        self.0.write_all(&packet)?;
        let mut start = [0; 2];
        self.0.read_exact(&mut start)?;
        let [0x90, length @ 3..0x80] = start else {
            return Err(io::Error::other(format!("it answered SUBSCRIBE with {start:02x?}")));
        };
        let mut body = vec![0; usize::from(length)];
        self.0.read_exact(&mut body)?;
        // The last byte is the only reason code.
        Ok(body.last().is_some_and(|code| *code < 0x80))
    }

    /// Publishes a message at QoS 0 to what [`Probe::subscribe`] subscribes to.
    fn publish(&mut self, version: ProtocolVersion) -> io::Result<()> {
        let mut body = (FILTER.len() as u16).to_be_bytes().to_vec();
        body.extend_from_slice(FILTER);
        body.extend_from_slice(match version {
            ProtocolVersion::V311 => &[],
            ProtocolVersion::V5 => &[0],
        });
        let mut packet = vec![PUBLISH << 4];
        packet.extend(remaining_length(body.len()));
        packet.extend(body);
        self.0.write_all(&packet)
    }

    /// Whether such a message comes.
    fn hears(&mut self) -> io::Result<bool> {
        let mut start = [0];
        match self.0.read_exact(&mut start) {
            Ok(()) => Ok(start[0] >> 4 == PUBLISH),
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn round_trip(&mut self) -> io::Result<Duration> {
        let start = Instant::now();
        self.0.write_all(&PINGREQ)?;
        let mut pingresp = [0; 2];
        self.0.read_exact(&mut pingresp)?;
        Ok(start.elapsed())
    }
}

/// A length as a variable byte integer (section 1.5.5).
fn remaining_length(mut length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while length > 0x7F {
        bytes.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes
}

/// Reads a CONNACK that accepts, properties and all.
fn connack(stream: &mut Stream) -> io::Result<()> {
    let mut start = [0; 4];
    stream.read_exact(&mut start)?;
    // The length: one byte without properties, up to two with those that brokers send.
    let (length, flags, code) = match start {
        [0x20, low, high, _] if low >= 0x80 && high < 0x80 => {
            let mut code = [0];
            stream.read_exact(&mut code)?;
            (usize::from(low & 0x7F) + (usize::from(high) << 7), start[3], code[0])
        }
        [0x20, length @ 2..0x80, flags, code] => (usize::from(length), flags, code),
        other => return Err(io::Error::other(format!("it answered CONNECT with {other:02x?}"))),
    };
    if flags != 0 || code != 0 {
        let why = format!("it refused CONNECT with code {code}{}", hint(code));
        return Err(io::Error::new(kind(code), why));
    }
    let mut properties = vec![0; length.saturating_sub(2)];
    stream.read_exact(&mut properties)
}

/// Server unavailable, of 3.1.1 or 5.0, and Server busy: it may accept later.
fn kind(code: u8) -> io::ErrorKind {
    match code {
        3 | 0x88 | 0x89 => io::ErrorKind::ResourceBusy,
        _ => io::ErrorKind::Other,
    }
}

/// What to do about a refusal, of 3.1.1 or 5.0.
fn hint(code: u8) -> &'static str {
    match code {
        4 | 5 | 0x86 | 0x87 => {
            ": it wants a user name and a password, or others; give them as \
             mqtt://USER:PASSWORD@HOST:PORT"
        }
        _ => "",
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A broker that is gone need not be told.
        let _ = self.0.write_all(&DISCONNECT);
    }
}

/// Whether a broker answers CONNECT there.
///
/// # Errors
/// No connection, no answer in time, or a refusal.
pub(crate) fn answers(
    target: SocketAddr,
    version: ProtocolVersion,
    login: &Login,
) -> io::Result<()> {
    Probe::connect(target, version, login).map(drop).map_err(told)
}

fn told(error: io::Error) -> io::Error {
    match error.kind() {
        WouldBlock | TimedOut => {
            io::Error::new(error.kind(), format!("no answer within {CONNECT_TIMEOUT:?}"))
        }
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "it closed the connection instead of answering CONNECT")
        }
        _ => error,
    }
}

/// Whether a broker that answers CONNECT there grants a subscription, too, and passes on what is
/// published to it: some listen before they know who may do what, and refuse it until then.
///
/// # Errors
/// As [`answers`] has them, or no SUBACK in time. [`io::ErrorKind::ResourceBusy`] if the broker
/// says that it is not ready yet.
pub(crate) fn serves(
    target: SocketAddr,
    version: ProtocolVersion,
    login: &Login,
) -> io::Result<bool> {
    let probe = Probe::connect(target, version, login);
    let tried = probe.and_then(|mut probe| {
        let is_granted = probe.subscribe(version)?;
        if !is_granted {
            return Ok(false);
        }
        probe.publish(version)?;
        probe.hears()
    });
    tried.map_err(told)
}

/// Whether what is published at one node of a broker comes to a subscriber at another.
///
/// # Errors
/// As [`serves`], of either node.
pub(crate) fn passes(from: SocketAddr, to: SocketAddr, login: &Login) -> io::Result<bool> {
    let version = ProtocolVersion::V311;
    let tried = Probe::connect(to, version, login).and_then(|mut to| {
        let is_granted = to.subscribe(version)?;
        Probe::connect(from, version, login)?.publish(version)?;
        Ok(is_granted && to.hears()?)
    });
    tried.map_err(told)
}

/// Median of some round trips of PINGREQ and PINGRESP, in microseconds.
pub(crate) fn round_trip_us(target: SocketAddr, login: &Login) -> Option<f64> {
    let times = round_trips(target, login)?;
    Some(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Some round trips, the shortest first; never none of them.
pub(crate) fn round_trips(target: SocketAddr, login: &Login) -> Option<Vec<Duration>> {
    const ROUND_TRIPS: usize = 51;
    let mut probe = Probe::connect(target, ProtocolVersion::V311, login).ok()?;
    let mut times: Vec<Duration> =
        (0..ROUND_TRIPS).map(|_| probe.round_trip()).collect::<Result<_, _>>().ok()?;
    times.sort();
    Some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_refuses_subscriptions_or_messages_yet_is_there_and_does_not_serve() {
        for (version, answer, serves_by_then) in [
            (
                ProtocolVersion::V311,
                &[0x20, 2, 0, 0, 0x90, 3, 0, 1, 0, 0x30, 12, 0, 10, b'w'][..],
                true,
            ),
            (ProtocolVersion::V311, &[0x20, 2, 0, 0, 0x90, 3, 0, 1, 0], false),
            (ProtocolVersion::V311, &[0x20, 2, 0, 0, 0x90, 3, 0, 1, 0x80], false),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0, 0, 0x90, 4, 0, 1, 0, 0, 0x30], true),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0, 0, 0x90, 4, 0, 1, 0, 0, 0xE0], false),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0, 0, 0x90, 4, 0, 1, 0, 0x87], false),
        ] {
            let (target, server) = answering(answer);
            let found = serves(target, version, &Login::default()).unwrap();
            assert_eq!(found, serves_by_then, "{answer:02x?}");
            server.join().unwrap();
        }
    }

    /// A server of one client that says only this.
    fn answering(answer: &'static [u8]) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(answer).unwrap();
            // Until the client is gone: what it sent is of no interest.
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        (target, server)
    }

    #[test]
    fn a_refusal_for_want_of_a_password_says_so_and_another_does_not() {
        for (version, answer, is_password) in [
            (ProtocolVersion::V311, &[0x20, 2, 0, 5][..], true),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0x86, 0], true),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0x87, 0], true),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0x97, 0], false),
            (ProtocolVersion::V311, &[0x20, 2, 0, 3], false),
            (ProtocolVersion::V5, &[0x20, 3, 0, 0x88, 0], false),
        ] {
            let (target, server) = answering(answer);
            let error = answers(target, version, &Login::default()).unwrap_err();
            server.join().unwrap();
            let is_busy = error.kind() == io::ErrorKind::ResourceBusy;
            assert_eq!(is_busy, matches!(answer[3], 3 | 0x88), "{error}");
            let error = error.to_string();
            assert!(error.contains("refused CONNECT with code"), "{error}");
            assert_eq!(error.contains("mqtt://USER:PASSWORD@"), is_password, "{error}");
        }
    }
}
