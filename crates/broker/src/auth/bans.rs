//! Who is banned: addresses, clients and users, for ever or up to a time of day.
//!
//! A file has a line for each. What is banned is a value that all shards share, and that is
//! replaced as a whole.

use super::passwords::BadLine;
use jiff::Timestamp;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bans of a file. Each takes about a hundred bytes.
const BANS_MAX: usize = 1_000_000;

/// A time of day in seconds since 1970; the last one is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Until(u64);

impl Until {
    pub(crate) const FOR_EVER: Self = Self(u64::MAX);

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let time: Timestamp = text.parse().map_err(|_| {
            format!("{text}: it must be a time such as 2030-01-31T12:00:00Z (RFC 3339)")
        })?;
        // What ended before 1970 ended.
        Ok(Self(time.as_second().try_into().unwrap_or(0)))
    }

    pub(crate) fn seconds_from_now(seconds: u64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs().saturating_add(seconds))
    }

    pub(crate) fn is_over(self) -> bool {
        self != Self::FOR_EVER && self <= Self::seconds_from_now(0)
    }

    /// As [`Until::parse`] takes it; nothing if it never ends.
    pub(crate) fn text(self) -> Option<String> {
        let time = Timestamp::from_second(self.0.try_into().ok()?).ok()?;
        Some(time.to_string())
    }
}

/// Whom a ban keeps out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whom {
    Address(Network),
    Client(Box<str>),
    User(Box<str>),
}

impl Whom {
    /// As a line of the file names it.
    pub(crate) fn parse(kind: &str, name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err(format!("{kind}: whom it bans is missing"));
        }
        match kind {
            "address" => {
                let rule = "it must be an address such as 192.0.2.7, or a network such as \
                    192.0.2.0/24 or 2001:db8::/32";
                let network = Network::parse(name).ok_or_else(|| format!("{name}: {rule}"))?;
                Ok(Self::Address(network))
            }
            "client" => Ok(Self::Client(name.into())),
            "user" => Ok(Self::User(name.into())),
            _ => Err(format!("{kind}: a ban is of an address, client or user")),
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Client(_) => "client",
            Self::User(_) => "user",
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Address(network) => network.to_string(),
            Self::Client(name) | Self::User(name) => name.to_string(),
        }
    }
}

/// All that is banned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bans {
    networks: HashMap<Network, Until>,
    /// The lengths that networks have, of IPv4 and of IPv6, so that a look-up tries those only.
    lengths: [Vec<u8>; 2],
    clients: HashMap<Box<str>, Until>,
    users: HashMap<Box<str>, Until>,
}

/// An address, of which only the first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Network {
    is_v6: bool,
    bits: u128,
    length: u8,
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, whole): (IpAddr, u8) = match self.is_v6 {
            true => (Ipv6Addr::from_bits(self.bits).into(), 128),
            false => (Ipv4Addr::from_bits((self.bits >> 96) as u32).into(), 32),
        };
        match self.length == whole {
            true => write!(out, "{address}"),
            false => write!(out, "{address}/{}", self.length),
        }
    }
}

impl Network {
    fn of(address: IpAddr, length: u8) -> Self {
        let (bits, is_v6) = match address.to_canonical() {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, false),
            IpAddr::V6(address) => (address.to_bits(), true),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { is_v6, bits: bits & mask, length }
    }

    /// Where those are that count as one host ([`host_of`]).
    pub(crate) fn of_host(host: IpAddr) -> Self {
        let whole = if host.is_ipv4() { 32 } else { 128 };
        let is_network = host.is_ipv6() && !host.is_loopback();
        Self::of(host, if is_network { 64 } else { whole })
    }

