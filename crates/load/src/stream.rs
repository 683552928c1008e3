//! One connection to a broker over any transport, read and written as a stream: for whoever asks a
//! broker a few questions, and not for the load.

use crate::plan::{Route, Transports};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weir_transport::{Layers, Scratch};

/// Bytes read at a time.
const READ_BYTES: usize = 16 * 1024;

/// A connection that is open.
#[derive(Debug)]
pub struct Stream {
    tcp: TcpStream,
    layers: Option<Layers>,
    scratch: Scratch,
    /// What has come and was not read yet.
    plain: Vec<u8>,
    has_ended: bool,
}

impl Stream {
    /// Connects and opens the transport, each of which may take `patience`; so may each read and
    /// write after it, until [`Stream::set_read_timeout`] says otherwise.
    ///
    /// # Errors
    /// What the system or the transport says, or a route that cannot be used.
    pub fn connect(target: SocketAddr, route: &Route, patience: Duration) -> io::Result<Self> {
        let transports = Transports::new(route, target.port()).map_err(io::Error::other)?;
        let tcp = TcpStream::connect_timeout(&target, patience)?;
        tcp.set_read_timeout(Some(patience))?;
        tcp.set_write_timeout(Some(patience))?;
        tcp.set_nodelay(true)?;
        let layers = transports.of(0).layers();
        let mut stream =
            Self { tcp, layers, scratch: Scratch::default(), plain: Vec::new(), has_ended: false };
        stream.open()?;
        Ok(stream)
    }

    /// How long a read may take.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_read_timeout(&self, patience: Duration) -> io::Result<()> {
        self.tcp.set_read_timeout(Some(patience))
    }

    fn open(&mut self) -> io::Result<()> {
        let Some(layers) = &mut self.layers else { return Ok(()) };
        let mut network = Vec::new();
        layers.begin(&mut network, &mut self.scratch);
        self.tcp.write_all(&network)?;
        while self.layers.as_ref().is_some_and(|layers| !layers.is_open()) {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Reads from the network once, through the layers. Returns how many bytes that were.
    fn fill(&mut self) -> io::Result<usize> {
        let Some(layers) = &mut self.layers else { return Ok(0) };
        let mut bytes = [0; READ_BYTES];
        let length = self.tcp.read(&mut bytes)?;
        let mut network = Vec::new();
        let result =
            layers.received(&bytes[..length], &mut self.plain, &mut network, &mut self.scratch);
        self.tcp.write_all(&network)?;
        match result {
            Ok(weir_transport::Stream::Open) => Ok(length),
            Ok(weir_transport::Stream::Ended) => {
                self.has_ended = true;
                Ok(0)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.layers.is_none() {
            return self.tcp.read(into);
        }
        while self.plain.is_empty() {
            if self.has_ended || self.fill()? == 0 {
                break;
            }
        }
        let some = into.len().min(self.plain.len());
        into[..some].copy_from_slice(&self.plain[..some]);
        self.plain.drain(..some);
        Ok(some)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(layers) = &mut self.layers else { return self.tcp.write(bytes) };
        let mut network = Vec::new();
        layers.send(bytes, &mut network, &mut self.scratch);
        self.tcp.write_all(&network)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
