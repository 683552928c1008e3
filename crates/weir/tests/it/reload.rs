//! The configuration itself, changed while the broker runs.

use crate::access::passwd;
use crate::support::Broker;
use crate::support::asked::said;
use crate::support::blocking::Blocking;
use crate::support::certificates::Authority;
use crate::support::line::Line;
use crate::support::live::{LISTEN, Live, free, is_served, left, offer};
use crate::support::tokens::SECRET;
use rustix::process::Signal;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_wire::packet::Publish;
use weir_wire::{Packet, Properties, QoS, ReasonCode, Version};

fn publish(client: &mut Blocking, topic: &str) {
    let (qos, properties) = (QoS::AtMostOnce, Properties::EMPTY);
    let message = Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: None,
        properties,
        payload: b"{\"v\": 1}",
    };
    client.send(&Packet::Publish(message)).unwrap();
}

#[test]
fn bounds_hold_at_once_and_what_takes_a_restart_is_named() {
    let mut live = Live::start(LISTEN);
    let (mut one, mut two) = (live.join("one"), live.join("two"));
    publish(&mut one, "a/b/c");
    assert!(is_served(&mut one));
    let changed = live.change(
        "shards = 3\nlisten = [\"127.0.0.1:0\"]\n[limits]\ntopic_levels_max = 2\n\
         receive_maximum = 7\n[process]\nconnections_max = 2\n[store]\ngap_ms = 9\n",
    );
    for line in [
        "live     limits.topic_levels_max = 2 (was 128)",
        "live     process.connections_max = 2 (was 1000000)",
        "restart  shards = 3 (was 2)",
        "restart  store.gap_ms = 9 (was 1)",
    ] {
        assert!(changed.lines().any(|said| said == line), "{line}: {changed}");
    }
    live.broker.says("takes a restart: shards = 3 (was 2)");
    publish(&mut one, "a/b/c");
    assert_eq!(left(&mut one), Some(ReasonCode::TopicNameInvalid));
    assert!(is_served(&mut two));
    let (mut three, reason) = live.offer("three", None);
    assert_eq!(reason, ReasonCode::Success);
    assert_eq!(live.offer("four", None).1, ReasonCode::QuotaExceeded);
    let config = said(&live.ctl(&["config"]));
    assert!(config.contains("shards = 2") && config.contains("topic_levels_max = 2"), "{config}");
    assert!(live.change(LISTEN).contains("live     limits.topic_levels_max = 128 (was 2)"));
    publish(&mut three, "a/b/c");
    assert!(is_served(&mut three));
}

#[test]
fn a_wrong_file_changes_nothing_and_names_key_and_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let mut live = Live::start(LISTEN);
    let mut client = live.join("one");
    let bound = "[limits]\ntopic_levels_max = 1\n";
    for (wrong, named) in [
        (format!("{LISTEN}{bound}in_flight_max = 0\n"), ":5: limits.in_flight_max = 0"),
        (format!("{LISTEN}{bound}in_flight = 1\n"), ":5: unknown field `in_flight`"),
        (format!("{LISTEN}{bound}queue_messages_max = \"a\"\n"), ":5: "),
        (format!("{LISTEN}[log]\nlevel = \"loud\"\n{bound}"), ":4: log.level = loud"),
        (format!("{LISTEN}{bound}[auth]\nacl_file = \"/none\"\n"), "auth.acl_file"),
        (format!("listen = [\"127.0.0.1:0\", \"{taken}\"]\n{bound}"), "the port is taken"),
        (
            format!("{LISTEN}{bound}[[flow]]\nname = \"x\"\nfrom = \"#\"\nto = \"#\"\n"),
            "rule \"x\"",
        ),
        (
            format!(
                "{LISTEN}{bound}[auth]\nallow_anonymous = true\n[[listener]]\nsystemd = \"a\"\n"
            ),
            "no socket of this name",
        ),
        (
            format!(
                "{LISTEN}{bound}[[listener]]\naddress = \"127.0.0.1:0\"\n[listener.tls]\n\
                 certificate = \"/none\"\nkey = \"/none\"\n"
            ),
            "/none",
        ),
    ] {
        let (said, code) = live.reload(&wrong);
        assert!(code == Some(2) && said.contains(named), "{wrong}: {said}");
        publish(&mut client, "a/b/c");
        assert!(is_served(&mut client), "{wrong}: it holds");
    }
    live.broker.says("the configuration stays as it was");
    live.change(LISTEN);
}

