//! A broker with a control socket, in a folder of its own.

use super::Broker;
use super::mqtt::Peer;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_wire::packet::Connect;
use weir_wire::{Packet, Version};

pub(crate) struct Asked {
    pub(crate) broker: Broker,
    pub(crate) socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Asked {
    /// With two threads, and this in its file besides; what it names may be in the folder.
    pub(crate) fn start(config: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("weir.toml"), folder.path().join("ctl"));
        let more = config(folder.path());
        let text = format!("shards = 2\n{more}[control]\nsocket = {socket:?}\n");
        std::fs::write(&file, text).unwrap();
        let broker = Broker::start_with(&["--config", file.to_str().unwrap()]);
        Self { broker, socket, _folder: folder }
    }

    /// A client of 3.1.1 that has its CONNACK.
    pub(crate) fn join(&self, client_id: &str, clean_start: bool) -> Peer {
        let stream = TcpStream::connect(&self.broker.address).unwrap();
        let mut peer = Peer::new(stream, Version::V311);
        let connect = Connect::new(Version::V311, client_id);
        peer.send(&Packet::Connect(Connect { clean_start, keep_alive_s: 60, ..connect }));
        assert_eq!(peer.packet().unwrap(), [0x20, 2, 0, 0], "CONNACK");
        peer
    }

    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        ctl(&self.socket, arguments)
    }
}

/// `weir ctl` with a socket that may be nobody's.
pub(crate) fn ctl(socket: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ctl", "--socket"])
        .arg(socket)
        .args(arguments)
        .output()
        .unwrap()
}

/// What a command that succeeded has printed.
pub(crate) fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}
