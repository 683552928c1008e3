//! Whom a network address stands for.

use std::net::{IpAddr, Ipv6Addr};

/// Whom a connection from this address counts for: whoever has an IPv6 address has 2^64 of them.
pub(crate) fn host_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        host => host,
    }
}
