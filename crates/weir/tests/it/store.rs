//! `weir broker --store`: what was acknowledged is there again after SIGKILL.
//!
//! `WEIR_KILLS` and `WEIR_SEED` change how often and when the last test kills.

use crate::support::Broker;
use crate::support::blocking::{Blocking, decode};
use crate::support::command::text;
use crate::support::connect::lasting;
use crate::support::mqtt;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use weir_wire::packet::{Ack, Connect, Publish};
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode, Version};

pub(crate) const V5: Version = Version::V5;

pub(crate) fn start(store: &Path, shards: u16) -> Broker {
    let config = store.with_extension("toml");
    // Small files, so that there are several.
    let text = format!("shards = {shards}\n[store]\nsegment_bytes = 2097152\n");
    std::fs::write(&config, text).unwrap();
    Broker::start_with(&["-c", config.to_str().unwrap(), "--store", store.to_str().unwrap()])
}

/// A client whose session stays; says whether there was one.
fn try_join(address: &str, client_id: &str) -> Option<(Blocking, bool)> {
    let mut of = Blocking::connect(address, V5).ok()?;
    let properties = lasting();
    let properties = properties.as_properties();
    let connect = Connect { clean_start: false, properties, ..Connect::new(V5, client_id) };
    of.send(&Packet::Connect(connect)).ok()?;
    let is_present = of.packet(|packet| match packet {
        Packet::ConnAck(connack) => {
            assert_eq!(connack.reason, ReasonCode::Success);
            connack.session_present
        }
        other => panic!("no CONNACK: {other:?}"),
    })?;
    Some((of, is_present))
}

pub(crate) fn join(address: &str, client_id: &str) -> (Blocking, bool) {
    try_join(address, client_id).expect("the broker is there")
}

pub(crate) fn publish(
    of: &mut Blocking,
    topic: &str,
    payload: &str,
    packet_id: u16,
) -> std::io::Result<()> {
    of.send(&Packet::Publish(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic,
        packet_id: PacketId::new(packet_id),
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    }))
}

/// The next message, acknowledged; nothing at the end of the connection.
pub(crate) fn take(of: &mut Blocking) -> Option<String> {
    let bytes = of.next()?;
    let message = mqtt::message(V5, &bytes).unwrap_or_else(|| panic!("no PUBLISH: {bytes:?}"));
    let ack = Packet::PubAck(Ack::success(PacketId::new(message.packet_id).unwrap()));
    // If the connection is over, the next read says so.
    let _ = of.send(&ack);
    Some(message.payload)
}

pub(crate) fn is_acknowledged(of: &mut Blocking) -> bool {
    of.next().is_some_and(|bytes| matches!(decode(V5, &bytes), Packet::PubAck(_)))
}

#[test]
fn what_was_acknowledged_outlives_a_kill_with_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut sent = Vec::new();
    let names: Vec<String> = (0..6).map(|number| format!("away-{number}")).collect();
    // 1 to 4 to 2 threads: the sessions find their places.
    for (round, shards) in [1, 4, 2, 1].into_iter().enumerate() {
        let mut broker = start(&store, shards);
        for name in &names {
            let (mut of, is_present) = join(&broker.address, name);
            assert_eq!(is_present, round > 0, "{name} with {shards} threads");
            if !is_present {
                assert_eq!(of.subscribe("t/#", QoS::AtLeastOnce), Some(1));
            }
            let came: Vec<String> = sent.iter().map(|_| take(&mut of).unwrap()).collect();
            assert_eq!(came, sent, "{name} with {shards} threads");
            // Its acknowledgements have been read once the broker answers.
            of.send(&Packet::PingReq).unwrap();
            of.next().unwrap();
        }
        sent.clear();
        let (mut publisher, _) = join(&broker.address, "publisher");
        for number in 0..200 {
            let payload = format!("{round}-{number}");
            publish(&mut publisher, "t/a", &payload, number + 1).unwrap();
            sent.push(payload);
        }
        for _ in 0..200 {
            assert!(is_acknowledged(&mut publisher));
        }
        // SIGKILL.
        broker.child.kill().unwrap();
    }
}

#[test]
fn a_store_that_cannot_be_used_is_an_error_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let broker = start(&store, 1);
    // It has the folder once it serves.
    join(&broker.address, "somebody");
    let run = || {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["broker", "--listen", "127.0.0.1:0", "--store", store.to_str().unwrap()])
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run();
    assert!(code == Some(2) && said.contains("in use by another process"), "{code:?} {said}");
    drop(broker);

    // A byte of what is on the disk is another one.
    let log = folder.path().join("store/generation-1/0/0000000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    // The first record is behind the headers.
    bytes[4_096 + 20] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let (code, said) = run();
    assert!(code == Some(2) && said.contains("is damaged at byte 4096"), "{code:?} {said}");
}

