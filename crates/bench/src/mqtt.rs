//! As much MQTT as it takes to ask a broker whether it is there, and how far: written by hand, so
//! that the suite shares no codec with any broker.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(1);
const PINGREQ: [u8; 2] = [0xC0, 0];
const DISCONNECT: [u8; 2] = [0xE0, 0];

/// A connection that CONNACK has accepted.
struct Probe(TcpStream);

impl Probe {
    fn connect(target: SocketAddr) -> io::Result<Self> {
        let mut stream = TcpStream::connect_timeout(&target, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        stream.set_nodelay(true)?;
        // 3.1.1, clean session, keep alive 60 s.
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // At most 23 bytes, which every server must allow: [MQTT-3.1.3-5].
        let client_id = format!("weir-{:08x}-{count:04x}", std::process::id());
        let mut packet = vec![0x10, 12 + client_id.len() as u8, 0, 4];
        packet.extend_from_slice(b"MQTT");
        packet.extend_from_slice(&[4, 2, 0, 60, 0, client_id.len() as u8]);
        packet.extend_from_slice(client_id.as_bytes());
        stream.write_all(&packet)?;
        let mut connack = [0; 4];
        stream.read_exact(&mut connack)?;
        match connack {
            [0x20, 2, 0, 0] => {}
            [0x20, 2, 0, code] => {
                return Err(io::Error::other(format!("it refused CONNECT with code {code}")));
            }
            other => {
                return Err(io::Error::other(format!("it answered CONNECT with {other:02x?}")));
            }
        }
        stream.set_read_timeout(Some(PING_TIMEOUT))?;
        Ok(Self(stream))
    }

    fn round_trip(&mut self) -> io::Result<Duration> {
        let start = Instant::now();
        self.0.write_all(&PINGREQ)?;
        let mut pingresp = [0; 2];
        self.0.read_exact(&mut pingresp)?;
        Ok(start.elapsed())
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
pub(crate) fn answers(target: SocketAddr) -> io::Result<()> {
    Probe::connect(target).map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(error.kind(), format!("no answer within {CONNECT_TIMEOUT:?}"))
        }
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(error.kind(), "it closed the connection instead of answering CONNECT")
        }
        _ => error,
    })
}

/// Median of some round trips of PINGREQ and PINGRESP, in microseconds.
pub(crate) fn round_trip_us(target: SocketAddr) -> Option<f64> {
    let times = round_trips(target)?;
    Some(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Some round trips, the shortest first; never none of them.
pub(crate) fn round_trips(target: SocketAddr) -> Option<Vec<Duration>> {
    const ROUND_TRIPS: usize = 51;
    let mut probe = Probe::connect(target).ok()?;
    let mut times: Vec<Duration> =
        (0..ROUND_TRIPS).map(|_| probe.round_trip()).collect::<Result<_, _>>().ok()?;
    times.sort();
    Some(times)
}
