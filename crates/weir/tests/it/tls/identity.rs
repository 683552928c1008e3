//! Who a client's certificate says that it is, and certificates that were revoked.

use super::*;

const RIGHTS: &str = "user ann\ntopic readwrite ann/#\n\
                      user localhost\ntopic readwrite hosts/#\n\
                      user CN=ann\ntopic readwrite subjects/#\n";

/// Options of a client that shows a certificate.
fn shows(served: &Served, authority: &Authority, pair: &Pair) -> Vec<String> {
    let mut options = served.options(authority);
    options.extend(["--cert", &pair.certificate, "--key", &pair.key].map(String::from));
    options
}

/// Whether what a client publishes is taken: with MQTT 5.0, it is told what it may not.
fn may_publish(mosquitto_pub: &Path, options: &[String], topic: &str) -> bool {
    let mut command = Command::new(mosquitto_pub);
    command.args(options).args(["-V", "5", "-q", "1", "-t", topic, "-m", "hello"]);
    let output = ended(&mut command);
    let text = command::text(&output.stderr);
    output.status.success() && !text.contains("Not authorized")
}

#[test]
fn a_certificate_is_a_user_whatever_connect_says() {
    let Some((mosquitto_pub, _)) = mosquitto() else { return };
    for (identity, layer, topic, shards) in [
        ("cn", "rustls", "ann/1", 1),
        ("cn", "compact", "ann/1", 4),
        ("san", "rustls", "hosts/1", 4),
        ("subject", "compact", "subjects/1", 1),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let rights = folder.path().join("rights");
        std::fs::write(&rights, RIGHTS).unwrap();
        let top = format!("shards = {shards}\n[auth]\nacl_file = {rights:?}");
        let tls = format!(
            "client_ca = {:?}\nidentity = {identity:?}\nrecord_layer = {layer:?}",
            authority.file()
        );
        let served = Served::start(folder.path(), &authority.valid("broker"), &top, &tls);
        let ann = shows(&served, &authority, &authority.valid("ann"));
        let may = |options: &[String], topic| may_publish(&mosquitto_pub, options, topic);
        // Some identifiers belong to other shards than accept them.
        for at in 0..4 {
            let mut claims = ann.clone();
            claims.extend(["-u", "bob", "-P", "secret", "-i"].map(String::from));
            claims.push(format!("client-{at}"));
            assert!(may(&claims, topic), "{identity}");
            assert!(!may(&claims, "bob/1"), "{identity}");
        }
        // Without a certificate there is no user, and nobody comes in.
        assert!(!may(&served.options(&authority), topic), "{identity}");
    }
}

#[test]
fn a_certificate_that_names_nobody_lets_nobody_in() {
    let Some((mosquitto_pub, _)) = mosquitto() else { return };
    for layer in ["rustls", "compact"] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let tls = format!(
            "client_ca = {:?}\nidentity = \"san\"\nrecord_layer = {layer:?}",
            authority.file()
        );
        let mut served = Served::start(folder.path(), &authority.valid("broker"), "", &tls);
        let nameless = authority.sign_for("ann", &["10.0.0.1"], (2020, 2100));
        let options = shows(&served, &authority, &nameless);
        assert!(!may_publish(&mosquitto_pub, &options, "topic"));
        served.says("its certificate names no user");
        // By loopback alone, whoever shows none is let in as everywhere.
        assert!(may_publish(&mosquitto_pub, &served.options(&authority), "topic"));
    }
}

#[test]
fn other_hosts_may_reach_a_broker_that_demands_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let pair = authority.valid("broker");
    let ca = format!("client_ca = {:?}", authority.file());
    let check = |tls: &str| {
        let text = configuration(&pair, "", tls).replace("127.0.0.1:0", "0.0.0.0:0");
        let output = check(folder.path(), &text);
        (output.status.code(), command::text(&output.stderr))
    };
    let (code, text) = check(&ca);
    assert!(code == Some(2) && text.contains("require_certificate"), "{text}");
    let (code, text) = check(&format!("{ca}\nrequire_certificate = true"));
    assert!(code == Some(0), "{text}");
}

