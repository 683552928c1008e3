//! The log of `weir broker`: whoever reads it, or does not, the broker serves and ends.

use crate::support::blocking::Blocking;
use crate::support::live::free;
use crate::support::{command, log_comes, tool};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};
use weir_wire::packet::{Auth, Connect, Disconnect};
use weir_wire::{Packet, Properties, PropertiesBuf, Property, ReasonCode, Version};

/// Far too long to be met.
const LONG: Duration = Duration::from_secs(60);

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A client identifier of control characters, as long as the protocol lets it be.
const NAME_BYTES: usize = 65_535;

/// A broker that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(stderr: Stdio, arguments: &[&str]) -> (Running, SocketAddr) {
    // Where a broker listens is what its log would say.
    let address = SocketAddr::from(([127, 0, 0, 1], free()));
    let child = Command::new(WEIR)
        .args(["broker", "--listen", &address.to_string()])
        .args(arguments)
        .env_remove("WEIR_LOG")
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    (Running(child), address)
}

/// What the broker answers to a PINGREQ of a client, which it lets in first. Waits until it is up.
fn serves(address: SocketAddr) -> bool {
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c\xc0\x00").unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).is_ok() && answer[4..] == [0xD0, 0]
}

/// A client that is refused, which is a line of the log.
fn is_refused(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut packet = b"\x10\x8b\x80\x04\x00\x04MQTT\x04\x02\x00\x00\xff\xff".to_vec();
    packet.extend([1; NAME_BYTES]);
    let _ = stream.write_all(&packet);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Waits for what no event tells.
fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "what is awaited does not come");
        std::thread::yield_now();
    }
}

fn signal(Running(child): &Running, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

fn ends(mut child: Running) {
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_log_that_nobody_reads_any_more_does_not_end_the_broker() {
    let (mut child, address) = start(Stdio::piped(), &[]);
    let mut log = BufReader::new(child.0.stderr.take().unwrap());
    log.read_line(&mut String::new()).unwrap();
    drop(log);
    assert!(serves(address));
    is_refused(address);
    assert!(serves(address));
    ends(child);
}

#[test]
fn a_full_disk_behind_the_log_does_not_end_the_broker() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (child, address) = start(full.into(), &[]);
    assert!(serves(address));
    is_refused(address);
    assert!(serves(address));
    ends(child);
}

#[test]
fn a_pipe_that_nobody_drains_holds_up_neither_clients_nor_the_end() {
    let (read, mut write) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&write, true).unwrap();
    // Full to the last byte, whatever it holds.
    for bytes in [4096, 1] {
        while write.write(&vec![b'x'; bytes]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&write, false).unwrap();
    let (child, address) = start(write.into(), &["--log-level", "trace"]);
    assert!(serves(address));
    for _ in 0..20 {
        is_refused(address);
    }
    assert!(serves(address));
    ends(child);
    drop(read);
}

#[test]
fn lines_are_json_short_and_go_on_in_a_new_file_after_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
    let file = path.to_str().unwrap();
    let arguments = ["--log-file", file, "--log-format", "json", "--log-level", "debug"];
    let (child, address) = start(Stdio::null(), &arguments);
    assert!(serves(address));
    is_refused(address);
    // What waits to be written when the file changes goes to the new one.
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains("listening on")) {
        std::thread::yield_now();
    }
    std::fs::rename(&path, &moved).unwrap();
    signal(&child, rustix::process::Signal::HUP);
    until(|| path.exists());
    assert!(serves(address));
    ends(child);
    for (path, said) in [(&moved, "listening on"), (&path, "SIGHUP")] {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(said), "{text}");
        for line in text.lines() {
            assert!(line.len() <= 16 * 1024, "{} bytes", line.len());
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}

#[test]
fn a_wrong_level_is_an_error_that_names_the_right_ones() {
    for wrong in ["nonsense", "weir=loud", "info,nonsense", ""] {
        let check = |command: &mut Command| command.args(["broker", "--check"]).output().unwrap();
        let option = check(Command::new(WEIR).args(["--log-level", wrong]));
        let variable = check(Command::new(WEIR).env("WEIR_LOG", wrong));
        for (output, place) in [(option, "--log-level"), (variable, "WEIR_LOG")] {
            let text = command::text(&output.stderr);
            // A variable that is empty is none.
            let is_wrong = place == "--log-level" || !wrong.is_empty();
            assert_eq!(output.status.code(), Some(if is_wrong { 2 } else { 0 }), "{text}");
            let names = text.contains(place) && text.contains("error, warn, info, debug or trace");
            assert!(!is_wrong || names, "{text}");
        }
    }
    for right in ["off", "WARN", "info,clients=warn", "weir_broker=debug"] {
        let output = Command::new(WEIR).args(["broker", "--check", "--log-level", right]).output();
        assert!(output.unwrap().status.success(), "{right}");
    }
}

