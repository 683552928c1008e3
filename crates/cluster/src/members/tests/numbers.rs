//! What nodes number is higher in each membership, whatever their clocks say.

use super::*;

/// A node whose clock shows this time. Returns where its shards begin to number.
fn begin(desk: &mut Desk, name: &str, number_min: u64, is_stand_in: bool) -> (usize, u64) {
    let at = desk.nodes.len();
    let keeper = is_stand_in.then_some(Slot(0));
    let settings = MembersSettings { number_min, keeper, ..settings(name) };
    desk.nodes.push(Members::new(settings, at as u64).unwrap());
    desk.events.push(Vec::new());
    desk.with(at, Members::handle_timeout);
    desk.exchange();
    desk.until(desk.now + seconds(1));
    (at, desk.place(at).number)
}

fn end(desk: &mut Desk, at: usize) {
    desk.with(at, Members::leave);
    desk.exchange();
    desk.until(desk.now + seconds(1));
}

#[test]
fn a_node_whose_clock_was_set_back_numbers_behind_what_it_numbered() {
    let mut desk = Desk::new(&[]);
    let (at, first) = begin(&mut desk, "a", 9_000_000, false);
    assert!((9_000_000..20_000_000).contains(&first), "as nodes of before begin");
    end(&mut desk, at);
    let (_, second) = begin(&mut desk, "a", 2_000_000, false);
    assert!(second > first + 1_000_000_000, "{second}");
}

#[test]
fn a_node_numbers_behind_its_stand_in_whose_clock_was_ahead() {
    let mut desk = Desk::new(&[]);
    let (at, own) = begin(&mut desk, "a", 9_000_000, false);
    end(&mut desk, at);
    let (at, of_stand_in) = begin(&mut desk, "a", 3_600_000_000_000, true);
    assert!(of_stand_in > own);
    end(&mut desk, at);
    let (_, again) = begin(&mut desk, "a", 10_000_000, false);
    assert!(again > of_stand_in + 1_000_000_000, "{again}");
}

#[test]
fn of_two_nodes_of_one_name_the_second_numbers_behind_the_first() {
    let mut desk = Desk::new(&[]);
    let (one, first) = begin(&mut desk, "a", 9_000_000, false);
    let other = desk.add("a");
    desk.until(desk.now + seconds(2));
    end(&mut desk, one);
    assert!(desk.place(other).number > first);
}

#[test]
fn a_member_that_was_cut_off_numbers_anew_when_it_is_one_again() {
    let mut desk = Desk::new(&[]);
    let (at, first) = begin(&mut desk, "a", 9_000_000, false);
    desk.cut(at);
    desk.until(seconds(20));
    desk.cut.clear();
    desk.until(seconds(30));
    assert!(desk.place(at).number > first);
}

#[test]
fn who_gets_the_ids_of_a_node_that_was_forgotten_numbers_behind_it() {
    let mut desk = Desk::new(&[]);
    let (one, _) = begin(&mut desk, "a", 5_000_000, false);
    let (other, number) = begin(&mut desk, "b", 3_600_000_000_000, false);
    end(&mut desk, other);
    assert_eq!(desk.with(one, |members, now, sink| members.forget("b", now, sink)), Ok(()));
    desk.exchange();
    let (new, again) = begin(&mut desk, "c", 6_000_000, false);
    assert_eq!(desk.place(new).slot, Slot(1));
    assert!(again > number, "{again}");
}

#[test]
fn nodes_that_begin_at_once_all_have_their_places() {
    let mut desk = Desk::new(&[]);
    for name in ["a", "b", "c"] {
        desk.nodes.push(Members::new(settings(name), desk.nodes.len() as u64).unwrap());
        desk.events.push(Vec::new());
    }
    desk.until(seconds(2));
    assert!(desk.nodes.iter().all(|node| node.seat().is_some()));
}
