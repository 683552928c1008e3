//! A node that is away with sessions that are on its disk alone: their clients wait for it, if they
//! are to.

use crate::cluster::{Etcd, broker};
use crate::cluster_minority::{offered, refused};
use crate::store::{is_acknowledged, join, publish, take};
use rustix::process::Signal;
use weir_wire::{QoS, ReasonCode};

#[test]
fn a_session_is_not_begun_anew_while_its_node_is_away() {
    let Some(etcd) = Etcd::start() else { return };
    let config = |name: &str| {
        let folder = etcd.folder.path().join(format!("store-{name}"));
        etcd.node_with(name, &format!("absent = \"wait\"\n[store]\npath = {folder:?}\n"))
    };
    let (a, b) = (config("a"), config("b"));
    let (mut lost, mut there) = (broker(&a), broker(&b));
    let (mut wanderer, _) = join(&lost.address, "wanderer");
    wanderer.subscribe("t", QoS::AtLeastOnce);
    drop(wanderer);
    let (mut home, _) = join(&there.address, "home");
    publish(&mut home, "t", "1", 1).unwrap();
    assert!(is_acknowledged(&mut home));
    lost.signal(Signal::KILL);
    lost.child.wait().unwrap();
    there.says("a node is lost");
    for client_id in ["wanderer", "whoever"] {
        assert_eq!(refused(&there, client_id), ReasonCode::ServerUnavailable, "{client_id}");
    }
    // Those of sessions that are here come in, and those who want none.
    assert!(join(&there.address, "home").1);
    drop(offered(&there, "passer-by"));
    let back = broker(&a);
    assert_eq!(refused(&there, "whoever"), ReasonCode::Success);
    let (mut wanderer, was_there) = join(&there.address, "wanderer");
    assert!(was_there);
    assert_eq!(take(&mut wanderer).as_deref(), Some("1"));
    drop(back);
}
