//! Outgoing deliveries of QoS 1 and 2 that are not yet done, by packet identifier.
//!
//! Identifiers are given in order, so an acknowledgement finds its delivery by distance from the
//! oldest: one byte a delivery, no search. The message is kept only for a session that may resume.

use crate::message::Queued;
use crate::queue::Queue;
use std::collections::VecDeque;
use weir_wire::{PacketId, QoS};

/// Identifiers between the oldest open delivery and the newest. A client that leaves one open and
/// acknowledges all others stops getting more here; 65,535 would bite its own tail.
pub(crate) const SPAN_MAX: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryState {
    /// Acknowledged; kept until all older ones are.
    Done,
    /// PUBLISH of QoS 1 sent.
    AwaitPubAck,
    /// PUBLISH of QoS 2 sent.
    AwaitPubRec,
    /// PUBREL sent.
    AwaitPubComp,
}

/// What an acknowledgement is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acked {
    /// A delivery that waited for it.
    Open,
    /// None that is known: a late answer, or one that came before.
    Unknown,
    /// A delivery that waits for a packet of another kind.
    OtherKind,
}

/// What is open towards one client, and the queue behind it: 8 bytes until there was something.
#[derive(Debug, Default)]
pub(crate) struct Window {
    deliveries: Option<Box<Deliveries>>,
}

#[derive(Debug)]
struct Deliveries {
    /// What waits for the window, the socket or the client.
    queue: Option<Box<Queue>>,
    states: VecDeque<DeliveryState>,
    /// As `states`, or empty when the session ends with its connection.
    kept: VecDeque<Option<Queued>>,
    /// What `kept` counts against its bound.
    kept_bytes: u64,
    kept_bytes_max: u64,
    /// So many of `states` were sent on this connection; the others are owed from an earlier one.
    sent: usize,
    /// Sent on this connection and not done: what the Receive Maximum bounds.
    open: u16,
    /// Identifier of the first of `states`.
    oldest: PacketId,
}

/// A delivery that is open.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) packet_id: PacketId,
    pub(crate) state: DeliveryState,
    /// While it must be kept.
    pub(crate) message: Option<Queued>,
}

/// What a resumed session must send again: PUBREL, or a PUBLISH where there is a message.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) packet_id: PacketId,
    pub(crate) message: Option<Queued>,
}

impl Default for Deliveries {
    fn default() -> Self {
        Self {
            queue: None,
            states: VecDeque::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_bytes_max: u64::MAX,
            sent: 0,
            open: 0,
            oldest: PacketId::FIRST,
        }
    }
}

impl Window {
    /// The window of a session that is taken up after a crash: what is in flight, oldest first, is
    /// owed, and what waits is what the client missed.
    /// `last` is the last identifier that was given: a client may remember it, so others come
    /// behind it.
    pub(crate) fn restored(
        in_flight: Vec<InFlight>,
        last: Option<PacketId>,
        waiting: Queue,
    ) -> Self {
        let mut window = Self::default();
        if let Some(next) = last.map(PacketId::next) {
            let all = window.deliveries.get_or_insert_default();
            all.oldest = in_flight.first().map_or(next, |first| first.packet_id);
            in_flight.into_iter().for_each(|delivery| all.restore(delivery));
            all.skip_to(next);
        }
        if !waiting.is_empty() {
            *window.queue_or_insert() = Queue { is_from_absence: true, ..waiting };
        }
        window
    }

    /// The deliveries that are open, oldest first.
    pub(crate) fn in_flight(
        &self,
    ) -> impl Iterator<Item = (PacketId, DeliveryState, Option<&Queued>)> {
        self.deliveries.iter().flat_map(|all| {
            let open = all.states.iter().enumerate();
            let open = open.filter(|&(_, &state)| state != DeliveryState::Done);
            open.map(move |(at, &state)| {
                let kept = all.kept.get(at).and_then(Option::as_ref);
                (nth_after(all.oldest, at), state, kept)
            })
        })
    }

    /// The last identifier that was given, if its delivery is done; nothing if none was, and before
    /// the first of them.
    pub(crate) fn last_done(&self) -> Option<PacketId> {
        let all = self.deliveries.as_ref()?;
        match all.states.back() {
            Some(&state) => (state == DeliveryState::Done).then(|| all.last()),
            None => (all.oldest != PacketId::FIRST).then(|| all.last()),
        }
    }

