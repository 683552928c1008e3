//! A broker whose configuration is changed while it runs.

use super::Broker;
use super::asked::ctl;
use super::blocking::Blocking;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use weir_wire::packet::Connect;
use weir_wire::{Packet, ReasonCode, Version};

/// What most tests begin with: two threads, at a port of the system's choice.
pub(crate) const LISTEN: &str = "shards = 2\nlisten = [\"127.0.0.1:0\"]\n";

/// A port that nobody has for now.
pub(crate) fn free() -> u16 {
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

pub(crate) struct Live {
    pub(crate) broker: Broker,
    pub(crate) folder: tempfile::TempDir,
    config: String,
}

impl Live {
    /// Runs by this and a control socket. `{}` stands for the folder.
    pub(crate) fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        std::fs::write(folder.path().join("weir.toml"), whole(&path, config)).unwrap();
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.arg("broker").arg(folder.path().join("weir.toml"));
        let broker = Broker::by(&mut weir).expect("the broker ended before it listened");
        Self { broker, folder, config: config.to_owned() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        ctl(&self.path("ctl"), arguments)
    }

    /// Writes another configuration, and has it read. What was said, and the exit code.
    pub(crate) fn reload(&mut self, config: &str) -> (String, Option<i32>) {
        self.config = config.to_owned();
        let path = self.folder.path().to_str().unwrap();
        std::fs::write(self.path("weir.toml"), whole(path, config)).unwrap();
        let output = self.ctl(&["reload"]);
        let said = [output.stdout, output.stderr].concat();
        (String::from_utf8(said).unwrap(), output.status.code())
    }

    /// The same where it is to be taken. What was said.
    pub(crate) fn change(&mut self, config: &str) -> String {
        let (said, code) = self.reload(config);
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// A client of 5.0, and what its CONNACK says.
    pub(crate) fn offer(&self, client_id: &str, user: Option<&str>) -> (Blocking, ReasonCode) {
        offer(&self.broker.address, client_id, user)
    }

    /// One that is let in.
    pub(crate) fn join(&self, client_id: &str) -> Blocking {
        let (client, reason) = self.offer(client_id, None);
        assert_eq!(reason, ReasonCode::Success, "{client_id}");
        client
    }
}

fn whole(path: &str, config: &str) -> String {
    format!("{config}\n[control]\nsocket = \"{{}}/ctl\"\n").replace("{}", path)
}

/// A client of 5.0 whose password is its user name, and what its CONNACK says.
pub(crate) fn offer(address: &str, client_id: &str, user: Option<&str>) -> (Blocking, ReasonCode) {
    let mut client = Blocking::connect(address, Version::V5).unwrap();
    let password = user.map(str::as_bytes);
    let connect = Connect { user_name: user, password, ..Connect::new(Version::V5, client_id) };
    client.send(&Packet::Connect(connect)).unwrap();
    let reason = client.connack().expect("CONNACK");
    (client, reason)
}

/// Why the connection ends, which is to come next.
pub(crate) fn left(client: &mut Blocking) -> Option<ReasonCode> {
    let reason = client.packet(|packet| match packet {
        Packet::Disconnect(disconnect) => disconnect.reason,
        other => panic!("no DISCONNECT: {other:?}"),
    });
    assert_eq!(client.next(), None, "it ends");
    reason
}

/// Says PINGREQ; whether the answer comes.
pub(crate) fn is_served(client: &mut Blocking) -> bool {
    let _ = client.send(&Packet::PingReq);
    client.packet(|packet| matches!(packet, Packet::PingResp)) == Some(true)
}
