//! Messages of QoS 2 that another shard refuses: what was not taken is new when it comes again,
//! whatever happened to its publisher's connection meanwhile.

use crate::net::{Ask, Net, Peer, message};
use weir_core::{Limits, Stats};
use weir_wire::packet::Publish;
use weir_wire::{PacketKind, QoS, Version};

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

const TAKEN: &str = "PUBREC #7 Success";
const REFUSED: &str = "PUBREC #7 Quota exceeded: the memory ceiling is reached";

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1000, ..Ask::default() }
}

/// A topic of shard 1 of two.
fn topic_of_the_other() -> String {
    let mut net = Net::new(2);
    let publ = net.join("scout", kept());
    let mut topics = (0..).map(|number| format!("r/{number}"));
    let is_its = |topic: &String| {
        let publish = Publish { retain: true, ..message(topic, QoS::AtMostOnce, 0, "x") };
        net.publish_packet(publ, &publish);
        net.deliver_mail();
        net.shards[1].stats().retained > 0
    };
    topics.find(is_its).unwrap()
}

/// A publisher on shard 0, and a subscriber to `t` on each other shard, which reads nothing.
struct Refusals {
    net: Net,
    names: Vec<Vec<String>>,
    publisher: Peer,
}

impl Refusals {
    fn new(shards: u16) -> Self {
        Self::with(shards, &Limits::default(), kept())
    }

    fn with(shards: u16, limits: &Limits, ask: Ask<'_>) -> Self {
        let mut net = Net::with_limits(shards, limits);
        let names = net.names();
        for names in &names[1..] {
            let sub = net.join(&names[0], kept());
            net.subscribe(sub, "t", Q2);
            net.deliver_mail();
            net.cut(sub);
        }
        net.deliver_mail();
        let publisher = net.join(&names[0][0], ask);
        Self { net, names, publisher }
    }

    /// Whether a shard has no room for what would have to wait there.
    fn press(&mut self, shard: usize, is_pressed: bool) {
        self.net.shards[shard].set_pressed(is_pressed);
    }

    fn publish(&mut self, payload: &str, dup: bool) {
        let publish = Publish { dup, ..message("t", Q2, 7, payload) };
        self.net.publish_packet(self.publisher, &publish);
    }

    fn come_back(&mut self, ask: Ask<'_>) {
        self.publisher = self.net.join(&self.names[0][0], ask);
    }

    /// The letter there, and its answer.
    fn exchange(&mut self, shard: usize) {
        while self.net.deliver_between(0, shard) {}
        while self.net.deliver_between(shard, 0) {}
    }

    fn answers(&mut self) -> Vec<String> {
        self.net.read(self.publisher)
    }

    /// Payloads that a shard's subscriber gets when it is back.
    fn got(&mut self, shard: usize) -> Vec<String> {
        self.net.deliver_mail();
        let sub = self.net.connect(&self.names[shard][0], kept());
        let lines = self.net.read(sub).into_iter().filter(|line| line.starts_with("PUBLISH"));
        lines.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
    }

    fn stats(&self) -> Stats {
        self.net.shards[0].stats()
    }
}

#[test]
fn a_message_that_was_refused_after_its_publisher_was_cut_is_new_when_it_comes_again() {
    let mut test = Refusals::new(2);
    test.press(1, true);
    test.publish("a", false);
    test.net.cut(test.publisher);
    test.net.deliver_mail();
    assert_eq!(test.stats().publishes_refused, 1);
    test.press(1, false);
    test.come_back(kept());
    test.publish("a", true);
    test.net.deliver_mail();
    assert_eq!(test.answers(), [TAKEN]);
    assert_eq!(test.got(1), ["a"]);
}

#[test]
fn a_message_that_comes_again_before_the_verdict_gets_the_verdict() {
    for is_pressed in [true, false] {
        // With a takeover, the older connection ends when the newer one comes.
        for is_cut in [true, false] {
            let mut test = Refusals::new(2);
            test.press(1, is_pressed);
            test.publish("a", false);
            if is_cut {
                test.net.cut(test.publisher);
            }
            test.come_back(kept());
            test.publish("a", true);
            assert_eq!(test.answers(), [""; 0], "nobody knows yet");
            // Once more without its connection, which changes nothing.
            test.net.cut(test.publisher);
            test.come_back(kept());
            test.publish("a", true);
            test.net.deliver_mail();
            assert_eq!(test.answers(), [if is_pressed { REFUSED } else { TAKEN }]);
            test.press(1, false);
            test.publish("b", !is_pressed);
            test.net.deliver_mail();
            assert_eq!(test.answers(), [TAKEN]);
            assert_eq!(test.got(1), [if is_pressed { "b" } else { "a" }]);
        }
    }
}

