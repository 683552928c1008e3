//! Two links, step by step.

use crate::support::{Note, Notes, WALL, flush, letter, link, message, publish, push};
use std::ops::RangeInclusive;
use weir_cluster::{Hello, Link, LinkError, Peer, Pushed};
use weir_core::{Mail, Micros};
use weir_wire::QoS;

const NOW: Micros = Micros(1_000_000);
const WINDOW: usize = 10_000;

fn later(micros: u64) -> Micros {
    NOW + Micros(micros)
}

/// Two links that were greeted.
fn pair() -> (Link, Link, [Notes; 2]) {
    let (mut a, mut b) = (link(0, 1, 10, WINDOW), link(1, 0, 20, WINDOW));
    let mut notes = [Notes::default(), Notes::default()];
    connect(&mut a, &mut b, &mut notes);
    (a, b, notes)
}

fn push_all(link: &mut Link, numbers: RangeInclusive<u64>) {
    for number in numbers {
        assert_eq!(push(link, &letter(number)), Pushed::Kept);
    }
}

fn connect(a: &mut Link, b: &mut Link, [at_a, at_b]: &mut [Notes; 2]) {
    a.connected(NOW);
    b.connected(NOW);
    let (from_a, from_b) = (flush(a, NOW), flush(b, NOW));
    a.received(&from_b, NOW, WALL, at_a).unwrap();
    b.received(&from_a, NOW, WALL, at_b).unwrap();
}

fn pass(from: &mut Link, to: &mut Link, now: Micros, notes: &mut Notes) {
    let bytes = flush(from, now);
    assert_eq!(to.received(&bytes, now, WALL, notes), Ok(bytes.len()));
}

#[test]
fn letters_of_a_turn_leave_in_one_frame_and_come_once_and_in_order() {
    let (mut a, mut b, mut notes) = pair();
    push_all(&mut a, 1..=20);
    let frames = a.counts().frames_out;
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    assert_eq!(a.counts().frames_out, frames + 1);
    assert_eq!(notes[1].letters(), (1..=20).collect::<Vec<_>>());
    assert_eq!((a.letters(), b.counts().letters_in), (20, 20));
    assert!(flush(&mut b, NOW).is_empty(), "it waits for letters that go the other way");
    push(&mut b, &letter(1));
    pass(&mut b, &mut a, NOW, &mut notes[0]);
    assert_eq!((a.letters(), a.bytes()), (0, 0), "they have brought it along");
}

#[test]
fn what_nothing_goes_back_for_is_acknowledged_after_a_while() {
    let (mut a, mut b, mut notes) = pair();
    push(&mut a, &letter(1));
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    let due = b.poll_timeout().unwrap();
    assert!(due > NOW && due < later(100_000), "{due:?}");
    pass(&mut b, &mut a, due, &mut notes[0]);
    assert_eq!(a.letters(), 0);
}

#[test]
fn letters_from_before_the_first_connection_come_to_whoever_is_there() {
    let (mut a, mut b) = (link(0, 1, 10, WINDOW), link(1, 0, 20, WINDOW));
    let mut notes = [Notes::default(), Notes::default()];
    push(&mut a, &letter(1));
    connect(&mut a, &mut b, &mut notes);
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    let up =
        |incarnation| Note::Up(Peer { incarnation, version: Mail::VERSION, is_resumed: false });
    assert_eq!(notes[0].0, [up(20)]);
    assert_eq!(notes[1].0, [up(10), Note::Letter(1)]);
}

#[test]
fn a_connection_that_was_lost_is_gone_on_with() {
    let (mut a, mut b, mut notes) = pair();
    push_all(&mut a, 1..=3);
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    push(&mut a, &letter(4));
    assert!(!flush(&mut a, NOW).is_empty(), "it is lost on the way");
    a.disconnected();
    b.disconnected();
    push(&mut a, &letter(5));
    connect(&mut a, &mut b, &mut notes);
    assert_eq!(a.letters(), 2, "the Hello has acknowledged three");
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    assert_eq!(notes[1].letters(), [1, 2, 3, 4, 5]);
    assert_eq!((a.counts().resent, a.counts().resets, b.counts().resets), (1, 0, 0));
    let resumed = Note::Up(Peer { incarnation: 20, version: Mail::VERSION, is_resumed: true });
    assert_eq!(notes[0].0.last(), Some(&resumed));
}

