//! A broker with TLS, met by Mosquitto's clients and OpenSSL's.

mod identity;
mod openssl;

use crate::support::certificates::{Authority, Pair};
use crate::support::{WEB_SOCKET_REQUEST, command, tool};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// The start of every ClientHello: a record of the handshake, and a length.
const HELLO: [u8; 9] = [22, 3, 1, 2, 0, 1, 0, 1, 0xFC];

/// A broker whose only listener has TLS.
struct Served {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Served {
    fn start(folder: &Path, pair: &Pair, top: &str, tls: &str) -> Self {
        Self::with(folder, &configuration(pair, top, tls), "TLS")
    }

    /// With this configuration, by which `spoken` is.
    fn with(folder: &Path, configuration: &str, spoken: &str) -> Self {
        let (file, log) = (folder.join("weir.toml"), folder.join("log"));
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new(WEIR);
        command.arg("broker").arg(&file).arg("--log-file").arg(&log);
        let child = command.env_remove("WEIR_LOG").spawn().unwrap();
        let mut served = Self { child, address: ([127, 0, 0, 1], 0).into(), log };
        served.says(" ready");
        let text = served.text();
        let (_, address) = text.split_once("listening on ").unwrap();
        let (address, rest) = address.split_once(' ').unwrap();
        assert!(rest.starts_with(&format!("with {spoken}\n")), "{text}");
        served.address = address.parse().unwrap();
        served
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log has `text`.
    fn says(&mut self, text: &str) {
        self.says_times(text, 1);
    }

    /// Waits until the log has `text` so often.
    fn says_times(&mut self, text: &str, times: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.text().matches(text).count() < times {
            assert!(Instant::now() < deadline, "no {text:?} in {}", self.text());
            assert!(self.child.try_wait().unwrap().is_none(), "{}", self.text());
            std::thread::yield_now();
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Options of a client for this broker.
    fn options(&self, authority: &Authority) -> Vec<String> {
        let port = self.address.port().to_string();
        ["-h", "127.0.0.1", "-p", &port, "--cafile", &authority.file()].map(String::from).into()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Publishes a retained message, and says whether that went well.
    fn takes(&self, mosquitto_pub: &Path, options: &[String], topic: &str) -> bool {
        let mut command = Command::new(mosquitto_pub);
        command.args(options).args(["-q", "1", "-r", "-t", topic, "-m", "hello"]);
        let output = ended(&mut command);
        output.status.success()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(pair: &Pair, top: &str, tls: &str) -> String {
    let Pair { certificate, key, .. } = pair;
    format!(
        "{top}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[listener.tls]\n\
         certificate = {certificate:?}\nkey = {key:?}\n{tls}\n"
    )
}

fn ended(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

fn mosquitto() -> Option<(PathBuf, PathBuf)> {
    Some((tool(&["mosquitto_pub"])?, tool(&["mosquitto_sub"])?))
}

#[test]
fn mosquittos_clients_exchange_messages_of_any_length_in_both_versions() {
    exchange_messages(&["tlsv1.2", "tlsv1.3"], "");
}

#[test]
fn mosquittos_clients_exchange_messages_with_the_compact_record_layer() {
    exchange_messages(&["tlsv1.3"], "record_layer = \"compact\"");
}

fn exchange_messages(versions: &[&str], tls: &str) {
    let Some((mosquitto_pub, mosquitto_sub)) = mosquitto() else { return };
    for (shards, io) in [(1, "epoll"), (4, "epoll"), (4, "io_uring")] {
        if io == "io_uring" && weir_reactor::Backend::IoUring.check().is_err() {
            assert!(std::env::var_os("CI").is_none(), "io_uring cannot be used");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let top = format!("shards = {shards}\nio = {io:?}");
        let served = Served::start(folder.path(), &authority.valid("broker"), &top, tls);
        let options = served.options(&authority);
        let (long, short) = (folder.path().join("long"), folder.path().join("short"));
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 251) as u8).collect();
        std::fs::write(&long, &bytes).unwrap();
        std::fs::write(&short, b"short").unwrap();
        // With so many client identifiers, some belong to other shards than accept them.
        for (at, version) in versions.iter().cycle().take(8).enumerate() {
            let file = if at % 3 == 0 { &long } else { &short };
            let topic = format!("topic/{at}");
            let common = ["--tls-version", version, "-q", "1", "-V", "5", "-t", &topic, "-i"];
            let said = ended(
                Command::new(&mosquitto_pub)
                    .args(&options)
                    .args(common)
                    .args([&format!("pub-{at}"), "-r", "-f"])
                    .arg(file),
            );
            assert!(said.status.success(), "{}", command::text(&said.stderr));
            let heard = ended(Command::new(&mosquitto_sub).args(&options).args(common).args([
                &format!("sub-{at}"),
                "-C",
                "1",
                "-N",
                "-W",
                "60",
            ]));
            assert!(heard.status.success(), "{}", command::text(&heard.stderr));
            assert!(heard.stdout == std::fs::read(file).unwrap(), "{at} {version} {shards} {io}");
        }
    }
}

#[test]
fn who_has_to_show_a_certificate_comes_in_with_the_right_one_only() {
    let Some((mosquitto_pub, _)) = mosquitto() else { return };
    for version in ["tlsv1.2", "tlsv1.3"] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let other = Authority::new("b", folder.path());
        let tls = format!("client_ca = {:?}\nrequire_certificate = true", authority.file());
        let pair = authority.valid("broker");
        let mut served = Served::start(folder.path(), &pair, "", &tls);
        let with = |pair: Option<&Pair>| {
            let mut options = served.options(&authority);
            options.extend(["--tls-version".into(), version.into()]);
            if let Some(Pair { certificate, key, .. }) = pair {
                options.extend(["--cert", certificate, "--key", key].map(String::from));
            }
            served.takes(&mosquitto_pub, &options, "topic")
        };
        assert!(with(Some(&authority.valid("client"))));
        assert!(!with(Some(&other.valid("client"))));
        assert!(!with(Some(&authority.sign("old", (2010, 2012)))));
        assert!(!with(None));
        for why in ["it showed no certificate", "an authority that is not trusted", "has expired"] {
            served.says(why);
        }
    }
}

#[test]
fn who_speaks_no_tls_is_cut_off_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let mut served = Served::start(folder.path(), &authority.valid("broker"), "shards = 1", "");
    let mut plain = served.connect();
    plain.write_all(&[0x10, 12, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 0]).unwrap();
    let mut said = Vec::new();
    plain.read_to_end(&mut said).unwrap();
    assert_eq!((said[0], said.len()), (21, 7), "an alert and no more: {said:?}");
    served.says("ended before CONNECT");
    served.says("it does not speak TLS");
    served.signal(rustix::process::Signal::USR1);
    served.says("transport_errors=1 ");
}

/// Sends `start` and then `piece` again and again, until the broker has ended it. Returns what was
/// said before.
fn goes_on_for_ever(served: &Served, start: &[u8], piece: &[u8]) -> Vec<u8> {
    let (mut stream, mut said) = (served.connect(), Vec::new());
    stream.write_all(start).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "it is let go on");
        let mut some = [0; 4096];
        match stream.read(&mut some) {
            Ok(0) => return said,
            Ok(count) => said.extend(&some[..count]),
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return said,
            Err(_) if stream.write_all(piece).is_err() => return said,
            Err(_) => {}
        }
    }
}

/// The time for CONNECT counts from accept, whatever bytes come meanwhile.
#[test]
fn a_handshake_that_goes_on_for_ever_is_ended_by_the_time_for_connect() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let top = "[limits]\nconnect_timeout_s = 1";
    let served = Served::start(folder.path(), &authority.valid("broker"), top, "");
    let mut silent = served.connect();
    // The record has 512 bytes; one of them comes each time.
    goes_on_for_ever(&served, &HELLO, &[1]);
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
}

/// Masked by zeros, and the first of many.
const FIRST_FRAGMENT: [u8; 6] = [0x02, 0x80, 0, 0, 0, 0];

/// One that brings nothing, and is not the last.
const EMPTY_FRAGMENT: [u8; 6] = [0x00, 0x80, 0, 0, 0, 0];

/// Half a request, a WebSocket without CONNECT whose message never ends, and a client whose message
/// goes on for longer than its keep alive.
#[test]
fn requests_and_fragments_of_websocket_that_go_on_for_ever_are_ended_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[limits]\nconnect_timeout_s = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
        websocket = true";
    let served = Served::with(folder.path(), text, "WebSocket");
    let half = format!("{}X-More: ", WEB_SOCKET_REQUEST.trim_end_matches("\r\n"));
    assert_eq!(goes_on_for_ever(&served, half.as_bytes(), b"x"), b"");
    let open = [WEB_SOCKET_REQUEST.as_bytes(), &FIRST_FRAGMENT].concat();
    let said = goes_on_for_ever(&served, &open, &EMPTY_FRAGMENT);
    assert!(said.starts_with(b"HTTP/1.1 101 "), "{}", command::text(&said));
    // CONNECT of 3.1.1 with a keep alive of a second.
    let connect = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 1, 0, 1, b'a'];
    let frame = [&[0x02, 0x80 | connect.len() as u8, 0, 0, 0, 0][..], &connect].concat();
    let said = goes_on_for_ever(
        &served,
        &[WEB_SOCKET_REQUEST.as_bytes(), &frame].concat(),
        &EMPTY_FRAGMENT,
    );
    let connack = [0x82, 4, 0x20, 2, 0, 0];
    assert!(said.windows(6).any(|some| some == connack), "{}", command::text(&said));
}

