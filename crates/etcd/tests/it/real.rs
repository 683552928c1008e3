//! Three etcds on this host, and nodes that agree by them.

use crate::asking::{Asking, LONG};
use crate::host::{Host, State};
use crate::tool::tool;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use weir_cluster::{Ask, Cas, Change, Failure, LeaseId, Revision, Said};
use weir_etcd::EtcdSettings;

/// A port that nobody has for now.
fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Below those that the system picks for connections of others.
    let from = std::process::id();
    loop {
        let port = 20_000 + (from + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port as u16)).is_ok() {
            return port as u16;
        }
    }
}

/// A member of etcd; killed with the value.
struct Member {
    child: Child,
    url: String,
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster of etcd in a folder of its own.
struct Cluster {
    members: Vec<Member>,
    _folder: tempfile::TempDir,
}

impl Cluster {
    /// None if etcd is not installed.
    fn start(size: usize) -> Option<Self> {
        let program = tool("etcd")?;
        let folder = tempfile::tempdir().unwrap();
        let ports: Vec<(u16, u16)> = (0..size).map(|_| (free(), free())).collect();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peer = |(at, &(_, port)): (usize, &(u16, u16))| format!("m{at}={}", url(port));
        let all: Vec<String> = ports.iter().enumerate().map(peer).collect();
        let start = |(at, &(client, peer)): (usize, &(u16, u16))| {
            let (client, peer) = (url(client), url(peer));
            let name = format!("m{at}");
            let child = Command::new(&program)
                .args(["--name", &name, "--initial-cluster", &all.join(",")])
                .arg("--data-dir")
                .arg(folder.path().join(&name))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
                .stdout(Stdio::null())
                .stderr(log(folder.path(), &name))
                .spawn();
            Member { child: child.unwrap(), url: client }
        };
        let members = ports.iter().enumerate().map(start).collect();
        let cluster = Self { members, _folder: folder };
        cluster.is_ready();
        Some(cluster)
    }

    fn settings(&self) -> EtcdSettings {
        let endpoints = self.members.iter().map(|member| member.url.clone()).collect();
        EtcdSettings { endpoints, ..EtcdSettings::default() }
    }

    fn is_ready(&self) {
        let mut asking = Asking::by(&self.settings());
        let end = Instant::now() + LONG;
        while asking.said(Ask::Get { key: "a".into() }) == Said::Failed(Failure::Unavailable) {
            assert!(Instant::now() < end, "etcd does not begin to answer");
        }
    }

    /// Kills the leader.
    fn kill_leader(&mut self) {
        let is_leader = |member: &Member| {
            let answer = status(&member.url);
            answer["leader"].is_string() && answer["leader"] == answer["header"]["member_id"]
        };
        let at = self.members.iter().position(is_leader).expect("a leader");
        drop(self.members.remove(at));
    }
}

fn log(folder: &Path, name: &str) -> Stdio {
    std::fs::File::create(folder.join(format!("{name}.log"))).unwrap().into()
}

/// What a member says of itself.
fn status(url: &str) -> serde_json::Value {
    use std::io::{Read, Write};
    let address = url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = "POST /v3/maintenance/status HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn put(key: &str, at: Revision, lease: Option<LeaseId>) -> Ask {
    let compared = vec![(key.to_owned(), at)];
    Ask::Cas(Cas { key: key.into(), value: Some(b"x".to_vec()), lease, compared })
}

#[test]
fn etcd_answers_as_the_agreement_in_memory_does() {
    let Some(cluster) = Cluster::start(1) else { return };
    let mut asking = Asking::by(&cluster.settings());
    let Said::Found { records, revision } = asking.said(Ask::Range { prefix: "p/".into() }) else {
        panic!("nothing found")
    };
    assert!(records.is_empty());
    let Said::Granted { lease } = asking.said(Ask::Grant { ttl_s: 60 }) else { panic!("no lease") };
    assert_eq!(asking.said(Ask::KeepAlive { lease }), Said::Renewed);
    let written = Said::Written { revision: revision.next() };
    assert_eq!(asking.said(put("p/a", Revision::NONE, Some(lease))), written);
    let different = Said::Failed(Failure::Different);
    assert_eq!(asking.said(put("p/a", Revision::NONE, None)), different);
    let watch = asking.ask(Ask::Watch { prefix: "p/".into(), from: revision.next() });
    let (ticket, Said::Changed { changes }) = asking.next() else { panic!("no change") };
    assert_eq!(ticket, watch);
    let Change::Put(record) = &changes[0] else { panic!("{changes:?}") };
    assert_eq!((record.key.as_str(), record.lease), ("p/a", Some(lease)));
    // Of another prefix nothing is told.
    let other = asking.said(put("q/a", Revision::NONE, None));
    assert_eq!(other, Said::Written { revision: revision.next().next() });
    let revoke = asking.ask(Ask::Revoke { lease });
    let mut told = [asking.next(), asking.next()];
    told.sort_by_key(|(ticket, _)| *ticket == revoke);
    let (key, revision) = ("p/a".to_owned(), revision.next().next().next());
    let changes = vec![Change::Gone { key, revision }];
    assert_eq!(told, [(watch, Said::Changed { changes }), (revoke, Said::Revoked)]);
    let gone = Said::Failed(Failure::LeaseGone);
    assert_eq!(asking.said(Ask::KeepAlive { lease }), gone);
    assert_eq!(asking.said(put("p/a", Revision::NONE, Some(lease))), gone);
    assert_eq!(asking.said(Ask::Revoke { lease }), Said::Revoked);
}

/// The partitions of all, which are each of them once.
fn homes(states: &[State]) -> Vec<u8> {
    let mut homes: Vec<u8> = states.iter().flat_map(|state| state.home_to.clone()).collect();
    homes.sort_unstable();
    homes
}

#[test]
fn nodes_stay_agreed_when_the_leader_of_etcd_is_killed() {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let settings = cluster.settings();
    let names = ["a", "b", "c"];
    let hosts = names.map(|name| Host::start(name, &settings));
    let is_whole =
        |state: &State| state.may_act && state.members.len() == 3 && !state.home_to.is_empty();
    // Moves go on for a moment after all have come.
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let end = Instant::now() + LONG;
    let mut states = hosts.each_ref().map(|host| host.until("all are members", is_whole));
    while homes(&states) != all {
        assert!(Instant::now() < end, "{states:?}");
        for (host, state) in hosts.iter().zip(&mut states) {
            if let Ok(next) = host.states.recv_timeout(std::time::Duration::from_millis(100)) {
                *state = next;
            }
        }
    }
    let firsts: std::collections::BTreeSet<u16> =
        states[0].members.iter().map(|member| member.1).collect();
    assert_eq!(firsts.len(), 3, "{states:?}");

    cluster.kill_leader();
    // One goes, which the others can only see if etcd is there again.
    let [a, b, c] = hosts;
    c.leave();
    let left = |state: &State| state.may_act && state.members.iter().all(|it| it.0 != "c");
    let mut states = [a.until("c has left", left), b.until("c has left", left)];
    while homes(&states) != all {
        assert!(Instant::now() < end + LONG, "{states:?}");
        for (host, state) in [&a, &b].into_iter().zip(&mut states) {
            if let Ok(next) = host.states.recv_timeout(std::time::Duration::from_millis(100)) {
                *state = next;
            }
        }
    }
    assert_eq!([&states[0], &states[1]].map(|state| state.fenced), [0, 0], "nobody was fenced");
}
