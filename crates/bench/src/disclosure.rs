//! Gathers what full disclosure asks for of a broker that runs, of the host and of the way between.
//!
//! Nothing here is left empty: what cannot be known says why.

mod network;

use crate::driver::Running;
use crate::host::Files;
use crate::numbers::grouped;
use crate::paths::without_folders;
use crate::result::{BrokerFacts, Disclosed, HostFacts, LoadFacts};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use weir_load::Outcome;
use weir_load::outcome::{Access, Handshakes};
use weir_load::plan::Transport;

/// Kernel settings beside those of [`crate::host`].
const SYSCTLS: &[&str] = &[
    "fs.nr_open",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
    "net.core.busy_poll",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.netfilter.nf_conntrack_max",
    "vm.overcommit_memory",
    "vm.swappiness",
];

/// A file in /proc may say that nothing is known of it.
const ABSENT: &str = "not known: the kernel of this host does not say";

/// What is asked of a broker somebody else runs.
const ELSEWHERE: &str = "not known: the broker was started by somebody else";

/// What is known before the first connection.
pub(crate) fn before(running: &Running, folder: &Path) -> Disclosed {
    let suite = std::env::current_exe().ok();
    Disclosed {
        run_by: std::env::var("WEIR_RUN_BY")
            .ok()
            .filter(|name| !name.trim().is_empty())
            .map_or_else(
                || "not named: the environment variable WEIR_RUN_BY is not set".into(),
                |name| name.trim().to_owned(),
            ),
        suite_sha256: suite.as_deref().map_or_else(|| ABSENT.into(), sha256_of_file),
        seed: "none: the use case alone determines the schedule".into(),
        broker: broker(running.pid),
        host: host(folder),
        network: network::facts(running.target, &running.login),
        load: LoadFacts {
            client_library: "Weir's own client, inside the suite's process".into(),
            connections_per_address: "all from the one address that the system chose".into(),
            ceiling: "not measured in this run: the generator's CPU and lag show how far away it \
                was; `weir bench doctor --measure` measures what a core of this host can generate"
                .into(),
        },
        absent: Vec::new(),
    }
}

/// What only the end of a run can tell: the spread of the round trip, the broker's log, and how
/// the load reached the broker.
pub(crate) fn after(
    disclosed: &mut Disclosed,
    running: &Running,
    folder: &Path,
    &Outcome { access, handshakes, .. }: &Outcome,
) {
    let spread = network::jitter(running.target, &running.login);
    let _ = write!(disclosed.network.jitter, "; after the run {spread}");
    let own = folder.join("broker.log");
    let logs = match running.logs() {
        logs if logs.is_empty() => vec![&*own],
        logs => logs,
    };
    let lines = |log: &&Path| {
        let log = std::fs::read(log).ok()?;
        Some(log.iter().filter(|byte| **byte == b'\n').count())
    };
    let lines: Vec<usize> = logs.iter().filter_map(lines).collect();
    disclosed.broker.log = match lines.iter().sum::<usize>() {
        _ if lines.is_empty() => ELSEWHERE.into(),
        count => {
            let each = if lines.len() > 1 { " in each node's folder" } else { "" };
            format!(
                "{count} lines in this run, kept as broker.log{each}; the log level is as \
                 configured"
            )
        }
    };
    disclosed.broker.tls = tls(access, handshakes);
    disclosed.broker.authentication = authentication(access).into();
}

fn or_absent(text: Option<String>) -> String {
    text.unwrap_or_else(|| ABSENT.into())
}

fn broker(pid: Option<u32>) -> BrokerFacts {
    let Some(pid) = pid else {
        let unknown = || ELSEWHERE.to_owned();
        return BrokerFacts {
            executable: unknown(),
            executable_sha256: unknown(),
            runtime: unknown(),
            processes: unknown(),
            limits: BTreeMap::from([("limits".into(), unknown())]),
            persistence: unknown(),
            authentication: String::new(),
            tls: String::new(),
            plugins: unknown(),
            log: unknown(),
        };
    };
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let configured = "as configured, otherwise its default".to_owned();
    BrokerFacts {
        executable: or_absent(
            program.as_ref().map(|of| without_folders(&of.display().to_string())),
        ),
        executable_sha256: program.as_deref().map_or_else(|| ABSENT.into(), sha256_of_file),
        runtime: runtime(pid),
        processes: processes(pid),
        limits: limits(&format!("proc/{pid}/limits")),
        persistence: configured.clone(),
        authentication: String::new(),
        tls: String::new(),
        plugins: configured,
        log: String::new(),
    }
}

/// What no CONNECT was sent of.
const NOT_USED: &str = "not known: no client got as far as CONNECT";

fn tls(access: Option<Access>, handshakes: Handshakes) -> String {
    let Handshakes { full, resumed } = handshakes;
    let (full, resumed) = (grouped(full), grouped(resumed));
    match access.map(|access| access.transport) {
        Some(Transport::Plain) => "none: plain TCP".into(),
        Some(Transport::Tls) => format!("TLS, handshakes: {full} full, {resumed} resumed"),
        Some(Transport::Ws) => "none: WebSocket".into(),
        Some(Transport::Wss) => {
            format!("TLS below WebSocket, handshakes: {full} full, {resumed} resumed")
        }
        None => NOT_USED.into(),
    }
}