/// However long the frame says that it is: it is read as it comes, and a packet in it is bounded.
#[test]
fn a_websocket_frame_of_any_length_holds_no_memory_and_a_packet_in_it_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[limits]\npacket_bytes_max = 1000\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
        websocket = true";
    let served = Served::with(folder.path(), text, "WebSocket");
    let connect = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 1, b'a'];
    let open = |length: u64| {
        let head = [&[0x82, 0xFF][..], &length.to_be_bytes(), &[0; 4]].concat();
        let mut stream = served.connect();
        stream.write_all(&[WEB_SOCKET_REQUEST.as_bytes(), &head, &connect].concat()).unwrap();
        stream
    };
    let connack = |stream: &mut TcpStream| {
        let mut said = Vec::new();
        while !said.ends_with(&[0x82, 4, 0x20, 2, 0, 0]) {
            let mut byte = [0];
            if stream.read(&mut byte).unwrap_or(0) == 0 {
                return Err(said);
            }
            said.push(byte[0]);
        }
        Ok(())
    };
    let mut longest = open((1 << 63) - 1);
    connack(&mut longest).unwrap();
    longest.write_all(&[0xC0, 0]).unwrap();
    let mut answer = [0; 4];
    longest.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x82, 2, 0xD0, 0], "PINGRESP: the frame goes on");
    // PUBLISH of 268,435,455 bytes in it.
    longest.write_all(&[0x30, 0xFF, 0xFF, 0xFF, 0x7F]).unwrap();
    assert_eq!(longest.read(&mut [0; 64]).map_or(0, |count| count.min(4)), 4, "a close frame");
    let said = connack(&mut open(1 << 63)).unwrap_err();
    assert!(said.ends_with(&[0x88, 2, 0x03, 0xEA]), "1002: {said:?}");
}

