//! `weir pub` and `weir sub` as processes: against `weir broker`, against Mosquitto and its
//! clients, and against a fake broker where the answer must be a certain one.

use crate::support::command::fed;
use crate::support::live::free;
use crate::support::mosquitto::Mosquitto;
use crate::support::{Broker, tool};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const VERSIONS: [&str; 3] = ["31", "311", "5"];

/// Runs `test` with the port of every broker there is.
pub(crate) fn on_every_broker(test: impl Fn(&str)) {
    let weir = Broker::start();
    test(weir.port());
    if let Some(mosquitto) = Mosquitto::start("allow_anonymous true\nmax_queued_messages 0") {
        test(&mosquitto.port);
    }
}

pub(crate) fn weir(arguments: &[&str]) -> Output {
    Command::new(WEIR).args(arguments).output().unwrap()
}

/// Runs `weir pub` with options, the last of them the message, and expects success.
pub(crate) fn publish(port: &str, options: &str, message: &str) {
    let arguments: Vec<_> = ["pub", "-p", port, "-m", message].into_iter().collect();
    let output = weir(&[&arguments[..], &words(options)].concat());
    assert!(output.status.success(), "{options}: {output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{options}: {output:?}");
}

pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn publish_lines(port: &str, options: &str, lines: &str) -> Output {
    fed(Command::new(WEIR).args(["pub", "-p", port]).args(words(options)), lines)
}

/// `weir sub` that has its SUBACK; it ends after 60 s at most.
pub(crate) struct Sub {
    child: Child,
    log: JoinHandle<String>,
}

impl Sub {
    pub(crate) fn start(port: &str, options: &str) -> Self {
        let mut child = Command::new(WEIR)
            .args(["sub", "-p", port, "-d", "-W", "60"])
            .args(words(options))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        while !seen.contains("received SUBACK") {
            assert!(
                log.read_line(&mut seen).unwrap() > 0,
                "{options}: ended before SUBACK: {seen}"
            );
        }
        let log = std::thread::spawn(move || {
            log.read_to_string(&mut seen).unwrap();
            seen
        });
        Self { child, log }
    }

    /// What it printed, once it has ended by itself with success.
    pub(crate) fn printed(self) -> String {
        let (code, printed, log) = self.end();
        assert_eq!(code, Some(0), "{log}");
        printed
    }

    /// Exit code, standard output and standard error, once it has ended.
    fn end(self) -> (Option<i32>, String, String) {
        let output = self.child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), printed, self.log.join().unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

/// A broker that answers the packets of each connection, in their order, with these bytes and
/// then closes; it returns what it got.
pub(crate) fn fake(connections: Vec<Vec<&'static [u8]>>) -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = std::thread::spawn(move || {
        let mut got = Vec::new();
        for answers in connections {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                read_packet(&mut stream, &mut got);
                stream.write_all(answer).unwrap();
            }
        }
        got
    });
    (port, server)
}

/// A packet of less than 128 bytes.
fn read_packet(stream: &mut TcpStream, got: &mut Vec<u8>) {
    let mut header = [0; 2];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; header[1].into()];
    stream.read_exact(&mut body).unwrap();
    got.extend_from_slice(&header);
    got.extend_from_slice(&body);
}

const CONNACK: &[u8] = &[0x20, 2, 0, 0];
pub(crate) const CONNACK_5: &[u8] = &[0x20, 3, 0, 0, 0];
const SUBACK: &[u8] = &[0x90, 3, 0, 1, 0];
/// The start of one of 256 MB.
const LONG_CONNACK: &[u8] = &[0x20, 0xFF, 0xFF, 0xFF, 0x7F];
/// Refuses, with a reason string that clears a terminal and ends its line.
const HOSTILE_CONNACK: &[u8] = b"\x20\x0b\x00\x87\x08\x1f\x00\x05\x1b[2J\n";

/// What `weir pub` or `weir sub` says on its one line, with its exit code.
fn complaint(arguments: &str) -> (Option<i32>, String) {
    let output = weir(&words(arguments));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "{arguments}: {:?}", output.stdout);
    assert_eq!(text.lines().count(), 1, "{arguments}: {text}");
    (output.status.code(), text)
}