#[test]
fn letters_for_a_node_that_was_started_anew_are_dropped_and_that_is_said() {
    let (mut a, mut b, mut notes) = pair();
    push_all(&mut a, 1..=3);
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    let mut b = link(1, 0, 21, WINDOW);
    notes[1] = Notes::default();
    push(&mut b, &letter(7));
    connect(&mut a, &mut b, &mut notes);
    let up = Note::Up(Peer { incarnation: 21, version: Mail::VERSION, is_resumed: false });
    assert_eq!(notes[0].0[1..], [Note::Reset(3), up]);
    assert_eq!((a.is_with(20), a.is_with(21)), (false, true));
    push(&mut a, &letter(4));
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    pass(&mut b, &mut a, NOW, &mut notes[0]);
    assert_eq!((notes[1].letters(), notes[0].letters()), (vec![4], vec![7]));
}

#[test]
fn a_node_that_has_forgotten_the_other_begins_anew() {
    let (mut a, mut b, mut notes) = pair();
    push(&mut a, &letter(1));
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    let mut b = link(1, 0, 20, WINDOW);
    connect(&mut a, &mut b, &mut notes);
    assert_eq!(a.counts().resets, 1, "the same start of the node, and another link");
    push(&mut a, &letter(2));
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    assert_eq!(notes[1].letters(), [1, 2]);
}

#[test]
fn a_greeting_that_only_one_has_heard_loses_nothing() {
    let (mut a, mut b) = (link(0, 1, 10, WINDOW), link(1, 0, 20, WINDOW));
    let mut notes = [Notes::default(), Notes::default()];
    push(&mut a, &letter(1));
    push(&mut b, &letter(9));
    a.connected(NOW);
    b.connected(NOW);
    let from_b = flush(&mut b, NOW);
    assert!(!flush(&mut a, NOW).is_empty());
    a.received(&from_b, NOW, WALL, &mut notes[0]).unwrap();
    connect(&mut a, &mut b, &mut notes);
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    pass(&mut b, &mut a, NOW, &mut notes[0]);
    assert_eq!((notes[0].letters(), notes[1].letters()), (vec![9], vec![1]));
    assert_eq!((a.counts().resets, b.counts().resets), (0, 0));
}

#[test]
fn a_full_window_drops_messages_at_qos_0_and_nothing_else() {
    let mut a = link(0, 1, 10, 1000);
    let (quick, sure) =
        (message(QoS::AtMostOnce, vec![0; 1000]), message(QoS::AtLeastOnce, vec![]));
    assert_eq!(push(&mut a, &publish(&quick, 1, false)), Pushed::Kept);
    assert!(!a.has_room());
    assert_eq!(push(&mut a, &publish(&quick, 2, false)), Pushed::Dropped);
    assert_eq!(push(&mut a, &publish(&quick, 3, true)), Pushed::Kept, "somebody waits for it");
    assert_eq!(push(&mut a, &publish(&sure, 4, false)), Pushed::Kept);
    assert_eq!(push(&mut a, &letter(5)), Pushed::Kept);
    assert_eq!((a.counts().dropped, a.letters()), (1, 4));
    let mut b = link(1, 0, 20, WINDOW);
    let mut notes = [Notes::default(), Notes::default()];
    connect(&mut a, &mut b, &mut notes);
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    pass(&mut b, &mut a, later(50_000), &mut notes[0]);
    assert!(a.has_room());
    assert_eq!(notes[1].letters(), [1, 3, 4, 5]);
}

#[test]
fn a_letter_that_no_frame_takes_is_not_kept() {
    let mut a = link(0, 1, 10, WINDOW);
    for bytes in [99_990, 200_000] {
        let long = message(QoS::AtLeastOnce, vec![0; bytes]);
        assert_eq!(push(&mut a, &publish(&long, 1, true)), Pushed::TooLong);
    }
    let fits = message(QoS::AtLeastOnce, vec![0; 99_900]);
    assert_eq!(push(&mut a, &publish(&fits, 1, true)), Pushed::Kept);
    assert_eq!((a.counts().too_long, a.letters()), (2, 1));
}

#[test]
fn who_is_silent_is_asked_and_then_given_up() {
    let (mut a, mut b, mut notes) = pair();
    assert_eq!(a.poll_timeout(), Some(later(1_000_000)));
    let ping = flush(&mut a, later(1_000_000));
    assert!(!ping.is_empty());
    b.received(&ping, later(1_000_000), WALL, &mut notes[1]).unwrap();
    assert_eq!(a.handle_timeout(later(4_999_999)), Ok(()));
    assert_eq!(a.handle_timeout(later(5_000_000)), Err(LinkError::Silent));
    assert!(!a.is_up() && a.poll_timeout().is_none());
    assert_eq!(b.handle_timeout(later(5_000_000)), Ok(()), "it was asked");
    // One that says not even who it is.
    a.connected(NOW);
    assert_eq!(a.poll_timeout(), Some(later(5_000_000)));
    assert_eq!(a.received(&[0, 0, 0], later(4_000_000), WALL, &mut notes[0]), Ok(0));
    assert_eq!(a.handle_timeout(later(5_000_000)), Err(LinkError::Silent));
}

