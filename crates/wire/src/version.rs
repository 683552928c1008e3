//! The small values every packet shares: protocol version, quality of service, packet identifier.

use std::num::NonZeroU16;

/// The protocol version named in CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1, protocol name `MQIsdp`, level 3.
    V31 = 3,
    /// MQTT 3.1.1, protocol name `MQTT`, level 4.
    V311 = 4,
    /// MQTT 5.0, protocol name `MQTT`, level 5.
    V5 = 5,
}

impl Version {
    /// Whether packets of this version carry properties and reason codes.
    pub const fn is_v5(self) -> bool {
        matches!(self, Self::V5)
    }

    /// As people call it, such as `3.1.1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V31 => "3.1",
            Self::V311 => "3.1.1",
            Self::V5 => "5.0",
        }
    }
}

/// Quality of service of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QoS {
    /// QoS 0: no acknowledgement.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: PUBACK.
    AtLeastOnce = 1,
    /// QoS 2: PUBREC, PUBREL, PUBCOMP.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS with this number, or nothing for 3 and above.
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// A packet identifier: never zero \[MQTT-2.2.1-3\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// The smallest identifier.
    pub const FIRST: Self = Self(NonZeroU16::MIN);

    /// The identifier with this number, or nothing for zero.
    pub const fn new(value: u16) -> Option<Self> {
        match NonZeroU16::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number on the wire, 1 to 65,535.
    pub const fn value(self) -> u16 {
        self.0.get()
    }

    /// The identifier after this one; 1 follows 65,535.
    pub const fn next(self) -> Self {
        match NonZeroU16::new(self.0.get().wrapping_add(1)) {
            Some(value) => Self(value),
            None => Self::FIRST,
        }
    }

    /// How many steps of [`PacketId::next`] lead from `earlier` to `self`, 0 to 65,534.
    pub const fn steps_from(self, earlier: Self) -> u16 {
        let (to, from) = (self.value(), earlier.value());
        if to >= from { to - from } else { to.wrapping_sub(from).wrapping_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_after_65535_is_1() {
        let last = PacketId::new(u16::MAX).unwrap();
        assert_eq!(last.next(), PacketId::FIRST);
        assert_eq!(PacketId::FIRST.next().value(), 2);
        assert_eq!(PacketId::new(0), None);
    }

    #[test]
    fn steps_from_counts_the_nexts_between_two_identifiers() {
        for start in [1, 2, 1_000, 65_533, 65_535] {
            let earlier = PacketId::new(start).unwrap();
            let mut later = earlier;
            for steps in 0..u16::MAX {
                assert_eq!(later.steps_from(earlier), steps, "from {start}");
                later = later.next();
            }
            assert_eq!(later, earlier);
        }
    }
}
