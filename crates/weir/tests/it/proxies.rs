//! Clients that come by proxies and balancers: the PROXY protocol, and proxies of HTTP.

use crate::support::Broker;
use crate::support::certificates::{Authority, Pair};
use crate::support::line::{Line, connect, publish};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tungstenite::client::IntoClientRequest;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

const FROM_HERE: &str = "[listener.proxy]\nfrom = [\"127.0.0.0/8\"]\n";

/// A header of version 2 begins so.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Threads and what holds connections, each as this system allows it.
pub(crate) fn kinds() -> Vec<(u16, &'static str)> {
    let has_rings = weir_reactor::Backend::IoUring.check().is_ok();
    assert!(has_rings || std::env::var_os("CI").is_none(), "io_uring cannot be used");
    let mut kinds = vec![(1, "epoll"), (4, "epoll")];
    if has_rings {
        kinds.extend([(1, "io_uring"), (4, "io_uring")]);
    }
    kinds
}

/// A broker with one `[[listener]]`, which `more` describes beside its address.
fn start(folder: &Path, top: &str, more: &str) -> Broker {
    let file = folder.join("weir.toml");
    let listener = format!("{top}\n[[listener]]\naddress = \"127.0.0.1:0\"\n{more}");
    std::fs::write(&file, listener).unwrap();
    let mut weir = Command::new(WEIR);
    // Whoever its proxies bring may come in where nothing else is said.
    let anonymous = (!top.contains("[auth]")).then_some("--allow-anonymous");
    let mut broker = Broker::by(weir.arg("broker").arg(file).args(anonymous)).unwrap();
    broker.address.truncate(broker.address.find(' ').unwrap_or(broker.address.len()));
    broker
}

fn reach(broker: &Broker) -> TcpStream {
    let stream = TcpStream::connect(&broker.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn text(address: &str) -> Vec<u8> {
    format!("PROXY TCP4 {address} 198.51.100.1 4711 1883\r\n").into_bytes()
}

/// Version 2, for 192.0.2.7 whose verified certificate is of this name.
fn binary(name: &str) -> Vec<u8> {
    let addresses = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 7, 0x5B];
    let name = [&[0x22, 0, name.len() as u8][..], name.as_bytes()].concat();
    let tls = [&[0x20, 0, 5 + name.len() as u8, 3, 0, 0, 0, 0][..], &name].concat();
    let length = (addresses.len() + tls.len()) as u8;
    [BINARY, &[0x21, 0x11, 0, length], &addresses, &tls].concat()
}

#[test]
fn clients_behind_a_proxy_exchange_messages_and_are_known_by_their_own_address_and_name() {
    for (shards, io) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let rights = folder.path().join("rights");
        std::fs::write(&rights, "user ann\ntopic readwrite all\n").unwrap();
        let top = format!("shards = {shards}\nio = {io:?}\n[auth]\nacl_file = {rights:?}\n");
        let top = format!("{top}allow_anonymous = true\n");
        let mut broker = start(folder.path(), &top, &format!("{FROM_HERE}identity = true\n"));
        let mut anns: Vec<_> = (0..8)
            .map(|at| {
                let stream = reach(&broker);
                let mut ann = Line::join(stream, &binary("ann"), &format!("ann-{at}"));
                let line = broker.says(&format!("client_id=\"ann-{at}\""));
                assert!(line.contains("peer=192.0.2.7:4711 user=\"ann\""), "{line}");
                ann.subscribe("all");
                ann
            })
            .collect();
        // Nobody in particular may say nothing, and an old connection makes place for a new one.
        let mut other = Line::join(reach(&broker), &text("192.0.2.8"), "other");
        let line = broker.says("client_id=\"other\"");
        assert!(line.contains("peer=192.0.2.8:4711") && !line.contains("user="), "{line}");
        other.says(&[&publish("all", "forged")[..], &[0xC0, 0]].concat());
        assert_eq!(other.reads(2).unwrap(), [0xD0, 0]);
        let _again = Line::join(reach(&broker), b"PROXY UNKNOWN\r\n", "other");
        assert!(broker.says("Session taken over").contains("peer=192.0.2.8:4711"));
        assert!(broker.says("client_id=\"other\"").contains("peer=127.0.0.1:"));
        assert_eq!(other.ended(), b"");
        for at in 0..anns.len() {
            let message = publish("all", &format!("from {at}"));
            anns[at].says(&message);
            for ann in &mut anns {
                assert_eq!(ann.reads(message.len()).unwrap(), message);
            }
        }
    }
}