#[test]
fn messages_of_every_qos_and_version_arrive() {
    on_every_broker(|port| {
        for version in VERSIONS {
            for qos in ["0", "1", "2"] {
                let sub = Sub::start(port, &format!("-V {version} -t m/+/# -v -q {qos} -C 3"));
                for sent in ["0", "1", "2"] {
                    publish(port, &format!("-V mqttv{version} -t m/x/y -q {sent}"), sent);
                }
                // Of different QoS, so not of one order.
                let printed = sub.printed();
                let mut lines: Vec<_> = printed.lines().collect();
                lines.sort_unstable();
                assert_eq!(lines, ["m/x/y 0", "m/x/y 1", "m/x/y 2"], "{version}, QoS {qos}");
            }
        }
    });
}

#[test]
fn mosquitto_sub_gets_what_weir_pub_sends() {
    if tool(&["mosquitto_sub"]).is_none() {
        return;
    }
    on_every_broker(|port| {
        for version in ["mqttv31", "mqttv311", "mqttv5"] {
            let session = ["-p", port, "-V", version, "-c", "-i", version, "-t", "x/#", "-q", "1"];
            let subscribe = |more: &[&str]| {
                let mut sub = Command::new("mosquitto_sub");
                sub.args(session).args(more).output().unwrap()
            };
            // The session is there before the messages are sent, and keeps them.
            assert!(subscribe(&["-E"]).status.success());
            publish(port, &format!("-V {version} -t x/1 -q 2"), "-dash and space");
            let lines = publish_lines(port, &format!("-V {version} -t x/2 -q 1 -l"), "a\n\nb");
            assert!(lines.status.success(), "{lines:?}");
            let output = subscribe(&["-C", "4", "-v", "-W", "60"]);
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text, "x/1 -dash and space\nx/2 a\nx/2 (null)\nx/2 b\n", "{version}");
        }
    });
}

#[test]
fn weir_sub_gets_what_mosquitto_pub_sends() {
    if tool(&["mosquitto_pub"]).is_none() {
        return;
    }
    on_every_broker(|port| {
        for version in ["mqttv31", "mqttv311", "mqttv5"] {
            let sub = Sub::start(port, &format!("-V {version} -t y/# -q 2 -C 2 -F %t|%p|%q|%r|%l"));
            for qos in ["1", "2"] {
                let status = Command::new("mosquitto_pub")
                    .args(["-p", port, "-V", version, "-t", "y/1", "-m", "hello", "-q", qos])
                    .status()
                    .unwrap();
                assert!(status.success());
            }
            assert_eq!(sub.printed(), "y/1|hello|1|0|5\ny/1|hello|2|0|5\n");
        }
    });
}