    /// The message of a delivery whose PUBREC or PUBACK has not come, if it is kept.
    pub(crate) fn kept(&self, packet_id: PacketId) -> Option<&Queued> {
        let all = self.deliveries.as_ref()?;
        all.kept.get(all.position(packet_id)?)?.as_ref()
    }

    /// Whether a new delivery may be opened: never before all that is owed was sent. The last one
    /// may carry what is kept over its bound.
    #[inline]
    pub(crate) fn has_room(&self, open_max: u16) -> bool {
        let Some(all) = &self.deliveries else { return open_max > 0 };
        all.open < open_max
            && all.sent == all.states.len()
            && all.states.len() < SPAN_MAX
            && (all.kept_bytes < all.kept_bytes_max || all.kept_bytes == 0)
    }

    /// How many new deliveries may be opened, bytes left aside.
    pub(crate) fn room(&self, open_max: u16) -> usize {
        if !self.has_room(open_max) {
            return 0;
        }
        let (open, span) =
            self.deliveries.as_ref().map_or((0, 0), |all| (all.open, all.states.len()));
        usize::from(open_max - open).min(SPAN_MAX - span)
    }

    /// Deliveries sent on this connection and not done.
    pub(crate) fn open(&self) -> u16 {
        self.deliveries.as_ref().map_or(0, |all| all.open)
    }

    /// A new connection: all that is open is owed again, and the send quota is whole
    /// \[MQTT-4.9.0-1\].
    pub(crate) fn resume(&mut self) {
        if let Some(all) = &mut self.deliveries {
            all.sent = 0;
            all.open = 0;
        }
    }

    /// Whether something is still owed from an earlier connection.
    pub(crate) fn is_owing(&self) -> bool {
        self.deliveries.as_ref().is_some_and(|all| all.is_owing())
    }

    /// Takes the oldest that is owed, as far as the quota allows \[MQTT-4.4.0-1\].
    pub(crate) fn take_owed(&mut self, open_max: u16) -> Option<Owed> {
        self.deliveries.as_mut()?.take_owed(open_max)
    }

    /// Opens a delivery of QoS 1 or 2. The caller has asked [`Window::has_room`]. `kept` is given
    /// for every delivery of a session or for none; so many bytes may be kept until they are
    /// acknowledged.
    #[inline]
    pub(crate) fn push(&mut self, qos: QoS, kept: Option<Queued>, kept_bytes_max: u64) -> PacketId {
        let all = self.deliveries.get_or_insert_default();
        all.kept_bytes_max = kept_bytes_max;
        all.push(qos, kept)
    }

    /// PUBACK, PUBCOMP, or PUBREC with an error: the delivery is done, if it is at that state.
    #[inline]
    pub(crate) fn finish(&mut self, packet_id: PacketId, state: DeliveryState) -> Acked {
        self.deliveries.as_mut().map_or(Acked::Unknown, |all| all.finish(packet_id, state))
    }

    /// A delivery that the client cannot take is done whatever it waits for.
    pub(crate) fn give_up(&mut self, packet_id: PacketId) {
        if let Some(all) = &mut self.deliveries {
            all.give_up(packet_id);
        }
    }

    /// PUBREC: the message is the receiver's, only the identifier is still owed. A repeated PUBREC
    /// is answered again.
    pub(crate) fn received(&mut self, packet_id: PacketId) -> Acked {
        self.deliveries.as_mut().map_or(Acked::Unknown, |all| all.received(packet_id))
    }

    /// What waits, if something does.
    #[inline]
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.deliveries.as_ref()?.queue.as_deref()
    }

    pub(crate) fn queue_mut(&mut self) -> Option<&mut Queue> {
        self.deliveries.as_mut()?.queue.as_deref_mut()
    }

    pub(crate) fn queue_or_insert(&mut self) -> &mut Queue {
        self.deliveries.get_or_insert_default().queue.get_or_insert_default()
    }

    /// It goes to another shard: pages that were asked for come to this one.
    pub(crate) fn without_ways(mut self) -> Self {
        if let Some(queue) = self.queue_mut() {
            queue.forget_ways();
        }
        self
    }

    /// Gives an emptied queue's memory back.
    pub(crate) fn drop_queue(&mut self) {
        if let Some(all) = &mut self.deliveries {
            all.queue = None;
        }
    }
}

