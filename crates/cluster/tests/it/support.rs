//! Links of two nodes, and what they tell.

use std::sync::Arc;
use weir_cluster::{Inbox, Link, LinkSettings, Peer, Pushed, Slot};
use weir_core::{Mail, Message, Micros, ShardId, Wall};
use weir_wire::{PropertiesBuf, QoS};

pub(crate) const WALL: Wall = Wall(0);

/// A link of the node of slot `own` to that of `peer`.
pub(crate) fn link(own: u8, peer: u8, incarnation: u64, window_bytes: usize) -> Link {
    Link::new(LinkSettings {
        cluster: "fuzz".into(),
        own: Slot(own),
        peer: Slot(peer),
        incarnation,
        window_bytes,
        frame_bytes_max: 100_000,
    })
}

/// What an inbox was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Up(Peer),
    Reset(u64),
    /// A letter with a number of the test's.
    Letter(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Notes(pub(crate) Vec<Note>);

impl Notes {
    pub(crate) fn letters(&self) -> Vec<u64> {
        let number = |note: &Note| match note {
            Note::Letter(number) => Some(*number),
            _ => None,
        };
        self.0.iter().filter_map(number).collect()
    }
}

impl Inbox for Notes {
    fn up(&mut self, peer: Peer) {
        self.0.push(Note::Up(peer));
    }

    fn reset(&mut self, lost: u64) {
        self.0.push(Note::Reset(lost));
    }

    fn letter(&mut self, from: ShardId, to: ShardId, mail: Mail) {
        let number = number_of(&mail);
        assert_eq!((from, to), way(number));
        self.0.push(Note::Letter(number));
    }
}

/// Between which shards the letter of this number goes.
fn way(number: u64) -> (ShardId, ShardId) {
    (ShardId((number % 3) as u16), ShardId((1000 + number % 5) as u16))
}

/// The letter that somebody waits for by this number.
pub(crate) fn letter(number: u64) -> Mail {
    Mail::Interest { filter: "a/b".into(), number }
}

/// A message with this payload.
pub(crate) fn message(qos: QoS, payload: Vec<u8>) -> Arc<Message> {
    Arc::new(Message {
        topic: "a".into(),
        payload,
        properties: PropertiesBuf::new(),
        qos,
        retain: false,
        expires_at: None,
        stamp: None,
    })
}

/// A letter with that message. The number is in its picks, which differ from receiver to receiver.
pub(crate) fn publish(message: &Arc<Message>, number: u64, is_awaited: bool) -> Mail {
    let pick = weir_core::GroupPick { share: "$share/g/a".into(), member: number, key: 0, hops: 0 };
    Mail::Publish {
        message: Arc::clone(message),
        to_subscribers: false,
        picks: [pick].into_iter().collect(),
        number: is_awaited.then_some(number),
        mailed: None,
    }
}

pub(crate) fn number_of(mail: &Mail) -> u64 {
    match mail {
        Mail::Interest { number, .. } => *number,
        Mail::Publish { picks, .. } => picks[0].member,
        other => panic!("nobody sends {other:?}"),
    }
}

pub(crate) fn push(link: &mut Link, mail: &Mail) -> Pushed {
    let (from, to) = way(number_of(mail));
    link.push(from, to, mail, WALL)
}

/// All that is to leave at this time.
pub(crate) fn flush(link: &mut Link, now: Micros) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = link.flush(now) {
        all.extend_from_slice(bytes);
    }
    all
}
