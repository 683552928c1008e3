//! Who may come in at all: bounds of the whole process and bans, checked once per connection, and
//! once more when it is known which client it is.

use crate::auth::{Bans, Whom};
use crate::host::host_of;
use crate::shrink;
use budget::Budgets;
use foldhash::fast::RandomState;
use hosts::{CARRIERS, Held, Hosts, Kind};
use rate::Rate;
use serde::{Deserialize, Serialize};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strikes::Strikes;
use weir_core::{Micros, Origin, share_of};
use weir_wire::ReasonCode;

mod budget;
mod hosts;
mod rate;
mod strikes;

pub(crate) use budget::Budget;
pub(crate) use hosts::Carrier;

/// Connections that are open only to be told why they are refused. More are cut at once.
const REFUSALS_MAX: u32 = 1024;

/// Connections at a time that are let in while the memory ceiling is reached, so that sessions can
/// come back for what is kept for them. More are cut at once.
const AT_CEILING_MAX: u32 = 64;

/// Wrong passwords of one address in a minute, where nothing is said.
const WRONG_PASSWORDS_MAX: u32 = 20;
/// Connections of proxies that have not said yet for whom they are. More are cut at once.
const WAITING_MAX: u32 = 4096;

/// The `[process]` table. 0 is "no bound" where nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessLimits {
    /// Connections at a time.
    ///
    /// More: CONNACK 0x97 (return code 3 before 5.0).
    pub connections_max: u32,
    /// Connections at a time from one address. 0 is `limits.client_share_percent` of
    /// `connections_max`, and no bound for clients on the broker's own host.
    ///
    /// The addresses of an IPv6 network of 64 bits are one. More: the same refusal.
    pub connections_per_address_max: u32,
    /// Connections accepted per second, on average. 0 is no bound.
    ///
    /// A burst of one second's is let through. One address may have `limits.client_share_percent`
    /// of them, the broker's own host all. More: CONNACK 0x9F (return code 3 before 5.0).
    pub connects_per_second_max: u32,
    /// Messages that the connections of one address may publish per second together, on average. 0
    /// is any number. With a proxy that does not say where its clients are, all of them together.
    ///
    /// A second's worth may come at once. Over it, each of them that sends is read no more until
    /// the address may send again: nothing is lost.
    pub messages_per_second_per_address_max: u32,
    /// Bytes that the connections of one address may send per second together, on average. 0 is any
    /// number.
    ///
    /// The same.
    pub bytes_per_second_per_address_max: u32,
    /// Wrong passwords and tokens of one address within a minute. 0 is 20, and no bound for clients
    /// on the broker's own host.
    ///
    /// More: the address is banned for `ban_s`. Its connections are closed without a word, and what
    /// it asked before is refused with 0x8A.
    pub wrong_passwords_per_minute_max: u32,
    /// How often a client may CONNECT within a minute, from one address. 0 is any number.
    ///
    /// More: CONNACK 0x8A for `ban_s`, for this client identifier from this address.
    pub flapping_connects_per_minute_max: u32,
    /// How long an address or a client is banned that the two bounds above are for.
    pub ban_s: u32,
    /// Resident memory of the process. 0 is three quarters of the host's, or of what the process's
    /// control groups let it have, as those of a container do.
    ///
    /// Near it nothing is taken that has to be kept: new sessions, retained messages, messages that
    /// would wait for a subscriber, subscriptions: 0x97. At it, connections are cut at accept, but
    /// for a few at a time, so that sessions can come back for what is kept for them.
    pub memory_bytes_max: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            connections_max: 1_000_000,
            connections_per_address_max: 0,
            connects_per_second_max: 0,
            messages_per_second_per_address_max: 0,
            bytes_per_second_per_address_max: 0,
            wrong_passwords_per_minute_max: 0,
            flapping_connects_per_minute_max: 0,
            ban_s: 300,
            memory_bytes_max: 0,
        }
    }
}

impl ProcessLimits {
    fn wrong_passwords_max(&self) -> u32 {
        match self.wrong_passwords_per_minute_max {
            0 => WRONG_PASSWORDS_MAX,
            max => max,
        }
    }
}

/// What to do with a connection just accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Serve,
    /// Its CONNECT is answered with this reason.
    Refuse(ReasonCode),
    /// There is no room even to say why.
    Cut,
    /// Its address is banned: there is nothing to say.
    Banned,
}

