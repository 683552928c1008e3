//! The PROXY protocol, versions 1 and 2, as the lowest layer of a listener: a proxy says first for
//! whom it connects, and what follows is the client's.
//!
//! Whoever may connect may say anything here, so it is for listeners that take connections of
//! known proxies only. The layer hands nothing on before it was asked what it has learnt: whether
//! its peer may come in is decided by that. Then it is done.

mod header;

pub use header::HEADER_BYTES_MAX;

use crate::{Layer, Learnt, Stream, TransportError};

/// The layer of a connection that has to begin with a header. `takes_name` has the user be the one
/// whose certificate the proxy has verified, if there was one.
pub fn server(takes_name: bool) -> Box<dyn Layer> {
    Box::new(Proxy { takes_name, held: Vec::new(), is_open: false, learnt: Learnt::default() })
}

#[derive(Debug)]
struct Proxy {
    takes_name: bool,
    /// The start of the header, or what came behind it.
    held: Vec<u8>,
    is_open: bool,
    learnt: Learnt,
}

impl Layer for Proxy {
    fn begin(&mut self, _network: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        _network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        if self.is_open {
            plain.append(&mut std::mem::take(&mut self.held));
            plain.extend_from_slice(bytes);
            return Ok(Stream::Open);
        }
        self.held.extend_from_slice(bytes);
        let read = header::read(&self.held).map_err(TransportError::Malformed)?;
        if let Some((length, learnt)) = read {
            self.held.drain(..length);
            self.is_open = true;
            self.learnt = learnt;
        }
        Ok(Stream::Open)
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        network.extend_from_slice(plain);
    }

    fn close(&mut self, _network: &mut Vec<u8>) {}

    /// What came behind the header is handed on at once.
    fn held(&self) -> usize {
        if self.is_open { 0 } else { self.held.len() }
    }

    fn learnt(&mut self) -> Learnt {
        let Learnt { peer, name, .. } = std::mem::take(&mut self.learnt);
        Learnt { peer, name: name.filter(|_| self.takes_name), shown: None }
    }

    fn is_done(&self) -> bool {
        self.is_open && self.held.is_empty()
    }
}