#[test]
fn files_lines_and_repetitions_are_published() {
    let broker = Broker::start();
    let port = broker.port();
    let sub = Sub::start(port, "-t in/# -q 1 -C 10 -v");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "of a file").unwrap();
    let output = weir(&["pub", "-p", port, "-t", "in/f", "-f", file.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    assert!(publish_lines(port, "-t in/s -s -q 1", "all\nof it").status.success());
    assert!(publish_lines(port, "-t in/l -l -q 2 -M 1", "one\ntwo\nthree").status.success());
    publish(port, "-t in/r -q 1 --repeat 3", "again");
    publish(port, "-t in/d -q 1 --repeat 2 --repeat-delay 0.01", "later");
    let expected = "in/f of a file\nin/s all\nof it\nin/l one\nin/l two\nin/l three\n\
                    in/r again\nin/r again\nin/r again\nin/d later\nin/d later\n";
    assert_eq!(sub.printed(), expected);
}

#[test]
fn ten_thousand_lines_arrive_in_order() {
    on_every_broker(|port| {
        let sub = Sub::start(port, "-t many -q 1 -C 10000");
        let lines: String = (0..10_000).map(|number| format!("{number}\n")).collect();
        let output = publish_lines(port, "-t many -l -q 1", &lines);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(sub.printed(), lines);
    });
}

#[test]
fn a_long_message_arrives_whole() {
    on_every_broker(|port| {
        let payload = "0123456789abcdef".repeat(1 << 15);
        let sub = Sub::start(port, "-t long -q 1 -C 1 -N");
        let output = publish_lines(port, "-t long -s -q 0", &payload);
        assert!(output.status.success(), "{output:?}");
        assert!(sub.printed() == payload);
    });
}

#[test]
fn retained_messages_are_kept_shown_left_out_and_cleared() {
    on_every_broker(|port| {
        for version in VERSIONS {
            let options = format!("-V {version} -t keep/1 -q 1");
            let sub = |more: &str| weir(&words(&format!("sub -p {port} -V {version} {more}")));
            publish(port, &format!("{options} -r"), "kept");
            let output = sub("-t keep/# -v -C 1 -W 60");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "keep/1 kept\n", "{output:?}");

            let live = Sub::start(port, &format!("-V {version} -t keep/# -R -C 1"));
            let only = Sub::start(port, &format!("-V {version} -t keep/# --retained-only"));
            let filtered = Sub::start(port, &format!("-V {version} -t # -T keep/+ -C 1"));
            publish(port, &options, "live");
            publish(port, &format!("-V {version} -t other -q 1"), "other");
            assert_eq!(live.printed(), "live\n");
            assert_eq!(only.printed(), "kept\n");
            assert_eq!(filtered.printed(), "other\n");

            let cleared = weir(&words(&format!("pub -p {port} {options} -r -n")));
            assert!(cleared.status.success(), "{cleared:?}");
            let late = Sub::start(port, &format!("-V {version} -t keep/# -t mark -C 1"));
            publish(port, &format!("-V {version} -t mark -q 1"), "nothing was kept");
            assert_eq!(late.printed(), "nothing was kept\n");
        }
    });
}

#[test]
fn the_will_of_a_killed_sub_is_published_and_of_one_that_left_not() {
    on_every_broker(|port| {
        for version in VERSIONS {
            let watcher = Sub::start(port, &format!("-V {version} -t will/# -q 1 -v -C 2"));
            let will = |topic: &str| {
                let will = format!("--will-topic {topic} --will-payload gone --will-qos 1");
                Sub::start(port, &format!("-V {version} -t none {will}"))
            };
            let interrupted = will("will/int");
            interrupted.signal(rustix::process::Signal::INT);
            let (code, printed, log) = interrupted.end();
            assert_eq!((code, printed.as_str()), (Some(0), ""), "{log}");
            assert!(log.contains("sent DISCONNECT"), "{log}");
            let killed = will("will/kill");
            killed.signal(rustix::process::Signal::KILL);
            assert_eq!(killed.end().0, None);
            publish(port, &format!("-V {version} -t will/mark"), "end");
            let printed = watcher.printed();
            let mut lines: Vec<_> = printed.lines().collect();
            lines.sort_unstable();
            assert_eq!(lines, ["will/kill gone", "will/mark end"]);
        }
    });
}

#[test]
fn a_kept_session_holds_messages_until_they_are_wanted() {
    on_every_broker(|port| {
        for version in VERSIONS {
            let id = format!("sleeper-{version}");
            let sub = |more: &str| {
                let line =
                    format!("sub -p {port} -V {version} -c -i {id} -t s/# -q 2 -W 60 {more}");
                let output = weir(&words(&line));
                assert!(output.status.success(), "{output:?}");
                String::from_utf8(output.stdout).unwrap()
            };
            assert_eq!(sub("-E"), "");
            for number in ["1", "2", "3"] {
                publish(port, &format!("-V {version} -t s/1 -q 2"), number);
            }
            // What comes after the last one wanted is not taken from the session.
            assert_eq!(sub("-C 1") + &sub("-C 2"), "1\n2\n3\n");
        }
    });
}

