//! How many hashes a test has a thread make: that a user is there must not be seen by the time that
//! an answer takes, and a clock would tell too little.

use std::cell::Cell;

thread_local! {
    static HASHES: Cell<usize> = const { Cell::new(0) };
}

/// A hash is made.
pub(super) fn note() {
    HASHES.set(HASHES.get() + 1);
}

/// What `act` returns, and how many hashes it took.
pub(super) fn during<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = HASHES.get();
    let result = act();
    (result, HASHES.get() - before)
}
