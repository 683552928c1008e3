//! Who is kept out: by a file, for wrong passwords, for coming too often; and who is slowed down.
//! Attackers come from 127.0.0.2, others from 127.0.0.1.

use crate::access;
use crate::support::Broker;
use crate::support::blocking::{Blocking, decode};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::Signal;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_wire::packet::{Connect, Publish};
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode, Version};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Bob with the password `b`, by a hash that costs little.
const CHEAP: &str = "bob:$7$101$LADnPZez7hfFDO3y$\
    HrjHx7iots6tTiUeeqbk8dNJxT8aaqt/cYLPKP6NrmR69PMc/5gBLzxccEhI\
    1UjmgpuArv96eOI4uOA20xiM/w==\n";

/// A connection from 127.0.0.2.
fn from_elsewhere(address: &str) -> TcpStream {
    from_host(2, address)
}

/// A connection from 127.0.0.`host`.
pub(crate) fn from_host(host: u8, address: &str) -> TcpStream {
    let address: SocketAddr = address.parse().unwrap();
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    connect(&stream, &address).unwrap();
    stream.into()
}

fn offer(stream: TcpStream, client_id: &str, user: Option<&str>, password: &str) -> Blocking {
    let version = Version::V5;
    let mut client = Blocking::new(stream, version);
    let password = user.map(|_| password.as_bytes());
    let connect = Connect { user_name: user, password, ..Connect::new(version, client_id) };
    // One that is closed already is found out when nothing comes.
    let _ = client.send(&Packet::Connect(connect));
    client
}

fn reason(stream: TcpStream, client_id: &str, user: Option<&str>) -> Option<ReasonCode> {
    offer(stream, client_id, user, "pencil").connack()
}

fn from_here(address: &str) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

fn ended(client: &mut Blocking) -> Option<ReasonCode> {
    client.packet(|packet| match packet {
        Packet::Disconnect(disconnect) => disconnect.reason,
        other => panic!("no DISCONNECT: {other:?}"),
    })
}

struct Setup {
    folder: tempfile::TempDir,
    weir: Broker,
}

/// What a command has written and said, and its exit code.
type Done = (String, String, Option<i32>);

