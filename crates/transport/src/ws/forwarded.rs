//! Where a client is that comes by proxies of HTTP, by what these have added to its request.

use ipnet::IpNet;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// The client by the values of `X-Forwarded-For`, or of `Forwarded` (RFC 7239): the last address
/// that is not one of `proxies`, since whatever stands before it was said by the client. With both
/// headers they have to agree: a proxy adds to one of them, and the other may be the client's.
///
/// # Errors
/// They do not, or a text in quotes has no end.
pub(super) fn client(
    x_forwarded_for: &[Cow<'_, str>],
    forwarded: &[Cow<'_, str>],
    proxies: &[IpNet],
) -> Result<Option<SocketAddr>, ()> {
    let words = x_forwarded_for.iter().flat_map(|value| value.split(','));
    let by_one = last(words.map(address).collect(), proxies);
    let mut hops = Vec::new();
    for value in forwarded {
        for element in split(value, ',')? {
            hops.push(forwarded_for(&split(element, ';')?));
        }
    }
    let by_other = last(hops, proxies);
    let ip = |client: Option<SocketAddr>| client.map(|client| client.ip());
    let agree = x_forwarded_for.is_empty() || forwarded.is_empty() || ip(by_one) == ip(by_other);
    if agree { Ok(by_one.or(by_other)) } else { Err(()) }
}

/// The parts of a text between separators that are not in quotes: these may have been chosen by
/// the client.
fn split(text: &str, separator: char) -> Result<Vec<&str>, ()> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = text.split(|letter| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match letter {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => {}
        }
        letter == separator && !is_quoted
    });
    let parts = parts.collect();
    if is_quoted { Err(()) } else { Ok(parts) }
}

fn last(hops: Vec<Option<SocketAddr>>, proxies: &[IpNet]) -> Option<SocketAddr> {
    let mut client = None;
    for hop in hops.into_iter().rev() {
        // Behind one that cannot be read, nothing is known.
        let Some(hop) = hop else { return client };
        client = Some(hop);
        let address = hop.ip().to_canonical();
        if !proxies.iter().any(|network| network.contains(&address)) {
            break;
        }
    }
    client
}

fn forwarded_for(pairs: &[&str]) -> Option<SocketAddr> {
    pairs.iter().find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then(|| address(value.trim().trim_matches('"')))?
    })
}

/// An address with its port, or without: then the port is 0.
fn address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let alone = || bare.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 0));
    text.parse().ok().or_else(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(x_forwarded_for: &str, forwarded: &str) -> Result<Option<SocketAddr>, ()> {
        let values = |text: &str| -> Vec<Cow<'static, str>> {
            if text.is_empty() { Vec::new() } else { vec![text.to_owned().into()] }
        };
        let proxies = ["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        client(&values(x_forwarded_for), &values(forwarded), &proxies)
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client_whatever_it_has_said_itself() {
        for (x_forwarded_for, forwarded, found) in [
            ("", "", None),
            ("192.0.2.1", "", Some("192.0.2.1:0")),
            ("127.0.0.1, 192.0.2.1,10.0.0.1, ::ffff:10.9.9.9", "", Some("192.0.2.1:0")),
            ("192.0.2.1:77", "", Some("192.0.2.1:77")),
            ("[2001:db8::1]:77", "", Some("[2001:db8::1]:77")),
            ("10.0.0.2,10.0.0.1", "", Some("10.0.0.2:0")),
            ("192.0.2.1,unknown", "", None),
            ("192.0.2.1,unknown,10.0.0.1", "", Some("10.0.0.1:0")),
            ("", "for=1.1.1.1, For=\"[2001:db8::1]:77\";proto=https", Some("[2001:db8::1]:77")),
            ("", "for=192.0.2.1, proto=http;for=10.0.0.1", Some("192.0.2.1:0")),
            ("", "for=_hidden", None),
            ("192.0.2.1", "for=192.0.2.1:5", Some("192.0.2.1:0")),
            ("\u{FFFD}, 192.0.2.1", "", Some("192.0.2.1:0")),
            ("", "for=192.0.2.1;host=\"x, for=9.9.9.9\"", Some("192.0.2.1:0")),
            ("", "host=\"\\\", for=9.9.9.9;\";for=192.0.2.1", Some("192.0.2.1:0")),
        ] {
            let found = found.map(|found| found.parse().unwrap());
            assert_eq!(by(x_forwarded_for, forwarded), Ok(found), "{x_forwarded_for} {forwarded}");
        }
        assert_eq!(by("192.0.2.1", "for=192.0.2.2"), Err(()));
        assert_eq!(by("unknown", "for=192.0.2.2"), Err(()));
        assert_eq!(by("", "for=192.0.2.1;host=\"x"), Err(()));
    }
}
