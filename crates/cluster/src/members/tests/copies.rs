//! Who keeps a copy of whose log.

use super::*;
use crate::records::{CopyState, LogCopy, NamedCopy};

/// The third node.
const LATE: usize = 2;

/// Two nodes, of which the second has said that the first keeps a copy of its log.
fn desk_with_copy() -> (Desk, LogCopy) {
    let mut desk = Desk::new(&["a", "b"]);
    desk.until(seconds(10));
    let [keeper, owner] = [0, 1].map(|at| desk.nodes[at].own_seat().unwrap());
    assert_eq!(keep(&mut desk, 1, &[keeper]), Ok(()));
    let (slot, owner) = owner;
    (desk, LogCopy { slot, owner, keepers: vec![keeper], state: CopyState::Kept })
}

/// A third node keeps a copy as well, and the owner is lost.
fn lost_with_two_keepers() -> (Desk, LogCopy, [Seat; 2]) {
    let (mut desk, copy) = desk_with_copy();
    assert_eq!(desk.add("c"), LATE);
    desk.until(seconds(11));
    let keepers = [copy.keepers[0], desk.nodes[LATE].own_seat().unwrap()];
    assert_eq!(keep(&mut desk, 1, &keepers), Ok(()));
    desk.cut(1);
    desk.until(seconds(18));
    (desk, copy, keepers)
}

fn keep(desk: &mut Desk, at: usize, keepers: &[Seat]) -> Result<(), Busy> {
    let kept = desk.with(at, |members, now, sink| members.keep_log_at(keepers.into(), now, sink));
    desk.exchange();
    kept
}

fn open(desk: &mut Desk, at: usize, slot: u8) -> Result<(), NotOpened> {
    let opened = desk.with(at, |members, now, sink| members.open_log_of(Slot(slot), now, sink));
    desk.exchange();
    opened
}

fn close(desk: &mut Desk, at: usize, slot: u8) -> Result<(), NotOpened> {
    let closed = desk.with(at, |members, now, sink| members.close_log_of(Slot(slot), now, sink));
    desk.exchange();
    closed
}

/// When it was written last.
fn copy_at(desk: &Desk) -> Option<Revision> {
    let mut records = desk.store.records();
    records.find(|record| record.key == "weir/c/copies/1").map(|record| record.revision)
}

#[test]
fn who_keeps_a_log_is_said_by_its_owner_and_seen_by_all() {
    let (mut desk, copy) = desk_with_copy();
    let late = desk.add("c");
    desk.until(seconds(11));
    for at in [0, 1, late] {
        assert_eq!(desk.nodes[at].log_copy(Slot(1)), Some(&copy));
    }
    assert_eq!(desk.nodes[0].log_copy(Slot(0)), None);
    assert_eq!(desk.nodes[0].log_copy(Slot(SLOTS)), None);
    // What it says already is written again: nothing that was asked for before is written then.
    let written = desk.nodes[1].log_copy_at(Slot(1));
    assert_eq!(keep(&mut desk, 1, &copy.keepers), Ok(()));
    assert!(desk.nodes[1].log_copy_at(Slot(1)) > written);
    let late = desk.nodes[late].own_seat().unwrap();
    for keepers in [vec![], vec![late], vec![late, copy.keepers[0]]] {
        assert_eq!(keep(&mut desk, 1, &keepers), Ok(()));
        assert_eq!(desk.nodes[0].log_copy(Slot(1)), Some(&LogCopy { keepers, ..copy.clone() }));
    }
    // One thing at a time.
    let ask = |members: &mut Members, now, sink: &mut Collected| {
        [vec![], copy.keepers.clone()].map(|keepers| members.keep_log_at(keepers, now, sink))
    };
    assert_eq!(desk.with(1, ask), [Ok(()), Err(Busy)]);
    desk.exchange();
    assert_eq!(desk.nodes[0].log_copy(Slot(1)).unwrap().keepers, []);
}

