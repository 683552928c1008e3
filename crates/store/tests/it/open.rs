//! What a start finds, and what it refuses.

use crate::drive::{Drive, Told, open, small};
use weir_store::disk::{Crash, FakeDisk};
use weir_store::{
    Damage, Disk, FileName, Log, Lsn, NotOpened, OnDamage, Scan, SegmentNumber, Settings,
};

const FIRST: SegmentNumber = SegmentNumber(1);
/// Where the records of a segment begin.
const RECORDS_AT: u32 = 4096;
/// In front of the body of a record.
const FRAME_BYTES: u32 = 28;

/// A log with three commits of one record each.
fn three_commits() -> Drive<FakeDisk> {
    let mut drive = Drive::empty();
    for tail in [b"one", b"two", b"six"] {
        drive.append(tail, 1);
        drive.settle(|_| true);
    }
    drive
}

fn tails(told: &[(Lsn, u8, Vec<u8>)]) -> Vec<&[u8]> {
    told.iter().map(|(_, _, tail)| &**tail).collect()
}

fn damage(result: Result<(Drive<FakeDisk>, Told, weir_store::Found), NotOpened>) -> Damage {
    match result.err().expect("it is damaged") {
        NotOpened::Damaged(damage) => damage,
        other => panic!("{other}"),
    }
}

fn rotten(mut drive: Drive<FakeDisk>, offset: u32) -> FakeDisk {
    drive.disk.crash(Crash::Power);
    drive.disk.rot(FileName::Segment(FIRST), offset.into(), 3);
    drive.disk
}

#[test]
fn records_come_back_in_order_and_no_number_comes_again() {
    let mut disk = three_commits().disk;
    disk.crash(Crash::Power);
    let (mut drive, told, found) = open(disk, small()).expect("nothing is wrong");
    assert_eq!(tails(&told), [&b"one"[..], b"two", b"six"]);
    assert_eq!((found.segments, found.records, found.cut_bytes), (1, 3, 0));
    assert_eq!(drive.append(b"next", 1), Lsn::new(2, 1));
    assert_eq!(drive.log.durable(), Lsn::new(2, 0));
}

#[test]
fn a_commit_that_was_not_performed_is_cut() {
    let mut drive = three_commits();
    drive.append(b"lost", 1);
    drive.append(b"as well", 1);
    let commit = drive.log.take_commit().expect("two records wait");
    // Nothing but its first record gets to the disk.
    drive.disk.write_at(FileName::Segment(FIRST), place(3).into(), &commit.bytes()[..32]).unwrap();
    drive.disk.sync(FileName::Segment(FIRST)).unwrap();
    drive.disk.crash(Crash::Power);
    let (_, told, found) = open(drive.disk, small()).expect("a torn tail is no damage");
    assert_eq!(tails(&told), [&b"one"[..], b"two", b"six"]);
    assert_eq!(found.cut_bytes, u64::from(FRAME_BYTES) + 4);
}

/// Where the record of this number is, if all bodies have three bytes.
fn place(count: u32) -> u32 {
    RECORDS_AT + count * (FRAME_BYTES + 3)
}

#[test]
fn damage_with_a_later_commit_behind_it_is_refused_and_says_where() {
    for (record, byte) in [(0, 0), (0, 5), (1, 27), (1, 30)] {
        let disk = rotten(three_commits(), place(record) + byte);
        let damage = damage(open(disk, small()));
        assert_eq!(damage, Damage { segment: FIRST, offset: place(record) });
        assert_eq!(damage.to_string(), format!("segment 1 is damaged at byte {}", place(record)));
    }
}

#[test]
fn the_very_last_commit_cannot_be_told_from_a_torn_one() {
    let disk = rotten(three_commits(), place(2) + 29);
    let (_, told, _) = open(disk, small()).expect("it looks torn");
    assert_eq!(tails(&told), [&b"one"[..], b"two"]);
}

#[test]
fn an_empty_commit_behind_it_tells_it() {
    let mut drive = three_commits();
    let closing = drive.log.take_closing().expect("nothing waits");
    closing.perform(&mut drive.disk).unwrap();
    drive.log.committed(closing);
    assert!(drive.log.take_closing().is_none(), "once is enough");
    let disk = rotten(drive, place(2) + 29);
    assert_eq!(damage(open(disk, small())), Damage { segment: FIRST, offset: place(2) });
}

#[test]
fn the_last_commit_of_a_start_that_ended_is_told_too() {
    let mut disk = three_commits().disk;
    disk.crash(Crash::Power);
    let disk = rotten(open(disk, small()).expect("nothing is wrong").0, place(2) + 29);
    assert_eq!(damage(open(disk, small())), Damage { segment: FIRST, offset: place(2) });
}

