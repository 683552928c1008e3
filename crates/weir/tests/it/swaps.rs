//! Certificates, passwords and access rights that are changed while clients talk.

use crate::access::{offer, passwd, publish, until_end};
use crate::support::blocking::Blocking;
use crate::support::certificates::{Authority, Pair};
use crate::support::results::results;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_wire::{QoS, ReasonCode, Version};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A broker whose files are changed, with TLS for the load and plain TCP for who is watched.
struct Served {
    broker: Child,
    folder: tempfile::TempDir,
    plain: String,
    tls: String,
    /// The hash of everybody's password.
    hash: String,
    pairs: [Pair; 2],
    swaps: usize,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.broker.kill();
        let _ = self.broker.wait();
    }
}

impl Served {
    fn start(users: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("us", folder.path());
        let pairs = ["one", "two"].map(|name| authority.valid(name));
        let once = folder.path().join("once");
        let made = passwd(&[once.to_str().unwrap(), "load", "--batch"], "secret\n");
        assert!(made.status.success(), "{made:?}");
        let line = std::fs::read_to_string(&once).unwrap();
        let hash = line.trim().split_once(':').unwrap().1.to_owned();
        let path = |name: &str| folder.path().join(name);
        let text = format!(
            "shards = 2\nlisten = [\"127.0.0.1:0\"]\n\
             [auth]\npassword_file = {:?}\nacl_file = {:?}\n\
             [[listener]]\naddress = \"127.0.0.1:0\"\n\
             [listener.tls]\ncertificate = {:?}\nkey = {:?}\n",
            path("users"),
            path("rights"),
            path("certificate"),
            path("key"),
        );
        std::fs::write(path("weir.toml"), text).unwrap();
        let nobody = Command::new("true").spawn().unwrap();
        let (plain, tls) = (String::new(), String::new());
        let mut served = Self { broker: nobody, folder, plain, tls, hash, pairs, swaps: 0 };
        served.write(users);
        let mut weir = Command::new(WEIR);
        weir.arg("broker").arg(served.path("weir.toml")).arg("--log-file").arg(served.path("log"));
        served.broker.wait().unwrap();
        served.broker = weir.env_remove("WEIR_LOG").spawn().unwrap();
        served.says(" ready", 1);
        let log = served.log();
        let mut addresses = log.lines().filter_map(|line| line.split_once("listening on "));
        let mut next = || addresses.next().unwrap().1.split(' ').next().unwrap().to_owned();
        (served.plain, served.tls) = (next(), next());
        served
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until the log has said something so many times.
    fn says(&mut self, what: &str, times: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.log().matches(what).count() < times {
            assert!(Instant::now() < deadline, "no {what:?} in {}", self.log());
            assert!(self.broker.try_wait().unwrap().is_none(), "{}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Files in which users from `swaps` on are, and the reader may read one of two gates.
    fn write(&self, users: usize) {
        let Self { hash, pairs, swaps, .. } = self;
        let mut passwords = format!("load:{hash}\nroot:{hash}\nreader:{hash}\n");
        for user in *swaps..users {
            writeln!(passwords, "user-{user}:{hash}").unwrap();
        }
        let gate = gate(*swaps);
        let rights = format!(
            "user load\ntopic readwrite #\nuser root\ntopic readwrite #\n\
             user reader\ntopic read end/#\ntopic read {gate}\n"
        );
        std::fs::write(self.path("users"), passwords).unwrap();
        std::fs::write(self.path("rights"), rights).unwrap();
        let Pair { certificate, key, .. } = &pairs[swaps % 2];
        std::fs::copy(certificate, self.path("certificate")).unwrap();
        std::fs::copy(key, self.path("key")).unwrap();
    }

    /// Changes all files, and has the broker read them.
    fn swap(&mut self, users: usize) {
        self.swaps += 1;
        self.write(users);
        let pid = rustix::process::Pid::from_child(&self.broker);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
        self.says("read the certificate again", self.swaps);
        self.says("users and rights are read again", self.swaps);
    }

    fn join(&self, user: &str) -> Blocking {
        let of = (Some(user), Some("secret"));
        let mut client = offer(&self.plain, of, user, Version::V5, None);
        assert_eq!(client.connack(), Some(ReasonCode::Success), "{user}");
        client
    }
}

/// The one that may be read after so many changes.
fn gate(swaps: usize) -> &'static str {
    ["gate/even", "gate/odd"][swaps % 2]
}

/// Ends with the value.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pairs of clients that talk over TLS until they are done.
fn load(served: &Served, scale: &str, duration: &str, out: &Path) -> Load {
    let mut bench = Command::new(WEIR);
    bench.args(["bench", "run", "p2p-1K-1K-1K-1K", "--pin", "none", "--ui", "none"]);
    bench.args(["--scale", scale, "--duration", duration, "--warm-up", "500ms"]);
    bench.arg("--broker").arg(format!("mqtts://load:secret@{}", served.tls));
    bench.arg("--cafile").arg(served.path("us-ca.pem")).arg("--out").arg(out);
    Load(bench.env_remove("WEIR_LOG").stdout(Stdio::null()).spawn().unwrap())
}

/// Changes the files as long as the load lasts, and `swaps_min` times at least: each time the next
/// user is gone, and the reader may read the other gate.
fn change_under_load(scale: &str, duration: &str, swaps_min: usize) {
    let users = 10_000;
    let mut served = Served::start(users);
    let out = tempfile::tempdir().unwrap();
    let (mut root, mut reader) = (served.join("root"), served.join("reader"));
    for filter in ["end/#", "gate/#"] {
        reader.subscribe(filter, QoS::AtMostOnce).unwrap();
    }
    let mut stays = served.join(&format!("user-{}", users - 1));
    let mut load = load(&served, scale, duration, out.path());
    while load.0.try_wait().unwrap().is_none() || served.swaps < swaps_min {
        let mut goes = served.join(&format!("user-{}", served.swaps));
        served.swap(users);
        // All rights of its user are gone, and so is it.
        while goes.next().is_some() {}
        // Each shard takes the rights over by itself.
        let mut read = || {
            for topic in ["gate/even", "gate/odd"] {
                publish(&mut root, topic, false, "x");
            }
            until_end(&mut root, &mut reader, "reader")
        };
        let came = (0..10_000).map(|_| read()).find(|came| came == &[gate(served.swaps)]);
        assert!(came.is_some(), "the other rights do not come");
        assert_eq!(read(), [gate(served.swaps)]);
        assert_eq!(publish(&mut stays, "anything", false, "x"), ReasonCode::NotAuthorized);
    }
    let kept = results(out.path());
    let [(result, _)] = &kept[..] else { panic!("{kept:?}") };
    let measure = &result["measure"];
    assert_eq!(measure["expected"], measure["delivered"], "{measure}");
    for zero in ["lost", "duplicated", "unacknowledged"] {
        assert_eq!(measure[zero], 0, "{zero}: {measure}");
    }
    let connections = &result["connections"];
    assert_eq!(connections["dropped"], serde_json::json!({}), "{connections}");
    assert!(measure["expected"].as_u64() > Some(0), "{measure}");
    eprintln!("{} changes under {}", served.swaps, measure["expected"]);
}

#[test]
fn files_change_under_clients_of_whom_only_those_whose_rights_went_are_touched() {
    change_under_load("0.05", "3s", 5);
}

/// 10,000 clients, 100 changes.
#[test]
#[ignore = "takes two minutes"]
fn files_change_a_hundred_times_under_ten_thousand_clients() {
    change_under_load("5", "60s", 100);
}