impl Setup {
    /// Paths are those of the folder where `{}` stands.
    fn new(config: &str, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let config = format!("{config}\n[control]\nsocket = \"{{}}/ctl\"\n").replace("{}", path);
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, config).unwrap();
        let weir = Broker::start_with(&["-c", file.to_str().unwrap()]);
        Self { folder, weir }
    }

    fn ctl(&self, arguments: &[&str]) -> Done {
        let socket = self.folder.path().join("ctl");
        let mut command = Command::new(WEIR);
        command.args(["ctl", "--socket", socket.to_str().unwrap()]).args(arguments);
        let output = command.output().unwrap();
        let [out, errors] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (out, errors, output.status.code())
    }

    /// Another broker takes the place of this one, which crashes.
    fn restart(&mut self) {
        let file = self.folder.path().join("weir.toml");
        self.weir.child.kill().unwrap();
        self.weir.child.wait().unwrap();
        self.weir = Broker::start_with(&["-c", file.to_str().unwrap()]);
    }

    fn count(&self, name: &str) -> u64 {
        let (text, errors, code) = self.ctl(&["counters", "--json"]);
        assert_eq!(code, Some(0), "{errors}");
        let of_name = format!("\"{name}\":");
        let at = text.find(&of_name).unwrap_or_else(|| panic!("no {name} in {text}"));
        let digits = text[at + of_name.len()..].trim_start();
        let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap();
        digits[..end].parse().unwrap()
    }

    fn hang_up(&self) {
        self.weir.signal(Signal::HUP);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

#[test]
fn who_is_banned_at_sighup_is_ended_and_does_not_come_back() {
    let config = "[auth]\nallow_anonymous = true\nbans_file = \"{}/bans\"";
    let bans = "client gone until 2001-01-01T00:00:00Z\n";
    let mut setup = Setup::new(config, &[("bans", bans)]);
    let address = setup.weir.address.clone();
    let join = |stream, client_id, user| {
        let mut client = offer(stream, client_id, user, "x");
        assert_eq!(client.connack(), Some(ReasonCode::Success));
        client
    };
    let mut stays = join(from_here(&address), "stays", Some("bob"));
    let mut gone = [
        join(from_here(&address), "gone", None),
        join(from_here(&address), "c", Some("ann")),
        join(from_elsewhere(&address), "d", Some("bob")),
    ];
    setup.write("bans", "client gone\nuser ann\nadress 127.0.0.2\n");
    setup.hang_up();
    let line = setup.weir.says("users and rights stay as they were");
    assert!(line.contains("/bans:3: adress"), "{line}");
    setup.write("bans", "client gone\nuser ann\naddress 127.0.0.2\n");
    setup.hang_up();
    for client in &mut gone {
        assert_eq!(ended(client), Some(ReasonCode::AdministrativeAction));
    }
    let banned = Some(ReasonCode::Banned);
    assert_eq!(reason(from_here(&address), "gone", None), banned);
    assert_eq!(reason(from_here(&address), "e", Some("ann")), banned);
    assert_eq!(reason(from_elsewhere(&address), "e", Some("bob")), None, "closed without a word");
    assert_eq!(reason(from_here(&address), "e", Some("bob")), Some(ReasonCode::Success));
    stays.send(&Packet::PingReq).unwrap();
    assert_eq!(stays.packet(|packet| matches!(packet, Packet::PingResp)), Some(true));
    assert_eq!(setup.count("banned"), 3);
    setup.write("bans", "");
    setup.hang_up();
    setup.weir.says("users and rights are read again");
    setup.weir.says("users and rights are read again");
    assert_eq!(reason(from_here(&address), "gone", None), Some(ReasonCode::Success));
}

fn is_said(done: &Done, parts: [&str; 2], code: i32) {
    let is_it = done.0.contains(parts[0]) && done.1.contains(parts[1]) && done.2 == Some(code);
    assert!(is_it, "{done:?}, not {parts:?}");
}

/// On two threads, so that the ended are on both; over a restart, and without a file of bans.
#[test]
fn who_is_banned_by_ctl_is_ended_and_stays_out_after_a_restart() {
    let config = "shards = 2\n[auth]\nallow_anonymous = true\nbans_file = \"{}/bans\"\n\
        [store]\npath = \"{}/data\"\ndurability = \"write\"";
    let mut setup = Setup::new(config, &[("bans", "user eve\n")]);
    let address = setup.weir.address.clone();
    let join = |stream, client_id: &str, user| {
        let mut client = offer(stream, client_id, user, "x");
        assert_eq!(client.connack(), Some(ReasonCode::Success));
        client
    };
    let mut stays = join(from_here(&address), "stays", Some("bob"));
    let mut far: Vec<_> =
        (0..8).map(|nth| join(from_elsewhere(&address), &format!("far{nth}"), None)).collect();
    let mut gone =
        [join(from_here(&address), "a b", None), join(from_here(&address), "c", Some("ann"))];
    is_said(&setup.ctl(&["ban", "client", "a b"]), ["1 connection ended\n", ""], 0);
    let ban = ["ban", "user", "ann", "--for", "2h", "--reason", "floods"];
    is_said(&setup.ctl(&ban), ["1 connection ended\n", ""], 0);
    is_said(&setup.ctl(&["ban", "address", "127.0.0.2/31"]), ["8 connections ended\n", ""], 0);
    is_said(&setup.ctl(&["ban", "address", "127.0.0"]), ["", "127.0.0: it must be an address"], 2);
    for client in gone.iter_mut().chain(&mut far) {
        assert_eq!(ended(client), Some(ReasonCode::AdministrativeAction));
    }
    stays.send(&Packet::PingReq).unwrap();
    assert_eq!(stays.packet(|packet| matches!(packet, Packet::PingResp)), Some(true));
    let listed = setup.ctl(&["bans"]);
    assert!(listed.0.contains("for ever              ctl       address  127.0.0.2/31\n"));
    assert!(listed.0.contains("Z  ctl       user     ann  (floods)\n"), "{}", listed.0);
    assert!(listed.0.ends_with("for ever              file      user     eve\n4 bans\n"));
    for round in 0..2 {
        let banned = Some(ReasonCode::Banned);
        let address = setup.weir.address.clone();
        assert_eq!(reason(from_here(&address), "a b", None), banned, "{round}");
        assert_eq!(reason(from_here(&address), "e", Some("ann")), banned);
        assert_eq!(reason(from_elsewhere(&address), "e", None), None, "closed without a word");
        assert_eq!(reason(from_here(&address), "e", Some("bob")), Some(ReasonCode::Success));
        setup.restart();
        assert_eq!(setup.ctl(&["bans"]), listed);
    }
    is_said(&setup.ctl(&["unban", "client", "a b"]), ["", ""], 0);
    is_said(&setup.ctl(&["unban", "client", "a b"]), ["", "there is no such ban"], 1);
    is_said(&setup.ctl(&["unban", "user", "eve"]), ["", "auth.bans_file"], 2);
    assert_eq!(reason(from_here(&setup.weir.address), "a b", None), Some(ReasonCode::Success));
    // What was added is beside what the file says, whatever becomes of that.
    setup.write("bans", "");
    setup.hang_up();
    setup.weir.says("users and rights are read again");
    assert_eq!(reason(from_here(&setup.weir.address), "c", Some("ann")), Some(ReasonCode::Banned));
    let json = "{\"kind\":\"address\",\"name\":\"127.0.0.2/31\",\"until\":null,\"reason\":null,\
        \"by\":\"ctl\"}\n";
    is_said(&setup.ctl(&["bans", "--json"]), [json, ""], 0);
}

#[test]
fn a_ban_that_is_not_kept_says_so_and_ends_with_its_time() {
    let mut setup = Setup::new("", &[]);
    let address = setup.weir.address.clone();
    let not_kept = "a restart of the broker will forget it: neither store.path nor";
    is_said(&setup.ctl(&["ban", "client", "c", "--for", "1s"]), ["", not_kept], 0);
    is_said(&setup.ctl(&["ban", "client", "d"]), ["", not_kept], 0);
    assert_eq!(reason(from_here(&address), "d", None), Some(ReasonCode::Banned));
    let give_up = Instant::now() + Duration::from_secs(20);
    while reason(from_here(&address), "c", None) != Some(ReasonCode::Success) {
        assert!(Instant::now() < give_up);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(setup.ctl(&["bans"]).0.ends_with("d\n1 ban\n"));
    setup.restart();
    assert_eq!(reason(from_here(&setup.weir.address), "d", None), Some(ReasonCode::Success));
}

#[test]
fn who_was_kept_out_for_what_it_did_is_shown_and_let_in_again() {
    let config = "[process]\nflapping_connects_per_minute_max = 2\n[auth]\nbans_file = \"{}/bans\"";
    let setup = Setup::new(config, &[("bans", "")]);
    let address = &setup.weir.address;
    let comes = || reason(from_elsewhere(address), "c", None).unwrap();
    assert_eq!([0; 3].map(|_| comes())[1..], [ReasonCode::Banned; 2]);
    let (listed, _, _) = setup.ctl(&["bans"]);
    assert!(listed.contains("Z  flapping  address  127.0.0.2\n1 ban"), "{listed}");
    is_said(&setup.ctl(&["unban", "client", "c"]), ["", ""], 0);
    assert_eq!(comes(), ReasonCode::Success);
    // Beside the file, where there is no other place.
    is_said(&setup.ctl(&["ban", "client", "e"]), ["", ""], 0);
    let kept = std::fs::read_to_string(setup.folder.path().join("bans.ctl")).unwrap();
    assert!(kept.contains("[[ban]]\nkind = \"client\"\nname = \"e\"\n"), "{kept}");
}

fn passwords(folder: &Path) {
    let file = folder.join("users");
    let made = access::passwd(&[file.to_str().unwrap(), "ann", "--batch"], "pencil\n");
    assert!(made.status.success());
}

/// All at once from one address: it is banned, what it asked before is not looked at any more, and
/// others come in as before.
#[test]
fn whoever_guesses_passwords_is_banned_and_nobody_waits_for_it() {
    const GUESSES: usize = 400;
    let made = tempfile::tempdir().unwrap();
    passwords(made.path());
    let users = std::fs::read_to_string(made.path().join("users")).unwrap();
    // On a busy host, twenty hashes may take longer than a CONNECT usually may.
    let config = "shards = 2\n[limits]\nconnect_timeout_s = 60\n[auth]\n\
        password_file = \"{}/users\"\n[process]\nwrong_passwords_per_minute_max = 20";
    let setup = Setup::new(config, &[("users", &users)]);
    let address = &setup.weir.address;
    let mut guesses: Vec<Blocking> = (0..GUESSES)
        .map(|nth| {
            let password = format!("guess {nth}");
            offer(from_elsewhere(address), &format!("c{nth}"), Some("ann"), &password)
        })
        .collect();
    // Who has the right one waits for no more than a few hashes.
    assert_eq!(reason(from_here(address), "ann", Some("ann")), Some(ReasonCode::Success));
    let mut answers = [0; 3];
    for guess in &mut guesses {
        let at = match guess.connack() {
            Some(ReasonCode::BadUserNameOrPassword) => 0,
            Some(ReasonCode::Banned) => 1,
            None => 2,
            other => panic!("{other:?}"),
        };
        answers[at] += 1;
    }
    assert!(answers[0] >= 20 && answers.iter().sum::<usize>() == GUESSES, "{answers:?}");
    assert_eq!(setup.count("passwords_guessed_banned"), 1);
    // Even with the right one.
    assert_eq!(reason(from_elsewhere(address), "ann", Some("ann")), None);
    assert_eq!(reason(from_here(address), "ann", Some("ann")), Some(ReasonCode::Success));
    assert!(setup.count("passwords_wrong") <= GUESSES as u64);
}

/// Who guesses from many addresses, as fast as it is answered: each says no more than it may, and
/// is then closed at accept. Others exchange messages and come in meanwhile.
#[test]
fn guesses_from_many_addresses_end_with_the_bound_of_each_and_others_are_served() {
    const HOSTS: std::ops::RangeInclusive<u8> = 2..=21;
    const WRONG_MAX: usize = 5;
    let config = format!(
        "shards = 2\n[auth]\npassword_file = \"{{}}/users\"\nallow_anonymous = true\n[process]\n\
         wrong_passwords_per_minute_max = {WRONG_MAX}"
    );
    let setup = Setup::new(&config, &[("users", CHEAP)]);
    let address = &setup.weir.address;
    let mut live = offer(from_here(address), "live", None, "");
    assert_eq!(live.connack(), Some(ReasonCode::Success));
    live.subscribe("t", QoS::AtMostOnce);
    let mut exchange = |nth: u8| {
        let (qos, packet_id, properties) = (QoS::AtMostOnce, None, Properties::EMPTY);
        let (dup, retain, topic, payload) = (false, false, "t", &[nth][..]);
        let publish = Publish { dup, qos, retain, topic, packet_id, properties, payload };
        live.send(&Packet::Publish(publish)).unwrap();
        let bytes = live.next().expect("its own message");
        assert!(bytes.ends_with(&[b't', 0, nth]), "{bytes:?}");
    };
    let mut answers = 0;
    for host in HOSTS {
        let guess = |nth: usize| {
            let password = format!("guess {nth}");
            offer(from_host(host, address), "c", Some("bob"), &password).connack()
        };
        let wrong = Some(ReasonCode::BadUserNameOrPassword);
        answers += (0..WRONG_MAX).filter(|&nth| guess(nth) == wrong).count();
        assert!((0..3).all(|nth| guess(nth).is_none()), "127.0.0.{host} is banned");
        exchange(host);
        let mut known = offer(from_here(address), "known", Some("bob"), "b");
        assert_eq!(known.connack(), Some(ReasonCode::Success));
    }
    let guessers = HOSTS.count();
    assert_eq!(answers, guessers * WRONG_MAX);
    assert_eq!(setup.count("passwords_guessed_banned"), guessers as u64);
    assert_eq!(setup.count("passwords_wrong"), answers as u64);
    // The right ones were hashed for once.
    assert_eq!(setup.count("passwords_hashed"), answers as u64 + 1);
}

/// All come back at once, as they do after a break of the network.
#[test]
fn a_storm_of_those_who_know_the_password_is_hashed_for_once() {
    const CLIENTS: usize = 300;
    let config = "shards = 2\n[auth]\npassword_file = \"{}/users\"";
    let setup = Setup::new(config, &[("users", CHEAP)]);
    let storm = || {
        let mut clients: Vec<Blocking> = (0..CLIENTS)
            .map(|nth| offer(from_here(&setup.weir.address), &format!("c{nth}"), Some("bob"), "b"))
            .collect();
        clients.iter_mut().for_each(|client| {
            assert_eq!(client.connack(), Some(ReasonCode::Success));
        });
    };
    storm();
    let hashed = setup.count("passwords_hashed");
    storm();
    assert_eq!(setup.count("passwords_hashed"), hashed, "they are known");
    assert!(setup.count("passwords_known") >= CLIENTS as u64);
    assert_eq!((setup.count("passwords_wrong"), setup.count("passwords_busy")), (0, 0));
}

/// As many hashes for a user that is there as for one that is not, and the same answer.
#[test]
fn a_user_that_is_not_there_costs_as_much_and_is_answered_the_same() {
    let config = "[auth]\npassword_file = \"{}/users\"";
    let setup = Setup::new(config, &[("users", CHEAP)]);
    for (nth, user) in (1..).zip(["bob", "eve", "bob", ""]) {
        let mut client = offer(from_here(&setup.weir.address), "c", Some(user), "x");
        assert_eq!(client.connack(), Some(ReasonCode::BadUserNameOrPassword), "{user}");
        assert_eq!(setup.count("passwords_hashed"), nth, "{user}");
        assert_eq!(setup.count("passwords_wrong"), nth, "{user}");
    }
}

#[test]
fn a_client_that_comes_too_often_is_kept_out_from_where_it_comes() {
    let config = "[process]\nflapping_connects_per_minute_max = 3";
    let setup = Setup::new(config, &[]);
    let address = &setup.weir.address;
    let comes = |stream| reason(stream, "c", None).unwrap();
    let came = [0; 4].map(|_| comes(from_elsewhere(address)));
    let (success, banned) = (ReasonCode::Success, ReasonCode::Banned);
    assert_eq!(came, [success, success, banned, banned]);
    assert_eq!(comes(from_here(address)), success);
    assert_eq!(reason(from_elsewhere(address), "d", None), Some(success));
    assert_eq!(setup.count("flapping_banned"), 1);
}

/// From one address over two threads; another address notices nothing.
#[test]
fn the_clients_of_an_address_are_slowed_down_together() {
    const CLIENTS: u32 = 8;
    const MESSAGES: u32 = 25;
    let config = "shards = 2\n[process]\nmessages_per_second_per_address_max = 100";
    let setup = Setup::new(config, &[]);
    let address = &setup.weir.address;
    let join = |stream, client_id: &str| {
        let mut client = offer(stream, client_id, None, "");
        assert_eq!(client.connack(), Some(ReasonCode::Success));
        client
    };
    let publish = |client: &mut Blocking| {
        let (dup, retain, qos, packet_id) = (false, false, QoS::AtMostOnce, None);
        let (topic, properties, payload) = ("t", Properties::EMPTY, &b"x"[..]);
        let publish = Publish { dup, qos, retain, topic, packet_id, properties, payload };
        client.send(&Packet::Publish(publish)).unwrap();
    };
    let ping = |client: &mut Blocking| {
        client.send(&Packet::PingReq).unwrap();
        assert_eq!(client.packet(|packet| matches!(packet, Packet::PingResp)), Some(true));
    };
    let began = Instant::now();
    let mut fast: Vec<_> =
        (0..CLIENTS).map(|nth| join(from_elsewhere(address), &format!("fast{nth}"))).collect();
    for client in &mut fast {
        (0..MESSAGES).for_each(|_| publish(client));
    }
    let mut other = join(from_here(address), "other");
    publish(&mut other);
    ping(&mut other);
    // What is read in one go may go over: all have to wait for their next turn.
    fast.iter_mut().for_each(ping);
    fast.iter_mut().for_each(ping);
    assert!(setup.count("rate_pauses") >= 1);
    let at_least = Duration::from_secs(1) * (CLIENTS * MESSAGES - 100) / 100;
    assert!(began.elapsed() >= at_least, "{:?}", began.elapsed());
}

/// Nothing is lost, and another client notices nothing.
#[test]
fn a_client_that_sends_too_fast_is_slowed_down() {
    const MESSAGES: u32 = 200;
    let setup = Setup::new("[limits]\nmessages_per_second_max = 100", &[]);
    let address = &setup.weir.address;
    let join = |client_id| {
        let mut client = offer(from_here(address), client_id, None, "");
        assert_eq!(client.connack(), Some(ReasonCode::Success));
        client
    };
    let (mut reader, mut fast) = (join("reader"), join("fast"));
    reader.subscribe("t", QoS::AtMostOnce);
    let began = Instant::now();
    for nth in 0..MESSAGES {
        let (qos, packet_id) = (QoS::AtLeastOnce, PacketId::new(nth as u16 + 1));
        let (dup, retain, topic, properties) = (false, false, "t", Properties::EMPTY);
        let payload = &nth.to_be_bytes()[..];
        let publish = Publish { dup, qos, retain, topic, packet_id, properties, payload };
        fast.send(&Packet::Publish(publish)).unwrap();
    }
    fast.send(&Packet::PingReq).unwrap();
    for nth in 0..MESSAGES {
        let bytes = reader.next().unwrap();
        let Packet::Publish(publish) = decode(Version::V5, &bytes) else { panic!("{bytes:?}") };
        assert_eq!(publish.payload, nth.to_be_bytes());
    }
    // The last answer comes once all has been read.
    while !fast.packet(|packet| matches!(packet, Packet::PingResp)).unwrap() {}
    let before = setup.count("rate_pauses");
    assert!(before >= 1);
    // It has to wait for its next turn to be read.
    fast.send(&Packet::PingReq).unwrap();
    assert_eq!(fast.packet(|packet| matches!(packet, Packet::PingResp)), Some(true));
    let at_least = Duration::from_secs(1) * (MESSAGES - 100) / 100;
    assert!(began.elapsed() >= at_least, "{:?}", began.elapsed());
}