/// The lines of a broker as they come.
struct Lines(BufReader<ChildStderr>);

impl Lines {
    fn of(Running(child): &mut Running) -> Self {
        Self(BufReader::new(child.stderr.take().unwrap()))
    }

    /// Whether one comes in this time.
    fn comes(&self, within: Duration) -> bool {
        log_comes(&self.0, within)
    }

    fn next(&mut self) -> String {
        assert!(self.comes(LONG), "no line comes");
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "there are no more lines");
        line
    }

    /// The first one from here on that has all of this, without its time and level.
    fn find(&mut self, parts: &[&str]) -> String {
        loop {
            let line = self.next();
            if parts.iter().all(|part| line.contains(part)) {
                return line.split_once("clients: ").map_or(&*line, |(_, said)| said).trim().into();
            }
        }
    }
}

/// A configuration file in `folder`.
fn config(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("weir.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A client that said CONNECT, once the broker is up.
fn comes(
    address: SocketAddr,
    (client_id, user_name): (&str, Option<&str>),
    properties: Properties<'_>,
) -> Blocking {
    let stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut client = Blocking::new(stream, Version::V5);
    let connect = Connect { user_name, properties, ..Connect::new(Version::V5, client_id) };
    client.send(&Packet::Connect(connect)).unwrap();
    client
}

fn is_connected(address: SocketAddr, client: (&str, Option<&str>)) -> Blocking {
    let mut client = comes(address, client, Properties::EMPTY);
    assert_eq!(client.connack(), Some(ReasonCode::Success));
    client
}

#[test]
fn clients_come_and_go_with_peer_user_and_reason() {
    for io in ["epoll", "io_uring"] {
        if io == "io_uring" && weir_reactor::Backend::IoUring.check().is_err() {
            assert!(std::env::var_os("CI").is_none(), "io_uring cannot be used");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = config(folder.path(), &format!("shards = 2\nio = \"{io}\""));
        let arguments = ["--config", file.to_str().unwrap()];
        let (mut child, address) = start(Stdio::piped(), &arguments);
        let mut lines = Lines::of(&mut child);
        // Some of them are handed over to the other shard.
        for number in 0..8 {
            let name = format!("c\n{number}");
            let shown = format!("client_id=\"c\\n{number}\"");
            for end in 0..3 {
                let mut client = is_connected(address, (&name, Some("ann")));
                let peer = format!("peer={}", client.stream.local_addr().unwrap());
                let line = lines.find(&["connected", &shown]);
                let expected =
                    format!("{peer} user=\"ann\" {shown} connected session_present=false");
                assert_eq!(line, expected);
                let reason = match end {
                    0 => {
                        let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
                        client
                            .send(&Packet::Disconnect(Disconnect { reason, properties }))
                            .unwrap();
                        "Normal disconnection"
                    }
                    1 => "closed without DISCONNECT",
                    _ => {
                        let now = Some(Duration::ZERO);
                        rustix::net::sockopt::set_socket_linger(&client.stream, now).unwrap();
                        "reset"
                    }
                };
                drop(client);
                let line = lines.find(&["disconnected", &shown]);
                assert!(line.contains(reason), "{line}");
                // The system forgets where a connection came from that was reset.
                assert!(reason == "reset" || line.starts_with(&peer), "{line}");
            }
        }
        ends(child);
    }
}

#[test]
fn peer_user_and_client_are_fields_of_json() {
    let (mut child, address) = start(Stdio::piped(), &["--log-format", "json"]);
    let mut lines = Lines::of(&mut child);
    let client = is_connected(address, ("meter", Some("ann")));
    let line: serde_json::Value = serde_json::from_str(&lines.find(&["\"connected\""])).unwrap();
    let peer = client.stream.local_addr().unwrap().to_string();
    for (field, value) in [
        ("peer", &*peer),
        ("user", "ann"),
        ("client_id", "meter"),
        ("level", "INFO"),
        ("message", "connected"),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    ends(child);
}

#[test]
fn a_client_that_is_refused_is_named_with_peer_and_user() {
    let made = command::fed(Command::new(WEIR).args(["broker", "--verifier"]), "pencil\n");
    let verifier = command::text(&made.stdout);
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!("[auth]\nallow_anonymous = false\n[auth.users]\nbob = {:?}\n", verifier.trim());
    let file = config(folder.path(), &text);
    let (mut child, address) = start(Stdio::piped(), &["--config", file.to_str().unwrap()]);
    let mut lines = Lines::of(&mut child);
    let why = "refused reason=\"Not authorized\" detail=\"not authenticated\"";

    let mut client = comes(address, ("meter", Some("ann")), Properties::EMPTY);
    assert_eq!(client.connack(), Some(ReasonCode::NotAuthorized));
    let peer = client.stream.local_addr().unwrap();
    let expected = format!("peer={peer} user=\"ann\" client_id=\"meter\" {why}");
    assert_eq!(lines.find(&["refused"]), expected);

    // The method says who it is.
    let with = |data| {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::AuthenticationMethod("SCRAM-SHA-256"));
        properties.push(Property::AuthenticationData(data));
        properties
    };
    let mut client = comes(address, ("meter", None), with(b"n,,n=bob,r=abc").as_properties());
    assert!(client.packet(|packet| matches!(packet, Packet::Auth(_))).unwrap());
    let (reason, properties) = (ReasonCode::ContinueAuthentication, with(b"wrong"));
    let properties = properties.as_properties();
    client.send(&Packet::Auth(Auth { reason, properties })).unwrap();
    assert_eq!(client.connack(), Some(ReasonCode::NotAuthorized));
    let peer = client.stream.local_addr().unwrap();
    let expected = format!("peer={peer} user=\"bob\" client_id=\"meter\" {why}");
    assert_eq!(lines.find(&["refused"]), expected);
    ends(child);
}

#[test]
fn of_a_storm_every_client_is_a_line_or_counted_as_left_out() {
    const CLIENTS: u64 = 500;
    let folder = tempfile::tempdir().unwrap();
    let (log, file) = (folder.path().join("log"), config(folder.path(), "shards = 1\n"));
    let arguments = ["--log-file", log.to_str().unwrap(), "--log-format", "json", "--config"];
    let arguments = [&arguments[..], &[file.to_str().unwrap()]].concat();
    let (child, address) = start(Stdio::null(), &arguments);
    for number in 0..CLIENTS {
        drop(is_connected(address, (&format!("c{number}"), None)));
    }
    ends(child);
    let text = std::fs::read_to_string(log).unwrap();
    let (mut shown, mut left_out) = (0, 0);
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        shown += u64::from(line["message"] == "connected");
        if line["kind"] == "connected" {
            left_out += line["lines"].as_u64().unwrap();
        }
    }
    assert_eq!(shown + left_out, CLIENTS, "{shown} shown");
}

#[test]
fn lines_that_nobody_takes_are_counted_and_said_when_somebody_does() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ctl");
    // Each shard has a line of counters.
    let text = format!("shards = 64\n[control]\nsocket = {socket:?}\n");
    let file = config(folder.path(), &text);
    let (mut child, address) = start(Stdio::piped(), &["--config", file.to_str().unwrap()]);
    assert!(serves(address));
    let counters = || -> serde_json::Value {
        let socket = socket.to_str().unwrap();
        let output =
            Command::new(WEIR).args(["ctl", "--socket", socket, "counters", "--json"]).output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    };
    until(|| {
        signal(&child, rustix::process::Signal::USR1);
        counters()["process"]["log_lines_lost"].as_u64().unwrap() > 0
    });
    let mut lines = Lines::of(&mut child);
    until(|| {
        // It is said with the next line, at most once in a second.
        if !lines.comes(Duration::from_millis(10)) {
            signal(&child, rustix::process::Signal::USR1);
        }
        lines.next().contains(" lines of the log were lost: nobody took them")
    });
    let rest = std::thread::spawn(move || lines.0.lines().count());
    ends(child);
    rest.join().unwrap();
}

#[test]
fn a_log_file_that_cannot_be_opened_again_is_named_in_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, moved) = (folder.path().join("logs"), folder.path().join("logs.1"));
    std::fs::create_dir(&logs).unwrap();
    let log = logs.join("weir.log");
    let (child, address) = start(Stdio::null(), &["--log-file", log.to_str().unwrap()]);
    assert!(serves(address));
    std::fs::rename(&logs, &moved).unwrap();
    signal(&child, rustix::process::Signal::HUP);
    let expected = format!("cannot open the log file {} again", log.display());
    until(|| std::fs::read_to_string(moved.join("weir.log")).unwrap().contains(&expected));
    ends(child);
}