#[test]
fn a_keeper_opens_a_copy_once_its_owner_is_no_member() {
    let (mut desk, copy) = desk_with_copy();
    let late = desk.add("c");
    assert_eq!(open(&mut desk, 0, 1), Err(NotOpened::IsMember));
    desk.cut(1);
    desk.until(seconds(15));
    assert_eq!(open(&mut desk, 0, 1), Err(NotOpened::IsMember), "its lease may last");
    desk.until(seconds(17));
    for (at, slot) in [(late, 1), (0, 0), (0, 2), (0, SLOTS)] {
        assert_eq!(open(&mut desk, at, slot), Err(NotOpened::NotKeeper), "{at} {slot}");
    }
    assert_eq!(desk.nodes[0].log_copy(Slot(1)).unwrap().state, CopyState::Kept);
    assert_eq!(open(&mut desk, 0, 1), Ok(()));
    let opened = LogCopy { state: CopyState::Opened, ..copy };
    for at in [0, late] {
        assert_eq!(desk.nodes[at].log_copy(Slot(1)), Some(&opened));
    }
    let written = copy_at(&desk);
    assert_eq!((open(&mut desk, 0, 1), copy_at(&desk)), (Ok(()), written));
    // The owner is no member before its sessions are others', and sees that as soon as it is.
    desk.cut.clear();
    desk.until(seconds(25));
    assert_eq!(desk.nodes[1].own_seat(), None);
    let is_served = |event: &Event| matches!(event, Event::Notice(Notice::IsServed));
    assert_eq!(desk.take(1).iter().filter(|&event| is_served(event)).count(), 1);
    assert_eq!(close(&mut desk, late, 1), Err(NotOpened::NotKeeper));
    assert_eq!((close(&mut desk, 0, 1), close(&mut desk, 0, 1)), (Ok(()), Ok(())));
    desk.until(seconds(30));
    let (_, owner) = desk.nodes[1].own_seat().unwrap();
    let void = LogCopy { state: CopyState::Void, ..opened };
    assert_eq!(desk.nodes[1].log_copy(Slot(1)), Some(&void));
    assert_eq!(keep(&mut desk, 1, &[]), Ok(()));
    let none = LogCopy { slot: Slot(1), owner, keepers: vec![], state: CopyState::Kept };
    assert_eq!(desk.nodes[0].log_copy(Slot(1)), Some(&none));
    assert_eq!(open(&mut desk, 0, 1), Err(NotOpened::NotKeeper));
}

#[test]
fn an_owner_whose_keeper_is_lost_too_is_back_with_what_it_has() {
    let (mut desk, _) = desk_with_copy();
    desk.cut(1);
    desk.until(seconds(18));
    assert_eq!(open(&mut desk, 0, 1), Ok(()));
    desk.cut.clear();
    desk.until(seconds(22));
    assert_eq!(desk.nodes[1].own_seat(), None);
    desk.cut(0);
    desk.until(seconds(32));
    assert!(desk.nodes[1].own_seat().is_some());
    assert_eq!(desk.nodes[1].log_copy(Slot(1)).unwrap().state, CopyState::Opened);
}

#[test]
fn of_two_keepers_the_first_that_is_there_opens_its_copy() {
    let (mut desk, _, [first, second]) = lost_with_two_keepers();
    let opener = |desk: &Desk| desk.nodes[LATE].opener(Slot(1));
    assert_eq!(opener(&desk), Some(first));
    // The first is lost as well, before it has opened anything.
    desk.cut(0);
    desk.until(seconds(28));
    assert_eq!(opener(&desk), Some(second));
    assert_eq!(open(&mut desk, LATE, 1), Ok(()));
    let LogCopy { keepers, state, .. } = desk.nodes[LATE].log_copy(Slot(1)).unwrap();
    assert_eq!((keepers, *state), (&vec![second, first], CopyState::Opened));
    assert_eq!(opener(&desk), Some(second));
    assert_eq!((close(&mut desk, LATE, 1), opener(&desk)), (Ok(()), None));
}

