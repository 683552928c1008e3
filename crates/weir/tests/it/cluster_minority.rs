//! A node of three that is cut off from etcd, and serves its own clients meanwhile.

use crate::cluster::{Etcd, broker};
use crate::store::{V5, is_acknowledged, join, publish, take};
use crate::support::asked::{ctl, said};
use crate::support::blocking::{Blocking, decode};
use crate::support::connect::lasting;
use crate::support::live::{is_served, left, offer};
use crate::support::mqtt::Peer;
use crate::support::{Broker, between};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use weir_control::Caller;
use weir_wire::packet::Connect;
use weir_wire::{Packet, Property, QoS, ReasonCode};

const Q1: QoS = QoS::AtLeastOnce;

/// The way of a node to etcd, which can be cut: whoever connects then finds nobody.
struct Way {
    port: u16,
    /// Both ends of each connection; nothing while it is cut.
    carried: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Way {
    fn to(etcd: &Etcd) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let carried = Arc::new(Mutex::new(Some(Vec::new())));
        let (all, to) = (Arc::clone(&carried), etcd.port);
        std::thread::spawn(move || {
            for node in listener.incoming().map_while(Result::ok) {
                let mut all = all.lock().unwrap();
                let (Some(all), Ok(etcd)) = (&mut *all, TcpStream::connect(("127.0.0.1", to)))
                else {
                    continue;
                };
                all.extend(between::carry(node, etcd));
            }
        });
        Self { port, carried }
    }

    fn cut(&self) {
        let carried = self.carried.lock().unwrap().take();
        between::cut(carried.into_iter().flatten());
    }

    fn mend(&self) {
        *self.carried.lock().unwrap() = Some(Vec::new());
    }
}

/// Nodes `a` and `b`, and `c` whose way to etcd can be cut. `more` is each one's, by its name.
fn three(etcd: &Etcd, way: &Way, more: impl Fn(&str) -> String) -> ([Broker; 3], PathBuf) {
    let socket = etcd.folder.path().join("ctl");
    let control = format!("[control]\nsocket = {socket:?}\n");
    let configs = ["a", "b", "c"].map(|name| {
        let control = if name == "c" { &*control } else { "" };
        etcd.node_with(name, &format!("minority = \"serve\"\n{}{control}", more(name)))
    });
    let text = std::fs::read_to_string(&configs[2]).unwrap();
    let own = |port: u16| format!("http://127.0.0.1:{port}");
    std::fs::write(&configs[2], text.replace(&own(etcd.port), &own(way.port))).unwrap();
    (configs.each_ref().map(broker), socket)
}

/// A client whose session ends with its connection, and whether CONNACK says that its node is cut
/// off.
pub(crate) fn offered(node: &Broker, client_id: &str) -> (Blocking, bool) {
    let mut of = Blocking::connect(&node.address, V5).unwrap();
    of.send(&Packet::Connect(Connect::new(V5, client_id))).unwrap();
    let bytes = of.next().expect("CONNACK");
    let Packet::ConnAck(connack) = decode(V5, &bytes) else { panic!("no CONNACK: {bytes:?}") };
    assert_eq!((connack.reason, connack.session_present), (ReasonCode::Success, false));
    let named = Property::UserProperty("weir-cluster", "minority");
    let is_cut_off = connack.properties.iter().any(|property| property == named);
    (of, is_cut_off)
}

/// What a client that wants its session kept is answered.
pub(crate) fn refused(node: &Broker, client_id: &str) -> ReasonCode {
    let mut of = Blocking::connect(&node.address, V5).unwrap();
    let properties = lasting();
    let properties = properties.as_properties();
    let connect = Connect { clean_start: false, properties, ..Connect::new(V5, client_id) };
    of.send(&Packet::Connect(connect)).unwrap();
    of.connack().unwrap()
}

fn send(of: &mut Blocking, topic: &str, payload: &str) {
    publish(of, topic, payload, 1).unwrap();
    assert!(is_acknowledged(of), "{payload}");
}

