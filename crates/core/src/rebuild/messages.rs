//! The messages that records may refer to: mostly one at a time, and all of a base.

use crate::keys::Lsn;
use crate::message::Message;
use std::sync::Arc;

/// Messages by the places of their records, which come in order.
#[derive(Debug, Default)]
pub(super) struct Messages(Vec<(Lsn, Arc<Message>)>);

impl Messages {
    /// Places come in order; one that does not is none that a record can name.
    pub(super) fn add(&mut self, lsn: Lsn, message: Arc<Message>) {
        if self.0.last().is_none_or(|&(last, _)| last < lsn) {
            self.0.push((lsn, message));
        }
    }

    pub(super) fn of(&self, lsn: Lsn) -> Option<&Arc<Message>> {
        match self.0.last() {
            Some((last, message)) if *last == lsn => Some(message),
            _ => {
                let at = self.0.binary_search_by_key(&lsn, |&(lsn, _)| lsn);
                at.ok().map(|at| &self.0[at].1)
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