/// What admission control counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdmissionStats {
    pub(crate) refused_count: u64,
    pub(crate) refused_address: u64,
    pub(crate) refused_rate: u64,
    pub(crate) cut: u64,
    /// Connections of banned addresses, and CONNECTs of banned clients.
    pub(crate) banned: u64,
    /// Addresses banned for wrong passwords.
    pub(crate) passwords_guessed_banned: u64,
    /// Clients banned for coming too often.
    pub(crate) flapping_banned: u64,
    /// Connections to a listener for proxies by somebody else.
    pub(crate) strangers: u64,
    /// Connections that were let in and are there now, by [`Carrier`].
    pub(crate) carried: [u64; CARRIERS],
}

impl AdmissionStats {
    /// Each with its name.
    pub(crate) fn by_name(self) -> [(&'static str, u64); 13] {
        let Self {
            refused_count,
            refused_address,
            refused_rate,
            cut,
            banned,
            passwords_guessed_banned,
            flapping_banned,
            strangers,
            carried: [on_tcp, on_tls, on_websocket, on_secure_websocket, on_unix],
        } = self;
        [
            ("refused_count", refused_count),
            ("refused_address", refused_address),
            ("refused_rate", refused_rate),
            ("cut", cut),
            ("banned", banned),
            ("passwords_guessed_banned", passwords_guessed_banned),
            ("flapping_banned", flapping_banned),
            ("cut_strangers", strangers),
            ("connections_tcp", on_tcp),
            ("connections_tls", on_tls),
            ("connections_websocket", on_websocket),
            ("connections_secure_websocket", on_secure_websocket),
            ("connections_unix", on_unix),
        ]
    }
}

/// Where a connection is: its shard and the shell's token there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) shard: u16,
    pub(crate) token: u32,
}

/// A connection between two places.
#[derive(Debug)]
pub(crate) struct Pass(Held);

/// The connections of one process. Shards share it behind a lock, taken when a connection begins,
/// moves or ends.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    limits: ProcessLimits,
    /// What one address may take of what all share.
    share_percent: u8,
    /// By shard, then token.
    held: Vec<Vec<Option<Held>>>,
    served: u32,
    at_ceiling: u32,
    refused: u32,
    waiting: u32,
    hosts: Hosts,
    rate: Rate,
    budgets: Budgets,
    /// Of the file, and those that were added while the broker runs.
    bans: [Arc<Bans>; 2],
    /// Wrong passwords, by host.
    guesses: Strikes<IpAddr>,
    /// CONNECTs, by host and client identifier.
    flapping: Strikes<(IpAddr, u64)>,
    /// Names addresses to the shards.
    hasher: RandomState,
    pub(crate) stats: AdmissionStats,
}

pub(crate) fn open(admission: &Mutex<AdmissionControl>) -> MutexGuard<'_, AdmissionControl> {
    // Counts stay usable whatever a thread died of.
    admission.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says whether an address is banned by now.
pub(crate) fn is_out(
    admission: &Arc<Mutex<AdmissionControl>>,
) -> impl Fn(IpAddr) -> bool + Send + 'static {
    let admission = Arc::clone(admission);
    move |peer| open(&admission).is_out(peer, Micros(weir_reactor::now_us()))
}

impl AdmissionControl {
    pub(crate) fn new(limits: ProcessLimits, share_percent: u8, bans: [Arc<Bans>; 2]) -> Self {
        let wrong_max = limits.wrong_passwords_max();
        Self {
            bans,
            guesses: Strikes::new(wrong_max, limits.ban_s),
            flapping: Strikes::new(limits.flapping_connects_per_minute_max, limits.ban_s),
            rate: Rate::new(limits.connects_per_second_max, share_percent),
            limits,
            share_percent,
            held: Vec::new(),
            served: 0,
            at_ceiling: 0,
            refused: 0,
            waiting: 0,
            hosts: Hosts::default(),
            budgets: Budgets::default(),
            hasher: RandomState::default(),
            stats: AdmissionStats::default(),
        }
    }

    /// Goes by other bounds from now on. Who is counted is counted on.
    pub(crate) fn set_limits(&mut self, limits: ProcessLimits, share_percent: u8) {
        self.guesses.set(limits.wrong_passwords_max(), limits.ban_s);
        self.flapping.set(limits.flapping_connects_per_minute_max, limits.ban_s);
        let rate = (limits.connects_per_second_max, share_percent);
        if rate != (self.limits.connects_per_second_max, self.share_percent) {
            self.rate = Rate::new(rate.0, rate.1);
        }
        self.share_percent = share_percent;
        self.limits = limits;
    }