#[test]
fn a_message_whose_verdict_came_while_nobody_was_there_is_acknowledged_again() {
    let mut test = Refusals::new(2);
    test.publish("a", false);
    test.net.cut(test.publisher);
    test.net.deliver_mail();
    test.come_back(kept());
    test.publish("a", true);
    assert_eq!(test.answers(), [TAKEN]);
    assert_eq!(test.got(1), ["a"]);
}

#[test]
fn before_5_a_message_that_was_refused_is_new_when_it_comes_again() {
    for version in [Version::V31, Version::V311] {
        let ask = Ask { version, clean: false, ..Ask::default() };
        let mut test = Refusals::with(2, &Limits::default(), ask);
        test.press(1, true);
        test.publish("a", false);
        test.net.deliver_mail();
        assert_eq!(test.answers(), ["closed"]);
        test.press(1, false);
        test.come_back(ask);
        test.publish("a", true);
        test.net.deliver_mail();
        assert_eq!(test.answers(), [TAKEN]);
        assert_eq!(test.got(1), ["a"]);
    }
}

#[test]
fn a_publisher_that_is_cut_between_two_verdicts_is_not_told_that_its_message_was_taken() {
    // The second shard's verdict comes before the cut, after the message came again, or never.
    for (is_told, is_pressed) in [(true, true), (false, true), (false, false)] {
        let mut test = Refusals::new(3);
        test.press(1, true);
        test.press(2, is_pressed);
        test.publish("a", false);
        if is_told {
            test.exchange(1);
            test.net.cut(test.publisher);
        } else {
            test.net.cut(test.publisher);
            test.exchange(1);
        }
        test.press(1, false);
        test.come_back(kept());
        test.publish("a", true);
        // What the second shard says of the first time is not about the second.
        test.net.deliver_between(0, 2);
        test.press(2, false);
        test.net.deliver_mail();
        assert_eq!(test.answers(), [TAKEN]);
        test.publish("a", true);
        test.net.deliver_mail();
        assert_eq!(test.answers(), [TAKEN]);
        assert_eq!(test.got(1), ["a"]);
        // It may have been taken the first time there, for a publisher that was refused.
        assert_eq!(test.got(2).len(), if is_pressed { 1 } else { 2 });
    }
}

#[test]
fn a_verdict_says_nothing_to_the_session_that_comes_after() {
    for clean in [true, false] {
        let mut test = Refusals::with(2, &Limits::default(), Ask { expiry_s: 0, ..kept() });
        test.press(1, true);
        test.publish("old", false);
        // The session ends with its connection, and its place in the table is given again.
        test.net.cut(test.publisher);
        test.come_back(Ask { clean, ..kept() });
        test.publish("new", false);
        test.net.deliver_between(0, 1);
        test.press(1, false);
        test.net.deliver_mail();
        assert_eq!(test.answers(), [TAKEN]);
        test.publish("new", true);
        test.net.deliver_mail();
        assert_eq!(test.answers(), [TAKEN]);
        assert_eq!(test.got(1), ["new"]);
    }
}

#[test]
fn a_session_whose_message_waits_for_its_verdict_moves_with_what_the_verdict_said() {
    let mut test = Refusals::new(2);
    test.press(1, true);
    test.publish("a", false);
    test.net.cut(test.publisher);
    let name = test.names[0][0].clone();
    test.net.move_name(&name, 1);
    test.press(1, false);
    test.come_back(kept());
    assert_eq!(test.net.shard_of(test.publisher), 1);
    test.publish("a", true);
    assert_eq!(test.answers(), [TAKEN]);
    assert_eq!(test.got(1), ["a"]);
}