#[test]
fn who_is_not_to_come_in_is_cut_before_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let top = "shards = 1\n[process]\nconnections_per_address_max = 1";
    let mut served = Served::start(folder.path(), &authority.valid("broker"), top, "");
    let _first = served.connect();
    let mut second = served.connect();
    // Not even an alert, however it begins.
    let _ = second.write_all(&[1; 100]);
    let mut said = Vec::new();
    let _ = second.read_to_end(&mut said);
    assert_eq!(said, b"");
    served.says("Quota exceeded");
}

#[test]
fn who_is_banned_is_cut_before_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let bans = folder.path().join("bans");
    std::fs::write(&bans, "address 127.0.0.2\n").unwrap();
    let top = format!("shards = 1\n[auth]\nallow_anonymous = true\nbans_file = {bans:?}");
    let mut served = Served::start(folder.path(), &authority.valid("broker"), &top, "");
    let says = |host| {
        let mut stream = crate::bans::from_host(host, &served.address.to_string());
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // No TLS: whoever is heard gets an alert.
        let _ = stream.write_all(&[1; 100]);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        said
    };
    assert_eq!(says(2), b"");
    assert_eq!(says(3).first(), Some(&21));
    served.signal(rustix::process::Signal::USR1);
    served.says("transport_errors=1 ");
}

