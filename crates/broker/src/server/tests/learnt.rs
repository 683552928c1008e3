//! A transport that says whose a connection is, and where its peer is.

use super::*;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use weir_transport::{Layer, Learnt, Stream, TransportError};

/// Each connection begins with a line: the name of its peer.
#[derive(Debug)]
struct Introduced;

impl Recipe for Introduced {
    fn layers(&self) -> Layers {
        let layer: Box<dyn Layer> = Box::new(Introduction::default());
        Layers::new([layer])
    }
}

#[derive(Debug, Default)]
struct Introduction {
    line: Vec<u8>,
    is_open: bool,
}

impl Layer for Introduction {
    fn begin(&mut self, _network: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        _network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        for &byte in bytes {
            match (self.is_open, byte) {
                (true, byte) => plain.push(byte),
                (false, b'\n') => self.is_open = true,
                (false, byte) => self.line.push(byte),
            }
        }
        Ok(Stream::Open)
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        network.extend_from_slice(plain);
    }

    fn close(&mut self, _network: &mut Vec<u8>) {}

    fn held(&self) -> usize {
        0
    }

    fn learnt(&mut self) -> Learnt {
        let name = String::from_utf8(std::mem::take(&mut self.line)).unwrap();
        Learnt { name: (!name.is_empty()).then(|| name.into()), ..Learnt::default() }
    }
}

fn connect(client_id: &str, version: Version, properties: Properties<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (keep_alive_s, will, password) = (0, None, Some(&b"secret"[..]));
    let (clean_start, user_name) = (true, Some("mallory"));
    Connect {
        version,
        clean_start,
        keep_alive_s,
        client_id,
        will,
        user_name,
        password,
        properties,
    }
    .encode(&mut bytes);
    bytes
}

struct Peer(TcpStream);

impl Peer {
    /// Says its name, CONNECT and what stands behind it in one write, and reads the CONNACK.
    fn open(address: SocketAddr, name: &str, client_id: &str, more: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let connect = connect(client_id, Version::V311, Properties::EMPTY);
        stream.write_all(&[name.as_bytes(), b"\n", &connect, more].concat()).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0x20, 2, 0, 0], "{name}");
        Self(stream)
    }

    fn reads(&mut self, bytes: &[u8]) {
        let mut read = vec![0; bytes.len()];
        self.0.read_exact(&mut read).unwrap();
        assert_eq!(read, bytes);
    }
}

fn asked(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A broker behind [`Introduced`] where ann may do everything with the topic `all`, and nobody else
/// anything.
fn served(shards: u16, folder: &Path, test: impl FnOnce(SocketAddr, &Path)) {
    let (rights, socket) = (folder.join("rights"), folder.join("ctl"));
    std::fs::write(&rights, "user ann\ntopic readwrite all\n").unwrap();
    let mut config = Config { listen: vec!["127.0.0.1:0".into()], shards, ..Config::default() };
    config.auth.acl_file = Some(rights);
    config.auth.allow_anonymous = Some(true);
    config.control.socket = Some(socket.clone());
    let mut server = Server::bind(&config).unwrap();
    server.listeners[0].transport = Transport::Layered(Arc::new(Introduced));
    let (address, stopper) = (server.addresses()[0], server.stopper());
    let thread = std::thread::spawn(move || server.run());
    test(address, &socket);
    stopper.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn whom_the_transport_names_is_that_user_on_every_shard_whatever_connect_says() {
    for shards in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        served(shards, folder.path(), |address, socket| {
            let mut subscribe = Vec::new();
            let mut filters = SubscribeBuf::new();
            filters.push("all", SubscriptionOptions::default());
            filters
                .subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY)
                .encode(Version::V311, &mut subscribe);
            let granted = [0x90, 3, 0, 1, 0];
            let mut anns: Vec<Peer> = (0..CLIENTS)
                .map(|at| Peer::open(address, "ann", &format!("ann-{at}"), &subscribe))
                .collect();
            anns.iter_mut().for_each(|ann| ann.reads(&granted));
            for (name, client_id) in [("bob", "bob"), ("", "nobody")] {
                let mut other = Peer::open(address, name, client_id, &subscribe);
                other.reads(&granted);
                other.0.write_all(&[&publish(b"forged"), &[0xC0, 0][..]].concat()).unwrap();
                other.reads(&[0xD0, 0]);
                let answer = asked(socket, &format!("/api/v1/clients/{client_id}"));
                let user = if name.is_empty() { "mallory" } else { name };
                assert!(answer.contains(&format!("\"user\":\"{user}\"")), "{answer}");
            }
            for at in 0..CLIENTS {
                let message = publish(format!("from {at}").as_bytes());
                anns[at].0.write_all(&message).unwrap();
                anns.iter_mut().for_each(|ann| ann.reads(&message));
            }
        });
    }
}

#[test]
fn who_is_named_authenticates_by_no_other_method() {
    let folder = tempfile::tempdir().unwrap();
    served(1, folder.path(), |address, _| {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::AuthenticationMethod("SCRAM-SHA-256"));
        let connect = connect("c", Version::V5, properties.as_properties());
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[b"ann\n", &connect[..]].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!((answer[0], answer[3]), (0x20, 0x8C), "{answer:?}");
    });
}
