//! The layers of one connection, one on the other.

use crate::{Layer, Learnt, Stream, TransportError, UNDECODED_BYTES_MAX};
use std::iter::successors;

/// The layers of one connection, network side first. One that has a single layer has no heap but
/// the layer's.
#[derive(Debug)]
pub struct Layers(Option<Chain>);

#[derive(Debug)]
struct Chain {
    layer: Box<dyn Layer>,
    /// The layer below is open, and this one has begun.
    has_begun: bool,
    /// It was asked what it has learnt.
    has_told: bool,
    above: Option<Box<Chain>>,
}

/// Memory for what passes between two layers: one for all connections of a thread.
#[derive(Debug, Default)]
pub struct Scratch(Vec<Vec<u8>>);

impl Scratch {
    /// Empty.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// For the next who needs some.
    pub fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.0.push(bytes);
    }
}

impl Layers {
    /// From the network's side to MQTT's.
    pub fn new(layers: impl IntoIterator<Item = Box<dyn Layer>>) -> Self {
        fn chain(mut layers: impl Iterator<Item = Box<dyn Layer>>) -> Option<Chain> {
            let layer = layers.next()?;
            let above = chain(layers).map(Box::new);
            Some(Chain { layer, has_begun: false, has_told: false, above })
        }
        Self(chain(layers.into_iter().collect::<Vec<_>>().into_iter()))
    }

    /// The connection is there: writes what this side says first.
    pub fn begin(&mut self, network: &mut Vec<u8>, scratch: &mut Scratch) {
        if let Some(chain) = &mut self.0 {
            chain.begin(network, scratch);
        }
    }

    /// Whether plain bytes can be sent.
    pub fn is_open(&self) -> bool {
        let mut all = successors(self.0.as_ref(), |chain| chain.above.as_deref());
        all.all(|chain| chain.has_begun && chain.layer.is_open())
    }

    /// Bytes of input that all of them hold.
    pub fn held(&self) -> usize {
        self.0.iter().map(|stage| stage.layer.held()).sum()
    }

    /// What those layers have learnt of the peer that have opened since the last call, if some
    /// have. Where two say different things, the upper one is right: it knows who speaks through
    /// the lower one.
    pub fn learnt(&mut self) -> Option<Learnt> {
        let mut all: Option<Learnt> = None;
        let mut next = self.0.as_mut();
        while let Some(chain) = next.filter(|chain| chain.layer.is_open()) {
            if !std::mem::replace(&mut chain.has_told, true) {
                let Learnt { peer, name, shown } = chain.layer.learnt();
                let lower = all.unwrap_or_default();
                all = Some(Learnt {
                    peer: peer.or(lower.peer),
                    name: name.or(lower.name),
                    shown: shown.or(lower.shown),
                });
            }
            next = chain.above.as_deref_mut();
        }
        all
    }

    /// The lowest one leaves if it is done. Returns whether none is left: what remains is plain.
    pub fn shed(&mut self) -> bool {
        self.0 = match self.0.take() {
            Some(chain) if chain.layer.is_done() => chain.above.map(|above| *above),
            chain => chain,
        };
        self.0.is_none()
    }

    /// Bytes came from the network: see [`Layer::received`].
    ///
    /// # Errors
    /// That of the layer that cannot go on. What came out before it is in `plain`, and what is
    /// still to be said in `network`.
    pub fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Stream, TransportError> {
        match &mut self.0 {
            Some(chain) => chain.received(bytes, plain, network, scratch),
            None => {
                plain.extend_from_slice(bytes);
                Ok(Stream::Open)
            }
        }
    }

    /// Writes `plain` as what the network gets; they must be open.
    pub fn send(&mut self, plain: &[u8], network: &mut Vec<u8>, scratch: &mut Scratch) {
        match &mut self.0 {
            Some(chain) => chain.send(plain, network, scratch),
            None => network.extend_from_slice(plain),
        }
    }

    /// This side ends the connection: every layer that has begun says so, the last one first.
    pub fn close(&mut self, network: &mut Vec<u8>, scratch: &mut Scratch) {
        if let Some(chain) = &mut self.0 {
            chain.close(network, scratch);
        }
    }
}

impl Chain {
    fn begin(&mut self, network: &mut Vec<u8>, scratch: &mut Scratch) {
        if !self.has_begun {
            self.has_begun = true;
            self.layer.begin(network);
        }
        if let Some(above) = &mut self.above
            && self.layer.is_open()
        {
            let mut said = scratch.take();
            above.begin(&mut said, scratch);
            send_some(&mut *self.layer, &said, network);
            scratch.put_back(said);
        }
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Stream, TransportError> {
        let Self { layer, above: Some(above), .. } = self else {
            return bounded(&mut *self.layer, bytes, plain, network);
        };
        let (mut decoded, mut said) = (scratch.take(), scratch.take());
        let below = bounded(&mut **layer, bytes, &mut decoded, network);
        let mut stream = Ok(Stream::Open);
        if layer.is_open() {
            above.begin(&mut said, scratch);
            if !decoded.is_empty() {
                stream = above.received(&decoded, plain, &mut said, scratch);
            }
            // A layer that failed is not called again.
            if below.is_ok() {
                send_some(&mut **layer, &said, network);
            }
        }
        scratch.put_back(decoded);
        scratch.put_back(said);
        // What the upper ones say was sent first.
        match stream? {
            Stream::Open => below,
            Stream::Ended => Ok(Stream::Ended),
        }
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>, scratch: &mut Scratch) {
        let Some(above) = &mut self.above else { return self.layer.send(plain, network) };
        let mut sealed = scratch.take();
        above.send(plain, &mut sealed, scratch);
        self.layer.send(&sealed, network);
        scratch.put_back(sealed);
    }

    fn close(&mut self, network: &mut Vec<u8>, scratch: &mut Scratch) {
        if let Some(above) = &mut self.above {
            let mut said = scratch.take();
            above.close(&mut said, scratch);
            send_some(&mut *self.layer, &said, network);
            scratch.put_back(said);
        }
        if self.has_begun {
            self.layer.close(network);
        }
    }
}

/// What came from below, as far as a layer may hold it.
fn bounded(
    layer: &mut dyn Layer,
    bytes: &[u8],
    plain: &mut Vec<u8>,
    network: &mut Vec<u8>,
) -> Result<Stream, TransportError> {
    let stream = layer.received(bytes, plain, network)?;
    if layer.held() > UNDECODED_BYTES_MAX {
        return Err(TransportError::TooLong);
    }
    Ok(stream)
}

fn send_some(layer: &mut dyn Layer, plain: &[u8], network: &mut Vec<u8>) {
    if !plain.is_empty() {
        layer.send(plain, network);
    }
}
