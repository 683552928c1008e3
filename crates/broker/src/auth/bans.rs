//! Who is banned: addresses, clients and users, for ever or up to a time of day.
//!
//! A file has a line for each. What is banned is a value that all shards share, and that is
//! replaced as a whole.

use super::passwords::BadLine;
use jiff::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bans of a file. Each takes about a hundred bytes.
const BANS_MAX: usize = 1_000_000;

/// A time of day in seconds since 1970; the last one is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Until(u64);

const FOR_EVER: Until = Until(u64::MAX);

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Network {
    bits: u128,
    length: u8,
    is_v6: bool,
}

impl Network {
    fn of(address: IpAddr, length: u8) -> Self {
        let (bits, is_v6) = match address.to_canonical() {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, false),
            IpAddr::V6(address) => (address.to_bits(), true),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        Self { bits: bits & mask, length, is_v6 }
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
            Some((name, time)) => (name.trim(), until(time.trim())?),
            None => (rest.trim(), FOR_EVER),
        };
        if name.is_empty() {
            return Err(format!("{kind}: whom it bans is missing"));
        }
        match kind {
            "address" => {
                let rule = "it must be an address such as 192.0.2.7, or a network such as \
                    192.0.2.0/24 or 2001:db8::/32";
                let network = Network::parse(name).ok_or_else(|| format!("{name}: {rule}"))?;
                let lengths = &mut self.lengths[usize::from(network.is_v6)];
                if !lengths.contains(&network.length) {
                    lengths.push(network.length);
                }
                keep(&mut self.networks, network, until);
            }
            "client" => keep(&mut self.clients, name.into(), until),
            "user" => keep(&mut self.users, name.into(), until),
            _ => return Err(format!("{kind}: a line begins with address, client or user")),
        }
        Ok(())
    }

    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        if self.networks.is_empty() {
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

fn until(text: &str) -> Result<Until, String> {
    let time: Timestamp = text.parse().map_err(|_| {
        format!("{text}: it must be a time such as 2030-01-31T12:00:00Z (RFC 3339)")
    })?;
    // What ended before 1970 ended.
    Ok(Until(time.as_second().try_into().unwrap_or(0)))
}

fn holds(until: Option<&Until>) -> bool {
    until.is_some_and(|&until| {
        until == FOR_EVER || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            since.as_secs() < until.0
        }
    })
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