fn authentication(access: Option<Access>) -> &'static str {
    match access.map(|access| (access.has_user_name, access.has_password)) {
        Some((false, false)) => "none: the clients give no name and no password",
        Some((true, false)) => "a user name, without a password",
        Some((true, true)) => "user name and password",
        Some((false, true)) => "a password, without a user name",
        None => NOT_USED,
    }
}

/// Names of the tree's processes, each with how many there are.
fn processes(pid: u32) -> String {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for name in crate::monitor::names(pid) {
        *names.entry(name).or_default() += 1;
    }
    let names: Vec<String> =
        names.iter().map(|(name, count)| format!("{count} x {name}")).collect();
    if names.is_empty() { ABSENT.into() } else { names.join(", ") }
}

/// A virtual machine or interpreter shows in the names of the processes.
fn runtime(pid: u32) -> String {
    const KNOWN: &[(&str, &str)] = &[
        ("beam", "Erlang's virtual machine"),
        ("java", "a Java virtual machine"),
        ("node", "Node.js"),
        ("python", "Python"),
    ];
    let names = crate::monitor::names(pid);
    let found = KNOWN.iter().find(|(part, _)| names.iter().any(|name| name.starts_with(part)));
    let runtime = found.map_or("none: it is native code", |(_, runtime)| *runtime);
    runtime.to_owned()
}

/// The lines of a `limits` file in /proc: soft and hard.
fn limits(path: &str) -> BTreeMap<String, String> {
    const NAMES: &[&str] = &[
        "Max address space",
        "Max data size",
        "Max locked memory",
        "Max open files",
        "Max processes",
        "Max stack size",
    ];
    let text = Files::here().read(path).unwrap_or_default();
    let of = |name: &&str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name));
        let mut words = rest.unwrap_or_default().split_whitespace();
        let value = match (words.next(), words.next()) {
            (Some(soft), Some(hard)) => format!("{soft}, hard {hard}"),
            _ => ABSENT.into(),
        };
        (name.trim_start_matches("Max ").to_owned(), value)
    };
    NAMES.iter().map(of).collect()
}

fn host(folder: &Path) -> HostFacts {
    let sysctls = SYSCTLS.iter().map(|name| {
        (
            (*name).to_owned(),
            Files::here().sysctl(name).unwrap_or_else(|| "not known, or not on this host".into()),
        )
    });
    let clock = "sys/devices/system/clocksource/clocksource0";
    let source = Files::here().text(format!("{clock}/current_clocksource"));
    let others = Files::here().text(format!("{clock}/available_clocksource")).unwrap_or_default();
    HostFacts {
        smt: match Files::here().text("sys/devices/system/cpu/smt/active").as_deref() {
            Some("1") => "on: processors are threads that share cores".into(),
            Some("0") => "off".into(),
            _ => ABSENT.into(),
        },
        numa: or_absent(
            Files::here()
                .text("sys/devices/system/node/online")
                .map(|nodes| format!("nodes {nodes}")),
        ),
        disk: disk(folder),
        cgroup: cgroup(),
        clock_source: or_absent(source.map(|source| format!("{source}, of {others}"))),
        huge_pages: or_absent(Files::here().text("sys/kernel/mm/transparent_hugepage/enabled")),
        pressure_before: pressure(),
        limits: limits("proc/self/limits"),
        sysctls: sysctls.collect(),
    }
}

/// Share of the last ten seconds in which some process had to wait.
fn pressure() -> String {
    let of = |what: &str| {
        let text = Files::here().text(format!("proc/pressure/{what}"))?;
        let share = text.split("avg10=").nth(1)?.split_whitespace().next()?.to_owned();
        Some(format!("{what} {share} %"))
    };
    let all: Vec<String> = ["cpu", "memory", "io"].into_iter().filter_map(of).collect();
    if all.is_empty() { ABSENT.into() } else { all.join(", ") + " of 10 s" }
}

fn cgroup() -> String {
    let group = Files::here().text("proc/self/cgroup");
    let group = group.as_deref().and_then(|text| text.lines().find_map(|l| l.strip_prefix("0::")));
    let Some(group) = group else { return ABSENT.into() };
    let of = |what: &str| {
        let limit = Files::here().text(format!("sys/fs/cgroup{group}/{what}"));
        format!("{what} {}", limit.as_deref().unwrap_or("without limit"))
    };
    format!("{group}: {}", ["cpu.max", "memory.max", "pids.max"].map(of).join(", "))
}

