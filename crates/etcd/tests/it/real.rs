//! Three etcds on this host, and nodes that agree by them.

use crate::asking::{Asking, LONG};
use crate::host::{Host, State};
use crate::tool::tool;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_cluster::{Ask, Cas, Change, Failure, LeaseId, Revision, Said};
use weir_etcd::{EtcdSettings, Identity, User};

const UNAVAILABLE: Said = Said::Failed(Failure::Unavailable);

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
    settings: EtcdSettings,
    _folder: TempDir,
}

impl Cluster {
    /// None if etcd is not installed.
    fn start(size: usize) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        Self::with(size, folder, "http", &[], EtcdSettings::default())
    }

    /// With these arguments besides, and asked by these settings.
    fn with(
        size: usize,
        folder: TempDir,
        scheme: &str,
        more: &[&str],
        mut settings: EtcdSettings,
    ) -> Option<Self> {
        let program = tool("etcd")?;
        let ports: Vec<(u16, u16)> = (0..size).map(|_| (free(), free())).collect();
        let peer_url = |port: u16| format!("http://127.0.0.1:{port}");
        let peer = |(at, &(_, port)): (usize, &(u16, u16))| format!("m{at}={}", peer_url(port));
        let all: Vec<String> = ports.iter().enumerate().map(peer).collect();
        let start = |(at, &(client, peer)): (usize, &(u16, u16))| {
            let (url, peer) = (format!("{scheme}://127.0.0.1:{client}"), peer_url(peer));
            let name = format!("m{at}");
            let child = Command::new(&program)
                .args(["--name", &name, "--initial-cluster", &all.join(",")])
                .arg("--data-dir")
                .arg(folder.path().join(&name))
                .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(more)
                .env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH)
                .stdout(Stdio::null())
                .stderr(log(folder.path(), &name))
                .spawn();
            Member { child: child.unwrap(), url }
        };
        let members: Vec<Member> = ports.iter().enumerate().map(start).collect();
        settings.endpoints = members.iter().map(|member| member.url.clone()).collect();
        let mut asking = Asking::by(&settings);
        let end = Instant::now() + LONG;
        while asking.said(Ask::Get { key: "a".into() }) == UNAVAILABLE {
            assert!(Instant::now() < end, "etcd does not begin to answer");
        }
        Some(Self { members, settings, _folder: folder })
    }

    /// The leader.
    fn leader(&mut self) -> &mut Member {
        let is_leader = |member: &&mut Member| {
            let answer = post(&member.url, "maintenance/status", "{}", "");
            answer["leader"].is_string() && answer["leader"] == answer["header"]["member_id"]
        };
        self.members.iter_mut().find(is_leader).expect("a leader")
    }
}

fn log(folder: &Path, name: &str) -> Stdio {
    std::fs::File::create(folder.join(format!("{name}.log"))).unwrap().into()
}

/// Asks a member for what is no part of the port.
fn post(url: &str, path: &str, body: &str, head: &str) -> serde_json::Value {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request =
        format!("POST /v3/{path} HTTP/1.0\r\n{head}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
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
    let mut asking = Asking::by(&cluster.settings);
    let Said::Found { records, revision } = asking.said(Ask::Range { prefix: "p/".into() }) else {
        panic!("nothing found")
    };
    assert!(records.is_empty());
    let Said::Granted { lease } = asking.said(Ask::Grant { ttl_s: 60 }) else { panic!("no lease") };
    assert_eq!(asking.said(keep_alive(lease)), Said::Renewed);
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
    assert_eq!(asking.said(keep_alive(lease)), gone);
    assert_eq!(asking.said(put("p/a", Revision::NONE, Some(lease))), gone);
    assert_eq!(asking.said(Ask::Revoke { lease }), Said::Revoked);
}

fn keep_alive(lease: LeaseId) -> Ask {
    Ask::KeepAlive { lease, key: "weir/places".into() }
}

/// The partitions of all, which are each of them once.
fn homes(states: &[State]) -> Vec<u8> {
    let mut homes: Vec<u8> = states.iter().flat_map(|state| state.home_to.clone()).collect();
    homes.sort_unstable();
    homes
}

/// Waits until the hosts are home to all partitions together.
fn share(hosts: &[&Host], states: &mut [State]) {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let end = Instant::now() + LONG;
    while homes(states) != all {
        assert!(Instant::now() < end, "{states:?}");
        for (host, state) in hosts.iter().zip(&mut *states) {
            if let Ok(next) = host.states.recv_timeout(Duration::from_millis(100)) {
                *state = next;
            }
        }
    }
}

/// Three nodes agree; this happens to the leader; one node leaves, and two agree.
fn stay_agreed(happens: impl FnOnce(&mut Member)) {
    let Some(mut cluster) = Cluster::start(3) else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| Host::start(name, &cluster.settings));
    let is_whole = |state: &State| state.may_act && state.members.len() == 3;
    let mut states = [&a, &b, &c].map(|host| host.until("all are members", is_whole));
    share(&[&a, &b, &c], &mut states);
    let firsts: BTreeSet<u16> = states[0].members.iter().map(|member| member.1).collect();
    assert_eq!(firsts.len(), 3, "{states:?}");
    happens(cluster.leader());
    // The others see that it has left only if etcd is there again.
    c.leave();
    let has_left = |state: &State| state.may_act && state.members.iter().all(|it| it.0 != "c");
    let mut states = [&a, &b].map(|host| host.until("c has left", has_left));
    share(&[&a, &b], &mut states);
    eprintln!("fenced meanwhile: {} and {} times", states[0].fenced, states[1].fenced);
}

