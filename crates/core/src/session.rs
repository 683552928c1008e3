//! What is known of a client beyond its connection.

use crate::keys::{ConnKey, Micros, Origin};
use crate::message::Queued;
use crate::queue::{Dropped, Queue};
use crate::record::WillRecord;
use crate::replays::Replays;
use crate::routing::{NO_RECORDS, Records};
use crate::text::Text;
use crate::window::Window;
use weir_wire::{PacketId, PropertiesBuf, QoS, Version};

/// A session: it lives as long as its connection, or longer if the client asked for that. 64 bytes,
/// and no memory of its own while nothing is subscribed or under way.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client_id: Text,
    /// The connection, while there is one.
    pub(crate) attachment: Option<Attachment>,
    /// Where its client came from last, if that says something.
    pub(crate) address: Option<Origin>,
    /// Seconds the session outlives its connection; `u32::MAX` is for ever.
    pub(crate) expiry_s: u32,
    /// Deliveries of QoS 1 and 2 that are open, and all that wait.
    pub(crate) window: Window,
    pub(crate) cold: Option<Box<ColdSession>>,
}

/// What a session owns once it uses it: an idle one without subscriptions has none of it.
#[derive(Debug, Default)]
pub(crate) struct ColdSession {
    pub(crate) subscriptions: Records,
    /// New subscriptions whose retained messages are still to be sent, one a filter at most.
    pub(crate) replays: Option<Box<Replays>>,
    /// Identifiers of QoS 2 messages received and not yet released, sorted.
    pub(crate) unreleased: Vec<PacketId>,
    /// While absent: the will that waits for its delay, and the deadlines.
    pub(crate) absence: Option<Box<Absence>>,
}

/// What delivery needs to know of a connected client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attachment {
    pub(crate) conn: ConnKey,
    pub(crate) version: Version,
    /// Open deliveries allowed: the smaller of the client's Receive Maximum and our limit.
    pub(crate) open_max: u16,
    /// Largest packet the client takes.
    pub(crate) packet_bytes_max: u32,
    /// Topic aliases the broker may set up: the smaller of the client's maximum and our limit.
    pub(crate) aliases_max: u16,
    /// Whether the client takes reason strings beside CONNACK and DISCONNECT.
    pub(crate) wants_problems: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Absence {
    pub(crate) will: Option<Box<Will>>,
    pub(crate) will_at: Option<Micros>,
    pub(crate) expires_at: Option<Micros>,
}

/// A will, ready to be published.
#[derive(Clone, Debug)]
pub(crate) struct Will {
    pub(crate) topic: Box<str>,
    pub(crate) payload: Box<[u8]>,
    pub(crate) properties: PropertiesBuf,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) delay_s: u32,
    /// Whom it counts for if it is retained.
    pub(crate) origin: Origin,
    pub(crate) message_expiry_s: Option<u32>,
}

impl Will {
    /// As the log has it.
    pub(crate) fn record(&self) -> WillRecord<'_> {
        WillRecord {
            topic: &self.topic,
            payload: &self.payload,
            properties: self.properties.as_properties().as_bytes(),
            qos: self.qos,
            retain: self.retain,
            delay_s: self.delay_s,
            message_expiry_s: self.message_expiry_s,
        }
    }
}

impl Session {
    pub(crate) fn new(client_id: &str, address: Option<Origin>) -> Self {
        Self {
            client_id: client_id.into(),
            address,
            attachment: None,
            expiry_s: 0,
            window: Window::default(),
            cold: None,
        }
    }

    pub(crate) fn cold(&mut self) -> &mut ColdSession {
        self.cold.get_or_insert_default()
    }

    /// Gives the cold back if nothing is left in it.
    pub(crate) fn drop_cold_if_unused(&mut self) {
        self.cold.take_if(|cold| {
            cold.subscriptions.is_empty()
                && cold.replays.is_none()
                && cold.unreleased.is_empty()
                && cold.absence.is_none()
        });
    }

