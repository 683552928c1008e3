//! What repeats say: medians, intervals of a ratio, verdicts. Values in, values out.
//!
//! The method and its reasons are in docs/adr/0013-verdicts.md. Nothing here knows what a run or a
//! broker is: the suite's comparisons and the house's own measurements call it.

mod interval;
mod spread;
mod student;
mod verdict;

pub use interval::{Interval, RESAMPLES, Ratio, paired, unpaired};
pub use spread::Spread;
pub use student::two_sided;
pub use verdict::{Better, REPEATS_MIN, Standing, judge};
