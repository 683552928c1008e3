//! Which records a commit has together.

use crate::drive::{Drive, open, small};
use weir_store::disk::{Crash, FakeDisk};
use weir_store::{Body, Settings};

/// The bit of a kind that begins a group.
const FIRST: u8 = 64;

fn append(drive: &mut Drive<FakeDisk>, group: &[usize]) {
    for (at, &bytes) in group.iter().enumerate() {
        let kind = if at == 0 { FIRST | 1 } else { 1 };
        let tail = vec![0; bytes];
        let body = Body { head: &[], tail: &tail };
        drive.log.append(kind, body, 1).expect("it is short, and little waits");
    }
}

/// How many records are there after as many commits, and a crash then.
fn records_after(commits: usize, settings: &Settings, groups: &[&[usize]]) -> usize {
    let (mut drive, ..) = open(FakeDisk::new(1), settings.clone()).expect("the disk is empty");
    groups.iter().for_each(|group| append(&mut drive, group));
    for _ in 0..commits {
        let commit = drive.log.take_commit().unwrap_or_else(|| {
            let mut chore = drive.log.take_chore().expect("a spare is to be made");
            chore.perform(&mut drive.disk).expect("the disk has no faults");
            drive.log.chore_done(chore, |_| true).expect("nothing is damaged");
            drive.log.take_commit().expect("something waits")
        });
        commit.perform(&mut drive.disk).expect("the disk has no faults");
        drive.log.committed(commit);
    }
    drive.disk.crash(Crash::Power);
    open(drive.disk, settings.clone()).expect("nothing is damaged").1.len()
}

fn grouped() -> Settings {
    Settings { group_bit: FIRST, has_footers: false, ..small() }
}

#[test]
fn a_group_is_in_one_commit_where_a_segment_ends() {
    // 12 KiB of records fit.
    let groups: [&[usize]; 3] = [&[100; 10], &[2_000; 6], &[500; 3]];
    let settings = grouped();
    assert_eq!(records_after(1, &settings, &groups), 10);
    assert_eq!(records_after(2, &settings, &groups), 10 + 6);
    assert_eq!(records_after(3, &settings, &groups), 10 + 6 + 3);
    // Where each record is one, a commit fills the segment.
    let settings = Settings { group_bit: 0, ..settings };
    assert_eq!(records_after(1, &settings, &groups), 10 + 5);
}

#[test]
fn a_group_is_in_one_commit_where_that_is_longer_than_a_commit_may_be() {
    let settings = Settings { commit_bytes_max: 300, ..grouped() };
    let groups: [&[usize]; 3] = [&[50; 2], &[100; 10], &[50; 2]];
    assert_eq!(records_after(1, &settings, &groups), 2);
    assert_eq!(records_after(2, &settings, &groups), 2 + 10);
    assert_eq!(records_after(3, &settings, &groups), 2 + 10 + 2);
}

#[test]
fn a_group_that_no_segment_holds_is_divided() {
    let groups: [&[usize]; 3] = [&[100; 2], &[3_000; 5], &[50; 2]];
    let settings = grouped();
    assert_eq!(records_after(1, &settings, &groups), 2);
    assert_eq!(records_after(2, &settings, &groups), 2 + 4, "as much as a segment holds");
    assert_eq!(records_after(3, &settings, &groups), 2 + 5 + 2);
}