#[test]
fn a_gap_gives_the_connection_up_and_the_next_one_mends_it() {
    let (mut a, mut b, mut notes) = pair();
    push(&mut a, &letter(1));
    assert!(!flush(&mut a, NOW).is_empty());
    push(&mut a, &letter(2));
    let bytes = flush(&mut a, NOW);
    let error = b.received(&bytes, NOW, WALL, &mut notes[1]);
    assert_eq!(error, Err(LinkError::Gap { expected: 1, found: 2 }));
    assert!(!b.is_up() && notes[1].letters().is_empty());
    connect(&mut a, &mut b, &mut notes);
    pass(&mut a, &mut b, NOW, &mut notes[1]);
    assert_eq!(notes[1].letters(), [1, 2]);
}

#[test]
fn whoever_is_not_expected_is_refused() {
    let refused = |mut stranger: Link| {
        let mut a = link(0, 1, 10, WINDOW);
        a.connected(NOW);
        stranger.connected(NOW);
        let hello = flush(&mut stranger, NOW);
        let mut notes = Notes::default();
        let error = a.received(&hello, NOW, WALL, &mut notes).unwrap_err();
        assert!(!a.is_up() && notes.0.is_empty());
        error
    };
    assert!(matches!(refused(link(2, 0, 30, WINDOW)), LinkError::OtherNode { .. }));
    let settings = weir_cluster::LinkSettings {
        cluster: "elsewhere".into(),
        own: weir_cluster::Slot(1),
        peer: weir_cluster::Slot(0),
        incarnation: 20,
        window_bytes: WINDOW,
        frame_bytes_max: 100_000,
    };
    assert!(matches!(refused(Link::new(settings)), LinkError::OtherCluster(_)));
}

#[test]
fn nodes_speak_the_highest_version_of_letters_that_both_read() {
    let met = |letters| {
        let mut a = link(0, 1, 10, WINDOW);
        a.connected(NOW);
        let (cluster, slot) = ("fuzz", weir_cluster::Slot(1));
        let (incarnation, connection, state, taken) = (20, 1, None, 0);
        let frame_bytes_max = 100_000;
        let hello = Hello {
            cluster,
            slot,
            incarnation,
            connection,
            state,
            taken,
            letters,
            frame_bytes_max,
        };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        let mut notes = Notes::default();
        let taken = a.received(&bytes, NOW, WALL, &mut notes);
        let version = notes.0.iter().find_map(|note| match note {
            Note::Up(peer) => Some(peer.version),
            _ => None,
        });
        taken.map(|_| version)
    };
    let (oldest, newest) = (Mail::VERSION_MIN, Mail::VERSION);
    assert_eq!(met((oldest, oldest)), Ok(Some(oldest)), "a node that was not upgraded");
    assert_eq!(met((newest, newest + 1)), Ok(Some(newest)), "one that was before this one");
    for letters in [(oldest - 1, oldest - 1), (newest + 1, newest + 2)] {
        assert_eq!(met(letters), Err(LinkError::NoVersion { theirs: letters }));
    }
}

#[test]
fn nobody_acknowledges_what_was_never_sent() {
    let (mut a, _, mut notes) = pair();
    let mut c = link(1, 0, 20, WINDOW);
    // One that has taken letters of somebody else.
    let mut other = link(0, 1, 10, WINDOW);
    let mut others = [Notes::default(), Notes::default()];
    push(&mut other, &letter(1));
    connect(&mut other, &mut c, &mut others);
    pass(&mut other, &mut c, NOW, &mut others[1]);
    let told = flush(&mut c, later(50_000));
    assert_eq!(a.received(&told, NOW, WALL, &mut notes[0]), Err(LinkError::NeverSent));
}

#[test]
fn a_second_hello_is_refused() {
    let (mut a, mut b, mut notes) = pair();
    b.connected(NOW);
    let hello = flush(&mut b, NOW);
    assert_eq!(a.received(&hello, NOW, WALL, &mut notes[0]), Err(LinkError::SecondHello));
}
