//! The wall clock of a process, stepped for that process alone.
//!
//! The kernel maps into every process the code by which it reads clocks without a system call (the
//! vDSO). libc, Rust and Go all go through it, so what is written over it holds for a node as well
//! as for its etcd, with nothing preloaded. What stands there from then on asks the kernel, and
//! adds the step to the clocks of the wall alone: the monotonic ones, timers and the times of files
//! are the kernel's. A process has its own copy of the page as soon as it is written to, and
//! another program that is started has the kernel's code again.

#![expect(clippy::little_endian_bytes, reason = "so numbers are in the code of this processor")]

use crate::plan::PATIENCE;
use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Whether there is code for this processor.
pub(crate) const IS_KNOWN: bool = cfg!(target_arch = "x86_64");

/// The instructions that stand for a function of the vDSO, before the address of the step and
/// behind it. They change no register that a call may not, and only what is the wall's.
struct Code {
    function: &'static str,
    head: &'static [u8],
    tail: &'static [u8],
}

const CODES: [Code; 3] = [
    Code {
        function: "__vdso_clock_gettime",
        head: &[
            0xB8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
            0x0F, 0x05, // syscall
            0x85, 0xC0, // test eax, eax
            0x75, 0x13, // jnz end
            0x85, 0xFF, // test edi, edi: CLOCK_REALTIME
            0x74, 0x05, // jz add
            0x83, 0xFF, 5, // cmp edi, CLOCK_REALTIME_COARSE
            0x75, 0x0A, // jne end
            0x48, 0x8B, 0x0D, // add: mov rcx, [step]
        ],
        tail: &[
            0x48, 0x01, 0x0E, // add [rsi], rcx
            0xC3, // end: ret
        ],
    },
    Code {
        function: "__vdso_gettimeofday",
        head: &[
            0xB8, 96, 0, 0, 0, // mov eax, SYS_gettimeofday
            0x0F, 0x05, // syscall
            0x85, 0xC0, // test eax, eax
            0x75, 0x0F, // jnz end
            0x48, 0x85, 0xFF, // test rdi, rdi: only the zone may be asked for
            0x74, 0x0A, // jz end
            0x48, 0x8B, 0x0D, // mov rcx, [step]
        ],
        tail: &[
            0x48, 0x01, 0x0F, // add [rdi], rcx
            0xC3, // end: ret
        ],
    },
    Code {
        function: "__vdso_time",
        head: &[
            0x57, // push rdi
            0x31, 0xFF, // xor edi, edi
            0xB8, 201, 0, 0, 0, // mov eax, SYS_time
            0x0F, 0x05, // syscall
            0x5F, // pop rdi
            0x48, 0x03, 0x05, // add rax, [step]
        ],
        tail: &[
            0x48, 0x85, 0xFF, // test rdi, rdi
            0x74, 0x03, // jz end
            0x48, 0x89, 0x07, // mov [rdi], rax
            0xC3, // end: ret
        ],
    },
];

/// Where the seconds of the step are, from the begin of the longest of these functions: behind its
/// code, and never across two lines of the cache, so that no thread reads half of them.
const STEP_AT: usize = 64;

/// How often threads are looked at that do not stop, or are just reading the clock.
const TRIES_MAX: usize = 1_000;

/// The wall clock of a process that runs.
#[derive(Debug)]
pub(crate) struct Clock {
    memory: File,
    step_at: u64,
}

