//! The contract of drivers, over every broker that can be had here.
//!
//! Brokers are processes of their own; a broker that is not here is skipped with a message. Those
//! that `scripts/setup` installs fail then, where the environment variable CI is set.

use crate::support::live::free;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use weir_bench::driver::{Driver, DriverError, Profile, Running, names, parse_with};
use weir_bench::host::{Pinning, round_trip_us};
use weir_bench::monitor::{Monitor, pss};

/// What `scripts/setup` installs, and what is here without it.
const EVERYWHERE: [&str; 2] = ["weir", "mosquitto"];

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn parse(text: &str) -> Result<Box<dyn Driver>, DriverError> {
    parse_with(text, Path::new(env!("CARGO_BIN_EXE_weir")))
}

/// Starts a broker, or says why it is left out.
fn start(name: &str, profile: Profile, core: Option<usize>) -> Option<(Running, TempDir)> {
    let folder = TempDir::new().expect("a temporary folder");
    match parse(name).expect("a known name").start(profile, folder.path(), core) {
        Ok(running) => Some((running, folder)),
        Err(error @ DriverError::NotInstalled { .. }) => {
            let may_lack = std::env::var_os("CI").is_none() || !EVERYWHERE.contains(&name);
            assert!(may_lack, "{error}");
            eprintln!("skipped: {error}");
            None
        }
        // Two drivers of one program: this is the other's version of it.
        Err(error @ DriverError::OtherVersion { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Every file of the configuration that was written, as it is disclosed.
fn configuration(folder: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    files.filter(|file| file.is_file() && !file.ends_with("broker.log")).collect()
}

#[test]
fn a_broker_answers_names_its_version_and_stops_without_a_trace() {
    for name in names() {
        for profile in [Profile::Default, Profile::Tuned] {
            let Some((mut running, folder)) = start(name, profile, None) else { continue };
            let pid = running.pid.expect("a process of ours");
            assert!(
                round_trip_us(running.target, &running.login).is_some_and(|time_us| time_us > 0.0),
                "{name}"
            );
            let broker = &running.broker;
            assert_eq!((broker.driver.as_str(), &broker.profile), (name, &profile.to_string()));
            assert!(broker.version.starts_with(|c: char| c.is_ascii_digit()), "{broker:?}");
            assert_eq!(broker.address, running.target.to_string());
            assert!(broker.profile_changes.iter().all(|change| change.contains(": ")));
            for file in configuration(&folder) {
                let kept = std::fs::read_to_string(file).expect("a file");
                assert!(broker.configuration.contains(&kept), "{name}: {kept}");
            }
            assert!(folder.path().join("broker.log").exists());
            assert_eq!(running.exited(Duration::ZERO), None);

            let target = running.target;
            running.stop();
            assert!(is_gone(pid), "{name} left a process");
            assert!(TcpStream::connect(target).is_err(), "{name} left a listener");
        }
    }
}

#[test]
fn a_broker_that_is_dropped_leaves_no_process_even_if_it_was_frozen() {
    for name in names() {
        let Some((running, _folder)) = start(name, Profile::Default, None) else { continue };
        let pid = running.pid.expect("a process of ours");
        signal(pid, rustix::process::Signal::STOP);
        drop(running);
        assert!(is_gone(pid), "{name} left a process");
    }
}

#[test]
fn a_broker_that_dies_is_noticed() {
    for name in names() {
        let Some((mut running, _folder)) = start(name, Profile::Default, None) else { continue };
        signal(running.pid.expect("a process of ours"), rustix::process::Signal::KILL);
        // Whether its guard has heard of it or not: who asks after the signal is told.
        let exit = running.exited(Duration::ZERO);
        assert!(exit.is_some_and(|exit| exit.contains("SIGKILL")), "{name}");
        running.stop();
    }
}

#[test]
fn a_broker_is_in_a_group_of_its_own_and_on_the_core_it_was_given() {
    let core = Pinning::plan(true).broker_core;
    for name in names() {
        let Some((running, _folder)) = start(name, Profile::Default, core) else { continue };
        let pid = pid(running.pid.expect("a process of ours"));
        assert_eq!(rustix::process::getpgid(Some(pid)), Ok(pid), "Ctrl-C would end {name}");
        if let Some(core) = core {
            let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
            for task in std::fs::read_dir(tasks).expect("it lives").flatten() {
                let number = task.file_name().to_string_lossy().parse().expect("a thread");
                let thread = rustix::process::Pid::from_raw(number);
                let allowed = rustix::thread::sched_getaffinity(thread).expect("it lives");
                assert!(allowed.is_set(core) && allowed.count() == 1, "{name}");
            }
            // Who starts a broker stays where it was.
            let own = rustix::thread::sched_getaffinity(None).expect("ours");
            assert!(own.count() > 1);
        }
        running.stop();
    }
}

#[test]
fn the_monitor_sees_a_broker() {
    for name in names() {
        let Some((running, _folder)) = start(name, Profile::Default, None) else { continue };
        let monitor = Monitor::start(running.pid, None, Duration::from_millis(10));
        let first = monitor.first(Duration::from_secs(10)).expect("a look");
        assert!(first.rss_bytes > 0 && first.threads > 0 && first.files > 3, "{name}: {first:?}");
        assert!(pss(&running.pids()).is_some_and(|bytes| bytes > 0), "{name}");
        running.stop();
        monitor.stop();
    }
}

#[test]
fn a_url_reaches_a_broker_that_somebody_else_runs_and_leaves_it_running() {
    let Some((elsewhere, folder)) = start("mosquitto", Profile::Default, None) else { return };
    let url = format!("mqtt://{}", elsewhere.target);
    let driver = parse(&url).expect("a URL");
    let running = driver.start(Profile::Default, folder.path(), None).expect("it answers");
    assert!(!driver.is_local());
    assert_eq!((running.target, running.pid), (elsewhere.target, None));
    assert_eq!(running.broker.profile, "unknown");
    running.stop();
    assert!(round_trip_us(elsewhere.target, &elsewhere.login).is_some());
    elsewhere.stop();
}

#[test]
fn a_url_with_a_process_is_watched_and_pinned_and_left_running() {
    let Some((elsewhere, folder)) = start("mosquitto", Profile::Default, None) else { return };
    let process = elsewhere.pid.expect("a process of ours");
    let driver = parse(&format!("mine=mqtt://{}?pid={process}", elsewhere.target)).expect("a URL");
    let core = Pinning::plan(true).broker_core;
    let running = driver.start(Profile::Default, folder.path(), core).expect("it answers");
    assert_eq!((running.pid, running.broker.name.as_str()), (Some(process), "mine"));
    assert!(running.broker.command[0].contains("mosquitto"), "{:?}", running.broker);
    if let Some(core) = core {
        let allowed = rustix::thread::sched_getaffinity(Some(pid(process))).expect("it lives");
        assert!(allowed.is_set(core) && allowed.count() == 1);
    }
    running.stop();
    assert!(round_trip_us(elsewhere.target, &elsewhere.login).is_some());
    let driver = parse(&format!("mqtt://{}?pid={}", elsewhere.target, i32::MAX)).expect("a URL");
    let error = driver.start(Profile::Default, folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("no process 2147483647"), "{error}");
    elsewhere.stop();
}

#[test]
fn a_url_where_nobody_listens_says_so() {
    let url = format!("mqtt://127.0.0.1:{}", free());
    let driver = parse(&url).expect("a URL");
    let error = driver.start(Profile::Default, Path::new("."), None).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("nothing answers MQTT at 127.0.0.1:"), "{text}");
    assert!(text.contains("Connection refused") && !text.contains('\n'), "{text}");
}

fn pid(pid: u32) -> rustix::process::Pid {
    let pid = i32::try_from(pid).expect("it fits");
    rustix::process::Pid::from_raw(pid).expect("it is not 0")
}

fn signal(process: u32, signal: rustix::process::Signal) {
    rustix::process::kill_process(pid(process), signal).expect("it lives");
}