#[test]
fn what_a_keeper_has_opened_that_is_lost_as_well_the_next_opens() {
    let (mut desk, copy, [first, second]) = lost_with_two_keepers();
    assert_eq!(open(&mut desk, 0, 1), Ok(()));
    assert_eq!(close(&mut desk, LATE, 1), Err(NotOpened::NotKeeper), "the first has");
    // The owner would be a member again, if nobody served its sessions.
    desk.cut.clear();
    desk.cut(0);
    desk.until(seconds(28));
    assert_eq!(desk.nodes[1].own_seat(), None);
    assert_eq!(desk.nodes[LATE].opener(Slot(1)), Some(second));
    assert_eq!(open(&mut desk, LATE, 1), Ok(()));
    let opened = LogCopy { keepers: vec![second, first], state: CopyState::Opened, ..copy };
    assert_eq!(desk.nodes[LATE].log_copy(Slot(1)), Some(&opened));
    assert_eq!(close(&mut desk, LATE, 1), Ok(()));
}

#[test]
fn what_one_keeper_cannot_serve_another_may_open() {
    let (mut desk, _, [_, second]) = lost_with_two_keepers();
    assert_eq!(open(&mut desk, 0, 1), Ok(()));
    assert_eq!(open(&mut desk, LATE, 1), Err(NotOpened::NotKeeper), "the first has");
    let give_back = |members: &mut Members, now, sink: &mut Collected| {
        members.give_back_log_of(Slot(1), now, sink)
    };
    assert_eq!(desk.with(0, give_back), Ok(()));
    desk.exchange();
    desk.until(seconds(19));
    assert_eq!(open(&mut desk, 0, 1), Err(NotOpened::NotKeeper));
    assert_eq!(open(&mut desk, LATE, 1), Ok(()));
    assert_eq!(desk.nodes[0].opener(Slot(1)), Some(second));
}

#[test]
fn an_owner_that_is_back_first_wins() {
    let keys = [("weir/c/members/1", 1), ("weir/c/copies/1", 1), ("weir/c/members/0", 0)];
    for (other, slot) in keys {
        let (mut desk, copy) = desk_with_copy();
        let mut back = desk.nodes[slot].seat().unwrap().clone();
        back.incarnation = Incarnation(7);
        let named =
            NamedCopy { name: "b".into(), copy: LogCopy { keepers: vec![], ..copy.clone() } };
        let value = if other.contains("copies") { named.to_bytes() } else { back.to_bytes() };
        desk.cut(1);
        desk.until(seconds(18));
        let differed = desk.nodes[0].counts().differed;
        // It is back, has another keeper, or the keeper is no member itself.
        desk.meddler = Some(("weir/c/copies/1", other, value));
        assert_eq!(open(&mut desk, 0, 1), Ok(()));
        assert!(desk.meddler.is_none());
        assert_eq!(desk.nodes[0].counts().differed, differed + 1, "{other}");
        desk.until(seconds(19));
        assert_eq!(desk.nodes[0].log_copy(Slot(1)).unwrap().state, CopyState::Kept, "{other}");
        let refused = open(&mut desk, 0, 1).unwrap_err();
        let is_back = other == "weir/c/members/1";
        assert_eq!(refused, if is_back { NotOpened::IsMember } else { NotOpened::NotKeeper });
    }
}

