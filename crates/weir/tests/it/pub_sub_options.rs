//! Options of `weir sub` and `weir pub` beside those of mosquitto_sub and mosquitto_pub, whose
//! output is compared byte by byte where both are installed.

use crate::pub_sub::{CONNACK_5, Sub, fake, on_every_broker, publish, weir, words};
use crate::support::mosquitto::Mosquitto;
use crate::support::{Broker, tool};
use std::process::{Command, Stdio};

/// What a client prints of the message that is retained.
fn taken(program: &[&str], port: &str, topic: &str, options: &[&str]) -> String {
    let line = format!("-p {port} -V 5 -t {topic} -q 1 -C 1 -W 60");
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(words(&line)).args(options).env("TZ", "UTC");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{program:?} {options:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Has both clients print one message by the same options.
fn compare(port: &str, number: usize, options: &[&str], published: &str, payload: &str) {
    let topic = format!("both/{number}");
    publish(port, &format!("-V 5 -t {topic} -r {published}"), payload);
    let ours = taken(&[env!("CARGO_BIN_EXE_weir"), "sub"], port, &topic, options);
    let theirs = taken(&["mosquitto_sub"], port, &topic, options);
    assert_eq!(without_time(&ours), without_time(&theirs), "{options:?}");
}

/// JSON says when the message came.
fn without_time(text: &str) -> String {
    let Some((before, rest)) = text.split_once("\"tst\":") else { return text.to_owned() };
    let (_, after) = rest.split_once(',').unwrap();
    before.to_owned() + after
}

#[test]
fn formats_print_what_mosquitto_sub_prints() {
    if tool(&["mosquitto_sub"]).is_none() {
        return;
    }
    let broker = Broker::start();
    let port = broker.port();
    let properties = "-q 1 -D publish content-type text/plain -D publish user-property a b \
                      -D publish message-expiry-interval 60 -D publish response-topic re/ply \
                      -D publish correlation-data xyz -D publish payload-format-indicator 1";
    let json = r#"{"b":27,"a":[1,2,{"x":null}],"e":{},"g":[],"t":"\u001b/"}"#;
    for (number, (options, published, payload)) in [
        (&["-F", "|%10t|%-10t|%.2t|%5.2t|%-5.2t|%010t|%t|"][..], "", "hello"),
        (&["-F", "|%05l|%-05l|%5l|%l|%3m|%q|%r|%5q|%%|%5%|"], "-q 1", "hello"),
        (&["-F", "|%8p|%-8p|%08p|%p|%x|%X|"], "", "hello"),
        (&["-F", "|%10C|%-12C|%.4C|%12.4C|%05E|%-5E|%3F|%03F|%P|%D|%12R|%.2R|"], properties, "x"),
        (&["-F", "|%5A|%05A|%-5A|%5C|%05E|%5F|%5S|%P|%D|"], "", "x"),
        (&["-F", "\\t|\\\\|@@|@Y|\\e|\\a|\\v|\\0|\\r|"], "", "x"),
        (&["-F", "%j"], "-q 1", "he\"l/lo \\ \u{e4}\t\u{7f}"),
        (&["-F", "%J"], "", json),
        (&["-F", "%j", "--pretty"], "-q 1", "text"),
        (&["-F", "%J", "--pretty"], "", json),
        (&["-v", "-F", "%t"], "", "x"),
        (&["-v"], "", "x y"),
        (&["-N", "-F", "%p"], "", "x"),
        (&["--nodelay"], "", "x"),
    ]
    .into_iter()
    .enumerate()
    {
        compare(port, number, options, published, payload);
    }
}

#[test]
fn retained_messages_are_cleared_but_for_those_filtered_out() {
    on_every_broker(|port| {
        for version in ["31", "311", "5"] {
            for topic in ["r/1", "r/2"] {
                publish(port, &format!("-V {version} -t {topic} -q 1 -r"), "kept");
            }
            let sub = |more: &str| {
                let output =
                    weir(&words(&format!("sub -p {port} -V {version} -t r/# -W 60 -v {more}")));
                assert!(output.status.success(), "{output:?}");
                let text = String::from_utf8(output.stdout).unwrap();
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            };
            // It ends when the broker has acknowledged that it is cleared.
            assert_eq!(sub("-T r/2 --remove-retained -C 1"), ["r/1 kept"]);
            publish(port, &format!("-V {version} -t r/mark -q 1 -r"), "mark");
            assert_eq!(sub("-C 2"), ["r/2 kept", "r/mark mark"]);
            // Each comes back without RETAIN, so as many may be counted.
            sub("--remove-retained -C 4");
            publish(port, &format!("-V {version} -t r/last -q 1 -r"), "last");
            assert_eq!(sub("-C 1"), ["r/last last"]);
            sub("--remove-retained -C 1");
        }
    });
}

#[test]
fn a_broker_that_refuses_to_clear_is_told_of_at_the_end() {
    let retained: &[u8] = &[0x90, 4, 0, 1, 0, 0, 0x31, 5, 0, 1, b'a', 0, b'x'];
    let (port, server) = fake(vec![vec![CONNACK_5, retained, &[0x40, 3, 0, 2, 0x87]]]);
    let line = format!("sub -h 127.0.0.1 -p {port} -V 5 -t a --remove-retained -C 1");
    let output = weir(&words(&line));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x\n");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "weir: the broker refused the message: Not authorized (0x87)\n";
    assert_eq!((output.status.code(), &*said), (Some(1), expected));
    let got = server.join().unwrap();
    let cleared: &[u8] = &[0x33, 6, 0, 1, b'a', 0, 2, 0];
    assert!(got.windows(cleared.len()).any(|bytes| bytes == cleared), "{got:?}");
}

#[test]
fn a_share_of_the_messages_is_printed_and_all_are_counted() {
    let broker = Broker::start();
    let port = broker.port();
    let sub = Sub::start(port, "-t many -q 1 -C 2000 --random-filter 50");
    let mut publisher = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["pub", "-p", port, "-t", "many", "-m", "x", "-q", "1", "--repeat", "2000"])
        .spawn()
        .unwrap();
    let printed = sub.printed().lines().count();
    assert!(publisher.wait().unwrap().success());
    // Nine standard deviations to each side.
    assert!((800..=1200).contains(&printed), "{printed} of 2000");
}

#[test]
fn a_unix_socket_is_as_good_as_a_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mqtt");
    let socket = path.to_str().unwrap();
    let lines = format!("allow_anonymous true\nlistener 0 {socket}");
    let Some(mosquitto) = Mosquitto::start(&lines) else { return };
    let output = weir(&["pub", "--unix", socket, "-t", "u", "-m", "by file", "-r", "-q", "1"]);
    assert!(output.status.success(), "{output:?}");
    for place in [["--unix", socket], ["-p", &mosquitto.port]] {
        let output = weir(&[&["sub", "-t", "u", "-C", "1", "-W", "60"], &place[..]].concat());
        assert_eq!(output.stdout, b"by file\n", "{output:?}");
    }
    drop(mosquitto);
    let output = weir(&["pub", "--unix", "/nowhere/at/all", "-t", "u", "-m", "x"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("weir: cannot connect to /nowhere/at/all: No such file"), "{said}");
}

#[test]
fn on_a_terminal_json_has_nothing_to_obey() {
    let Some(script) = tool(&["script"]) else { return };
    let broker = Broker::start();
    let port = broker.port();
    publish(port, "-t t -q 1 -r", "\u{9b}31m\u{7f}\u{1b}");
    let line = format!("{} sub -p {port} -t t -C 1 -W 60 -F %j", env!("CARGO_BIN_EXE_weir"));
    let child = Command::new(script)
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\"\\u009b31m\\u007f\\u001b\""), "{text:?}");
}
