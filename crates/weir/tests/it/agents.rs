//! Agents: what they measure together is what one process measures; who is lost is reported.

use crate::fake_broker::{
    Deeds, FakeBroker, Faults, Lie, plan, publishers, run_against, subscribers,
};
use crate::support::Broker;
use crate::support::results::results;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use weir_load::agent::{AgentCommand, Fleet};
use weir_load::outcome::{End, Messages, Outcome, Phase};
use weir_load::plan::{Phases, Plan};
use weir_load::{Stop, run};

fn agents(count: usize) -> Vec<AgentCommand> {
    let command = vec![env!("CARGO_BIN_EXE_weir").to_owned(), "agent".to_owned()];
    vec![AgentCommand { command, text: "weir agent".into(), core: None }; count]
}

fn run_alone(faults: Faults, plan: &Plan) -> (Outcome, Deeds) {
    run_against(faults, plan, |plan, heard| run(plan, &Stop::default(), heard))
}

fn run_together(faults: Faults, plan: &Plan, count: usize) -> (Outcome, Deeds) {
    let fleet = Fleet::start(&agents(count)).unwrap();
    let (outcome, deeds) =
        run_against(faults, plan, |plan, heard| fleet.run(plan, &Stop::default(), heard));
    assert_eq!(outcome.agents.len(), count);
    (outcome, deeds)
}

/// What must be the same however many processes share the work. Which member of a shared group got
/// a message is the fake's choice: those from `first_member` on are one.
fn assert_same(alone: &Outcome, together: &Outcome, first_member: u32) {
    assert_eq!((&together.end, &alone.end), (&End::Completed, &End::Completed));
    assert_eq!(together.warm_up, alone.warm_up);
    assert_eq!(together.measure, alone.measure);
    assert_eq!(together.connections, alone.connections);
    assert_eq!(together.subscriptions, alone.subscriptions);
    let counts = |outcome: &Outcome| {
        let all = &outcome.latencies;
        let lag = outcome.generator.lag.len();
        [all.connect.len(), all.subscribe.len(), all.acknowledge.len(), all.end_to_end.len(), lag]
    };
    assert_eq!(counts(together), counts(alone));
    let anomalies = |outcome: &Outcome| {
        let mut list = outcome.anomalies.clone();
        for anomaly in &mut list {
            anomaly.subscriber = anomaly.subscriber.min(first_member);
        }
        list.sort_unstable();
        list
    };
    assert_eq!(anomalies(together), anomalies(alone));
    assert_eq!(together.anomalies_unlisted, alone.anomalies_unlisted);
    let phases = |outcome: &Outcome| -> Vec<(Phase, u64)> {
        let timed = outcome
            .phases
            .iter()
            .filter(|span| matches!(span.phase, Phase::WarmUp | Phase::Measure));
        timed.map(|span| (span.phase, span.end_us - span.start_us)).collect()
    };
    assert_eq!(phases(together), phases(alone));
    let sums = |outcome: &Outcome| {
        let sum =
            |of: fn(&weir_load::Interval) -> u64| outcome.intervals.iter().map(of).sum::<u64>();
        [
            sum(|interval| interval.published),
            sum(|interval| interval.received),
            sum(|interval| interval.connected),
            sum(|interval| interval.acknowledged),
            sum(|interval| interval.end_to_end_latency.count),
        ]
    };
    assert_eq!(sums(together), sums(alone));
    for (one, next) in together.intervals.iter().zip(&together.intervals[1..]) {
        assert_eq!(one.start_us + one.length_us, next.start_us, "intervals leave no gap");
    }
}

const FAULTY: Faults = Faults {
    seed: 0x5EED,
    lost: 0.01,
    duplicated: 0.005,
    reordered: 0.005,
    delay_us: 2_000,
    late: None,
    refuse_connect: None,
    refuse_subscribe: false,
    ignore_connect: false,
    receive_maximum: None,
    unacknowledged_every: None,
    refused_every: None,
    stray_every: None,
    gone_after: None,
    freeze: None,
    lie: None,
};

fn assert_sums_agree(outcome: &Outcome) {
    for of in [outcome.warm_up, outcome.measure] {
        assert_eq!(of.expected, of.delivered + of.lost, "{of:?}");
        let Messages { delivered, duplicated, late_after_drain, stray, .. } = of;
        let sum = delivered + duplicated + late_after_drain + of.delivered_unaccepted + stray;
        assert_eq!(of.received, sum, "{of:?}");
    }
}

