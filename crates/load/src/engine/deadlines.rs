//! Clients whose answers are awaited, by when they have to have come.

use std::collections::VecDeque;

/// Every client has the same time, so that the first to wait is the first to be late.
#[derive(Debug, Default)]
pub(super) struct Deadlines(VecDeque<(u64, u32)>);

impl Deadlines {
    pub(super) fn push(&mut self, due_us: u64, client: u32) {
        self.0.push_back((due_us, client));
    }

    /// Forgets the clients that nothing is awaited of any longer.
    pub(super) fn keep(&mut self, mut is_waiting: impl FnMut(u32) -> bool) {
        self.0.retain(|&(_, client)| is_waiting(client));
    }

    /// Takes a client that is late.
    pub(super) fn take_late(&mut self, now_us: u64) -> Option<u32> {
        let &(due_us, client) = self.0.front()?;
        (due_us <= now_us).then(|| {
            self.0.pop_front();
            client
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_not_answered_by_then_is_late() {
        let mut deadlines = Deadlines::default();
        (0..4).for_each(|client| deadlines.push(10 * u64::from(client), client));
        deadlines.keep(|client| client != 1);
        assert_eq!(deadlines.take_late(20), Some(0));
        assert_eq!(deadlines.take_late(20), Some(2));
        assert_eq!((deadlines.take_late(20), deadlines.len()), (None, 1));
    }
}
