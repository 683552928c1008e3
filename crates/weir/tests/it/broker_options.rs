//! `weir broker` as somebody meets it who comes from Mosquitto, and the examples of docs/broker.md.

use crate::support::Broker;
use crate::support::live::free;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn broker(arguments: &[&str]) -> Output {
    Command::new(WEIR).arg("broker").args(arguments).env_remove("WEIR_LOG").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_example_of_the_documentation_is_a_configuration() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/broker");
    let mut checked = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let output = broker(&["--check", "-c", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}: {}", path.display(), text(&output.stderr));
        checked += 1;
    }
    assert!(checked >= 5, "{checked} examples");
}

#[test]
fn a_port_is_one_of_this_host_only_and_counts_more_than_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "listen = [\"0.0.0.0:1\"]\n").unwrap();
    let path = file.path().to_str().unwrap();
    let listen = |arguments: &[&str]| {
        let output = broker(&[&["--check", "--allow-anonymous"], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let printed: toml::Table = text(&output.stdout).parse().unwrap();
        let listen = printed["listen"].as_array().unwrap().clone();
        listen.into_iter().map(|address| address.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let has_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let loopback = |port: u16| {
        let v6 = has_v6.then(|| SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        [Some(v4), v6].into_iter().flatten().map(|address| address.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(listen(&["-c", path]), ["0.0.0.0:1"]);
    assert_eq!(listen(&[path]), ["0.0.0.0:1"]);
    assert_eq!(listen(&["-p", "7"]), loopback(7));
    assert_eq!(listen(&["-c", path, "-p", "7", "-p", "8"]), [loopback(7), loopback(8)].concat());
    let both = listen(&[path, "--port", "7", "--listen", "192.0.2.1:9"]);
    assert_eq!(both, [vec!["192.0.2.1:9".to_owned()], loopback(7)].concat());
}

#[test]
fn a_broker_on_a_port_is_reached_by_each_address_of_the_loopback() {
    // Another process may take the port meanwhile; then another is tried.
    let started = (0..10).find_map(|_| Broker::try_start(&["-p", &free().to_string()]));
    let port: u16 = started.as_ref().unwrap().port().parse().unwrap();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_ok());
        let again = broker(&["--listen", &format!("[::1]:{port}")]);
        let said = text(&again.stderr);
        assert!(said.contains("the port is taken") && said.contains("[::1]:PORT"), "{said}");
    }
}

#[test]
fn a_configuration_of_mosquitto_is_recognised_however_it_is_given() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "listener 1884\npersistence true\nmax_queued_messages 7\n")
        .unwrap();
    let path = file.path().to_str().unwrap();
    for arguments in [&[path][..], &["-c", path], &["--config", path], &["--check", path]] {
        let output = broker(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty());
        for part in [
            "is a configuration of Mosquitto",
            "weir broker --mosquitto ",
            "weir import mosquitto ",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn a_file_is_given_once_and_the_background_is_refused_with_what_to_do() {
    for (arguments, part) in [
        (&["-c", "a", "b"][..], "cannot be used with"),
        (&["-d"], "foreground"),
        (&["-p", "0"], "1..=65535"),
        (&["/nowhere/at/all"], "cannot read the configuration file /nowhere/at/all: No such file"),
    ] {
        let output = broker(arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{arguments:?}: {said}");
    }
}