#[test]
fn properties_survive_the_way_through_a_broker() {
    on_every_broker(|port| {
        let format = "%C|%D|%F|%P|%R|%S|%E";
        let sub = Sub::start(
            port,
            &format!("-D subscribe subscription-identifier 77 -t p/# -q 1 -C 2 -F {format}"),
        );
        let options = "-t p/1 -q 1 -D publish content-type text/plain \
            -D publish correlation-data 0815 -D publish payload-format-indicator 1 \
            -D publish user-property b 1 -D publish user-property a 2 \
            -D publish response-topic answer/here";
        publish(port, options, "v");
        publish(port, "-V 311 -t p/1 -q 1", "plain");
        assert_eq!(sub.printed(), "text/plain|0815|1|b:1 a:2|answer/here|77|\n|||||77|\n");

        let sub = Sub::start(port, "-V 5 -t p/# -q 1 -C 1 -F %j");
        publish(port, "-t p/2 -q 1 -D publish message-expiry-interval 1000", "{\"a\": 1}");
        let json: serde_json::Value = serde_json::from_str(&sub.printed()).unwrap();
        assert_eq!(json["payload"], "{\"a\": 1}");
        assert!(json["properties"]["message-expiry-interval"].as_u64().unwrap() <= 1000);
    });
}

#[test]
fn an_aliased_topic_is_sent_once_and_arrives_every_time() {
    if let Some(mosquitto) = Mosquitto::start("allow_anonymous true") {
        let sub = Sub::start(&mosquitto.port, "-V 5 -t alias/+ -q 1 -C 3 -v");
        let options = "-t alias/1 -q 1 -l -d -D publish topic-alias 5";
        let output = publish_lines(&mosquitto.port, options, "1\n2\n3\n");
        assert_eq!(sub.printed(), "alias/1 1\nalias/1 2\nalias/1 3\n");
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(log.matches("alias/1").count(), 1, "{log}");
    }
}

#[test]
fn unsubscribing_ends_what_a_session_had() {
    on_every_broker(|port| {
        let options = "-c -i unsubscriber -W 60";
        let all = weir(&words(&format!("sub -p {port} {options} -t u/1 -t u/2 -E")));
        assert!(all.status.success(), "{all:?}");
        let one = weir(&words(&format!("sub -p {port} {options} -U u/1 -E")));
        assert!(one.status.success(), "{one:?}");
        publish(port, "-t u/1 -q 1", "not wanted");
        publish(port, "-t u/2", "not kept at QoS 0");
        let sub = Sub::start(port, &format!("{options} -t u/2 -v -C 1 -q 1"));
        publish(port, "-t u/1 -q 1", "not wanted");
        publish(port, "-t u/2 -q 1", "wanted");
        assert!(sub.printed().ends_with("u/2 wanted\n"));
    });
}

