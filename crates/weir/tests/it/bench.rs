//! `weir bench` as a user meets it: runs, faults of the broker, errors.

use crate::support::live::free;
use crate::support::results::results;
use crate::support::{Broker, tool};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env_remove("WEIR_LOG");
    command
}

fn error_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("weir: ")).collect();
    assert_eq!(lines.len(), 1, "one line says what is wrong:\n{text}");
    lines[0].to_owned()
}

/// The only result below `folder`.
fn result(folder: &Path) -> (Value, PathBuf) {
    let mut found = results(folder);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

const SMALL: [&str; 6] = ["--scale", "0.02", "--duration", "2s", "--warm-up", "500ms"];

fn run_small(broker: &str, use_case: &str) -> (Output, Value, PathBuf, tempfile::TempDir) {
    let out = tempfile::tempdir().unwrap();
    let output = weir(&["bench", "run", use_case, "--broker", broker, "--pin", "none"])
        .args(SMALL)
        .arg("--out")
        .arg(out.path())
        .output()
        .unwrap();
    let (result, folder) = result(out.path());
    (output, result, folder, out)
}

fn assert_whole(result: &Value) {
    let measure = &result["measure"];
    assert_eq!(measure["expected"], measure["delivered"], "{measure}");
    for zero in ["lost", "duplicated", "reordered", "stray", "unsent", "unacknowledged"] {
        assert_eq!(measure[zero], 0, "{zero}: {measure}");
    }
    assert!(measure["expected"].as_u64() > Some(0), "{measure}");
}

#[test]
fn every_kind_of_use_case_delivers_everything_on_both_brokers() {
    let mosquitto = tool(&["mosquitto"]).map(|_| "mosquitto");
    for broker in [Some("weir"), mosquitto].into_iter().flatten() {
        for use_case in ["p2p-1K-1K-1K-1K", "fanout-1-1K-1-1K", "sharedsub-1K-5-1K-1K"] {
            let (_, result, folder, _out) = run_small(broker, use_case);
            assert_whole(&result);
            for file in
                ["report.html", "series.csv", "end_to_end.hgrm", "anomalies.csv", "broker.log"]
            {
                assert!(folder.join(file).is_file(), "{broker} {use_case}: {file}");
            }
            assert!(result["resources"]["rss_max_bytes"].as_u64() > Some(0));
        }
    }
}

fn first_child(pid: i32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

/// A run of 10 s that has begun to measure, and its broker's process.
struct Midway {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    broker: rustix::process::Pid,
    out: tempfile::TempDir,
}

impl Midway {
    fn start() -> Self {
        Self::start_with("weir")
    }

    fn start_with(broker: &str) -> Self {
        let out = tempfile::tempdir().unwrap();
        let mut child = weir(&["bench", "run", "p2p-1K-1K-1K-1K", "--pin", "none"])
            .args(["--broker", broker])
            .args(["--scale", "0.1", "--duration", "10s", "--warm-up", "1s", "--out"])
            .arg(out.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("measure") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the run ended before measure");
        }
        // Between the two is the broker's guard.
        let broker = first_child(first_child(child.id().cast_signed()));
        let broker = rustix::process::Pid::from_raw(broker).unwrap();
        Self { child, stderr, broker, out }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.broker, signal).unwrap();
    }

    fn end(mut self) -> (i32, Value, PathBuf, tempfile::TempDir) {
        // The pipe is emptied, so that the run can write to its end.
        std::io::copy(&mut self.stderr, &mut std::io::sink()).unwrap();
        let status = self.child.wait().unwrap();
        let (result, folder) = result(self.out.path());
        (status.code().unwrap_or(-1), result, folder, self.out)
    }
}

#[test]
fn a_frozen_broker_shows_in_the_latency_and_loses_nothing() {
    let run = Midway::start();
    run.signal(rustix::process::Signal::STOP);
    // The length of the freeze is what is measured; nothing is waited for.
    std::thread::sleep(std::time::Duration::from_secs(3));
    run.signal(rustix::process::Signal::CONT);
    let (_, result, _, _out) = run.end();
    assert_whole(&result);
    let latency = &result["latencies"]["end_to_end"];
    assert!(latency["max_us"].as_u64() >= Some(2_900_000), "{}", latency["max_us"]);
    assert!(latency["p99_us"].as_u64() >= Some(2_700_000), "{}", latency["p99_us"]);
}

#[test]
fn a_killed_broker_fails_the_run_which_says_why_and_keeps_what_it_has() {
    let run = Midway::start();
    run.signal(rustix::process::Signal::KILL);
    let (code, result, folder, _out) = run.end();
    assert_eq!(code, 1);
    assert_eq!(result["verdict"]["status"], "failed");
    let reasons = result["verdict"]["reasons"].to_string();
    assert!(reasons.contains("connections") && reasons.contains("signal: 9"), "{reasons}");
    assert!(result["warm_up"]["delivered"].as_u64() > Some(0), "{}", result["warm_up"]);
    assert!(folder.join("report.html").is_file());
}

#[test]
fn ctrl_c_ends_the_run_in_good_order_and_leaves_no_process() {
    let run = Midway::start();
    let broker = run.broker;
    let bench = rustix::process::Pid::from_child(&run.child);
    rustix::process::kill_process(bench, rustix::process::Signal::INT).unwrap();
    let (code, result, _, _out) = run.end();
    assert_eq!(code, 130);
    assert_eq!(result["verdict"]["status"], "aborted");
    assert!(rustix::process::test_kill_process(broker).is_err(), "the broker is gone");
}

#[test]
fn no_process_is_left_of_a_suite_that_is_killed() {
    let mut run = Midway::start();
    let broker = run.broker;
    let bench = rustix::process::Pid::from_child(&run.child);
    let guard = rustix::process::Pid::from_raw(first_child(bench.as_raw_nonzero().get())).unwrap();
    let ends = [broker, guard]
        .map(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap());
    rustix::process::kill_process(bench, rustix::process::Signal::KILL).unwrap();
    run.child.wait().unwrap();
    for end in &ends {
        let mut poll = [rustix::event::PollFd::new(end, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        let count = rustix::event::poll(&mut poll, Some(&patience)).unwrap();
        assert_eq!(count, 1, "a process lives on");
    }
}

#[test]
fn a_report_can_be_made_again() {
    let (_, _, folder, out) = run_small("weir", "fanout-1-1K-1-1K");
    std::fs::remove_file(folder.join("report.html")).unwrap();
    let output = weir(&["bench", "report"]).arg(out.path()).output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("singlenode-fanout-1-1K-1-1K"));
    assert!(out.path().join("report.html").is_file());
}

/// Mosquitto with one user, on a port of its own.
struct Guarded(Child);

impl Guarded {
    fn start(folder: &Path, user_name: &str, password: &str) -> Option<(Self, String)> {
        let (broker, passwd) = (tool(&["mosquitto"])?, tool(&["mosquitto_passwd"])?);
        let users = folder.join("users");
        let mut command = Command::new(passwd);
        command.args(["-b", "-c"]).arg(&users).args([user_name, password]);
        assert!(command.output().unwrap().status.success());
        let (port, path) = (free(), folder.join("mosquitto.conf"));
        let user = "user root\nallow_anonymous false";
        let text =
            format!("listener {port} 127.0.0.1\n{user}\npassword_file {}\n", users.display());
        std::fs::write(&path, text).unwrap();
        let child = Command::new(broker).arg("-c").arg(path).stderr(Stdio::null()).spawn().unwrap();
        let broker = Self(child);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(std::time::Instant::now() < deadline, "mosquitto does not listen");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Some((broker, format!("127.0.0.1:{port}")))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every file below a folder that holds `text`.
fn holding(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if String::from_utf8_lossy(&std::fs::read(&path).unwrap()).contains(text) {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_broker_that_asks_for_a_password_gets_it_and_no_result_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let (user_name, password) = ("weir-user", "p@ss=w0rd:x");
    let Some((_broker, address)) = Guarded::start(folder.path(), user_name, password) else {
        return;
    };
    let url = format!("mqtt://{user_name}:{password}@{address}");
    for agents in [&[][..], &["--agents", "2"]] {
        let out = tempfile::tempdir().unwrap();
        let output = weir(&["bench", "run", "p2p-1K-1K-1K-1K", "--broker", &url, "--pin", "none"])
            .args(SMALL)
            .args(agents)
            .env("WEIR_LOG", "trace")
            .arg("--out")
            .arg(out.path())
            .output()
            .unwrap();
        let (result, _) = result(out.path());
        assert_whole(&result);
        assert_eq!(result["broker"]["name"], format!("mqtt://{address}"));
        let broker = &result["disclosed"]["broker"];
        assert_eq!(broker["authentication"], "user name and password");
        assert_eq!(broker["tls"], "none: plain TCP");
        let command = result["suite"]["command"].to_string();
        assert!(command.contains(&format!("mqtt://{user_name}:***@{address}")), "{command}");
        assert_eq!(holding(out.path(), password), Vec::<PathBuf>::new());
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(password));
        }
    }
    let wrong = format!("mqtt://{user_name}:other@{address}");
    let output = weir(&["bench", "run", "p2p-1K-1K-1K-1K", "--broker", &wrong]).output().unwrap();
    assert!(error_of(&output).contains("refused CONNECT with code 5"), "{output:?}");
}

#[test]
fn suite_ladder_and_conformance_give_the_password_too_and_keep_it_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (user_name, password) = ("weir-user", "p@ss=w0rd:x");
    let Some((_broker, address)) = Guarded::start(folder.path(), user_name, password) else {
        return;
    };
    let url = format!("mqtt://{user_name}:{password}@{address}");
    let ladder = "--from 20 --to 20 --scale 0.02 --duration 1s --warm-up 500ms --pin none";
    let small = "--scale 0.02 --duration 1s --warm-up 500ms --pin none";
    for (arguments, runs) in [
        (format!("suite basic {small}"), 4),
        (format!("ladder p2p-1K-1K-1K-1K --objective p99<=10s {ladder}"), 1),
        ("conformance --only ping --mqtt 3.1.1".to_owned(), 0),
    ] {
        let out = tempfile::tempdir().unwrap();
        let output = weir(&["bench"])
            .args(arguments.split(' '))
            .args(["--broker", &url, "--out"])
            .arg(out.path())
            .env("WEIR_LOG", "trace")
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // The steps of a ladder stand in its folder.
        let mut found = results(out.path());
        for entry in std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path()) {
            found.extend(entry.is_dir().then(|| results(&entry)).into_iter().flatten());
        }
        assert!(found.len() >= runs, "{arguments}: {said}");
        for (result, _) in found {
            assert_eq!(result["connections"]["connected"], result["connections"]["planned"]);
            let told = &result["disclosed"]["broker"]["authentication"];
            assert_eq!(told, "user name and password", "{arguments}");
        }
        assert!(runs > 0 || output.status.success(), "{arguments}: {said}");
        assert_eq!(holding(out.path(), password), Vec::<PathBuf>::new(), "{arguments}");
        assert!(!said.contains(password), "{arguments}: {said}");
    }
}

#[test]
fn a_use_case_names_its_user_and_where_the_password_is() {
    let folder = tempfile::tempdir().unwrap();
    let (user_name, password) = ("weir-user", "p@ss=w0rd:x");
    let Some((_broker, address)) = Guarded::start(folder.path(), user_name, password) else {
        return;
    };
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    let p2p = include_str!("../../../../usecases/singlenode-p2p-1K-1K-1K-1K.toml");
    let run = |key: &str, value: &str, broker: &str| {
        let mine = folder.path().join("mine.toml");
        let connection = format!("[connection]\nuser_name = {user_name:?}\n{key} = {value:?}\n");
        std::fs::write(&mine, format!("{p2p}\n{connection}")).unwrap();
        let out = tempfile::tempdir().unwrap();
        let output = weir(&["bench", "run", mine.to_str().unwrap(), "--pin", "none", "--broker"])
            .arg(broker)
            .args(SMALL)
            .env("WEIR_TEST_PASSWORD", password)
            .arg("--out")
            .arg(out.path())
            .output()
            .unwrap();
        (output, out)
    };
    let url = format!("mqtt://{address}");
    let labelled = format!("mine@label={url}");
    let file = file.to_str().unwrap();
    for (key, value, broker) in [
        ("password_env", "WEIR_TEST_PASSWORD", &url),
        ("password_file", file, &url),
        ("password_file", file, &labelled),
    ] {
        let (output, out) = run(key, value, broker);
        let (result, _) = result(out.path());
        assert_whole(&result);
        let told = &result["disclosed"]["broker"]["authentication"];
        assert_eq!(told, "user name and password", "{key}");
        assert_eq!(holding(out.path(), password), Vec::<PathBuf>::new(), "{key}");
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(password), "{key}");
        }
    }
    let (output, _) = run("password_env", "WEIR_NO_SUCH", &url);
    assert!(error_of(&output).contains("the password_env WEIR_NO_SUCH"), "{output:?}");
    // Whom the URL names goes first.
    let (output, _) = run("password_file", file, &format!("mqtt://other@{address}"));
    assert!(error_of(&output).contains("refused CONNECT"), "{output:?}");
}