#[test]
fn a_log_is_written_anew_before_it_has_grown_over_several_times_what_is_alive() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut broker = start(&store, 1);
    let subscribe = |client_id: &str, topic: &str| {
        let (mut of, is_present) = join(&broker.address, client_id);
        assert!(!is_present);
        assert_eq!(of.subscribe(topic, QoS::AtLeastOnce), Some(1));
        of
    };
    // Somebody who is away has messages from the beginning.
    drop(subscribe("away", "old"));
    let mut reader = subscribe("reader", "new");
    let (mut publisher, _) = join(&broker.address, "publisher");
    for number in 0..10 {
        publish(&mut publisher, "old", &format!("old {number}"), number + 1).unwrap();
        assert!(is_acknowledged(&mut publisher));
    }
    let payload = "x".repeat(64 << 10);
    let megabytes = 60;
    for number in 0..megabytes * 16 {
        publish(&mut publisher, "new", &payload, number % 60_000 + 1).unwrap();
        assert!(is_acknowledged(&mut publisher));
        assert_eq!(take(&mut reader).as_deref(), Some(&*payload));
    }
    // A file goes when its copy is on the disk, which may take a moment.
    let bytes = || -> u64 {
        let files = std::fs::read_dir(store.join("generation-1/0")).unwrap();
        files.map(|file| file.unwrap().metadata().map_or(0, |of| of.len())).sum()
    };
    for _ in 0..20_000 {
        if bytes() <= 20 << 20 {
            break;
        }
        publish(&mut publisher, "new", "x", 1).unwrap();
        assert!(is_acknowledged(&mut publisher));
        assert!(take(&mut reader).is_some());
    }
    assert!(bytes() <= 20 << 20, "{} bytes are on the disk", bytes());
    broker.child.kill().unwrap();

    let broker = start(&store, 1);
    let (mut of, is_present) = join(&broker.address, "away");
    assert!(is_present);
    for number in 0..10 {
        assert_eq!(take(&mut of), Some(format!("old {number}")));
    }
}

/// The reason code of the next packet, which must be a PUBACK; nothing if the connection ends.
pub(crate) fn reason(of: &mut Blocking) -> Option<ReasonCode> {
    let bytes = of.next()?;
    match decode(V5, &bytes) {
        Packet::PubAck(ack) => Some(ack.reason),
        other => panic!("no PUBACK: {other:?}"),
    }
}

#[test]
fn a_full_disk_refuses_what_would_have_to_be_kept_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    let store = folder.path().join("store");
    let text = format!(
        "shards = 1\n[store]\npath = {store:?}\nsegment_bytes = 1048576\n\
         disk_bytes_max = 25165824\n[limits]\nqueue_messages_max = 1000000\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut broker = Broker::start_with(&["-c", config.to_str().unwrap()]);
    let (mut of, _) = join(&broker.address, "away");
    assert_eq!(of.subscribe("t", QoS::AtLeastOnce), Some(1));
    drop(of);
    let (mut publisher, _) = join(&broker.address, "publisher");
    let mut kept = Vec::new();
    let long = "x".repeat(60 << 10);
    let refused = (0..1_000).find(|number| {
        publish(&mut publisher, "t", &format!("{number} {long}"), 1).unwrap();
        match reason(&mut publisher) {
            Some(ReasonCode::Success) => kept.push(*number),
            Some(ReasonCode::QuotaExceeded) => return true,
            other => panic!("{other:?}"),
        }
        false
    });
    assert!(refused.is_some(), "all were taken");
    assert!(kept.len() > 50, "{} were kept", kept.len());
    // Nothing that was acknowledged is lost by it, over a restart either.
    broker.child.kill().unwrap();
    drop(broker);
    let broker = Broker::start_with(&["-c", config.to_str().unwrap()]);
    let (mut of, is_present) = join(&broker.address, "away");
    assert!(is_present);
    for number in &kept {
        let payload = take(&mut of).unwrap();
        assert!(payload.starts_with(&format!("{number} ")), "{}", &payload[..10]);
    }
    // What was taken makes room.
    let (mut publisher, _) = join(&broker.address, "publisher");
    let mut is_taken = || {
        publish(&mut publisher, "t", "again", 1).unwrap();
        reason(&mut publisher) == Some(ReasonCode::Success)
    };
    assert!((0..100_000).any(|_| is_taken()), "it does not heal");
    while take(&mut of).is_some_and(|payload| payload != "again") {}
}

#[test]
fn a_disk_that_fails_ends_the_broker_without_an_acknowledgement() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    // No file may grow, or be written, behind its beginning from when the limit is set.
    let command = format!(
        "trap '' XFSZ; exec {} broker --listen 127.0.0.1:0 --store {}",
        env!("CARGO_BIN_EXE_weir"),
        store.display()
    );
    let mut broker = Broker::by(Command::new("sh").args(["-c", &command])).unwrap();
    let (mut of, _) = join(&broker.address, "a");
    assert_eq!(of.subscribe("t", QoS::AtLeastOnce), Some(1));
    let pid = rustix::process::Pid::from_child(&broker.child);
    let limit = rustix::process::Rlimit { current: Some(4_096), maximum: Some(4_096) };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit).unwrap();
    publish(&mut of, "t", "lost", 1).unwrap();
    while let Some(bytes) = of.next() {
        let packet = decode(V5, &bytes);
        assert!(!matches!(packet, Packet::PubAck(_)), "it was acknowledged");
    }
    assert_eq!(broker.child.wait().unwrap().code(), Some(4));
}

