//! `weir pub`, `weir sub` and `weir flow` over TLS and WebSocket, on `weir broker` and Mosquitto.

use crate::support::Broker;
use crate::support::certificates::{Authority, Pair};
use crate::support::command;
use crate::support::mosquitto::Mosquitto;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A broker of some kind on one listener.
enum Served {
    Weir { _broker: Broker, port: String },
    Mosquitto(Mosquitto),
}

impl Served {
    fn port(&self) -> &str {
        match self {
            Self::Weir { port, .. } => port,
            Self::Mosquitto(mosquitto) => &mosquitto.port,
        }
    }
}

/// What a listener speaks.
#[derive(Clone, Copy, Default)]
struct Listener<'a> {
    pair: Option<&'a Pair>,
    is_websocket: bool,
    /// Whose certificates clients have to show.
    clients: Option<&'a Authority>,
}

fn weir_broker(folder: &Path, listener: Listener<'_>) -> Served {
    let mut text = "[[listener]]\naddress = \"127.0.0.1:0\"\n".to_owned();
    if listener.is_websocket {
        text += "websocket = true\n";
    }
    if let Some(Pair { certificate, key, .. }) = listener.pair {
        text += &format!("[listener.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    }
    if let Some(authority) = listener.clients {
        text += &format!("client_ca = {:?}\nrequire_certificate = true\n", authority.file());
    }
    let file = folder.join("weir.toml");
    std::fs::write(&file, text).unwrap();
    let broker = Broker::try_start(&[file.to_str().unwrap()]).unwrap();
    let address = broker.address.split(' ').next().unwrap();
    let port = address.rsplit(':').next().unwrap().to_owned();
    Served::Weir { _broker: broker, port }
}

fn mosquitto(folder: &Path, listener: Listener<'_>) -> Option<Served> {
    let mut lines = "allow_anonymous true\n".to_owned();
    if listener.is_websocket {
        lines += "protocol websockets\n";
    }
    if let Some(Pair { certificate, key, .. }) = listener.pair {
        lines += &format!("certfile {certificate}\nkeyfile {key}\n");
    }
    if let Some(authority) = listener.clients {
        lines += &format!("cafile {}\nrequire_certificate true\n", authority.file());
    }
    if listener.is_websocket {
        // Mosquitto 2.0.11 does not start with listeners of WebSocket alone.
        lines += &format!("listener 0 {}\n", folder.join("m.socket").display());
    }
    Some(Served::Mosquitto(Mosquitto::start(&lines)?))
}

fn brokers(folder: &Path, listener: Listener<'_>) -> Vec<Served> {
    let both = [Some(weir_broker(folder, listener)), mosquitto(folder, listener)];
    both.into_iter().flatten().collect()
}

fn weir(arguments: &[&str]) -> Output {
    Command::new(WEIR).args(arguments).output().unwrap()
}

fn ok(arguments: &[&str]) -> String {
    let output = weir(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    command::text(&output.stdout)
}

/// The one line of a command that fails.
fn complaint(arguments: &[&str]) -> String {
    let output = weir(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    command::text(&output.stderr)
}

#[test]
fn messages_of_any_length_pass_over_every_transport() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let pair = authority.valid("broker");
    let long = folder.path().join("long");
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| b'a' + (at / 251 % 26) as u8).collect();
    std::fs::write(&long, &bytes).unwrap();
    let ca = authority.file();
    for (scheme, pair, is_websocket) in [
        ("mqtt", None, false),
        ("mqtts", Some(&pair), false),
        ("ws", None, true),
        ("wss", Some(&pair), true),
    ] {
        for served in brokers(folder.path(), Listener { pair, is_websocket, clients: None }) {
            let url = format!("{scheme}://127.0.0.1:{}", served.port());
            let trust = if pair.is_some() { vec!["--cafile", &ca] } else { Vec::new() };
            for (topic, file) in [("long", Some(long.to_str().unwrap())), ("short", None)] {
                let message = file.map_or(vec!["-m", "hello"], |file| vec!["-f", file]);
                // The URL of MQTT has a topic, that of WebSocket a path.
                let (url, topic) = match is_websocket {
                    true => (format!("{url}/mqtt"), vec!["-t", topic]),
                    false => (format!("{url}/{topic}"), Vec::new()),
                };
                let common = [&["-L", &url, "-q", "1"][..], &topic, &trust].concat();
                ok(&[&["pub", "-r"], &common[..], &message].concat());
                let heard = ok(&[&["sub", "-C", "1", "-W", "60", "-N"], &common[..]].concat());
                let sent = if file.is_some() { &bytes[..] } else { b"hello" };
                assert!(heard.as_bytes() == sent, "{url}: {} bytes", heard.len());
            }
        }
    }
}

#[test]
fn a_client_shows_its_certificate_to_who_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let (pair, client) = (authority.valid("broker"), authority.valid("client"));
    let (ca, clients) = (authority.file(), Some(&authority));
    for version in ["tlsv1.2", "tlsv1.3"] {
        let listener = Listener { pair: Some(&pair), clients, ..Listener::default() };
        for served in brokers(folder.path(), listener) {
            let common = ["pub", "-h", "localhost", "-p", served.port(), "-t", "a", "-m", "x"];
            let tls = ["--cafile", &ca, "--tls-version", version, "-q", "1"];
            let shown = ["--cert", &client.certificate, "--key", &client.key];
            ok(&[&common[..], &tls, &shown].concat());
            let text = complaint(&[&common[..], &tls].concat());
            assert!(text.contains("cannot connect") || text.contains("was lost"), "{text}");
        }
    }
}

#[test]
fn a_broker_that_is_not_trusted_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) =
        (Authority::new("a", folder.path()), Authority::new("b", folder.path()));
    let (pair, expired) = (authority.valid("broker"), authority.sign("old", (2001, 2002)));
    let (ca, strange) = (authority.file(), other.file());
    let refused = |served: &Served, more: &[&str]| {
        let common = ["pub", "-h", "127.0.0.1", "-p", served.port(), "-t", "a", "-m", "x"];
        complaint(&[&common[..], more].concat())
    };
    for served in brokers(folder.path(), Listener { pair: Some(&pair), ..Listener::default() }) {
        let text = refused(&served, &["--cafile", &strange]);
        assert!(text.contains("not trusted here (see --cafile)"), "{text}");
        // Without TLS: the broker ends it, or answers what no client can read.
        let text = refused(&served, &[]);
        assert!(text.starts_with("weir: "), "{text}");
    }
    if let Some(served) =
        mosquitto(folder.path(), Listener { pair: Some(&expired), ..Listener::default() })
    {
        let text = refused(&served, &["--cafile", &ca]);
        assert!(text.contains("its certificate has expired"), "{text}");
    }
    for served in brokers(folder.path(), Listener::default()) {
        let text = refused(&served, &["--cafile", &ca]);
        assert!(text.contains("speak TLS"), "{text}");
        let url = format!("ws://127.0.0.1:{}", served.port());
        let text = complaint(&["pub", "-L", &url, "-t", "a", "-m", "x"]);
        assert!(text.contains("WebSocket"), "{text}");
    }
}

