//! What is kept of runs: judged, compared, exported, shown.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod fixture;

mod browser;
mod cells;
mod compare;
mod export;
mod ladder;
mod look;
mod report;
mod usecases;
mod verdicts;