    /// Decides, and holds the connection until [`AdmissionControl::gone`]. A cut one is not held.
    pub(crate) fn admit(
        &mut self,
        place: Place,
        peer: IpAddr,
        carrier: Carrier,
        is_memory_full: bool,
        now: Micros,
    ) -> Admission {
        let host = host_of(peer);
        if self.is_out(peer, now) {
            self.stats.banned += 1;
            return Admission::Banned;
        }
        let reason = match () {
            () if is_memory_full && self.at_ceiling >= AT_CEILING_MAX => return self.cut(),
            () if self.served >= self.limits.connections_max => {
                self.stats.refused_count += 1;
                ReasonCode::QuotaExceeded
            }
            () if self.hosts.served(host) >= self.served_max(host) => {
                self.stats.refused_address += 1;
                ReasonCode::QuotaExceeded
            }
            () if !self.rate.take(host, now) => {
                self.stats.refused_rate += 1;
                ReasonCode::ConnectionRateExceeded
            }
            () => {
                self.served += 1;
                self.at_ceiling += u32::from(is_memory_full);
                let kind = if is_memory_full { Kind::AtCeiling } else { Kind::Served };
                let held = self.hosts.hold(host, kind, carrier);
                self.stats.carried[held.carrier()] += 1;
                self.hold(place, held);
                return Admission::Serve;
            }
        };
        let refused_max = self.share_for(host, REFUSALS_MAX);
        if self.refused >= REFUSALS_MAX || self.hosts.refused(host) >= refused_max {
            return self.cut();
        }
        self.refused += 1;
        let held = self.hosts.hold(host, Kind::Refused, carrier);
        self.hold(place, held);
        Admission::Refuse(reason)
    }

    /// Whether a client that comes from `peer` may not, by what it says of itself. Called once for
    /// each CONNECT.
    pub(crate) fn is_banned(
        &mut self,
        peer: Option<IpAddr>,
        client_id: &str,
        user: Option<&str>,
        now: Micros,
    ) -> bool {
        let is_banned = self.has_banned(None, client_id, user)
            || peer.is_some_and(|peer| self.is_out(peer, now) || self.flaps(peer, client_id, now));
        self.stats.banned += u64::from(is_banned);
        is_banned
    }

    fn flaps(&mut self, peer: IpAddr, client_id: &str, now: Micros) -> bool {
        // Who says no identifier is somebody else each time.
        let flaps = !client_id.is_empty()
            && self.flapping.add((host_of(peer), self.hasher.hash_one(client_id)), now);
        self.stats.flapping_banned = self.flapping.outs;
        flaps
    }

    /// Whether nobody may come from there.
    pub(crate) fn is_out(&self, peer: IpAddr, now: Micros) -> bool {
        self.bans.iter().any(|bans| bans.has_address(peer))
            || self.guesses.is_out(&host_of(peer), now)
    }

    /// Whether somebody has banned the address, the client or the user.
    pub(crate) fn has_banned(
        &self,
        peer: Option<IpAddr>,
        client_id: &str,
        user: Option<&str>,
    ) -> bool {
        user.is_some_and(|user| self.has_user(user))
            || self.bans.iter().any(|bans| {
                bans.has_client(client_id) || peer.is_some_and(|peer| bans.has_address(peer))
            })
    }

    fn has_user(&self, user: &str) -> bool {
        self.bans.iter().any(|bans| bans.has_user(user))
    }

    /// Whether this user may not come in, wherever it comes from.
    pub(crate) fn is_user_banned(&mut self, user: &str) -> bool {
        let is_banned = self.has_user(user);
        self.stats.banned += u64::from(is_banned);
        is_banned
    }

    /// Somebody there has said a wrong password.
    pub(crate) fn guessed_wrong(&mut self, peer: IpAddr, now: Micros) {
        let is_exempt = self.limits.wrong_passwords_per_minute_max == 0;
        let host = host_of(peer);
        if !(is_exempt && host.is_loopback()) {
            self.guesses.add(host, now);
            self.stats.passwords_guessed_banned = self.guesses.outs;
        }
    }

    /// The file bans those from now on.
    pub(crate) fn set_bans(&mut self, bans: Arc<Bans>) {
        self.bans[0] = bans;
    }

