//! The header, as HAProxy's proxy-protocol.txt has it.

use crate::Learnt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

const TEXT_START: &[u8] = b"PROXY ";

/// Of a header of version 1, its end of line included.
const TEXT_BYTES_MAX: usize = 107;

const BINARY_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// What stands before the addresses in version 2.
const BINARY_HEAD_BYTES: usize = 16;

/// The longest header that is read, of version 2.
pub const HEADER_BYTES_MAX: usize = 4096;

/// Commands of version 2, with its number in the upper half.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

/// Kinds of values behind the addresses.
const TLS: u8 = 0x20;
const TLS_COMMON_NAME: u8 = 0x22;

/// Bits of what the proxy says of the client's TLS.
const HAS_TLS: u8 = 1;
const HAS_CERTIFICATE: u8 = 2 | 4;

const MALFORMED: &str = "a PROXY header that is malformed";
const TOO_LONG: &str = "a PROXY header that is too long";

/// What the header at the start of `bytes` says, and how many bytes it has; nothing if more has to
/// come.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(usize, Learnt)>, &'static str> {
    if begins(bytes, TEXT_START) {
        read_text(bytes)
    } else if begins(bytes, BINARY_START) {
        read_binary(bytes)
    } else {
        Err("no PROXY header")
    }
}

/// Whether `bytes` begins with `start`, or may once more has come.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let length = bytes.len().min(start.len());
    bytes[..length] == start[..length]
}

fn read_text(bytes: &[u8]) -> Result<Option<(usize, Learnt)>, &'static str> {
    let line = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|two| two == b"\r\n") else {
        return if bytes.len() < TEXT_BYTES_MAX { Ok(None) } else { Err(TOO_LONG) };
    };
    let text = std::str::from_utf8(&line[TEXT_START.len()..end]).map_err(|_| MALFORMED)?;
    let (family, addresses) = text.split_once(' ').unwrap_or((text, ""));
    let peer = match family {
        "TCP4" => Some(source::<Ipv4Addr>(addresses).ok_or(MALFORMED)?),
        "TCP6" => Some(source::<Ipv6Addr>(addresses).ok_or(MALFORMED)?),
        // Whatever stands behind it says nothing.
        "UNKNOWN" => None,
        _ => return Err(MALFORMED),
    };
    Ok(Some((end + 2, Learnt { peer, ..Learnt::default() })))
}

/// The first address of two, each with its port behind both.
fn source<Address: FromStr + Into<IpAddr>>(text: &str) -> Option<SocketAddr> {
    let mut words = text.split(' ');
    let mut next = || words.next();
    let (source, target) = (next()?.parse::<Address>().ok()?, next()?.parse::<Address>());
    let (port, target_port) = (next()?.parse().ok()?, next()?.parse::<u16>());
    let is_whole = target.is_ok() && target_port.is_ok() && next().is_none();
    is_whole.then(|| SocketAddr::new(source.into(), port))
}

fn read_binary(bytes: &[u8]) -> Result<Option<(usize, Learnt)>, &'static str> {
    let Some(&head) = bytes.first_chunk::<BINARY_HEAD_BYTES>() else { return Ok(None) };
    let [.., command, family, high, low] = head;
    let length = BINARY_HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if length > HEADER_BYTES_MAX {
        return Err(TOO_LONG);
    }
    let Some(rest) = bytes.get(BINARY_HEAD_BYTES..length) else { return Ok(None) };
    let learnt = match command {
        // The proxy's own connection, such as a look at whether the broker is there.
        LOCAL => Learnt::default(),
        PROXY => learnt(family, rest).ok_or(MALFORMED)?,
        _ => return Err(MALFORMED),
    };
    Ok(Some((length, learnt)))
}

/// What stands behind the head; nothing if it is not as it must be.
fn learnt(family: u8, rest: &[u8]) -> Option<Learnt> {
    let port = |rest: &[u8], at| Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk()?));
    let (peer, values) = match family {
        0x11 => {
            let address = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            (Some(SocketAddr::new(address.into(), port(rest, 8)?)), rest.get(12..)?)
        }
        0x21 => {
            let address = Ipv6Addr::from(*rest.first_chunk::<16>()?);
            (Some(SocketAddr::new(address.into(), port(rest, 32)?)), rest.get(36..)?)
        }
        // Not known, datagrams, unix sockets: none that says where the client is.
        0x00 => (None, rest),
        0x12 => (None, rest.get(12..)?),
        0x22 => (None, rest.get(36..)?),
        0x31 | 0x32 => (None, rest.get(216..)?),
        _ => return None,
    };
    Some(Learnt { peer, name: name(values)?, shown: None })
}

/// The common name of the certificate that the proxy has verified, if there is one: it is nothing
/// if the values are not as they must be.
fn name(mut values: &[u8]) -> Option<Option<Box<str>>> {
    let mut name = None;
    while !values.is_empty() {
        let (kind, value, behind) = split_value(values)?;
        values = behind;
        if kind == TLS {
            name = common_name(value)?;
        }
    }
    Some(name)
}

fn common_name(value: &[u8]) -> Option<Option<Box<str>>> {
    let (&[has, ref failed @ ..], mut values) = value.split_first_chunk::<5>()?;
    let is_verified = has & HAS_TLS != 0 && has & HAS_CERTIFICATE != 0 && *failed == [0; 4];
    let mut name = None;
    while !values.is_empty() {
        let (kind, value, behind) = split_value(values)?;
        values = behind;
        if kind == TLS_COMMON_NAME && is_verified {
            let text = std::str::from_utf8(value).ok();
            let is_name = |text: &&str| !text.is_empty() && !text.contains(char::is_control);
            name = text.filter(is_name).map(Into::into);
        }
    }
    Some(name)
}

