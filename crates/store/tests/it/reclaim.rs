//! The disk does not fill up with what nobody wants.

use crate::drive::{Drive, open, small};
use std::collections::BTreeSet;
use weir_store::disk::{Crash, FakeDisk, Faults};
use weir_store::{Body, Log, Lsn, NotAppended, OnDamage, Settings};

const SEGMENT_BYTES: u64 = 16 << 10;

#[test]
fn segments_that_nobody_needs_are_used_again() {
    let mut drive = Drive::empty();
    for _ in 0..3_000 {
        let lsn = drive.append(&[1; 200], 1);
        drive.settle(|_| true);
        drive.log.release(lsn);
    }
    drive.settle(|_| false);
    assert!(drive.log.disk_bytes() <= 4 * SEGMENT_BYTES, "{} bytes", drive.log.disk_bytes());
    let newest = drive.segments().last().copied().expect("one is written");
    assert!(newest.0 > 40, "only {newest} segments were filled");
}

#[test]
fn old_messages_among_much_traffic_do_not_hold_their_segments() {
    let settings = Settings { segment_bytes: 64 << 10, ..small() };
    let segment_bytes = u64::from(settings.segment_bytes);
    let (mut drive, ..) = open(FakeDisk::new(1), settings).expect("the disk is empty");
    let mut kept = BTreeSet::new();
    for count in 0..5_000 {
        let lsn = drive.append(&[1; 200], 1);
        if count % 500 == 0 {
            kept.insert(lsn);
        }
        drive.settle(|lsn| kept.contains(&lsn));
        if !kept.contains(&lsn) {
            drive.log.release(lsn);
        }
    }
    drive.settle(|lsn| kept.contains(&lsn));
    let live = kept.len() as u64 * 228;
    let bytes_max = live * 3 / 2 + 4 * segment_bytes;
    assert!(drive.log.disk_bytes() <= bytes_max, "{} bytes", drive.log.disk_bytes());
    drive.disk.crash(Crash::Power);
    let (_, told, _) = open(drive.disk, small()).expect("nothing is wrong");
    let told: BTreeSet<_> = told.into_iter().map(|(lsn, ..)| lsn).collect();
    assert!(told.is_superset(&kept));
}

#[test]
fn gaps_between_commits_are_no_damage_wherever_a_slice_ends() {
    let settings = Settings { segment_bytes: 4 << 20, commit_align: 4096, ..small() };
    let (mut drive, ..) = open(FakeDisk::new(1), settings).expect("the disk is empty");
    let mut kept = BTreeSet::new();
    for _ in 0..400 {
        // Nine records end 3,036 bytes before the next commit.
        for count in 0..9 {
            let lsn = drive.append(&[1; 1_000], 1);
            if count == 0 && kept.len() < 20 {
                kept.insert(lsn);
            } else {
                drive.log.release(lsn);
            }
        }
        drive.settle(|lsn| kept.contains(&lsn));
    }
    assert!(drive.log.rewritten_bytes() > 0);
    let mut told = BTreeSet::new();
    let found = Log::scan(&mut drive.disk, 0, OnDamage::Refuse, |record| {
        told.insert(record.lsn);
    });
    assert!(found.is_ok());
    assert!(told.is_superset(&kept));
}

#[test]
fn a_record_lives_until_its_last_reference_is_gone() {
    let mut drive = Drive::empty();
    let lsn = drive.append(b"three", 3);
    drive.log.share(lsn);
    for _ in 0..200 {
        drive.append(&[0; 200], 0);
        drive.settle(|_| true);
    }
    for _ in 0..3 {
        drive.log.release(lsn);
        drive.settle(|_| true);
        assert_eq!(drive.segments()[0].0, 1);
    }
    drive.log.release(lsn);
    drive.settle(|_| false);
    assert!(drive.segments()[0].0 > 1);
}

#[test]
fn a_tombstone_stays_while_what_it_stands_for_is_there_and_no_longer() {
    let mut drive = Drive::empty();
    let old = drive.append(b"old", 1);
    let neighbour = drive.append(&[1; 9_000], 1);
    drive.append(&[0; 9_000], 0);
    drive.settle(|_| true);
    drive.log.append_tombstone(2, old, Body { head: b"old", tail: &[] }).unwrap();
    drive.log.release(old);
    drive.append(&[0; 9_000], 0);
    drive.append(&[0; 9_000], 0);
    drive.settle(|lsn| lsn == neighbour);
    assert_eq!(kinds(&mut drive), [1, 1, 1, 2, 1], "the neighbour holds the old one");
    drive.log.release(neighbour);
    drive.append(&[0; 9_000], 0);
    drive.settle(|_| false);
    assert!(!kinds(&mut drive).contains(&2));
}

fn kinds(drive: &mut Drive<FakeDisk>) -> Vec<u8> {
    let mut kinds = Vec::new();
    let tell = |record: &weir_store::Record<'_>| kinds.push(record.kind);
    Log::scan(&mut drive.disk, 0, OnDamage::Refuse, tell).expect("nothing is damaged");
    kinds
}

