use super::*;

const FIRST: usize = 0;
const SECOND: usize = 1;

fn at(ms: u64) -> At {
    Duration::from_millis(ms)
}

/// A publisher, and a subscriber at the node a.
fn ledger(pinned: Option<usize>) -> (Ledger, usize, usize) {
    let mut ledger = Ledger::new(1, false);
    let session = ledger.session("s", pinned);
    let receiver = ledger.receiver("s", &[session], false);
    ledger.connected(session, 0, at(0));
    (ledger, session, receiver)
}

fn found(ledger: &Ledger) -> u64 {
    ledger.found.iter().sum()
}

fn acknowledged(ledger: &mut Ledger, row: usize, ms: u64) -> u32 {
    let number = ledger.publish(row, 1, at(ms));
    ledger.acknowledge(row, number, at(ms + 1));
    number
}

#[test]
fn what_was_acknowledged_and_did_not_come_is_lost() {
    let (mut ledger, _, receiver) = ledger(None);
    let first = acknowledged(&mut ledger, FIRST, 1);
    acknowledged(&mut ledger, FIRST, 2);
    ledger.deliver(receiver, (FIRST, first), 0, at(3));
    assert_eq!(ledger.missing(&[]), 1);
    ledger.settle(&[], at(9));
    assert!(ledger.findings()[0].1.contains("lost: crash/1/0 1, published on b"));
    assert_eq!(ledger.missing(&[]), 0, "it is found once");
}

#[test]
fn what_was_published_while_the_sessions_node_was_lost_is_not_promised() {
    let (mut ledger, _, _) = ledger(Some(0));
    acknowledged(&mut ledger, FIRST, 50);
    let loss = |node| [Loss { node, from: at(40), until: at(60) }];
    assert_eq!((ledger.missing(&loss(0)), ledger.missing(&loss(1))), (0, 1));
    ledger.settle(&loss(0), at(90));
    assert_eq!((found(&ledger), ledger.counts.not_promised), (0, 1));
    // A group has members elsewhere.
    ledger.receivers[0].is_group = true;
    acknowledged(&mut ledger, FIRST, 150);
    assert_eq!(ledger.missing(&[Loss { node: 0, from: at(140), until: at(160) }]), 1);
}

#[test]
fn what_is_at_two_nodes_is_promised_whatever_node_is_lost() {
    let (mut ledger, session, _) = ledger(None);
    ledger.is_copied = true;
    acknowledged(&mut ledger, FIRST, 50);
    ledger.anew(session, at(55), true);
    let loss = [Loss { node: 0, from: at(40), until: at(60) }];
    assert_eq!(ledger.missing(&loss), 1);
    ledger.settle(&loss, at(90));
    assert_eq!((found(&ledger), ledger.counts.not_promised), (2, 0));
}

#[test]
fn a_session_may_be_begun_anew_only_where_it_wanders_and_its_node_was_lost() {
    let loss = [Loss { node: 0, from: at(40), until: at(45) }];
    for (pinned, losses, count) in [(None, &loss[..], 0), (None, &[], 2), (Some(0), &loss, 2)] {
        let (mut ledger, session, _) = ledger(pinned);
        acknowledged(&mut ledger, FIRST, 48);
        ledger.anew(session, at(50), true);
        ledger.settle(losses, at(90));
        assert_eq!(found(&ledger), count, "{pinned:?} {losses:?}");
    }
}

#[test]
fn a_message_of_qos_2_comes_once_unless_it_is_in_doubt() {
    let (mut ledger, _, receiver) = ledger(None);
    for row in [FIRST, SECOND, SECOND] {
        let number = acknowledged(&mut ledger, row, 1);
        if number == 1 {
            ledger.doubt(row, number, false);
        }
        ledger.deliver(receiver, (row, number), 0, at(2));
        ledger.deliver(receiver, (row, number), 0, at(3));
    }
    assert_eq!((ledger.counts.repeated, ledger.counts.doubled_in_doubt), (1, 1));
    assert!(ledger.findings()[0].1.contains("got crash/2/0 0 twice"));
}

#[test]
fn with_copies_only_another_session_leaves_a_message_in_doubt() {
    let mut ledger = Ledger::new(1, true);
    for (number, is_session_lost) in [(0, false), (1, true)] {
        ledger.publish(SECOND, 0, at(1));
        ledger.doubt(SECOND, number, is_session_lost);
        assert_eq!(ledger.sent[SECOND][number as usize].is_in_doubt, is_session_lost);
    }
}

#[test]
fn a_later_message_must_not_come_first() {
    let (mut ledger, _, receiver) = ledger(None);
    for number in [1, 0] {
        acknowledged(&mut ledger, FIRST, 1);
        ledger.deliver(receiver, (FIRST, number), 0, at(5));
    }
    assert!(ledger.findings()[0].1.contains("got crash/1/0 0 behind 1"));
}

#[test]
fn of_two_connections_one_answers_once_both_were_let_in() {
    let (mut ledger, session, _) = ledger(None);
    let new = ledger.connected(session, 1, at(10));
    ledger.answered(session, 0, at(9));
    ledger.answered(session, new, at(20));
    assert_eq!(found(&ledger), 0);
    ledger.answered(session, 0, at(21));
    assert_eq!(found(&ledger), 1);
}

#[test]
fn what_is_retained_is_the_last_of_the_publishers_own_topic() {
    let mut ledger = Ledger::new(1, false);
    for _ in 0..3 {
        acknowledged(&mut ledger, RETAINED, 1);
    }
    let (topic, payload) = ledger.retained(0).unwrap();
    assert_eq!(topic, "crash/retained/0");
    assert!(payload.starts_with("crash/retained/0 1 "));
    let number = ledger.publish(RETAINED, 0, at(2));
    ledger.refuse(RETAINED, number);
    assert_eq!(ledger.retained(0), None);
}
