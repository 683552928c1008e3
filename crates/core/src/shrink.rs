//! Memory given back: what is under a quarter full shrinks to half full, so that a shrinking costs
//! no more than the removals before it.

use hashbrown::HashTable;
use std::collections::VecDeque;

/// Smaller ones stay as they are.
const KEPT: usize = 64;

/// After a removal from a table.
#[inline]
pub(crate) fn table<T>(table: &mut HashTable<T>, hasher: impl Fn(&T) -> u64) {
    if table.capacity() > KEPT && table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2, hasher);
    }
}

/// After a removal from a queue.
pub(crate) fn queue<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > KEPT && queue.len() < queue.capacity() / 4 {
        queue.shrink_to(queue.len() * 2);
    }
}

/// After a removal from a list.
#[inline]
pub(crate) fn list<T>(list: &mut Vec<T>) {
    if list.capacity() > KEPT && list.len() < list.capacity() / 4 {
        list.shrink_to(list.len() * 2);
    }
}