    /// Those are banned beside them.
    pub(crate) fn set_added(&mut self, added: Arc<Bans>) {
        self.bans[1] = added;
    }

    /// The bans of the file.
    pub(crate) fn bans(&self) -> Arc<Bans> {
        Arc::clone(&self.bans[0])
    }

    /// Hosts that are kept out for wrong passwords, and until when; then those from where some
    /// client connects too often.
    pub(crate) fn kept_out(&self, now: Micros) -> [Vec<(IpAddr, Micros)>; 2] {
        let flapping = self.flapping.kept_out(now).map(|(&(host, _), until)| (host, until));
        let guesses = self.guesses.kept_out(now).map(|(&host, until)| (host, until));
        [guesses.collect(), flapping.collect()]
    }

    /// Nobody there is kept out any more for wrong passwords or for coming too often; nor is this
    /// client for the latter. Says whether somebody was.
    pub(crate) fn pardon(&mut self, whom: &Whom, now: Micros) -> bool {
        match whom {
            Whom::Address(network) => {
                let guessed = self.guesses.pardon(|&host| network.has_host(host), now);
                guessed | self.flapping.pardon(|&(host, _)| network.has_host(host), now)
            }
            Whom::Client(client_id) => {
                let hash = self.hasher.hash_one(&**client_id);
                self.flapping.pardon(|&(_, client)| client == hash, now)
            }
            Whom::User(_) => false,
        }
    }

    /// Holds a connection of a proxy, which [`AdmissionControl::gone`] and then
    /// [`AdmissionControl::admit`] are for once it has said where its client is. False if it is to
    /// be cut.
    pub(crate) fn wait(&mut self, place: Place, proxy: IpAddr) -> bool {
        let host = host_of(proxy);
        let waiting_max = self.share_for(host, WAITING_MAX);
        if self.waiting >= WAITING_MAX || self.hosts.waiting(host) >= waiting_max {
            self.cut();
            return false;
        }
        self.waiting += 1;
        let held = self.hosts.hold(host, Kind::Waiting, Carrier::Tcp);
        self.hold(place, held);
        true
    }

    /// A connection of somebody who is no proxy was cut.
    pub(crate) fn cut_stranger(&mut self) {
        self.stats.strangers += 1;
    }

    /// The connection is over. Harmless for one that is not held.
    pub(crate) fn gone(&mut self, place: Place) {
        if let Some(pass) = self.leave(place) {
            self.lost(&pass);
        }
    }

    /// The connection ended after it left its place.
    pub(crate) fn lost(&mut self, &Pass(held): &Pass) {
        match held.kind() {
            Kind::Served => {
                self.served -= 1;
                self.stats.carried[held.carrier()] -= 1;
            }
            Kind::AtCeiling => {
                self.served -= 1;
                self.stats.carried[held.carrier()] -= 1;
                self.at_ceiling -= 1;
            }
            Kind::Refused => self.refused -= 1,
            Kind::Waiting => self.waiting -= 1,
        }
        self.hosts.release(held);
    }

    /// The connection leaves its place, which another may have at once, and is still counted:
    /// until [`AdmissionControl::arrive`] or [`AdmissionControl::lost`].
    pub(crate) fn leave(&mut self, from: Place) -> Option<Pass> {
        self.take(from).map(Pass)
    }

    /// The connection has another place now.
    pub(crate) fn arrive(&mut self, to: Place, &Pass(held): &Pass) {
        self.hold(to, held);
    }

    /// What the shards call the address of a connection; nothing for the broker's own host, which
    /// may be a proxy's.
    pub(crate) fn origin(&self, place: Place) -> Option<Origin> {
        let held = *self.held.get(usize::from(place.shard))?.get(place.token as usize)?;
        let host = self.hosts.address(held?);
        (!host.is_loopback()).then(|| Origin::address(self.hasher.hash_one(host) as u32))
    }

    /// What the address of a connection may send; nothing for one that is not held.
    pub(crate) fn budget(&mut self, place: Place, now: Micros) -> Option<Arc<Budget>> {
        let held = *self.held.get(usize::from(place.shard))?.get(place.token as usize)?;
        Some(self.budgets.of(self.hosts.address(held?), now))
    }

    fn take(&mut self, place: Place) -> Option<Held> {
        let held_there = self.held.get_mut(usize::from(place.shard))?;
        let held = held_there.get_mut(place.token as usize)?.take();
        while held_there.pop_if(|last| last.is_none()).is_some() {}
        if shrink::is_roomy(held_there.len(), held_there.capacity()) {
            held_there.shrink_to(held_there.len() * 2);
        }
        held
    }

