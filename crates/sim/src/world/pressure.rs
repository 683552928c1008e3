//! Times in which memory is short for some of what comes: messages of clients, and letters with
//! messages. All else finds a shard that is not, so that the books have one reason for a refusal.

use super::World;
use crate::chance::Chance;
use weir_core::{Mail, Shard};
use weir_wire::packet::{Packet, Publish};
use weir_wire::{Frame, Property, QoS, Version};

/// The steps of a time with pressure, and from its beginning to the next.
const STEPS: usize = 80;
const PERIOD_STEPS: usize = 100;

/// Whether memory is short at present, in a run of which it is at times.
#[derive(Debug)]
pub(super) struct Pressure {
    chance: Option<Chance>,
    is_now: bool,
}

impl Pressure {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, u64::MAX - 2);
        let is_on = chance.one_in(2);
        Self { chance: is_on.then_some(chance), is_now: false }
    }

    pub(super) fn is_on(&self) -> bool {
        self.chance.is_some()
    }

    pub(super) fn at(&mut self, step: usize) {
        self.is_now = step % PERIOD_STEPS < STEPS;
    }

    pub(super) fn ends(&mut self) {
        self.is_now = false;
    }

    /// What a shard is told before a call.
    fn kind(&mut self) -> Kind {
        let now = self.is_now;
        let kinds = [Kind::Pressed, Kind::Pressed, Kind::Lean, Kind::None];
        self.chance.as_mut().filter(|_| now).map_or(Kind::None, |chance| chance.pick(&kinds))
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Pressed,
    Lean,
    None,
}

impl Kind {
    fn set(self, shard: &mut Shard, is_set: bool) {
        match self {
            Self::Pressed => shard.set_pressed(is_set),
            Self::Lean => shard.set_lean(is_set),
            Self::None => {}
        }
    }
}

impl World {
    /// Calls a shard with a letter of another, maybe short of memory.
    pub(super) fn press_for(&mut self, mail: &Mail) -> impl Fn(&mut Shard, bool) + use<> {
        // A retained one may be with its owner already, and kept though it is refused.
        let is_message = matches!(mail, Mail::Publish { message, .. } if !message.retain);
        let kind = if is_message { self.pressure.kind() } else { Kind::None };
        move |shard, is_set| kind.set(shard, is_set)
    }

    /// The same with what a client sent, if it is one message that can be refused. One with an
    /// alias would end the connection.
    pub(super) fn under_pressure(
        &mut self,
        bytes: &[u8],
        version: Version,
    ) -> impl Fn(&mut Shard, bool) + use<> {
        let is_message = match Frame::check(bytes, u32::MAX) {
            Ok(Some(frame)) if frame.bytes == bytes.len() => {
                matches!(Packet::decode(version, frame), Ok(Packet::Publish(publish))
                    if publish.qos != QoS::AtMostOnce && !publish.retain && !has_alias(&publish))
            }
            _ => false,
        };
        let kind = if is_message { self.pressure.kind() } else { Kind::None };
        move |shard, is_set| kind.set(shard, is_set)
    }
}

fn has_alias(publish: &Publish<'_>) -> bool {
    publish.properties.iter().any(|property| matches!(property, Property::TopicAlias(_)))
}
