//! Where the broker listens beside an address: unix sockets, network devices, sockets that systemd
//! passes.

use crate::proxies::kinds;
use crate::support::line::{Line, publish};
use crate::support::{Broker, tool};
use rustix::process::Signal;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// What systemd does: the socket is file 3, and three variables say so.
const LAUNCH: &str = "
import os, socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
if sys.argv[1] == 'listens':
    listener.listen(16)
if listener.fileno() != 3:
    os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='mqtt')
os.execv(sys.argv[2], sys.argv[2:])
";

fn broker(folder: &Path, configuration: &str) -> Command {
    let file = folder.join("weir.toml");
    std::fs::write(&file, configuration).unwrap();
    let mut command = Command::new(WEIR);
    command.arg("broker").arg(file);
    command
}

/// What a broker says that does not start.
fn refusal(command: &mut Command) -> String {
    let output = command.env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn reach(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// The name of this process' user, if its number has one.
fn user() -> String {
    let number = rustix::process::getuid().as_raw().to_string();
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields: Vec<Vec<&str>> = text.lines().map(|line| line.split(':').collect()).collect();
    let found = fields.iter().find(|fields| fields.get(2) == Some(&number.as_str()));
    found.map_or(number.clone(), |fields| fields[0].to_owned())
}

#[test]
fn clients_of_a_unix_socket_exchange_messages_and_are_the_users_of_their_processes() {
    for (shards, io) in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, rights) = (folder.path().join("mqtt"), folder.path().join("rights"));
        let user = user();
        std::fs::write(&rights, format!("user {user}\ntopic readwrite all\n")).unwrap();
        let configuration = format!(
            "shards = {shards}\nio = {io:?}\n[auth]\nacl_file = {rights:?}\n\
             allow_anonymous = false\n[[listener]]\nunix = {socket:?}\nmode = \"0600\"\n\
             identity = \"peer\"\n"
        );
        let mut broker = Broker::by(&mut broker(folder.path(), &configuration)).unwrap();
        assert_eq!(broker.address, socket.display().to_string());
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut clients: Vec<_> = (0..8)
            .map(|at| {
                let mut client = Line::join(reach(&socket), b"", &format!("client-{at}"));
                let line = broker.says(&format!("client_id=\"client-{at}\""));
                assert!(line.contains(&format!("peer=unix user=\"{user}\"")), "{line}");
                client.subscribe("all");
                client
            })
            .collect();
        let long = "x".repeat(100);
        for at in 0..clients.len() {
            let message = publish("all", &format!("{at}{}", &long[..at]));
            clients[at].says(&message);
            for client in &mut clients {
                assert_eq!(client.reads(message.len()).unwrap(), message);
            }
        }
        // Taken over, over the same socket.
        let _again = Line::join(reach(&socket), b"", "client-0");
        assert_eq!(clients[0].ended(), b"");
        broker.signal(Signal::TERM);
        assert!(broker.child.wait().unwrap().success());
        assert!(!socket.exists(), "its file is removed");
    }
}

#[test]
fn without_identity_clients_of_a_unix_socket_are_as_those_of_this_host() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mqtt");
    let configuration = format!(
        "[process]\nconnections_max = 3\n[limits]\nconnect_timeout_s = 1\n\
         [[listener]]\nunix = {socket:?}\n"
    );
    let mut broker = Broker::by(&mut broker(folder.path(), &configuration)).unwrap();
    let silent = reach(&socket);
    assert_eq!(Line(silent).ended(), b"", "no CONNECT came in time");
    let _in: Vec<_> =
        (0..3).map(|at| Line::join(reach(&socket), b"", &format!("c-{at}"))).collect();
    let line = broker.says("client_id=\"c-2\"");
    assert!(line.contains("peer=unix client_id="), "{line}");
    // Server unavailable: all places are taken, and one address may have all.
    assert_eq!(Line::open(reach(&socket), b"", "c-3").1, Some(3));
}

#[test]
fn an_old_socket_file_is_replaced_and_what_is_another_s_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("mqtt");
    let configuration = format!("[[listener]]\nunix = {socket:?}\n");
    let mut command = broker(folder.path(), &configuration);
    // Nobody listens there any more.
    drop(UnixListener::bind(&socket).unwrap());
    let mut first = Broker::by(&mut command).unwrap();
    Line::join(reach(&socket), b"", "c");
    let said = refusal(&mut command);
    assert!(
        said.contains("another process listens on") && said.contains("listener.unix"),
        "{said}"
    );
    Line::join(reach(&socket), b"", "c");
    // Something else has its place: it stays when the broker ends.
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "mine").unwrap();
    first.signal(Signal::TERM);
    assert!(first.child.wait().unwrap().success());
    assert!(socket.exists());
    let said = refusal(&mut command);
    assert!(said.contains("is there and is no socket"), "{said}");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    let configuration = format!("[[listener]]\nunix = {link:?}\n");
    let said = refusal(&mut broker(folder.path(), &configuration));
    assert!(said.contains("is there and is no socket"), "{said}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
}

