//! The contract of client stacks: one that keeps it, and some that do not, none of which may leave
//! a process behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_stacks::{Clients, Point, Standing, Workflow, read};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// What the null stack is in a stack.toml.
const NULL: &str = r#"
name = "null"
language = "Rust"
about = "does next to nothing"
run = ["{weir}", "bench", "null-stack"]
variants = [
    { name = "null" },
    { name = "null-v5", args = ["--v5"] },
]
"#;

struct Stacks {
    root: TempDir,
}

impl Stacks {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        std::fs::create_dir(root.path().join("stacks")).unwrap();
        Self { root }
    }

    fn add(&self, name: &str, toml: &str) {
        let folder = self.root.path().join("stacks").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stack.toml"), toml).unwrap();
    }

    /// A stack that is a shell script; `pids` gets its process and those it starts.
    fn script(&self, name: &str, text: &str) {
        let run = "run = [\"{stack}/main.sh\"]";
        self.add(name, &format!("name = \"{name}\"\nlanguage = \"Shell\"\nabout = \"x\"\n{run}\n"));
        let path = self.root.path().join("stacks").join(name).join("main.sh");
        let pids = self.pids();
        let head = format!("#!/bin/sh\npids='{}'\necho $$ >>\"$pids\"\n", pids.display());
        std::fs::write(&path, head + text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn pids(&self) -> PathBuf {
        self.root.path().join("pids")
    }

    fn clients(&self, arguments: &[&str]) -> Output {
        Command::new(WEIR)
            .args(["bench", "clients"])
            .args(arguments)
            .arg("--stacks")
            .arg(self.root.path().join("stacks"))
            .env("XDG_CACHE_HOME", self.root.path().join("cache"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs, and what is kept.
    fn run(&self, arguments: &[&str]) -> (Output, Clients, PathBuf) {
        let out = self.root.path().join("out");
        let shown = out.display().to_string();
        let short = ["--duration", "300ms", "--warm-up", "100ms", "--out", &shown];
        let output = self.clients(&[&["run"][..], &short, arguments].concat());
        let mut folders = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        let folder = folders.next().unwrap_or_else(|| panic!("no results: {output:?}"));
        (output, read(&folder).unwrap(), folder)
    }
}

/// Whether a process has ended; one that nobody has waited for yet has.
fn has_ended(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(')').next().unwrap_or_default().trim().starts_with('Z')
}

fn assert_all_ended(pids: &Path) {
    let text = std::fs::read_to_string(pids).unwrap();
    assert!(!text.trim().is_empty());
    let deadline = Instant::now() + Duration::from_secs(20);
    for pid in text.split_whitespace() {
        while !has_ended(pid) {
            assert!(Instant::now() < deadline, "process {pid} was left behind");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_stack_that_keeps_the_contract_gets_all_and_gives_back_what_matches() {
    let stacks = Stacks::new();
    stacks.add("null", NULL);
    let rates = ["--rate", "500", "--rate", "2000", "--qos", "0", "--qos", "1", "--repeat", "2"];
    let workflows = ["--workflow", "workflow", "--workflow", "subscribe"];
    let (output, clients, folder) = stacks.run(&[&rates[..], &workflows].concat());
    assert!(output.status.success(), "{output:?}");
    // Two variants, two rates, two QoS, two rounds, two workflows.
    assert_eq!(clients.points.len(), 32);
    for point in &clients.points {
        let of = point.ledger;
        // A host under load may make it late, but not lose anything.
        assert!(!matches!(point.standing, Standing::Wrong | Standing::Broken), "{point:?}");
        assert_eq!((of.received, of.delivered, of.lost), (of.sent, of.required, 0), "{point:?}");
        assert_eq!(of.matched, of.required, "{point:?}");
        assert_eq!(of.required > 0, point.workflow == Workflow::Workflow);
        assert!(point.handled > 0 && point.rss_max_bytes > 0, "{point:?}");
        assert_eq!(point.level, Some(if point.stack == "null-v5" { 5 } else { 4 }));
        assert_eq!(point.latency.is_some(), point.workflow == Workflow::Workflow);
        assert_eq!(point.acknowledge.is_some(), point.qos == 1);
    }
    // Not in the order of the command line in each round.
    let order = |round| -> Vec<(&str, u64)> {
        let of_round = clients.points.iter().filter(move |point| point.round == round);
        of_round.map(|point| (&*point.stack, point.rate_per_s as u64)).collect()
    };
    assert_ne!(order(1), order(2));
    let [json, md, html] = ["clients.json", "clients.md", "clients.html"].map(|name| {
        std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    assert!(json.contains("\"schema\": 1"));
    assert!(md.contains("## entire workflow, QoS 1") && md.contains("null-v5"), "{md}");
    assert!(html.contains("kibo-c"));
    let shown = folder.display().to_string();
    let report = Command::new(WEIR).args(["bench", "clients", "report", &shown]).output().unwrap();
    assert!(report.status.success());
    assert!(String::from_utf8_lossy(&report.stdout).starts_with(&md), "{report:?}");
}

#[test]
fn publish_and_connect_are_counted_on_both_sides() {
    let stacks = Stacks::new();
    stacks.add("null", NULL);
    let workflows = ["--workflow", "publish", "--workflow", "connect", "--qos", "1"];
    let (output, clients, _) = stacks.run(&[&workflows[..], &["--rate", "300"]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(clients.points.len(), 4);
    for point in &clients.points {
        assert!(point.handled > 0 && point.ledger.lost == 0, "{point:?}");
        assert!(point.ledger.sent > 0, "{point:?}");
    }
}

#[test]
fn a_knee_is_looked_for_step_by_step() {
    let stacks = Stacks::new();
    stacks.add("null", &NULL.replace("    { name = \"null-v5\", args = [\"--v5\"] },\n", ""));
    let search = ["--knee", "--step", "100ms", "--rate", "1000", "--p99", "1ms"];
    let (_, clients, _) = stacks.run(&search);
    let [knee] = &clients.knees[..] else { panic!("one knee: {clients:?}") };
    assert!(knee.ending.is_some() && knee.broken.is_none(), "{knee:?}");
    assert!(knee.steps.len() > 3, "{knee:?}");
    let is_met = |point: &&Point| point.standing == Standing::Kept && point.reasons.is_empty();
    if let Some(rate) = knee.rate_per_s {
        let highest = knee.steps.iter().filter(is_met).map(|of| of.rate_per_s).fold(0.0, f64::max);
        assert!(highest >= rate);
        assert!(knee.per_core_s.is_some_and(|score| score > 0.0));
    }
}

#[test]
fn a_ledger_that_is_not_right_fails_the_run_and_says_what_was_found() {
    let stacks = Stacks::new();
    let faults = ["lose", "double", "alter", "invent"];
    let variant = |fault| format!("{{ name = \"{fault}\", args = [\"--fault\", \"{fault}\"] }},\n");
    let variants: String = faults.map(variant).concat();
    let head = NULL.split("variants").next().unwrap();
    stacks.add("null", &format!("{head}variants = [\n{variants}]\n"));
    let (output, clients, _) = stacks.run(&["--rate", "2000"]);
    assert_eq!(output.status.code(), Some(1));
    let why = ["lost", "duplicated", "altered", "nobody asked for"];
    for (fault, why) in faults.iter().zip(why) {
        let point = clients.points.iter().find(|point| point.stack == *fault).unwrap();
        assert_eq!(point.standing, Standing::Wrong, "{point:?}");
        assert!(point.reasons.iter().any(|reason| reason.contains(why)), "{point:?}");
    }
}

/// A name, a script, and what is said of it.
const BAD: &[(&str, &str, &str)] = &[
    ("silent", "sleep 1000", "did not say `ready`"),
    ("wrong", "echo hello; sleep 1000", "printed \"hello\" where `ready` was due"),
    ("dies", "echo out of memory >&2; exit 3", "its log ends: out of memory"),
    ("floods", "while :; do echo ready a b c d; done", "the stack is ready and has not subscribed"),
    ("long", "head -c 100000 /dev/zero | tr '\\0' x; sleep 1000", "printed \"xxx"),
    (
        "deaf",
        "trap '' TERM HUP INT; sleep 1000 & echo $! >>\"$pids\"; while :; do sleep 1; done",
        "did not say `ready`",
    ),
    ("daemon", "(setsid sleep 1000 & echo $! >>\"$pids\"); exit 0", "did not say `ready`"),
];

#[test]
fn a_stack_that_misbehaves_is_named_with_what_it_did_and_leaves_nothing_behind() {
    let stacks = Stacks::new();
    for (name, script, _) in BAD {
        stacks.script(name, script);
    }
    stacks.add("gone", "name = \"gone\"\nlanguage = \"x\"\nabout = \"x\"\nrun = [\"/no/such\"]\n");
    let (output, clients, _) = stacks.run(&["--rate", "500", "--patience", "1500ms"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for (name, _, why) in BAD.iter().chain(&[("gone", "", "cannot be started")]) {
        let point = clients.points.iter().find(|point| point.stack == *name).unwrap();
        assert_eq!(point.standing, Standing::Broken);
        assert!(point.reasons.iter().any(|of| of.contains(why)), "{name}: {:?}", point.reasons);
    }
    assert_all_ended(&stacks.pids());
}

/// Becomes the null stack, with its output changed by `sed`.
fn filtered(sed: &str) -> String {
    format!("'{WEIR}' bench null-stack \"$@\" | sed -u '{sed}'\n")
}

#[test]
fn a_stack_that_misbehaves_under_way_is_named_too() {
    let stacks = Stacks::new();
    stacks.script("chatty", &filtered("s/^counts /how many: &/"));
    stacks.script("extra", &filtered("s/^counts /counts received=0\\n&/"));
    stacks.script("late", &(filtered("") + "sleep 1000 & echo $! >>\"$pids\"; wait\n"));
    stacks.script("fails", &(filtered("") + "exit 5\n"));
    stacks.script("lies", &filtered("s/received=[0-9]*/received=7/"));
    let (output, clients, _) = stacks.run(&["--rate", "500", "--patience", "2s"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let expected = [
        ("chatty", Standing::Broken, "where `counts` was due"),
        ("extra", Standing::Broken, "where `counts` was due"),
        ("late", Standing::Broken, "did not end within"),
        ("fails", Standing::Broken, "ended with exit status: 5"),
        ("lies", Standing::Wrong, "results of messages it did not count"),
    ];
    for (name, standing, why) in expected {
        let point = clients.points.iter().find(|point| point.stack == name).unwrap();
        assert_eq!(point.standing, standing, "{point:?}");
        assert!(point.reasons.iter().any(|of| of.contains(why)), "{name}: {:?}", point.reasons);
    }
    assert_all_ended(&stacks.pids());
}

#[test]
fn a_stack_ends_when_the_runner_is_killed() {
    let stacks = Stacks::new();
    stacks.script("stuck", "trap '' TERM; sleep 1000 & echo $! >>\"$pids\"; wait; sleep 1000");
    let out = stacks.root.path().join("out");
    let mut runner = Command::new(WEIR)
        .args(["bench", "clients", "run", "--rate", "500", "--stacks"])
        .arg(stacks.root.path().join("stacks"))
        .arg("--out")
        .arg(&out)
        .env("XDG_CACHE_HOME", stacks.root.path().join("cache"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pids = || std::fs::read_to_string(stacks.pids()).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(20);
    while pids().lines().count() < 2 {
        assert!(Instant::now() < deadline, "the stack was not started");
        std::thread::sleep(Duration::from_millis(10));
    }
    runner.kill().unwrap();
    runner.wait().unwrap();
    assert_all_ended(&stacks.pids());
}

#[test]
fn the_list_says_what_is_missing_and_setup_says_what_cannot_be_had() {
    let stacks = Stacks::new();
    stacks.add("null", NULL);
    let setup = "setup = [[\"sh\", \"-c\", \"echo no network >&2; exit 1\"]]";
    let head = "name = \"far\"\nlanguage = \"x\"\nabout = \"x\"\nrun = [\"true\"]\n";
    stacks.add("far", &format!("{head}{setup}\n"));
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let list = text(&stacks.clients(&["list"]));
    assert!(list.contains("not set up") && list.contains("does next to nothing"), "{list}");
    let output = stacks.clients(&["setup"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.contains("null-v5: here") && said.contains("far: cannot be had"), "{said}");
    assert!(said.contains("no network"), "{said}");
    for named in [&["--stack", "far"][..], &["--stack", "far", "--stack", "null"]] {
        let output = stacks.clients(&[&["run"], named].concat());
        assert_eq!(output.status.code(), Some(2));
    }
    let output = stacks.clients(&["list", "--stack", "near"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("far, null, null-v5"), "{output:?}");
}

#[test]
fn each_way_of_publishing_wrongly_is_named() {
    let stacks = Stacks::new();
    let expected = [
        ("stray", "published to another topic"),
        ("retain", "published with RETAIN"),
        ("swap", "results out of order"),
        ("overstate", "results counted that never came"),
    ];
    let line =
        |fault: &str| format!("    {{ name = \"{fault}\", args = [\"--fault\", \"{fault}\"] }},\n");
    let faults: String = expected.iter().map(|(fault, _)| line(fault)).collect();
    let toml = NULL.replace("variants = [\n", &format!("variants = [\n{faults}"));
    stacks.add("null", &toml);
    let (output, clients, _) = stacks.run(&["--rate", "2000"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for (fault, why) in expected {
        let point = clients.points.iter().find(|point| point.stack == fault).unwrap();
        assert_eq!(point.standing, Standing::Wrong, "{point:?}");
        assert!(point.reasons.iter().any(|of| of.contains(why)), "{fault}: {:?}", point.reasons);
    }
}
