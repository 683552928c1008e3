//! From the clock of the reactors to the one on the wall, by which records have their times.

use std::time::{SystemTime, UNIX_EPOCH};
use weir_core::{Micros, Wall};

/// Times of a store that is read are those of the clock on the wall: microseconds since 1970.
pub(super) const WALL: Wall = Wall(0);

/// Microseconds since 1970.
pub(crate) fn wall_now() -> Micros {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Micros(wall.as_micros() as u64)
}

/// From the clock of the reactors to the one on the wall.
pub(crate) fn wall(now: Micros) -> Wall {
    Wall(wall_now().0 as i64 - now.0 as i64)
}