/// A client of WebSocket, over TLS or not, that sends a packet in two frames, and two in one.
#[test]
fn a_client_of_websocket_connects_over_tls_and_without() {
    for (has_tls, shards) in [(false, 1), (true, 4)] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let tls = configuration(&authority.valid("broker"), &format!("shards = {shards}"), "");
        let (text, spoken) = match has_tls {
            true => (
                tls.replace("[listener.tls]", "websocket = true\n[listener.tls]"),
                "WebSocket over TLS",
            ),
            false => {
                ("[[listener]]\naddress = \"127.0.0.1:0\"\nwebsocket = true".into(), "WebSocket")
            }
        };
        let served = Served::with(folder.path(), &text, spoken);
        for at in 0..8_u8 {
            let stream = served.connect();
            if has_tls {
                exchange(authority.connect(stream), at);
            } else {
                exchange(stream, at);
            }
        }
    }
}

/// CONNECT, SUBSCRIBE, a long PUBLISH and back.
fn exchange(stream: impl Read + Write, at: u8) {
    use tungstenite::client::IntoClientRequest;
    let mut request = "ws://localhost/mqtt".into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", "mqtt".parse().unwrap());
    let Ok((mut socket, _)) = tungstenite::client(request, stream) else { panic!("no WebSocket") };
    let mut connect = vec![0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 1, b'a' + at];
    let subscribe = [0x82, 6, 0, 1, 0, 1, b't', 0];
    let second = connect.split_off(5);
    socket.send(tungstenite::Message::binary(connect)).unwrap();
    socket.send(tungstenite::Message::binary([&second[..], &subscribe].concat())).unwrap();
    hears(&mut socket, &[0x20, 2, 0, 0, 0x90, 3, 0, 1, 0]);
    // 200,000 bytes behind the length, which takes three.
    let mut publish = vec![0x30, 0xC0, 0x9A, 0x0C, 0, 1, b't'];
    publish.resize(4 + 200_000, at);
    socket.send(tungstenite::Message::binary(publish.clone())).unwrap();
    hears(&mut socket, &publish);
}

fn hears(socket: &mut tungstenite::WebSocket<impl Read + Write>, expected: &[u8]) {
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        heard.extend(socket.read().unwrap().into_data());
    }
    assert!(heard == expected, "{} bytes for {}", heard.len(), expected.len());
}