/// The kind of the first value, the value, and what stands behind it.
fn split_value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, high, low], rest) = bytes.split_first_chunk()?;
    let (value, behind) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
    Some((kind, value, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header of version 2, and what is in it.
    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [BINARY_START, &[command, family], &length, rest].concat()
    }

    fn value(kind: u8, value: &[u8]) -> Vec<u8> {
        [&[kind][..], &(value.len() as u16).to_be_bytes(), value].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0, 80, 1, 187];

    fn peer(text: &str) -> Learnt {
        Learnt { peer: Some(text.parse().unwrap()), ..Learnt::default() }
    }

    fn headers() -> Vec<(Vec<u8>, Learnt)> {
        let mut v6 = [0; 36];
        v6[..4].copy_from_slice(&[0x20, 1, 0xD, 0xB8]);
        v6[32..34].copy_from_slice(&[1, 0]);
        let none = Learnt::default;
        let text = |text: &str| format!("PROXY {text}\r\n").into_bytes();
        vec![
            (text("TCP4 192.0.2.1 198.51.100.2 80 443"), peer("192.0.2.1:80")),
            (text("TCP6 2001:db8:: ::1 256 1"), peer("[2001:db8::]:256")),
            (text("UNKNOWN"), none()),
            (text("UNKNOWN ffff:: ffff:: 1 1"), none()),
            (binary(PROXY, 0x11, &V4), peer("192.0.2.1:80")),
            (binary(PROXY, 0x21, &v6), peer("[2001:db8::]:256")),
            (binary(PROXY, 0x11, &[&V4[..], &value(4, b"xyz")].concat()), peer("192.0.2.1:80")),
            (binary(PROXY, 0x31, &[7; 216]), none()),
            (binary(PROXY, 0x00, b""), none()),
            (binary(LOCAL, 0x00, b""), none()),
            (binary(LOCAL, 0x11, b"whatever"), none()),
        ]
    }

    #[test]
    fn a_header_is_read_once_all_of_it_is_there_and_nothing_behind_it() {
        for (header, learnt) in headers() {
            for length in 0..header.len() {
                assert_eq!(read(&header[..length]), Ok(None), "{header:?}");
            }
            let read = read(&[&header[..], b"PROXY more"].concat());
            assert_eq!(read, Ok(Some((header.len(), learnt))), "{header:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused_as_soon_as_that_is_seen() {
        let long = [&b"PROXY TCP4 "[..], &[b'1'; 96]].concat();
        let faults: [(&[u8], &str); 12] = [
            (b"\x10", "no PROXY header"),
            (b"PROXYTCP4", "no PROXY header"),
            (b"\r\n\r\n\0\r\nQUIT\r", "no PROXY header"),
            (&long, TOO_LONG),
            (&binary(PROXY, 0x11, &[0; 4081])[..16], TOO_LONG),
            (b"PROXY TCP4 2001:db8:: ::1 1 1\r\n", MALFORMED),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n", MALFORMED),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1 \r\n", MALFORMED),
            (b"PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n", MALFORMED),
            (&binary(0x22, 0x11, &V4), MALFORMED),
            (&binary(PROXY, 0x11, &V4[..11]), MALFORMED),
            (&binary(PROXY, 0x11, &[&V4[..], &[4, 0, 2, 0]].concat()), MALFORMED),
        ];
        for (bytes, fault) in faults {
            assert_eq!(read(bytes), Err(fault), "{bytes:?}");
        }
    }

    #[test]
    fn a_name_counts_if_the_proxy_has_verified_the_certificate() {
        let verified = [1 | 2, 0, 0, 0, 0];
        for (tls, cn, name) in [
            (verified, &b"ann"[..], Some("ann")),
            ([1 | 4, 0, 0, 0, 0], b"ann", Some("ann")),
            ([1, 0, 0, 0, 0], b"ann", None),
            ([2, 0, 0, 0, 0], b"ann", None),
            ([1 | 2, 0, 0, 0, 1], b"ann", None),
            (verified, b"", None),
            (verified, b"a\nb", None),
            (verified, b"\xFF", None),
        ] {
            let inner = [value(0x21, b"TLSv1.3"), value(TLS_COMMON_NAME, cn)].concat();
            let tls = value(TLS, &[&tls[..], &inner].concat());
            let header = binary(PROXY, 0x11, &[&V4[..], &tls].concat());
            let (_, learnt) = read(&header).unwrap().unwrap();
            assert_eq!(learnt, Learnt { name: name.map(Into::into), ..peer("192.0.2.1:80") });
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_no_header_is_longer_than_the_bound(
            command in 0x20..0x23u8,
            family in proptest::sample::select(vec![0x11, 0x21, 0x00, 0x31, 0x99]),
            rest in proptest::collection::vec(0..0x24u8, 0..300),
            cut in 0..400usize,
        ) {
            let mut bytes = binary(command, family, &rest);
            bytes.truncate(cut);
            if let Ok(Some((length, _))) = read(&bytes) {
                prop_assert!(length <= HEADER_BYTES_MAX && length <= bytes.len());
            }
        }
    }
}
