//! How many connections each host has. A connection keeps four bytes of it.

use crate::shrink::{self, KEPT};
use foldhash::fast::RandomState;
use slab::Slab;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;

/// How a connection was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Served,
    /// Served, let in while the memory ceiling was reached.
    AtCeiling,
    Refused,
    /// Of a proxy that has not said yet for whom.
    Waiting,
}

/// What carries the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Tls,
    WebSocket,
    /// WebSocket over TLS.
    SecureWebSocket,
    /// A unix socket, whatever is spoken over it.
    Unix,
}

/// How many there are.
pub(crate) const CARRIERS: usize = 5;

/// What a connection holds: a place of its kind among those of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held(NonZeroU32);

/// Bits of the kind, and of what carries it, below those of the host.
const KIND_BITS: u32 = 2;
const CARRIER_BITS: u32 = 3;

impl Held {
    fn new(host: usize, kind: Kind, carrier: Carrier) -> Self {
        // There are fewer hosts than connections, of which no process has as many as 2^27.
        let host = (host as u32 + 1) << (KIND_BITS + CARRIER_BITS);
        let number = host | ((carrier as u32) << KIND_BITS) | kind as u32;
        Self(NonZeroU32::new(number).expect("one more than a number is not 0"))
    }

    pub(super) fn kind(self) -> Kind {
        match self.0.get() & ((1 << KIND_BITS) - 1) {
            0 => Kind::Served,
            1 => Kind::AtCeiling,
            2 => Kind::Refused,
            _ => Kind::Waiting,
        }
    }

    /// Its place among the carriers.
    pub(super) fn carrier(self) -> usize {
        (self.0.get() >> KIND_BITS) as usize & ((1 << CARRIER_BITS) - 1)
    }

    fn host(self) -> usize {
        (self.0.get() >> (KIND_BITS + CARRIER_BITS)) as usize - 1
    }
}

/// Those with a connection.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    all: Slab<Host>,
    by_address: HashMap<IpAddr, u32, RandomState>,
    /// Memory is given back when so few are left.
    shrink_at: usize,
}

#[derive(Debug)]
struct Host {
    address: IpAddr,
    served: u32,
    refused: u32,
    waiting: u32,
}

impl Host {
    fn count(&mut self, kind: Kind) -> &mut u32 {
        match kind {
            Kind::Served | Kind::AtCeiling => &mut self.served,
            Kind::Refused => &mut self.refused,
            Kind::Waiting => &mut self.waiting,
        }
    }
}

impl Hosts {
    pub(super) fn served(&self, address: IpAddr) -> u32 {
        self.find(address).map_or(0, |host| host.served)
    }

    pub(super) fn refused(&self, address: IpAddr) -> u32 {
        self.find(address).map_or(0, |host| host.refused)
    }

    pub(super) fn waiting(&self, address: IpAddr) -> u32 {
        self.find(address).map_or(0, |host| host.waiting)
    }

    fn find(&self, address: IpAddr) -> Option<&Host> {
        self.by_address.get(&address).map(|&at| &self.all[at as usize])
    }

    pub(super) fn hold(&mut self, address: IpAddr, kind: Kind, carrier: Carrier) -> Held {
        let at = self.find_or_insert(address);
        *self.all[at].count(kind) += 1;
        Held::new(at, kind, carrier)
    }

    fn find_or_insert(&mut self, address: IpAddr) -> usize {
        let Self { all, by_address, shrink_at } = self;
        let insert = || all.insert(Host { address, served: 0, refused: 0, waiting: 0 }) as u32;
        let at = *by_address.entry(address).or_insert_with(insert) as usize;
        *shrink_at = all.len();
        at
    }

    pub(super) fn address(&self, held: Held) -> IpAddr {
        self.all[held.host()].address
    }

    pub(super) fn release(&mut self, held: Held) {
        let host = &mut self.all[held.host()];
        *host.count(held.kind()) -= 1;
        if host.served + host.refused + host.waiting > 0 {
            return;
        }
        self.by_address.remove(&host.address);
        self.all.remove(held.host());
        shrink::table(&mut self.by_address);
        // What is behind the last host can go, and a look for it costs as much as there are.
        if self.all.len() < self.shrink_at / 2 && self.all.capacity() > KEPT {
            self.shrink_at = self.all.len();
            self.all.shrink_to_fit();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.all.capacity().max(self.by_address.capacity())
    }
}