#[test]
fn certificates_are_read_again_at_sighup_and_a_bad_one_changes_nothing() {
    let Some((mosquitto_pub, mosquitto_sub)) = mosquitto() else { return };
    let folder = tempfile::tempdir().unwrap();
    let old = Authority::new("old", folder.path());
    let new = Authority::new("new", folder.path());
    let (pair, other) = (old.valid("broker"), new.valid("broker"));
    let mut served = Served::start(folder.path(), &pair, "shards = 2", "");
    let live = Command::new(mosquitto_sub)
        .args(served.options(&old))
        .args(["-i", "live", "-q", "1", "-t", "topic", "-C", "1", "-W", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    served.says("client_id=\"live\"");
    let takes = |served: &Served, authority: &Authority, topic: &str| {
        served.takes(&mosquitto_pub, &served.options(authority), topic)
    };
    assert!(takes(&served, &old, "else") && !takes(&served, &new, "else"));

    std::fs::copy(&other.certificate, &pair.certificate).unwrap();
    served.signal(rustix::process::Signal::HUP);
    served.says("the certificate stays as it was");
    served.says("the private key is not that of the certificate");
    assert!(takes(&served, &old, "else") && !takes(&served, &new, "else"));

    std::fs::copy(&other.key, &pair.key).unwrap();
    served.signal(rustix::process::Signal::HUP);
    served.says("read the certificate again");
    assert!(!takes(&served, &old, "else") && takes(&served, &new, "topic"));
    // It came in before, and is still there.
    let heard = live.wait_with_output().unwrap();
    assert_eq!(command::text(&heard.stdout), "hello\n");
}

/// What `--check` says of a configuration.
fn check(folder: &Path, text: &str) -> Output {
    let file = folder.join("weir.toml");
    std::fs::write(&file, text).unwrap();
    ended(Command::new(WEIR).arg("broker").arg(&file).arg("--check").env_remove("WEIR_LOG"))
}

#[test]
fn a_file_that_cannot_be_used_is_named_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let (good, other) = (authority.valid("broker"), authority.valid("other"));
    let absent = folder.path().join("absent.pem").to_str().unwrap().to_owned();
    let past = authority.revoke(&[], (2010, 2012));
    let with = |certificate: &str, key: &str| Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        serial: 0,
    };
    let ca = |file: &str| format!("client_ca = {file:?}\n");
    let crl = |file: &str| format!("{}crl = [{file:?}]", ca(&authority.file()));
    let more = |pair: &Pair| {
        let Pair { certificate, key, .. } = pair;
        format!("[[listener.tls.more]]\ncertificate = {certificate:?}\nkey = {key:?}")
    };
    let (certificate, key) = (&*good.certificate, &*good.key);
    let mixed = with(certificate, &other.key);
    let cases = [
        (with(&absent, key), String::new(), [&*absent, "No such file"]),
        (with(key, key), String::new(), [key, "it has no certificate"]),
        (with(certificate, certificate), String::new(), [certificate, "it has no private key"]),
        (mixed.clone(), String::new(), [&*other.key, "not that of"]),
        (good.clone(), more(&mixed), [&*other.key, "not that of"]),
        (good.clone(), ca(key), [key, "it has no certificate"]),
        (good.clone(), crl(key), [key, "it has no list of revoked certificates"]),
        (good.clone(), crl(&past), [&*past, "has expired"]),
    ];
    for (pair, tls, named) in cases {
        let output = check(folder.path(), &configuration(&pair, "", &tls));
        let text = command::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(named.iter().all(|name| text.contains(name)), "{named:?}: {text}");
    }
}

#[test]
fn keys_that_do_not_fit_are_named_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let good = authority.valid("broker");
    let is_compact = "record_layer = \"compact\"\nversions = [\"1.2\", \"1.3\"]";
    let is_old = "ciphers = [\"TLS13_AES_128_GCM_SHA256\"]\nversions = [\"1.2\"]";
    for (tls, named) in [
        ("require_certificate = true", ["require_certificate", "client_ca"]),
        ("identity = \"cn\"", ["identity", "client_ca"]),
        ("crl = [\"list.pem\"]", ["crl", "client_ca"]),
        ("versions = []", ["versions", "name \"1.3\""]),
        ("versions = [\"1.1\"]", ["1.1", "1.2"]),
        (is_compact, ["versions", "for \"1.3\" alone"]),
        ("ciphers = [\"RC4\"]", ["ciphers", "\"RC4\""]),
        (is_old, ["ciphers", "listener.tls.versions"]),
    ] {
        let output = check(folder.path(), &configuration(&good, "", tls));
        let text = command::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(named.iter().all(|name| text.contains(name)), "{named:?}: {text}");
    }
    let ca = format!("client_ca = {:?}", authority.file());
    let output = check(folder.path(), &configuration(&good, "", &ca));
    let text = command::text(&output.stdout);
    assert!(output.status.success() && text.contains("record_layer = \"rustls\""), "{text}");
    // Nothing is listened on beside what the file names.
    assert!(text.contains("listen = []"), "{text}");
}