/// A shell that lowers its limit on open files before it becomes `weir`.
fn with_files(files: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n $0 && exec \"$@\"", &files.to_string()]);
    command.arg(WEIR).args(arguments).env_remove("WEIR_LOG");
    command
}

#[test]
fn no_color_keeps_colours_from_a_terminal() {
    let Some(python) = tool(&["python3"]) else { return };
    // A port that is taken ends the broker after its first line.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (value, has_colour) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let on_terminal = "import pty, sys; pty.spawn(sys.argv[1:])";
        let mut command = Command::new(&python);
        command.args(["-c", on_terminal]).stdin(Stdio::null());
        let broker = with_files(512, &["broker", "--listen", &address]);
        command.arg(broker.get_program()).args(broker.get_args());
        command.env_remove("NO_COLOR").env_remove("WEIR_LOG");
        command.envs(value.map(|value| ("NO_COLOR", value)));
        let text = command::text(&command.output().unwrap().stdout);
        assert!(text.contains("files may be open") && text.contains("cannot listen"), "{text}");
        assert_eq!(text.contains('\u{1b}'), has_colour, "{value:?}: {text}");
    }
}

#[test]
fn a_shard_that_ends_ends_the_broker_with_a_line_and_a_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = config(folder.path(), "shards = 8\n");
    let arguments = ["broker", "--listen", "127.0.0.1:0", "--config", file.to_str().unwrap()];
    // With fewer files it does not begin; with some more there are none for a shard to wait with.
    let ended: Output = (8..)
        .map(|files| with_files(files, &arguments).output().unwrap())
        .find(|output| output.status.code() != Some(2))
        .unwrap();
    let text = command::text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{text}");
    assert!(text.contains("a shard ended; stopping") && text.contains("Too many open"), "{text}");
}

