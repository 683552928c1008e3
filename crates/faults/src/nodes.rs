//! The processes: an etcd and a node in each namespace.

use crate::network::{address, done, etcd_address, within};
use crate::plan::{Fault, Kind, NODES, PATIENCE, name};
use crate::process::Process;
use anyhow::{Context, ensure};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the store of a node has, so that it is soon full.
const DISK: &str = "size=256m";

/// How long a node that was told to stop may take.
const STOP_MAX: Duration = Duration::from_secs(30);

/// How long a node may take until it reads its configuration.
const START_MAX: Duration = Duration::from_secs(10);

/// How long an etcd may take to be reached at the start.
const ETCD_START_MAX: Duration = Duration::from_secs(30);

/// All processes, and where their files are.
#[derive(Debug)]
pub(crate) struct Nodes {
    weir: String,
    folder: PathBuf,
    replicas: u8,
    etcds: Vec<Process>,
    nodes: Vec<Process>,
    /// How much of each node's log was read.
    read: Vec<usize>,
}

impl Nodes {
    /// Starts all, with their files in `folder`, which is made anew.
    pub(crate) fn start(weir: &Path, folder: &Path, replicas: u8) -> anyhow::Result<Self> {
        // A folder of an earlier run.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let weir = weir.canonicalize().with_context(|| {
            format!("there is no {}: cargo build --package weir makes it", weir.display())
        })?;
        let weir = weir.to_str().context("the path of weir is not text")?.to_owned();
        let (etcds, nodes, read) = (Vec::new(), Vec::new(), vec![0; NODES]);
        let mut all = Self { weir, folder, replicas, etcds, nodes, read };
        for node in 0..NODES {
            for what in ["store", "etcd"] {
                let path = all.path(node, what);
                std::fs::create_dir(&path)?;
                let mut mount = Command::new("mount");
                done(mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(path))?;
            }
            std::fs::write(all.path(node, "toml"), all.configuration(node))?;
            let etcd = all.etcd(node)?;
            all.etcds.push(etcd);
        }
        let begin = Instant::now();
        while (0..NODES).any(|node| leads(node).is_none()) {
            let took = begin.elapsed() < ETCD_START_MAX;
            ensure!(took, "etcd does not start: see {}", all.path(0, "etcd.log").display());
            std::thread::sleep(PATIENCE);
        }
        for node in 0..NODES {
            let child = all.node(node)?;
            all.nodes.push(child);
        }
        Ok(all)
    }

    fn path(&self, node: usize, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", name(node)))
    }

    fn configuration(&self, node: usize) -> String {
        // Its own etcd comes first.
        let etcds = (0..NODES).map(|at| etcd_address((node + at) % NODES));
        let etcds = etcds.map(|it| format!("\"http://{it}:2379\"")).collect::<Vec<_>>().join(", ");
        format!(
            "listen = [\"0.0.0.0:1883\"]\nshards = 2\n[auth]\nallow_anonymous = true\n[limits]\n\
             packet_bytes_max = 65_536\n[store]\npath = {:?}\nsegment_bytes = 1_048_576\n\
             [cluster]\nnode = \"{}\"\nlisten = \"{}:7883\"\netcd = [{etcds}]\nreplicas = {}\n",
            self.path(node, "store"),
            name(node),
            address(node),
            self.replicas,
        )
    }

    /// A process whose output goes to the end of a log.
    fn process(&self, node: usize, log: &str, command: &mut Command) -> anyhow::Result<Process> {
        let log = File::options().create(true).append(true).open(self.path(node, log))?;
        let command = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
        Ok(child.into())
    }

    fn node(&self, node: usize) -> anyhow::Result<Process> {
        let mut command = within(node, &self.weir);
        let command = command.args(["broker", "--config"]).arg(self.path(node, "toml"));
        self.process(node, "log", command)
    }

    /// Starts a node whose wall clock is stepped from the begin: it has to wait for its
    /// configuration until it is.
    fn node_stepped(&self, node: usize, seconds: i64) -> anyhow::Result<Process> {
        let (path, text) = (self.path(node, "toml"), self.configuration(node));
        std::fs::remove_file(&path)?;
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let mut process = self.node(node)?;
        let begin = Instant::now();
        let mut way = loop {
            // That fails while nobody reads.
            let flags = OFlags::NONBLOCK.bits() as i32;
            match File::options().write(true).custom_flags(flags).open(&path) {
                Ok(way) => break way,
                Err(_) if begin.elapsed() < START_MAX => std::thread::sleep(PATIENCE / 100),
                Err(error) => return Err(error).context("a node does not read what it is given"),
            }
        };
        process.step_clock(seconds)?;
        // Whoever reads it again finds a file.
        let new = self.path(node, "toml.new");
        std::fs::write(&new, &text)?;
        std::fs::rename(new, path)?;
        way.write_all(text.as_bytes())?;
        Ok(process)
    }

    fn step_clocks(&mut self, node: usize, seconds: i64) -> anyhow::Result<()> {
        self.etcds[node].step_clock(seconds)?;
        self.nodes[node].step_clock(seconds)
    }

    fn etcd(&self, node: usize) -> anyhow::Result<Process> {
        let peer = |node: usize| format!("http://{}:2380", etcd_address(node));
        let all = (0..NODES).map(|node| format!("{}={}", name(node), peer(node)));
        let (own, clients) = (peer(node), format!("http://{}:2379", etcd_address(node)));
        let mut command = within(node, "etcd");
        command.args(["--name", &name(node).to_string(), "--data-dir"]);
        command.arg(self.path(node, "etcd").join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &own, "--initial-advertise-peer-urls", &own]);
        command.args(["--initial-cluster", &all.collect::<Vec<_>>().join(",")]);
        self.process(node, "etcd.log", &mut command)
    }

    /// Begins a fault of a process or its disk. Says which node it is at.
    pub(crate) fn break_by(&mut self, fault: &Fault) -> anyhow::Result<usize> {
        let mut node = fault.node;
        match fault.kind {
            Kind::Kill => self.nodes[node].end()?,
            Kind::KillTwo => {
                self.nodes[node].end()?;
                self.nodes[fault.other].end()?;
            }
            Kind::KillAll => self.nodes.iter_mut().try_for_each(Process::end)?,
            Kind::Restart => {
                self.nodes[node].signal(Signal::TERM)?;
                let begin = Instant::now();
                while !self.nodes[node].has_ended() {
                    let took = begin.elapsed() < STOP_MAX;
                    ensure!(took, "{} does not stop", name(node));
                    std::thread::sleep(PATIENCE / 10);
                }
            }
            Kind::Freeze => self.nodes[node].signal(Signal::STOP)?,
            Kind::EtcdKill => self.etcds[node].end()?,
            Kind::EtcdLeader => {
                node = (0..NODES).find(|&node| leads(node) == Some(true)).unwrap_or(node);
                self.etcds[node].end()?;
            }
            // An etcd before 3.5 ends leases late if it leads and its clock is set back, which
            // is seen where a node is killed: so then its clock stays.
            Kind::Clock if fault.begins_stepped => {
                self.nodes[node].end()?;
                self.nodes[node] = self.node_stepped(node, fault.step_s)?;
            }
            Kind::Clock => self.step_clocks(node, fault.step_s)?,
            Kind::DiskFull => fill(&self.path(node, "store").join("filled"))?,
            _ => crate::network::break_by(fault)?,
        }
        Ok(node)
    }

    /// Ends a fault at a node.
    pub(crate) fn mend(&mut self, fault: &Fault, node: usize) -> anyhow::Result<()> {
        match fault.kind {
            Kind::Kill | Kind::Restart => self.nodes[node] = self.node(node)?,
            Kind::KillTwo => {
                self.nodes[node] = self.node(node)?;
                self.nodes[fault.other] = self.node(fault.other)?;
            }
            Kind::KillAll => {
                for other in (0..NODES).filter(|&other| other != node) {
                    self.nodes[other] = self.node(other)?;
                }
                std::thread::sleep(fault.late);
                self.nodes[node] = self.node(node)?;
            }
            Kind::Freeze => self.nodes[node].signal(Signal::CONT)?,
            Kind::EtcdKill | Kind::EtcdLeader => self.etcds[node] = self.etcd(node)?,
            Kind::Clock if fault.begins_stepped => self.nodes[node].step_clock(0)?,
            Kind::Clock => self.step_clocks(node, 0)?,
            Kind::DiskFull => std::fs::remove_file(self.path(node, "store").join("filled"))?,
            _ => crate::network::mend(fault)?,
        }
        Ok(())
    }

    /// The nodes that were lost since this was asked before: they say so themselves, or all others
    /// do. One that is fenced says it of those that it does not hear any more.
    pub(crate) fn lost(&mut self) -> anyhow::Result<Vec<usize>> {
        let mut said = [0; NODES];
        for by in 0..NODES {
            let text = std::fs::read(self.path(by, "log"))?;
            let new = String::from_utf8_lossy(&text[self.read[by]..]).into_owned();
            self.read[by] = text.len();
            let says = |what: &str| new.lines().any(|line| line.contains(what));
            for (node, said) in said.iter_mut().enumerate() {
                *said += usize::from(says(&format!("a node is lost node=\"{}\"", name(node))));
            }
            if says("this node has lost the cluster") {
                said[by] = NODES;
            }
        }
        Ok((0..NODES).filter(|&node| said[node] >= NODES - 1).collect())
    }

    /// The nodes whose process has ended by itself.
    pub(crate) fn ended(&mut self) -> Vec<char> {
        let nodes = self.nodes.iter_mut().zip(0..);
        nodes.filter_map(|(process, node)| process.has_ended().then(|| name(node))).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The namespace of processes would end them too, but their files are still mounted then.
        for process in self.nodes.iter_mut().chain(&mut self.etcds) {
            let _ = process.end();
        }
    }
}

/// Writes until there is no room.
fn fill(path: &Path) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let mut bytes = vec![0; 1 << 20];
    while !bytes.is_empty() {
        match file.write(&bytes) {
            Ok(written) if written > 0 => {}
            _ => bytes.truncate(bytes.len() / 2),
        }
    }
    Ok(())
}

/// Whether a node's etcd leads; nothing if it does not answer, or has no leader.
fn leads(node: usize) -> Option<bool> {
    let target = SocketAddr::new(etcd_address(node), 2379);
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let is_one = |what: &str| text.lines().any(|line| line.strip_prefix(what) == Some(" 1"));
    is_one("etcd_server_has_leader").then(|| is_one("etcd_server_is_leader"))
}
