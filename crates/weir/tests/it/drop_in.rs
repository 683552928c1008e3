//! A mosquitto.conf as it is: the same file run by Mosquitto and by Weir, which let the same
//! clients in.

use crate::support::certificates::Authority;
use crate::support::live::free;
use crate::support::{Broker, tool};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A process that ends with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until somebody listens there; no if the process has ended.
fn listens(process: &mut Process, port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
            return true;
        }
        if process.0.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    panic!("nobody listens on port {port}");
}

/// Everything that a file says of listeners, users and rights.
fn configuration(folder: &Path, ports: [u16; 3]) -> String {
    let authority = Authority::new("us", folder);
    let server = authority.valid("server");
    authority.valid("ann");
    let users = folder.join("users");
    for (flag, user) in [("-c", "ann"), ("-b", "bob")] {
        let mut mosquitto_passwd = Command::new("mosquitto_passwd");
        let flags = if flag == "-c" { &["-c", "-b"][..] } else { &["-b"] };
        let made =
            mosquitto_passwd.args(flags).arg(&users).args([user, "secret"]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    std::fs::write(folder.join("rights"), "user ann\ntopic readwrite home/#\n").unwrap();
    let (ca, certificate, key) = (authority.file(), server.certificate, server.key);
    let [plain, tls, mutual] = ports;
    let path = folder.display();
    std::fs::create_dir(folder.join("conf.d")).unwrap();
    let included = format!("password_file {path}/users\nacl_file {path}/rights\n");
    std::fs::write(folder.join("conf.d/access.conf"), included).unwrap();
    format!(
        "user root
pid_file {path}/m.pid
listener {plain} 127.0.0.1
listener {tls} 127.0.0.1
certfile {certificate}
keyfile {key}
listener {mutual} 127.0.0.1
certfile {certificate}
keyfile {key}
cafile {ca}
require_certificate true
use_identity_as_username true
include_dir {path}/conf.d
"
    )
}

/// What each of these clients gets, by its exit code and what it prints.
fn outcomes(folder: &Path, ports: [u16; 3]) -> Vec<(String, bool, String)> {
    let [plain, tls, mutual] = ports.map(|port| port.to_string());
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (ca, certificate, key) = (file("us-ca.pem"), file("us-ann.pem"), file("us-ann-key.pem"));
    let ann = ["-u", "ann", "-P", "secret"].map(String::from);
    let bob = ["-u", "bob", "-P", "secret"].map(String::from);
    let wrong = ["-u", "ann", "-P", "guessed"].map(String::from);
    let trust = ["--cafile".to_owned(), ca];
    let shown = ["--cert".to_owned(), certificate, "--key".to_owned(), key];
    let cases: [(&str, &str, &[&[String]]); 9] = [
        ("nobody", &plain, &[]),
        ("ann", &plain, &[&ann]),
        ("bob may do nothing", &plain, &[&bob]),
        ("a wrong password", &plain, &[&wrong]),
        ("ann by TLS", &tls, &[&ann, &trust]),
        ("nobody by TLS", &tls, &[&trust]),
        ("no certificate", &mutual, &[&ann, &trust]),
        ("ann by her certificate", &mutual, &[&trust, &shown]),
        ("the certificate counts", &mutual, &[&bob, &trust, &shown]),
    ];
    // What is retained shows whether it was taken, and from whom.
    let published = cases.map(|(name, port, options)| {
        let topic = format!("home/{}", name.replace(' ', "-"));
        let arguments = ["-p", port, "-q", "1", "-r", "-t", &topic, "-m", name];
        client("mosquitto_pub", &options.concat(), &arguments).status.success()
    });
    std::thread::scope(|scope| {
        let readers = cases.map(|(name, port, options)| {
            scope.spawn(move || {
                let arguments = ["-p", port, "-t", "home/#", "-W", "1"];
                let output = client("mosquitto_sub", &options.concat(), &arguments);
                let text = String::from_utf8(output.stdout).unwrap();
                let mut lines: Vec<_> = text.lines().collect();
                lines.sort_unstable();
                (name.to_owned(), lines.join(", "))
            })
        });
        let seen = readers.map(|reader| reader.join().unwrap()).into_iter();
        seen.zip(published).map(|((name, seen), published)| (name, published, seen)).collect()
    })
}

fn client(program: &str, options: &[String], arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-V", "5"]).args(options).args(arguments);
    command.stderr(Stdio::null()).output().unwrap()
}

#[test]
fn the_same_file_lets_the_same_clients_in_at_both_brokers() {
    let Some(mosquitto) = tool(&["mosquitto"]) else { return };
    // Another process may take a port meanwhile; then others are tried.
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let ports = std::array::from_fn(|_| free());
        let file = folder.path().join("mosquitto.conf");
        std::fs::write(&file, configuration(folder.path(), ports)).unwrap();
        let start = |command: &mut Command| {
            let said = std::fs::File::create(folder.path().join("said")).unwrap();
            let mut process = Process(command.stderr(said).spawn().unwrap());
            let is_there = listens(&mut process, ports[2]);
            let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
            assert!(is_there || said.contains("in use") || said.contains("is taken"), "{said}");
            is_there.then_some(process)
        };
        let theirs = start(Command::new(&mosquitto).arg("-c").arg(&file));
        let Some(process) = theirs else { continue };
        let theirs = outcomes(folder.path(), ports);
        drop(process);
        let ours = start(Command::new(WEIR).args(["broker", "--mosquitto"]).arg(&file));
        let Some(process) = ours else { continue };
        assert_eq!(outcomes(folder.path(), ports), theirs);
        drop(process);
        let allowed = theirs.iter().filter(|(_, _, seen)| seen.contains("ann")).count();
        assert!((2..theirs.len()).contains(&allowed), "{theirs:?}");
        return;
    }
    panic!("no ports");
}

#[test]
fn a_file_with_what_weir_cannot_guard_is_not_run_and_can_be_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.conf");
    std::fs::write(&file, "listener 1884 127.0.0.1\nmax_qos 1\nplugin /usr/lib/auth.so\n").unwrap();
    let run = |arguments: &[&str]| {
        Command::new(WEIR).args(arguments).arg(&file).env_remove("WEIR_LOG").output().unwrap()
    };
    let refused = run(&["broker", "--mosquitto"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    for part in ["plugin (line 3): there are no plugins", "weir import mosquitto"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let printed = run(&["import", "mosquitto"]);
    assert_eq!(printed.status.code(), Some(1), "{printed:?}");
    let ours = folder.path().join("weir.toml");
    let check = |text: &str| {
        std::fs::write(&ours, text).unwrap();
        Command::new(WEIR).args(["broker", "--check"]).arg(&ours).output().unwrap()
    };
    let printed = String::from_utf8(printed.stdout).unwrap();
    let unread = check(&printed);
    assert!(String::from_utf8_lossy(&unread.stderr).contains("is_unguarded"), "{unread:?}");
    let checked = check(&printed.replace("is_unguarded = true\n", ""));
    assert!(checked.status.success(), "{checked:?}");
    let text = String::from_utf8(checked.stdout).unwrap();
    for part in ["listen = [\"127.0.0.1:1884\"]", "qos_max = 1", "allow_anonymous = false"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn passwords_are_shown_to_nobody_and_written_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = "listener 1884 127.0.0.1\nallow_anonymous true\nconnection up\naddress h\n\
                 topic # out\nremote_username ann\nremote_password hush\n";
    std::fs::write(path("m.conf"), lines).unwrap();
    let run = |arguments: &[&str], file: &str| {
        let output = Command::new(WEIR).args(arguments).arg(path(file)).output().unwrap();
        (output.status.success(), [output.stdout, output.stderr].map(String::from_utf8))
    };
    let (is_printed, [printed, note]) = run(&["import", "mosquitto"], "m.conf");
    let (printed, note) = (printed.unwrap(), note.unwrap());
    assert!(is_printed && printed.contains("password = \"***\""), "{printed}");
    assert!(!printed.contains("hush") && note.contains("--output"), "{printed}{note}");
    std::fs::write(path("shown.toml"), printed).unwrap();
    let (is_taken, [_, said]) = run(&["broker", "--check"], "shown.toml");
    assert!(!is_taken && said.unwrap().contains("bridge.password = ***"));
    let ours = path("ours.toml");
    let write = ["import", "mosquitto", "--output", ours.to_str().unwrap()];
    assert!(run(&write, "m.conf").0 && !run(&write, "m.conf").0, "once");
    assert_eq!(std::fs::metadata(&ours).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&ours).unwrap().contains("password = \"hush\""));
    let (is_taken, [checked, _]) = run(&["broker", "--check"], "ours.toml");
    let checked = checked.unwrap();
    assert!(is_taken && checked.contains("password = \"***\""), "{checked}");
}

#[test]
fn its_log_goes_where_the_file_says_and_each_line_that_is_not_taken_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, log) = (folder.path().join("m.conf"), folder.path().join("log"));
    let lines = format!(
        "listener 1883 127.0.0.1\nallow_anonymous true\nretry_interval 5\nlog_dest file {}\n",
        log.display()
    );
    std::fs::write(&file, lines).unwrap();
    let mut weir = Command::new(WEIR);
    let command = weir.args(["broker", "--mosquitto"]).arg(&file).env_remove("WEIR_LOG");
    let command = command.args(["--listen", "127.0.0.1:0"]).stderr(Stdio::null());
    let process = Process(command.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    while !(text().contains(" ready") && text().contains("retry_interval (line 3): ")) {
        assert!(Instant::now() < deadline, "{}", text());
        std::thread::yield_now();
    }
    drop(process);
    // Said on the command line, that counts.
    let broker = Broker::by(Command::new(WEIR).args(["broker", "--mosquitto"]).arg(&file).args([
        "--listen",
        "127.0.0.1:0",
        "--log-file",
        "/dev/stderr",
    ]));
    assert!(broker.is_some());
}
