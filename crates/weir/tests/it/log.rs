//! The log of `weir broker`: whoever reads it, or does not, the broker serves and ends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A client identifier of control characters, as long as the protocol lets it be.
const NAME_BYTES: usize = 65_535;

fn start(stderr: Stdio, arguments: &[&str]) -> (Child, SocketAddr) {
    // Where a broker listens is what its log would say.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = Command::new(WEIR)
        .args(["broker", "--listen", &address.to_string()])
        .args(arguments)
        .env_remove("WEIR_LOG")
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    (child, address)
}

/// What the broker answers to a PINGREQ of a client, which it lets in first. Waits until it is up.
fn serves(address: SocketAddr) -> bool {
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c\xc0\x00").unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).is_ok() && answer[4..] == [0xD0, 0]
}

/// A client that is refused, which is a line of the log.
fn is_refused(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut packet = b"\x10\x8b\x80\x04\x00\x04MQTT\x04\x02\x00\x00\xff\xff".to_vec();
    packet.extend([1; NAME_BYTES]);
    let _ = stream.write_all(&packet);
    let _ = stream.read_to_end(&mut Vec::new());
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

fn ends(mut child: Child) {
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_log_that_nobody_reads_any_more_does_not_end_the_broker() {
    let (mut child, address) = start(Stdio::piped(), &[]);
    let mut log = BufReader::new(child.stderr.take().unwrap());
    log.read_line(&mut String::new()).unwrap();
    drop(log);
    assert!(serves(address));
    is_refused(address);
    assert!(serves(address));
    ends(child);
}

#[test]
fn a_full_disk_behind_the_log_does_not_end_the_broker() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (child, address) = start(full.into(), &[]);
    assert!(serves(address));
    is_refused(address);
    assert!(serves(address));
    ends(child);
}

#[test]
fn a_pipe_that_nobody_drains_holds_up_neither_clients_nor_the_end() {
    let (read, mut write) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&write, true).unwrap();
    // Full to the last byte, whatever it holds.
    for bytes in [4096, 1] {
        while write.write(&vec![b'x'; bytes]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&write, false).unwrap();
    let (child, address) = start(write.into(), &["--log-level", "trace"]);
    assert!(serves(address));
    for _ in 0..20 {
        is_refused(address);
    }
    assert!(serves(address));
    ends(child);
    drop(read);
}

#[test]
fn lines_are_json_short_and_go_on_in_a_new_file_after_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
    let file = path.to_str().unwrap();
    let arguments = ["--log-file", file, "--log-format", "json", "--log-level", "debug"];
    let (child, address) = start(Stdio::null(), &arguments);
    assert!(serves(address));
    is_refused(address);
    // What waits to be written when the file changes goes to the new one.
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains("listening on")) {
        std::thread::yield_now();
    }
    std::fs::rename(&path, &moved).unwrap();
    signal(&child, rustix::process::Signal::HUP);
    while !path.exists() {
        std::thread::yield_now();
    }
    assert!(serves(address));
    ends(child);
    for (path, said) in [(&moved, "listening on"), (&path, "SIGHUP")] {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(said), "{text}");
        for line in text.lines() {
            assert!(line.len() <= 16 * 1024, "{} bytes", line.len());
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

#[test]
fn a_wrong_level_is_named() {
    let output = Command::new(WEIR)
        .args(["broker", "--check", "--log-level", "weir=loud"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("--log-level"), "{text}");
}