impl Clock {
    /// Takes the clock of a process over, which shows the right time until it is stepped. It is
    /// frozen for less than a millisecond, but for what its threads take to stop.
    pub(crate) fn of(process: Pid) -> anyhow::Result<Self> {
        let folder = PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()));
        let memory = File::options().read(true).write(true).open(folder.join("mem"))?;
        let maps = std::fs::read_to_string(folder.join("maps"))?;
        let begin = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(addresses);
        let Range { start, end } = begin.context("it has no vDSO")?;
        let mut image = vec![0; (end - start) as usize];
        memory.read_exact_at(&mut image, start)?;
        let find = |name| function(&image, name).with_context(|| format!("there is no {name}"));
        let reader = find(CODES[0].function)?;
        let step = (reader.start + STEP_AT).next_multiple_of(size_of::<u64>());
        ensure!(step + size_of::<u64>() <= reader.end, "{} is too short", CODES[0].function);
        let mut patches = vec![(step, 0_i64.to_le_bytes().to_vec())];
        for code in &CODES {
            let place = find(code.function)?;
            let bytes = code.at(place.start, step);
            let longest = if code.function == CODES[0].function { step } else { place.end };
            ensure!(place.start + bytes.len() <= longest, "{} is too short", code.function);
            patches.push((place.start, bytes));
        }
        let stopped = Stopped::outside(process, &folder, start..end)?;
        for (at, bytes) in patches {
            memory.write_all_at(&bytes, start + at as u64).context("the kernel forbids it")?;
        }
        drop(stopped);
        Ok(Self { memory, step_at: start + step as u64 })
    }

    /// Has it show so many seconds more than it is.
    pub(crate) fn step(&self, seconds: i64) -> anyhow::Result<()> {
        Ok(self.memory.write_all_at(&seconds.to_le_bytes(), self.step_at)?)
    }
}

impl Code {
    /// The bytes at this place, if the step is at that one.
    fn at(&self, place: usize, step: usize) -> Vec<u8> {
        // It counts from the next instruction.
        let distance = step as i32 - (place + self.head.len() + size_of::<i32>()) as i32;
        [self.head, &distance.to_le_bytes(), self.tail].concat()
    }
}

/// A process that is frozen until this is dropped.
struct Stopped(Pid);

impl Stopped {
    /// Freezes it where no thread is within `code`, which it could not go on with.
    fn outside(process: Pid, folder: &Path, code: Range<u64>) -> anyhow::Result<Self> {
        for _ in 0..TRIES_MAX {
            kill_process(process, Signal::STOP)?;
            let stopped = Self(process);
            let begin = Instant::now();
            while !all_threads(folder, "stat", |stat| {
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 't']))
            })? {
                ensure!(begin.elapsed() < PATIENCE, "its threads do not stop");
                std::thread::sleep(Duration::from_micros(50));
            }
            let is_outside = |call: &str| {
                let place = call.split_whitespace().next_back().and_then(hexadecimal);
                place.is_some_and(|place| !code.contains(&place))
            };
            if all_threads(folder, "syscall", is_outside)? {
                return Ok(stopped);
            }
        }
        anyhow::bail!("a thread is always reading the clock")
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It goes on, unless it has ended.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Whether a file of each thread says so. Threads of one that is stopped neither begin nor end.
fn all_threads(folder: &Path, file: &str, says: impl Fn(&str) -> bool) -> anyhow::Result<bool> {
    for thread in std::fs::read_dir(folder.join("task"))? {
        // It may just have ended.
        let text = std::fs::read_to_string(thread?.path().join(file)).unwrap_or_default();
        if !says(&text) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Those of a line of `/proc/PID/maps`.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(hexadecimal(start)?..hexadecimal(end)?)
}

/// Where a function is in the image of a library: ELF of 64 bits.
fn function(image: &[u8], name: &str) -> Option<Range<usize>> {
    const SYMBOLS: usize = 11;
    const SYMBOL_BYTES: usize = 24;
    let (sections, size) = (number(image, 40, 8)?, number(image, 58, 2)?);
    let section = |of: usize| {
        let at = sections + of * size;
        let (offset, bytes) = (number(image, at + 24, 8)?, number(image, at + 32, 8)?);
        Some((image.get(offset..offset + bytes)?, number(image, at + 4, 4)?, at))
    };
    let mut all = (0..number(image, 60, 2)?).filter_map(section);
    let (symbols, _, at) = all.find(|&(_, kind, _)| kind == SYMBOLS)?;
    let (names, ..) = section(number(image, at + 40, 4)?)?;
    let is_it = |symbol: &&[u8]| {
        let own = number(symbol, 0, 4).and_then(|from| names.get(from..));
        own.and_then(|own| own.split(|&byte| byte == 0).next()) == Some(name.as_bytes())
    };
    let symbol = symbols.chunks_exact(SYMBOL_BYTES).find(is_it)?;
    let start = number(symbol, 8, 8)?;
    Some(start..start + number(symbol, 16, 8)?)
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, count: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + count)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests;
