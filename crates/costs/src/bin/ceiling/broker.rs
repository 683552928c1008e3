//! The broker that is attacked.

use anyhow::Context as _;
use procfs::process::Process;
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
    /// Starts `program` with so many shards and such a ceiling, in bytes.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(program: &str, shards: u16, ceiling_bytes: u64) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let path = std::env::temp_dir().join(format!("weir-ceiling-{port}.toml"));
        let text = format!(
            "listen = [\"{address}\"]\nshards = {shards}\n\
             [process]\nmemory_bytes_max = {ceiling_bytes}\n"
        );
        std::fs::write(&path, text)?;
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

    /// Resident bytes.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let process = Process::new(self.child.id().cast_signed())?;
        Ok(process.statm()?.resident * procfs::page_size())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
