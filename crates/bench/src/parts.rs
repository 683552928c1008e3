//! What a benchmark beside the suite's own stands on: the one door of the benchmark of client
//! stacks into the rest of the crate.

pub use crate::{
    driver, folder, host, interrupt, ladder, latency, monitor, numbers, page, repeat, result,
    slope, stats,
};
