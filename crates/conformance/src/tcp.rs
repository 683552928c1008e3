//! A broker behind TCP.

use crate::credentials::Credentials;
use crate::target::{Received, Target, take_packet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a run waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a packet, or an end, that has to come.
    pub expected: Duration,
    /// For a packet that should not come, once a PING was answered: a broker may deliver from
    /// another thread.
    pub unexpected: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { expected: Duration::from_secs(5), unexpected: Duration::from_millis(50) }
    }
}

/// Connections to one address.
#[derive(Debug)]
pub struct Tcp {
    address: SocketAddr,
    patience: Patience,
    credentials: Credentials,
    connections: Vec<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Tcp {
    /// Connects to nothing yet.
    pub fn new(address: SocketAddr, patience: Patience) -> Self {
        let credentials = Credentials::default();
        Self { address, patience, credentials, connections: Vec::new() }
    }

    /// Every CONNECT says these.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }
}

impl Target for Tcp {
    fn open(&mut self) -> Result<usize, String> {
        let open = || {
            let stream = TcpStream::connect_timeout(&self.address, self.patience.expected)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(self.patience.expected))?;
            Ok(stream)
        };
        let stream = open().map_err(|error: std::io::Error| {
            format!("cannot connect to {}: {error}", self.address)
        })?;
        self.connections.push(Some(Connection { stream, bytes: Vec::new() }));
        Ok(self.connections.len() - 1)
    }

    fn present(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.credentials.present(bytes)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        if let Some(Some(connection)) = self.connections.get_mut(connection) {
            // A broken connection shows in what is received.
            let _ = connection.stream.write_all(bytes);
        }
    }

    fn receive(&mut self, connection: usize, expected: bool) -> Received {
        let Some(Some(connection)) = self.connections.get_mut(connection) else {
            return Received::Ended;
        };
        let patience = if expected { self.patience.expected } else { self.patience.unexpected };
        let deadline = Instant::now() + patience;
        let mut buffer = [0; 65_536];
        loop {
            if let Some(received) = take_packet(&mut connection.bytes) {
                return received;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Received::Nothing;
            }
            if connection.stream.set_read_timeout(Some(left)).is_err() {
                return Received::Ended;
            }
            match connection.stream.read(&mut buffer) {
                Ok(0) => return Received::Ended,
                Ok(count) => connection.bytes.extend_from_slice(&buffer[..count]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Received::Nothing,
                    ErrorKind::Interrupted => {}
                    _ => return Received::Ended,
                },
            }
        }
    }

    fn close(&mut self, connection: usize) {
        if let Some(connection) = self.connections.get_mut(connection) {
            *connection = None;
        }
    }

    fn pass(&mut self, millis: u64) {
        std::thread::sleep(Duration::from_millis(millis));
    }
}