#[test]
fn salvage_goes_on_without_what_is_damaged() {
    let mut disk = rotten(three_commits(), place(1) + 29);
    let mut told = Vec::new();
    let tell = |record: &weir_store::Record<'_>| told.push(record.body.tail.to_vec());
    let (log, found) = Log::open(&mut disk, small(), OnDamage::Salvage, Scan::Heads, tell)
        .expect("that is what it is for");
    assert_eq!(told, [b"one", b"six"]);
    assert_eq!(found.damages, [Damage { segment: FIRST, offset: place(1) }]);
    drop(log);
    let (_, told, found) = open(disk, small()).expect("the damage is gone");
    assert_eq!(tails(&told), [&b"one"[..], b"six"]);
    assert!(found.damages.is_empty());
}

#[test]
fn one_copy_of_a_header_is_enough_and_none_is_damage() {
    let mut disk = rotten(three_commits(), 20);
    assert!(open(disk.clone(), small()).is_ok());
    disk.rot(FileName::Segment(FIRST), 2048 + 20, 1);
    assert_eq!(damage(open(disk.clone(), small())), Damage { segment: FIRST, offset: 0 });
    let opened = Log::open(&mut disk, small(), OnDamage::Salvage, Scan::Heads, |_| {});
    let (log, found) = opened.expect("that is what it is for");
    assert_eq!((found.records, found.damages.len()), (0, 1));
    assert!(log.next_lsn() > Lsn::new(1, 3), "its numbers were given");
    assert!(disk.content(FileName::Damaged(FIRST)).is_some(), "it is set aside");
    assert!(open(disk, small()).is_ok());
}

#[test]
fn the_log_of_another_shard_is_refused() {
    let settings = Settings { shard: 4, ..small() };
    let error = open(three_commits().disk, settings).err().expect("it is another's");
    assert_eq!(error.to_string(), "segment 1 is of shard 0, and this is the log of shard 4");
}

#[test]
fn a_file_that_was_cut_is_damaged_and_not_the_end_of_the_log() {
    let mut disk = three_commits().disk;
    disk.cut(FileName::Segment(FIRST), place(2) as usize);
    assert_eq!(damage(open(disk, small())), Damage { segment: FIRST, offset: place(2) });
}

#[test]
fn files_say_of_which_store_they_are() {
    let settings = Settings { store: 7, ..small() };
    let (mut drive, ..) = open(FakeDisk::new(1), settings).expect("the disk is empty");
    assert_eq!(Log::stores(&mut drive.disk).unwrap(), [7].into());
    assert_eq!(Log::stores(&mut three_commits().disk).unwrap(), [0].into());
}

#[test]
fn a_later_format_is_refused() {
    let mut disk = three_commits().disk;
    let name = FileName::Segment(FIRST);
    let mut sector = disk.content(name).expect("it is there")[..512].to_vec();
    sector[11] = 9;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sector[..12]), &sector[16..]);
    sector[12..16].copy_from_slice(&crc.to_be_bytes());
    disk.write_at(name, 0, &sector).unwrap();
    let error = open(disk, small()).err().expect("it is later");
    assert_eq!(
        error.to_string(),
        "segment 1 has format 9, and this program knows format 1 only; it takes the version of \
         Weir that wrote it, or a later one"
    );
}

#[test]
fn a_scan_changes_nothing() {
    let mut disk = three_commits().disk;
    let before = format!("{:?}", disk.list());
    let mut count = 0;
    let found = Log::scan(&mut disk, 0, OnDamage::Refuse, |_| count += 1).expect("it is sound");
    assert_eq!((found.records, count), (3, 3));
    assert_eq!(format!("{:?}", disk.list()), before);
}

#[test]
fn commits_that_are_not_synced_are_safe_after_the_next_sync() {
    let settings = Settings { is_synced: false, ..small() };
    let (mut drive, ..) = open(FakeDisk::new(1), settings).expect("the disk is empty");
    drive.append(b"one", 1);
    drive.settle(|_| true);
    assert!(drive.log.synced() < drive.log.durable());
    let sync = drive.log.take_sync().expect("something was written");
    sync.perform(&mut drive.disk).unwrap();
    drive.log.sync_done(&sync);
    assert_eq!(drive.log.synced(), drive.log.durable());
    assert!(drive.log.take_sync().is_none());
    drive.disk.crash(Crash::Power);
    let (_, told, _) = open(drive.disk, small()).expect("nothing is wrong");
    assert_eq!(tails(&told), [b"one"]);
}