#[test]
fn agents_find_every_fault_of_fan_out_that_one_process_finds() {
    let groups = vec![subscribers(4, &["t{run}/+"], 1), publishers(3, 700.0, 1)];
    let plan = plan(groups);
    let (alone, deeds) = run_alone(FAULTY, &plan);
    assert!(alone.measure.lost > 20 && alone.measure.duplicated > 10, "{:?}", alone.measure);
    assert_sums_agree(&alone);
    for count in [1, 3] {
        let (together, deeds_together) = run_together(FAULTY, &plan, count);
        assert_same(&alone, &together, u32::MAX);
        assert_eq!(deeds.deliveries, deeds_together.deliveries);
        assert_eq!((deeds_together.disconnects, deeds_together.cut), (7, 0));
    }
}

#[test]
fn agents_find_every_fault_of_pairs_and_of_a_shared_group() {
    // Which member holds a message back is chance, so none is.
    let faults = Faults { reordered: 0.0, ..FAULTY };
    let groups = vec![
        subscribers(5, &["t{run}/{i}"], 1),
        subscribers(3, &["$share/g/t{run}/#"], 1),
        publishers(5, 300.0, 1),
    ];
    let plan = plan(groups);
    let (alone, _) = run_alone(faults, &plan);
    assert!(alone.measure.lost > 10, "{:?}", alone.measure);
    let (together, _) = run_together(faults, &plan, 2);
    assert_same(&alone, &together, 5);
}

#[test]
fn an_agent_without_a_client_has_nothing_to_do() {
    let groups = vec![subscribers(1, &["t{run}/#"], 1), publishers(1, 100.0, 1)];
    let (outcome, deeds) = run_together(Faults::default(), &plan(groups), 4);
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    assert_eq!((outcome.measure.delivered, outcome.measure.lost), (100, 0));
    assert_eq!((deeds.disconnects, deeds.cut), (2, 0));
}

#[test]
fn what_was_refused_or_never_acknowledged_is_known_across_agents() {
    let groups = vec![subscribers(3, &["t{run}/#"], 1), publishers(3, 200.0, 1)];
    let plan = plan(groups);
    for faults in [
        Faults { refused_every: Some(50), ..Faults::default() },
        Faults { unacknowledged_every: Some(50), ..Faults::default() },
        Faults { stray_every: Some(20), ..Faults::default() },
    ] {
        let (alone, _) = run_alone(faults, &plan);
        let (together, _) = run_together(faults, &plan, 2);
        assert_same(&alone, &together, u32::MAX);
        assert_sums_agree(&together);
    }
}

#[test]
fn what_comes_after_drain_is_late_and_lost_across_agents() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(1, 200.0, 1)];
    let mut plan = plan(groups);
    plan.phases = Phases { warm_up_ms: 0, measure_ms: 200, drain_ms: 300 };
    let faults = Faults { late: Some((40, 800_000)), ..Faults::default() };
    let (outcome, deeds) = run_together(faults, &plan, 3);
    assert_sums_agree(&outcome);
    assert_eq!(deeds.late, 2);
    assert_eq!((outcome.measure.late_after_drain, outcome.measure.lost), (2, 2));
}

/// Publishers and subscribers may be of different agents: what a delivery has to be, all know.
#[test]
fn a_broker_that_lies_is_found_out_by_agents() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 100.0, 1)];
    let mut plan = plan(groups);
    plan.phases = Phases { warm_up_ms: 0, measure_ms: 200, drain_ms: 1_500 };
    let lies = [Lie::GrantsQos0, Lie::DeliversQos0, Lie::Topic, Lie::Cut, Lie::Longer];
    let lies = lies.into_iter().chain([Lie::LastByte, Lie::Flipped, Lie::Retain, Lie::NoRetain]);
    // Only the process that published knows the time in a stamp.
    for (lie, count) in lies.map(|lie| (lie, 2)).chain([(Lie::Earlier, 1)]) {
        let faults = Faults { lie: Some((5, lie)), ..Faults::default() };
        let (outcome, deeds) = run_together(faults, &plan, count);
        let found: u64 = outcome.measure.altered.named().iter().map(|(_, count)| count).sum();
        assert_eq!(found, deeds.lies, "{lie:?}: {:?}", outcome.measure.altered);
        // Nothing is stored here, so that nothing lacks its flag.
        assert_eq!(deeds.lies > 0, lie != Lie::NoRetain, "{lie:?}");
        let is_lower = !outcome.subscriptions.other_qos.is_empty();
        assert_eq!(is_lower, lie == Lie::GrantsQos0, "{:?}", outcome.subscriptions);
    }
}

