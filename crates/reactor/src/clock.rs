//! The clock of the shells.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the monotonic clock. All processes of one host share it, so a time taken in
/// one can be subtracted from a time taken in another.
pub fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}