/// Right, wrong and of nobody, in a CONNECT that cannot be decoded, is not whole, is the second or
/// has a method that is not known: at the level that says most.
#[test]
fn a_password_is_in_no_line_of_the_log_whatever_becomes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = crate::access::passwd(&[&path("users"), "ann", "--batch"], "hush-right\n");
    assert!(made.status.success(), "{}", command::text(&made.stderr));
    let text = format!("[auth]\npassword_file = {:?}\nallow_anonymous = true\n", path("users"));
    let (config, log) = (config(folder.path(), &text), path("log"));
    let arguments =
        ["--config", config.to_str().unwrap(), "--log-level", "trace", "--log-file", &log];
    let (child, address) = start(Stdio::null(), &arguments);
    assert!(serves(address));
    let packet = |client_id, user_name, password: &str, properties| {
        let (version, password) = (Version::V5, Some(password.as_bytes()));
        let connect = Connect::new(version, client_id);
        let connect = Connect { user_name, password, properties, ..connect };
        let mut bytes = Vec::new();
        Packet::Connect(connect).encode(version, &mut bytes);
        bytes
    };
    let none = Properties::EMPTY;
    let right = packet("right", Some("ann"), "hush-right", none);
    let (mut reserved, mut unknown) = (right.clone(), right.clone());
    // The flag that is reserved, and a version that there is not.
    reserved[9] |= 1;
    unknown[8] = 77;
    let mut method = PropertiesBuf::new();
    method.push(Property::AuthenticationMethod("PLAIN"));
    method.push(Property::AuthenticationData(b"hush-data"));
    let cases = [
        packet("wrong", Some("ann"), "hush-wrong", none),
        packet("nobody", Some("eve"), "hush-nobody", none),
        packet("nameless", None, "hush-nameless", none),
        packet("method", Some("ann"), "hush-method", method.as_properties()),
        right[..right.len() - 2].to_vec(),
        [&right[..], &right].concat(),
        reserved,
        unknown,
        right,
    ];
    for case in cases {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(&case).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    ends(child);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("client_id=\"wrong\"") && log.contains("user=\"ann\""), "{log}");
    for shown in ["hush", "104, 117, 115, 104", "68757368", "aHVzaC"] {
        assert!(!log.contains(shown), "{shown} is in {log}");
    }
}
