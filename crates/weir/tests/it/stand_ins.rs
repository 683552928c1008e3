//! The contract of every driver, with a program that stands in for its broker: a script that
//! answers to the broker's command line, insists on being told its port as the broker would be,
//! leaves a daemon behind, and becomes `weir broker`.

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_bench::driver::{Demand, Driver, Profile, names, parse_with};
use weir_bench::host::round_trip_us;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// How a broker is played.
#[derive(Clone, Copy)]
struct StandIn {
    driver: &'static str,
    /// Where its program is in its installation.
    program: &'static str,
    /// Who says the version: a program of the installation, and with which argument.
    asked: (&'static str, &'static str),
    /// What it says.
    answer: &'static str,
    /// Another file of the installation, and its text.
    file: (&'static str, &'static str),
    /// What the driver makes of all that.
    version: &'static str,
}

const fn plain(
    driver: &'static str,
    program: &'static str,
    asked: &'static str,
    answer: &'static str,
    version: &'static str,
) -> StandIn {
    StandIn { driver, program, asked: (program, asked), answer, file: ("README", ""), version }
}

const STAND_INS: &[StandIn] = &[
    plain("weir", "bin/weir", "--version", "weir 0.1.0 (d3f5a2e-dirty)", "0.1.0"),
    plain("mosquitto", "mosquitto", "-h", "mosquitto version 2.0.11", "2.0.11"),
    plain(
        "nanomq",
        "nanomq",
        "--version",
        "Usage: nanomq { start | stop | restart | reload } [--help]\n\n\
         NanoMQ Messaging Engine for Edge Computing & Messaging bus v0.21.8-8",
        "0.21.8-8",
    ),
    StandIn {
        file: ("releases/emqx_vars", "REL_NAME=\"emqx\"\nREL_VSN=\"5.8.6\"\nERTS_VSN=\"14.2.5\"\n"),
        ..plain("emqx5", "bin/emqx", "never asked", "", "5.8.6")
    },
    StandIn {
        file: ("releases/emqx_vars", "REL_NAME=\"emqx\"\nREL_VSN=\"4.4.19\"\nERTS_VSN=\"12.3\"\n"),
        ..plain("emqx4", "bin/emqx", "never asked", "", "4.4.19")
    },
    StandIn {
        file: ("releases/start_erl.data", "14.2.5 2.0.1\n"),
        ..plain("vernemq", "bin/vernemq", "never asked", "", "2.0.1")
    },
    StandIn {
        file: ("lib/hivemq-community-edition-embedded-2024.9.jar", ""),
        ..plain("hivemq-ce", "bin/run.sh", "never asked", "", "2024.9")
    },
    plain(
        "flashmq",
        "flashmq",
        "--version",
        "FlashMQ Version 1.26.2 with SSE4.2 support",
        "1.26.2",
    ),
    plain("rmqttd", "rmqttd", "--version", "rmqtt/0.24.0 rustc/1.95.0", "0.24.0"),
    plain("rumqttd", "rumqttd", "--version", "rumqttd 0.20.0", "0.20.0"),
    StandIn {
        asked: ("sbin/rabbitmqctl", "version"),
        ..plain("rabbitmq", "sbin/rabbitmq-server", "never asked", "3.10.8", "3.10.8")
    },
    plain("nats-server", "nats-server", "--version", "nats-server: v2.9.10", "2.9.10"),
    // Its version is read out of the program, which this one cannot play.
    plain("mochi", "mochi", "never asked", "", "unknown"),
    plain("aedes", "bin/aedes", "--version", "1.2.0", "1.2.0"),
];

/// The start of a broker: the port has to be a word of its command line, environment or
/// configuration, beside what the suite tells every command of a user's.
const START: &str = r#"
told='^\(ADDRESS\|HOST\|PORT\|PORT_[A-Z0-9]*\|CONFIG\|FOLDER\)='
{ printf '%s\n' "$@"; env | grep -v "$told"; cat "$CONFIG" 2>/dev/null; } | grep -qw "$PORT" || {
    echo "nobody told me to listen on port $PORT"
    exit 1
}
(setsid sleep 1000 & echo $! >"$FOLDER/daemon.pid")
exec "$WEIR_STAND_IN" broker --listen "$ADDRESS" ${PORT_V5:+--listen "$HOST:$PORT_V5"}
"#;

fn played(driver: &str) -> StandIn {
    *STAND_INS.iter().find(|of| of.driver == driver).unwrap()
}

fn write_program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Installs a stand-in below `root`, and says where its program is.
fn install(of: &StandIn, root: &Path) -> PathBuf {
    let (asked, argument) = of.asked;
    let answer = format!("if [ \"$*\" = '{argument}' ]; then echo '{}'; exit; fi\n", of.answer);
    let head = format!("#!/bin/sh\nWEIR_STAND_IN='{WEIR}'\n");
    write_program(&root.join(asked), &format!("{head}{answer}"));
    write_program(&root.join(of.program), &format!("{head}{answer}{START}"));
    let file = root.join(of.file.0);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, of.file.1).unwrap();
    root.join(of.program)
}

