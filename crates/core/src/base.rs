//! A base on its way: how far a shard has logged anew what is there.

use crate::keys::Lsn;
use crate::message::Message;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// How far a base has come.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// Its first record: sessions that are named before it are to be logged anew.
    pub(crate) base: Lsn,
    /// The base of the start: what was restored has been logged then.
    pub(crate) is_first: bool,
    /// The place of the next session to look at.
    pub(crate) session: usize,
    /// The last retained message that was looked at.
    pub(crate) retained: Option<Arc<Message>>,
    pub(crate) renamed: Renamed,
    /// The marks of mailed messages are logged.
    pub(crate) has_marks: bool,
    /// The last mailed message that was logged.
    pub(crate) mailed: Lsn,
    /// It goes on when this record is committed, so that no more than a slice of it waits for the
    /// disk; nothing if it has its turn without that.
    pub(crate) goes_on_at: Option<Lsn>,
}

impl Cycle {
    pub(crate) fn new(base: Lsn, is_first: bool) -> Self {
        let renamed = Renamed::default();
        Self {
            base,
            is_first,
            session: 0,
            retained: None,
            renamed,
            has_marks: false,
            mailed: Lsn::NONE,
            goes_on_at: None,
        }
    }
}

/// What the messages are called that were logged anew and that others may wait for too: each is
/// logged once.
///
/// They are known by their addresses. A weak reference keeps an address from being given again, but
/// not what the message holds. There is an entry for a queued delivery at most, and it takes less
/// than that.
#[derive(Debug, Default)]
pub struct Renamed(BTreeMap<usize, (Weak<Message>, Lsn)>);

impl Renamed {
    pub(crate) fn find(&self, message: &Arc<Message>) -> Option<Lsn> {
        self.0.get(&address(message)).map(|&(_, lsn)| lsn)
    }

    /// It was logged anew. One that nobody else has is not looked for again.
    pub(crate) fn note(&mut self, message: &Arc<Message>, lsn: Lsn) {
        if Arc::strong_count(message) > 1 {
            self.0.insert(address(message), (Arc::downgrade(message), lsn));
        }
    }

    /// Forgets one of them; says whether there was one.
    pub(crate) fn forget_one(&mut self) -> bool {
        self.0.pop_first().is_some()
    }
}

fn address(message: &Arc<Message>) -> usize {
    Arc::as_ptr(message).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{PropertiesBuf, QoS};

    fn message() -> Arc<Message> {
        Arc::new(Message {
            topic: "t".into(),
            payload: Vec::new(),
            properties: PropertiesBuf::new(),
            qos: QoS::AtLeastOnce,
            retain: false,
            expires_at: None,
            stamp: None,
        })
    }

    #[test]
    fn a_message_is_known_by_its_address_and_not_kept() {
        let mut renamed = Renamed::default();
        let (first, alone) = (message(), message());
        let other = Arc::clone(&first);
        renamed.note(&first, Lsn(7));
        renamed.note(&alone, Lsn(8));
        assert_eq!((renamed.find(&other), renamed.find(&alone)), (Some(Lsn(7)), None));
        let kept = Arc::downgrade(&first);
        drop((first, other));
        assert!(kept.upgrade().is_none());
        // The address is not given again while it stands for something.
        assert!((0..100).all(|_| renamed.find(&message()).is_none()));
        assert_eq!((renamed.forget_one(), renamed.forget_one()), (true, false));
    }
}