/// What an agent cannot tell by itself, the joined books do.
#[test]
fn a_broker_that_sends_what_nobody_is_owed_is_found_out_by_agents() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 100.0, 1)];
    let plan = plan(groups);
    for lie in [Lie::Elsewhere, Lie::Unsent] {
        let faults = Faults { lie: Some((5, lie)), ..Faults::default() };
        let (outcome, deeds) = run_together(faults, &plan, 2);
        assert_sums_agree(&outcome);
        assert!(deeds.lies > 0);
        let found = [outcome.warm_up.stray_own + outcome.measure.stray_own, deeds.strays];
        assert_eq!(found, [deeds.lies, 0], "{lie:?}: {:?}", outcome.measure);
    }
}

/// Each agent watches its own loop; the others cannot see that it stood still.
#[test]
fn an_agent_that_stood_still_makes_the_whole_run_invalid() {
    let groups = vec![subscribers(2, &["t{run}/#"], 1), publishers(2, 20.0, 1)];
    let mut plan = plan(groups);
    plan.phases.measure_ms = 2_500;
    let fake = FakeBroker::start(Faults::default());
    plan.target = fake.address;
    let fleet = Fleet::start(&agents(2)).unwrap();
    let victim = rustix::process::Pid::from_raw(fleet.processes()[1] as i32).unwrap();
    let signal = |signal| rustix::process::kill_process(victim, signal).unwrap();
    let mut has_stopped = false;
    let outcome = fleet.run(&plan, &Stop::default(), &mut |interval| {
        if interval.phase == Phase::Measure && !std::mem::replace(&mut has_stopped, true) {
            signal(rustix::process::Signal::STOP);
            // That nothing happens for a time is the fault itself.
            std::thread::sleep(std::time::Duration::from_millis(600));
            signal(rustix::process::Signal::CONT);
        }
    });
    let outcome = outcome.unwrap();
    fake.stop();
    assert_eq!(outcome.end, End::Completed);
    let of = &outcome.generator;
    assert!(
        of.invalid.iter().any(|why| why.starts_with("agent 2") && why.contains("absent")),
        "{of:?}"
    );
    assert!(of.late_measure.absent_us_max >= 500_000, "{:?}", of.late_measure);
}

#[test]
fn a_killed_agent_ends_the_run_which_says_what_went_with_it() {
    let groups = vec![subscribers(4, &["t{run}/#"], 1), publishers(4, 100.0, 1)];
    let mut plan = plan(groups);
    plan.phases.measure_ms = 60_000;
    // So that something is under way whenever it happens.
    let fake = FakeBroker::start(Faults { delay_us: 200_000, ..Faults::default() });
    plan.target = fake.address;
    let fleet = Fleet::start(&agents(3)).unwrap();
    let victim = fleet.processes()[1];
    let mut killed_at = None;
    let outcome = fleet
        .run(&plan, &Stop::default(), &mut |interval| {
            if interval.phase == Phase::Measure && killed_at.is_none() {
                let victim = rustix::process::Pid::from_raw(victim as i32).unwrap();
                rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
                killed_at = Some(std::time::Instant::now());
            }
        })
        .unwrap();
    println!("from the kill to the outcome: {:?}", killed_at.unwrap().elapsed());
    let End::AgentLost(seen) = &outcome.end else { panic!("{:?}", outcome.end) };
    for part in ["agent 2 of 3 (weir agent)", "signal: 9", "3 of 8 clients", "3 connections"] {
        assert!(seen.contains(part), "{part} is missing in: {seen}");
    }
    println!("{seen}");
    assert_sums_agree(&outcome);
    assert_eq!((outcome.measure.lost, outcome.anomalies.len()), (0, 0), "{:?}", outcome.measure);
    assert_eq!(outcome.measure.stray, 0, "what a lost agent sent is not owed to nobody");
    assert!(outcome.warm_up.delivered + outcome.measure.delivered > 0, "{:?}", outcome.measure);
    assert!(outcome.measure.unaudited > 0, "{:?}", outcome.measure);
    assert_eq!(outcome.connections.planned, 8);
    assert_eq!(outcome.connections.connected, 5);
    let deeds = fake.stop();
    assert_eq!((deeds.disconnects, deeds.cut), (5, 3), "the others say goodbye");
}

