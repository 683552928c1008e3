//! What the stream of events amounts to: the one model that the lines, the screen, the page and
//! the metrics are drawn from. A value: time comes with the events.

use super::events::{Cell, Ended, Event, Mark, PhaseBegun, PhaseLength, Started};
use crate::result::SeriesRow;
use crate::result::series::{Figure, Kind, SERIES};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Rows kept of the run under way; the oldest go first. The result has all of them.
pub const ROWS_MAX: usize = 3_600;

/// Marks kept of the run under way; the oldest go first.
pub const MARKS_MAX: usize = 200;

/// Runs of a command that are listed; the rest is run all the same.
pub const CELLS_MAX: usize = 2_000;

/// A command and the run under way, so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    /// The runs of the command, in order.
    pub cells: Vec<CellState>,
    /// The run under way, or the last one.
    pub run: Option<Run>,
}

/// A run of the command.
#[derive(Clone, Debug, Serialize)]
pub struct CellState {
    /// Which.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whether it has begun.
    pub is_begun: bool,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// The run under way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// What was known before.
    pub started: Started,
    /// Phases begun, the last one lasts.
    pub phases: Vec<PhaseBegun>,
    /// The newest rows, oldest first.
    pub rows: VecDeque<SeriesRow>,
    /// The newest marks.
    pub marks: VecDeque<Mark>,
    /// Sums from the run's begin.
    pub totals: Totals,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// Sums from the run's begin: of every rate and count of an interval, by its name without the
/// unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Totals(BTreeMap<&'static str, u64>);

impl Totals {
    /// The sum of a figure; 0 before the first interval.
    pub fn of(&self, figure: &Figure<SeriesRow>) -> u64 {
        self.0.get(figure.total_name()).copied().unwrap_or(0)
    }

    fn add(&mut self, row: &SeriesRow, seconds: f64) {
        for figure in SERIES.iter().filter(|figure| figure.is_summed()) {
            let value = (figure.of)(row).unwrap_or(0.0);
            let count = if figure.kind == Kind::Rate { value * seconds } else { value };
            *self.0.entry(figure.total_name()).or_default() += count.round() as u64;
        }
    }
}

impl State {
    /// Notes what happened.
    pub fn handle(&mut self, event: &Event) {
        match event {
            Event::Planned(cells) => self.plan(cells),
            Event::Started(started) => self.start(started),
            Event::Ended(ended) => self.end(ended),
            Event::Phase(phase) => {
                if let Some(run) = &mut self.run {
                    run.phases.push(*phase);
                }
            }
            Event::Interval(row) => {
                if let Some(run) = &mut self.run {
                    run.interval(row);
                }
            }
            Event::Over => {}
            Event::Mark(mark) => {
                if let Some(run) = &mut self.run {
                    push_bounded(&mut run.marks, mark.clone(), MARKS_MAX);
                }
            }
        }
    }

    /// The cell under way, counted from 1, if a run lasts.
    pub fn cell_number(&self) -> Option<usize> {
        let is_running = |cell: &CellState| cell.is_begun && cell.ended.is_none();
        self.cells.iter().position(is_running).map(|at| at + 1)
    }

    /// What runs next.
    pub fn next(&self) -> Option<&Cell> {
        self.cells.iter().find(|cell| !cell.is_begun).map(|cell| &cell.cell)
    }

    fn plan(&mut self, cells: &[Cell]) {
        let of = |cell: &Cell| CellState { cell: cell.clone(), is_begun: false, ended: None };
        self.cells = cells.iter().take(CELLS_MAX).map(of).collect();
    }

    fn start(&mut self, started: &Started) {
        let cell = Cell { use_case: started.use_case.clone(), broker: started.driver.clone() };
        let is_next = |known: &CellState| !known.is_begun && known.cell == cell;
        match self.cells.iter().position(is_next) {
            Some(at) => self.cells[at].is_begun = true,
            None if self.cells.len() < CELLS_MAX => {
                self.cells.push(CellState { cell, is_begun: true, ended: None });
            }
            None => {}
        }
        self.run = Some(Run { started: started.clone(), ..Run::default() });
    }

    fn end(&mut self, ended: &Ended) {
        if let Some(run) = &mut self.run {
            run.ended = Some(ended.clone());
        }
        let of_run = self.cells.iter_mut().rfind(|cell| cell.is_begun && cell.ended.is_none());
        if let Some(cell) = of_run {
            cell.ended = Some(ended.clone());
        }
    }
}

impl Run {
    /// The newest row.
    pub fn row(&self) -> Option<&SeriesRow> {
        self.rows.back()
    }

    /// The phase under way: its plan, and how long it has lasted.
    pub fn phase(&self) -> Option<(&PhaseLength, f64)> {
        let begun = self.phases.last()?;
        let length = self.started.phases.iter().find(|length| length.name == begun.name)?;
        let now_s = self.row().map_or(begun.t_s, |row| row.t_s);
        Some((length, (now_s - begun.t_s).max(0.0)))
    }

    /// Seconds that the phase under way will still take, where that is known.
    pub fn left_s(&self) -> Option<f64> {
        let (phase, elapsed_s) = self.phase()?;
        phase.length_s.map(|length_s| (length_s - elapsed_s).max(0.0))
    }

    /// Whether messages move, or clients only connect.
    pub fn has_messages(&self) -> bool {
        self.started.publish_rate_per_s > 0.0
    }

    fn interval(&mut self, row: &SeriesRow) {
        let seconds = row.t_s - self.row().map_or(0.0, |before| before.t_s);
        self.totals.add(row, seconds);
        push_bounded(&mut self.rows, row.clone(), ROWS_MAX);
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, max: usize) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_run_is_matched_with_its_cell_in_order() {
        let mut state = State::default();
        let events = sample::events(3);
        for event in &events[..2] {
            state.handle(event);
        }
        assert_eq!((state.cells.len(), state.cell_number()), (3, Some(1)));
        assert_eq!(state.next().unwrap().broker, "mosquitto");
        for event in &events[2..] {
            state.handle(event);
        }
        state.handle(&sample::ended());
        assert_eq!(state.cell_number(), None);
        assert!(state.cells[0].ended.is_some() && state.cells[1].ended.is_none());
        // One that nobody planned is listed too.
        let unplanned = Started { driver: "other".into(), ..Started::default() };
        state.handle(&Event::Started(Box::new(unplanned)));
        assert_eq!((state.cells.len(), state.cell_number()), (4, Some(4)));
    }

    #[test]
    fn totals_are_counts_again_and_rows_are_bounded() {
        let mut state = State::default();
        for event in sample::events(ROWS_MAX + 5) {
            state.handle(&event);
        }
        let run = state.run.unwrap();
        assert_eq!(run.rows.len(), ROWS_MAX);
        assert_eq!(run.totals.0["published"], 1_000 * (ROWS_MAX as u64 + 5));
    }

    #[test]
    fn what_is_left_of_a_phase_counts_from_its_begin() {
        let mut state = State::default();
        for event in sample::events(4) {
            state.handle(&event);
        }
        let run = state.run.unwrap();
        assert_eq!(
            run.phase().map(|(phase, elapsed_s)| (phase.name, elapsed_s)),
            Some(("measure", 3.0))
        );
        assert_eq!(run.left_s(), Some(7.0));
    }
}