fn driver(of: &StandIn, root: &Path) -> Box<dyn Driver> {
    let program = install(of, root);
    parse_with(&format!("{}={}", of.driver, program.display()), Path::new(WEIR)).unwrap()
}

/// Whether a process has ended; one that nobody has waited for yet has.
fn has_ended(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z')
}

#[test]
fn every_driver_has_a_stand_in() {
    let played: Vec<&str> = STAND_INS.iter().map(|of| of.driver).collect();
    for name in names() {
        assert!(played.contains(&name), "{name} is not played");
    }
}

#[test]
fn every_driver_starts_its_broker_and_leaves_nothing_behind() {
    for of in STAND_INS {
        for profile in [Profile::Default, Profile::Tuned, Profile::Durable] {
            let (root, run) = (TempDir::new().unwrap(), TempDir::new().unwrap());
            let driver = driver(of, root.path());
            if !driver.has(profile) {
                continue;
            }
            let name = driver.name().to_owned();
            let started = driver.start(profile, run.path(), None);
            let mut running = started.unwrap_or_else(|error| panic!("{name} {profile}: {error}"));

            let broker = running.broker.clone();
            assert_eq!((broker.driver.as_str(), broker.version.as_str()), (of.driver, of.version));
            assert_eq!(broker.address, running.target.to_string());
            assert!(!broker.profile_changes.is_empty() && !broker.configuration.is_empty());
            let shown = broker.command.join(" ");
            assert!(!shown.contains(&*run.path().to_string_lossy()), "{name}: {shown}");
            assert!(round_trip_us(running.target, &running.login).is_some(), "{name}");
            assert_eq!(running.exited(Duration::ZERO), None);

            let daemon = std::fs::read_to_string(run.path().join("daemon.pid")).unwrap();
            let (daemon, pid) = (daemon.trim(), running.pid.unwrap().to_string());
            assert!(!has_ended(daemon) && !has_ended(&pid), "{name}");
            let target = running.target;
            running.stop();
            assert!(has_ended(&pid), "{name} left its process");
            assert!(has_ended(daemon), "{name} left a daemon");
            assert!(TcpStream::connect(target).is_err(), "{name} left a listener");
            assert!(!run.path().join("broker-data").exists(), "{name} left its data");
            assert!(run.path().join("broker.log").exists(), "{name} has no log");
        }
    }
}