#[test]
fn who_was_revoked_does_not_come_in_and_sighup_has_the_list_read_again() {
    let Some((mosquitto_pub, _)) = mosquitto() else { return };
    for version in ["tlsv1.2", "tlsv1.3"] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        let (ann, bob) = (authority.valid("ann"), authority.valid("bob"));
        let list = authority.revoke(&[&bob], (2020, 2100));
        let tls = format!("client_ca = {:?}\ncrl = [{list:?}]", authority.file());
        let mut served = Served::start(folder.path(), &authority.valid("broker"), "", &tls);
        let takes = |served: &Served, pair: &Pair| {
            let mut options = shows(served, &authority, pair);
            options.extend(["--tls-version", version].map(String::from));
            served.takes(&mosquitto_pub, &options, "topic")
        };
        assert!(takes(&served, &ann) && !takes(&served, &bob));
        served.says("its certificate was revoked");
        // One that was to be replaced by now changes nothing.
        authority.revoke(&[], (2010, 2012));
        served.signal(rustix::process::Signal::HUP);
        served.says("the list of revoked certificates has expired");
        assert!(takes(&served, &ann) && !takes(&served, &bob));
        authority.revoke(&[&ann], (2020, 2100));
        served.signal(rustix::process::Signal::HUP);
        served.says("read the certificate again");
        assert!(!takes(&served, &ann) && takes(&served, &bob));
        // Of an authority that has published none nobody knows.
        let other = Authority::new("b", folder.path());
        let both = [authority.file(), other.file()].map(|file| std::fs::read(file).unwrap());
        std::fs::write(authority.file(), both.concat()).unwrap();
        served.signal(rustix::process::Signal::HUP);
        served.says_times("read the certificate again", 2);
        assert!(!takes(&served, &other.valid("cat")) && takes(&served, &bob));
        served.says("no list says whether its certificate was revoked");
    }
}

/// A client that is connected by a certificate, and hears nothing but that its connection ends.
struct Connected(Child);

impl Connected {
    fn new(mosquitto_sub: &Path, options: &[String], id: &str) -> Self {
        let mut command = Command::new(mosquitto_sub);
        command.args(options).args(["-V", "5", "-i", id, "-t", "x", "--quiet"]);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// By both record layers, and with more threads than one.
#[test]
fn whoever_is_connected_by_a_certificate_is_ended_when_it_counts_no_more() {
    let Some((_, mosquitto_sub)) = mosquitto() else { return };
    for layer in ["rustls", "compact"] {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) =
            (Authority::new("a", folder.path()), Authority::new("b", folder.path()));
        let both = folder.path().join("both.pem");
        let read = |authority: &Authority| std::fs::read(authority.file()).unwrap();
        std::fs::write(&both, [read(&ours), read(&theirs)].concat()).unwrap();
        let (ann, bob, cat) = (ours.valid("ann"), ours.valid("bob"), theirs.valid("cat"));
        let lists = [&ours, &theirs].map(|authority| authority.revoke(&[], (2020, 2100)));
        let tls = format!(
            "client_ca = {both:?}\ncrl = {lists:?}\nrecord_layer = {layer:?}\nidentity = \"cn\""
        );
        let socket = folder.path().join("ctl");
        let top = format!("shards = 2\n[control]\nsocket = {socket:?}");
        let mut served = Served::start(folder.path(), &ours.valid("broker"), &top, &tls);
        let users = || {
            let output = Command::new(env!("CARGO_BIN_EXE_weir"))
                .args(["ctl", "--socket", socket.to_str().unwrap(), "clients", "--json"])
                .output()
                .unwrap();
            let text = command::text(&output.stdout);
            ["ann", "bob", "cat", "nobody"].map(|id| text.contains(&format!("\"{id}\"")))
        };
        let connect = |options: &[String], id| Connected::new(&mosquitto_sub, options, id);
        let options = [&ann, &bob, &cat].map(|pair| shows(&served, &ours, pair));
        let _clients = [
            connect(&options[0], "ann"),
            connect(&options[1], "bob"),
            connect(&options[2], "cat"),
            connect(&served.options(&ours), "nobody"),
        ];
        let give_up = Instant::now() + Duration::from_secs(60);
        while users() != [true; 4] {
            assert!(Instant::now() < give_up, "{:?}", users());
        }
        let reload = |served: &mut Served, times| {
            served.signal(rustix::process::Signal::HUP);
            served.says_times("connections are ended whose certificates", times);
        };
        ours.revoke(&[&bob], (2020, 2100));
        reload(&mut served, 1);
        assert!(served.text().contains("ended=1"), "{}", served.text());
        assert_eq!(users(), [true, false, true, true], "{layer}");
        std::fs::write(&both, read(&ours)).unwrap();
        reload(&mut served, 2);
        assert_eq!(users(), [true, false, false, true], "{layer}");
    }
}

#[test]
fn a_certificate_that_has_expired_or_will_soon_is_spoken_of_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    for (years, words) in
        [((2010, 2012), "THE CERTIFICATE HAS EXPIRED"), ((2090, 2092), "NOT VALID YET")]
    {
        let pair = authority.sign("broker", years);
        let mut served = Served::start(folder.path(), &pair, "", "");
        served.says(words);
        served.says(&pair.certificate);
    }
}