/// Writes a program of the shell.
fn script(folder: &Path, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// A broker below a script that outlives it: no end of a process tells that it is gone.
#[test]
fn a_broker_that_died_below_its_script_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{} broker --listen $1\nsleep 1000", env!("CARGO_BIN_EXE_weir"));
    let stand_in = script(folder.path(), "stand-in", &text);
    let run = Midway::start_with(&format!("mine={stand_in} {{address}}"));
    let broker = first_child(run.broker.as_raw_nonzero().get());
    let broker = rustix::process::Pid::from_raw(broker).unwrap();
    rustix::process::kill_process(broker, rustix::process::Signal::KILL).unwrap();
    let (code, result, _, _out) = run.end();
    assert_eq!((code, &result["verdict"]["status"]), (1, &"failed".into()));
    let reasons = result["verdict"]["reasons"].to_string();
    assert!(reasons.contains("nothing listens at 127.0.0.1:"), "{reasons}");
}

#[test]
fn a_broker_that_does_not_start_is_one_failed_cell_and_the_others_run() {
    let out = tempfile::tempdir().unwrap();
    let run = |brokers: &[&str]| {
        let mut command = weir(&["bench", "run", "fanout-1-1K-1-1K", "--pin", "none"]);
        command.args(SMALL).args(["--repeat", "2", "--cool-down", "0s", "--out"]).arg(out.path());
        brokers.iter().for_each(|broker| {
            command.args(["--broker", broker]);
        });
        command.output().unwrap()
    };
    let output = run(&["mine=false x", "weir"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FAILED: not started: mine does not answer MQTT"), "{text}");
    let all = results(&std::fs::read_dir(out.path()).unwrap().next().unwrap().unwrap().path());
    assert_eq!(all.len(), 4);
    for (result, folder) in all {
        let name = result["broker"]["name"].as_str().unwrap();
        let is_weir = name == "Weir";
        assert_eq!(result["connections"]["connected"].as_u64() > Some(0), is_weir, "{name}");
        assert_eq!(result["verdict"]["reasons"].to_string().contains("not started"), !is_weir);
        assert!(folder.join("broker.log").is_file(), "{name}");
    }
    // Where nothing runs at all there is nothing to tell but why.
    let output = run(&["mine=false x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error_of(&output).contains("not started: mine does not answer MQTT"), "{output:?}");
}

#[test]
fn a_broker_that_is_given_twice_is_two_brokers() {
    let out = tempfile::tempdir().unwrap();
    let output = weir(&["bench", "run", "fanout-1-1K-1-1K", "--pin", "none", "--repeat", "3"])
        .args(["--broker", "weir", "--broker", "weir@other", "--cool-down", "0s"])
        .args(["--scale", "0.01", "--duration", "1s", "--warm-up", "0s", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Weir@other 0.1.0 compared with Weir 0.1.0"), "{text}");
}

#[test]
fn errors_say_in_one_line_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.toml");
    std::fs::write(&file, "name = \"x\"\nrevison = 1\n").unwrap();
    let file = file.to_str().unwrap();
    let cases: [(&[&str], &[&str]); 12] = [
        (&["bench", "run", "p2p-1K", "--broker", "weir"], &["unknown use case", "did you mean"]),
        (&["bench", "suite", "huge"], &["unknown set", "basic, enterprise"]),
        (&["bench", "run", "p2p-1K-1K-1K-1K", "--broker", "emq"], &["unknown broker", "mosquitto"]),
        (&["bench", "run", file], &["broken.toml:2", "revison"]),
        (&["bench", "run", "basic"], &["unknown use case", "`weir bench suite basic`"]),
        (&["bench", "suite", "P2P-1k-1k-1k-1k"], &["unknown set", "`weir bench run P2P-1k-"]),
        (
            &["bench", "run", "p2p-1K-1K-1K-1K", "--broker", "localhost:1883"],
            &["unknown broker", "did you mean mqtt://localhost:1883?"],
        ),
        (&["bench", "run", "p2p-1K-1K-1K-1K", "--out", "/proc/none"], &["/proc/none", "--out DIR"]),
        (
            &["bench", "run", "p2p-1K-1K-1K-1K", "--broker", "mqtt://127.0.0.1:9"],
            &["127.0.0.1:9", "refused"],
        ),
        (
            &["bench", "run", "p2p-1K-1K-1K-1K", "--agent", "echo Welcome"],
            &["agent 1 of 1 (echo Welcome)", "agents' protocol", "Welcome"],
        ),
        (
            &["bench", "run", "p2p-1K-1K-1K-1K", "--broker", "mine=false x"],
            &["mine does not answer MQTT", "where to listen as {host}, {port}"],
        ),
        (&["bench", "run", "p2p-1K-1K-1K-1K", "--agents", "2000"], &["2000 agents", "--agents"]),
    ];
    for (arguments, parts) in cases {
        let output = weir(arguments).current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = error_of(&output);
        for part in parts {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}

/// Before the host is looked at, which takes a second and warns of what is no matter then.
#[test]
fn a_scale_that_is_none_is_refused_before_anything_is_done() {
    for scale in ["0", "-1", "1001", "inf", "NaN", "half"] {
        let output = weir(&["bench", "run", "p2p-1K-1K-1K-1K", "--scale", scale]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{scale}: {text}");
        assert!(text.contains("'--scale <SCALE>': it must be above 0 and at most 1000"), "{text}");
        assert!(!text.contains("warning"), "{text}");
    }
}

/// Else a suite of hours has a failed run at every place of a name that was mistyped.
#[test]
fn a_broker_that_is_not_there_is_told_before_anything_runs() {
    let out = tempfile::tempdir().unwrap();
    for command in ["run", "ladder"] {
        let output = weir(&["bench", command, "p2p-1K-1K-1K-1K", "--broker", "weir"])
            .args(SMALL)
            .args(["--broker", "mine=/no/such/program", "--out"])
            .arg(out.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(error_of(&output).contains("/no/such/program is not a program"), "{output:?}");
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "{command:?}");
    }
}

#[test]
fn a_file_limit_that_is_too_low_is_an_error_and_a_lower_one_a_smaller_scale() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |files: u32, use_case: &str| {
        Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -n {files}; exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_weir"))
            .args(["bench", "run", use_case, "--duration", "1s", "--warm-up", "0s"])
            // A broker with files only.
            .args(["--broker", "mosquitto", "--out"])
            .arg(folder.path())
            .output()
            .unwrap()
    };
    let output = limited(101, "p2p-1K-1K-1K-1K");
    assert_eq!(output.status.code(), Some(2));
    let error = error_of(&output);
    assert!(error.contains("open files") && error.contains("ulimit -n"), "{error}");
    if !Path::new("/usr/sbin/mosquitto").exists() {
        assert!(std::env::var_os("CI").is_none(), "no mosquitto; run scripts/setup");
        return eprintln!("skipped: no mosquitto; scripts/setup installs it");
    }
    let output = limited(300, "p2p-1K-1K-1K-1K");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("run at scale 0.1"), "{text}");
}

#[test]
fn the_broker_says_which_port_is_taken_and_which_key_is_wrong() {
    let broker = Broker::start();
    let output = weir(&["broker", "--listen", &broker.address]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = error_of(&output);
    assert!(error.contains(broker.port()) && error.contains("--listen"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, "[limits]\nqueue_max = 1\n").unwrap();
    let output = weir(&["broker", "--check", "--config"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = error_of(&output);
    assert!(error.contains("weir.toml:2") && error.contains("queue_max"), "{error}");
}

#[test]
fn mosquitto_that_is_not_there_can_be_installed() {
    let folder = tempfile::tempdir().unwrap();
    let script = "exec \"$0\" bench run p2p-1K-1K-1K-1K --broker mosquitto";
    if Path::new("/usr/sbin/mosquitto").exists() || Path::new("/usr/local/sbin/mosquitto").exists()
    {
        // It is found without PATH; the message is covered where it is not installed.
        return;
    }
    let output = Command::new("/bin/sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_weir")])
        .env("PATH", "")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(error_of(&output).contains("apt-get install mosquitto"));
}

#[test]
fn doctor_measures_the_load_generator_when_asked() {
    let output = weir(&["bench", "doctor", "--measure"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches(" messages per core-second (").count(), 2, "{text}");
}

#[test]
fn the_list_names_every_use_case() {
    let output = weir(&["bench", "list"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../usecases");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(text.contains(&format!("  {name} ")), "{name} is missing:\n{text}");
    }
}