#[test]
fn every_ipv6_address_is_every_ipv4_address_as_well() {
    if TcpStream::connect("[::1]:9").is_err_and(|error| error.raw_os_error() == Some(99)) {
        eprintln!("this host has no IPv6");
        return;
    }
    let mut command = Command::new(WEIR);
    command.args(["broker", "--allow-anonymous", "--listen", "[::]:0"]);
    let mut broker = Broker::by(&mut command).unwrap();
    let port = broker.port().to_owned();
    for (host, shown) in [("127.0.0.1", "peer=[::ffff:127.0.0.1]:"), ("[::1]", "peer=[::1]:")] {
        let stream = TcpStream::connect(format!("{host}:{port}")).unwrap();
        Line::join(stream, b"", host);
        let line = broker.says(&format!("client_id=\"{host}\""));
        assert!(line.contains(shown), "{line}");
    }
}

#[test]
fn a_listener_of_a_device_serves_what_comes_by_it_and_no_device_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let of = |device: &str| {
        let listener = "[[listener]]\naddress = \"127.0.0.1:0\"\nbind_device = ";
        broker(folder.path(), &format!("{listener}{device:?}\n"))
    };
    let said = refusal(&mut of("nosuchdevice0"));
    assert!(said.contains("no network device nosuchdevice0"), "{said}");
    let said = refusal(&mut of("a-name-that-is-too-long"));
    assert!(said.contains("listener.bind_device") && said.contains("15 bytes"), "{said}");
    let broker = Broker::by(&mut of("lo")).unwrap();
    Line::join(TcpStream::connect(&broker.address).unwrap(), b"", "c");
    let taken = format!("listen = [{:?}]", broker.address);
    let said = refusal(&mut self::broker(folder.path(), &taken));
    assert!(said.contains("the port is taken"), "{said}");
}

#[test]
fn a_socket_that_systemd_passes_is_taken_by_its_name() {
    let Some(python) = tool(&["python3"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let launch = |state: &str, name: &str| {
        let file = folder.path().join("weir.toml");
        let text = "[auth]\nallow_anonymous = true\n[[listener]]\nsystemd = ";
        std::fs::write(&file, format!("{text}{name:?}\n")).unwrap();
        let mut command = Command::new(&python);
        command.args(["-c", LAUNCH, state, WEIR, "broker"]).arg(file);
        command
    };
    let said = refusal(&mut launch("listens", "other"));
    assert!(said.contains("no socket of this name") && said.contains("(mqtt was)"), "{said}");
    let said = refusal(&mut launch("is-bound", "mqtt"));
    assert!(said.contains("it does not listen"), "{said}");
    let broker = Broker::by(&mut launch("listens", "mqtt")).unwrap();
    let _address: SocketAddr = broker.address.parse().unwrap();
    for at in 0..8 {
        let stream = TcpStream::connect(&broker.address).unwrap();
        let mut line = Line::join(stream, b"", &format!("c-{at}"));
        line.subscribe("t");
        line.says(&publish("t", "hello"));
        assert_eq!(line.reads(10).unwrap(), publish("t", "hello"));
    }
    let said = refusal(&mut self::broker(folder.path(), "[[listener]]\nsystemd = \"mqtt\"\n"));
    assert!(said.contains("nothing says who may come in"), "{said}");
}

/// What `act` does as another user than root; nothing where this process is not root.
fn as_another_user<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    use rustix::process::{Gid, Uid, getuid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    if !getuid().is_root() {
        eprintln!("skipped: only root can be another user");
        return None;
    }
    let run = || {
        // Of this thread alone, which ends behind it.
        let (group, user) = (Gid::from_raw(65_534), Uid::from_raw(65_534));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        act()
    };
    std::thread::scope(|scope| Some(scope.spawn(run).join().unwrap()))
}

#[test]
fn another_user_reaches_a_unix_socket_by_its_mode_and_the_control_socket_never() {
    use std::io::ErrorKind::PermissionDenied;
    for mode in ["0600", "0660", "0666"] {
        let folder = tempfile::tempdir().unwrap();
        // Whoever finds the sockets may try.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let [socket, control] = ["mqtt", "ctl"].map(|name| folder.path().join(name));
        let configuration = format!(
            "[[listener]]\nunix = {socket:?}\nmode = {mode:?}\n[control]\nsocket = {control:?}\n"
        );
        let _broker = Broker::by(&mut broker(folder.path(), &configuration)).unwrap();
        let reaches = |path: &Path| UnixStream::connect(path).map_err(|error| error.kind());
        let ours = [reaches(&socket), reaches(&control)];
        assert!(ours.iter().all(Result::is_ok), "{ours:?}");
        let theirs = as_another_user(|| [reaches(&socket), reaches(&control)]);
        let Some([to_socket, to_control]) = theirs else { return };
        assert_eq!(to_control.unwrap_err(), PermissionDenied, "{mode}");
        match mode {
            "0666" => drop(to_socket.unwrap()),
            _ => assert_eq!(to_socket.unwrap_err(), PermissionDenied, "{mode}"),
        }
    }
}
