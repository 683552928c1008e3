//! `weir broker` as somebody meets it who comes from Mosquitto, and the examples of docs/broker.md.

use crate::support::blocking::connects;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn weir(arguments: &[&str]) -> Output {
    let mut command = Command::new(WEIR);
    command.arg("broker").args(arguments).env_remove("WEIR_LOG").output().unwrap()
}
