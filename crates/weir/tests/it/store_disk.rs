//! How much disk a store takes, and what becomes of a broker whose disk is full.
//!
//! `WEIR_TRAFFIC_BYTES` and `WEIR_FULL_S` change how much traffic there is, and for how long the
//! disk is full.

use crate::store::{V5, join, publish, reason, take};
use crate::support::Broker;
use crate::support::blocking::{Blocking, decode};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_wire::packet::{Connect, Publish};
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn start(store: &Path, shards: u16, segment_bytes: u64) -> Broker {
    let config = store.with_extension("toml");
    std::fs::write(
        &config,
        format!("shards = {shards}\n[store]\nsegment_bytes = {segment_bytes}\n"),
    )
    .unwrap();
    Broker::start_with(&["-c", config.to_str().unwrap(), "--store", store.to_str().unwrap()])
}

/// What the files below a folder take. One may go while they are counted.
fn disk_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes_of = |path: PathBuf| match std::fs::metadata(&path) {
        Ok(it) if it.is_dir() => disk_bytes(&path),
        it => it.map_or(0, |it| it.len()),
    };
    entries.flatten().map(|entry| bytes_of(entry.path())).sum()
}

/// What a broker says of a message.
fn answer(of: &mut Blocking) -> ReasonCode {
    reason(of).unwrap()
}

/// Publishes a message, and says what the broker says of it.
fn is_taken(of: &mut Blocking, topic: &str, payload: &str) -> bool {
    publish(of, topic, payload, 1).unwrap();
    match answer(of) {
        ReasonCode::Success => true,
        ReasonCode::QuotaExceeded => false,
        other => panic!("{other:?}"),
    }
}

/// Messages of the traffic that are on their way.
const WINDOW: u64 = 20;
const PAYLOAD_BYTES: usize = 4 << 10;

/// Publishes so much to a session that takes it all.
fn run_traffic(broker: &Broker, bytes: u64) {
    let messages = (bytes / PAYLOAD_BYTES as u64).next_multiple_of(WINDOW);
    let (mut reader, _) = join(&broker.address, "reader");
    assert_eq!(reader.subscribe("traffic", QoS::AtLeastOnce), Some(1));
    let (mut publisher, _) = join(&broker.address, "publisher");
    let payload = "x".repeat(PAYLOAD_BYTES);
    std::thread::scope(|threads| {
        threads.spawn(move || (0..messages).for_each(|_| assert!(take(&mut reader).is_some())));
        for _ in 0..messages / WINDOW {
            for id in 1..=WINDOW {
                publish(&mut publisher, "traffic", &payload, id as u16).unwrap();
            }
            (0..WINDOW).for_each(|_| assert_eq!(answer(&mut publisher), ReasonCode::Success));
        }
    });
}

/// The most that a folder has at any time while something is done.
fn most_meanwhile(folder: &Path, work: impl FnOnce()) -> u64 {
    let (is_done, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                most.fetch_max(disk_bytes(folder), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        work();
        is_done.store(true, Ordering::Relaxed);
    });
    most.into_inner()
}

#[test]
fn old_messages_do_not_keep_what_came_after_them() {
    const SESSIONS: usize = 10;
    let traffic_bytes = from_environment("WEIR_TRAFFIC_BYTES", 80 << 20);
    // By hand, files of the size that a broker has.
    let segment_bytes: u64 = if traffic_bytes > 1 << 30 { 64 << 20 } else { 8 << 20 };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut broker = start(&store, 1, segment_bytes);
    let (mut publisher, _) = join(&broker.address, "publisher");
    for number in 0..SESSIONS {
        let (mut of, _) = join(&broker.address, &format!("away-{number}"));
        assert_eq!(of.subscribe(&format!("old/{number}"), QoS::AtLeastOnce), Some(1));
        drop(of);
        assert!(is_taken(&mut publisher, &format!("old/{number}"), &format!("{number:0100}")));
    }
    drop(publisher);
    let most = most_meanwhile(&store, || run_traffic(&broker, traffic_bytes));
    // Pages, which nobody has here, have files of their own: two, of 16 MiB at most.
    let pages = 2 * segment_bytes.min(16 << 20);
    let files = (most - pages) as f64 / segment_bytes as f64;
    assert!(files <= 4.01, "{most} bytes on the disk, {files} files of the log");
    if segment_bytes == 64 << 20 {
        let live = (SESSIONS * 200) as u64;
        assert!(most <= 4 * segment_bytes + live * 3 / 2, "{most} bytes on the disk");
    }
    broker.child.kill().unwrap();
    drop(broker);
    let broker = start(&store, 1, segment_bytes);
    for number in 0..SESSIONS {
        let (mut of, is_present) = join(&broker.address, &format!("away-{number}"));
        assert!(is_present);
        assert_eq!(take(&mut of), Some(format!("{number:0100}")));
    }
}