#[test]
fn a_message_that_was_not_retained_after_its_publisher_was_cut_is_new_when_it_comes_again() {
    for is_back_before in [true, false] {
        for version in [Version::V311, Version::V5] {
            let limits = Limits { retained_messages_max: 0, ..Limits::default() };
            let ask = if version.is_v5() {
                kept()
            } else {
                Ask { version, clean: false, ..Ask::default() }
            };
            let mut test = Refusals::with(2, &limits, ask);
            let topic = topic_of_the_other();
            let first = Publish { retain: true, ..message(&topic, Q2, 7, "x") };
            test.net.publish_packet(test.publisher, &first);
            test.net.cut(test.publisher);
            let again = Publish { dup: true, ..first };
            if is_back_before {
                test.come_back(ask);
                test.net.publish_packet(test.publisher, &again);
                assert_eq!(test.answers(), [""; 0]);
            }
            test.net.deliver_mail();
            if !is_back_before {
                test.come_back(ask);
                test.net.publish_packet(test.publisher, &again);
                test.net.deliver_mail();
            }
            let refused = "PUBREC #7 Quota exceeded: the retained store is full";
            assert_eq!(test.answers(), [if version.is_v5() { refused } else { "closed" }]);
            if !version.is_v5() {
                test.come_back(ask);
            }
            test.publish("new", false);
            test.net.deliver_mail();
            assert_eq!(test.answers(), [TAKEN]);
            assert_eq!(test.got(1), ["new"]);
        }
    }
}

#[test]
fn an_answer_that_is_one_too_many_is_waited_for_all_the_same() {
    let limits = Limits { receive_maximum: 1, ..Limits::default() };
    for topic in ["t", &topic_of_the_other()] {
        let mut test = Refusals::with(2, &limits, kept());
        test.press(1, true);
        test.net.publish(test.publisher, "t", Q1, 1, "first");
        let publish = Publish { retain: topic != "t", ..message(topic, Q2, 7, "a") };
        test.net.publish_packet(test.publisher, &publish);
        assert_eq!(test.answers(), ["DISCONNECT Receive Maximum exceeded", "closed"]);
        test.net.deliver_mail();
        // A move waits until no answer does.
        let name = test.names[0][1].clone();
        test.net.move_name(&name, 1);
        test.press(1, false);
        test.come_back(kept());
        test.publish("b", true);
        test.net.deliver_mail();
        assert_eq!(test.answers(), [TAKEN]);
        assert_eq!(test.got(1), ["b"], "{topic}");
    }
}

#[test]
fn an_identifier_that_is_one_too_many_is_not_noted() {
    let limits = Limits { receive_maximum: 1, ..Limits::default() };
    let mut test = Refusals::with(2, &limits, kept());
    test.net.publish(test.publisher, "u", Q2, 6, "first");
    test.answers();
    test.publish("a", false);
    assert_eq!(test.answers(), ["DISCONNECT Receive Maximum exceeded", "closed"]);
    test.come_back(kept());
    test.net.ack(test.publisher, PacketKind::PubRel, 6);
    test.publish("a", true);
    test.net.deliver_mail();
    assert_eq!(test.answers(), ["PUBCOMP #6 Success", TAKEN]);
    assert_eq!(test.got(1), ["a"]);
}

#[test]
fn an_older_publisher_gets_its_answers_before_another_shards_refusal_ends_its_connection() {
    let older = Ask { version: Version::V311, clean: false, ..Ask::default() };
    let mut test = Refusals::with(3, &Limits::default(), older);
    test.press(1, true);
    // For nobody but shard 2, which is slow.
    let sub = test.net.join(&test.names[2][1].clone(), kept());
    test.net.subscribe(sub, "u", Q2);
    test.net.deliver_mail();
    test.net.publish_packet(test.publisher, &message("u", Q1, 6, "a"));
    test.publish("b", false);
    test.net.publish_packet(test.publisher, &message("u", Q1, 8, "c"));
    test.exchange(1);
    test.net.publish_packet(test.publisher, &message("u", Q1, 9, "d"));
    assert_eq!(test.answers(), [""; 0]);
    assert_eq!((test.stats().publishes_refused, test.stats().publishes_in), (1, 3));
    test.net.deliver_mail();
    assert_eq!(test.answers(), ["PUBACK #6 Success", "closed"]);
    // What was refused is new when it comes again.
    test.press(1, false);
    test.come_back(older);
    test.publish("b", true);
    test.net.deliver_mail();
    assert_eq!(test.answers(), [TAKEN]);
    assert_eq!(test.got(1), ["b"]);
}
