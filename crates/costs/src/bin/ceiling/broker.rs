//! A broker in a process of its own, for programs that do something to it.

use anyhow::Context as _;
use rustix::process::Pid;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A broker in a process of its own.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Broker {
    /// Starts `PROGRAM broker` with this in its configuration.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(program: &str, config: &str) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let path = std::env::temp_dir().join(format!("weir-costs-{port}.toml"));
        std::fs::write(&path, format!("listen = [\"{address}\"]\n{config}"))?;
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

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
