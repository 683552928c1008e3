//! How many clients of each address wait for a password or a token to be checked: so that one
//! address leaves room for others.

use crate::host::host_of;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use weir_core::{Verdict, share_of};
use weir_wire::ReasonCode;

/// Those of a shard.
#[derive(Debug)]
pub(super) struct Waits {
    share_percent: u8,
    of: HashMap<IpAddr, usize>,
}

impl Waits {
    pub(super) fn new(share_percent: u8) -> Self {
        Self { share_percent, of: HashMap::new() }
    }

    /// One address may have another part from now on.
    pub(super) fn set_share(&mut self, share_percent: u8) {
        self.share_percent = share_percent;
    }

    /// Asks for a client that may have to wait, as one of `max` of the shard; refuses it if too
    /// many of its address do.
    pub(super) fn ask(
        &mut self,
        peer: Option<SocketAddr>,
        max: usize,
        ask: impl FnOnce() -> Option<Verdict>,
    ) -> Option<Verdict> {
        let Some(host) = host(peer) else { return ask() };
        let waiting = self.of.entry(host).or_default();
        let share = share_of(max as u64, self.share_percent) as usize;
        let verdict = match *waiting < share {
            true => ask(),
            false => Some(Verdict::Refuse(ReasonCode::ServerBusy)),
        };
        if verdict.is_none() {
            *waiting += 1;
        } else if *waiting == 0 {
            self.of.remove(&host);
        }
        verdict
    }

    /// A client from there waits no more.
    pub(super) fn answered(&mut self, peer: Option<SocketAddr>) {
        let Some(host) = host(peer) else { return };
        let Some(waiting) = self.of.get_mut(&host) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            self.of.remove(&host);
        }
    }
}

/// Whom it counts for; nobody on the broker's own host, where a proxy brings everybody.
fn host(peer: Option<SocketAddr>) -> Option<IpAddr> {
    let host = host_of(peer?.ip());
    (!host.is_loopback()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Walk, walked_by};

    #[test]
    fn every_shared_bound_of_authentication_is_walked_over() {
        assert_eq!(walked_by(Walk::Authentication).len(), 2, "both are a `max` below");
    }

    #[test]
    fn one_address_leaves_others_a_part_of_the_room_to_wait() {
        let mut waits = Waits::new(75);
        let [far, other, own] =
            ["192.0.2.1:1", "192.0.2.2:1", "127.0.0.1:1"].map(|text| Some(text.parse().unwrap()));
        let mut asks = |peer, times: usize| {
            let waits = &mut waits;
            (0..times).filter(|_| waits.ask(peer, 100, || None).is_none()).count()
        };
        assert_eq!([asks(far, 90), asks(other, 10), asks(own, 90), asks(None, 1)], [75, 10, 90, 1]);
        let let_in = Some(Verdict::Accept(Vec::new()));
        assert_eq!(waits.ask(other, 100, || let_in.clone()), let_in);
        (0..75).for_each(|_| waits.answered(far));
        (0..10).for_each(|_| waits.answered(other));
        waits.answered(own);
        assert!(waits.of.is_empty());
        assert_eq!(waits.ask(far, 100, || let_in.clone()), let_in);
        assert!(waits.of.is_empty(), "who did not wait is not counted");
    }
}
