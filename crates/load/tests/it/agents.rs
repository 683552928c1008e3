//! The load generator as several processes: what they see together is what one alone sees.

use crate::calibration::{FAULTY, assert_is_all_of, assert_sums_agree};
use crate::fake_broker::{self, FakeBroker, Faults, publishers, subscribers};
use rustix::process::{Pid, Signal, kill_process_group};
use weir_load::Stop;
use weir_load::agent::{AgentCommand, Fleet, serve};
use weir_load::outcome::{End, Outcome, Phase};
use weir_load::plan::{Plan, ProtocolVersion};

/// Set in the environment of an agent.
const IS_AGENT: &str = "WEIR_LOAD_IS_AGENT";

/// Not a test but what an agent is: this program, asked for this function alone.
#[test]
fn agent() {
    if std::env::var_os(IS_AGENT).is_some() {
        let input = std::io::BufReader::new(std::io::stdin());
        serve(input, std::io::stdout(), "of a test").unwrap();
    }
}

fn fleet(count: usize) -> Fleet {
    let program = std::env::current_exe().unwrap();
    // What the test harness writes is no line of an agent.
    let line = format!(
        "{IS_AGENT}=1 \"{}\" --exact agents::agent --nocapture | sed -un 's/^[^{{]*{{/{{/p'",
        program.display()
    );
    Fleet::start(&vec![AgentCommand::shell(&line); count]).unwrap()
}

/// Two publishers at 200/s and four subscribers for a second.
fn plan(target: std::net::SocketAddr) -> Plan {
    let groups = vec![subscribers(4, &["t{run}/#"], 1), publishers(2, 200.0, 1)];
    Plan { target, version: ProtocolVersion::V5, ..fake_broker::plan(groups) }
}

fn assert_every_fault_is_found(filter: &str, agents: usize) -> Outcome {
    let groups = vec![subscribers(4, &[filter], 1), publishers(3, 700.0, 1)];
    let plan = Plan { version: ProtocolVersion::V5, ..fake_broker::plan(groups) };
    let (outcome, deeds) = fake_broker::run_against(FAULTY, &plan, |plan, heard| {
        fleet(agents).run(plan, &Stop::default(), heard)
    });
    assert_is_all_of(&outcome, &deeds, filter.starts_with("$share"));
    outcome
}

#[test]
fn two_agents_find_every_fault_of_fan_out() {
    let outcome = assert_every_fault_is_found("t{run}/+", 2);
    assert_eq!(outcome.connections.planned, 7);
    assert_eq!(outcome.connections.connected, 7);
    assert_eq!((outcome.subscriptions.asked, outcome.subscriptions.granted), (4, 4));
    assert_eq!(outcome.latencies.connect.len(), 7);
    assert_eq!(outcome.latencies.acknowledge.len(), outcome.measure.accepted);
    assert_eq!(outcome.distributions.len(), outcome.intervals.len());
    let received: u64 = outcome.intervals.iter().map(|interval| interval.received).sum();
    assert_eq!(received, outcome.measure.received + outcome.warm_up.received);
    let owed = outcome.intervals.last().map(|interval| interval.outstanding);
    assert_eq!(owed, Some(outcome.measure.lost + outcome.warm_up.lost));
    let peak = outcome.intervals.iter().map(|interval| interval.connections).max();
    assert_eq!(peak, Some(7));
    let measure = outcome.phases.iter().find(|span| span.phase == Phase::Measure).unwrap();
    assert!(measure.end_us - measure.start_us >= 1_000_000, "{measure:?}");
    let [one, two] = &*outcome.agents else { panic!("{:?}", outcome.agents) };
    assert!(one.starts_with("agent 1 of 2 (") && two.starts_with("agent 2 of 2 ("));
    for agent in &outcome.agents {
        assert!(
            agent.contains(": weir of a test on ") && agent.contains("clock shared"),
            "{agent}"
        );
    }
}

#[test]
fn three_agents_find_every_fault_of_a_shared_group() {
    let outcome = assert_every_fault_is_found("$share/g/t{run}/+", 3);
    assert_eq!(outcome.agents.len(), 3);
}

#[test]
fn agents_that_are_stopped_tell_what_they_saw() {
    let fake = FakeBroker::start(Faults { delay_us: 400_000, ..Faults::default() });
    let mut plan = plan(fake.address);
    plan.phases.measure_ms = 60_000;
    let stop = Stop::default();
    let outcome = fleet(2).run(&plan, &stop, &mut |interval| {
        if interval.phase == Phase::Measure && interval.received > 0 {
            stop.stop();
        }
    });
    let (outcome, deeds) = (outcome.unwrap(), fake.stop());
    assert_eq!(outcome.end, End::Stopped);
    assert_sums_agree(&outcome);
    assert_eq!((outcome.measure.lost, outcome.anomalies.len()), (0, 0), "{:?}", outcome.measure);
    assert!(outcome.measure.unaudited > 0, "{:?}", outcome.measure);
    assert_eq!((deeds.disconnects, deeds.cut), (6, 0), "every client says goodbye");
}

#[test]
fn a_lost_agent_ends_the_run_and_nothing_of_it_is_charged_to_the_broker() {
    let fake = FakeBroker::start(Faults::default());
    let mut plan = plan(fake.address);
    plan.phases.measure_ms = 60_000;
    let fleet = fleet(2);
    let second = Pid::from_raw(fleet.processes()[1] as i32).unwrap();
    let outcome = fleet.run(&plan, &Stop::default(), &mut |interval| {
        if interval.phase == Phase::Measure && interval.received > 0 {
            let _ = kill_process_group(second, Signal::KILL);
        }
    });
    let outcome = outcome.unwrap();
    fake.stop();
    let End::AgentLost(what) = &outcome.end else { panic!("{:?}", outcome.end) };
    assert!(what.starts_with("agent 2 of 2 ("), "{what}");
    // Half of the clients: two subscribers and a publisher.
    assert!(what.contains(" it had 3 connections, had sent "), "{what}");
    assert_eq!((outcome.measure.lost, outcome.anomalies.len()), (0, 0), "{:?}", outcome.measure);
    assert!(outcome.measure.delivered > 0, "{outcome:?}");
}