#[test]
fn nodes_stay_agreed_when_the_leader_of_etcd_is_killed() {
    stay_agreed(|leader| leader.child.kill().unwrap());
}

#[test]
fn nodes_stay_agreed_when_the_leader_of_etcd_hangs() {
    stay_agreed(|leader| kill_process(Pid::from_child(&leader.child), Signal::STOP).unwrap());
}

#[test]
fn a_user_may_write_what_its_role_allows() {
    let Some(cluster) = Cluster::start(1) else { return };
    let url = &cluster.members[0].url;
    let root = r#"{"name":"root","password":"r"}"#;
    // "weir/" and "weir0".
    let range = r#""key":"d2Vpci8=","range_end":"d2VpcjA=""#;
    let right = format!(r#"{{"name":"weir","perm":{{"permType":"READWRITE",{range}}}}}"#);
    for (path, body) in [
        ("auth/user/add", root),
        ("auth/user/add", r#"{"name":"weir","password":"secret"}"#),
        ("auth/role/add", r#"{"name":"root"}"#),
        ("auth/role/add", r#"{"name":"weir"}"#),
        ("auth/role/grant", right.as_str()),
        ("auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("auth/user/grant", r#"{"user":"weir","role":"weir"}"#),
        ("auth/enable", "{}"),
    ] {
        let answer = post(url, path, body, "");
        assert!(answer["error"].is_null(), "{path} {body}: {answer}");
    }
    let asking = |user| Asking::by(&EtcdSettings { user, ..cluster.settings.clone() });
    let user = |password: &str| Some(User { name: "weir".into(), password: password.into() });
    assert_eq!(asking(None).said(put("weir/a", Revision::NONE, None)), UNAVAILABLE);
    assert_eq!(asking(user("wrong")).said(put("weir/a", Revision::NONE, None)), UNAVAILABLE);
    let mut asking = asking(user("secret"));
    let Said::Granted { lease } = asking.said(Ask::Grant { ttl_s: 60 }) else { panic!("no lease") };
    let written = asking.said(put("weir/a", Revision::NONE, Some(lease)));
    assert!(matches!(written, Said::Written { .. }), "{written:?}");
    assert_eq!(asking.said(put("other", Revision::NONE, None)), UNAVAILABLE);
    assert_eq!(asking.said(keep_alive(lease)), Said::Renewed);
    assert_eq!(asking.said(Ask::Revoke { lease }), Said::Revoked);
}

#[test]
fn etcd_is_asked_over_tls_and_shown_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(path("ca"), authority.pem()).unwrap();
    for name in ["server", "client"] {
        let params = CertificateParams::new(["127.0.0.1".to_owned(), name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        std::fs::write(path(name), params.signed_by(&key, &authority).unwrap().pem()).unwrap();
        std::fs::write(path(&format!("{name}-key")), key.serialize_pem()).unwrap();
    }
    let identity = Identity { certificate: path("client"), key: path("client-key") };
    let settings = EtcdSettings {
        ca_file: Some(path("ca")),
        identity: Some(identity),
        ..EtcdSettings::default()
    };
    let files = ["ca", "server", "server-key"].map(|name| path(name).display().to_string());
    let more = ["--client-cert-auth", "--trusted-ca-file", &files[0]];
    let more = [&more[..], &["--cert-file", &files[1], "--key-file", &files[2]]].concat();
    let Some(cluster) = Cluster::with(1, folder, "https", &more, settings) else { return };
    // Whoever shows none is not let in.
    let settings = EtcdSettings { identity: None, ..cluster.settings.clone() };
    assert_eq!(Asking::by(&settings).said(Ask::Get { key: "a".into() }), UNAVAILABLE);
    let mut asking = Asking::by(&cluster.settings);
    asking.ask(Ask::Watch { prefix: "a".into(), from: Revision(1) });
    asking.ask(put("a", Revision::NONE, None));
    let both = [asking.next().1, asking.next().1];
    assert!(both.iter().any(|said| matches!(said, Said::Changed { .. })), "{both:?}");
}
