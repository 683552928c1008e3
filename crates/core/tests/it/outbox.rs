//! What is between two shards when all of them are gone.

use crate::net::{Net, Peer};
use crate::rebuild::{DURABLE, finish, rebuild};
use weir_core::{Limits, Partitions, Rebuild, ShardId, Undelivered};
use weir_wire::QoS;

/// Two shards whose logs have begun: a durable publisher on the first, a durable subscriber on the
/// second.
struct Pair {
    net: Net,
    publisher: Peer,
}

fn begun(shards: u16) -> Net {
    let mut net = Net::with_logs(shards, &Limits::default());
    each(&mut net, |net, at| net.shards[at].begin_base(net.now, &mut net.wires[at]));
    each(&mut net, |net, at| net.shards[at].end_base(net.now, &mut net.wires[at]));
    net
}

fn each(net: &mut Net, mut say: impl FnMut(&mut Net, usize)) {
    for at in 0..net.shards.len() {
        say(net, at);
        net.go_on();
        net.commit(at);
        net.go_on();
    }
}

impl Pair {
    fn new() -> Self {
        let mut net = begun(2);
        let names = net.names();
        let publisher = net.join(&names[0][0], DURABLE);
        let subscriber = net.join(&names[1][0], DURABLE);
        net.subscribe(subscriber, "t", QoS::ExactlyOnce);
        net.go_on();
        net.commit(0);
        net.commit(1);
        net.cut(subscriber);
        net.commit(1);
        Self { net, publisher }
    }

    fn publish(&mut self, id: u16, payload: &str) {
        self.net.publish(self.publisher, "t", QoS::ExactlyOnce, id, payload);
        self.net.go_on();
    }

    /// All is gone but so many records of each log; so many shards come after. Returns what the
    /// subscriber gets then.
    fn crash(&self, lengths: [usize; 2], shards: u16) -> Vec<String> {
        let logs = [0, 1].map(|at| &self.net.wires[at].log[..lengths[at]]);
        let rebuilt: Vec<(ShardId, Rebuild)> = (0..)
            .map(ShardId)
            .zip(logs)
            .map(|(shard, log)| (shard, rebuild(log, &[]).unwrap()))
            .collect();
        let now = self.net.now;
        let late = Undelivered::of(&rebuilt, now);
        let mut net = Net::with_logs(shards, &Limits::default());
        net.now = now;
        let partitions = Partitions::spread(shards, crate::net::SEED);
        each(&mut net, |net, at| net.shards[at].begin_base(now, &mut net.wires[at]));
        for parcel in rebuilt.into_iter().flat_map(|(_, rebuild)| finish(rebuild, now)) {
            let owner = usize::from(partitions.owner(parcel.name().unwrap()).0);
            net.shards[owner].restored(parcel, now, &mut net.wires[owner]);
            net.go_on();
        }
        for late in &late {
            each(&mut net, |net, at| {
                net.shards[at].redelivered(late, at == 0, now, &mut net.wires[at]);
            });
        }
        each(&mut net, |net, at| net.shards[at].end_base(now, &mut net.wires[at]));
        let back = net.connect(&self.net.names()[1][0], DURABLE);
        for _ in 0..3 {
            net.go_on();
            each(&mut net, |_, _| ());
        }
        net.read(back)[1..].to_vec()
    }
}

#[test]
fn a_message_that_is_only_in_its_senders_log_is_delivered_after_a_crash() {
    let mut pair = Pair::new();
    let before = pair.net.wires[1].log.len();
    pair.publish(1, "a");
    pair.net.commit(0);
    pair.net.go_on();
    let lengths = [0, 1].map(|at| pair.net.wires[at].log.len());
    assert!(lengths[1] > before, "the other shard has it in its log");
    for shards in [1, 2, 3] {
        assert_eq!(pair.crash([lengths[0], before], shards), ["PUBLISH t q2 #1 a"]);
        // The mark is in the commit of the message.
        assert_eq!(pair.crash(lengths, shards), ["PUBLISH t q2 #1 a"]);
    }
}

#[test]
fn a_base_carries_what_is_between_shards() {
    let mut pair = Pair::new();
    let before = pair.net.wires[1].log.len();
    pair.publish(1, "a");
    pair.net.commit(0);
    pair.net.go_on();
    for at in [0, 1] {
        let net = &mut pair.net;
        net.shards[at].begin_base(net.now, &mut net.wires[at]);
        for _ in 0..4 {
            net.go_on();
            // The sender is not told that the other shard has it.
            let last = net.wires[at].log.last().unwrap().0;
            net.shards[at].committed(last, net.now, &mut net.wires[at]);
            net.wires[at].mail.clear();
        }
        assert!(!net.shards[at].is_basing());
    }
    let lengths = [0, 1].map(|at| pair.net.wires[at].log.len());
    assert_eq!(pair.crash([lengths[0], before], 2), ["PUBLISH t q2 #1 a"]);
    assert_eq!(pair.crash(lengths, 2), ["PUBLISH t q2 #1 a"]);
}

#[test]
fn what_is_late_comes_in_the_order_of_its_sending() {
    let mut pair = Pair::new();
    let before = pair.net.wires[1].log.len();
    for (id, payload) in [(1, "a"), (2, "b"), (3, "c")] {
        pair.publish(id, payload);
    }
    pair.net.commit(0);
    pair.net.go_on();
    let length = pair.net.wires[0].log.len();
    let lines = ["PUBLISH t q2 #1 a", "PUBLISH t q2 #2 b", "PUBLISH t q2 #3 c"];
    assert_eq!(pair.crash([length, before], 2), lines);
}
