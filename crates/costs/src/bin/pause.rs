//! Whether a broker that was held up ends clients that were in time: `pause`.
//!
//! Clients send PINGREQ twice per keep alive all the while. The broker's process is stopped for
//! longer than one and a half keep alives, as on a host that was suspended, and goes on. What lay
//! in its sockets then was in time, so nobody may be ended.

#[path = "ceiling/broker.rs"]
mod broker;

use anyhow::Context as _;
use broker::Broker;
use clap::Parser;
use rustix::process::{Signal, kill_process};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
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
    let broker = Broker::start(&arguments.program, &format!("shards = {shards}\nio = \"{io}\"\n"))?;
    let mut clients = Clients::connect(broker.address, arguments)?;
    let keep_alive = Duration::from_secs(arguments.keep_alive_s.into());
    clients.ping_for(keep_alive)?;
    kill_process(broker.pid(), Signal::STOP)?;
    let pinged = clients.ping_for(Duration::from_secs(arguments.pause_s));
    kill_process(broker.pid(), Signal::CONT)?;
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
