//! What whoever operates a cluster sees of it, and how a node is forgotten.

use crate::api::Served;
use crate::cluster::{Etcd, broker};
use crate::look::{look, look_mjs, seen};
use crate::support::Broker;
use crate::support::asked::{ctl, said};
use crate::support::live::free;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_control::Caller;

/// The key of a member that stand-ins wait for.
const HOLDS: &str = "weir/weir/members/3";

/// A node with a control socket.
struct Node {
    broker: Broker,
    socket: PathBuf,
}

impl Node {
    fn start(etcd: &Etcd, name: &str) -> Self {
        Self::with(etcd, name, "")
    }

    /// With more in its table of the cluster, and behind it.
    fn with(etcd: &Etcd, name: &str, more: &str) -> Self {
        let (socket, control) = control(etcd, name);
        Self { broker: broker(etcd.node_with(name, &format!("{more}{control}"))), socket }
    }

    fn ctl(&self, arguments: &[&str]) -> std::process::Output {
        ctl(&self.socket, arguments)
    }

    /// The cluster as this node shows it, once it is so.
    fn shows(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let cluster: Value =
                serde_json::from_str(&said(&self.ctl(&["cluster", "--json"]))).unwrap();
            if wanted(&cluster) {
                return cluster;
            }
        }
    }

    fn metrics(&self) -> String {
        let reply = Caller::new(&self.socket).unwrap().get("/metrics").unwrap();
        String::from_utf8(reply.body).unwrap()
    }
}

/// A node that need not be ready; ended with the value.
struct Starting(Child);

impl Starting {
    fn begin(etcd: &Etcd, name: &str) -> (Self, PathBuf) {
        let (socket, more) = control(etcd, name);
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.arg("broker").arg(etcd.node_with(name, &more));
        (Self(weir.stderr(Stdio::null()).spawn().unwrap()), socket)
    }
}

