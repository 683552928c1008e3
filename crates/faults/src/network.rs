//! Namespaces of the network: one for each node, joined by a bridge that the clients are at.
//!
//! The program runs itself again in namespaces of its own for processes, mounts and the network,
//! and all of that is gone when it ends, however it ends. So nothing of a run is ever seen outside.

use crate::plan::{Fault, Kind, NODES};
use anyhow::{Context, bail, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_bench::driver::program_of_host;

/// How often it is looked whether the run is over, or is to be.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Says to the program that it is in its namespaces.
const INSIDE: &str = "WEIR_FAULTS_INSIDE";

/// What has to be installed, and the package that it is in.
const NEEDED: [(&str, &str); 6] = [
    ("etcd", "etcd-server"),
    ("ip", "iproute2"),
    ("mount", "mount"),
    ("nft", "nftables"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
];

/// What keeps this host from a run, if anything does.
pub(crate) fn obstacle(kinds: &[Kind]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces of the network take root".into());
    }
    if !crate::clock::IS_KNOWN && kinds.contains(&Kind::Clock) {
        return Some("clocks are stepped on x86-64 only; --only names other faults".into());
    }
    let (program, package) =
        NEEDED.into_iter().find(|(program, _)| program_of_host(program).is_none())?;
    Some(format!("there is no {program}; to install it: apt-get install {package}"))
}

/// Runs the program again in namespaces of its own, unless it is there already, and ends as that
/// does. It is ended by SIGTERM, which `unshare` does not heed, and when this process is killed.
/// Ctrl-C is for both: it tells what it has found.
pub(crate) fn enter() -> anyhow::Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let (is_terminated, is_interrupted) = (Arc::default(), Arc::default());
    signal_hook::flag::register(SIGTERM, Arc::clone(&is_terminated))?;
    signal_hook::flag::register(SIGINT, is_interrupted)?;
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .spawn()
        .context("cannot make namespaces")?;
    loop {
        if let Some(status) = child.try_wait()? {
            std::process::exit(status.code().unwrap_or(2));
        }
        if is_terminated.load(Ordering::Relaxed) {
            child.kill()?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The address of a node.
pub(crate) fn address(node: usize) -> IpAddr {
    Ipv4Addr::new(10, 77, 0, 1 + node as u8).into()
}

/// The address of a node's etcd, which is in the same namespace.
pub(crate) fn etcd_address(node: usize) -> IpAddr {
    Ipv4Addr::new(10, 77, 0, 101 + node as u8).into()
}

fn namespace(node: usize) -> String {
    format!("weir-{node}")
}

/// A program that is to run in a node's namespace, as the same process.
pub(crate) fn within(node: usize, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace(node), program]);
    command
}

/// Joins the namespaces of all nodes.
pub(crate) fn build() -> anyhow::Result<()> {
    // The names of namespaces are files there.
    run("mount -t tmpfs tmpfs /run")?;
    run("ip link set lo up")?;
    run("ip link add weir type bridge")?;
    run("ip addr add 10.77.0.254/24 dev weir")?;
    run("ip link set weir up")?;
    for node in 0..NODES {
        let (name, own, etcd) = (namespace(node), address(node), etcd_address(node));
        run(&format!("ip netns add {name}"))?;
        run(&format!("ip link add {name} type veth peer name eth0 netns {name}"))?;
        run(&format!("ip link set {name} master weir up"))?;
        run(&format!("ip -n {name} addr add {own}/24 dev eth0"))?;
        run(&format!("ip -n {name} addr add {etcd}/24 dev eth0"))?;
        run(&format!("ip -n {name} link set lo up"))?;
        run(&format!("ip -n {name} link set eth0 up"))?;
    }
    Ok(())
}

/// Does a fault of the network.
pub(crate) fn break_by(fault: &Fault) -> anyhow::Result<()> {
    let Fault { kind, node, other, .. } = *fault;
    let both = |node: usize| [address(node), etcd_address(node)];
    match kind {
        Kind::Cut => run(&format!("ip link set {} down", namespace(node))),
        Kind::OneWay => drop_all(other, "input", "saddr", &both(node)),
        Kind::Pair => {
            drop_all(other, "input", "saddr", &both(node))?;
            drop_all(other, "output", "daddr", &both(node))
        }
        Kind::EtcdCut => {
            drop_all(node, "input", "saddr", &[etcd_address(node)])?;
            drop_all(node, "input", "daddr", &[etcd_address(node)])
        }
        _ => bail!("{kind:?} is not of the network"),
    }
}

/// Ends it.
pub(crate) fn mend(fault: &Fault) -> anyhow::Result<()> {
    let Fault { kind, node, other, .. } = *fault;
    match kind {
        Kind::Cut => run(&format!("ip link set {} up", namespace(node))),
        Kind::EtcdCut => nft(node, "flush ruleset"),
        _ => nft(other, "flush ruleset"),
    }
}

/// Drops what comes into a node's namespace from an address, or goes out to it.
fn drop_all(node: usize, hook: &str, end: &str, all: &[IpAddr]) -> anyhow::Result<()> {
    nft(node, "add table ip weir")?;
    let policy = format!("{{ type filter hook {hook} priority 0; }}");
    nft(node, &format!("add chain ip weir {hook} {policy}"))?;
    all.iter().try_for_each(|it| nft(node, &format!("add rule ip weir {hook} ip {end} {it} drop")))
}

fn nft(node: usize, command: &str) -> anyhow::Result<()> {
    done(within(node, "nft").arg(command))
}

fn run(line: &str) -> anyhow::Result<()> {
    let mut words = line.split(' ');
    done(Command::new(words.next().unwrap_or_default()).args(words))
}

/// Runs a program that has to succeed.
pub(crate) fn done(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", said.trim());
    Ok(())
}
