//! Installing stacks into the cache: what `setup` of each stack.toml says, within a time, with a
//! log, once for each state of its files.

use crate::catalog::Folder;
use crate::installed::{MARKER, Marker, is_met, missing_needs};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_bench::driver::last_lines;
use weir_bench::interrupt::Interrupted;

/// Longest that one command may take.
const COMMAND_MAX: Duration = Duration::from_secs(15 * 60);

/// Between two looks at a command.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What came of setting up a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// The folder.
    pub folder: String,
    /// Whether it was there already.
    pub is_known: bool,
    /// Its variants, each with why it cannot be had, if it cannot.
    pub variants: Vec<(String, Option<String>)>,
    /// What the commands printed.
    pub log: PathBuf,
}

/// Sets up a folder, unless that was done for the same files; `is_anew` does it all the same. Where
/// it is interrupted, the command that runs is ended and the folder counts as not set up.
///
/// # Errors
/// A cache that cannot be made or written. What the commands bring is in the answer.
pub fn setup(
    folder: &Folder,
    weir: &Path,
    is_anew: bool,
    interrupted: &Interrupted,
) -> std::io::Result<SetUp> {
    let cache = &folder.cache;
    std::fs::create_dir_all(cache)?;
    let log = cache.join("setup.log");
    let known = Marker::read(cache).filter(|marker| marker.fingerprint == folder.fingerprint);
    let is_done = known.as_ref().is_some_and(|marker| marker.failed.is_empty());
    if is_done && !is_anew && missing_needs(&folder.file.needs).is_none() {
        let variants = folder.stacks(weir).into_iter().map(|of| (of.name, of.missing)).collect();
        return Ok(SetUp { folder: folder.name.clone(), is_known: true, variants, log });
    }
    // A setup that is broken off must not look like one that was done.
    if let Err(error) = std::fs::remove_file(cache.join(MARKER))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut out = Installer { folder, weir, log: File::create(&log)?, path: &log, interrupted };
    let marker = Marker { fingerprint: folder.fingerprint.clone(), failed: out.install() };
    let text = serde_json::to_string_pretty(&marker).map_err(std::io::Error::other)?;
    std::fs::write(cache.join(MARKER), text + "\n")?;
    let variants = folder.stacks(weir).into_iter().map(|of| (of.name, of.missing)).collect();
    Ok(SetUp { folder: folder.name.clone(), is_known: false, variants, log })
}

struct Installer<'a> {
    folder: &'a Folder,
    weir: &'a Path,
    log: File,
    path: &'a Path,
    interrupted: &'a Interrupted,
}

impl Installer<'_> {
    /// Variants that could not be had, with why.
    fn install(&mut self) -> BTreeMap<String, String> {
        let file = &self.folder.file;
        let all = |why: String| -> BTreeMap<String, String> {
            self.folder.names().into_iter().map(|name| (name, why.clone())).collect()
        };
        if let Err(why) = self.install_one(&file.needs, &file.setup) {
            return all(why);
        }
        let mut failed = BTreeMap::new();
        for variant in &file.variants {
            if variant.unavailable.is_none()
                && let Err(why) = self.install_one(&variant.needs, &variant.setup)
            {
                failed.insert(variant.name.clone(), why);
            }
        }
        failed
    }

    fn install_one(&mut self, needs: &[String], setup: &[Vec<String>]) -> Result<(), String> {
        let packages: Vec<&str> = needs
            .iter()
            .filter(|need| !is_met(need))
            .filter_map(|need| need.strip_prefix("apt:"))
            .collect();
        if !packages.is_empty() && geteuid().is_root() {
            let install = ["apt-get", "install", "-y", "--no-install-recommends"];
            let words: Vec<String> =
                install.into_iter().chain(packages).map(str::to_owned).collect();
            self.command(&words)?;
        }
        if let Some(why) = missing_needs(needs) {
            return Err(why);
        }
        for command in setup {
            self.command(&self.folder.fill(command, self.weir, ""))?;
        }
        Ok(())
    }

    fn command(&mut self, words: &[String]) -> Result<(), String> {
        let line = words.join(" ");
        // What cannot be logged is still done.
        let _ = writeln!(self.log, "$ {line}");
        bounded(words, &self.folder.cache, self.path, COMMAND_MAX, self.interrupted)
            .map_err(|why| format!("{line}: {why}{}", last_lines(self.path)))
    }
}