#[test]
fn without_a_seat_nobody_names_a_keeper() {
    let (mut desk, copy) = desk_with_copy();
    let written = copy_at(&desk);
    // It does not know yet that it is no member any more.
    let mut other = desk.nodes[1].seat().unwrap().clone();
    other.incarnation = Incarnation(7);
    desk.meddler = Some(("weir/c/copies/1", "weir/c/members/1", other.to_bytes()));
    assert_eq!(keep(&mut desk, 1, &[]), Ok(()));
    assert_eq!((desk.nodes[1].counts().differed, copy_at(&desk)), (1, written));
    desk.until(seconds(11));
    assert!(desk.nodes[1].seat().is_none());
    assert_eq!(keep(&mut desk, 1, &[]), Err(Busy));

    let (mut desk, _) = desk_with_copy();
    desk.cut(1);
    // Its fence has come, and nobody has told it.
    desk.now = seconds(15);
    assert_eq!(keep(&mut desk, 1, &[]), Err(Busy));
    desk.until(seconds(17));
    assert_eq!((keep(&mut desk, 1, &[]), copy_at(&desk)), (Err(Busy), written));
    // Nor does a keeper open anything while it is fenced.
    desk.cut(0);
    desk.now = seconds(30);
    assert_eq!(open(&mut desk, 0, 1), Err(NotOpened::Busy));
    assert_eq!(desk.nodes[0].log_copy(Slot(1)), Some(&copy));
}

#[test]
fn a_garbled_copy_is_none_until_its_owner_writes_another() {
    let (mut desk, copy) = desk_with_copy();
    drop((desk.take(0), desk.take(1)));
    let key = "weir/c/copies/1".to_owned();
    desk.write(&key, Some(b"\x00garbled"));
    for at in [0, 1] {
        assert_eq!(desk.take(at), [Event::Notice(Notice::Garbled { key: key.clone() })]);
        assert_eq!(desk.nodes[at].log_copy(Slot(1)), None);
    }
    assert_eq!(keep(&mut desk, 1, &copy.keepers), Ok(()));
    assert_eq!(desk.nodes[0].log_copy(Slot(1)), Some(&copy));
    desk.write(&key, None);
    assert_eq!(desk.nodes[0].log_copy(Slot(1)), None);
    assert_eq!(keep(&mut desk, 1, &copy.keepers), Ok(()));
    assert_eq!(desk.nodes[0].log_copy(Slot(1)), Some(&copy));
}

#[test]
fn a_copy_of_a_node_that_had_the_slot_before_is_none() {
    let (mut desk, _) = desk_with_copy();
    desk.with(1, Members::leave);
    desk.exchange();
    assert_eq!(open(&mut desk, 0, 1), Ok(()));
    assert_eq!(desk.nodes[0].log_copy(Slot(1)).unwrap().state, CopyState::Opened);
    desk.with(0, |members, now, sink| members.forget("b", now, sink)).unwrap();
    desk.exchange();
    let other = desk.add("other");
    desk.until(seconds(12));
    assert_eq!(desk.place(other).slot, Slot(1));
    for at in [0, other] {
        assert_eq!(desk.nodes[at].log_copy(Slot(1)), None);
    }
    let keeper = desk.nodes[0].own_seat().unwrap();
    assert_eq!(keep(&mut desk, other, &[keeper]), Ok(()));
    assert_eq!(desk.nodes[0].log_copy(Slot(1)).unwrap().owner, desk.nodes[other].incarnation);
    // Without a member, it is whose the place is.
    desk.with(other, Members::leave);
    desk.exchange();
    assert!(desk.nodes[0].log_copy(Slot(1)).is_some());
    let mut places = desk.nodes[0].places().cloned().collect::<Vec<_>>();
    places.last_mut().unwrap().name = "third".into();
    let places = places.into_iter().fold(Places::default(), |all, place| all.with(place));
    desk.write("weir/c/places", Some(&places.to_bytes()));
    assert_eq!(desk.nodes[0].log_copy(Slot(1)), None);
}

#[test]
fn a_stand_in_whose_keeper_has_not_opened_the_copy_has_no_place() {
    let (mut desk, _, keepers) = lost_with_two_keepers();
    assert_eq!(open(&mut desk, 0, 1), Ok(()));
    for (keeper, is_seated) in [(keepers[1], false), (keepers[0], true)] {
        let settings = MembersSettings { keeper: Some(keeper.0), ..settings("b") };
        desk.nodes.push(Members::new(settings, 1).unwrap());
        desk.events.push(Vec::new());
        let at = desk.nodes.len() - 1;
        desk.with(at, Members::handle_timeout);
        desk.exchange();
        assert_eq!(desk.nodes[at].seat().is_some(), is_seated);
    }
}

