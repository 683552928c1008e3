//! A subscriber's side of its session, as a value: which messages at QoS 2 it has got that the
//! broker has not released yet.

use std::collections::HashMap;
use weir_wire::PacketId;

/// What a PUBLISH at QoS 2 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A message.
    New,
    /// The same message once more.
    Again,
    /// Another message under a packet identifier that is not free. The receiver has to take it for
    /// the one before [MQTT-4.3.3-10].
    Reused,
}

/// What was got and is not released: which message each packet identifier stands for.
#[derive(Debug, Default)]
pub struct Inbox(HashMap<PacketId, (usize, u32)>);

impl Inbox {
    /// A message at QoS 2 came: of which stream, and its number.
    pub fn arrive(&mut self, packet_id: PacketId, message: (usize, u32)) -> Arrival {
        match self.0.get(&packet_id) {
            None => {
                self.0.insert(packet_id, message);
                Arrival::New
            }
            Some(known) if *known == message => Arrival::Again,
            Some(_) => Arrival::Reused,
        }
    }

    /// PUBREL.
    pub fn release(&mut self, packet_id: PacketId) {
        self.0.remove(&packet_id);
    }

    /// The broker has lost the session, and so it ends here, too.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_new_until_it_is_known_and_again_when_it_is_released() {
        let (mut inbox, packet_id) = (Inbox::default(), PacketId::FIRST);
        assert_eq!(inbox.arrive(packet_id, (0, 1)), Arrival::New);
        assert_eq!(inbox.arrive(packet_id, (0, 1)), Arrival::Again);
        assert_eq!(inbox.arrive(packet_id, (0, 2)), Arrival::Reused);
        inbox.release(packet_id);
        assert_eq!(inbox.arrive(packet_id, (0, 2)), Arrival::New);
        inbox.forget();
        assert_eq!(inbox.arrive(packet_id, (0, 2)), Arrival::New);
    }
}
