//! What one short record costs each record layer of TLS 1.3, sealed and opened:
//!
//!     cargo run --release -p weir-transport --example records

#[path = "../tests/it/tls/support.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "it is a part of tests")]
mod support;

use std::time::Instant;
use support::{COMPACT, Cuts, End, Kind, TLS13, exchange, pair};

/// A PUBLISH of a sensor, with its topic.
const PLAIN: [u8; 36] = [7; 36];

const RECORDS: u32 = 200_000;

#[expect(clippy::disallowed_methods, reason = "it measures")]
/// Nanoseconds of a record sealed and of one opened, the least of some rounds.
fn costs(kind: Kind) -> (u128, u128) {
    let (mut sealed_ns, mut opened_ns) = (u128::MAX, u128::MAX);
    for _ in 0..5 {
        let (_, _, server, client) = pair(kind);
        let mut client = End::new(client.layer("localhost").expect("a name"));
        let mut server = End::new(server.layer());
        exchange(&mut client, &mut server, &mut Cuts::every(10_000)).expect("a handshake");
        let start = Instant::now();
        for _ in 0..RECORDS {
            server.network.clear();
            server.says(&PLAIN);
        }
        sealed_ns = sealed_ns.min(start.elapsed().as_nanos() / u128::from(RECORDS));
        let mut records = Vec::new();
        for _ in 0..RECORDS {
            client.says(&PLAIN);
            records.push(std::mem::take(&mut client.network));
        }
        let start = Instant::now();
        for record in &records {
            server.plain.clear();
            server.hears(record).expect("a record");
        }
        opened_ns = opened_ns.min(start.elapsed().as_nanos() / u128::from(RECORDS));
    }
    (sealed_ns, opened_ns)
}

fn main() {
    for (name, kind) in [("rustls", TLS13), ("compact", COMPACT)] {
        let (sealed, opened) = costs(kind);
        println!("{name:8} 36 bytes: sealed {sealed} ns, opened {opened} ns");
    }
}