#[test]
fn a_url_says_broker_and_topic() {
    let broker = Broker::start();
    let url = format!("mqtt://{}/by/url", broker.address);
    let output = weir(&["pub", "-L", &url, "-m", "x", "-r", "-q", "1"]);
    assert!(output.status.success(), "{output:?}");
    let output = weir(&["sub", "-L", &url, "-C", "1", "-v", "-W", "60"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "by/url x\n");
}

#[test]
fn where_nothing_listens_the_address_is_named() {
    let port = free();
    for command in [format!("pub -p {port} -t a -m x"), format!("sub -p {port} -t a")] {
        let (code, text) = complaint(&command);
        let expected = format!("weir: cannot connect to localhost:{port}: nothing listens there");
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(code, Some(1));
    }
    let output = weir(&words(&format!("pub -p {port} -t a -m x --quiet")));
    assert_eq!((output.status.code(), output.stderr), (Some(1), Vec::new()));
}

#[test]
fn wrong_options_are_refused_with_2_before_anything_is_sent() {
    for (arguments, part) in [
        ("pub -t a/# -m x", "-t a/#: a topic name"),
        ("sub -t a#", "-t a#: no topic filter"),
        ("sub -t a -T +b", "-T +b: no topic filter"),
        ("sub -t a -c", "-i"),
        ("pub -t a -m x -D publish nonsense 1", "-D publish nonsense"),
        ("pub -t a -m x -V 311 -x 5", "-V 5"),
        ("pub -t a -m x --repeat 2 --repeat-delay 1e9", "--repeat-delay"),
    ] {
        // What clap says has more lines.
        let output = weir(&words(arguments));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(part), "{arguments}: {text}");
    }
    for arguments in [
        "pub -t a",
        "pub -m x",
        "pub -t a -m x -n",
        "pub -t a -m x -q 3",
        "pub -t a -m x -V 4",
        "pub -t a -m x --will-payload x",
        "sub",
        "sub -t a -F %z",
        "sub -L http://x/y",
    ] {
        let output = weir(&words(arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
    }
    let (code, text) = complaint("pub -t a -f /nowhere/at/all");
    assert!(code == Some(1) && text.contains("/nowhere/at/all"), "{text}");
}

#[test]
fn a_refused_connection_is_told_by_the_name_of_its_reason() {
    let Some(mosquitto) = Mosquitto::start("allow_anonymous false") else { return };
    let port = &mosquitto.port;
    for version in VERSIONS {
        for command in ["pub -m x", "sub"] {
            let (code, text) = complaint(&format!("{command} -p {port} -V {version} -t a"));
            let expected = "refused the connection: Not authorized (0x87)";
            assert!(code == Some(1) && text.contains(expected), "{text}");
        }
    }
}

#[test]
fn a_refused_message_is_told_with_its_reason() {
    let Some(mosquitto) = Mosquitto::start("allow_anonymous true\nacl_file ACL") else { return };
    let port = &mosquitto.port;
    for qos in ["1", "2"] {
        let (code, text) = complaint(&format!("pub -p {port} -V 5 -t secret -m x -q {qos}"));
        let expected = "weir: the broker refused the message: Not authorized (0x87)";
        assert!(code == Some(1) && text.starts_with(expected), "{text}");
        publish(port, &format!("-V 5 -t open/1 -q {qos}"), "x");
    }
}

#[test]
fn the_reason_of_a_refusal_stands_in_the_one_line() {
    let puback_why: &[u8] =
        &[0x40, 13, 0, 1, 0x97, 9, 0x1F, 0, 6, b'n', b'o', b' ', b'r', b'o', b'o'];
    let takes_qos_0: &[u8] = &[0x20, 5, 0, 0, 2, 0x24, 0];
    let takes_10_bytes: &[u8] = &[0x20, 8, 0, 0, 5, 0x27, 0, 0, 0, 10];
    let not_retained: &[u8] = &[0x20, 5, 0, 0, 2, 0x25, 0];
    for (answers, command, part) in [
        (vec![CONNACK_5, puback_why], "pub -V 5 -t a -m x -q 1", "Quota exceeded (0x97): no roo"),
        (vec![takes_qos_0], "pub -V 5 -t a -m x -q 1", "no QoS above 0"),
        (vec![takes_10_bytes], "pub -V 5 -t a -m 12345", "no packet of 11 bytes, but of 10"),
        (vec![not_retained], "pub -V 5 -t a -m x -r", "no retained messages"),
        (vec![CONNACK_5], "pub -t a -m x -D publish topic-alias 1", "no topic alias above 0"),
        (vec![CONNACK, &[0x90, 3, 0, 1, 0x80]], "sub -t a", "to subscribe to a: Unspecified error"),
        (vec![CONNACK, &[0x90, 3, 0, 2, 0]], "sub -t a", "something that was not asked for"),
        (vec![CONNACK, &[0x90, 4, 0, 1, 0, 0]], "sub -t a", "another number of codes"),
        (vec![LONG_CONNACK], "sub -t a", "larger than the limit of 262144"),
        (vec![LONG_CONNACK], "pub -t a -m x", "larger than the limit of 262144"),
        (vec![CONNACK, &[0x90, 0xFF, 0xFF, 0xFF, 0x7F]], "sub -t a", "the limit of 262144"),
        (vec![HOSTILE_CONNACK], "pub -V 5 -t a -m x", "Not authorized (0x87): \\u{1b}[2J\\n\n"),
        (vec![CONNACK_5, &[0xE0, 1, 0x8E]], "sub -V 5 -t a", "Session taken over (0x8e)"),
        (vec![&[0x20, 2, 0, 1]], "pub -V 5 -t a -m x", "Unsupported Protocol Version (0x84)"),
        (vec![b"HTTP/1.1 400"], "pub -t a -m x", "not MQTT"),
        (vec![CONNACK, &[0x70, 2, 0, 1]], "pub -t a -m x -q 1", "the message's QoS does not have"),
        (vec![CONNACK, &[0x40, 2, 0, 9]], "pub -t a -m x -q 1", "a message that is not open"),
        (vec![CONNACK, &[0xE0, 0]], "sub -t a", "which only clients send before MQTT 5.0"),
        (vec![b""], "pub -t a -m x", "without an answer to CONNECT"),
        (vec![CONNACK, b""], "pub -t a -m x -q 1", "was lost: it closed the connection"),
    ] {
        let (port, server) = fake(vec![answers]);
        let (code, text) = complaint(&format!("{command} -h 127.0.0.1 -p {port}"));
        assert!(code == Some(1) && text.contains(part), "{command}: {text}");
        server.join().unwrap();
    }
}

#[test]
fn one_refused_line_of_many_is_told_at_once_and_at_the_end() {
    let (port, server) = fake(vec![vec![CONNACK_5, &[0x40, 3, 0, 1, 0x97], &[0x40, 2, 0, 2], b""]]);
    let options = "-h 127.0.0.1 -V 5 -t a -q 1 -l -M 1";
    let output = publish_lines(&port, options, "one\ntwo\n");
    let text = String::from_utf8(output.stderr).unwrap();
    let expected = "weir: message 1 was refused: Quota exceeded (0x97)\n\
                    weir: the broker refused 1 of 2 messages, the first with: \
                    Quota exceeded (0x97)\n";
    assert_eq!((output.status.code(), text.as_str()), (Some(1), expected));
    server.join().unwrap();
}

#[test]
fn a_sub_connects_again_and_goes_on() {
    let message: &[u8] = &[0x90, 3, 0, 2, 0, 0x30, 4, 0, 1, b'a', b'x'];
    let (port, server) = fake(vec![vec![CONNACK, SUBACK], vec![CONNACK, message, b""]]);
    let sub = Sub::start(&port, "-h 127.0.0.1 -t a -C 1");
    let (code, printed, log) = sub.end();
    assert_eq!((code, printed.as_str()), (Some(0), "x\n"), "{log}");
    assert_eq!(log.matches("connecting again").count(), 1, "{log}");
    let got = server.join().unwrap();
    assert!(got.ends_with(&[0xE0, 0]), "it said DISCONNECT: {got:?}");
}

#[test]
fn a_topic_cannot_make_a_terminal_obey() {
    let message: &[u8] = b"\x90\x03\x00\x01\x00\x30\x08\x00\x05a\x1b[2JX";
    for (options, printed) in [("-v", "a\\u{1b}[2J X\n"), ("-F %t", "a\u{1b}[2J\n")] {
        let (port, server) = fake(vec![vec![CONNACK, message, b""]]);
        let output = weir(&words(&format!("sub -h 127.0.0.1 -p {port} -t # -C 1 -d {options}")));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), printed);
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(log.contains("PUBLISH: a\\u{1b}[2J,") && !log.contains('\u{1b}'), "{log:?}");
        server.join().unwrap();
    }
}

