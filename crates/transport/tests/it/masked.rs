//! A layer for tests that keeps as much state as real ones: both sides say a seed first, then each
//! flush is a frame, masked with a stream that goes on from frame to frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_transport::{Layer, Layers, Recipe, Stream, TransportError};

pub(crate) const HELLO: [u8; 4] = *b"MASK";

/// What it says before it gives up.
pub(crate) const ALARM: u8 = b'!';

/// Kind, length, check.
pub(crate) const HEAD_BYTES: usize = 1 + 4 + 1;

const DATA: u8 = 0xA5;
/// Wants a [`PONG`], which the layer says by itself.
pub(crate) const PING: u8 = 0xA6;
const PONG: u8 = 0xA7;
const END: u8 = 0xA8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// How often its layers were called, and how much they sealed.
#[derive(Debug, Default)]
pub(crate) struct Sealed {
    pub(crate) frames: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) pongs: AtomicU64,
}

/// So many layers on each other.
#[derive(Clone, Debug)]
pub(crate) struct Masks {
    pub(crate) side: Side,
    pub(crate) count: usize,
    pub(crate) sealed: Arc<Sealed>,
}

impl Masks {
    pub(crate) fn new(side: Side, count: usize) -> Self {
        Self { side, count, sealed: Arc::default() }
    }
}

impl Recipe for Masks {
    fn layers(&self) -> Layers {
        Layers::new((0..self.count).map(|at| {
            let seed = [self.side as u8, at as u8, 3, 4];
            let sealed = Arc::clone(&self.sealed);
            let layer: Box<dyn Layer> = Box::new(Masked {
                side: self.side,
                ours: Mask::new(seed),
                theirs: None,
                held: Vec::new(),
                sealed,
            });
            layer
        }))
    }
}

/// What masks one direction.
#[derive(Debug)]
struct Mask {
    seed: [u8; 4],
    count: u32,
}

impl Mask {
    fn new(seed: [u8; 4]) -> Self {
        Self { seed, count: 0 }
    }

    fn apply(&mut self, bytes: &mut [u8]) {
        let seed = u32::from_be_bytes(self.seed);
        for byte in bytes {
            *byte ^= ((self.count ^ seed).wrapping_mul(0x9E37_79B9) >> 24) as u8;
            self.count = self.count.wrapping_add(1);
        }
    }
}

#[derive(Debug)]
struct Masked {
    side: Side,
    ours: Mask,
    theirs: Option<Mask>,
    held: Vec<u8>,
    sealed: Arc<Sealed>,
}

impl Masked {
    fn hello(&self, network: &mut Vec<u8>) {
        network.extend(HELLO);
        network.extend(self.ours.seed);
    }

    fn frame(&mut self, kind: u8, plain: &[u8], network: &mut Vec<u8>) {
        let check = plain.iter().fold(kind, |sum, byte| sum.wrapping_mul(3).wrapping_add(*byte));
        network.push(kind);
        network.extend((plain.len() as u32).to_be_bytes());
        network.push(check);
        let at = network.len();
        network.extend_from_slice(plain);
        self.ours.apply(&mut network[at..]);
    }

    fn take_hello(&mut self, network: &mut Vec<u8>) -> Result<bool, TransportError> {
        let known = self.held.len().min(HELLO.len());
        if self.held[..known] != HELLO[..known] {
            return Err(TransportError::Malformed("no greeting"));
        }
        let Some(seed) = self.held.get(4..8) else { return Ok(false) };
        self.theirs = Some(Mask::new(seed.try_into().unwrap()));
        self.held.drain(..8);
        if self.side == Side::Server {
            self.hello(network);
        }
        Ok(true)
    }

    /// One frame, if it is there.
    fn take_frame(
        &mut self,
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Option<Stream>, TransportError> {
        let Some(&[kind, a, b, c, d, check]) = self.held.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(DATA..=END).contains(&kind) {
            return Err(TransportError::Malformed("no frame"));
        }
        if self.held.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let mut frame: Vec<u8> = self.held.drain(..HEAD_BYTES + length).collect();
        let bytes = &mut frame[HEAD_BYTES..];
        self.theirs.as_mut().unwrap().apply(bytes);
        if check != bytes.iter().fold(kind, |sum, byte| sum.wrapping_mul(3).wrapping_add(*byte)) {
            return Err(TransportError::Malformed("wrong check"));
        }
        match kind {
            DATA => plain.extend_from_slice(bytes),
            PING => {
                self.sealed.pongs.fetch_add(1, Ordering::Relaxed);
                self.frame(PONG, &[], network);
            }
            END => return Ok(Some(Stream::Ended)),
            _ => {}
        }
        Ok(Some(Stream::Open))
    }
}

impl Layer for Masked {
    fn begin(&mut self, network: &mut Vec<u8>) {
        if self.side == Side::Client {
            self.hello(network);
        }
    }

    fn is_open(&self) -> bool {
        self.theirs.is_some()
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        self.held.extend_from_slice(bytes);
        let result = loop {
            let step = match self.theirs {
                None => self.take_hello(network).map(|is_there| is_there.then_some(Stream::Open)),
                Some(_) => self.take_frame(plain, network),
            };
            match step {
                Ok(Some(Stream::Open)) => {}
                Ok(Some(Stream::Ended)) => break Ok(Stream::Ended),
                Ok(None) => break Ok(Stream::Open),
                Err(error) => break Err(error),
            }
        };
        if result.is_err() {
            network.push(ALARM);
        }
        result
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        let before = network.len();
        // A receiver holds a frame until it is whole.
        for plain in plain.chunks(16 * 1024) {
            self.sealed.frames.fetch_add(1, Ordering::Relaxed);
            self.frame(DATA, plain, network);
        }
        self.sealed.bytes.fetch_add((network.len() - before) as u64, Ordering::Relaxed);
    }

    fn close(&mut self, network: &mut Vec<u8>) {
        if self.is_open() {
            self.frame(END, &[], network);
        }
    }

    fn held(&self) -> usize {
        self.held.len()
    }
}