#[test]
fn a_stopped_agent_is_noticed_by_its_silence() {
    let mut plan = plan(vec![subscribers(4, &[], 1)]);
    plan.phases.measure_ms = 60_000;
    let fake = FakeBroker::start(Faults::default());
    plan.target = fake.address;
    let fleet = Fleet::start(&agents(2)).unwrap();
    let victim = rustix::process::Pid::from_raw(fleet.processes()[0] as i32).unwrap();
    let mut stopped_at = None;
    let outcome = fleet
        .run(&plan, &Stop::default(), &mut |interval| {
            if interval.phase == Phase::Measure && stopped_at.is_none() {
                rustix::process::kill_process(victim, rustix::process::Signal::STOP).unwrap();
                stopped_at = Some(std::time::Instant::now());
            }
        })
        .unwrap();
    println!("from the stop to the outcome: {:?}", stopped_at.unwrap().elapsed());
    let End::AgentLost(seen) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(seen.contains("agent 1 of 2") && seen.contains("said nothing"), "{seen}");
    assert!(rustix::process::test_kill_process(victim).is_err(), "it is ended");
    fake.stop();
}

#[test]
fn a_command_that_is_no_agent_is_told_with_what_it_said() {
    for (line, parts) in [
        (
            "echo Welcome",
            &["agent 1 of 1 (echo Welcome)", "not of the agents' protocol", "Welcome"],
        ),
        ("echo no route >&2; exit 3", &["ended by itself: exit status: 3", "no route", "hello"]),
        ("true", &["ended by itself: exit status: 0", "before it said hello", ""]),
        (
            concat!(
                r#"echo '{"hello":{"protocol":99,"version":"9.9","host":"h","pid":1,"clock":"c","#,
                r#""now_us":1,"open_files_max":1,"cores":1}}'"#
            ),
            &["weir 9.9", "version 99", "the same weir on both sides"],
        ),
    ] {
        let Err(error) = Fleet::start(&[AgentCommand::shell(line)]) else { panic!("{line}") };
        let error = error.to_string();
        for part in parts {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}

#[test]
fn an_agent_ends_with_its_input() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut hello = String::new();
    output.read_line(&mut hello).unwrap();
    assert!(hello.contains("\"hello\"") && hello.contains("\"protocol\":7"), "{hello}");
    drop(child.stdin.take());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
}

#[test]
fn a_stop_ends_all_agents_and_leaves_no_process() {
    let fake = FakeBroker::start(Faults::default());
    let groups = vec![subscribers(4, &["t{run}/#"], 1), publishers(4, 100.0, 1)];
    let mut plan = plan(groups);
    plan.phases.measure_ms = 60_000;
    plan.target = fake.address;
    let stop = Stop::default();
    let fleet = Fleet::start(&agents(2)).unwrap();
    let processes = fleet.processes();
    let outcome = fleet
        .run(&plan, &stop, &mut |interval| {
            if interval.phase == Phase::Measure {
                stop.stop();
            }
        })
        .unwrap();
    assert_eq!(outcome.end, End::Stopped);
    assert_sums_agree(&outcome);
    assert_eq!(outcome.measure.unsent, 0, "what was not due when it stopped is not owed");
    for process in processes {
        let process = rustix::process::Pid::from_raw(process as i32).unwrap();
        assert!(rustix::process::test_kill_process(process).is_err(), "no process is left");
    }
    assert_eq!(fake.stop().disconnects, 8);
}

/// `weir bench run` with two agents, to its end or until one of them is killed in measure.
fn bench_with_agents(kills: bool) -> (Option<i32>, serde_json::Value) {
    let out = tempfile::tempdir().unwrap();
    let agent = format!("{} agent", env!("CARGO_BIN_EXE_weir"));
    let duration = if kills { "60s" } else { "1s" };
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["bench", "run", "p2p-1K-1K-1K-1K", "--scale", "0.05", "--warm-up", "1s"])
        .args(["--duration", duration, "--agents", "1", "--agent", &agent, "--out"])
        .arg(out.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while kills && !line.contains("measure") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the run ended before measure");
    }
    if kills {
        let victim = local_agent(child.id());
        rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    }
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    let code = child.wait().unwrap().code();
    (code, results(out.path()).remove(0).0)
}

