//! Queues on the disk: far more waits for an absent session than stays in memory.

use crate::store::{V5, is_acknowledged, join, publish, start, take};
use crate::support::Broker;
use crate::support::blocking::{Blocking, decode};
use std::path::Path;
use weir_wire::packet::{SubscribeBuf, SubscriptionOptions};
use weir_wire::{Packet, PacketId, Properties, QoS};

/// As many as may be on their way, in whole windows.
const WINDOW: usize = 500;

/// Publishes these numbers with 100 bytes each, all acknowledged.
fn fill(broker: &Broker, numbers: std::ops::Range<usize>) {
    let (mut of, _) = join(&broker.address, "publisher");
    let numbers: Vec<usize> = numbers.collect();
    for window in numbers.chunks(WINDOW) {
        for number in window {
            let payload = format!("{number:0100}");
            publish(&mut of, "t/a", &payload, (number % WINDOW) as u16 + 1).unwrap();
        }
        for _ in window {
            assert!(is_acknowledged(&mut of));
        }
    }
}

/// The next number that comes.
fn next(of: &mut Blocking) -> usize {
    take(of).unwrap().parse().unwrap()
}

/// What was sent is on the disk: a SUBACK waits for all that was logged before it.
fn is_kept(of: &mut Blocking) {
    let mut filters = SubscribeBuf::new();
    filters.push("nothing", SubscriptionOptions::default());
    let subscribe = filters.subscribe(V5, PacketId::FIRST, Properties::EMPTY);
    of.send(&Packet::Subscribe(subscribe)).unwrap();
    while !matches!(decode(V5, &of.next().unwrap()), Packet::SubAck(_)) {}
}

fn page_bytes(store: &Path) -> u64 {
    let files = std::fs::read_dir(store.join("pages")).unwrap();
    let logs = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "log"));
    logs.map(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0) as u64
    })
    .sum()
}

#[test]
fn a_long_queue_outlives_kills_on_pages_with_any_number_of_threads() {
    const MESSAGES: usize = 30_000;
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut broker = start(&store, 2);
    let (mut of, is_present) = join(&broker.address, "away");
    assert!(!is_present);
    assert_eq!(of.subscribe("t/#", QoS::AtLeastOnce), Some(1));
    drop(of);
    fill(&broker, 0..MESSAGES / 2);
    broker.child.kill().unwrap();
    drop(broker);

    let mut broker = start(&store, 3);
    fill(&broker, MESSAGES / 2..MESSAGES);
    // A message takes 100 bytes of payload; what is in memory is a small part.
    let bytes = page_bytes(&store);
    assert!(bytes > MESSAGES as u64 * 95, "{bytes} bytes on pages");
    broker.child.kill().unwrap();
    drop(broker);

    let mut broker = start(&store, 1);
    let (mut of, is_present) = join(&broker.address, "away");
    assert!(is_present);
    for number in 0..10_000 {
        assert_eq!(next(&mut of), number);
    }
    is_kept(&mut of);
    broker.child.kill().unwrap();
    drop(broker);

    let broker = start(&store, 4);
    let (mut of, is_present) = join(&broker.address, "away");
    assert!(is_present);
    // What was in flight when it was killed comes again, and nothing that was acknowledged.
    for number in 10_000..MESSAGES {
        assert_eq!(next(&mut of), number);
    }
    fill(&broker, MESSAGES..MESSAGES + 10);
    for number in MESSAGES..MESSAGES + 10 {
        assert_eq!(next(&mut of), number);
    }
}

#[test]
fn a_page_that_is_gone_is_an_error_that_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut broker = start(&store, 1);
    let (mut of, _) = join(&broker.address, "away");
    assert_eq!(of.subscribe("t/#", QoS::AtLeastOnce), Some(1));
    drop(of);
    fill(&broker, 0..5_000);
    broker.child.kill().unwrap();
    drop(broker);
    std::fs::remove_dir_all(store.join("pages")).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["broker", "--listen", "127.0.0.1:0", "--store", store.to_str().unwrap()])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = crate::support::command::text(&output.stderr);
    let is_said = said.contains("/pages: page 1.") && said.contains("it is not there");
    assert!(output.status.code() == Some(2) && is_said, "{said}");
}
