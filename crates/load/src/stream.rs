//! One connection to a broker over any transport, read and written as a stream: for whoever asks a
//! broker a few questions, and not for the load.

use crate::plan::{Route, Transports};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weir_transport::{Layers, Scratch, TransportError};

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
    /// How the layers have ended, once they have: they are not called again.
    end: Option<Result<(), TransportError>>,
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
            Self { tcp, layers, scratch: Scratch::default(), plain: Vec::new(), end: None };
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
        match self.end {
            None => {}
            Some(Ok(())) => return Ok(0),
            Some(Err(error)) => return Err(io::Error::other(error)),
        }
        let mut bytes = [0; READ_BYTES];
        let length = self.tcp.read(&mut bytes)?;
        if length == 0 {
            return Ok(0);
        }
        let mut network = Vec::new();
        let result =
            layers.received(&bytes[..length], &mut self.plain, &mut network, &mut self.scratch);
        // A peer that is gone need not be answered, and what it has said before is still read.
        let _ = self.tcp.write_all(&network);
        match result {
            Ok(weir_transport::Stream::Open) => {}
            Ok(weir_transport::Stream::Ended) => self.end = Some(Ok(())),
            Err(error) => self.end = Some(Err(error)),
        }
        Ok(length)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.layers.is_none() {
            return self.tcp.read(into);
        }
        while self.plain.is_empty() && self.fill()? > 0 {}
        let some = into.len().min(self.plain.len());
        into[..some].copy_from_slice(&self.plain[..some]);
        self.plain.drain(..some);
        Ok(some)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(layers) = &mut self.layers else { return self.tcp.write(bytes) };
        if self.end.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut network = Vec::new();
        layers.send(bytes, &mut network, &mut self.scratch);
        self.tcp.write_all(&network)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;
    use weir_transport::ws::{Rules, server};

    /// Of a frame of three bytes, and of one that no client may get, in one segment.
    const SAID: [u8; 7] = [0x82, 3, b'b', b'y', b'e', 0xFF, 0x7F];

    #[test]
    fn what_came_before_the_end_is_read_before_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut tcp, _) = listener.accept().unwrap();
            let rules = Rules { paths: vec!["/mqtt".into()], ..Rules::default() };
            let mut layers = Layers::new([server(Arc::new(rules))]);
            let (mut scratch, mut bytes) = (Scratch::default(), [0; READ_BYTES]);
            layers.begin(&mut Vec::new(), &mut scratch);
            while !layers.is_open() {
                let length = tcp.read(&mut bytes).unwrap();
                let (mut plain, mut network) = (Vec::new(), Vec::new());
                layers.received(&bytes[..length], &mut plain, &mut network, &mut scratch).unwrap();
                tcp.write_all(&network).unwrap();
            }
            tcp.write_all(&SAID).unwrap();
            // Until the client is gone.
            let _ = io::copy(&mut tcp, &mut io::sink());
        });
        let (host, path) = ("localhost".into(), Some("/mqtt".into()));
        let route = Route { host, path, ..Route::default() };
        let mut stream = Stream::connect(target, &route, Duration::from_secs(20)).unwrap();
        let mut bytes = [0; 9];
        assert_eq!((stream.read(&mut bytes).unwrap(), &bytes[..3]), (3, &b"bye"[..]));
        assert_eq!(stream.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::Other);
        assert_eq!(stream.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        drop(stream);
        peer.join().unwrap();
    }
}
