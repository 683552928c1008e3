//! What the log costs: `cargo run --release -p weir-store --example pace -- FOLDER`. The folder
//! is made and removed. CPU is the process's, so nothing else may run in it.

use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use weir_store::disk::Folder;
use weir_store::{Body, Disk, Log, OnDamage, Scan, Settings};

/// A message of 100 bytes with its topic, and as much again as its receivers take.
const HEAD: [u8; 24] = [7; 24];
const TAIL: [u8; 100] = [9; 100];
/// What is not committed at once: half of the records are small ones.
const BATCHES: [usize; 4] = [1, 10, 50, 500];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: pace FOLDER [RECORDS]")?;
    let records: usize = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let path = Path::new(&path);
    for is_synced in [false, true] {
        for batch in BATCHES {
            let count = if is_synced { records.min(batch * 5_000) } else { records };
            append(path, is_synced, batch, count)?;
        }
    }
    replay(path, records)?;
    Ok(())
}

fn append(path: &Path, is_synced: bool, batch: usize, count: usize) -> Result<(), Box<dyn Error>> {
    let mut disk = Folder::open(path)?;
    let settings = Settings { is_synced, ..Settings::default() };
    let (mut log, _) = Log::open(&mut disk, settings, OnDamage::Refuse, Scan::Heads, |_| {})?;
    let (mut appending, mut committing, mut chores) = (0, 0, 0);
    let (started, clock) = (now(ClockId::Monotonic), now(ClockId::ProcessCPUTime));
    let mut commits = 0;
    for _ in 0..count / batch {
        let from = now(ClockId::ProcessCPUTime);
        for _ in 0..batch {
            log.append(1, Body { head: &HEAD, tail: &TAIL }, 0)?;
        }
        let appended = now(ClockId::ProcessCPUTime);
        while log.pending_bytes() > 0 {
            while let Some(commit) = log.take_commit() {
                commit.perform(&mut disk)?;
                log.committed(commit);
                commits += 1;
            }
            let committed = now(ClockId::ProcessCPUTime);
            while let Some(mut chore) = log.take_chore() {
                chore.perform(&mut disk)?;
                log.chore_done(chore, |_| false)?;
            }
            chores += now(ClockId::ProcessCPUTime) - committed;
        }
        appending += appended - from;
        committing += now(ClockId::ProcessCPUTime) - appended;
    }
    let (wall, cpu) = (now(ClockId::Monotonic) - started, now(ClockId::ProcessCPUTime) - clock);
    let mut line = format!("{} batch {batch}: ", if is_synced { "synced" } else { "written" });
    write!(line, "{:.2} us CPU per record, ", us(cpu, count))?;
    write!(
        line,
        "append {:.3} us, commit {:.1} us, ",
        us(appending, count),
        us(committing - chores, commits)
    )?;
    write!(line, "chores {:.2} us per record, ", us(chores, count))?;
    println!("{line}{:.0} records/s, {commits} commits", count as f64 / wall as f64 * 1e9);
    drop(disk);
    Ok(std::fs::remove_dir_all(path)?)
}

fn replay(path: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    let mut disk = Folder::open(path)?;
    let settings = Settings { is_synced: false, ..Settings::default() };
    let opened = Log::open(&mut disk, settings.clone(), OnDamage::Refuse, Scan::Heads, |_| {})?;
    let mut log = opened.0;
    for _ in 0..count {
        // Somebody refers to it, so that nothing is reclaimed.
        log.append(1, Body { head: &HEAD, tail: &TAIL }, 1)?;
        if log.pending_bytes() < 1 << 20 {
            continue;
        }
        while log.pending_bytes() > 0 {
            if let Some(commit) = log.take_commit() {
                commit.perform(&mut disk)?;
                log.committed(commit);
            }
            while let Some(mut chore) = log.take_chore() {
                chore.perform(&mut disk)?;
                log.chore_done(chore, |_| true)?;
            }
        }
    }
    drop(log);
    for scan in [Scan::Records, Scan::Heads] {
        let (started, clock) = (now(ClockId::Monotonic), now(ClockId::ProcessCPUTime));
        let mut told = 0_u64;
        let (_, found) =
            Log::open(&mut disk, settings.clone(), OnDamage::Refuse, scan, |record| {
                told += record.body.head.len() as u64;
            })?;
        let (wall, cpu) = (now(ClockId::Monotonic) - started, now(ClockId::ProcessCPUTime) - clock);
        let files: u64 = disk.list()?.iter().map(|&(_, bytes)| bytes).sum();
        println!(
            "start, {scan:?}: {} records, {} MB in files, {} MB read, {:.2} s, \
             {:.0} ns CPU per record, {told} B told",
            found.records,
            files >> 20,
            found.read_bytes >> 20,
            wall as f64 / 1e9,
            cpu as f64 / found.records as f64,
        );
    }
    drop(disk);
    Ok(std::fs::remove_dir_all(path)?)
}

fn us(nanoseconds: i64, count: usize) -> f64 {
    nanoseconds as f64 / 1e3 / count as f64
}

fn now(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