#[test]
fn a_broker_whose_guard_is_killed_is_ended_all_the_same() {
    let (root, run) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let driver = driver(&played("mosquitto"), root.path());
    let mut running = driver.start(Profile::Default, run.path(), None).unwrap();
    let pid = running.pid.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap();
    let guard = rustix::process::Pid::from_raw(parent.parse().unwrap()).unwrap();
    rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
    let patience = Duration::from_secs(30);
    assert!(running.exited(patience).is_some_and(|why| why.contains("guard")));
    running.stop();
    let deadline = Instant::now() + patience;
    while !has_ended(&pid.to_string()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(has_ended(&pid.to_string()));
    // Nothing but the test can end what the guard would have ended.
    let daemon = std::fs::read_to_string(run.path().join("daemon.pid")).unwrap();
    let daemon = rustix::process::Pid::from_raw(daemon.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_program_that_ends_or_listens_nowhere_is_an_error_with_its_last_words() {
    let (root, run) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let program = root.path().join("broker");
    write_program(&program, "#!/bin/sh\necho 'no licence found' >&2\nexit 3\n");
    let driver = parse_with(&format!("mine={}", program.display()), Path::new(WEIR)).unwrap();
    let error = driver.start(Profile::Default, run.path(), None).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("no licence found"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_command_of_the_users_is_told_where_to_listen() {
    let (root, run) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let text = format!("mine={WEIR} broker --listen {{host}}:{{port}}");
    let driver = parse_with(&text, Path::new(WEIR)).unwrap();
    let running = driver.start(Profile::Default, run.path(), None).unwrap();
    assert_eq!(
        (running.broker.name.as_str(), running.broker.version.as_str()),
        ("mine", "unknown")
    );
    running.stop();
    let program = root.path().join("broker");
    write_program(&program, &format!("#!/bin/sh\nexec {WEIR} broker --listen $ADDRESS\n"));
    let driver = parse_with(&format!("mine={}", program.display()), Path::new(WEIR)).unwrap();
    driver.start(Profile::Default, run.path(), None).unwrap().stop();
}

/// Takes one connection after the other until something is said there, and keeps who came first.
const LISTENER: &str = r#"#!/usr/bin/env python3
import os, re, socket
data = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
port = re.search(r"tcp.default = .*:(\d+)", open(data + "/etc/vernemq.conf").read())[1]
listener = socket.create_server(("127.0.0.1", int(port)))
while not listener.accept()[0].recv(1):
    pass
open(data + "/../came", "a").write("client\n")
"#;

/// VerneMQ refuses a node that has ever had a client.
#[test]
fn a_node_joins_the_others_before_anything_is_said_to_it() {
    let (root, run) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let driver = driver(&played("vernemq"), root.path());
    write_program(&root.path().join("bin/vernemq"), LISTENER);
    let join = "#!/bin/sh\necho \"$*\" >>\"$(dirname \"$0\")/../../came\"; echo Done\n";
    write_program(&root.path().join("bin/vmq-admin"), join);
    let mut demand = Demand::default();
    demand.nodes = 2;
    driver.start_for(&demand, Profile::Default, run.path(), None).unwrap_err();
    let came = |node| std::fs::read_to_string(run.path().join(node).join("came")).unwrap();
    assert_eq!(came("node-1"), "client\n");
    assert!(came("node-2").starts_with("cluster join discovery-node=weir"), "{}", came("node-2"));
}

#[test]
fn a_version_of_another_driver_is_refused() {
    let root = TempDir::new().unwrap();
    let of = StandIn { driver: "emqx4", ..played("emqx5") };
    let error = driver(&of, root.path()).about(Profile::Default).unwrap_err().to_string();
    assert!(error.contains("5.8.6") && error.contains("emqx4 must be 4.x"), "{error}");
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(WEIR).arg("bench").args(arguments).env_remove("WEIR_LOG").output().unwrap()
}

#[test]
fn what_a_broker_lacks_is_a_cell_that_says_so_and_no_failure() {
    let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let program = install(&played("nats-server"), root.path());
    let broker = format!("nats-server={}", program.display());
    let folder = out.path().to_str().unwrap();
    let output = bench(&[
        "run",
        "sharedsub-1K-5-1K-1K",
        "--broker",
        &broker,
        "--scale",
        "0.1",
        "--out",
        folder,
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let reason = "not supported: MQTT 5.0, shared subscriptions";
    assert!(text.contains(&format!("NATS 2.9.10: {reason}")), "{text}");
    let runs: Vec<PathBuf> =
        std::fs::read_dir(out.path()).unwrap().map(|e| e.unwrap().path()).collect();
    let run = runs.iter().find(|run| run.is_dir()).unwrap();
    let result = std::fs::read_to_string(run.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["verdict"]["status"], "unsupported");
    assert_eq!(result["verdict"]["reasons"][0], reason);
    assert!(std::fs::read_to_string(run.join("report.html")).unwrap().contains(reason));
    assert!(!run.join("broker.log").exists(), "it was started");
}

#[test]
fn a_use_case_is_run_with_its_profile_where_the_broker_has_it() {
    let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let of = |broker: &str, more: &[&str]| {
        let out = out.path().join(format!("{}-{}", broker.len(), more.len()));
        let run = ["run", "durable-p2p-1K-1K-1K-10K", "--scale", "0.01", "--duration", "1s"];
        let how = ["--warm-up", "0s", "--broker", broker, "--out", out.to_str().unwrap()];
        let output = bench(&[&run[..], &how, more].concat());
        assert!(output.status.code().is_some_and(|code| code < 2), "{output:?}");
        let runs = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        let run = runs.into_iter().find(|run| run.join("result.json").exists()).unwrap();
        let result = std::fs::read_to_string(run.join("result.json")).unwrap();
        let result: serde_json::Value = serde_json::from_str(&result).unwrap();
        let changes = result["broker"]["profile_changes"].to_string();
        (result["broker"]["profile"].as_str().unwrap().to_owned(), changes)
    };
    let other = "not the use case's profile durable";
    let (profile, changes) = of("weir", &[]);
    assert!(profile == "durable" && !changes.contains(other), "{profile} {changes}");
    let (profile, changes) = of("weir", &["--profile", "tuned"]);
    assert!(profile == "tuned" && changes.contains(other), "{profile} {changes}");
    // Of one that has no such profile.
    let own = format!("rumqttd={}", install(&played("rumqttd"), root.path()).display());
    let (profile, changes) = of(&own, &[]);
    assert!(profile == "default" && changes.contains(other), "{profile} {changes}");
}

#[test]
fn the_list_of_brokers_names_all_and_how_to_have_them() {
    let output = bench(&["brokers"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    for name in names() {
        assert!(text.contains(&format!("| {name} ")), "{name}:\n{text}");
    }
    // Of one that no package registry has: so it is to be had elsewhere.
    for part in [env!("CARGO_PKG_VERSION"), "contract only", "nanomq.io/downloads"] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let output = bench(&["brokers", "setup", "nanomq"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("nanomq cannot be set up from here"), "{error}");
}
