//! Two shards that take turns when the test says, so that it can do something while a session is on
//! its way between them.

use super::*;
use crate::auth::Bans;
use crate::reload::Reload;
use crate::{Config, Server};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use weir_control::{Port, Request};
use weir_wire::Version;
use weir_wire::packet::Connect;

/// A shard, and its event loop.
struct Turning {
    shell: Shell,
    reactor: Reactor,
}

impl Turning {
    fn new(mut worker: Worker) -> Self {
        let mut reactor = Reactor::with_backend(worker.waker.clone(), worker.io).unwrap();
        worker.shell.begin(reactor.io());
        for listener in std::mem::take(&mut worker.listeners) {
            reactor.listen(listener.id, listener.socket, listener.transport).unwrap();
        }
        Self { shell: worker.shell, reactor }
    }

    fn turn(&mut self) {
        self.reactor.turn(Some(Duration::ZERO), &mut self.shell).unwrap();
    }

    fn has_clients(&self) -> bool {
        self.shell.shard.connected().next().is_some()
    }

    fn reload(&mut self, reload: &Arc<Reload>) {
        self.shell.reload(Arc::clone(reload), self.reactor.io());
    }
}

/// Turns until the client has got so many bytes. False if the connection ends before.
fn gets(client: &mut TcpStream, bytes: usize, shards: &mut [Turning; 2]) -> bool {
    let (mut got, mut chunk) = (0, [0; 64]);
    while got < bytes {
        shards.iter_mut().for_each(Turning::turn);
        match client.read(&mut chunk) {
            Ok(0) => return false,
            Ok(read) => got += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    true
}

/// Whether a client of user ann stays, if this is reloaded while its session is on its way.
fn stays(reload: Reload) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let bans_file = folder.path().join("bans");
    std::fs::write(&bans_file, "").unwrap();
    let listen = vec!["127.0.0.1:0".into()];
    let mut config = Config { listen, shards: 2, ..Config::default() };
    config.auth.allow_anonymous = Some(true);
    config.auth.bans_file = Some(bans_file);
    let mut server = Server::bind(&config).unwrap();
    let (workers, control, ..) = server.workers(true).unwrap();
    let mut control = control.unwrap();
    let mut workers = workers.into_iter().map(Turning::new);
    let mut shards = std::array::from_fn(|_| workers.next().unwrap());

    let mut client = TcpStream::connect(server.addresses()[0]).unwrap();
    client.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    Connect { user_name: Some("ann"), ..Connect::new(Version::V311, "c") }.encode(&mut bytes);
    client.write_all(&bytes).unwrap();
    assert!(gets(&mut client, 4, &mut shards), "CONNACK");

    let (partition, to) = (control.partitions.of("c"), 1 - control.owner("c"));
    control.ask(0, Request::Move { partition: partition.0, to }).unwrap();
    let mut at = 0;
    while shards.iter().any(Turning::has_clients) {
        shards[at].turn();
        at = 1 - at;
    }
    let reload = Arc::new(reload);
    shards.iter_mut().for_each(|shard| shard.reload(&reload));
    client.write_all(&[0xC0, 0]).unwrap();
    gets(&mut client, 2, &mut shards)
}

#[test]
fn a_reload_reaches_a_client_that_is_on_its_way_between_shards() {
    let gone = |user: &str| {
        let gone = BTreeSet::from([user.to_owned()]);
        Reload { gone, ..Reload::default() }
    };
    assert!(!stays(gone("ann")));
    assert!(stays(gone("bob")));
    let banned = |line: &str| {
        let bans = Some(Arc::new(Bans::parse(line).unwrap()));
        Reload { bans, ..Reload::default() }
    };
    for line in ["user ann", "client c", "address 127.0.0.0/8"] {
        assert!(!stays(banned(line)), "{line}");
    }
    assert!(stays(banned("user bob")));
}
