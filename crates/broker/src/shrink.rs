//! Memory of tables that had many entries once, given back.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::Hash;

/// Entries for which a table or list keeps its memory.
pub(crate) const KEPT: usize = 1024;

/// Whether so little of its memory is used that half of the rest may go: seldom, so that it costs
/// no more than the removals before it.
pub(crate) fn is_roomy(len: usize, capacity: usize) -> bool {
    capacity > KEPT && len < capacity / 4
}

/// Gives some back, if there is enough of it.
pub(crate) fn table<K: Eq + Hash, V>(table: &mut HashMap<K, V, RandomState>) {
    if is_roomy(table.len(), table.capacity()) {
        table.shrink_to(table.len() * 2);
    }
}