#[test]
fn a_stand_in_says_that_it_is_one() {
    let mut desk = Desk::new(&["a"]);
    let settings = MembersSettings { keeper: Some(Slot(0)), ..settings("b") };
    desk.nodes.push(Members::new(settings, 1).unwrap());
    desk.events.push(Vec::new());
    desk.with(1, Members::handle_timeout);
    desk.exchange();
    let are: Vec<bool> = desk.nodes[0].nodes().map(|node| node.is_stand_in).collect();
    assert_eq!(are, [false, true]);
}

/// The node is started anew, and its disk has what it kept in these memberships.
fn start_again(desk: &mut Desk, at: usize, name: &str, former: Vec<Incarnation>) {
    let settings = MembersSettings { former, ..settings(name) };
    desk.nodes[at] = Members::new(settings, 70 + at as u64).unwrap();
    desk.cut.remove(&at);
    desk.with(at, Members::handle_timeout);
    desk.exchange();
}

#[test]
fn a_keeper_that_was_started_anew_opens_what_its_disk_has() {
    for has_disk in [true, false] {
        let (mut desk, copy) = desk_with_copy();
        let (slot, before) = copy.keepers[0];
        assert_eq!(desk.add("c"), LATE);
        [0, 1].into_iter().for_each(|at| desk.cut(at));
        desk.until(seconds(20));
        assert!(desk.nodes[LATE].is_any_apart() && desk.nodes[LATE].lost().next().is_none());
        // What it kept for nobody is nobody's concern.
        let former = if has_disk { vec![Incarnation(7), before] } else { Vec::new() };
        start_again(&mut desk, 0, "a", former);
        let node = desk.nodes[0].seat().unwrap();
        let own = (slot, node.incarnation);
        assert_eq!(node.former, if has_disk { vec![before] } else { Vec::new() });
        assert_eq!(desk.nodes[LATE].opener(Slot(1)), has_disk.then_some(own));
        assert_eq!(desk.nodes[LATE].is_any_apart(), !has_disk);
        let opened = if has_disk { Ok(()) } else { Err(NotOpened::NotKeeper) };
        assert_eq!(open(&mut desk, 0, 1), opened);
        if !has_disk {
            continue;
        }
        let state = CopyState::Opened;
        let wanted = LogCopy { keepers: vec![own], state, ..copy.clone() };
        assert_eq!(desk.nodes[LATE].log_copy(Slot(1)), Some(&wanted));
        // It is lost while it serves it, and goes on.
        desk.cut(0);
        desk.until(seconds(40));
        start_again(&mut desk, 0, "a", vec![before, own.1]);
        assert_eq!(desk.nodes[0].seat().unwrap().former, [own.1]);
        assert_eq!((open(&mut desk, 0, 1), close(&mut desk, 0, 1)), (Ok(()), Ok(())));
        assert!(!desk.nodes[LATE].is_any_apart());
    }
}

#[test]
fn an_owner_is_back_before_a_keeper_of_before_opens_its_copy() {
    let (mut desk, copy) = desk_with_copy();
    [0, 1].into_iter().for_each(|at| desk.cut(at));
    desk.until(seconds(20));
    start_again(&mut desk, 0, "a", vec![copy.keepers[0].1]);
    start_again(&mut desk, 1, "b", Vec::new());
    assert!(desk.nodes[1].seat().is_some());
    assert_eq!(open(&mut desk, 0, 1), Err(NotOpened::IsMember));
    assert_eq!(keep(&mut desk, 1, &[]), Ok(()));
    assert_eq!(desk.nodes[0].opener(Slot(1)), None);
}