/// A file system of its own, of so many bytes, which goes with the value.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// Nothing where this is not permitted.
    fn new(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (image, to) = (folder.path().join("image"), folder.path().join("disk"));
        std::fs::create_dir(&to).unwrap();
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let is_done =
            |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        let is_mounted = is_done(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && is_done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&to));
        if !is_mounted {
            eprintln!("skipped: it takes root and a loop device to mount a small file system");
        }
        is_mounted.then_some(Self(folder))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("disk")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

/// A file that takes all that a file system has left.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    while file.write_all(&[1; 64 << 10]).is_ok() {}
    let _ = file.sync_all();
}

/// A client with a clean session, for which nothing is kept.
fn visit(address: &str, client_id: &str) -> Blocking {
    let mut of = Blocking::connect(address, V5).unwrap();
    of.send(&Packet::Connect(Connect::new(V5, client_id))).unwrap();
    assert!(matches!(decode(V5, &of.next().unwrap()), Packet::ConnAck(_)));
    of
}

#[test]
fn a_full_disk_refuses_what_is_to_be_kept_and_loses_nothing() {
    // As root, where there are loop devices.
    let Some(disk) = Mounted::new(96 << 20) else { return };
    let full = Duration::from_secs(from_environment("WEIR_FULL_S", 2));
    let (store, filler) = (disk.path().join("store"), disk.path().join("filler"));
    let mut broker = start(&store, 1, 2 << 20);
    let (mut away, _) = join(&broker.address, "away");
    assert_eq!(away.subscribe("kept", QoS::AtLeastOnce), Some(1));
    drop(away);
    let (mut publisher, mut reader) =
        (visit(&broker.address, "publisher"), visit(&broker.address, "reader"));
    assert_eq!(reader.subscribe("passing", QoS::AtLeastOnce), Some(1));
    let (mut taken, mut refused) = (Vec::new(), 0_u64);
    let mut try_one = |refused: &mut u64, taken: &mut Vec<u64>| {
        let number = taken.len() as u64 + *refused;
        let is_kept = is_taken(&mut publisher, "kept", &format!("{number:01000}"));
        if is_kept {
            taken.push(number);
        } else {
            *refused += 1;
        }
        // What nobody has to keep goes on.
        assert!(is_taken(&mut publisher, "passing", &number.to_string()));
        assert_eq!(take(&mut reader), Some(number.to_string()));
        is_kept
    };
    assert!(try_one(&mut refused, &mut taken));
    fill(&filler);
    while try_one(&mut refused, &mut taken) {}
    let until = Instant::now() + full;
    while Instant::now() < until {
        try_one(&mut refused, &mut taken);
    }
    std::fs::remove_file(&filler).unwrap();
    let (refused_when_full, freed) = (refused, Instant::now());
    while !try_one(&mut refused, &mut taken) {
        assert!(freed.elapsed() < Duration::from_secs(20), "it refuses still");
    }
    (0..100).for_each(|_| assert!(try_one(&mut refused, &mut taken)));
    assert!(refused_when_full > 0);
    // The acknowledged are there, after a kill too, and nothing else is.
    broker.child.kill().unwrap();
    drop(broker);
    let broker = start(&store, 1, 2 << 20);
    let (mut away, is_present) = join(&broker.address, "away");
    assert!(is_present);
    for number in taken {
        assert_eq!(take(&mut away), Some(format!("{number:01000}")));
    }
    drop((away, broker));
}

#[test]
fn a_broker_that_has_filled_its_disk_can_be_started_again() {
    let Some(disk) = Mounted::new(48 << 20) else { return };
    let store = disk.path().join("store");
    let run = || start(&store, 2, 1 << 20);
    let mut broker = run();
    let (mut publisher, _) = join(&broker.address, "publisher");
    let long = "x".repeat(60 << 10);
    let send = |publisher: &mut Blocking, number: u32| {
        let payload = format!("{number} {long}");
        let retained = Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: &format!("t/{number}"),
            packet_id: PacketId::new(1),
            properties: Properties::EMPTY,
            payload: payload.as_bytes(),
        });
        publisher.send(&retained).unwrap();
        answer(publisher)
    };
    let full = (0..10_000).find(|&number| match send(&mut publisher, number) {
        ReasonCode::Success | ReasonCode::NoMatchingSubscribers => false,
        ReasonCode::QuotaExceeded => true,
        other => panic!("{other:?}"),
    });
    let kept = full.expect("all were taken");
    assert!(kept > 50, "{kept} were kept");
    for _ in 0..3 {
        broker.child.kill().unwrap();
        drop(broker);
        broker = run();
    }
    let (mut of, _) = join(&broker.address, "reader");
    assert_eq!(of.subscribe("t/#", QoS::AtLeastOnce), Some(1));
    let came: std::collections::BTreeSet<_> = (0..kept)
        .map(|_| take(&mut of).unwrap().split(' ').next().unwrap().parse::<u32>().unwrap())
        .collect();
    assert_eq!(came.len(), kept as usize, "of those that were acknowledged");
    drop((of, broker));
}
