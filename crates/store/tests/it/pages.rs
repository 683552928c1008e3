//! Reading back.

use crate::drive::Drive;
use weir_store::disk::FakeDisk;
use weir_store::{Lsn, Page};

/// Reads all from `from` on, in pages of so many bytes.
fn read_all(drive: &mut Drive<FakeDisk>, from: Lsn, page_bytes: usize) -> Vec<(Lsn, usize)> {
    let (mut next, mut wanted) = (Some(from), page_bytes);
    let mut all = Vec::new();
    while let Some(lsn) = next {
        let Some(mut read) = drive.log.read(lsn, wanted) else { break };
        read.perform(&mut drive.disk).expect("the disk has no faults");
        let tell = |record: &weir_store::Record<'_>| {
            all.push((record.lsn, record.body.tail.len()));
        };
        match drive.log.page(&read, tell).expect("nothing is damaged") {
            Page::Next(lsn) => (next, wanted) = (lsn, page_bytes),
            Page::TooShort(bytes) => wanted = bytes,
            Page::Moved => panic!("nothing has moved"),
        }
    }
    all
}

#[test]
fn all_records_are_read_once_in_order_whatever_the_page() {
    let mut drive = Drive::empty();
    let mut expected = Vec::new();
    for count in 0..600_usize {
        let length = if count.is_multiple_of(50) { 3_000 } else { count % 70 };
        expected.push((drive.append(&vec![1; length], 1), length));
        drive.settle(|_| true);
    }
    assert!(drive.segments().len() > 3);
    for page_bytes in [1, 100, 5_000, 100_000] {
        assert_eq!(read_all(&mut drive, Lsn::ZERO, page_bytes), expected);
        let from = expected[321].0;
        assert_eq!(read_all(&mut drive, from, page_bytes), expected[321..]);
    }
}

#[test]
fn what_waits_is_not_on_the_disk() {
    let mut drive = Drive::empty();
    let lsn = drive.append(b"waits", 1);
    assert!(drive.log.read(lsn, 100).is_none());
    drive.settle(|_| true);
    assert_eq!(read_all(&mut drive, lsn, 100), [(lsn, 5)]);
}

#[test]
fn a_segment_that_was_written_anew_is_read_over_its_gaps() {
    let mut drive = Drive::empty();
    let all: Vec<_> = (0..300).map(|_| drive.append(&[7; 100], 1)).collect();
    drive.settle(|_| true);
    let is_kept = |lsn: Lsn| lsn.count().is_multiple_of(25);
    all.iter().filter(|&&lsn| !is_kept(lsn)).for_each(|&lsn| drive.log.release(lsn));
    let old = drive.log.read(all[24], 200).expect("it is there");
    drive.settle(is_kept);
    assert!(drive.log.rewritten_bytes() > 0);
    assert_eq!(drive.log.page(&old, |_| panic!("it is not there")), Ok(Page::Moved));
    let sealed = all[all.len() - 100];
    let told = read_all(&mut drive, Lsn::ZERO, 300);
    assert!(told.iter().all(|&(lsn, _)| is_kept(lsn) || lsn > sealed));
    let kept: Vec<_> = all.iter().copied().filter(|&lsn| is_kept(lsn)).collect();
    assert!(kept.iter().all(|&lsn| told.contains(&(lsn, 100))));
}
