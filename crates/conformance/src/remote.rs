//! A broker behind a network.

use crate::credentials::Credentials;
use crate::target::{Received, Target, take_packet};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection of bytes, whatever they are carried by.
pub trait Stream {
    /// Reads what is there, or what comes within `patience`; 0 bytes are the end.
    ///
    /// # Errors
    /// What the system or the transport says; [`ErrorKind::WouldBlock`] or
    /// [`ErrorKind::TimedOut`] if nothing came.
    fn read(&mut self, into: &mut [u8], patience: Duration) -> io::Result<usize>;

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What the system says.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn read(&mut self, into: &mut [u8], patience: Duration) -> io::Result<usize> {
        self.set_read_timeout(Some(patience))?;
        Read::read(self, into)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
}

/// Opens a connection, which may take so long, as may a write to it.
pub type Open = Box<dyn Fn(Duration) -> io::Result<Box<dyn Stream>>>;

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

/// Connections to one broker.
pub struct Remote {
    open: Open,
    patience: Patience,
    credentials: Credentials,
    connections: Vec<Option<Connection>>,
}

struct Connection {
    stream: Box<dyn Stream>,
    bytes: Vec<u8>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("patience", &self.patience).finish_non_exhaustive()
    }
}

impl Remote {
    /// By TCP. Connects to nothing yet.
    pub fn tcp(address: SocketAddr, patience: Patience) -> Self {
        Self::over(
            Box::new(move |patience| {
                let stream = TcpStream::connect_timeout(&address, patience)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(patience))?;
                Ok(Box::new(stream))
            }),
            patience,
        )
    }

    /// By whatever `open` makes.
    pub fn over(open: Open, patience: Patience) -> Self {
        let credentials = Credentials::default();
        Self { open, patience, credentials, connections: Vec::new() }
    }

    /// Every CONNECT says these.
    #[must_use]
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }
}

impl Target for Remote {
    fn open(&mut self) -> Result<usize, String> {
        let stream = (self.open)(self.patience.expected);
        let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
        self.connections.push(Some(Connection { stream, bytes: Vec::new() }));
        Ok(self.connections.len() - 1)
    }

    fn present(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.credentials.present(bytes)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        if let Some(Some(connection)) = self.connections.get_mut(connection) {
            // A broken connection shows in what is received.
            let _ = connection.stream.write(bytes);
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
            match connection.stream.read(&mut buffer, left) {
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
