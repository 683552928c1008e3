//! The books of traces, without shards.

use super::*;

fn of(name: &str) -> TraceOf {
    TraceOf { kind: "client".into(), name: name.into() }
}

fn trace(id: u64, bytes_max: usize) -> Trace {
    Trace {
        id,
        of: of("c"),
        began: Instant::now(),
        length: Duration::from_secs(60),
        bytes_max,
        lines: Vec::new(),
        bytes: 0,
        dropped: 0,
        phase: Phase::GoesOn,
        is_deleted: false,
    }
}

fn event(traces: u8, at: &str) -> TraceEvent {
    TraceEvent {
        traces,
        at: at.into(),
        direction: "in",
        client_id: Some("c".into()),
        user: None,
        address: None,
        packet: "PINGREQ",
        bytes: 2,
        fields: Map::new(),
    }
}

#[test]
fn events_go_to_their_traces_in_the_order_of_their_times() {
    let mut book = Book {
        traces: [Some(trace(1, 10_000)), Some(trace(2, 10_000)), None, None],
        ..Book::default()
    };
    let shard = |events: Vec<TraceEvent>| Traced { events, dropped: [1, 0, 9, 0] };
    book.take(vec![
        shard(vec![event(1, "b"), event(3, "d")]),
        shard(vec![event(2, "a"), event(1, "c")]),
    ]);
    let lines = |slot: usize| -> Vec<(u64, String)> {
        let lines = &book.traces[slot].as_ref().unwrap().lines;
        let parsed = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        parsed
            .map(|it| (it["seq"].as_u64().unwrap(), it["at"].as_str().unwrap().to_owned()))
            .collect()
    };
    assert_eq!(lines(0), [(1, "b".into()), (2, "c".into()), (3, "d".into())]);
    assert_eq!(lines(1), [(1, "a".into()), (2, "d".into())]);
    assert_eq!(book.traces[0].as_ref().unwrap().dropped, 2);
}

#[test]
fn the_line_that_has_no_room_ends_a_trace() {
    let mut trace = trace(1, 500);
    (0..100).for_each(|_| trace.push(&event(1, "t")));
    let shown = trace.shown(Instant::now());
    assert_eq!(shown.ended.as_deref(), Some("size"));
    assert!(shown.bytes <= 500 && (3..10).contains(&shown.events), "{shown:?}");
}

#[test]
fn shards_hear_of_the_beginning_and_the_end_until_they_have_heard() {
    let traces = [None, Some(Trace { phase: Phase::New, ..trace(7, 500) }), None, None];
    let (mut book, now) = (Book { traces, ..Book::default() }, Instant::now());
    let begins = [(7, TraceWish::Start { slot: 1, of: of("c") })];
    assert_eq!(book.wishes(now), begins);
    assert_eq!(book.wishes(now), begins, "nobody has heard");
    book.heard(7, true);
    assert_eq!(book.wishes(now), []);
    let later = now + Duration::from_secs(61);
    let ends = (7, TraceWish::Stop { slot: 1 });
    assert_eq!(book.wishes(later), [ends]);
    assert!(!book.is_at_rest());
    book.heard(7, false);
    assert!(book.wishes(later).is_empty() && book.is_at_rest());
    assert_eq!(book.traces[1].as_ref().unwrap().ended(), Some("time"));
}

#[test]
fn one_that_is_deleted_keeps_its_place_until_the_shards_have_heard() {
    let traces = Traces::default();
    traces.book().traces[2] = Some(trace(7, 500));
    assert!(traces.end(7) && !traces.end(7) && traces.one(7).is_none());
    assert!(traces.lines(7, 0, 1).is_none());
    assert_eq!(traces.book().wishes(Instant::now()), [(7, TraceWish::Stop { slot: 2 })]);
    traces.book().heard(7, false);
    assert!(traces.book().traces[2].is_none());
}

#[test]
fn the_oldest_that_has_ended_gives_its_place() {
    let ended = |id| Some(Trace { phase: Phase::Stopped("time"), ..trace(id, 1) });
    let going = |id| Some(trace(id, 1));
    let slot = |traces| Book { traces, ..Book::default() }.free_slot();
    assert_eq!(slot([going(1), None, ended(2), None]), Some(1));
    assert_eq!(slot([going(1), ended(4), ended(3), going(2)]), Some(2));
    assert_eq!(slot([going(1), going(2), going(3), going(4)]), None);
}

#[test]
fn lines_come_in_pages_behind_a_number() {
    let traces = Traces::default();
    let mut one = trace(7, 10_000);
    (0..5).for_each(|_| one.push(&event(1, "t")));
    traces.book().traces[0] = Some(one);
    let page = |after, bytes_max| {
        let Lines { text, is_over } = traces.lines(7, after, bytes_max).unwrap();
        (text.lines().count(), is_over)
    };
    assert_eq!(
        (page(0, 10_000), page(3, 10_000), page(9, 10_000)),
        ((5, false), (2, false), (0, false))
    );
    assert_eq!(page(0, 1), (1, false));
    traces.book().traces[0].as_mut().unwrap().phase = Phase::Stopped("time");
    assert_eq!((page(0, 1), page(4, 1), page(5, 1)), ((1, false), (1, true), (0, true)));
}
