//! A stand-in: a node within this process that has the name, the place and the shards of a node
//! that is lost, and serves its sessions from the copies of its logs. It has no clients. Messages
//! go on coming to it, and clients that come to any node find their sessions there, as if the node
//! had been started anew; the node that runs it takes all sessions over, and then it ends.

use super::{ServeError, Server};
use crate::cluster::{ClusterConfig, Minority, StandInOf};
use crate::config::Config;
use crate::control::ControlConfig;
use crate::copies::{CopiesWay, Wanted, make_folder, remove_folder};
use crate::journal::STAND_INS;
use crate::post::{LostNode, StandIn, StandIns};
use crate::sys::SysConfig;
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use weir_cluster::{Incarnation, Seat, Slot};
use weir_reactor::Waker;

/// What stand-ins of this node are made of.
pub(super) struct OfThisNode {
    config: Config,
    copies: CopiesWay,
    root: PathBuf,
    /// Used when one has ended.
    waker: Waker,
}

impl OfThisNode {
    /// If it has a folder for copies of others' logs.
    pub(super) fn new(config: &Config, copies: CopiesWay, waker: Waker) -> Option<Self> {
        let root = config.store.folder()?.clone();
        Some(Self { config: config.clone(), copies, root, waker })
    }

    fn folder_of(&self, slot: u8, owner: u64) -> PathBuf {
        self.root.join(STAND_INS).join(folder_name(slot, owner))
    }
}

impl StandIns for OfThisNode {
    fn start(&self, keeper: u8, lost: LostNode) -> io::Result<StandIn> {
        let LostNode { name, slot, owner, shards } = lost;
        let root = self.folder_of(slot, owner);
        let (copies, waker) = (self.copies.clone(), self.waker.clone());
        let config = self.config.clone();
        let stopper = Arc::default();
        let set: Arc<OnceLock<_>> = Arc::clone(&stopper);
        let run = move || {
            let copies = copies.close(&shards);
            // All were whole once the agreement named them.
            let missing = shards.len() - copies.len();
            if missing > 0 {
                return Err(format!("{missing} of its logs are missing here"));
            }
            let stand_in = StandInOf { copies, keeper };
            let config = config_of(config, &root, &name, shards.len() as u16, stand_in);
            let made = make_folder(&root).map_err(ServeError::from);
            let ended = made.and_then(|()| Server::bind(&config)).and_then(|server| {
                // Whoever wants it to stop before this waits until it ends by itself.
                let _ = set.set(server.stopper());
                server.run()
            });
            waker.wake();
            ended.map_err(|error| told(&error))
        };
        let thread = std::thread::Builder::new().name(format!("stand-in-{slot}")).spawn(run)?;
        Ok(StandIn::new(stopper, thread))
    }

    fn forget(&self, (Slot(slot), Incarnation(owner)): Seat) {
        let folder = self.folder_of(slot, owner);
        let remove = move || {
            if let Err(error) = remove_folder(&folder) {
                let path = folder.display();
                tracing::warn!(%error, %path, "a stand-in's store cannot be removed");
            }
        };
        // That may take long, and nobody waits for it: what stays goes at the next start.
        let _ = std::thread::Builder::new().name(format!("stand-in-{slot}")).spawn(remove);
    }

    fn go_on(&self, memberships: Vec<Incarnation>, kept: Option<&[LostNode]>) {
        let wanted = kept.map(|kept| Wanted {
            shards: kept.iter().flat_map(|lost| lost.shards.clone()).collect(),
            stand_ins: kept.iter().map(|lost| folder_name(lost.slot, lost.owner)).collect(),
        });
        self.copies.go_on(memberships, wanted);
    }
}

/// What the folder of its store is called.
fn folder_name(slot: u8, owner: u64) -> String {
    format!("{slot}-{owner:016x}")
}

/// With what is beneath it.
fn told(error: &ServeError) -> String {
    let (mut told, mut cause) = (error.to_string(), error.source());
    while let Some(beneath) = cause {
        told.push_str(&format!(": {beneath}"));
        cause = beneath.source();
    }
    told
}

/// What a stand-in goes by: what its node does, but for whatever has to do with clients.
fn config_of(config: Config, root: &Path, name: &str, shards: u16, stand_in: StandInOf) -> Config {
    let mut store = config.store.clone();
    store.path = Some(root.into());
    let host = config.cluster.host();
    let cluster = ClusterConfig {
        node: Some(name.to_owned()),
        listen: any_port(&config.cluster.listen),
        advertise: Some(format!("{host}:0")),
        replicas: 1,
        minority: Minority::Stop,
        handover_s: 0,
        stand_in: Some(stand_in),
        ..config.cluster.clone()
    };
    Config {
        listen: Vec::new(),
        listener: Vec::new(),
        shards,
        store,
        bridge: Vec::new(),
        kafka: Vec::new(),
        control: ControlConfig::default(),
        sys: SysConfig { interval_s: 0, ..SysConfig::default() },
        cluster,
        ..config
    }
}

/// The same host, at a port that the system chooses.
fn any_port(listen: &str) -> String {
    match listen.parse::<SocketAddr>() {
        Ok(address) => SocketAddr::new(address.ip(), 0).to_string(),
        Err(_) => listen.rsplit_once(':').map_or(listen.into(), |(host, _)| format!("{host}:0")),
    }
}
