use super::*;
use crate::live::sample;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// The picture as text, a line a row.
fn picture(state: &State, width: u16, height: u16, said: &str) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, said, false)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

fn state(rows: usize) -> State {
    let mut state = State::default();
    sample::events(rows).iter().for_each(|event| state.handle(event));
    state
}

fn assert_has(picture: &str, parts: &[&str]) {
    for part in parts {
        assert!(picture.contains(part), "{part} is missing in:\n{picture}");
    }
}

#[test]
fn a_wide_screen_shows_charts_figures_marks_and_the_runs() {
    let text = picture(&state(4), 140, 40, "");
    assert_has(
        &text,
        &[
            "weir bench 1/3 singlenode-p2p-1K-1K-1K-1K on Weir 0.1.0",
            "7 s left",
            "latency from the intended time",
            "messages per second",
            "deliveries outstanding",
            "CPU in cores",
            "broker's memory",
            "2000 of 2000",
            "out 1000 of 1000  in 990 of 1000",
            "120 us  300 us",
            "0.25 cores, 12.0 MB",
            "healthy: 0.21 cores, lag 40 us",
            "3 threads, 2030 files",
            "0.75 cores, 1500 switches/s",
            "broker frozen",
            "> p2p-1K-1K-1K-1K weir",
            "q stop cleanly   next: p2p-1K-1K-1K-1K on mosquitto",
        ],
    );
}

#[test]
fn a_screen_of_80_columns_has_all_figures_too() {
    let text = picture(&state(4), 80, 24, "a warning\u{1b}[2J");
    let parts = ["p99 max", "broker", "healthy", "messages per second", "a warning?[2J"];
    assert_has(&text, &parts);
}

#[test]
fn no_terminal_is_too_small_to_be_drawn_on() {
    for (width, height) in [(1, 1), (10, 3), (30, 8), (200, 5), (111, 2)] {
        picture(&state(2), width, height, "said");
        picture(&State::default(), width, height, "");
    }
}

#[test]
fn a_late_generator_and_what_went_wrong_are_named() {
    let mut state = state(3);
    let mut row = sample::row(4);
    (row.generator_lag_p99_us, row.reordered, row.connect_failures) = (90_000, 3, 2);
    state.handle(&crate::live::events::Event::Interval(Box::new(row)));
    let text = picture(&state, 140, 40, "");
    assert_has(&text, &["late: 0.21 cores, lag 90 ms", "2 connections, 3 reordered"]);
}

#[test]
fn a_run_that_ended_is_listed_with_its_verdict() {
    let mut state = state(4);
    state.handle(&sample::ended());
    assert_has(&picture(&state, 140, 40, ""), &["x p2p-1K-1K-1K-1K weir 950 us"]);
}

/// Pictures that somebody has looked at. After a change that is meant,
/// `KEEP=1 cargo test -p weir-bench --lib pictures` keeps the new ones: look at the difference.
fn assert_kept(name: &str, picture: &str) {
    let path = format!("{}/tests/data/screens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let picture: String = picture.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if std::env::var_os("KEEP").is_some() {
        std::fs::write(&path, &picture).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(picture == kept, "{name} is now\n{picture}\nand was\n{kept}");
}

#[test]
fn pictures_are_as_they_were_looked_at() {
    let rising = |rows: usize| {
        let mut state = state(0);
        for at in 1..=rows {
            let mut row = sample::row(at);
            let factor = at as f64;
            row.received_per_s = 100.0 * factor;
            row.published_per_s = 120.0 * factor;
            row.latency_p50_us = 100 * at as u64;
            row.latency_p99_us = 1_000 * (at * at) as u64;
            row.latency_max_us = 2_000 * (at * at) as u64;
            row.outstanding = 7 * at as u64;
            row.broker_cpu_user_cores = 0.1 * factor;
            row.broker_rss_bytes = 3_000_000 * at as u64;
            state.handle(&crate::live::events::Event::Interval(Box::new(row)));
        }
        state
    };
    assert_kept("wide", &picture(&rising(8), 140, 40, ""));
    assert_kept("narrow", &picture(&rising(8), 80, 24, "a warning"));
    let mut ended = rising(3);
    ended.handle(&sample::ended());
    assert_kept("ended", &picture(&ended, 120, 30, ""));
    assert_kept("before", &picture(&State::default(), 80, 10, ""));
}

#[test]
fn the_run_under_way_stands_in_the_middle_of_a_list_that_is_longer_than_the_screen() {
    let cell = |at: usize| crate::live::events::Cell {
        use_case: format!("case-{at}"),
        broker: "weir".into(),
    };
    let mut state = State::default();
    state.handle(&crate::live::events::Event::Planned((0..40).map(cell).collect()));
    for at in 0..40 {
        state.cells[at].is_begun = at <= 20;
    }
    let shown = |state: &State, room| cells(state, room).iter().map(Line::to_string).collect();
    let lines: Vec<String> = shown(&state, 9);
    assert_eq!((lines.len(), &*lines[4]), (9, "> case-20 weir"), "{lines:?}");
    // At both ends no line stays empty.
    state.cells.iter_mut().for_each(|cell| cell.is_begun = true);
    assert_eq!(shown(&state, 9).last().map(String::as_str), Some("> case-39 weir"));
    state.cells.iter_mut().skip(1).for_each(|cell| cell.is_begun = false);
    assert_eq!(shown(&state, 9).first().map(String::as_str), Some("> case-0 weir"));
}

#[test]
fn the_title_is_never_cut_where_leaving_out_the_address_makes_room() {
    let state = state(4);
    let first = |width| picture(&state, width, 24, "").lines().next().unwrap().trim().to_owned();
    let (whole, shorter) = (first(140), first(80));
    assert!(whole.ends_with("127.0.0.1:1883 (default)"), "{whole}");
    assert_eq!(shorter, "weir bench 1/3 p2p-1K-1K-1K-1K on Weir 0.1.0  127.0.0.1:1883 (default)");
    assert_eq!(first(60), "weir bench 1/3 p2p-1K-1K-1K-1K on Weir 0.1.0");
}