/// The file system of a folder, and what it stands on.
fn disk(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.into());
    let mounts = Files::here().text("proc/self/mounts").unwrap_or_default();
    let mut best: Option<(&str, &str, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(at), Some(kind)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let is_longer = best.is_none_or(|(_, known, _)| at.len() >= known.len());
        if folder.starts_with(at) && is_longer {
            best = Some((device, at, kind));
        }
    }
    let known = best.map(|(device, at, kind)| format!("{kind} on {device} at {at}"));
    or_absent(known.as_deref().map(without_folders))
}

/// SHA-256 of a program in hex; counted once for each path of this process.
fn sha256_of_file(path: &Path) -> String {
    static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    if let Some(known) = KNOWN.lock().ok().and_then(|known| known.get(path).cloned()) {
        return known;
    }
    let mut hash = Sha256::new();
    let counted = std::fs::File::open(path)
        .and_then(|mut file| std::io::copy(&mut file, &mut hash))
        .map_err(|error| without_folders(&format!("not known: {}: {error}", path.display())));
    let text = match counted {
        Ok(_) => hash.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        Err(why) => why,
    };
    if let Ok(mut known) = KNOWN.lock() {
        known.insert(path.into(), text.clone());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Profile;
    use crate::verdict::tests::outcome;

    /// Every text below a value, by its pointer.
    fn texts(at: &str, value: &serde_json::Value, found: &mut Vec<(String, String)>) {
        match value {
            serde_json::Value::Object(fields) => {
                fields.iter().for_each(|(name, of)| texts(&format!("{at}/{name}"), of, found));
            }
            serde_json::Value::String(text) => found.push((at.into(), text.clone())),
            other => found.push((at.into(), other.to_string())),
        }
    }

    #[test]
    fn nothing_is_left_empty_of_a_broker_that_runs_nor_of_one_elsewhere() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let stop = weir_load::Stop::default();
        let at_end = stop.clone();
        let broker = std::thread::spawn(move || weir_load::null::serve(listener, 0.0, &stop));
        let folder = tempfile::tempdir().unwrap();
        for pid in [Some(std::process::id()), None] {
            let url =
                pid.map_or(format!("mqtt://{target}"), |pid| format!("mqtt://{target}?pid={pid}"));
            let driver = crate::driver::parse(&url).unwrap();
            let running = driver.start(Profile::Default, folder.path(), None).unwrap();
            let mut disclosed = before(&running, folder.path());
            let access = Some(Access::default());
            after(&mut disclosed, &running, folder.path(), &Outcome { access, ..outcome() });
            let mut found = Vec::new();
            texts("", &serde_json::to_value(&disclosed).unwrap(), &mut found);
            assert!(found.len() > 40, "{found:?}");
            for (at, text) in found {
                assert!(!text.trim().is_empty(), "{at} is empty");
            }
            let jitter = &disclosed.network.jitter;
            assert_eq!(jitter.matches(" us").count(), 2, "before and after: {jitter}");
        }
        at_end.stop();
        broker.join().unwrap().unwrap();
    }

    #[test]
    fn what_was_used_is_told_and_nothing_else() {
        let access = |has_user_name, has_password| {
            let transport = Transport::Plain;
            authentication(Some(Access { transport, has_user_name, has_password }))
        };
        let told = [(false, false), (true, false), (true, true)].map(|(n, p)| access(n, p));
        let anonymous = "none: the clients give no name and no password";
        assert_eq!(told, [anonymous, "a user name, without a password", "user name and password"]);
        let none = Handshakes::default();
        assert_eq!(tls(Some(Access::default()), none), "none: plain TCP");
        assert_eq!((tls(None, none).as_str(), authentication(None)), (NOT_USED, NOT_USED));
        let access = Access { transport: Transport::Wss, ..Access::default() };
        let told = tls(Some(access), Handshakes { full: 1_200, resumed: 3 });
        assert_eq!(told, "TLS below WebSocket, handshakes: 1,200 full, 3 resumed");
    }

    #[test]
    fn the_processes_of_a_broker_are_named_and_counted() {
        let sleeper = || {
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("60").spawn().unwrap()
        };
        let mut children = [sleeper(), sleeper()];
        let text = processes(std::process::id());
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert!(text.contains(&format!("1 x {}", own.trim())), "{text}");
        assert!(text.contains(" x sleep"), "{text}");
    }

    #[test]
    fn the_lines_of_a_brokers_log_are_counted() {
        let null = crate::run::tests::NullBroker::start();
        let folder = tempfile::tempdir().unwrap();
        let running = null.driver().start(Profile::Default, folder.path(), None).unwrap();
        let told = || {
            let mut disclosed = Disclosed::default();
            after(&mut disclosed, &running, folder.path(), &outcome());
            disclosed.broker.log
        };
        assert_eq!(told(), ELSEWHERE, "there is none");
        std::fs::write(folder.path().join("broker.log"), "starting\nready\nbye\n").unwrap();
        assert!(told().starts_with("3 lines in this run"), "{}", told());
    }

    #[test]
    fn a_program_is_known_by_its_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, "abc").unwrap();
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of_file(&path), hash);
        assert!(sha256_of_file(&folder.path().join("none")).starts_with("not known: "));
    }
}
