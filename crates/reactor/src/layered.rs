//! A connection with layers: what the network gets of its output, and the handler of its input.

use crate::output::{Output, Pool};
use weir_transport::{Layers, Learnt, Scratch, Stream, TransportError};

/// Bytes that are sealed ahead of what the socket takes; output beyond them stays as it was
/// written.
const SEALED_BYTES_MAX: usize = 256 * 1024;

/// Bytes for the network, sealed output and what layers said by themselves, at which nothing more
/// is read. Sealed output alone never reaches it, so a slow peer's acknowledgements are read; a
/// peer that makes the layers answer and does not read is stopped.
const NETWORK_BYTES_MAX: usize = 2 * SEALED_BYTES_MAX;

/// What layers that are open may hold, whatever the others may: a record of TLS comes in parts.
const RECORD_BYTES_MAX: usize = 18 * 1024;

/// The layers of a connection, with what they have for the network.
#[derive(Debug)]
pub(crate) struct Layered {
    layers: Layers,
    /// Sealed output and what layers said by themselves, while there is some.
    pub(crate) network: Option<Box<Output>>,
    /// The handler knows that the connection is there.
    is_told: bool,
    /// The handler knows what the layers have learnt.
    is_learnt: bool,
    /// The layers have said the last they say.
    has_ended: bool,
    /// Not read, because the network takes too little of what the layers say.
    is_held_back: bool,
    /// What few connections have, and none that is idle.
    kept: Option<Box<Kept>>,
}

/// What waits for the handler, or for the rest of it.
#[derive(Debug, Default)]
struct Kept {
    /// What the handler has not consumed: the start of a packet whose end has not come.
    partial: Vec<u8>,
    /// How the layers ended while the handler wanted no more.
    end: Option<Result<(), TransportError>>,
}

impl Layered {
    /// Of a connection that the handler knows already, or hears of once the layers are open.
    pub(crate) fn new(layers: Layers, is_told: bool) -> Self {
        Self {
            layers,
            network: None,
            is_told,
            // Who connects knows with whom.
            is_learnt: !is_told,
            has_ended: false,
            is_held_back: false,
            kept: None,
        }
    }

    pub(crate) fn partial(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |kept| &kept.partial)
    }

    pub(crate) fn take_partial(&mut self) -> Vec<u8> {
        let Some(kept) = &mut self.kept else { return Vec::new() };
        let partial = std::mem::take(&mut kept.partial);
        self.kept.take_if(|kept| kept.end.is_none());
        partial
    }

    pub(crate) fn put_partial(&mut self, partial: Vec<u8>) {
        self.kept.get_or_insert_default().partial = partial;
    }

    pub(crate) fn take_end(&mut self) -> Option<Result<(), TransportError>> {
        self.kept.as_mut()?.end.take()
    }

    /// How they ended, for when the handler wants more.
    pub(crate) fn put_end(&mut self, end: Result<(), TransportError>) {
        self.kept.get_or_insert_default().end = Some(end);
    }

    /// Bytes for the network that wait to be sent.
    pub(crate) fn pending(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.pending())
    }

    /// Whether output can be sealed.
    pub(crate) fn is_open(&self) -> bool {
        self.layers.is_open()
    }

    /// Whether the peer has to read before more is read of it.
    pub(crate) fn holds_back(&mut self) -> bool {
        self.is_held_back = self.pending() >= NETWORK_BYTES_MAX;
        self.is_held_back
    }

    /// Whether the peer has done so.
    pub(crate) fn reads_on(&mut self) -> bool {
        let reads_on = self.is_held_back && self.pending() < NETWORK_BYTES_MAX;
        self.is_held_back &= !reads_on;
        reads_on
    }

    /// Whether the handler is to be told now that the connection is there.
    pub(crate) fn opens(&mut self) -> bool {
        !self.is_told && self.layers.is_open() && !std::mem::replace(&mut self.is_told, true)
    }

    /// What the handler is to be told now of the peer.
    pub(crate) fn learnt(&mut self) -> Option<Learnt> {
        if self.is_learnt {
            return None;
        }
        self.is_learnt = self.layers.is_open();
        self.layers.learnt()
    }

    /// What is done leaves. Returns whether nothing remains of the layers.
    pub(crate) fn shed(&mut self) -> bool {
        self.layers.shed() && self.network.is_none()
    }

    /// There is a connection to the peer.
    pub(crate) fn begin(&mut self, pool: &mut Pool, scratch: &mut Scratch) {
        let mut network = self.take_network(pool);
        self.layers.begin(network.own(), scratch);
        self.put_network(network, pool);
    }

    /// Appends what `bytes` mean to `plain`. Of what means nothing yet, so many bytes may be held.
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        held_max: usize,
        (pool, scratch): (&mut Pool, &mut Scratch),
    ) -> Result<Stream, TransportError> {
        let mut network = self.take_network(pool);
        let mut result = self.layers.received(bytes, plain, network.own(), scratch);
        self.put_network(network, pool);
        let held_max = if self.is_open() { held_max.max(RECORD_BYTES_MAX) } else { held_max };
        if result == Ok(Stream::Open) && self.layers.held() > held_max {
            result = Err(TransportError::MemoryShort);
        }
        // What has failed is not called again.
        self.has_ended |= result.is_err();
        result
    }

    /// Seals output, as much as there is room for and all of it together. One that `closes` ends
    /// behind it.
    pub(crate) fn seal(
        &mut self,
        mut plain: Option<&mut Output>,
        closes: bool,
        pool: &mut Pool,
        scratch: &mut Scratch,
    ) {
        if self.has_ended {
            return;
        }
        let mut network = self.take_network(pool);
        if let Some(plain) = plain.as_deref_mut() {
            if self.layers.is_open() {
                self.seal_some(plain, &mut network, scratch);
            } else if closes {
                plain.clear();
            }
        }
        if closes && plain.is_none_or(|plain| plain.pending() == 0) {
            self.layers.close(network.own(), scratch);
            self.has_ended = true;
            self.forget();
        }
        self.put_network(network, pool);
    }

    /// Nothing is asked of the layers any more: what they hold goes, though what they have said is
    /// still to be sent and the connection lingers.
    pub(crate) fn forget(&mut self) {
        if self.has_ended {
            self.layers = Layers::new([]);
        }
    }

    fn seal_some(&mut self, plain: &mut Output, network: &mut Output, scratch: &mut Scratch) {
        while plain.pending() > 0 && network.pending() < SEALED_BYTES_MAX {
            let room = SEALED_BYTES_MAX - network.pending();
            let sealed = if let Some(all) = plain.as_one() {
                let some = &all[..all.len().min(room)];
                self.layers.send(some, network.own(), scratch);
                some.len()
            } else {
                let mut some = scratch.take();
                plain.copy_next(room, &mut some);
                self.layers.send(&some, network.own(), scratch);
                let sealed = some.len();
                scratch.put_back(some);
                sealed
            };
            plain.advance(sealed);
        }
    }

    /// Its memory comes from the pool, and goes back there while it is empty.
    fn take_network(&mut self, pool: &mut Pool) -> Box<Output> {
        self.network.take().unwrap_or_else(|| pool.take())
    }

    fn put_network(&mut self, network: Box<Output>, pool: &mut Pool) {
        if network.pending() > 0 {
            self.network = Some(network);
        } else {
            pool.put_back(network);
        }
    }
}
