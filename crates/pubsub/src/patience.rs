//! How long a broker is waited for that owes an answer, and answers nothing but pings.

/// Watches that something goes on while an answer is owed.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Without it, there is no end.
    max_us: Option<u64>,
    /// Answers so far, and bytes that wait to be sent, while an answer is owed.
    seen: Option<(u64, usize)>,
    due_us: Option<u64>,
}

impl Patience {
    /// Zero seconds is no bound.
    pub(crate) fn new(max_s: u32) -> Self {
        let max_us = (max_s > 0).then_some(u64::from(max_s) * 1_000_000);
        Self { max_us, seen: None, due_us: None }
    }

    /// Says whether it is at its end: nothing has changed for too long.
    pub(crate) fn look(&mut self, seen: Option<(u64, usize)>, now_us: u64) -> bool {
        if self.seen != seen {
            self.seen = seen;
            self.due_us = seen.and(self.max_us).map(|max_us| now_us + max_us);
        }
        self.due_us.is_some_and(|due_us| due_us <= now_us)
    }

    /// When to look again.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        self.due_us
    }
}