#[test]
fn the_time_of_w_ends_a_sub_with_27() {
    let broker = Broker::start();
    let (code, text) = complaint(&format!("sub -p {} -t a -W 1", broker.port()));
    assert_eq!((code, text.as_str()), (Some(27), "weir: timed out after 1 s\n"));
}

#[test]
fn a_reader_that_goes_away_ends_a_sub_quietly() {
    let broker = Broker::start();
    let mut sub = Sub::start(broker.port(), "-t a -q 1");
    drop(sub.child.stdout.take());
    publish(broker.port(), "-t a -q 1", "nobody reads");
    let (code, _, log) = sub.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.ends_with("sent DISCONNECT: Success (0x00)\n"), "{log}");
}

#[test]
fn a_long_silence_is_bridged_by_pings() {
    let broker = Broker::start();
    let sub = Sub::start(broker.port(), "-t a -k 1 -C 1");
    let status = Command::new(WEIR)
        .args(["pub", "-p", broker.port(), "-t", "a", "-l", "-k", "1", "-d"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut publisher = status.unwrap();
    let mut log = BufReader::new(publisher.stderr.take().unwrap());
    let mut seen = String::new();
    while seen.matches("received PINGRESP").count() < 2 {
        assert!(log.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    publisher.stdin.take().unwrap().write_all(b"still here\n").unwrap();
    log.read_to_string(&mut seen).unwrap();
    assert!(publisher.wait().unwrap().success(), "{seen}");
    assert_eq!(sub.printed(), "still here\n");
}