    /// Whether an address is in it.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        Self::of(address, self.length) == *self
    }

    /// Whether a host is in it, or it in the host.
    pub(crate) fn has_host(&self, host: IpAddr) -> bool {
        let of_host = Self::of_host(host);
        let length = self.length.min(of_host.length);
        let cut = |network: &Self| network.bits.checked_shr(128 - u32::from(length)).unwrap_or(0);
        self.is_v6 == of_host.is_v6 && cut(self) == cut(&of_host)
    }

    fn parse(text: &str) -> Option<Self> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (most, mapped) = match (address, address.to_canonical()) {
            (IpAddr::V4(_), _) => (32, 0),
            (IpAddr::V6(_), IpAddr::V4(_)) => (128, 96),
            (IpAddr::V6(_), IpAddr::V6(_)) => (128, 0),
        };
        let length = length.unwrap_or(most);
        // An IPv4 address in an IPv6 one is what it is, with a length to match.
        let is_length = (mapped..=most).contains(&length);
        is_length.then(|| Self::of(address, length - mapped))
    }
}

impl Bans {
    /// Those of a file's text.
    ///
    /// # Errors
    /// The first line that is none of such a file.
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut bans = Self::default();
        let mut count = 0;
        for (line, text) in (1..).zip(text.lines()) {
            let bad = |message: String| BadLine { line, message };
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            count += 1;
            if count > BANS_MAX {
                return Err(bad(format!("there are more than {BANS_MAX} bans")));
            }
            bans.add(text).map_err(bad)?;
        }
        Ok(bans)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (name, until) = match rest.trim().rsplit_once(" until ") {
            Some((name, time)) => (name.trim(), Until::parse(time.trim())?),
            None => (rest.trim(), Until::FOR_EVER),
        };
        self.keep_out(&Whom::parse(kind, name)?, until);
        Ok(())
    }

    /// The later of two ends counts.
    pub(crate) fn keep_out(&mut self, whom: &Whom, until: Until) {
        match whom {
            Whom::Address(network) => {
                let lengths = &mut self.lengths[usize::from(network.is_v6)];
                if !lengths.contains(&network.length) {
                    lengths.push(network.length);
                }
                keep(&mut self.networks, *network, until);
            }
            Whom::Client(client_id) => keep(&mut self.clients, client_id.clone(), until),
            Whom::User(user) => keep(&mut self.users, user.clone(), until),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_addresses() && self.clients.is_empty() && self.users.is_empty()
    }

    /// Whether any address is banned.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.networks.is_empty()
    }

    /// Whether this very ban is among them, and not over.
    pub(crate) fn has(&self, whom: &Whom) -> bool {
        match whom {
            Whom::Address(network) => holds(self.networks.get(network)),
            Whom::Client(client_id) => self.has_client(client_id),
            Whom::User(user) => self.has_user(user),
        }
    }

    /// All of them, in an order that stays while they do.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Whom, Until)> {
        let networks = self.networks.iter().map(|(&of, &until)| (Whom::Address(of), until));
        let clients = self.clients.iter().map(|(of, &until)| (Whom::Client(of.clone()), until));
        let users = self.users.iter().map(|(of, &until)| (Whom::User(of.clone()), until));
        networks.chain(clients).chain(users)
    }

    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        if !self.has_addresses() {
            return false;
        }
        let is_v6 = Network::of(address, 0).is_v6;
        let mut lengths = self.lengths[usize::from(is_v6)].iter();
        lengths.any(|&length| holds(self.networks.get(&Network::of(address, length))))
    }

    pub(crate) fn has_client(&self, client_id: &str) -> bool {
        holds(self.clients.get(client_id))
    }

    pub(crate) fn has_user(&self, user: &str) -> bool {
        holds(self.users.get(user))
    }
}

/// The later of two ends counts.
fn keep<K: std::hash::Hash + Eq>(bans: &mut HashMap<K, Until>, key: K, until: Until) {
    let kept = bans.entry(key).or_insert(until);
    *kept = until.max(*kept);
}

fn holds(until: Option<&Until>) -> bool {
    until.is_some_and(|until| !until.is_over())
}

