//! Brokers of several nodes under `weir bench`: started with what they need and ended without a
//! trace, measured one by one, and a node that is lost.

use crate::support::command::fed;
use crate::support::results::results;
use crate::support::{Broker, tool};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Pairs whose publisher is on the node behind the subscriber's.
fn pairs(more: &str) -> String {
    format!(
        r#"
        name = "pairs"
        revision = 1
        about = "pairs across nodes"
        mqtt_version = "3.1.1"
        connect_rate_per_s = 200
        drain_s = 2
        clean_start = false
        {more}
        needs = ["sessions", "restart"]
        [reconnect]
        after = "50ms"
        [contract]
        lost_share_max = 1.0
        rate_tolerance = 1.0
        behind_share_max = 1.0
        reordered_max = 1000000
        [[group]]
        name = "subscriber"
        clients = 6
        client_id = "w{{run}}-sub-{{i}}"
        scales = false
        subscriptions = [{{ filter = "pair/{{i}}", qos = 1 }}]
        [[group]]
        name = "publisher"
        clients = 6
        client_id = "w{{run}}-pub-{{i}}"
        scales = false
        node = 2
        publish = {{ topic = "pair/{{i}}", qos = 1, rate_per_s = 10, payload_bytes = 32 }}
        "#
    )
}

/// What a run of a use case with these options printed, and its result.
fn run(text: &str, options: &[&str]) -> (String, Value, TempDir) {
    let out = tempfile::tempdir().unwrap();
    let is_short = !options.contains(&"--duration");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(["bench", "run", "-", "--pin", "none", "--warm-up", "200ms"])
        .args(is_short.then_some(["--duration", "1s"]).into_iter().flatten())
        .args(options)
        .arg("--out")
        .arg(out.path())
        .env_remove("WEIR_LOG");
    let output = fed(&mut command, text);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let (result, _) = results(out.path())
        .pop()
        .unwrap_or_else(|| panic!("{told}{}", String::from_utf8_lossy(&output.stderr)));
    (told, result, out)
}

/// Command lines of the host that name this folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    // One that has ended meanwhile, and what is no process, has no command line.
    let lines = all.filter_map(|process| std::fs::read_to_string(process.join("cmdline")).ok());
    lines.filter(|line| line.contains(folder)).collect()
}

fn sessions<'a>(result: &'a Value, session: &str) -> Option<&'a Value> {
    let all = result["cluster"]["sessions"].as_array().unwrap();
    all.iter().find(|of| of["session"] == session)
}

#[test]
fn nodes_are_started_with_what_they_need_measured_one_by_one_and_ended() {
    if tool(&["etcd"]).is_none() {
        return;
    }
    let (told, result, out) = run(&pairs(""), &["--nodes", "3"]);
    let measure = &result["measure"];
    assert!(measure["expected"].as_u64() > Some(0), "{told}");
    assert_eq!(measure["expected"], measure["delivered"], "{told}");
    let cluster = &result["cluster"];
    let nodes = cluster["nodes"].as_array().unwrap();
    let names: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node 1", "node 2", "node 3", "etcd"]);
    for node in nodes {
        assert!(node["resources"]["cpu_cores_avg"].as_f64() > Some(0.0), "{node}");
        assert!(node["resources"]["rss_max_bytes"].as_u64() > Some(0), "{node}");
    }
    assert!(cluster["received"].as_u64() > Some(0));
    assert_eq!(cluster["received"], cluster["crossed"], "each pair is on two nodes");
    let connected = sessions(&result, "connected").unwrap();
    assert_eq!((&connected["clients"], &connected["lost"]), (&6.into(), &0.into()));
    assert_eq!(connected["promise"]["survives"], true);
    assert!(told.contains("(3 nodes)") && told.contains("| etcd"), "{told}");
    assert!(told.contains("went from one node to another: 100.0 %"), "{told}");
    assert_eq!(processes_of(out.path()), [""; 0]);
    let (_, folder) = results(out.path()).pop().unwrap();
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Nodes: pairs") && page.contains("Sessions and promises: pairs"));
    assert!(!folder.join("node-1/etcd-data").exists(), "its data goes with it");
}