#[test]
fn listeners_come_and_go_and_those_that_stay_keep_their_connections() {
    let (first, second) = (free(), free());
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("us", folder.path());
    let pair = authority.valid("broker");
    let address = |port: u16| format!("127.0.0.1:{port}");
    let one = format!("shards = 2\nlisten = [\"{}\"]\n", address(first));
    let mut live = Live::start(&one);
    let mut old = live.join("old");
    let unix = live.path("mqtt");
    let both = format!("{one}[[listener]]\naddress = \"{}\"\n", address(second));
    live.change(&format!("{both}[[listener]]\nunix = {unix:?}\n"));
    let (mut new, reason) = offer(&address(second), "new", None);
    assert_eq!(reason, ReasonCode::Success);
    let listed = said(&live.ctl(&["listeners"]));
    let count = |listed: &str, place: &str| {
        let line = listed.lines().find(|line| line.contains(place));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u32>().ok())
    };
    assert_eq!(count(&listed, &address(first)), Some(1), "{listed}");
    assert_eq!(count(&listed, &address(second)), Some(1), "{listed}");
    assert!(unix.exists() && listed.contains(unix.to_str().unwrap()), "{listed}");
    // The same address speaks TLS from now on; who is there stays.
    let tls =
        format!("[listener.tls]\ncertificate = {:?}\nkey = {:?}\n", pair.certificate, pair.key);
    live.change(&format!("{both}{tls}"));
    assert!(!unix.exists(), "its file is removed");
    assert!(is_served(&mut new));
    let stream = TcpStream::connect(address(second)).unwrap();
    drop(Line::join(authority.connect(stream), b"", "secure"));
    let listed = said(&live.ctl(&["listeners"]));
    assert!(listed.contains("MQTT over TLS") && listed.contains("CN=broker"), "{listed}");
    let begin = Instant::now();
    live.change(&one);
    assert!(TcpStream::connect(address(second)).is_err());
    assert!(is_served(&mut new), "for a while");
    assert_eq!(left(&mut new), Some(ReasonCode::AdministrativeAction));
    assert!(begin.elapsed() >= Duration::from_secs(9), "{:?}", begin.elapsed());
    assert!(is_served(&mut old));
    live.join("late");
}

#[test]
fn passwords_and_rights_come_and_go_with_the_clients_that_they_keep_out() {
    let mut live = Live::start(LISTEN);
    let users = live.path("users");
    for user in ["ann", "bob"] {
        let made = passwd(&[users.to_str().unwrap(), user, "--batch"], user);
        assert!(made.status.success(), "{made:?}");
    }
    std::fs::write(live.path("rights"), "user ann\ntopic readwrite mine/#\n").unwrap();
    let (mut nobody, mut named) = (live.join("nobody"), live.offer("named", Some("ann")).0);
    let with =
        format!("{LISTEN}[auth]\npassword_file = \"{{}}/users\"\nacl_file = \"{{}}/rights\"\n");
    live.change(&with);
    assert_eq!(left(&mut nobody), Some(ReasonCode::NotAuthorized));
    assert_eq!(left(&mut named), Some(ReasonCode::NotAuthorized), "nobody had looked");
    assert_eq!(live.offer("nobody", None).1, ReasonCode::NotAuthorized);
    let (mut ann, reason) = live.offer("ann", Some("ann"));
    assert_eq!(reason, ReasonCode::Success);
    assert_eq!(ann.subscribe("mine/a", QoS::AtMostOnce), Some(0));
    publish(&mut ann, "mine/a");
    assert!(ann.packet(|packet| matches!(packet, Packet::Publish(_))).unwrap());
    publish(&mut ann, "other");
    let (_bob, reason) = live.offer("bob", Some("bob"));
    assert_eq!(reason, ReasonCode::Success);
    // Without rights ann may do everything; without passwords she is nobody.
    live.change(&format!("{LISTEN}[auth]\npassword_file = \"{{}}/users\"\n"));
    assert_eq!(ann.subscribe("other", QoS::AtMostOnce), Some(0));
    publish(&mut ann, "other");
    assert!(ann.packet(|packet| matches!(packet, Packet::Publish(_))).unwrap());
    live.change(LISTEN);
    assert_eq!(left(&mut ann), Some(ReasonCode::NotAuthorized));
    live.join("anybody");
    live.change(&with);
    assert_eq!(live.offer("bob", Some("wrong")).1, ReasonCode::BadUserNameOrPassword);
}

#[test]
fn rules_share_rules_and_the_log_level_are_changed() {
    let mut live = Live::start(LISTEN);
    let mut client = live.join("c");
    assert_eq!(client.subscribe("copy/#", QoS::AtMostOnce), Some(0));
    let flow =
        |to: &str| format!("[[flow]]\nname = \"copy\"\nfrom = \"in/#\"\nto = \"copy/{to}\"\n");
    let topic = |client: &mut Blocking| {
        client.packet(|packet| match packet {
            Packet::Publish(publish) => publish.topic.to_owned(),
            other => panic!("{other:?}"),
        })
    };
    let info = format!("{LISTEN}[log]\nlevel = \"debug\"\n");
    for to in ["one", "two"] {
        live.change(&format!("{info}{}", flow(to)));
        publish(&mut client, "in/a");
        assert_eq!(topic(&mut client), Some(format!("copy/{to}")));
    }
    live.change(&format!("{info}[[share]]\nprefix = \"\"\nstrategy = \"random\"\n"));
    publish(&mut client, "in/a");
    assert!(is_served(&mut client), "and no message came");
    drop(TcpStream::connect(&live.broker.address).unwrap());
    // The level of the start would not show it.
    live.broker.says("left without CONNECT");
}