/// Whether a text is that of a file of bans.
///
/// # Errors
/// The first line that cannot be used.
pub fn check_bans(text: &str) -> Result<(), BadLine> {
    Bans::parse(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bans(text: &str) -> Bans {
        Bans::parse(text).unwrap()
    }

    fn has(bans: &Bans, address: &str) -> bool {
        bans.has_address(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_banned_by_itself_or_by_its_network() {
        let bans = bans(
            "# who\naddress 192.0.2.7\naddress 198.51.100.9/24\n\n address 2001:db8::1/32 \n\
             address ::ffff:203.0.113.0/120\n",
        );
        for (address, is_banned) in [
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("192.0.2.8", false),
            ("198.51.100.255", true),
            ("198.51.101.0", false),
            ("2001:db8:ffff::", true),
            ("2001:db9::", false),
            ("203.0.113.77", true),
            ("203.0.114.0", false),
            ("c000:207::", false),
        ] {
            assert_eq!(has(&bans, address), is_banned, "{address}");
        }
        let all = self::bans("address 0.0.0.0/0");
        assert!(has(&all, "10.0.0.1") && !has(&all, "2001:db8::1"));
        assert!(has(&self::bans("address ::/0"), "2001:db8::1"));
        assert!(!has(&Bans::default(), "10.0.0.1"));
    }

    #[test]
    fn a_network_is_shown_as_it_is_read_and_knows_its_hosts() {
        for (text, shown, host, is_its) in [
            ("192.0.2.7", "192.0.2.7", "192.0.2.7", true),
            ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.8", false),
            ("198.51.100.9/24", "198.51.100.0/24", "198.51.100.77", true),
            ("0.0.0.0/0", "0.0.0.0/0", "10.1.2.3", true),
            ("2001:db8::1", "2001:db8::1", "2001:db8::", true),
            ("2001:db8::/32", "2001:db8::/32", "2001:db8:7::", true),
            ("2001:db8::/32", "2001:db8::/32", "2001:db9::", false),
            ("::1", "::1", "::1", true),
            ("::/0", "::/0", "10.1.2.3", false),
        ] {
            let network = Network::parse(text).unwrap();
            assert_eq!(network.to_string(), shown);
            assert_eq!(Network::parse(shown), Some(network));
            assert_eq!(network.has_host(host.parse().unwrap()), is_its, "{text} {host}");
        }
        let host = Network::of_host("2001:db8::".parse().unwrap());
        assert_eq!(host.to_string(), "2001:db8::/64");
    }

    #[test]
    fn clients_and_users_are_banned_by_name_up_to_a_time() {
        let bans = bans(
            "client a b\nuser ann until 2001-01-01T00:00:00Z\nuser bob until 2999-01-01T00:00:00Z\n\
             client until until 2999-01-01T00:00:00+02:00\nuser eve until 2001-01-01T00:00:00Z\n\
             user eve\nuser eve until 2001-01-01T00:00:00Z\n",
        );
        assert!(bans.has_client("a b") && bans.has_client("until") && !bans.has_client("a"));
        let banned = ["ann", "bob", "eve", "a b"].map(|user| bans.has_user(user));
        assert_eq!(banned, [false, true, true, false]);
        assert_eq!(self::bans("# nobody\n"), Bans::default());
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (text, line, part) in [
            ("\naddress", 2, "missing"),
            ("address 1.2.3", 1, "1.2.3: it must be an address"),
            ("address 1.2.3.4/33", 1, "network"),
            ("address 1.2.3.4/x", 1, "network"),
            ("address ::ffff:1.2.3.4/95", 1, "network"),
            ("address 1.2.3.4 until tomorrow", 1, "RFC 3339"),
            ("host a", 1, "address, client or user"),
        ] {
            let bad = Bans::parse(text).unwrap_err();
            assert!(bad.line == line && bad.message.contains(part), "{bad:?}");
        }
    }
}
