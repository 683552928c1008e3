//! Bytes and packets of the host's interfaces, as this process's network has them.

/// Counters since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Over loopback; what is sent there is received there.
    pub loopback_bytes: u64,
    /// The same in packets as the kernel counts them: one may be a segment of many KiB.
    pub loopback_packets: u64,
    /// Received over all other interfaces.
    pub received_bytes: u64,
    /// The same in packets.
    pub received_packets: u64,
    /// Sent over all other interfaces.
    pub sent_bytes: u64,
    /// The same in packets.
    pub sent_packets: u64,
}

pub(super) fn read() -> Option<Network> {
    parse(&crate::host::Files::here().read("proc/net/dev")?)
}

/// Two lines of names, then a line an interface: received bytes and packets first, sent ones at 8
/// and 9.
fn parse(text: &str) -> Option<Network> {
    let mut all = Network::default();
    for line in text.lines().skip(2) {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> =
            counts.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let [bytes_in, packets_in, _, _, _, _, _, _, bytes_out, packets_out, ..] = *counts else {
            return None;
        };
        if name.trim() == "lo" {
            (all.loopback_bytes, all.loopback_packets) = (bytes_in, packets_in);
        } else {
            all.received_bytes += bytes_in;
            all.received_packets += packets_in;
            all.sent_bytes += bytes_out;
            all.sent_packets += packets_out;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn interfaces_are_added_and_loopback_is_apart() {
        let text = "Inter-| Receive\n face |bytes\n    lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0\n\
                    eth0:1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n\
                    eth1: 1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n";
        let expected = Network {
            loopback_bytes: 100,
            loopback_packets: 2,
            received_bytes: 1001,
            received_packets: 11,
            sent_bytes: 2002,
            sent_packets: 22,
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("a\nb\nlo: 1 2"), None);
    }

    #[test]
    fn what_goes_over_loopback_is_counted() {
        let Some(before) = read() else { return };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sender.write_all(&[7; 10_000]).unwrap();
        listener.accept().unwrap().0.read_exact(&mut [0; 10_000]).unwrap();
        let after = read().unwrap();
        assert!(after.loopback_bytes >= before.loopback_bytes + 10_000);
        assert!(after.loopback_packets > before.loopback_packets);
    }
}