/// A log on a disk that has become full, and the messages in it.
fn full() -> (Drive<FakeDisk>, Vec<Lsn>) {
    let mut disk = FakeDisk::new(1);
    disk.faults = Faults { bytes_max: Some(8 * SEGMENT_BYTES), ..Faults::default() };
    let (mut drive, ..) = open(disk, small()).expect("there is room for a segment");
    let mut all = Vec::new();
    while !drive.log.is_short() {
        all.push(drive.append(&[1; 1_000], 1));
        drive.settle(|_| true);
        assert!(all.len() < 1_000, "the disk is never full");
    }
    assert_eq!(drive.log.pending_bytes(), 0);
    (drive, all)
}

#[test]
fn a_full_disk_has_room_for_what_makes_room() {
    let (mut drive, mut all) = full();
    let wanted: BTreeSet<_> = all.split_off(all.len() / 2).into_iter().collect();
    for lsn in all {
        drive.log.append_tombstone(2, lsn, Body::default()).expect("little waits");
        drive.log.release(lsn);
    }
    drive.settle(|lsn| wanted.contains(&lsn));
    assert_eq!(drive.log.pending_bytes(), 0);
    assert!(!drive.log.is_short());
    drive.disk.crash(Crash::Power);
    let (_, told, _) = open(drive.disk, small()).expect("nothing is wrong");
    let told: BTreeSet<_> = told.into_iter().map(|(lsn, ..)| lsn).collect();
    assert!(told.is_superset(&wanted));
}

#[test]
fn what_waits_for_space_is_neither_lost_nor_durable() {
    let (mut drive, _) = full();
    let mut last = Lsn::ZERO;
    while drive.log.pending_bytes() == 0 {
        last = drive.append(&[1; 1_000], 1);
        drive.settle(|_| true);
    }
    assert!(drive.log.durable() < last);
    drive.disk.faults.bytes_max = None;
    drive.settle(|_| true);
    assert!(drive.log.is_short(), "nobody has asked the disk again");
    drive.log.retry_space();
    drive.settle(|_| true);
    assert_eq!((drive.log.durable(), drive.log.is_short()), (last, false));
}

#[test]
fn the_bound_of_the_disk_is_kept() {
    let disk_bytes_max = 12 * SEGMENT_BYTES;
    let settings = Settings { disk_bytes_max, ..small() };
    let (mut drive, ..) = open(FakeDisk::new(1), settings).expect("the disk is empty");
    let mut count = 0;
    while !drive.log.is_short() {
        drive.append(&[1; 1_000], 1);
        drive.settle(|_| true);
        count += 1;
        assert!(drive.log.disk_bytes() <= disk_bytes_max, "after {count}");
    }
    // What makes room finds room still.
    for _ in 0..20 {
        drive.append(&[2; 1_000], 0);
        drive.settle(|_| true);
    }
    assert_eq!(drive.log.pending_bytes(), 0);
    assert!(drive.log.disk_bytes() <= disk_bytes_max);
}

#[test]
fn what_may_wait_is_bounded() {
    let settings = Settings { pending_bytes_max: 1_000, ..small() };
    let (mut drive, ..) = open(FakeDisk::new(1), settings).expect("the disk is empty");
    let body = Body { head: &[], tail: &[1; 500] };
    assert!(drive.log.append(1, body, 1).is_ok());
    assert_eq!(drive.log.append(1, body, 1), Err(NotAppended::Full { bytes_max: 1_000 }));
    drive.settle(|_| true);
    assert!(drive.log.append(1, body, 1).is_ok());
    let tail = vec![0; 20_000];
    let refused = drive.log.append(1, Body { head: &[], tail: &tail }, 1);
    assert!(matches!(refused, Err(NotAppended::TooLong { bytes: 20_000, .. })));
}

#[test]
fn the_longest_record_fits() {
    let mut drive = Drive::empty();
    let tail = vec![3; small().body_bytes_max()];
    for _ in 0..3 {
        drive.append(&tail, 1);
    }
    drive.settle(|_| true);
    assert_eq!(drive.log.pending_bytes(), 0);
    let mut count = 0;
    let found = Log::scan(&mut drive.disk, 0, OnDamage::Refuse, |record| {
        count += usize::from(record.body.tail == tail);
    });
    assert!(found.is_ok());
    assert_eq!(count, 3);
}

#[test]
fn references_of_earlier_starts_are_released_like_others() {
    let mut drive = Drive::empty();
    let lsn = drive.append(b"old", 1);
    drive.settle(|_| true);
    drive.disk.crash(Crash::Power);
    let (mut drive, told, _) = open(drive.disk, small()).expect("nothing is wrong");
    assert_eq!(told.len(), 1);
    assert_eq!(drive.segments().len(), 2);
    drive.log.release(lsn);
    drive.settle(|_| false);
    assert_eq!(drive.segments().len(), 1, "only the one that is written is left");
    assert_eq!(drive.log.next_lsn(), Lsn::new(2, 1));
}