    pub(crate) fn subscriptions(&self) -> &Records {
        self.cold.as_ref().map_or(&NO_RECORDS, |cold| &cold.subscriptions)
    }

    pub(crate) fn has_replays(&self) -> bool {
        self.cold.as_ref().is_some_and(|cold| cold.replays.is_some())
    }

    /// The replays, if there are any.
    pub(crate) fn replays(&mut self) -> Option<&mut Box<Replays>> {
        self.cold.as_mut()?.replays.as_mut()
    }

    pub(crate) fn take_absence(&mut self) -> Option<Box<Absence>> {
        let absence = self.cold.as_mut()?.absence.take();
        self.drop_cold_if_unused();
        absence
    }

    /// Deadlines, while it is absent.
    pub(crate) fn absence(&mut self) -> Option<&mut Absence> {
        self.cold.as_mut()?.absence.as_deref_mut()
    }

    /// Bytes of a packet that its client takes; nothing while it is absent.
    pub(crate) fn packet_bytes_max(&self) -> Option<u32> {
        self.attachment.map(|attachment| attachment.packet_bytes_max)
    }

    /// The version of its acknowledgements.
    pub(crate) fn version(&self) -> Version {
        self.attachment.map_or(Version::V311, |attachment| attachment.version)
    }

    /// Whether it may be resumed, so that what is sent must be kept until acknowledged.
    pub(crate) fn outlives_connection(&self) -> bool {
        self.expiry_s > 0
    }

    pub(crate) fn queue_is_empty(&self) -> bool {
        self.queue().is_none()
    }

    /// Deliveries that wait for the window, the socket or the client, if there are any.
    #[inline]
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.window.queue()
    }

    pub(crate) fn enqueue(&mut self, queued: Queued) {
        self.window.queue_or_insert().push(queued);
    }

    /// Whether the client still has to take what came in its absence.
    pub(crate) fn catches_up(&self) -> bool {
        self.queue().is_some_and(|queue| queue.is_from_absence)
    }

    /// What waits now is what the client missed.
    pub(crate) fn note_absence(&mut self) {
        if let Some(queue) = self.window.queue_mut() {
            queue.is_from_absence = true;
        }
    }

    /// Takes the oldest of the queue, if that is in memory; an emptied queue gives its memory back.
    pub(crate) fn dequeue(&mut self) -> Option<Queued> {
        let queue = self.window.queue_mut()?;
        let queued = queue.pop();
        if queue.is_empty() {
            self.window.drop_queue();
        }
        queued
    }

    /// Takes the oldest of the queue out, wherever it is.
    pub(crate) fn drop_oldest(&mut self) -> Option<Dropped> {
        let queue = self.window.queue_mut()?;
        let dropped = queue.drop_oldest();
        if queue.is_empty() {
            self.window.drop_queue();
        }
        dropped
    }

    /// Notes a QoS 2 message; says whether its identifier is new.
    pub(crate) fn note_unreleased(&mut self, packet_id: PacketId) -> bool {
        let unreleased = &mut self.cold().unreleased;
        match unreleased.binary_search(&packet_id) {
            Ok(_) => false,
            Err(at) => {
                unreleased.insert(at, packet_id);
                true
            }
        }
    }

    /// Whether this QoS 2 message was received and is not yet released.
    pub(crate) fn is_unreleased(&self, packet_id: PacketId) -> bool {
        let cold = self.cold.as_ref();
        cold.is_some_and(|cold| cold.unreleased.binary_search(&packet_id).is_ok())
    }

    /// QoS 2 messages received and not yet released.
    pub(crate) fn unreleased(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.unreleased.len())
    }

    /// PUBREL: says whether the identifier was known.
    pub(crate) fn release(&mut self, packet_id: PacketId) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        match cold.unreleased.binary_search(&packet_id) {
            Ok(at) => {
                cold.unreleased.remove(at);
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_session_is_small() {
        assert_eq!(size_of::<Option<Session>>(), 64);
        assert_eq!(size_of::<ColdSession>(), 56);
    }
}
