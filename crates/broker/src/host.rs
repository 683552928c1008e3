//! What this host is called, and whom a network address stands for.

use std::net::{IpAddr, Ipv6Addr};

/// The name of this host; empty if the system does not say.
pub(crate) fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

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
