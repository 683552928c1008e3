//! The places of connections over TCP, which strangers cannot keep from others.
//!
//! Whoever has shown a token stays. If all places are taken, whoever comes gets that of a stranger:
//! the oldest of the network that has the most of them, unless that is the newcomer's own.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Connections at a time.
pub(crate) const GUESTS_MAX: usize = 128;

/// Connections from one network at a time; others are cut off.
const PER_NETWORK_MAX: usize = 32;

/// What was refused over TCP.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Connections that were cut at once.
    pub(crate) cut: AtomicU64,
    /// Connections that had to make room.
    pub(crate) displaced: AtomicU64,
    /// Requests without a token that the broker knows.
    pub(crate) unauthorized: AtomicU64,
    /// Requests that the token's role does not allow.
    pub(crate) forbidden: AtomicU64,
    /// Requests over a bound.
    pub(crate) too_many: AtomicU64,
}

impl Refusals {
    pub(crate) fn by_name(&self) -> [(&'static str, u64); 5] {
        let Self { cut, displaced, unauthorized, forbidden, too_many } = self;
        [
            ("api_connections_cut", cut),
            ("api_connections_displaced", displaced),
            ("api_unauthorized", unauthorized),
            ("api_forbidden", forbidden),
            ("api_too_many", too_many),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Who a connection is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    /// Which connection.
    id: u64,
    pub(crate) network: IpAddr,
}

/// A clone is the same places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    taken: Arc<Mutex<Taken>>,
    refusals: Arc<Refusals>,
}

#[derive(Debug, Default)]
struct Taken {
    last_id: u64,
    /// By their numbers, so the oldest first.
    by_id: BTreeMap<u64, Place>,
}

#[derive(Debug)]
struct Place {
    network: IpAddr,
    has_token: bool,
    /// Dropped to end the connection.
    _stay: oneshot::Sender<()>,
}

/// A place for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) guest: Guest,
    places: Places,
    /// Closed when another is to have the place.
    pub(crate) stay: oneshot::Receiver<()>,
}

impl Places {
    pub(crate) fn new(refusals: Arc<Refusals>) -> Self {
        Self { taken: Arc::default(), refusals }
    }

    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// A place for a connection from this address, if there is one for it.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Kept> {
        let network = network_of(address);
        let mut taken = self.taken();
        let of_network = taken.by_id.values().filter(|place| place.network == network).count();
        let has_room = of_network < PER_NETWORK_MAX
            && (taken.by_id.len() < GUESTS_MAX || self.displace(&mut taken, network));
        if !has_room {
            count(&self.refusals.cut);
            return None;
        }
        let (tell, stay) = oneshot::channel();
        taken.last_id += 1;
        let id = taken.last_id;
        taken.by_id.insert(id, Place { network, has_token: false, _stay: tell });
        Some(Kept { guest: Guest { id, network }, places: self.clone(), stay })
    }

    /// This one has shown a token: nobody else gets its place.
    pub(crate) fn has_token(&self, guest: Guest) {
        if let Some(place) = self.taken().by_id.get_mut(&guest.id) {
            place.has_token = true;
        }
    }

    /// Ends a stranger's connection, if one of another network than `of` may be.
    fn displace(&self, taken: &mut Taken, of: IpAddr) -> bool {
        let strangers = || taken.by_id.iter().filter(|(_, place)| !place.has_token);
        let mut counts = HashMap::<_, usize>::new();
        for (_, place) in strangers() {
            *counts.entry(place.network).or_default() += 1;
        }
        let own = counts.get(&of).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        let is_of_most = |place: &Place| counts[&place.network] == most;
        let oldest = strangers().find(|(_, place)| most > own && is_of_most(place));
        let Some(id) = oldest.map(|(id, _)| *id) else { return false };
        taken.by_id.remove(&id);
        count(&self.refusals.displaced);
        true
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.places.taken().by_id.remove(&self.guest.id);
    }
}

/// What counts as one: an address, and of IPv6 a network of 64 bits, which one host may have.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::from([a, b, c, d, 0, 0, 0, 0]).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn take(places: &Places, last: u8, times: usize) -> Vec<Kept> {
        (0..times).filter_map(|_| places.take(v4(last))).collect()
    }

    fn is_displaced(kept: &mut Kept) -> bool {
        kept.stay.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_network_has_a_part_of_the_places_whatever_addresses_it_has() {
        let places = Places::default();
        assert_eq!(take(&places, 1, 200).len(), PER_NETWORK_MAX, "and free again");
        let kept = take(&places, 1, 200);
        let mapped = IpAddr::from(match v4(1) {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(_) => unreachable!("it is none"),
        });
        assert!(places.take(mapped).is_none());
        let of_host = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 7, host, 0, 0, 1]);
        let hosts: Vec<_> = (0..200).filter_map(|host| places.take(of_host(host))).collect();
        assert_eq!((kept.len(), hosts.len()), (PER_NETWORK_MAX, PER_NETWORK_MAX));
        assert_eq!(places.refusals.by_name()[0], ("api_connections_cut", 3 * 168 + 1));
    }

    #[test]
    fn who_comes_when_all_is_taken_gets_the_place_of_a_stranger_of_a_network_with_many() {
        let places = Places::default();
        let mut held: Vec<_> = (1..=4).flat_map(|last| take(&places, last, 32)).collect();
        places.has_token(held[0].guest);
        let mut honest = places.take(v4(9)).expect("a place");
        assert!(!is_displaced(&mut held[0]), "it has shown a token");
        assert!(is_displaced(&mut held[32]), "the oldest of a network with the most strangers");
        // Who comes again and again gets nothing but the places of its own.
        for _ in 0..1_000 {
            held.extend((1..=4).filter_map(|last| places.take(v4(last))));
            assert!(!is_displaced(&mut honest));
        }
        assert!(!is_displaced(&mut held[0]), "it has shown a token");
        assert_eq!(places.taken().by_id.len(), GUESTS_MAX);
    }

    #[test]
    fn who_has_shown_a_token_makes_no_room() {
        let places = Places::default();
        let held: Vec<_> = (1..=4).flat_map(|last| take(&places, last, 32)).collect();
        held.iter().for_each(|kept| places.has_token(kept.guest));
        assert!(places.take(v4(9)).is_none());
    }
}
