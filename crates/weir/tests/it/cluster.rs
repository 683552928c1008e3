//! Nodes of a cluster on one host, with an etcd of their own: whoever is connected to one of them
//! is served as by one broker.

use crate::store::{is_acknowledged, join, publish, take};
use crate::support::asked::{ctl, said};
use crate::support::blocking::Blocking;
use crate::support::certificates::Authority;
use crate::support::live::{free, is_served, left, offer};
use crate::support::mqtt::Peer;
use crate::support::{Broker, tool};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_wire::{QoS, ReasonCode};

/// An etcd; ended with the value.
pub(crate) struct Etcd {
    child: Child,
    pub(crate) port: u16,
    pub(crate) folder: tempfile::TempDir,
}

impl Etcd {
    /// Nothing if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let program = tool(&["etcd"])?;
        let folder = tempfile::tempdir().unwrap();
        let [port, peers] = [free(), free()];
        let (clients, peers) =
            (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        let child = Command::new(program)
            .args(["--name", "one", "--data-dir"])
            .arg(folder.path().join("etcd"))
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("one={peers}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        Some(Self { child, port, folder })
    }

    /// The configuration file of a node.
    fn node(&self, name: &str) -> String {
        self.node_with(name, "")
    }

    /// With more at its end.
    pub(crate) fn node_with(&self, name: &str, more: &str) -> String {
        let path = self.folder.path().join(format!("{name}.toml"));
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nshards = 2\n[cluster]\nnode = \"{name}\"\n\
             etcd = [\"http://127.0.0.1:{}\"]\nlisten = \"127.0.0.1:{}\"\n{more}",
            self.port,
            free(),
        );
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn broker(config: impl AsRef<Path>) -> Broker {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    Broker::by(weir.arg("broker").arg(config.as_ref())).expect("the node ended before it served")
}

fn cluster(names: &[&str]) -> Option<(Etcd, Vec<Broker>)> {
    let etcd = Etcd::start()?;
    let nodes = names.iter().map(|name| broker(etcd.node(name))).collect();
    Some((etcd, nodes))
}

fn clients(nodes: &[Broker], name: &str) -> Vec<Peer> {
    let named = nodes.iter().zip(0..);
    named.map(|(node, at)| Peer::client(&node.address, &format!("{name}-{at}"))).collect()
}

/// Messages that a client gets next, each acknowledged.
fn next(client: &mut Peer, count: usize) -> BTreeSet<String> {
    let payloads = (0..count).map(|_| {
        let message = client.message();
        client.acknowledge(message.packet_id);
        message.payload
    });
    payloads.collect()
}

#[test]
fn what_is_published_on_one_node_comes_once_to_whoever_is_subscribed_on_any() {
    let Some((_etcd, nodes)) = cluster(&["a", "b", "c"]) else { return };
    let mut subscribers = clients(&nodes, "sub");
    subscribers.iter_mut().for_each(|it| it.subscribe("to/+", QoS::AtLeastOnce));
    for (at, mut publisher) in clients(&nodes, "pub").into_iter().enumerate() {
        for count in 0..10_u16 {
            publisher.publish("to/all", &format!("{at}-{count}"), Some(count + 1), false);
            assert_eq!(publisher.acknowledged(), count + 1);
        }
    }
    let all: BTreeSet<String> =
        (0..3).flat_map(|at| (0..10).map(move |count| format!("{at}-{count}"))).collect();
    for subscriber in &mut subscribers {
        assert_eq!(next(subscriber, 30), all);
    }
}

#[test]
fn members_of_a_group_on_several_nodes_share_what_is_published() {
    let Some((_etcd, nodes)) = cluster(&["a", "b", "c"]) else { return };
    let mut members = clients(&nodes, "member");
    members.iter_mut().for_each(|it| it.subscribe("$share/group/to/+", QoS::AtLeastOnce));
    let mut publisher = Peer::client(&nodes[0].address, "pub");
    for count in 1..=30 {
        publisher.publish("to/one", &count.to_string(), Some(count), false);
        assert_eq!(publisher.acknowledged(), count);
    }
    // They have their turns.
    let got: Vec<String> = members.iter_mut().flat_map(|it| next(it, 10)).collect();
    assert_eq!(got.len(), 30);
    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 30, "{got:?}");
}

#[test]
fn what_is_retained_is_on_every_node_also_on_one_that_comes_later() {
    let Some((etcd, mut nodes)) = cluster(&["a", "b"]) else { return };
    let mut publisher = Peer::client(&nodes[0].address, "pub");
    for (at, topic) in (1..).zip(["r/one", "r/two", "r/three"]) {
        publisher.publish_retained(topic, topic, at);
        assert_eq!(publisher.acknowledged(), at);
    }
    let mut other = Peer::client(&nodes[1].address, "other");
    other.publish_retained("r/two", "", 1);
    assert_eq!(other.acknowledged(), 1);
    nodes.push(broker(etcd.node("c")));
    for (at, node) in nodes.iter().enumerate() {
        let mut subscriber = Peer::client(&node.address, &format!("sub-{at}"));
        subscriber.subscribe("r/#", QoS::AtMostOnce);
        let got: BTreeSet<String> = (0..2).map(|_| subscriber.message().topic).collect();
        assert_eq!(got, BTreeSet::from(["r/one", "r/three"].map(String::from)));
    }
}

#[test]
fn a_node_that_is_killed_is_forgotten_and_comes_back() {
    let Some((etcd, mut nodes)) = cluster(&["a", "b", "c"]) else { return };
    let mut here = Peer::client(&nodes[0].address, "here");
    here.subscribe("t", QoS::AtLeastOnce);
    nodes[2].signal(Signal::KILL);
    nodes[2].child.wait().unwrap();
    // It is waited for until its lease has ended.
    here.subscribe("u", QoS::AtLeastOnce);
    nodes[0].says("a node is lost node=\"c\"");
    nodes[1].says("a node is lost node=\"c\"");
    let mut publisher = Peer::client(&nodes[1].address, "pub");
    publisher.publish("u", "after", Some(1), false);
    assert_eq!(publisher.acknowledged(), 1);
    assert_eq!(here.message().payload, "after");
    let back = broker(etcd.folder.path().join("c.toml"));
    let mut publisher = Peer::client(&back.address, "back");
    publisher.publish("u", "back", Some(1), false);
    assert_eq!(publisher.acknowledged(), 1);
    assert_eq!(here.message().payload, "back");
}

#[test]
fn a_node_that_was_stopped_for_longer_than_its_lease_ends_its_connections_before_it_goes_on() {
    let Some((_etcd, mut nodes)) = cluster(&["a", "b"]) else { return };
    let (mut client, _) = offer(&nodes[1].address, "client", None);
    nodes[1].signal(Signal::STOP);
    nodes[0].says("a node is lost node=\"b\"");
    nodes[1].signal(Signal::CONT);
    assert_eq!(left(&mut client), Some(ReasonCode::ServerShuttingDown));
    nodes[1].says("this node is a member of its cluster again");
    let (mut client, _) = offer(&nodes[1].address, "client", None);
    assert!(is_served(&mut client));
}

#[test]
fn nodes_that_show_certificates_of_one_authority_are_a_cluster() {
    let Some(etcd) = Etcd::start() else { return };
    let folder = etcd.folder.path();
    let authority = Authority::new("nodes", folder);
    let tls = |name: &str| {
        let pair = authority.named(name, &["127.0.0.1"]);
        let (certificate, key) = (pair.certificate, pair.key);
        let ca = authority.file();
        format!("[cluster.tls]\ncertificate = {certificate:?}\nkey = {key:?}\nca = {ca:?}\n")
    };
    let nodes = ["a", "b"].map(|name| broker(etcd.node_with(name, &tls(name))));
    let mut subscriber = Peer::client(&nodes[0].address, "sub");
    subscriber.subscribe("t", QoS::AtLeastOnce);
    let mut publisher = Peer::client(&nodes[1].address, "pub");
    publisher.publish("t", "over TLS", Some(1), false);
    assert_eq!(publisher.acknowledged(), 1);
    assert_eq!(subscriber.message().payload, "over TLS");
}

#[test]
fn a_node_that_stops_gives_its_place_back_at_once() {
    let Some((_etcd, mut nodes)) = cluster(&["a", "b"]) else { return };
    nodes[1].signal(Signal::TERM);
    assert!(nodes[1].child.wait().unwrap().success());
    nodes[0].says("a node is lost node=\"b\"");
}

#[test]
fn a_node_without_etcd_ends_its_connections_and_lets_nobody_in_until_it_is_back() {
    let Some(etcd) = Etcd::start() else { return };
    let socket = etcd.folder.path().join("ctl");
    let mut nodes = [broker(etcd.node_with("a", &format!("[control]\nsocket = {socket:?}\n")))];
    let (mut client, reason) = offer(&nodes[0].address, "client", None);
    assert_eq!(reason, ReasonCode::Success);
    assert_eq!(ctl(&socket, &["health"]).status.code(), Some(0));
    rustix::process::kill_process(Pid::from_child(&etcd.child), Signal::STOP).unwrap();
    assert_eq!(left(&mut client), Some(ReasonCode::ServerShuttingDown));
    let refused: Blocking = {
        let (client, reason) = offer(&nodes[0].address, "client", None);
        assert_eq!(reason, ReasonCode::ServerUnavailable);
        client
    };
    drop(refused);
    let health = ctl(&socket, &["health"]);
    assert_eq!(health.status.code(), Some(1));
    assert!(String::from_utf8(health.stderr).unwrap().contains("this node has lost its cluster"));
    let shown = said(&ctl(&socket, &["cluster"]));
    assert!(shown.contains("this is a: FENCED") && shown.contains("fenced 1,"), "{shown}");
    rustix::process::kill_process(Pid::from_child(&etcd.child), Signal::CONT).unwrap();
    nodes[0].says("this node is a member of its cluster again");
    let (mut client, reason) = offer(&nodes[0].address, "client", None);
    assert_eq!(reason, ReasonCode::Success);
    assert!(is_served(&mut client));
    assert_eq!(ctl(&socket, &["health"]).status.code(), Some(0));
}

#[test]
fn a_client_that_comes_to_another_node_has_its_session_there_and_its_old_connection_ends() {
    let Some((_etcd, nodes)) = cluster(&["a", "b", "c"]) else { return };
    let (mut old, was_there) = join(&nodes[0].address, "wanderer");
    assert!(!was_there);
    old.subscribe("t/#", QoS::AtLeastOnce);
    old.subscribe("$share/group/s", QoS::AtLeastOnce);
    let mut publisher = Peer::client(&nodes[1].address, "pub");
    publisher.publish("t/open", "open", Some(1), false);
    assert_eq!(publisher.acknowledged(), 1);
    // It is not acknowledged, so it comes again.
    assert!(old.next().is_some());
    let (mut new, was_there) = join(&nodes[1].address, "wanderer");
    assert!(was_there);
    assert_eq!(left(&mut old), Some(ReasonCode::SessionTakenOver));
    assert_eq!(take(&mut new).as_deref(), Some("open"));
    for (count, topic) in (2..).zip(["t/1", "s", "t/2", "s"]) {
        publisher.publish(topic, topic, Some(count), false);
        assert_eq!(publisher.acknowledged(), count);
        assert_eq!(take(&mut new).as_deref(), Some(topic));
    }
    drop(new);
    for count in 10..60 {
        publisher.publish("t/missed", &count.to_string(), Some(count), false);
        assert_eq!(publisher.acknowledged(), count);
    }
    let (mut last, was_there) = join(&nodes[2].address, "wanderer");
    assert!(was_there);
    for count in 10..60_u16 {
        assert_eq!(take(&mut last), Some(count.to_string()));
    }
    // A clean start ends the session wherever it is.
    let _clean = Peer::client(&nodes[0].address, "wanderer");
    assert_eq!(left(&mut last), Some(ReasonCode::SessionTakenOver));
    assert!(!join(&nodes[1].address, "wanderer").1);
}

#[test]
fn a_session_that_moved_is_on_the_disk_of_the_node_that_has_it_and_of_no_other() {
    let Some(etcd) = Etcd::start() else { return };
    let stores = ["a", "b"].map(|name| {
        let folder = etcd.folder.path().join(format!("store-{name}"));
        format!("[store]\npath = {folder:?}\n")
    });
    let configs = [0, 1].map(|at| etcd.node_with(["a", "b"][at], &stores[at]));
    let mut nodes = configs.each_ref().map(broker);
    let (mut of, _) = join(&nodes[0].address, "wanderer");
    of.subscribe("t", QoS::AtLeastOnce);
    drop(of);
    let (mut publisher, _) = join(&nodes[0].address, "pub");
    // Enough to be on pages of the disk in part.
    const MESSAGES: u16 = 3_000;
    for count in 1..=MESSAGES {
        publish(&mut publisher, "t", &count.to_string(), count).unwrap();
        assert!(is_acknowledged(&mut publisher));
    }
    let (of, was_there) = join(&nodes[1].address, "wanderer");
    assert!(was_there);
    drop(of);
    nodes.iter_mut().for_each(|node| {
        node.signal(Signal::KILL);
        node.child.wait().unwrap();
    });
    let nodes = configs.each_ref().map(broker);
    let (mut of, was_there) = join(&nodes[0].address, "wanderer");
    assert!(was_there);
    // What the killed connection had in flight comes again; the order is the same.
    let came: Vec<u16> = (0..MESSAGES).map(|_| take(&mut of).unwrap().parse().unwrap()).collect();
    assert_eq!(came, (1..=MESSAGES).collect::<Vec<_>>());
    assert!(!join(&nodes[1].address, "other").1);
}

#[test]
fn a_session_that_was_begun_anew_while_its_node_was_lost_is_dropped_there() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("[store]\npath = {:?}\n", etcd.folder.path().join("store"));
    let config = etcd.node_with("b", &store);
    let (mut other, mut lost) = (broker(etcd.node("a")), broker(&config));
    let (mut of, _) = join(&lost.address, "wanderer");
    of.subscribe("old", QoS::AtLeastOnce);
    lost.signal(Signal::KILL);
    lost.child.wait().unwrap();
    other.says("a node is lost node=\"b\"");
    let (mut of, was_there) = join(&other.address, "wanderer");
    assert!(!was_there, "its node is lost");
    of.subscribe("new", QoS::AtLeastOnce);
    let mut back = broker(&config);
    back.says("begun anew on another node");
    // It is one session again, wherever the client goes.
    let (mut of, was_there) = join(&back.address, "wanderer");
    assert!(was_there);
    let (mut publisher, _) = join(&other.address, "pub");
    publish(&mut publisher, "old", "old", 1).unwrap();
    publish(&mut publisher, "new", "new", 2).unwrap();
    assert_eq!(take(&mut of).as_deref(), Some("new"));
}