const PUBLISHERS: usize = 4;
const SUBSCRIBERS: usize = 3;

/// What a publisher sends when it is done.
const END: u64 = u64::MAX;

/// Who published, and which of its messages.
type Number = (usize, u64);

/// Clients under load while the broker is killed again and again: each publisher knows what was
/// acknowledged, each subscriber what came.
#[test]
fn nothing_acknowledged_is_lost_by_kills_under_load() {
    let variable = |name: &str, default: usize| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap())
    };
    let (kills, seed) = (variable("WEIR_KILLS", 4), variable("WEIR_SEED", 7));
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut chance = weir_chance::Chance::new(seed as u64);
    let acknowledged: Mutex<Vec<Number>> = Mutex::default();
    let mut came: Vec<Vec<Number>> = vec![Vec::new(); SUBSCRIBERS];
    let mut next = [0; PUBLISHERS];
    for round in 0..=kills {
        let shards = [1, 2, 4][round % 3];
        let mut broker = start(&store, shards);
        let address = broker.address.clone();
        let is_last = round == kills;
        // They subscribe before anybody publishes.
        let subscribers: Vec<Blocking> = (0..SUBSCRIBERS)
            .map(|number| {
                let (mut of, is_present) = join(&address, &format!("s{number}"));
                assert_eq!(is_present, round > 0, "round {round}, {shards} threads");
                if !is_present {
                    assert_eq!(of.subscribe("t/+", QoS::AtLeastOnce), Some(1));
                }
                of
            })
            .collect();
        let goal = acknowledged.lock().unwrap().len() + 200 + chance.below(5_000);
        std::thread::scope(|scope| {
            for (of, came) in subscribers.into_iter().zip(&mut came) {
                scope.spawn(move || collect(of, came));
            }
            let loading: Vec<_> = next
                .iter_mut()
                .enumerate()
                .map(|(who, next)| {
                    let (address, acknowledged) = (&address, &acknowledged);
                    scope.spawn(move || {
                        let is_enough = || acknowledged.lock().unwrap().len() >= goal;
                        let note = |number| acknowledged.lock().unwrap().push((who, number));
                        load(address, who, next, note, is_enough, is_last);
                    })
                })
                .collect();
            if is_last {
                loading.into_iter().for_each(|thread| thread.join().unwrap());
            } else {
                // The first that has seen enough has it killed, while the others go on.
                while !loading.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    std::thread::yield_now();
                }
                broker.child.kill().unwrap();
            }
        });
    }
    let acknowledged = acknowledged.into_inner().unwrap();
    for came in came {
        let all: BTreeSet<_> = came.iter().copied().collect();
        let lost: Vec<_> = acknowledged.iter().filter(|it| !all.contains(it)).take(10).collect();
        assert!(lost.is_empty(), "of {} acknowledged, lost: {lost:?}", acknowledged.len());
        // Of each publisher, the first time of each came in its order.
        let mut seen = BTreeSet::new();
        let mut last = [None; PUBLISHERS];
        for (who, number) in came.into_iter().filter(|&number| seen.insert(number)) {
            assert!(last[who] < Some(number), "{number} behind {:?}", last[who]);
            last[who] = Some(number);
        }
    }
    println!("{} acknowledged by {kills} kills", acknowledged.len());
}

/// Takes messages until the connection ends, or each publisher is done.
fn collect(mut of: Blocking, came: &mut Vec<Number>) {
    let mut ends = 0;
    while let Some(payload) = take(&mut of) {
        let (who, number) = payload.split_once(' ').unwrap();
        let number = (who.parse().unwrap(), number.parse().unwrap());
        came.push(number);
        ends += usize::from(number.1 == END);
        if ends == PUBLISHERS {
            return;
        }
    }
}

/// Publishes with up to 100 messages on their way, until that is enough or the connection ends.
fn load(
    address: &str,
    who: usize,
    next: &mut u64,
    mut note: impl FnMut(u64),
    is_enough: impl Fn() -> bool,
    says_end: bool,
) {
    const WINDOW: usize = 100;
    let Some((mut of, _)) = try_join(address, &format!("p{who}")) else { return };
    let topic = format!("t/{who}");
    let mut open = VecDeque::new();
    let mut packet_id = 0;
    let mut send = |of: &mut Blocking, number: u64| {
        packet_id = packet_id % 60_000 + 1;
        publish(of, &topic, &format!("{who} {number}"), packet_id).is_ok()
    };
    while !is_enough() {
        while open.len() < WINDOW {
            if !send(&mut of, *next) {
                return;
            }
            open.push_back(*next);
            *next += 1;
        }
        if !is_acknowledged(&mut of) {
            return;
        }
        open.pop_front().into_iter().for_each(&mut note);
    }
    if says_end {
        assert!(send(&mut of, END));
        open.push_back(END);
        while let Some(number) = open.pop_front() {
            assert!(is_acknowledged(&mut of));
            note(number);
        }
    }
}
