//! What a server does to be a node of a cluster: it takes a place, and runs the post.

use super::renewing::Renewing;
use super::stand_in::OfThisNode;
use super::{ServeError, ready};
use crate::cluster::{ClusterConfig, Membership, Seated};
use crate::config::Config;
use crate::copies::{CopiesWay, former};
use crate::journal::clock::wall;
use crate::letter::Letter;
use crate::post::{ClusterWatch, Gate, Lease, Names, Post, PostCopies, PostSetup, StandIns, board};
use crate::stopper::{Asked, Stopper};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_carrier::tcp::{self, Tcp};
use weir_cluster::LinkSettings;
use weir_core::Micros;
use weir_reactor::{Mailbox, Waker, mailboxes, now_us};

/// The post, and what its carrier is made of on its thread.
pub(crate) struct PostToBe {
    post: Renewing,
    copies: Option<PostCopies>,
    settings: tcp::Settings,
    waker: Waker,
    /// What the control thread looks at.
    pub(super) watch: ClusterWatch,
}

impl PostToBe {
    /// Copies of logs come to this node, and go to others if its configuration says so.
    pub(super) fn copy_logs(&mut self, config: &Config, copies: CopiesWay) {
        let kept = copies.kept();
        let stand_ins = OfThisNode::new(config, copies, self.waker.clone());
        let others = stand_ins.map(|it| (Box::new(it) as Box<dyn StandIns>, kept));
        let shards = config.shard_count().into();
        self.copies = Some(PostCopies::new(config.cluster.copies(), others, shards));
    }
}

/// Where the post listens, and what wakes it.
pub(super) struct PostOffice {
    listener: TcpListener,
    waker: Waker,
    /// What the shards look at.
    pub(super) lease: Arc<Lease>,
}

impl PostOffice {
    /// Listens, if there are to be other nodes.
    pub(super) fn bind(config: &mut ClusterConfig) -> Result<Option<Self>, ServeError> {
        if config.is_off() {
            return Ok(None);
        }
        let listener = TcpListener::bind(&config.listen).map_err(|error| ServeError::Listen {
            place: format!("{} for other nodes (cluster.listen)", config.listen),
            hint: error.to_string(),
        })?;
        config.set_port(listener.local_addr()?.port());
        Ok(Some(Self { listener, waker: Waker::new()?, lease: Arc::default() }))
    }

    /// Waits for a place.
    pub(super) fn join(
        &self,
        Config { cluster: config, store, .. }: &Config,
        shards: u16,
    ) -> Result<Seated, ServeError> {
        let root = store.folder().filter(|_| config.stand_in.is_none());
        let former = root.map_or(Ok(Vec::new()), |root| former(root))?;
        let seated = Membership::take(config, (shards, former), self.waker.clone())?;
        let place = &seated.node.place;
        let (node, slot, first) = (&place.name, place.slot.0, place.first_shard);
        tracing::info!(cluster = config.name, node, slot, first, "this node has its place");
        Ok(seated)
    }

    /// The mailboxes of shards with these wakers, and the post, which is one more thread among
    /// them.
    pub(super) fn open(
        &self,
        Config { cluster: config, limits, .. }: &Config,
        wakers: &[Waker],
        seated: Seated,
        asked: &Arc<Asked>,
    ) -> Result<(Vec<Mailbox<Letter>>, PostToBe), ServeError> {
        let all: Vec<Waker> = wakers.iter().chain([&self.waker]).cloned().collect();
        let mut mailboxes = mailboxes(&all);
        let Some(own) = mailboxes.pop() else { unreachable!("there is one for each waker") };
        let Seated { membership, node, .. } = seated;
        let place = &node.place;
        let setup = PostSetup {
            cluster: config.name.as_str().into(),
            own: place.slot,
            incarnation: node.incarnation.0,
            shards: place.first_shard..place.first_shard + place.shards,
            serves_minority: config.serves_minority(),
            waits_for_absent: config.waits_for_absent(),
            wall: wall(Micros(now_us())),
            frame_bytes_max: LinkSettings::FRAME_BYTES_MAX
                .max(limits.packet_bytes_max.saturating_mul(2)),
        };
        let (listener, tls) = (self.listener.try_clone()?, config.tls()?);
        let settings = tcp::Settings { own: place.slot, listener, tls };
        if config.handover().is_some() {
            asked.handover.prepare();
        }
        let stopper = Stopper::new(Arc::clone(asked), wakers.to_vec());
        let gate = Gate::new(Arc::clone(asked), stopper, ready::open);
        let (waker, lease) = (self.waker.clone(), Arc::clone(&self.lease));
        let (watch, board) = board(config, Arc::clone(&lease), waker.clone());
        let names = Names::new(waker.clone());
        let shards = wakers.len();
        let copies = match &config.stand_in {
            Some(stand_in) => PostCopies::of_stand_in(stand_in.keeper, shards),
            None => PostCopies::new(0, None, shards),
        };
        let post = Post::new(setup, own, membership, (gate, lease, board), names, copies);
        let (post, copies) = (Renewing::begin(post)?, None);
        Ok((mailboxes, PostToBe { post, copies, settings, waker, watch }))
    }
}

/// The post's thread.
pub(super) struct Running {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Running {
    /// Has it give the place back, and waits until it has.
    pub(super) fn end(self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        // What it had to say of its end is in the log.
        let _ = self.thread.join();
    }
}

/// Starts the thread. The broker stops if it ends: clients would wait for other nodes for ever.
pub(super) fn start(
    PostToBe { post, copies, settings, waker, .. }: PostToBe,
    stopper: &Stopper,
) -> std::io::Result<Running> {
    let ended = || std::io::Error::other("the thread that renews the lease has ended");
    let mut post = post.end().ok_or_else(ended)?;
    copies.into_iter().for_each(|copies| post.set_copies(copies));
    let (stop, stopper) = (Arc::new(AtomicBool::new(false)), stopper.clone());
    let (asked, wakes) = (Arc::clone(&stop), waker.clone());
    let run = move || {
        let carrier = Tcp::new(settings, wakes);
        if let Err(error) = carrier.and_then(|mut carrier| post.run(&mut carrier, &asked)) {
            tracing::error!(%error, "the post cannot go on; stopping");
            stopper.stop_broken();
        }
    };
    let thread = std::thread::Builder::new().name("post".into()).spawn(run)?;
    Ok(Running { thread, stop, waker })
}