impl Deliveries {
    /// The last identifier that was given.
    fn last(&self) -> PacketId {
        nth_after(self.oldest, self.states.len() + usize::from(u16::MAX) - 1)
    }

    fn is_owing(&self) -> bool {
        self.sent < self.states.len()
    }

    fn take_owed(&mut self, open_max: u16) -> Option<Owed> {
        while self.states.get(self.sent) == Some(&DeliveryState::Done) {
            self.sent += 1;
        }
        if self.open >= open_max || !self.is_owing() {
            return None;
        }
        let at = self.sent;
        self.sent += 1;
        self.open += 1;
        let message = self.kept.get(at).cloned().flatten();
        Some(Owed { packet_id: nth_after(self.oldest, at), message })
    }

    fn push(&mut self, qos: QoS, kept: Option<Queued>) -> PacketId {
        debug_assert!(qos != QoS::AtMostOnce, "QoS 0 is not acknowledged");
        let at = self.states.len();
        let state = if qos == QoS::AtLeastOnce {
            DeliveryState::AwaitPubAck
        } else {
            DeliveryState::AwaitPubRec
        };
        self.states.push_back(state);
        if let Some(kept) = kept {
            self.kept_bytes += kept.message.bytes();
            self.kept.push_back(Some(kept));
        }
        self.sent += 1;
        self.open += 1;
        nth_after(self.oldest, at)
    }

    /// Puts a delivery behind the last. Those between the two were done.
    fn restore(&mut self, InFlight { packet_id, state, message }: InFlight) {
        self.skip_to(packet_id);
        self.states.push_back(state);
        self.kept_bytes += message.as_ref().map_or(0, |kept| kept.message.bytes());
        self.kept.push_back(message);
    }

    /// Deliveries up to this one were done.
    fn skip_to(&mut self, next: PacketId) {
        let at = usize::from(next.steps_from(self.oldest));
        while self.states.len() < at {
            self.states.push_back(DeliveryState::Done);
            self.kept.push_back(None);
        }
    }

    fn position(&self, packet_id: PacketId) -> Option<usize> {
        let at = usize::from(packet_id.steps_from(self.oldest));
        (at < self.states.len()).then_some(at)
    }

    #[inline]
    fn finish(&mut self, packet_id: PacketId, state: DeliveryState) -> Acked {
        let at = usize::from(packet_id.steps_from(self.oldest));
        let Some(&found) = self.states.get(at) else { return Acked::Unknown };
        if found == state {
            self.finish_at(at);
            return Acked::Open;
        }
        if found == DeliveryState::Done { Acked::Unknown } else { Acked::OtherKind }
    }

    fn give_up(&mut self, packet_id: PacketId) {
        if let Some(at) =
            self.position(packet_id).filter(|&at| self.states[at] != DeliveryState::Done)
        {
            self.finish_at(at);
        }
    }

    /// The message need not be sent again.
    fn forget(&mut self, at: usize) {
        if let Some(kept) = self.kept.get_mut(at).and_then(Option::take) {
            self.kept_bytes -= kept.message.bytes();
        }
    }

    fn finish_at(&mut self, at: usize) {
        self.states[at] = DeliveryState::Done;
        self.forget(at);
        if at < self.sent {
            self.open -= 1;
        }
        while self.states.front() == Some(&DeliveryState::Done) {
            self.states.pop_front();
            self.kept.pop_front();
            self.sent = self.sent.saturating_sub(1);
            self.oldest = self.oldest.next();
        }
    }

    fn received(&mut self, packet_id: PacketId) -> Acked {
        let Some(at) = self.position(packet_id) else { return Acked::Unknown };
        match self.states[at] {
            DeliveryState::AwaitPubRec | DeliveryState::AwaitPubComp => {
                self.states[at] = DeliveryState::AwaitPubComp;
                self.forget(at);
                Acked::Open
            }
            DeliveryState::Done => Acked::Unknown,
            DeliveryState::AwaitPubAck => Acked::OtherKind,
        }
    }
}

fn nth_after(oldest: PacketId, distance: usize) -> PacketId {
    let value = (usize::from(oldest.value()) - 1 + distance) % 65_535 + 1;
    // 1 to 65,535 by the line above.
    u16::try_from(value).ok().and_then(PacketId::new).unwrap_or(PacketId::FIRST)
}

#[cfg(test)]
mod tests;