#[test]
fn clients_without_a_kept_session_go_on_by_themselves_while_their_node_is_cut_off() {
    let Some(etcd) = Etcd::start() else { return };
    let way = Way::to(&etcd);
    let ([mut a, b, mut c], socket) = three(&etcd, &way, |_| String::new());
    let mut local = Peer::client(&c.address, "local");
    let mut far = Peer::client(&a.address, "far");
    [&mut local, &mut far].into_iter().for_each(|it| it.subscribe("t", Q1));
    let (mut publisher, is_cut_off) = offered(&c, "pub");
    assert!(!is_cut_off);
    let (mut kept, _) = join(&c.address, "kept");
    kept.subscribe("t", Q1);
    send(&mut publisher, "t", "whole");
    for it in [&mut local, &mut far] {
        assert_eq!(it.message().payload, "whole");
    }
    assert_eq!(take(&mut kept).as_deref(), Some("whole"));
    way.cut();
    assert_eq!(left(&mut kept), Some(ReasonCode::ServerShuttingDown));
    c.says("this node has lost the cluster: it serves clients without a kept session by itself");
    // Who stayed goes on, and who comes is told.
    send(&mut publisher, "t", "apart");
    assert_eq!(local.message().payload, "apart");
    let (mut new, is_cut_off) = offered(&c, "new");
    assert!(is_cut_off);
    new.subscribe("t", Q1);
    send(&mut publisher, "t", "for new");
    assert_eq!(take(&mut new).as_deref(), Some("for new"));
    assert_eq!(refused(&c, "kept"), ReasonCode::ServerUnavailable);
    assert_eq!(refused(&c, "other-kept"), ReasonCode::ServerUnavailable);
    assert_eq!(ctl(&socket, &["health"]).status.code(), Some(1));
    let shown = said(&ctl(&socket, &["cluster"]));
    assert!(shown.contains("this is c: MINORITY") && shown.contains("fenced 1,"), "{shown}");
    let metrics = || Caller::new(&socket).unwrap().get("/metrics").unwrap().body;
    let is_in = |part: &str| String::from_utf8(metrics()).unwrap().contains(part);
    assert!(is_in("weir_cluster_minority 1\n"));
    // The others go on without it.
    a.says("a node is lost node=\"c\"");
    let (mut kept, was_there) = join(&a.address, "kept");
    assert!(!was_there);
    kept.subscribe("t", Q1);
    let (mut other, _) = offered(&b, "other");
    send(&mut other, "t", "majority");
    assert_eq!(take(&mut kept).as_deref(), Some("majority"));
    assert_eq!(far.message().payload, "majority");
    way.mend();
    assert_eq!(left(&mut publisher), Some(ReasonCode::ServerShuttingDown));
    c.says("this node is a member of its cluster again");
    let (mut back, is_cut_off) = offered(&c, "pub");
    assert!(!is_cut_off);
    send(&mut back, "t", "whole again");
    assert_eq!(take(&mut kept).as_deref(), Some("whole again"));
    assert_eq!(far.message().payload, "whole again");
    assert_eq!(ctl(&socket, &["health"]).status.code(), Some(0));
    assert!(is_in("weir_cluster_minority 0\n"));
    assert!(is_served(&mut offer(&c.address, "served", None).0));
}

#[test]
fn what_a_node_acknowledges_while_it_is_cut_off_is_in_no_session_that_another_has_opened() {
    let Some(etcd) = Etcd::start() else { return };
    let way = Way::to(&etcd);
    let (mut nodes, _) = three(&etcd, &way, |name| {
        let store = etcd.folder.path().join(format!("store-{name}"));
        // Small files, so that it is soon read.
        format!("replicas = 2\n[store]\npath = {store:?}\nsegment_bytes = 2097152\n")
    });
    let [_, _, said] = nodes.each_mut().map(|node| node.says("has all of this node's log"));
    let keeper = usize::from(!said.contains("node=\"a\""));
    let (mut kept, _) = join(&nodes[2].address, "kept");
    kept.subscribe("t", Q1);
    drop(kept);
    let (mut near, _) = offered(&nodes[2], "near");
    let (mut far, _) = offered(&nodes[1], "far");
    send(&mut near, "t", "1");
    let mut local = Peer::client(&nodes[2].address, "local");
    local.subscribe("t", Q1);
    way.cut();
    nodes[2]
        .says("this node has lost the cluster: it serves clients without a kept session by itself");
    // The copy of its log is out of reach, and nobody here waits for it.
    send(&mut near, "t", "apart");
    assert_eq!(local.message().payload, "apart");
    nodes[keeper].says("the sessions of a lost node are this node's now");
    let (mut kept, was_there) = join(&nodes[0].address, "kept");
    assert!(was_there);
    assert_eq!(take(&mut kept).as_deref(), Some("1"));
    send(&mut far, "t", "2");
    assert_eq!(take(&mut kept).as_deref(), Some("2"));
    way.mend();
    assert_eq!(left(&mut near), Some(ReasonCode::ServerShuttingDown));
    nodes[2].says("another node has this node's sessions: they are void here");
    nodes[2].says("this node is a member of its cluster again");
    drop(kept);
    send(&mut far, "t", "3");
    let (mut kept, was_there) = join(&nodes[2].address, "kept");
    assert!(was_there);
    let (mut near, is_cut_off) = offered(&nodes[2], "near");
    assert!(!is_cut_off);
    send(&mut near, "t", "4");
    assert_eq!([(); 2].map(|()| take(&mut kept).unwrap()), ["3", "4"]);
}
