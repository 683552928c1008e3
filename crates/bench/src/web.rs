//! A local page and metrics: the state of the runs as they go on, and the results that are kept.
//!
//! One thread with a runtime of its own serves both, at the lowest priority and, while runs last,
//! on the load's core. Only GET is answered, nothing can be changed from here, and how many
//! listen is bounded, so that whoever looks does not disturb what is measured.

mod hub;
mod metrics;
mod routes;
mod server;
mod stored;

use crate::live::Viewer;
use crate::live::events::Event;
use anyhow::Context;
use hub::Hub;
use server::start;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_http::Thread;
use weir_say::{noteln, sayln};

/// Where the page is when nobody says where: a free port of this host alone.
pub const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// The viewer of a command that serves a page, or metrics, or both.
pub(crate) struct Web {
    hub: Arc<Hub>,
    /// Dropped with the viewer.
    _server: Thread,
}

impl Web {
    /// Listens where it is wanted and says where that is; `results` is the folder to browse.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub(crate) fn open(
        page: Option<SocketAddr>,
        metrics: Option<SocketAddr>,
        results: &Path,
        core: Option<usize>,
    ) -> anyhow::Result<Self> {
        let hub = Arc::new(Hub::default());
        let mut sites = Vec::new();
        if let Some(address) = page {
            let listener = listen(address, "--ui web=ADDRESS")?;
            noteln!("page: http://{}/", listener.local_addr()?);
            let names = routes::Names::of(&listener);
            sites.push((listener, routes::page(&hub, results, names)));
        }
        if let Some(address) = metrics {
            let listener = listen(address, "--metrics ADDRESS")?;
            noteln!("metrics: http://{}/metrics", listener.local_addr()?);
            sites.push((listener, routes::metrics(&hub)));
        }
        Ok(Self { hub, _server: start(sites, core)? })
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.hub.close();
    }
}

impl Viewer for Web {
    fn handle(&mut self, event: &Event) {
        self.hub.tell(event);
    }
}

/// Serves the page over a folder of results until `interrupted`.
///
/// # Errors
/// A folder that is not there, or an address that cannot be listened on.
pub fn browse(results: &Path, address: SocketAddr, interrupted: &AtomicBool) -> anyhow::Result<()> {
    anyhow::ensure!(results.is_dir(), "there is no folder {}", results.display());
    let listener = listen(address, "--listen ADDRESS")?;
    sayln!("http://{}/#runs until Ctrl-C", listener.local_addr()?);
    let names = routes::Names::of(&listener);
    let site = routes::page(&Arc::new(Hub::default()), results, names);
    let _server = start(vec![(listener, site)], None)?;
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn listen(address: SocketAddr, option: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address}; choose another with {option}"))
}