#[test]
fn whatever_the_pieces_a_header_and_what_follows_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let broker = start(folder.path(), "", FROM_HERE);
    for header in [text("192.0.2.1"), binary("ann"), [BINARY, &[0x20, 0, 0, 0]].concat()] {
        let all = [&header[..], &connect("c")].concat();
        for cut in 1..all.len() {
            let mut line = Line(reach(&broker));
            line.0.set_nodelay(true).unwrap();
            line.says(&all[..cut]);
            line.says(&all[cut..]);
            assert_eq!(line.reads(4).unwrap(), [0x20, 2, 0, 0], "{cut}");
        }
    }
}

fn configuration(Pair { certificate, key, .. }: &Pair, listener: &str) -> String {
    format!("{listener}[listener.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n")
}

fn by_tls(stream: TcpStream, authority: &Authority) -> impl Read + Write + use<> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(authority.file()).unwrap();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(client, stream)
}

/// A WebSocket whose request has these headers, or the answer's status.
fn by_websocket<S: Read + Write>(
    stream: S,
    headers: &[(&'static str, &str)],
) -> Result<tungstenite::WebSocket<S>, u16> {
    let mut request = "ws://localhost/mqtt".into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", "mqtt".parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    match tungstenite::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
            Err(answer.status().as_u16())
        }
        Err(error) => panic!("{error}"),
    }
}

/// CONNECT and its answer by WebSocket, and a message to itself.
fn exchange<S: Read + Write>(socket: &mut tungstenite::WebSocket<S>, client_id: &str) {
    let subscribe = [0x82, 6, 0, 1, 0, 1, b't', 0];
    let (granted, message) = ([0x20, 2, 0, 0, 0x90, 3, 0, 1, 0], publish("t", "hello"));
    for (said, expected) in [
        ([&connect(client_id)[..], &subscribe].concat(), granted.to_vec()),
        (message.clone(), message),
    ] {
        socket.send(tungstenite::Message::binary(said)).unwrap();
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            heard.extend(socket.read().unwrap().into_data());
        }
        assert_eq!(heard, expected);
    }
}

#[test]
fn websocket_over_tls_behind_two_kinds_of_proxies_says_where_the_client_is() {
    for (shards, io) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let top = format!("shards = {shards}\nio = {io:?}");
        let forwarded = "websocket = true\nforwarded_from = [\"192.0.2.0/24\"]\n";
        let tls = configuration(&authority.valid("broker"), forwarded);
        let mut broker = start(folder.path(), &top, &format!("{tls}{FROM_HERE}"));
        let headers = [("X-Forwarded-For", "203.0.113.9, 192.0.2.99")];
        for (at, (proxied, client)) in [
            // The balancer's client is the proxy of HTTP, or somebody who only says so.
            ("192.0.2.1", "203.0.113.9:0"),
            ("198.51.100.9", "198.51.100.9:4711"),
        ]
        .into_iter()
        .cycle()
        .take(8)
        .enumerate()
        {
            let mut stream = reach(&broker);
            stream.write_all(&text(proxied)).unwrap();
            let mut socket = by_websocket(by_tls(stream, &authority), &headers).unwrap();
            exchange(&mut socket, &format!("c-{at}"));
            let line = broker.says(&format!("client_id=\"c-{at}\""));
            assert!(line.contains(&format!("peer={client} ")), "{line}");
        }
    }
}

#[test]
fn who_is_believed_where_a_websocket_comes_from_is_whom_the_listener_names() {
    for (networks, client) in [("127.0.0.0/8", "203.0.113.9:0"), ("10.0.0.0/8", "127.0.0.1:")] {
        let folder = tempfile::tempdir().unwrap();
        let more = format!("websocket = true\nforwarded_from = [\"{networks}\"]\n");
        let mut broker = start(folder.path(), "", &more);
        let headers = [("Forwarded", "for=1.1.1.1"), ("Forwarded", "for=\"203.0.113.9\"")];
        exchange(&mut by_websocket(reach(&broker), &headers).unwrap(), "c");
        let line = broker.says("client_id=\"c\"");
        assert!(line.contains(&format!("peer={client}")), "{line}");
        // One that says nothing is known by its own address.
        exchange(&mut by_websocket(reach(&broker), &[]).unwrap(), "d");
        assert!(broker.says("client_id=\"d\"").contains("peer=127.0.0.1:"));
        let two = [("Forwarded", "for=203.0.113.9"), ("X-Forwarded-For", "203.0.113.8")];
        assert_eq!(by_websocket(reach(&broker), &two).err(), Some(400));
    }
}