#[test]
fn what_a_member_on_a_lost_node_was_to_get_goes_to_another_member() {
    let Some((_etcd, nodes)) = cluster(&["a", "b"]) else { return };
    let mut members = clients(&nodes, "member");
    members.iter_mut().for_each(|it| it.subscribe("$share/group/t", QoS::AtLeastOnce));
    let mut publisher = Peer::client(&nodes[0].address, "pub");
    nodes[1].signal(Signal::STOP);
    // Each of its threads: one that goes on for a moment would take what is published now.
    let stopped = Some(Pid::from_child(&nodes[1].child));
    waitpid(stopped, WaitOptions::UNTRACED).unwrap();
    for count in 1..=10 {
        publisher.publish("t", &count.to_string(), Some(count), false);
    }
    // One that is for the other member waits until the lease of its node has ended.
    (1..=10).for_each(|count| assert_eq!(publisher.acknowledged(), count));
    let all: BTreeSet<String> = (1..=10).map(|count| count.to_string()).collect();
    assert_eq!(next(&mut members[0], 10), all);
}

#[test]
fn what_is_cleared_while_a_node_is_lost_stays_cleared_when_it_is_back() {
    let Some(etcd) = Etcd::start() else { return };
    let store = format!("[store]\npath = {:?}\n", etcd.folder.path().join("store"));
    let config = etcd.node_with("b", &store);
    // One shard, so that what is retained comes in the order of topics.
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("shards = 2", "shards = 1")).unwrap();
    let (other, mut lost) = (broker(etcd.node("a")), broker(&config));
    let mut publisher = Peer::client(&other.address, "pub");
    for (at, (topic, payload)) in (1..).zip([("r/one", "one"), ("r/two", "two"), ("r/one", "")]) {
        if payload.is_empty() {
            lost.signal(Signal::KILL);
            lost.child.wait().unwrap();
        }
        publisher.publish_retained(topic, payload, at);
        assert_eq!(publisher.acknowledged(), at);
    }
    let back = broker(&config);
    let is_there = |count: usize| {
        let mut subscriber = Peer::client(&back.address, &format!("sub-{count}"));
        subscriber.subscribe("r/#", QoS::AtMostOnce);
        subscriber.message().topic == "r/one"
    };
    // It hears so as soon as it has told what it keeps.
    assert!((0..20).any(|count| !is_there(count)));
}