#[test]
fn a_file_of_mosquitto_is_read_again() {
    let (port, folder) = (free(), tempfile::tempdir().unwrap());
    let file = folder.path().join("mosquitto.conf");
    let write = |more: &str| {
        let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\n{more}");
        std::fs::write(&file, text).unwrap();
    };
    write("");
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.arg("broker").arg("--mosquitto").arg(&file);
    let mut broker = Broker::by(&mut weir).unwrap();
    let hang_up = |broker: &Broker| {
        broker.signal(Signal::HUP);
    };
    let (mut client, _) = offer(&broker.address, "c", None);
    write("max_packet_size 1000\nmax_queued_messages 5\n");
    hang_up(&broker);
    broker.says("has changed: limits.packet_bytes_max = 1000");
    broker.says("has changed: limits.queue_messages_max = 5");
    write("acl_file /none\n");
    hang_up(&broker);
    broker.says("stay as they were");
    assert!(is_served(&mut client));
}

#[test]
fn a_check_says_what_each_part_takes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, "[limits]\nin_flight_max = 5\n").unwrap();
    let check = |file: &std::path::Path| {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.args(["broker", "--check"]).arg(file).output().unwrap()
    };
    let text = said(&check(&file));
    assert!(text.contains("# live     limits\n") && text.contains("# restart  store\n"), "{text}");
    std::fs::write(&file, &text).unwrap();
    assert_eq!(said(&check(&file)), text, "it is a configuration file");
}

/// Of reloads.
const KINDS: u64 = 16;

/// Clients of 3.1.1 and QoS 1 while everything is read again and again.
#[test]
fn a_hundred_reloads_under_load_lose_nothing() {
    let mut live = Live::start(LISTEN);
    std::fs::write(live.path("rights"), "topic readwrite #\n").unwrap();
    std::fs::write(live.path("secret"), SECRET).unwrap();
    let address = live.broker.address.clone();
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let load = std::thread::spawn(move || {
        let mut client = Blocking::connect(&*address, Version::V5).unwrap();
        client.join("load", None, &[]).unwrap();
        assert_eq!(client.connack(), Some(ReasonCode::Success));
        assert_eq!(client.subscribe("t", QoS::AtMostOnce), Some(0));
        let mut messages = 0_u32;
        while told.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            publish(&mut client, "t");
            assert_eq!(client.packet(|it| matches!(it, Packet::Publish(_))), Some(true));
            messages += 1;
        }
        messages
    });
    let begin = Instant::now();
    let (mut longest, extra) = (Duration::ZERO, free());
    for round in 0..100 {
        let more = match round % KINDS {
            0 => format!("[limits]\nqueue_messages_max = {}\n", 10 + round),
            1 => format!("[process]\nconnections_max = {}\n", 10 + round),
            2 => format!("[[listener]]\naddress = \"127.0.0.1:{extra}\"\n"),
            3 => format!("[[flow]]\nname = \"r{round}\"\nfrom = \"x\"\nto = \"y\"\n"),
            4 => "[limits]\nqueue_messages_max = 0\n".to_owned(),
            5 => "[[share]]\nprefix = \"\"\nstrategy = \"hash\"\n".to_owned(),
            6 => format!("[log]\nlevel = \"info,x{round}=warn\"\n"),
            7 => "[auth]\nallow_anonymous = true\nacl_file = \"{}/rights\"\n".to_owned(),
            8 => "[features]\nretain = false\n".to_owned(),
            9 | 10 => format!(
                "[[bridge]]\nname = \"up\"\naddresses = [\"mqtt://127.0.0.1:{extra}\"]\n\
                 topics = [{{ pattern = \"b{}/#\", qos = 1 }}]\n",
                round % KINDS
            ),
            11 => format!("[sys]\ninterval_s = {round}\nclient_events_per_s_max = {round}\n"),
            12 => format!("[limits]\nclient_share_percent = {}\n", 1 + round % 100),
            13 => format!("[process]\nmemory_bytes_max = {}\n", 10_000_000_000_u64 + round),
            14 => format!(
                "[auth]\nallow_anonymous = true\n\
                 [auth.http]\nurl = \"http://127.0.0.1:1/{round}\"\n"
            ),
            _ => format!(
                "[auth]\nallow_anonymous = true\n[auth.jwt]\nalgorithms = [\"HS256\"]\n\
                 secret_file = \"{{}}/secret\"\nleeway_s = {round}\n"
            ),
        };
        let start = Instant::now();
        let (said, code) = live.reload(&format!("{LISTEN}{more}"));
        longest = longest.max(start.elapsed());
        assert_eq!(code, Some(if round % KINDS == 4 { 2 } else { 0 }), "{said}");
        let config = said_config(&live);
        // A wrong file leaves the rules of the one before.
        assert_eq!(
            config.contains("[[flow]]"),
            [3, 4].contains(&(round % KINDS)),
            "{round}: {config}"
        );
    }
    tell.send(()).unwrap();
    let messages = load.join().unwrap();
    assert!(messages > 0);
    println!("100 reloads in {:?}, the longest {longest:?}; {messages} messages", begin.elapsed());
}

fn said_config(live: &Live) -> String {
    said(&live.ctl(&["config"]))
}