#[test]
fn pages_of_other_origins_get_no_websocket() {
    let folder = tempfile::tempdir().unwrap();
    let more = "websocket = true\norigins = [\"https://app.example\"]\n";
    let broker = start(folder.path(), "", more);
    for (origin, refused) in [
        (Some("https://app.example"), None),
        (None, None),
        (Some("https://app.example.evil"), Some(403)),
        (Some("http://app.example"), Some(403)),
        (Some("null"), Some(403)),
    ] {
        let headers: Vec<_> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
        let socket = by_websocket(reach(&broker), &headers);
        assert_eq!(socket.err(), refused, "{origin:?}");
    }
}

#[test]
fn bounds_of_an_address_are_those_of_the_client_and_not_of_its_proxy() {
    for (shards, io) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let top = format!("shards = {shards}\nio = {io:?}\n[process]\n");
        let top = format!("{top}connections_per_address_max = 2\n");
        let broker = start(folder.path(), &top, FROM_HERE);
        let open =
            |address: &str, client_id: &str| Line::open(reach(&broker), &text(address), client_id);
        let (_a, _b) = (open("192.0.2.1", "a"), open("192.0.2.1", "b"));
        assert_eq!((_a.1, _b.1), (Some(0), Some(0)));
        // One that waits for its header takes nobody's place.
        let _half: Vec<_> = (0..5).map(|_| reach(&broker)).collect();
        // Server unavailable.
        assert_eq!(open("192.0.2.1", "c").1, Some(3));
        assert_eq!(open("192.0.2.2", "d").1, Some(0));
        drop(_a);
        // Until its end has been seen, there is no place.
        while open("192.0.2.1", "e").1 != Some(0) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn whoever_is_no_proxy_is_cut_before_anything_is_read_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("ctl");
    let top = format!("shards = 2\n[control]\nsocket = {control:?}");
    let more = "[listener.proxy]\nfrom = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n";
    let mut broker = start(folder.path(), &top, more);
    for _ in 0..3 {
        let (_, code) = Line::open(reach(&broker), &text("192.0.2.1"), "c");
        assert_eq!(code, None);
        broker.says("it is none of the listener's proxies");
    }
    let ctl = Command::new(WEIR).args(["ctl", "--socket"]).arg(&control).arg("counters").output();
    let counters = String::from_utf8(ctl.unwrap().stdout).unwrap();
    let line = counters.lines().find(|line| line.ends_with("cut_strangers")).unwrap();
    assert!(line.trim_start().starts_with("3 "), "{line}");
}

#[test]
fn a_proxy_that_says_no_header_or_a_bad_one_is_ended_and_others_are_served() {
    for (shards, io) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let top = format!("shards = {shards}\nio = {io:?}\n[limits]\nconnect_timeout_s = 1\n");
        let broker = start(folder.path(), &top, FROM_HERE);
        let long = [BINARY, &[0x21, 0x11, 0xFF, 0xFF], &[0; 0xFFFF]].concat();
        let hello = [22, 3, 1, 2, 0, 1, 0, 1, 0xFC];
        for attack in [
            connect("bare"),
            hello.to_vec(),
            long,
            [&text("192.0.2.1")[..], &text("192.0.2.2")].concat(),
            [&text("192.0.2.1")[..], &binary("ann")].concat(),
            [&text("192.0.2.1")[..], &hello].concat(),
            [&b"PROXY "[..], &[b'x'; 200]].concat(),
        ] {
            let mut line = Line(reach(&broker));
            line.says(&attack);
            assert_eq!(line.ended(), b"", "{attack:?}");
        }
        // Half a header for ever, and none at all: until a CONNECT would have had to come.
        for half in [&b""[..], b"PROXY TCP4 192.0.2.1", &binary("ann")[..20]] {
            let mut line = Line(reach(&broker));
            line.says(half);
            assert_eq!(line.ended(), b"");
        }
        Line::join(reach(&broker), &text("192.0.2.1"), "good");
    }
}

#[test]
fn what_one_address_may_have_of_all_sessions_is_counted_by_the_client_s() {
    for (shards, io) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let top = format!("shards = {shards}\nio = {io:?}\n[limits]\nsessions_max = 4\n");
        let broker = start(folder.path(), &format!("{top}client_share_percent = 50\n"), FROM_HERE);
        let mut of_one = Vec::new();
        for at in 0..40 {
            let id = format!("client-{at}");
            let (line, code) = Line::open(reach(&broker), &text("192.0.2.1"), &id);
            of_one.extend((code == Some(0)).then_some(line));
        }
        let (_other, code) = Line::open(reach(&broker), &text("192.0.2.2"), "other");
        // Each thread has room for four, of which an address may have two.
        let of_one = of_one.len();
        assert!((2..=2 * usize::from(shards)).contains(&of_one), "{of_one}");
        assert_eq!(code, Some(0), "another address has its part");
    }
}
