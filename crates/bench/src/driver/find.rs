//! Where a broker's program is, and what it says when it is asked.

use super::guard::LOOK_EVERY;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where daemons are, beside PATH.
const DAEMONS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/lib/rabbitmq/bin"];

/// How long a program may take to say its version; some start a whole virtual machine for it.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How much of an answer is read.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;

/// The folder that `weir bench brokers setup` fills for a broker: `$XDG_CACHE_HOME/weir/brokers`,
/// or the same in `~/.cache`.
pub(super) fn cache(broker: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").unwrap_or_else(|| "/tmp".into()).join(".cache");
    set("XDG_CACHE_HOME").unwrap_or_else(home).join("weir/brokers").join(broker)
}

/// A program that every host may have, on PATH or where daemons are.
pub fn program_of_host(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(DAEMONS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// The first of these programs on PATH, where daemons are, or where the suite keeps brokers. A name
/// with a `/` is a path.
pub(super) fn find(programs: &[String], broker: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(DAEMONS.map(PathBuf::from))
        .chain([cache(broker).join("bin")])
        .collect();
    programs
        .iter()
        .flat_map(|program| folders.iter().map(move |folder| folder.join(program)))
        .find(|file| is_program(file))
}

/// Whether a file is there and can be run.
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0)
}

/// Whether a program is a script: it begins with `#!`.
pub(super) fn is_script(path: &Path) -> bool {
    let mut head = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"#!"
}

/// What a command prints on both its outputs; empty if it cannot be run, or does not end in time.
pub(super) fn ask(command: &[String]) -> String {
    asked(command, ANSWER_MAX).unwrap_or_default()
}

/// Into a file: what it starts and leaves behind cannot keep us waiting for the end of a pipe.
fn asked(command: &[String], answer_max: Duration) -> std::io::Result<String> {
    let [program, arguments @ ..] = command else { return Ok(String::new()) };
    let mut answer = tempfile::tempfile()?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(answer.try_clone()?)
        .stderr(answer.try_clone()?)
        .process_group(0)
        .spawn()?;
    let deadline = Instant::now() + answer_max;
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        std::thread::sleep(LOOK_EVERY);
    }
    // One that has answered is gone, and its group as a rule.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    answer.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    answer.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn an_answer_is_what_is_printed_on_both_outputs() {
        assert_eq!(ask(&words(&["sh", "-c", "echo 1.2; echo 3.4 >&2"])), "1.2\n3.4\n");
        assert_eq!(ask(&words(&["/no/such/program"])), "");
        assert_eq!(ask(&[]), "");
    }

    #[test]
    fn a_program_that_does_not_answer_is_ended_with_what_it_started() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! >{}; echo late; wait", file.display());
        // It has to have got as far as to be asked for anything.
        let text = asked(&words(&["sh", "-c", &script]), Duration::from_secs(2)).unwrap();
        assert_eq!(text, "late\n");
        let pid: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let has_ended = || {
            let stat = procfs::process::Process::new(pid).and_then(|process| process.stat());
            stat.map_or(true, |stat| stat.state == 'Z')
        };
        // The signal is on its way.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !has_ended() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(has_ended(), "it runs on");
    }

    #[test]
    fn a_folder_or_a_text_is_no_program() {
        assert!(!is_program(Path::new("/etc")) && !is_program(Path::new("/etc/passwd")));
        assert!(find(&words(&["sh"]), "none").is_some());
        assert!(find(&words(&["no-such-program", "sh"]), "none").is_some());
        assert_eq!(find(&words(&["no-such-program"]), "none"), None);
    }

    #[test]
    fn a_script_is_known_by_how_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let is = |text: &str| {
            let path = folder.path().join("program");
            std::fs::write(&path, text).unwrap();
            is_script(&path)
        };
        assert_eq!(["#!/bin/sh", "#!", "#", "# !", ""].map(is), [true, true, false, false, false]);
        assert!(!is_script(Path::new("/no/such/program")) && !is_script(Path::new("/bin/sh")));
    }
}
