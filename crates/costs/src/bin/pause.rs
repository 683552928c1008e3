//! Whether a broker that was held up ends clients that were in time: `pause`.
//!
//! Clients send PINGREQ twice per keep alive all the while. The broker's process is stopped for
//! longer than one and a half keep alives, as on a host that was suspended, and goes on. What lay
//! in its sockets then was in time, so nobody may be ended.

use anyhow::Context as _;
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_wire::packet::{Connect, PINGREQ};
use weir_wire::{Properties, Version};

/// Holds a broker up, and counts the clients that it ends.
#[derive(Parser)]
struct Arguments {
    /// The program to start as `PROGRAM broker`.
    #[arg(default_value = "target/release/weir")]
    program: String,
    /// Clients.
    #[arg(long, default_value_t = 4_000)]
    clients: usize,
    /// Their keep alive, in seconds.
    #[arg(long, default_value_t = 5)]
    keep_alive_s: u16,
    /// How long the broker is stopped, in seconds.
    #[arg(long, default_value_t = 10)]
    pause_s: u64,
    /// What holds the connections.
    #[arg(long, value_delimiter = ',', default_value = "epoll,io_uring")]
    io: Vec<String>,
    /// Numbers of shards.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    shards: Vec<u16>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    for io in &arguments.io {
        for &shards in &arguments.shards {
            let ended = run(&arguments, io, shards)?;
            println!("{io}, {shards} shards: {ended} of {} ended", arguments.clients);
        }
    }
    Ok(())
}

/// Says how many clients were ended.
fn run(arguments: &Arguments, io: &str, shards: u16) -> anyhow::Result<usize> {
    let broker = Broker::start(&arguments.program, io, shards)?;
    let mut clients = Clients::connect(broker.address, arguments)?;
    let keep_alive = Duration::from_secs(arguments.keep_alive_s.into());
    clients.ping_for(keep_alive)?;
    broker.signal(Signal::STOP)?;
    let pinged = clients.ping_for(Duration::from_secs(arguments.pause_s));
    broker.signal(Signal::CONT)?;
    pinged?;
    clients.ping_for(keep_alive * 3)?;
    Ok(clients.streams.iter().filter(|stream| stream.is_none()).count())
}

/// All clients; those that were ended are gone.
struct Clients {
    streams: Vec<Option<TcpStream>>,
    /// Who pings next.
    next: usize,
    /// From one ping to the next, of whichever client.
    gap: Duration,
}

impl Clients {
    fn connect(address: SocketAddr, arguments: &Arguments) -> anyhow::Result<Self> {
        let mut streams = Vec::new();
        for at in 0..arguments.clients {
            let mut stream = TcpStream::connect(address)?;
            let mut bytes = Vec::new();
            let connect = Connect {
                version: Version::V311,
                clean_start: true,
                keep_alive_s: arguments.keep_alive_s,
                client_id: &format!("pinger-{at}"),
                will: None,
                user_name: None,
                password: None,
                properties: Properties::EMPTY,
            };
            connect.encode(&mut bytes);
            stream.write_all(&bytes)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.read_exact(&mut [0; 4]).context("no CONNACK")?;
            stream.set_nonblocking(true)?;
            streams.push(Some(stream));
        }
        let all = Duration::from_secs(arguments.keep_alive_s.into()) / 2;
        Ok(Self { streams, next: 0, gap: all / arguments.clients as u32 })
    }

    /// Each in turn, all in half a keep alive.
    fn ping_for(&mut self, duration: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        let mut due = Duration::ZERO;
        while due < duration {
            if let Some(ahead) = due.checked_sub(begin.elapsed()) {
                std::thread::sleep(ahead);
            }
            // A sleep is coarser than the gap between two clients.
            while due <= begin.elapsed() && due < duration {
                self.ping_one()?;
                due += self.gap;
            }
        }
        Ok(())
    }

    fn ping_one(&mut self) -> anyhow::Result<()> {
        let at = self.next;
        self.next = (at + 1) % self.streams.len();
        let Some(stream) = &mut self.streams[at] else { return Ok(()) };
        let is_ended = match stream.read(&mut [0; 256]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        if is_ended || stream.write_all(&PINGREQ).is_err() {
            self.streams[at] = None;
        }
        Ok(())
    }
}

/// A broker in a process of its own.
struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Broker {
    fn start(program: &str, io: &str, shards: u16) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let path = std::env::temp_dir().join(format!("weir-pause-{port}.toml"));
        std::fs::write(
            &path,
            format!("listen = [\"{address}\"]\nshards = {shards}\nio = \"{io}\"\n"),
        )?;
        let child = Command::new(program)
            .args(["broker", "--config"])
            .arg(&path)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{program} does not start"))?;
        let broker = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            anyhow::ensure!(Instant::now() < deadline, "the broker does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_file(&path)?;
        Ok(broker)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).context("the broker is gone")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
