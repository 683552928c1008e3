use super::*;

const Q1: Stream = Stream { publisher: 0, qos: QoS::AtLeastOnce };
const Q2: Stream = Stream { publisher: 0, qos: QoS::ExactlyOnce };

/// So many messages, all acknowledged.
fn sent(count: u32) -> Sent {
    let mut sent = Sent::default();
    for number in 0..count {
        assert_eq!(sent.publish(), number);
        assert!(sent.acknowledge(number));
    }
    sent
}

fn received(numbers: &[u32]) -> Received {
    let mut heard = Heard::default();
    for &number in numbers {
        heard.deliver(number);
    }
    Received { streams: vec![heard], ..Received::default() }
}

/// Of one stream.
fn tally(stream: Stream, sent: Sent, received: &[Received]) -> (Tally, QosTally) {
    let tally = Tally::of(&[stream], &[sent], received);
    let qos = tally.qos[0];
    assert_eq!((tally.qos.len(), qos.qos), (1, stream.qos as u8));
    (tally, qos)
}

#[test]
fn books_without_a_fault_are_clean() {
    for stream in [Q1, Q2] {
        let (all, of) = tally(stream, sent(3), &[received(&[0, 1, 2]), received(&[0, 1, 2])]);
        assert!(all.is_clean() && all.has_lost_nothing());
        assert_eq!((of.published, of.acknowledged, of.owed, of.lost), (3, 3, 6, 0));
    }
}

#[test]
fn a_message_that_one_subscriber_never_got_is_lost_once() {
    let (all, of) = tally(Q1, sent(3), &[received(&[0, 2]), received(&[0, 1, 2])]);
    assert_eq!((of.lost, of.deliveries_lost, of.subscriptions_lost), (1, 1, 0));
    assert!(!all.has_lost_nothing() && !all.is_clean());
    let (_, of) = tally(Q1, sent(3), &[received(&[0, 2]), received(&[0])]);
    assert_eq!((of.lost, of.deliveries_lost), (2, 3));
}

#[test]
fn what_was_not_acknowledged_is_not_owed() {
    let mut open = sent(2);
    open.publish();
    let refused = open.publish();
    open.refuse(refused);
    let (all, of) = tally(Q1, open, &[received(&[0, 1])]);
    assert!(all.is_clean());
    assert_eq!((of.published, of.refused, of.acknowledged, of.owed), (4, 1, 2, 2));
}

#[test]
fn a_double_is_permitted_at_qos_1_and_a_fault_at_qos_2() {
    let came = [received(&[0, 1, 1, 1, 2])];
    let (all, of) = tally(Q1, sent(3), &came);
    assert!(all.is_clean());
    assert_eq!(of.duplicated, 2);
    let (all, of) = tally(Q2, sent(3), &came);
    assert!(all.has_lost_nothing() && !all.is_clean());
    assert_eq!((of.duplicated, of.duplicated_in_doubt), (2, 0));
    // Its publisher had to publish it anew.
    let mut in_doubt = sent(3);
    in_doubt.doubt(1);
    let (all, of) = tally(Q2, in_doubt, &came);
    assert!(all.is_clean());
    assert_eq!((of.duplicated, of.duplicated_in_doubt), (0, 2));
}

#[test]
fn order_is_that_of_first_deliveries() {
    let (all, of) = tally(Q1, sent(4), &[received(&[0, 1, 0, 1, 2, 3])]);
    assert!(all.is_clean());
    assert_eq!(of.out_of_order, 0);
    let (all, of) = tally(Q1, sent(4), &[received(&[0, 2, 1, 3])]);
    assert!(all.has_lost_nothing() && !all.is_clean());
    assert_eq!(of.out_of_order, 1);
}

#[test]
fn a_subscriber_that_hears_none_of_the_last_messages_has_no_subscription() {
    let (all, of) = tally(Q1, sent(4), &[received(&[0, 1]), received(&[0, 1, 2, 3])]);
    assert_eq!((of.subscriptions_lost, of.lost), (1, 2));
    assert!(!all.has_lost_nothing());
    // One of two publishers is heard: the subscription is there.
    let other = Stream { publisher: 1, ..Q1 };
    let heard = |count: u32| received(&(0..count).collect::<Vec<_>>()).streams.remove(0);
    let half = Received { streams: vec![heard(2), heard(1)], ..Received::default() };
    let tally = Tally::of(&[Q1, other], &[sent(2), sent(2)], &[half]);
    assert_eq!((tally.qos[0].subscriptions_lost, tally.qos[0].lost), (0, 1));
}

#[test]
fn a_lost_session_is_something_lost_even_if_no_message_is() {
    let mut all = tally(Q1, sent(1), &[received(&[0])]).0;
    assert!(all.has_lost_nothing());
    all.subscriber_sessions_lost = 1;
    assert!(!all.has_lost_nothing());
}

#[test]
fn a_retained_message_must_be_the_last_acknowledged_or_a_later_one() {
    let mut tally = RetainedTally::default();
    tally.check(None, None);
    tally.check(Some(3), Some(3));
    tally.check(Some(3), Some(4));
    assert_eq!(tally, RetainedTally { checked: 2, ..RetainedTally::default() });
    tally.check(Some(3), Some(2));
    tally.check(Some(3), None);
    assert_eq!((tally.lost, tally.old, tally.checked), (1, 1, 4));
}