#[test]
fn clients_of_a_node_that_is_killed_come_back_at_the_others() {
    if tool(&["etcd"]).is_none() {
        return;
    }
    let steps = r#"
        nodes = 2
        step = [{ at = "500ms", fault = "kill", node = 2, for = "1s" }]
    "#;
    let (told, result, out) = run(&pairs(steps), &["--duration", "9s"]);
    let course = &result["course"];
    let step = &course["steps"][0];
    assert_eq!((&step["error"], &step["node"]), (&Value::Null, &2.into()), "{step}");
    // Three subscribers and three publishers, who are let in when the lease of the node has ended.
    assert_eq!(step["connections_lost"], 6, "{step}");
    assert_eq!((&course["returned"], &course["away_at_end"]), (&6.into(), &0.into()), "{course}");
    assert!(told.contains("kill node 2"), "{told}");
    let connected = sessions(&result, "connected").unwrap();
    assert_eq!((&connected["clients"], &connected["lost"]), (&3.into(), &0.into()), "{told}");
    let new = sessions(&result, "new").unwrap_or_else(|| panic!("{told}"));
    assert_eq!((&new["clients"], &new["promise"]["survives"]), (&3.into(), &false.into()));
    assert_eq!(processes_of(out.path()), [""; 0]);
}

#[test]
fn a_restart_ends_a_broker_as_an_operator_does_and_starts_it_again() {
    let text = pairs("step = [{ at = \"200ms\", fault = \"restart\", for = \"100ms\" }]");
    let (told, result, out) = run(&text, &[]);
    let course = &result["course"];
    assert_eq!(course["steps"][0]["error"], Value::Null, "{told}");
    assert_eq!((&course["returned"], &course["away_at_end"]), (&12.into(), &0.into()), "{course}");
    assert_eq!(result["cluster"], Value::Null, "it has one node");
    let (_, folder) = results(out.path()).pop().unwrap();
    let log = std::fs::read_to_string(folder.join("broker.log")).unwrap();
    // In the step, and at the end of the run.
    let count = |text: &str| log.matches(text).count();
    assert_eq!((count("stopping signal=15"), count("ready\n")), (2, 2), "{log}");
}

#[test]
fn nodes_of_a_broker_that_runs_already_stand_in_one_url() {
    let broker = Broker::start();
    let address = &broker.address;
    let url = format!("mine=mqtt://{address},{address}");
    let (told, result, _out) = run(&pairs("").replace(", \"restart\"", ""), &["--broker", &url]);
    let cluster = &result["cluster"];
    assert_eq!(result["broker"]["address"], format!("{address}, {address}"), "{told}");
    assert!(cluster["crossed"].as_u64() > Some(0), "{told}");
    assert_eq!(cluster["crossed"], cluster["received"]);
    assert_eq!(cluster["nodes"][1]["resources"], Value::Null);
    assert_eq!(sessions(&result, "connected").unwrap()["promise"], Value::Null);
}

#[test]
fn a_broker_that_cannot_have_so_many_nodes_is_not_run() {
    let text = pairs("step = [{ at = 1, fault = \"freeze\", node = 3, for = 1 }]");
    for (broker, why) in [
        ("mine=mqtt://127.0.0.1:1", "2 nodes: the URL names 1"),
        ("mine=/bin/true", "2 nodes as the driver sets it up"),
        ("weir", "a step of node 3: the broker has 2"),
    ] {
        let (told, result, _out) = run(&text, &["--nodes", "2", "--broker", broker]);
        assert_eq!(result["verdict"]["status"], "unsupported", "{told}");
        let reason = result["verdict"]["reasons"][0].as_str().unwrap();
        assert!(reason.contains(why), "{broker}: {reason}");
    }
}