    fn cut(&mut self) -> Admission {
        self.stats.cut += 1;
        Admission::Cut
    }

    fn hold(&mut self, place: Place, held: Held) {
        let (shard, at) = (usize::from(place.shard), place.token as usize);
        if self.held.len() <= shard {
            self.held.resize_with(shard + 1, Vec::new);
        }
        let held_there = &mut self.held[shard];
        if held_there.len() <= at {
            held_there.resize(at + 1, None);
        }
        held_there[at] = Some(held);
    }

    /// Connections that a host may have.
    fn served_max(&self, host: IpAddr) -> u32 {
        match self.limits.connections_per_address_max {
            0 => self.share_for(host, self.limits.connections_max),
            count_max => count_max,
        }
    }

    /// What a host may have of `max`.
    fn share_for(&self, host: IpAddr, max: u32) -> u32 {
        if host.is_loopback() { max } else { share_of(max.into(), self.share_percent) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Walk, walked_by};

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
    const FULL: Admission = Admission::Refuse(ReasonCode::QuotaExceeded);

    fn at(token: u32) -> Place {
        Place { shard: 0, token }
    }

    /// Hosts elsewhere.
    const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn admission(connections: u32, per_address: u32, per_second: u32) -> AdmissionControl {
        let limits = ProcessLimits {
            connections_max: connections,
            connections_per_address_max: per_address,
            connects_per_second_max: per_second,
            ..ProcessLimits::default()
        };
        AdmissionControl::new(limits, 75, Default::default())
    }

    /// How many of these connections from `peer` are served.
    fn served(
        admission: &mut AdmissionControl,
        tokens: std::ops::Range<u32>,
        peer: IpAddr,
        now: Micros,
    ) -> usize {
        tokens
            .filter(|&token| {
                admission.admit(at(token), peer, Carrier::Tcp, false, now) == Admission::Serve
            })
            .count()
    }

    #[test]
    fn a_place_that_was_given_up_is_given_again() {
        let mut admission = admission(2, 0, 0);
        let now = Micros(0);
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, now), Admission::Serve);
        assert_eq!(admission.admit(at(1), A, Carrier::Tcp, false, now), Admission::Serve);
        assert_eq!(admission.admit(at(2), A, Carrier::Tcp, false, now), FULL);
        admission.gone(at(0));
        admission.gone(at(2));
        admission.gone(at(2));
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, now), Admission::Serve);
        assert_eq!(admission.stats.refused_count, 1);
    }

    #[test]
    fn at_the_ceiling_a_few_may_come_back() {
        let mut admission = admission(1_000, 0, 0);
        let now = Micros(0);
        for token in 0..AT_CEILING_MAX {
            assert_eq!(admission.admit(at(token), A, Carrier::Tcp, true, now), Admission::Serve);
        }
        assert_eq!(admission.admit(at(AT_CEILING_MAX), A, Carrier::Tcp, true, now), Admission::Cut);
        assert_eq!(
            admission.admit(at(AT_CEILING_MAX), A, Carrier::Tcp, false, now),
            Admission::Serve
        );
        admission.gone(at(0));
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, true, now), Admission::Serve);
        assert_eq!(admission.served, AT_CEILING_MAX + 1);
    }

    #[test]
    fn who_moves_keeps_the_place_among_all() {
        let mut admission = admission(1, 1, 0);
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, Micros(0)), Admission::Serve);
        let there = Place { shard: 3, token: 9 };
        let pass = admission.leave(at(0)).unwrap();
        // Counted on its way; its place may be another's already.
        assert_eq!(admission.admit(at(0), B, Carrier::Tcp, false, Micros(0)), FULL);
        admission.arrive(there, &pass);
        admission.gone(at(0));
        assert_eq!(admission.admit(at(0), B, Carrier::Tcp, false, Micros(0)), FULL);
        admission.gone(at(0));
        admission.gone(there);
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, Micros(0)), Admission::Serve);
        let pass = admission.leave(at(0)).unwrap();
        admission.lost(&pass);
        assert_eq!(admission.admit(at(1), A, Carrier::Tcp, false, Micros(0)), Admission::Serve);
    }

    #[test]
    fn one_address_does_not_take_the_place_of_another() {
        let mut admission = admission(10, 1, 0);
        let now = Micros(0);
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, now), Admission::Serve);
        assert_eq!(admission.admit(at(1), A, Carrier::Tcp, false, now), FULL);
        assert_eq!(admission.admit(at(2), B, Carrier::Tcp, false, now), Admission::Serve);
        admission.gone(at(0));
        assert_eq!(admission.admit(at(3), A, Carrier::Tcp, false, now), Admission::Serve);
        assert_eq!(admission.hosts.len(), 2);
        assert_eq!(admission.stats.refused_address, 1);
    }

    #[test]
    fn after_a_storm_its_memory_is_back() {
        let mut admission = admission(1_000_000, 1_000_000, 0);
        let address = |token: u32| IpAddr::from(token.to_be_bytes());
        for token in 0..100_000 {
            assert_eq!(
                admission.admit(at(token), address(token), Carrier::Tcp, false, Micros(0)),
                Admission::Serve
            );
        }
        for token in (1..100_000).rev().step_by(2) {
            admission.gone(at(token));
        }
        for token in (2..100_000).step_by(2) {
            admission.gone(at(token));
        }
        assert_eq!(admission.served, 1);
        let kept = [admission.held[0].capacity(), admission.hosts.capacity()];
        assert!(kept.iter().all(|&kept| kept < 4 * shrink::KEPT), "{kept:?}");
    }

    #[test]
    fn connects_come_at_the_rate_after_the_first_burst() {
        let mut admission = admission(1000, 0, 10);
        assert_eq!(served(&mut admission, 0..100, A, Micros(5_000_000)), 10);
        assert_eq!(served(&mut admission, 0..100, A, Micros(5_000_000)), 0);
        assert_eq!(served(&mut admission, 0..100, A, Micros(5_500_000)), 5);
        assert_eq!(
            admission.admit(at(0), A, Carrier::Tcp, false, Micros(5_500_000)),
            Admission::Refuse(ReasonCode::ConnectionRateExceeded)
        );
    }

    #[test]
    fn without_memory_or_room_to_answer_a_connection_is_cut() {
        let mut admission = admission(AT_CEILING_MAX + 1, 0, 0);
        for token in 0..AT_CEILING_MAX {
            assert_eq!(
                admission.admit(at(token), A, Carrier::Tcp, true, Micros(0)),
                Admission::Serve
            );
        }
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, true, Micros(0)), Admission::Cut);
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, Micros(0)), Admission::Serve);
        for token in 1..=REFUSALS_MAX {
            assert_eq!(admission.admit(at(token), A, Carrier::Tcp, false, Micros(0)), FULL);
        }
        assert_eq!(
            admission.admit(at(REFUSALS_MAX + 1), A, Carrier::Tcp, false, Micros(0)),
            Admission::Cut
        );
        assert_eq!(admission.stats.cut, 2);
    }

    #[test]
    fn one_host_leaves_others_a_part_of_all_places_whatever_addresses_it_has() {
        let networks: [[&str; 2]; 3] = [
            ["192.0.2.1", "::ffff:192.0.2.1"],
            ["2001:db8::1", "2001:db8::2"],
            ["2001:db8::1", "2001:db8:0:0:ffff::"],
        ];
        for greedy in networks {
            let mut admission = admission(100, 0, 0);
            let now = Micros(0);
            let taken = greedy.map(|text| text.parse().unwrap()).map(|peer| {
                let from = admission.served;
                served(&mut admission, from..from + 50, peer, now)
            });
            assert_eq!(taken, [50, 25], "{greedy:?}");
            assert_eq!(admission.stats.refused_address, 25);
            assert_eq!(served(&mut admission, 200..300, OTHER, now), 25);
        }
    }

    /// A proxy on this host, or a load generator, brings everybody.
    #[test]
    fn the_brokers_own_host_may_have_all_places_unless_that_is_bounded() {
        for (per_address, taken) in [(0, 100), (30, 30)] {
            let mut admission = admission(100, per_address, 0);
            assert_eq!(served(&mut admission, 0..200, A, Micros(0)), taken);
        }
    }

    #[test]
    fn one_host_leaves_others_a_part_of_the_rate() {
        let mut admission = admission(1000, 0, 8);
        let mut second = |at: u64| {
            let now = Micros(at * 1_000_000);
            let greedy = served(&mut admission, 0..100, FAR, now);
            (greedy, served(&mut admission, 100..200, OTHER, now))
        };
        assert_eq!(second(5), (6, 2));
        assert_eq!(second(6), (6, 2));
        // Whoever tries all the time gets no more: a second's share at once, and another one.
        let all: usize =
            (7_000..8_000).map(|ms| served(&mut admission, 0..1, FAR, Micros(ms * 1_000))).sum();
        assert!(all <= 12, "{all}");
        assert!(served(&mut admission, 100..200, OTHER, Micros(8_000_000)) >= 2);
    }

    #[test]
    fn one_host_leaves_others_room_to_be_told_why() {
        let mut admission = admission(1, 0, 0);
        let now = Micros(0);
        assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, now), Admission::Serve);
        let last = (1..=REFUSALS_MAX)
            .map(|token| admission.admit(at(token), FAR, Carrier::Tcp, false, now))
            .last();
        assert_eq!(last, Some(Admission::Cut));
        assert_eq!(admission.admit(at(REFUSALS_MAX + 1), OTHER, Carrier::Tcp, false, now), FULL);
    }

    #[test]
    fn one_proxy_leaves_others_room_to_wait_and_who_waits_has_no_place() {
        let mut admission = admission(1, 0, 0);
        let of_one = (0..WAITING_MAX).filter(|&token| admission.wait(at(token), FAR)).count();
        assert_eq!(of_one, WAITING_MAX as usize * 3 / 4);
        assert!(admission.wait(at(WAITING_MAX), OTHER));
        assert_eq!(admission.stats.cut, u64::from(WAITING_MAX) / 4);
        admission.gone(at(0));
        assert_eq!(admission.admit(at(0), B, Carrier::Tcp, false, Micros(0)), Admission::Serve);
        assert_eq!((admission.served, admission.waiting), (1, WAITING_MAX * 3 / 4));
        (1..=WAITING_MAX).for_each(|token| admission.gone(at(token)));
        assert_eq!((admission.waiting, admission.hosts.len()), (0, 1));
    }

    #[test]
    fn a_connection_s_origin_is_its_host_s_wherever_it_goes() {
        let mut admission = admission(10, 0, 0);
        for (token, peer) in [(0, FAR), (1, FAR), (2, OTHER), (3, A)] {
            admission.admit(at(token), peer, Carrier::Tcp, false, Micros(0));
        }
        let origin = admission.origin(at(0));
        assert!(origin.is_some());
        assert_eq!(admission.origin(at(1)), origin);
        assert_ne!(admission.origin(at(2)), origin);
        assert_eq!(admission.origin(at(3)), None);
        let pass = admission.leave(at(0)).unwrap();
        admission.arrive(Place { shard: 3, token: 9 }, &pass);
        assert_eq!(admission.origin(Place { shard: 3, token: 9 }), origin);
    }

    #[test]
    fn whoever_guesses_passwords_is_kept_out_and_nobody_else() {
        let mut admission = admission(1_000, 0, 0);
        let at_s = |s| Micros::from_secs(s);
        (0..19).for_each(|_| admission.guessed_wrong(FAR, at_s(1)));
        assert_eq!(admission.admit(at(0), FAR, Carrier::Tcp, false, at_s(2)), Admission::Serve);
        admission.guessed_wrong(FAR, at_s(3));
        assert_eq!(admission.admit(at(1), FAR, Carrier::Tcp, false, at_s(4)), Admission::Banned);
        assert!(admission.is_banned(Some(FAR), "was-there", None, at_s(4)));
        assert_eq!(admission.admit(at(1), OTHER, Carrier::Tcp, false, at_s(4)), Admission::Serve);
        assert_eq!(admission.admit(at(2), FAR, Carrier::Tcp, false, at_s(303)), Admission::Serve);
        assert_eq!((admission.stats.passwords_guessed_banned, admission.stats.banned), (1, 2));
    }

    #[test]
    fn another_share_of_one_address_holds_at_once() {
        let mut admission = admission(8, 0, 0);
        assert_eq!(served(&mut admission, 0..8, FAR, Micros(0)), 6);
        let limits = admission.limits.clone();
        admission.set_limits(limits.clone(), 100);
        assert_eq!(served(&mut admission, 8..16, FAR, Micros(0)), 2);
        admission.set_limits(limits, 50);
        assert_eq!(served(&mut admission, 16..24, FAR, Micros(0)), 0);
    }

    #[test]
    fn who_is_pardoned_comes_in_again() {
        let limits =
            ProcessLimits { flapping_connects_per_minute_max: 2, ..ProcessLimits::default() };
        let mut admission = AdmissionControl::new(limits, 75, Default::default());
        let now = Micros(0);
        (0..20).for_each(|_| admission.guessed_wrong(FAR, now));
        for client_id in ["c", "d"] {
            let mut comes = || admission.is_banned(Some(OTHER), client_id, None, now);
            assert_eq!([comes(), comes()], [false, true]);
        }
        let [guesses, flapping] = admission.kept_out(now);
        let until = Micros::from_secs(300);
        assert_eq!((guesses, flapping), (vec![(FAR, until)], vec![(OTHER, until); 2]));
        let whom = |kind, name| Whom::parse(kind, name).unwrap();
        assert!(!admission.pardon(&whom("user", "c"), now));
        assert!(admission.pardon(&whom("client", "c"), now));
        assert!(!admission.is_banned(Some(OTHER), "c", None, now));
        assert!(admission.is_banned(Some(OTHER), "d", None, now));
        assert!(admission.pardon(&whom("address", "192.0.2.0/24"), now));
        assert_eq!(admission.kept_out(now), [vec![], vec![]]);
        assert_eq!(admission.admit(at(0), FAR, Carrier::Tcp, false, now), Admission::Serve);
    }

    /// A proxy there brings everybody, unless the bound is set.
    #[test]
    fn the_brokers_own_host_may_guess_unless_that_is_bounded() {
        for (max, expected) in [(0, Admission::Serve), (5, Admission::Banned)] {
            let limits =
                ProcessLimits { wrong_passwords_per_minute_max: max, ..ProcessLimits::default() };
            let mut admission = AdmissionControl::new(limits, 75, Default::default());
            (0..100).for_each(|_| admission.guessed_wrong(A, Micros(0)));
            assert_eq!(admission.admit(at(0), A, Carrier::Tcp, false, Micros(0)), expected);
        }
    }

    #[test]
    fn who_comes_too_often_is_kept_out_from_where_it_comes() {
        let limits =
            ProcessLimits { flapping_connects_per_minute_max: 3, ..ProcessLimits::default() };
        let mut admission = AdmissionControl::new(limits, 75, Default::default());
        let mut comes =
            |peer, client_id| admission.is_banned(Some(peer), client_id, None, Micros(0));
        assert_eq!([0; 4].map(|_| comes(FAR, "c")), [false, false, true, true]);
        assert!(!comes(OTHER, "c"), "nobody bans a client of others by its name");
        assert!(!comes(FAR, "d"));
        assert!((0..10).all(|_| !comes(FAR, "")));
        assert_eq!(admission.stats.flapping_banned, 1);
    }

    #[test]
    fn who_is_banned_by_the_file_is_kept_out_at_once() {
        let mut admission = admission(10, 0, 0);
        let now = Micros(0);
        assert_eq!(admission.admit(at(0), FAR, Carrier::Tcp, false, now), Admission::Serve);
        let bans = Bans::parse("address 192.0.2.1\nclient c\nuser ann\n").unwrap();
        admission.set_bans(Arc::new(bans));
        assert_eq!(admission.admit(at(1), FAR, Carrier::Tcp, false, now), Admission::Banned);
        assert!(admission.is_banned(Some(FAR), "d", None, now));
        assert!(admission.is_banned(Some(OTHER), "c", None, now));
        assert!(admission.is_banned(None, "d", Some("ann"), now));
        assert!(!admission.is_banned(Some(OTHER), "d", Some("bob"), now));
        assert!(admission.is_user_banned("ann") && !admission.is_user_banned("bob"));
        // Those that are added stay when the file is read again.
        admission.set_added(Arc::new(Bans::parse("address 192.0.2.2\nuser bob\n").unwrap()));
        admission.set_bans(Arc::default());
        assert_eq!(admission.admit(at(1), OTHER, Carrier::Tcp, false, now), Admission::Banned);
        assert!(admission.is_user_banned("bob") && !admission.is_user_banned("ann"));
    }

    #[test]
    fn every_shared_bound_of_admission_is_walked_over() {
        // The tests above that begin with "one host leaves others" and "one proxy leaves others".
        let walked = [
            "process.connections_max",
            "process.connects_per_second_max",
            "1,024 connections that are told why they are refused",
            "4,096 connections of proxies that have not said where their clients are",
        ];
        assert_eq!(walked_by(Walk::Admission), walked);
    }
}