#[test]
fn authorities_come_from_a_folder_or_from_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let pair = authority.valid("broker");
    let served = weir_broker(folder.path(), Listener { pair: Some(&pair), ..Listener::default() });
    let url = format!("mqtts://localhost:{}/a", served.port());
    ok(&["pub", "-L", &url, "-m", "x", "-q", "1", "--capath", folder.path().to_str().unwrap()]);
    // As OpenSSL does, who asks for the system's looks here first.
    let as_of_system = |file: &str| {
        let mut command = Command::new(WEIR);
        command.args(["pub", "-L", &url, "-m", "x", "-q", "1"]).env("SSL_CERT_FILE", file);
        command.env_remove("SSL_CERT_DIR").output().unwrap()
    };
    assert!(as_of_system(&authority.file()).status.success());
    let other = Authority::new("b", folder.path()).file();
    let text = command::text(&as_of_system(&other).stderr);
    assert!(text.contains("not trusted here"), "{text}");
}

#[test]
fn a_certificate_of_another_host_is_taken_only_if_nobody_minds() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let pair = authority.named("elsewhere", &["elsewhere.example"]);
    let ca = authority.file();
    for served in brokers(folder.path(), Listener { pair: Some(&pair), ..Listener::default() }) {
        let common = ["pub", "-h", "127.0.0.1", "-p", served.port(), "-t", "a", "-m", "x"];
        let common = [&common[..], &["-q", "1", "--cafile", &ca]].concat();
        let text = complaint(&common);
        assert!(text.contains("for another name (see --insecure)"), "{text}");
        ok(&[&common[..], &["--insecure"]].concat());
    }
}

#[test]
fn a_path_that_is_not_served_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let served = weir_broker(folder.path(), Listener { is_websocket: true, ..Listener::default() });
    let url = format!("ws://127.0.0.1:{}/nowhere", served.port());
    let text = complaint(&["pub", "-L", &url, "-t", "a", "-m", "x"]);
    assert!(text.contains("HTTP status 404: it does not serve this path"), "{text}");
}

#[test]
fn the_rules_of_a_flow_run_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let pair = authority.valid("broker");
    let (ca, rules) = (authority.file(), folder.path().join("rules.toml"));
    std::fs::write(
        &rules,
        "[[flow]]\nname = \"all\"\nfrom = \"in\"\nqos = 1\nto = \"out\"\nretain = true\n",
    )
    .unwrap();
    for is_websocket in [false, true] {
        let listener = Listener { pair: Some(&pair), is_websocket, clients: None };
        for served in brokers(folder.path(), listener) {
            let scheme = if is_websocket { "wss" } else { "mqtts" };
            let url = format!("{scheme}://127.0.0.1:{}", served.port());
            let mut flow = Command::new(WEIR)
                .args(["flow", "run", rules.to_str().unwrap(), "-b", &url, "--cafile", &ca])
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let (mut log, mut line) = (BufReader::new(flow.stderr.take().unwrap()), String::new());
            while !line.contains("rules run on") {
                line.clear();
                assert!(log.read_line(&mut line).unwrap() > 0, "it ended");
            }
            let topic = |topic: &str| match is_websocket {
                true => vec!["-L".into(), url.clone(), "-t".into(), topic.to_owned()],
                false => vec!["-L".into(), format!("{url}/{topic}")],
            };
            let say = |words: &[&str], of: &str| {
                let topic = topic(of);
                let topic: Vec<&str> = topic.iter().map(String::as_str).collect();
                ok(&[words, &topic, &["--cafile", &ca]].concat())
            };
            say(&["pub", "-m", "hello", "-q", "1"], "in");
            assert_eq!(say(&["sub", "-C", "1", "-W", "60"], "out"), "hello\n");
            flow.kill().unwrap();
            flow.wait().unwrap();
        }
    }
}
