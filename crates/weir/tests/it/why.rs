//! Why a message did not arrive: `weir ctl drops` and `weir ctl why`, against `weir broker`.

use crate::support::asked::{Asked, said};
use serde_json::Value;
use weir_wire::QoS;

/// Clients may publish everything, and not read what is below `secret/`.
fn start() -> Asked {
    Asked::start(|folder| {
        let rights = folder.join("rights");
        std::fs::write(&rights, "topic readwrite open/#\ntopic write secret/#\n").unwrap();
        format!(
            "[limits]\nqueue_messages_max = 2\n\
             [auth]\nallow_anonymous = true\nacl_file = {rights:?}\n"
        )
    })
}

impl Asked {
    /// Publishes at QoS 1, and waits until all are taken.
    fn publish(&self, topic: &str, count: u16) {
        let mut peer = self.join("publisher", true);
        for packet_id in 1..=count {
            peer.publish(topic, "x", Some(packet_id), false);
            assert_eq!(peer.acknowledged(), packet_id);
        }
    }

    fn says(&self, arguments: &[&str]) -> String {
        said(&self.ctl(arguments))
    }

    fn why(&self, client_id: &str, topic: &str) -> (String, String) {
        let said: Value =
            serde_json::from_str(&self.says(&["why", client_id, topic, "--json"])).unwrap();
        let text = self.says(&["why", client_id, topic]);
        assert!(text.starts_with(said["conclusion"].as_str().unwrap()), "{text}");
        (said["arrives"].as_str().unwrap().to_owned(), text)
    }
}

/// A client without a connection is absent once the broker has noticed.
fn wait_until_absent(asked: &Asked, client_id: &str) {
    while !asked.says(&["client", client_id]).contains("connection     none") {
        std::thread::yield_now();
    }
}

#[test]
fn a_message_that_arrives_has_nothing_in_its_way() {
    let asked = start();
    let mut client = asked.join("c", true);
    client.subscribe("open/+", QoS::AtLeastOnce);
    let (arrives, text) = asked.why("c", "open/a");
    assert_eq!(arrives, "yes", "{text}");
    assert!(text.starts_with("\"c\" gets a message to \"open/a\": nothing is in the way.\n- The"));
    assert!(text.contains("- It has subscribed to \"open/+\" at QoS 1.\n"), "{text}");
    asked.publish("open/a", 1);
    assert_eq!(client.message().topic, "open/a");
    assert_eq!(asked.says(&["drops"]).lines().count(), 1, "the head");
}

#[test]
fn without_a_subscription_or_a_client_nothing_arrives() {
    let asked = start();
    let mut client = asked.join("c", true);
    let (arrives, text) = asked.why("c", "open/a");
    assert_eq!(arrives, "no", "{text}");
    assert!(text.contains("no subscription of it matches.\n"), "{text}");
    assert!(text.contains("- It has subscribed to nothing.\n"), "{text}");
    client.subscribe("open/b", QoS::AtLeastOnce);
    let (_, text) = asked.why("c", "open/a");
    assert!(text.contains("- Its one subscription does not match \"open/a\".\n"), "{text}");
    // Its session ends with its connection.
    drop(client);
    while asked.says(&["clients"]).ends_with("\n1 client\n") {
        std::thread::yield_now();
    }
    let (arrives, text) = asked.why("c", "open/b");
    assert_eq!(arrives, "no", "{text}");
    assert!(text.contains("there is no such client; one whose session ends with"), "{text}");
}

#[test]
fn what_a_client_may_not_read_is_withheld_and_kept_in_mind() {
    let asked = start();
    let mut client = asked.join("c", true);
    client.subscribe("#", QoS::AtLeastOnce);
    asked.publish("secret/x", 3);
    let (arrives, text) = asked.why("c", "secret/x");
    assert_eq!(arrives, "no", "{text}");
    assert!(text.contains(": its rights do not let it read this topic.\n"), "{text}");
    let withheld =
        "\"c\" did not get a message to \"secret/x\": no right to read the topic (3 times).\n";
    assert!(text.contains(withheld), "{text}");
    let drops = asked.says(&["drops", "--client", "c", "--topic", "secret/#"]);
    assert!(drops.lines().nth(1).unwrap().contains("     3  \"c\" did not get"), "{drops}");
    for other in [["--client", "d"], ["--topic", "open/#"]] {
        assert_eq!(asked.says(&[&["drops"][..], &other[..]].concat()).lines().count(), 1);
    }
}

#[test]
fn a_full_queue_of_an_absent_client_is_said_with_what_it_cost() {
    let asked = start();
    let mut client = asked.join("c", false);
    client.subscribe("open/a", QoS::AtLeastOnce);
    drop(client);
    wait_until_absent(&asked, "c");
    let (arrives, text) = asked.why("c", "open/a");
    assert_eq!(arrives, "later", "{text}");
    asked.publish("open/a", 5);
    let (arrives, text) = asked.why("c", "open/a");
    assert_eq!(arrives, "depends", "{text}");
    assert!(text.contains(": its queue is full while it is absent,"), "{text}");
    assert!(text.contains("- 2 of at most 2 messages wait in its queue,"), "{text}");
    assert!(text.contains("\"c\" did not get a message to \"open/a\": queue full"), "{text}");
    let drops = asked.says(&["drops", "--json", "--topic", "open/a"]);
    let times = drops.lines().map(|line| {
        let drop: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&drop["kind"], &drop["client_id"]), (&"dropped".into(), &"c".into()));
        drop["times"].as_u64().unwrap()
    });
    assert_eq!(times.sum::<u64>(), 3);
}

#[test]
fn an_absent_client_with_qos_0_misses_what_is_published() {
    let asked = start();
    let mut client = asked.join("c", false);
    client.subscribe("open/a", QoS::AtMostOnce);
    drop(client);
    wait_until_absent(&asked, "c");
    asked.publish("open/a", 1);
    let (arrives, text) = asked.why("c", "open/a");
    assert_eq!(arrives, "no", "{text}");
    assert!(text.contains(": it is absent, and has subscribed at QoS 0"), "{text}");
    assert!(text.contains("\"c\" did not get a message to \"open/a\": absent, and sent"), "{text}");
}

#[test]
fn what_is_refused_is_listed_the_newest_first() {
    let asked = start();
    let mut client = asked.join("c", true);
    client.publish("closed/x", "x", Some(1), false);
    assert_eq!(client.acknowledged(), 1, "3.1.1 has no other answer");
    client.send_bytes(b"\x82\x0a\x00\x01\x00\x05a/#/b\x00");
    assert_eq!(client.packet().unwrap(), b"\x90\x03\x00\x01\x80");
    let drops = asked.says(&["drops"]);
    let lines: Vec<_> = drops.lines().collect();
    assert_eq!(lines.len(), 3, "{drops}");
    assert!(lines[1].contains("     1  \"c\" could not subscribe to \"a/#/b\": "), "{drops}");
    let refused = "\"c\" could not publish to \"closed/x\": Not authorized (its client may not";
    assert!(lines[2].contains(refused), "{drops}");
    assert_eq!(asked.says(&["drops", "--limit", "1"]).lines().nth(1), Some(lines[1]));
}
