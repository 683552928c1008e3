//! What runs beside the shards and may be started, changed and ended by a reload: what hashes
//! passwords, what checks tokens and asks the service, what relays to other brokers, and what says
//! below `$SYS` how the broker is.

use super::{Mesh, Reloader};
use crate::admission::is_out;
use crate::auth::access::{self, AccessWay, Tag};
use crate::auth::hasher::{Book, HasherWay, SharedBook, start_later};
use crate::bridges::Way;
use crate::config::{Config, Opened};
use crate::control::Answer;
use crate::letter::Letter;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_access::Asker;
use weir_bridge::{Bridges, Task};
use weir_control::{Control, REQUESTS_MAX, Server, Setup, SysBook};
use weir_core::Voucher;
use weir_reactor::{Joint, ToOutside, outside_later};

/// How long a reload waits until bridges have their sessions as they are to be.
const PREPARED_MAX: Duration = Duration::from_secs(5);

/// The threads that there are.
#[derive(Default)]
pub(crate) struct Threads {
    /// Of the one that hashes passwords.
    pub(crate) book: Option<SharedBook>,
    /// Of the one that checks tokens and asks the service.
    pub(crate) asker: Option<Asker<Tag>>,
    pub(crate) bridges: Option<Bridges>,
    /// What the control thread says of the broker, if there is one.
    pub(crate) sys: Option<SysBook>,
    /// That thread, if a reload has started it.
    control: Option<Control>,
}

/// What was started, of which nobody has heard yet.
#[derive(Default)]
pub(super) struct Started {
    book: Option<SharedBook>,
    /// Another, or none any more.
    asker: Option<Option<Asker<Tag>>>,
    relaying: Option<Relaying>,
    bridges: Option<Bridges>,
    control: Option<(SysBook, Control)>,
    /// By shard; nothing where nothing is new.
    pub(super) hashers: Vec<HasherWay>,
    pub(super) access: Vec<Option<AccessWay>>,
    pub(super) to_control: Vec<ToOutside<Answer>>,
    pub(super) joints: Vec<Vec<Joint<Letter>>>,
}

/// Bridges that are others now.
pub(super) struct Relaying {
    /// Client identifiers of those that are gone.
    pub(super) gone: Vec<String>,
    /// Closed when all are prepared.
    prepared: Receiver<()>,
}

impl Relaying {
    /// Waits until all are prepared, or that has taken too long.
    pub(super) fn wait(&self) {
        if self.prepared.recv_timeout(PREPARED_MAX)
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            tracing::warn!("not all bridges have their sessions in this broker yet");
        }
    }
}

impl Threads {
    /// Starts what is new by this configuration. If that cannot be, all is as it was.
    pub(super) fn start(
        &mut self,
        (old, new): (&Config, &Config),
        opened: &mut Opened,
        mesh: &Mesh,
        reloader: &Reloader,
    ) -> io::Result<Started> {
        let admission = &reloader.0.admission;
        let joints = mesh.addresses.iter().map(|_| Vec::new()).collect();
        let mut started = Started { joints, ..Started::default() };
        if opened.access.passwords.is_some() && self.book.is_none() {
            let book = Book::shared(Arc::default());
            let ways = start_later(&book, mesh.secret, &mesh.addresses, is_out(admission))?;
            started.book = Some(book);
            started.hashers = started.take_joints(ways);
        }
        let setup = new.auth.setup();
        if setup != old.auth.setup() {
            started.asker = Some(None);
            if !setup.is_empty() {
                let keys = opened.access.keys.clone();
                let (asker, ways) =
                    access::start(&setup, keys, &mesh.lasting, &mesh.addresses, is_out(admission))?;
                started.asker = Some(Some(asker));
                started.access = started.take_joints(ways).into_iter().map(Some).collect();
            } else {
                started.access = mesh.addresses.iter().map(|_| None).collect();
            }
        }
        if new.sys.setup().is_some() && self.sys.is_none() {
            started.start_control(mesh, reloader)?;
        }
        self.start_bridges(std::mem::take(&mut opened.bridges), mesh, &mut started)?;
        Ok(started)
    }

    /// It is the last that can fail.
    fn start_bridges(
        &mut self,
        all: Vec<Task>,
        mesh: &Mesh,
        started: &mut Started,
    ) -> io::Result<()> {
        if all.is_empty() && self.bridges.is_none() {
            return Ok(());
        }
        if self.bridges.is_none() {
            let Some(first) = mesh.addresses.first() else { return Ok(()) };
            let (way, joint) = Way::to(first.clone())?;
            started.joints[0].push(joint);
            started.bridges = Some(Bridges::new(Arc::new(way), mesh.bridges.clone()));
        }
        if let Some(bridges) = self.bridges.as_mut().or(started.bridges.as_mut()) {
            let (tell, prepared) = channel::<()>();
            let gone = bridges.set(all, move || drop(tell))?;
            started.relaying = Some(Relaying { gone, prepared });
        }
        Ok(())
    }

    /// What was started is what there is.
    pub(super) fn take(&mut self, started: &mut Started) -> Option<Relaying> {
        self.book = started.book.take().or(self.book.take());
        if let Some(asker) = started.asker.take() {
            self.asker = asker;
        }
        self.bridges = started.bridges.take().or(self.bridges.take());
        if let Some((sys, control)) = started.control.take() {
            (self.sys, self.control) = (Some(sys), Some(control));
        }
        started.relaying.take()
    }
}

impl Started {
    /// The control thread, which nobody can ask by any way: it says how the broker is.
    fn start_control(&mut self, mesh: &Mesh, reloader: &Reloader) -> io::Result<()> {
        let (letters, ends) = outside_later(&mesh.addresses, REQUESTS_MAX)?;
        self.to_control = self.take_joints(ends);
        let server = Server::bind(Setup::default()).map_err(io::Error::other)?;
        let sys = server.sys();
        let shards = mesh.shards(letters, &reloader.0.admission);
        self.control = Some((sys, server.start(shards)?));
        Ok(())
    }

    fn take_joints<W>(&mut self, ways: Vec<(W, Joint<Letter>)>) -> Vec<W> {
        let join = |(joints, (way, joint)): (&mut Vec<_>, _)| {
            joints.push(joint);
            way
        };
        self.joints.iter_mut().zip(ways).map(join).collect()
    }
}

/// Whose clients are to be looked at anew: it is not asked any more, or by other rules.
pub(super) fn ends_vouched(old: &Config, new: &Config) -> Vec<Voucher> {
    let tokens = old.auth.jwt.as_ref().filter(|old| {
        let new = new.auth.jwt.as_ref();
        !new.is_some_and(|new| new.judges_as(old))
    });
    let service = old.auth.http.as_ref().filter(|old| {
        let new = new.auth.http.as_ref();
        !new.is_some_and(|new| new.judges_as(old))
    });
    let vouchers = [tokens.map(|_| Voucher::Tokens), service.map(|_| Voucher::Service)];
    vouchers.into_iter().flatten().collect()
}