/// The child of this process that was started as `weir agent` without a shell.
fn local_agent(parent: u32) -> rustix::process::Pid {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let children = tasks.flat_map(|task| {
        let path = task.unwrap().path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let is_agent = |pid: &String| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.ends_with(b"weir\0agent\0")
    };
    let pid = children.into_iter().find(is_agent).expect("an agent of this host");
    rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap()
}

#[test]
fn a_run_of_agents_is_a_result_like_any_other() {
    let (code, result) = bench_with_agents(false);
    assert!(matches!(code, Some(0 | 1)), "a busy host may void a run: {}", result["verdict"]);
    assert_eq!(result["measure"]["expected"], 50);
    assert_eq!(result["measure"]["delivered"], 50);
    assert_eq!(result["latencies"]["end_to_end"]["count"], 50);
    assert_eq!(result["connections"]["connected"], 100);
    let agents = result["generator"]["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    assert!(agents[1].as_str().unwrap().contains("50 of 100 clients"), "{agents:?}");
    assert!(agents[1].as_str().unwrap().contains("clock shared"), "{agents:?}");
}

#[test]
fn a_run_that_loses_an_agent_is_invalid_and_says_why() {
    let (code, result) = bench_with_agents(true);
    assert_eq!(code, Some(1));
    assert_eq!(result["verdict"]["status"], "invalid");
    let reason = result["verdict"]["reasons"][0].as_str().unwrap();
    for part in ["agent 1 of 2 (weir agent)", "signal: 9", "50 of 100 clients"] {
        assert!(reason.contains(part), "{part} is missing in: {reason}");
    }
    println!("{reason}");
}

#[test]
fn no_agent_outlives_a_bench_that_is_killed() {
    let out = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["bench", "run", "p2p-1K-1K-1K-1K", "--scale", "0.05", "--duration", "60s"])
        .args(["--agents", "2", "--broker", &format!("mqtt://{}", broker.address), "--out"])
        .arg(out.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("warm-up") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the run ended before it began");
    }
    let agent = local_agent(child.id());
    let ended = rustix::process::pidfd_open(agent, rustix::process::PidfdFlags::empty()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // The end of the agent's process is an event of its descriptor.
    let mut events = [rustix::event::PollFd::new(&ended, rustix::event::PollFlags::IN)];
    let patience = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut events, Some(&patience)).unwrap(), 1, "it lives on");
}

#[test]
fn a_latency_between_two_clocks_is_not_measured() {
    let unshare = "unshare --time --monotonic 86400 --fork";
    let probe = Command::new("sh").args(["-c", &format!("{unshare} true")]).output().unwrap();
    if !probe.status.success() {
        eprintln!("skipped: no time namespace without root and util-linux");
        return;
    }
    let groups = vec![subscribers(4, &["t{run}/#"], 1), publishers(2, 100.0, 1)];
    let fake = FakeBroker::start(Faults::default());
    let plan = Plan { target: fake.address, ..plan(groups) };
    let mut commands = agents(1);
    let line = format!("{unshare} {} agent", env!("CARGO_BIN_EXE_weir"));
    commands.push(AgentCommand::shell(&line));
    let fleet = Fleet::start(&commands).unwrap();
    let outcome = fleet.run(&plan, &Stop::default(), &mut |_| {}).unwrap();
    assert_eq!(outcome.end, End::Completed);
    assert_sums_agree(&outcome);
    assert_eq!((outcome.measure.delivered, outcome.measure.lost), (800, 0));
    assert_eq!((outcome.latencies.end_to_end.len(), outcome.unclocked), (400, 400));
    assert!(outcome.latencies.end_to_end.max() < 3_600_000_000, "no day is in it");
    assert!(outcome.agents[1].contains("clock its own"), "{:?}", outcome.agents);
    fake.stop();
}
