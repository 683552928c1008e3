//! The highest rate, or number of clients, at which a broker meets an objective.
//!
//! `search` says which step is next, as a value; `rung` makes a use case of a step; `run` runs it.
//! A step is a run like any other, with a folder of its own. Called by `weir bench ladder`.

mod chart;
mod objective;
mod page;
mod record;
mod run;
mod rung;
mod search;
mod table;

pub use objective::{Objective, ObjectiveError};
pub use page::html;
pub use record::{Ladder, LadderStep, Limits, SCHEMA};
pub use run::{Climb, LadderOptions};
pub use rung::What;
pub use search::{Ending, Knee, Next, Purpose, Search, Seen};
pub use table::{apart, render, step_line};