/// What `weir ctl health` says.
fn health(socket: &Path) -> (Option<i32>, String) {
    let output = ctl(socket, &["health"]);
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

impl Drop for Starting {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A control socket, and the table of it.
fn control(etcd: &Etcd, name: &str) -> (PathBuf, String) {
    let socket = etcd.folder.path().join(format!("ctl-{name}"));
    let table = format!("[control]\nsocket = {socket:?}\n");
    (socket, table)
}

impl Etcd {
    /// Asks its JSON gateway.
    fn ask(&self, path: &str, body: &Value) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let body = body.to_string();
        let length = body.len();
        write!(
            stream,
            "POST /v3/kv/{path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// What makes a node one whose log is copied.
    fn copied(&self, name: &str) -> String {
        let store = self.folder.path().join(format!("store-{name}"));
        format!("replicas = 2\n[store]\npath = {store:?}\n")
    }

    /// A member that never says what it has.
    fn mute(&self, address: &str) {
        let mut member = json!({ "name": "mute", "slot": 0, "first_shard": 0, "shards": 1 });
        self.put("weir/weir/places", &json!({ "places": [member] }));
        member.as_object_mut().unwrap().extend([
            ("incarnation".into(), 1.into()),
            ("address".into(), address.into()),
            ("letters".into(), 1.into()),
            ("letters_min".into(), 1.into()),
        ]);
        self.put("weir/weir/members/0", &member);
    }

    /// What stands in for a node waits for this one, which says nothing, and has its sessions.
    pub(crate) fn hold_stand_ins(&self) {
        let mute = json!({
            "name": "mute", "slot": 3, "first_shard": 6, "shards": 1, "incarnation": 1,
            "address": "127.0.0.1:1", "letters": 3, "letters_min": 1,
        });
        self.put(HOLDS, &mute);
    }

    pub(crate) fn release_stand_ins(&self) {
        self.ask("deleterange", &json!({ "key": BASE64_STANDARD.encode(HOLDS) }));
    }

    fn put(&self, key: &str, value: &Value) {
        let [key, value] = [key.to_owned(), value.to_string()].map(|it| BASE64_STANDARD.encode(it));
        self.ask("put", &json!({ "key": key, "value": value }));
    }
}

fn states(cluster: &Value) -> Vec<&str> {
    cluster["nodes"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect()
}

#[test]
fn every_node_shows_all_and_forgets_one_that_is_gone() {
    let Some(etcd) = Etcd::start() else { return };
    let nodes = ["a", "b"].map(|name| Node::start(&etcd, name));
    let cluster = nodes[0].shows(|cluster| states(cluster) == ["own", "up"]);
    assert_eq!((&cluster["node"], &cluster["fenced"]), (&json!("a"), &json!(false)));
    assert!((1..=5_000).contains(&cluster["lease_ms"].as_u64().unwrap()), "{cluster}");
    let of_b = &cluster["nodes"][1];
    assert_eq!(
        (&of_b["name"], &of_b["slot"], &of_b["first_shard"]),
        (&json!("b"), &json!(1), &json!(2))
    );
    assert_eq!((&of_b["link"]["resent"], &of_b["link"]["resets"]), (&json!(0), &json!(0)));
    nodes[1].shows(|cluster| states(cluster) == ["up", "own"]);
    let metrics = nodes[0].metrics();
    for part in [
        "weir_cluster_members 2\n",
        "weir_cluster_node_up{node=\"b\"} 1\n",
        "weir_cluster_fenced 0\n",
    ] {
        assert!(metrics.contains(part), "{part} is not in\n{metrics}");
    }
    assert!(!metrics.contains("_copied") && !metrics.contains("_kept"), "{metrics}");
    assert_eq!((&cluster["copy"], &of_b["copy"]), (&json!(null), &json!(null)));
    let table = said(&nodes[0].ctl(&["cluster"]));
    assert!(table.starts_with("cluster weir, 2 members; this is a: lease "), "{table}");

    let forget = |name| {
        let output = nodes[0].ctl(&["cluster", "forget", name]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for name in ["a", "b"] {
        let (code, why) = forget(name);
        assert_eq!(code, Some(2), "{why}");
        assert!(why.contains("is a member of the cluster"), "{why}");
    }
    let (code, why) = forget("c");
    assert_eq!(code, Some(1), "{why}");
    assert!(why.contains("no node c has a place"), "{why}");

    let [a, b] = &nodes;
    b.broker.signal(Signal::TERM);
    let cluster = a.shows(|cluster| states(cluster) == ["own", "away"]);
    assert_eq!((&cluster["nodes_lost"], &cluster["nodes"][1]["link"]), (&json!(1), &json!(null)));
    assert_eq!(forget("b"), (Some(0), String::new()));
    assert_eq!(states(&a.shows(|_| true)), ["own"]);
    // What it had is free.
    let c = Node::start(&etcd, "c");
    let cluster = c.shows(|cluster| states(cluster) == ["up", "own"]);
    assert_eq!(cluster["nodes"][1]["first_shard"], 2);
}

#[test]
fn copies_are_shown_and_which_node_another_stands_in_for() {
    let Some(etcd) = Etcd::start() else { return };
    let [mut a, mut b] = ["a", "b"].map(|name| Node::with(&etcd, name, &etcd.copied(name)));
    for node in [&mut a, &mut b] {
        node.broker.says("another node has all of this node's log node=");
    }
    let keepers =
        |cluster: &Value| [0, 1].map(|at| cluster["nodes"][at]["copy"]["keepers"].clone());
    let cluster = a.shows(|cluster| {
        let is_safe = cluster["copies"][0]["waiting_records"] == 0;
        keepers(cluster) == [json!(["b"]), json!(["a"])] && is_safe
    });
    let copy = &cluster["copies"][0];
    assert_eq!((&copy["state"], &copy["keeper"]), (&json!("whole"), &json!("b")), "{cluster}");
    assert_eq!((&cluster["kept"]["logs"], &cluster["kept"]["opened"]), (&json!(2), &json!(0)));
    assert!(cluster["kept"]["disk_bytes"].as_u64() > Some(0), "{cluster}");
    let has = |node: &Node, parts: &[&str]| {
        let metrics = node.metrics();
        for part in parts {
            assert!(metrics.contains(part), "{part} is not in\n{metrics}");
        }
    };
    has(&a, &["weir_cluster_copied 1\n", "weir_cluster_node_copied{node=\"b\"} 1\n"]);
    let table = said(&a.ctl(&["cluster"]));
    assert!(table.contains("\ncopy of this log: whole, at b, for "), "{table}");
    assert!(table.ends_with("\nLOG OF          COPY AT\na               b\nb               a\n"));

    b.broker.signal(Signal::KILL);
    b.broker.child.wait().unwrap();
    etcd.hold_stand_ins();
    let cluster = a.shows(|cluster| states(cluster) == ["own", "stand_in", "down"]);
    assert_eq!(cluster["nodes"][1]["copy"], json!({ "keepers": ["a"], "state": "opened" }));
    let table = said(&a.ctl(&["cluster"]));
    assert!(table.contains("\nb                  1      2-3  STAND-IN  "), "{table}");
    assert!(table.contains("\nb               a, which serves its sessions\n"), "{table}");
    etcd.release_stand_ins();
    a.broker.says("a node does not have all of this node's log any more node=\"b\"");
    let cluster = a.shows(|cluster| {
        states(cluster) == ["own", "away"] && cluster["nodes"][1]["copy"]["state"] == "void"
    });
    assert_eq!(cluster["nodes"][0]["copy"], json!({ "keepers": [], "state": "kept" }));
    assert_eq!(cluster["nodes_lost"], 2, "the mute one too, and not what stood in");
    assert_eq!(
        (&cluster["copies"][0]["state"], &cluster["kept"]["opened"]),
        (&json!("none"), &json!(1))
    );
    has(
        &a,
        &[
            "weir_cluster_copied 0\n",
            "weir_cluster_copies_opened_total 1\n",
            "weir_cluster_copies_unserved_total 0\n",
            "weir_cluster_node_copied{node=\"a\"} 0\n",
        ],
    );
}

#[test]
fn a_node_is_not_ready_before_it_knows_what_all_others_have() {
    let Some(etcd) = Etcd::start() else { return };
    etcd.mute("127.0.0.1:1");
    let (mut node, socket) = Starting::begin(&etcd, "a");
    let health = || health(&socket);
    loop {
        let (code, said) = health();
        assert_ne!(code, Some(0), "{said}");
        if said.contains("waiting for what other nodes have") {
            break;
        }
        assert_eq!(node.0.try_wait().unwrap(), None);
    }
    let cluster: Value =
        serde_json::from_str(&said(&ctl(&socket, &["cluster", "--json"]))).unwrap();
    assert_eq!(states(&cluster), ["down", "own"]);
    assert_eq!(cluster["nodes"][0]["address"], "127.0.0.1:1");
    etcd.ask("deleterange", &json!({ "key": BASE64_STANDARD.encode("weir/weir/members/0") }));
    while health() != (Some(0), "ready\n".into()) {
        assert_eq!(node.0.try_wait().unwrap(), None);
    }
}

#[test]
fn a_member_whose_address_does_not_resolve_is_waited_for_and_shown() {
    let Some(etcd) = Etcd::start() else { return };
    // Nobody has to be asked for that.
    etcd.mute("nowhere");
    let (mut node, socket) = Starting::begin(&etcd, "a");
    let mut shown = |wanted: &dyn Fn(&Value) -> bool| loop {
        assert_eq!(node.0.try_wait().unwrap(), None);
        let output = ctl(&socket, &["cluster", "--json"]);
        if output.status.success()
            && let Ok(cluster) = serde_json::from_slice::<Value>(&output.stdout)
            && wanted(&cluster["nodes"][0])
        {
            return cluster;
        }
    };
    let cluster = shown(&|mute| mute["unresolved"].is_string());
    assert_eq!(states(&cluster), ["down", "own"]);
    let (code, told) = health(&socket);
    assert_ne!(code, Some(0), "{told}");
    let table = said(&ctl(&socket, &["cluster"]));
    assert!(table.contains("\nmute: its address nowhere does not resolve: "), "{table}");
    // It is somewhere now.
    etcd.mute("127.0.0.1:1");
    let cluster = shown(&|mute| mute["unresolved"].is_null());
    assert_eq!(cluster["nodes"][0]["address"], "127.0.0.1:1");
}

#[test]
fn nodes_find_each_other_by_name() {
    let Some(etcd) = Etcd::start() else { return };
    let nodes = ["a", "b"].map(|name| {
        let (socket, more) = control(&etcd, name);
        let path = etcd.node_with(name, "");
        let text = std::fs::read_to_string(&path).unwrap();
        let (_, port) = text.trim_end().rsplit_once(':').unwrap();
        // The quote behind the port is the end of this, too.
        std::fs::write(&path, format!("{text}\nadvertise = \"localhost:{port}\n{more}")).unwrap();
        Node { broker: broker(path), socket }
    });
    let cluster = nodes[1].shows(|cluster| states(cluster) == ["up", "own"]);
    let of_a = &cluster["nodes"][0];
    assert!(of_a["address"].as_str().unwrap().starts_with("localhost:"), "{of_a}");
    assert_eq!(of_a["unresolved"], json!(null));
}

/// With `PICTURES=FOLDER`, an absolute path, pictures of it are kept there.
#[test]
fn the_dashboard_of_a_node_has_a_page_of_the_cluster() {
    let (Some(etcd), Some(look_mjs)) = (Etcd::start(), look_mjs()) else { return };
    let mut served = Served::start(&format!(
        "[cluster]\nnode = \"a\"\netcd = [\"http://127.0.0.1:{}\"]\nlisten = \"127.0.0.1:{}\"\n{}",
        etcd.port,
        free(),
        etcd.copied("a"),
    ));
    let _b = broker(etcd.node_with("b", &etcd.copied("b")));
    // The last node is kept by the first, unless it is connected with the other sooner.
    loop {
        let mut c = broker(etcd.node_with("c", &etcd.copied("c")));
        let kept = c.says("another node has all of this node's log");
        c.signal(Signal::TERM);
        c.child.wait().unwrap();
        if kept.contains("node=\"a\"") {
            break;
        }
    }
    served.broker.says("the sessions of a lost node are this node's now");
    let pictures = std::env::var_os("PICTURES").map(PathBuf::from);
    let mut options =
        vec![format!("--admin={}", served.admin), format!("--viewer={}", served.viewer)];
    options.extend(pictures.map(|folder| format!("--pictures={}", folder.display())));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let url = format!("http://{}/", served.broker.http.as_ref().unwrap());
    let told = seen(&look(&look_mjs.with_file_name("cluster.mjs"), Path::new(&url), &options));
    assert_eq!(told["faults"], json!([]), "{told:#}");
    let seen = &told["seen"];
    assert_eq!((&seen["viewer"], &seen["focus"]), (&json!(true), &json!("Nodes")), "{seen:#}");
    for (name, part) in [
        ("name", "cluster weir, seen by node a"),
        ("facts", "of 3 places"),
        ("facts", "copy of this logwhole at b, for "),
        ("nodes", "at b"),
        ("nodes", "void, opened"),
        ("links", "letters out"),
        ("forgotten", "The place of c is free."),
    ] {
        assert!(seen[name].as_str().unwrap().contains(part), "{name}: {seen:#}");
    }
}
