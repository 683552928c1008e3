//! What OpenSSL's client sees of it.

use super::*;

/// Words of a configuration with each record layer.
const LAYERS: [&str; 2] = ["record_layer = \"rustls\"", "record_layer = \"compact\""];

/// CONNECT of MQTT 3.1.1, and what it is answered with.
const CONNECT: [u8; 15] = *b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01c";
const CONNACK: [u8; 4] = [0x20, 2, 0, 0];

/// `openssl s_client`. It shows what it receives at once, and what it has to say itself in the end.
struct Client {
    child: Child,
    said: Vec<u8>,
}

impl Client {
    fn new(openssl: &Path, served: &Served, authority: &Authority, options: &[&str]) -> Self {
        let child = Command::new(openssl)
            .args(["s_client", "-connect", &served.address.to_string(), "-CAfile"])
            .arg(authority.file())
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, said: Vec::new() }
    }

    /// Something for the broker, or a command of one letter.
    fn told(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Waits until the broker has sent `bytes`.
    fn receives(&mut self, bytes: &[u8]) {
        read_until(self.child.stdout.as_mut().unwrap(), bytes, &mut self.said);
    }

    /// Has it change its keys, by the command of this letter.
    fn changes_keys(&mut self, command: &[u8]) {
        self.told(command);
        // What follows the command too soon is taken for a part of it.
        read_until(self.child.stderr.as_mut().unwrap(), b"KEYUPDATE\n", &mut Vec::new());
    }

    /// It is over, or told to end. Returns whether it was content, and what it has said.
    fn ended(mut self) -> (bool, String) {
        // It may have ended, which is what is looked for.
        let _ = self.child.stdin.take().unwrap().write_all(b"Q\n");
        let Output { status, stdout, stderr } = self.child.wait_with_output().unwrap();
        let said = [&self.said[..], &stdout, &stderr].concat();
        (status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Appends to `said`, and goes on until something that ends with `bytes` has come.
fn read_until(mut stream: impl Read, bytes: &[u8], said: &mut Vec<u8>) {
    let mut one = [0];
    loop {
        stream.read_exact(&mut one).unwrap();
        said.extend(one);
        if said.ends_with(bytes) {
            return;
        }
    }
}

#[test]
fn there_is_no_version_before_1_2_and_no_renegotiation() {
    let Some(openssl) = tool(&["openssl"]) else { return };
    for layer in LAYERS {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let served = Served::start(folder.path(), &authority.valid("broker"), "", layer);
        let client = |options: &[&str]| Client::new(&openssl, &served, &authority, options);
        for version in ["-tls1", "-tls1_1"] {
            let (is_good, text) = client(&[version, "-cipher", "DEFAULT@SECLEVEL=0"]).ended();
            assert!(!is_good && text.contains("SSL alert number"), "{version}: {text}");
        }
        let (is_good, text) = client(&["-tls1_3", "-comp"]).ended();
        assert!(is_good && text.contains("Verify return code: 0"), "{text}");
        assert!(text.contains("Compression: NONE"), "{text}");
        let mut old = client(&["-tls1_2"]);
        if layer == LAYERS[1] {
            let (is_good, text) = old.ended();
            assert!(!is_good && text.contains("SSL alert number 70"), "{text}");
            continue;
        }
        old.told(b"R\n");
        let (is_good, text) = old.ended();
        assert!(!is_good && text.contains("no renegotiation"), "{text}");
    }
}

#[test]
fn keys_are_changed_as_often_as_a_client_wants() {
    let Some(openssl) = tool(&["openssl"]) else { return };
    for layer in LAYERS {
        for suite in
            ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"]
        {
            let folder = tempfile::tempdir().unwrap();
            let authority = Authority::new("a", folder.path());
            let served = Served::start(folder.path(), &authority.valid("broker"), "", layer);
            let options = ["-tls1_3", "-ciphersuites", suite];
            let mut client = Client::new(&openssl, &served, &authority, &options);
            client.told(&CONNECT);
            client.receives(&CONNACK);
            // Its own, and those of both.
            for command in [b"k\n", b"K\n", b"K\n", b"k\n"] {
                client.changes_keys(command);
                client.told(&[0xC0, 0]);
                client.receives(&[0xD0, 0]);
            }
            assert!(client.ended().0);
        }
    }
}

#[test]
fn sessions_are_resumed() {
    let Some(openssl) = tool(&["openssl"]) else { return };
    for (layer, version) in [(LAYERS[0], "-tls1_2"), (LAYERS[0], "-tls1_3"), (LAYERS[1], "-tls1_3")]
    {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let served = Served::start(folder.path(), &authority.valid("broker"), "", layer);
        let session = folder.path().join("session").to_str().unwrap().to_owned();
        for (option, is_reused) in [("-sess_out", false), ("-sess_in", true)] {
            let options = [version, option, &session];
            let mut client = Client::new(&openssl, &served, &authority, &options);
            client.told(&CONNECT);
            // The ticket stands before it.
            client.receives(&CONNACK);
            let (is_good, text) = client.ended();
            let word = if is_reused { "Reused, TLSv1." } else { "New, TLSv1." };
            assert!(is_good && text.contains(word), "{layer} {version}: {text}");
        }
    }
}

#[test]
fn certificates_between_the_brokers_own_and_the_authority_are_shown() {
    let Some(openssl) = tool(&["openssl"]) else { return };
    for layer in LAYERS {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let middle = authority.intermediate("middle");
        let pair = middle.valid("broker");
        let own = std::fs::read_to_string(&pair.certificate).unwrap();
        let chain = own + &std::fs::read_to_string(middle.file()).unwrap();
        std::fs::write(&pair.certificate, chain).unwrap();
        let served = Served::start(folder.path(), &pair, "", layer);
        let (is_good, text) = Client::new(&openssl, &served, &authority, &[]).ended();
        assert!(is_good && text.contains("Verify return code: 0"), "{text}");
    }
}

#[test]
fn the_host_that_a_client_names_chooses_the_certificate() {
    let Some(openssl) = tool(&["openssl"]) else { return };
    for layer in LAYERS {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let more = ["one.example", "*.two.example"].map(|host| {
            let name = host.replace("*.", "any-");
            let Pair { certificate, key, .. } = authority.sign_for(&name, &[host], (2020, 2100));
            format!("[[listener.tls.more]]\ncertificate = {certificate:?}\nkey = {key:?}\n")
        });
        let tls = format!("{layer}\n{}", more.concat());
        let served = Served::start(folder.path(), &authority.valid("broker"), "", &tls);
        for (host, name) in [
            ("one.example", "one.example"),
            ("ONE.example", "one.example"),
            ("a.two.example", "any-two.example"),
            ("localhost", "broker"),
            ("unknown.example", "broker"),
        ] {
            let options = ["-servername", host];
            let (is_good, text) = Client::new(&openssl, &served, &authority, &options).ended();
            assert!(is_good && text.contains(&format!("subject=CN = {name}\n")), "{host}: {text}");
        }
        let (_, text) = Client::new(&openssl, &served, &authority, &["-noservername"]).ended();
        assert!(text.contains("subject=CN = broker\n"), "{text}");
    }
}

#[test]
fn who_wants_another_protocol_is_refused_and_suites_are_chosen_by_the_broker() {
    let Some(openssl) = tool(&["openssl"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let tls = "ciphers = [\"TLS13_CHACHA20_POLY1305_SHA256\", \"TLS13_AES_128_GCM_SHA256\"]";
    let mut served = Served::start(folder.path(), &authority.valid("broker"), "", tls);
    let client = |options: &[&str]| Client::new(&openssl, &served, &authority, options).ended();
    let (is_good, text) = client(&["-alpn", "h2,mqtt"]);
    assert!(is_good && text.contains("ALPN protocol: mqtt"), "{text}");
    assert!(text.contains("Cipher is TLS_CHACHA20_POLY1305_SHA256"), "{text}");
    let (is_good, text) = client(&["-ciphersuites", "TLS_AES_256_GCM_SHA384"]);
    assert!(!is_good && text.contains("SSL alert number 40"), "{text}");
    let (is_good, text) = client(&["-alpn", "h2"]);
    assert!(!is_good && text.contains("SSL alert number 120"), "{text}");
    served.says("no application protocol in common");
}
