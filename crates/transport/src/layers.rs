//! The layers of one connection, one on the other.

use crate::{Layer, Learnt, Stream, TransportError, UNDECODED_BYTES_MAX};

/// The layers of one connection, network side first.
#[derive(Debug)]
pub struct Layers(Vec<Stage>);

#[derive(Debug)]
struct Stage {
    layer: Box<dyn Layer>,
    /// The layer below is open, and this one has begun.
    has_begun: bool,
    /// It was asked what it has learnt.
    has_told: bool,
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
        let stage = |layer| Stage { layer, has_begun: false, has_told: false };
        Self(layers.into_iter().map(stage).collect())
    }

    /// The connection is there: writes what this side says first.
    pub fn begin(&mut self, network: &mut Vec<u8>, scratch: &mut Scratch) {
        begin(&mut self.0, network, scratch);
    }

    /// Whether plain bytes can be sent.
    pub fn is_open(&self) -> bool {
        self.0.iter().all(|stage| stage.has_begun && stage.layer.is_open())
    }

    /// What those layers have learnt of the peer that have opened since the last call, if some
    /// have. Where two say different things, the upper one is right: it knows who speaks through
    /// the lower one.
    pub fn learnt(&mut self) -> Option<Learnt> {
        let mut all: Option<Learnt> = None;
        for stage in self.0.iter_mut().take_while(|stage| stage.layer.is_open()) {
            if !std::mem::replace(&mut stage.has_told, true) {
                let (Learnt { peer, name, shown }, lower) =
                    (stage.layer.learnt(), all.unwrap_or_default());
                all = Some(Learnt {
                    peer: peer.or(lower.peer),
                    name: name.or(lower.name),
                    shown: shown.or(lower.shown),
                });
            }
        }
        all
    }

    /// The lowest one leaves if it is done. Returns whether none is left: what remains is plain.
    pub fn shed(&mut self) -> bool {
        if self.0.first().is_some_and(|stage| stage.layer.is_done()) {
            self.0.remove(0);
        }
        self.0.is_empty()
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
        received(&mut self.0, bytes, plain, network, scratch)
    }

    /// Writes `plain` as what the network gets; they must be open.
    pub fn send(&mut self, plain: &[u8], network: &mut Vec<u8>, scratch: &mut Scratch) {
        send(&mut self.0, plain, network, scratch);
    }

    /// This side ends the connection: every layer that has begun says so, the last one first.
    pub fn close(&mut self, network: &mut Vec<u8>, scratch: &mut Scratch) {
        close(&mut self.0, network, scratch);
    }
}

fn begin(stages: &mut [Stage], network: &mut Vec<u8>, scratch: &mut Scratch) {
    let [stage, above @ ..] = stages else { return };
    if !stage.has_begun {
        stage.has_begun = true;
        stage.layer.begin(network);
    }
    if !above.is_empty() && stage.layer.is_open() {
        let mut said = scratch.take();
        begin(above, &mut said, scratch);
        stage.send_some(&said, network);
        scratch.put_back(said);
    }
}

fn received(
    stages: &mut [Stage],
    bytes: &[u8],
    plain: &mut Vec<u8>,
    network: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Stream, TransportError> {
    let Some((stage, above)) = stages.split_first_mut() else {
        plain.extend_from_slice(bytes);
        return Ok(Stream::Open);
    };
    if above.is_empty() {
        return stage.received(bytes, plain, network);
    }
    let (mut decoded, mut said) = (scratch.take(), scratch.take());
    let below = stage.received(bytes, &mut decoded, network);
    let mut stream = Ok(Stream::Open);
    if stage.layer.is_open() {
        begin(above, &mut said, scratch);
        if !decoded.is_empty() {
            stream = received(above, &decoded, plain, &mut said, scratch);
        }
        // A layer that failed is not called again.
        if below.is_ok() {
            stage.send_some(&said, network);
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

fn send(stages: &mut [Stage], plain: &[u8], network: &mut Vec<u8>, scratch: &mut Scratch) {
    match stages {
        [] => network.extend_from_slice(plain),
        [only] => only.layer.send(plain, network),
        [below @ .., last] => {
            let mut sealed = scratch.take();
            last.layer.send(plain, &mut sealed);
            send(below, &sealed, network, scratch);
            scratch.put_back(sealed);
        }
    }
}

fn close(stages: &mut [Stage], network: &mut Vec<u8>, scratch: &mut Scratch) {
    let [below @ .., last] = stages else { return };
    if last.has_begun {
        let mut said = scratch.take();
        last.layer.close(&mut said);
        if !said.is_empty() {
            // It has begun, so all below are open.
            send(below, &said, network, scratch);
        }
        scratch.put_back(said);
    }
    close(below, network, scratch);
}

impl Stage {
    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        let stream = self.layer.received(bytes, plain, network)?;
        if self.layer.held() > UNDECODED_BYTES_MAX {
            return Err(TransportError::TooLong);
        }
        Ok(stream)
    }

    fn send_some(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        if !plain.is_empty() {
            self.layer.send(plain, network);
        }
    }
}
