//! The log of `crates/store` beside engines that could stand in its place, under the same load:
//! `cargo run --release -- FOLDER` in `engines/`. It takes about a minute; the folder is made, and
//! removed. CPU is the process's, an engine's own threads with it. Bytes are what the block device
//! below the folder was given, whoever gave it: they are right where the folder has a file system
//! of its own, such as one on a loop device. (/proc/self/io counts a whole folio for each write.)

mod engine;

use engine::{Engine, Key};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A message of 100 bytes with its topic, as the broker keeps it.
const VALUE: [u8; 133] = [7; 133];

const SESSIONS: u32 = 10_000;

/// Messages that wait: one that comes later has the oldest of them deleted.
const WAITING: u64 = 50_000;

/// Messages that share a sync, and how many syncs are measured.
const BATCHES: [(u64, u64); 2] = [(50, 2_000), (500, 400)];

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: weir-engines FOLDER")?;
    let path = Path::new(&path);
    println!(
        "| engine | batch | CPU per message | CPU per commit | written per message | commits/s |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for (batch, commits) in BATCHES {
        for (name, open) in engine::ALL {
            std::fs::create_dir_all(path)?;
            measure(name, path, &mut *open(path)?, batch, commits)?;
            std::fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// A message of a session that its number alone chooses, as good as by chance.
fn key(number: u64) -> Key {
    let session = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u32 % SESSIONS;
    let mut key = [0; 12];
    key[..4].copy_from_slice(&session.to_be_bytes());
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

fn measure(
    name: &str,
    path: &Path,
    engine: &mut dyn Engine,
    batch: u64,
    commits: u64,
) -> Result<(), Box<dyn Error>> {
    let keys = |from: u64| (from..from + batch).map(key).collect::<Vec<Key>>();
    let mut number = 0;
    while number < WAITING {
        engine.commit(&keys(number), &VALUE, &[])?;
        number += batch;
    }
    let before = (written(path)?, now(ClockId::Monotonic), now(ClockId::ProcessCPUTime));
    for _ in 0..commits {
        engine.commit(&keys(number), &VALUE, &keys(number - WAITING))?;
        number += batch;
    }
    let wall = now(ClockId::Monotonic) - before.1;
    let cpu_us = (now(ClockId::ProcessCPUTime) - before.2) as f64 / 1e3;
    let bytes = written(path)? - before.0;
    let messages = (commits * batch) as f64;
    println!(
        "| {name} | {batch} | {:.2} µs | {:.0} µs | {:.0} B | {:.0} |",
        cpu_us / messages,
        cpu_us / commits as f64,
        bytes as f64 / messages,
        commits as f64 / wall as f64 * 1e9,
    );
    Ok(())
}

/// Bytes that the device of a folder was given so far, after all that waited.
fn written(path: &Path) -> Result<u64, Box<dyn Error>> {
    let device = path.metadata()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    rustix::fs::syncfs(std::fs::File::open(path)?)?;
    let text = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"))?;
    // The seventh number is in sectors of 512 bytes, whatever the device's are.
    let sectors = text.split_whitespace().nth(6).ok_or("the device has no statistics")?;
    Ok(sectors.parse::<u64>()? * 512)
}

fn now(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