/// Runs a command in `folder` with both its outputs at the end of `log`, and ends it with all of
/// its group after `time_max`, or once it is interrupted.
fn bounded(
    words: &[String],
    folder: &Path,
    log: &Path,
    time_max: Duration,
    interrupted: &Interrupted,
) -> Result<(), String> {
    let [program, arguments @ ..] = words else { return Err("there is no command".into()) };
    let open = || OpenOptions::new().append(true).open(log).map_err(|error| error.to_string());
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(open()?)
        .stderr(open()?)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    let deadline = Instant::now() + time_max;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if interrupted.load(Ordering::Relaxed) => break Err("interrupted".into()),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            Ok(None) => break Err(format!("it took longer than {time_max:?}")),
            Err(error) => break Err(error.to_string()),
        }
    };
    if status.is_err() {
        // One that is gone by now needs no signal.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
    }
    match status? {
        status if status.success() => Ok(()),
        status => Err(format!("it ended with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::folders;
    use tempfile::TempDir;

    fn folder(root: &Path, text: &str) -> Folder {
        std::fs::create_dir_all(root.join("stacks/mine")).unwrap();
        std::fs::write(root.join("stacks/mine/stack.toml"), text).unwrap();
        let mut folder = folders(Some(&root.join("stacks"))).unwrap().remove(0);
        folder.cache = root.join("cache");
        folder
    }

    fn set_up(folder: &Folder, is_anew: bool) -> SetUp {
        setup(folder, Path::new("weir"), is_anew, &Interrupted::default()).unwrap()
    }

    const FILE: &str = r#"
name = "mine"
language = "Shell"
about = "none"
setup = [["sh", "-c", "echo done >>{cache}/times"]]
run = ["true"]
variants = [
    { name = "mine-a" },
    { name = "mine-b", setup = [["sh", "-c", "echo no such library >&2; false"]] },
    { name = "mine-c", needs = ["no-such-program-anywhere"] },
]
"#;

    #[test]
    fn what_can_be_had_is_had_and_what_cannot_says_why() {
        let root = TempDir::new().unwrap();
        let folder = folder(root.path(), FILE);
        let before = folder.stacks(Path::new("weir"));
        assert!(before[0].missing.as_ref().is_some_and(|why| why.contains("not set up")));
        let done = set_up(&folder, false);
        assert!(!done.is_known);
        let [a, b, c] = &done.variants[..] else { panic!("{done:?}") };
        assert_eq!(a.1, None);
        let why = b.1.as_ref().unwrap();
        assert!(why.contains("exit status: 1") && why.contains("no such library"), "{why}");
        assert!(c.1.as_ref().unwrap().contains("no-such-program-anywhere"), "{done:?}");
    }

    #[test]
    fn a_setup_is_done_once_for_the_same_files() {
        let root = TempDir::new().unwrap();
        let text = FILE.lines().filter(|line| !line.contains("mine-b") && !line.contains("mine-c"));
        let text = text.collect::<Vec<_>>().join("\n");
        let first = folder(root.path(), &text);
        let times = || std::fs::read_to_string(root.path().join("cache/times")).unwrap();
        assert!(!set_up(&first, false).is_known);
        assert!(set_up(&first, false).is_known);
        assert_eq!(times().lines().count(), 1);
        let second = folder(root.path(), &format!("{text}\n# changed\n"));
        let stack = second.stacks(Path::new("weir")).remove(0);
        assert!(stack.missing.is_some_and(|why| why.contains("changed since")));
        assert!(!set_up(&second, false).is_known);
        assert!(!set_up(&second, true).is_known);
        assert_eq!(times().lines().count(), 3);
    }

    /// Runs a command that does not end, until `end` is called with what its process is named in;
    /// why it ended, once nothing is left of it.
    fn ended(time_max: Duration, interrupted: &Interrupted, end: impl FnOnce(&Path)) -> String {
        let root = TempDir::new().unwrap();
        let (log, pid) = (root.path().join("log"), root.path().join("pid"));
        File::create(&log).unwrap();
        let script = format!("sleep 1000 & echo $! >{}.new; mv {0}.new {0}; wait", pid.display());
        let words = ["sh", "-c", &script].map(str::to_owned);
        let why = std::thread::scope(|scope| {
            let command = || bounded(&words, root.path(), &log, time_max, interrupted);
            let command = scope.spawn(command);
            end(&pid);
            command.join().unwrap().unwrap_err()
        });
        let pid = std::fs::read_to_string(pid).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        until(|| !stat().is_ok_and(|stat| !stat.contains(") Z")), "nothing is left behind");
        why
    }

    fn until(mut is_so: impl FnMut() -> bool, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_command_is_ended_with_what_it_started() {
        let interrupted = Interrupted::default();
        let why = ended(Duration::from_millis(500), &interrupted, |_| ());
        assert!(why.contains("longer than"), "{why}");
        let why = ended(COMMAND_MAX, &interrupted, |pid| {
            until(|| pid.exists(), "it runs");
            interrupted.store(true, Ordering::Relaxed);
        });
        assert_eq!(why, "interrupted");
    }
}
