//! The window against a list that is searched from end to end.

use super::*;
use crate::message::Message;
use crate::queue::Queue;
use proptest::prelude::*;
use std::sync::Arc;
use weir_wire::PropertiesBuf;

#[derive(Clone, Copy, Debug)]
enum Input {
    Push(QoS),
    /// An acknowledgement of the nth open delivery that says its state is this one.
    Finish(usize, DeliveryState),
    Receive(usize),
    /// With the new connection's bound on open deliveries.
    Resume(u16),
}

struct Entry {
    packet_id: PacketId,
    state: DeliveryState,
    payload: Option<Vec<u8>>,
    is_sent: bool,
}

impl Entry {
    fn is_owed(&self) -> bool {
        !self.is_sent && self.state != DeliveryState::Done
    }
}

/// What the window should be, oldest first.
struct Model {
    entries: Vec<Entry>,
    next: PacketId,
}

impl Model {
    fn room(&self, open_max: u16) -> usize {
        if self.entries.iter().any(Entry::is_owed) {
            return 0;
        }
        let open = self.entries.iter().filter(|entry| entry.state != DeliveryState::Done).count();
        usize::from(open_max).saturating_sub(open).min(SPAN_MAX - self.entries.len())
    }

    fn take_owed(&mut self, open_max: u16) -> Option<(PacketId, Option<Vec<u8>>)> {
        let is_open = |entry: &&Entry| entry.is_sent && entry.state != DeliveryState::Done;
        if self.entries.iter().filter(is_open).count() >= usize::from(open_max) {
            return None;
        }
        let owed = self.entries.iter_mut().find(|entry| entry.is_owed())?;
        owed.is_sent = true;
        Some((owed.packet_id, owed.payload.clone()))
    }

    fn find(&mut self, packet_id: PacketId) -> Option<&mut Entry> {
        let is_it = |entry: &&mut Entry| entry.packet_id == packet_id;
        self.entries.iter_mut().find(is_it).filter(|entry| entry.state != DeliveryState::Done)
    }

    fn finish(&mut self, packet_id: PacketId, state: DeliveryState) -> Acked {
        let Some(entry) = self.find(packet_id) else { return Acked::Unknown };
        if entry.state != state {
            return Acked::OtherKind;
        }
        (entry.state, entry.payload) = (DeliveryState::Done, None);
        let done =
            self.entries.iter().take_while(|entry| entry.state == DeliveryState::Done).count();
        self.entries.drain(..done);
        Acked::Open
    }

    fn received(&mut self, packet_id: PacketId) -> Acked {
        let Some(entry) = self.find(packet_id) else { return Acked::Unknown };
        if entry.state == DeliveryState::AwaitPubAck {
            return Acked::OtherKind;
        }
        (entry.state, entry.payload) = (DeliveryState::AwaitPubComp, None);
        Acked::Open
    }

    /// The nth identifier; behind the last, one that was not given yet.
    fn packet_id(&self, nth: usize) -> PacketId {
        let at = nth % (self.entries.len() + 1);
        self.entries.get(at).map_or(self.next, |entry| entry.packet_id)
    }
}

fn queued(payload: &[u8]) -> Queued {
    let message = Message {
        topic: "t".into(),
        payload: payload.into(),
        properties: PropertiesBuf::new(),
        qos: QoS::ExactlyOnce,
        retain: false,
        expires_at: None,
        stamp: None,
    };
    let (qos, retain) = (message.qos, false);
    Queued { message: Arc::new(message), qos, retain, subscription_ids: None }
}

fn input() -> impl Strategy<Value = Input> {
    let qos = prop_oneof![Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)];
    let state = prop_oneof![
        Just(DeliveryState::AwaitPubAck),
        Just(DeliveryState::AwaitPubRec),
        Just(DeliveryState::AwaitPubComp)
    ];
    prop_oneof![
        6 => qos.prop_map(Input::Push),
        6 => (0_usize..8, state).prop_map(|(nth, state)| Input::Finish(nth, state)),
        3 => (0_usize..8).prop_map(Input::Receive),
        1 => (1_u16..6).prop_map(Input::Resume),
    ]
}

/// A window whose next identifiers go over the end of their range.
fn near_the_end() -> (Window, PacketId) {
    let oldest = PacketId::new(65_530).unwrap();
    let deliveries = Deliveries { oldest, ..Deliveries::default() };
    (Window { deliveries: Some(Box::new(deliveries)) }, oldest)
}

proptest! {
    #[test]
    fn a_window_agrees_with_a_list(inputs in prop::collection::vec(input(), 1..120)) {
        let (mut window, next) = near_the_end();
        let mut model = Model { entries: Vec::new(), next };
        let mut open_max = 5;
        for (number, &input) in inputs.iter().enumerate() {
            match input {
                Input::Push(qos) => if model.room(open_max) > 0 {
                    let payload: Vec<u8> = number.to_string().as_bytes().into();
                    prop_assert_eq!(window.push(qos, Some(queued(&payload)), u64::MAX), model.next);
                    let state = match qos {
                        QoS::ExactlyOnce => DeliveryState::AwaitPubRec,
                        _ => DeliveryState::AwaitPubAck,
                    };
                    let packet_id = model.next;
                    model.next = packet_id.next();
                    let payload = Some(payload);
                    model.entries.push(Entry { packet_id, state, payload, is_sent: true });
                },
                Input::Finish(nth, state) => {
                    let packet_id = model.packet_id(nth);
                    let expected = model.finish(packet_id, state);
                    prop_assert_eq!(window.finish(packet_id, state), expected);
                }
                Input::Receive(nth) => {
                    let packet_id = model.packet_id(nth);
                    let expected = model.received(packet_id);
                    prop_assert_eq!(window.received(packet_id), expected);
                }
                Input::Resume(maximum) => {
                    open_max = maximum;
                    window.resume();
                    model.entries.iter_mut().for_each(|entry| entry.is_sent = false);
                    prop_assert_eq!(window.is_owing(), !model.entries.is_empty());
                }
            }
            // After each input its user sends what is owed, as far as it may.
            loop {
                let expected = model.take_owed(open_max);
                let owed = window.take_owed(open_max);
                let owed = owed.map(|Owed { packet_id, message }| {
                    (packet_id, message.map(|queued| queued.message.payload.clone()))
                });
                prop_assert_eq!(&owed, &expected);
                if expected.is_none() {
                    break;
                }
            }
            prop_assert_eq!(window.is_owing(), model.entries.iter().any(Entry::is_owed));
            prop_assert_eq!(window.room(open_max), model.room(open_max));
            prop_assert_eq!(window.has_room(open_max), model.room(open_max) > 0);
        }
    }
}

#[test]
fn what_is_kept_is_bounded_in_bytes() {
    let kept = |bytes: usize| {
        let message = Message {
            topic: "t".into(),
            payload: vec![0; bytes - 1],
            properties: PropertiesBuf::new(),
            qos: QoS::AtLeastOnce,
            retain: false,
            expires_at: None,
            stamp: None,
        };
        let message = Arc::new(message);
        Some(Queued { message, qos: QoS::AtLeastOnce, retain: false, subscription_ids: None })
    };
    let mut window = Window::default();
    let first = window.push(QoS::AtLeastOnce, kept(60), 100);
    assert!(window.has_room(10));
    let second = window.push(QoS::ExactlyOnce, kept(40), 100);
    assert!(!window.has_room(10));
    // A PUBREC takes the message, an acknowledgement too; each once.
    assert_eq!([window.received(second), window.received(second)], [Acked::Open; 2]);
    assert!(window.has_room(10));
    window.push(QoS::AtLeastOnce, kept(1000), 100);
    assert!(!window.has_room(10));
    assert_eq!(window.finish(first, DeliveryState::AwaitPubAck), Acked::Open);
    assert!(!window.has_room(10));
    // Whatever the bound, one message at a time goes.
    let mut window = Window::default();
    assert!(window.has_room(10));
    let only = window.push(QoS::AtLeastOnce, kept(7), 0);
    assert!(!window.has_room(10));
    assert_eq!(window.finish(only, DeliveryState::AwaitPubAck), Acked::Open);
    assert!(window.has_room(10));
}

#[test]
fn who_leaves_the_oldest_open_gets_no_more_than_the_span() {
    let (mut window, oldest) = near_the_end();
    window.push(QoS::AtLeastOnce, None, 0);
    for opened in 1..SPAN_MAX {
        assert_eq!(window.room(u16::MAX), SPAN_MAX - opened);
        let newest = window.push(QoS::AtLeastOnce, None, 0);
        assert_eq!(window.finish(newest, DeliveryState::AwaitPubAck), Acked::Open);
    }
    assert!(!window.has_room(u16::MAX));
    assert_eq!(window.room(u16::MAX), 0);
    assert_eq!(window.finish(oldest, DeliveryState::AwaitPubAck), Acked::Open);
    assert_eq!(window.room(u16::MAX), SPAN_MAX);
}

#[test]
fn a_restored_window_owes_what_was_in_flight_and_then_what_waited() {
    let id = |value| PacketId::new(value).unwrap();
    let in_flight = |packet_id, state, message| InFlight { packet_id, state, message };
    // Of those between the second and the third nothing is owed.
    let all = vec![
        in_flight(id(65_534), DeliveryState::AwaitPubAck, Some(queued(b"a"))),
        in_flight(id(65_535), DeliveryState::AwaitPubComp, None),
        in_flight(id(3), DeliveryState::AwaitPubRec, Some(queued(b"b"))),
    ];
    let waiting = Queue::of(VecDeque::from([queued(b"c")]));
    let mut window = Window::restored(all, Some(id(3)), waiting);
    assert_eq!(window.queue().map(|queue| queue.bytes), Some(2));
    assert!(window.is_owing() && window.open() == 0 && !window.has_room(10));
    let open: Vec<u16> = window.in_flight().map(|(id, ..)| id.value()).collect();
    assert_eq!(open, [65_534, 65_535, 3]);
    let mut owed = Vec::new();
    while let Some(Owed { packet_id, message }) = window.take_owed(10) {
        owed.push((packet_id.value(), message.map(|queued| queued.message.payload.clone())));
    }
    assert_eq!(owed, [(65_534, Some(b"a".into())), (65_535, None), (3, Some(b"b".into()))]);
    assert_eq!(window.finish(id(1), DeliveryState::AwaitPubRec), Acked::Unknown);
    assert_eq!(window.finish(id(65_534), DeliveryState::AwaitPubAck), Acked::Open);
    assert_eq!(window.finish(id(65_535), DeliveryState::AwaitPubComp), Acked::Open);
    assert_eq!(window.received(id(3)), Acked::Open);
    assert_eq!(window.finish(id(3), DeliveryState::AwaitPubComp), Acked::Open);
    assert_eq!(window.push(QoS::AtLeastOnce, Some(queued(b"d")), 100), id(4));
}

#[test]
fn a_restored_window_goes_on_behind_the_last_identifier_that_was_given() {
    let id = |value| PacketId::new(value).unwrap();
    let first = InFlight {
        packet_id: id(65_535),
        state: DeliveryState::AwaitPubAck,
        message: Some(queued(b"a")),
    };
    for (in_flight, last, next) in [
        (vec![], None, 1),
        (vec![], Some(id(7)), 8),
        (vec![], Some(id(65_534)), 65_535),
        (vec![first.clone()], Some(id(65_535)), 1),
        (vec![first], Some(id(2)), 3),
    ] {
        let is_owing = !in_flight.is_empty();
        let mut window = Window::restored(in_flight, last, Queue::default());
        assert_eq!(window.is_owing(), is_owing);
        while window.take_owed(10).is_some() {}
        assert!(window.has_room(10));
        let last_open = window.in_flight().last().map(|(packet_id, ..)| packet_id);
        assert_eq!(window.last_done(), last.filter(|_| last != last_open));
        let given = window.push(QoS::AtLeastOnce, Some(queued(b"b")), 100);
        assert_eq!((given, window.last_done()), (id(next), None));
        assert_eq!(window.finish(given, DeliveryState::AwaitPubAck), Acked::Open);
        // Behind the largest comes the first in any case.
        assert_eq!(window.last_done(), Some(given).filter(|last| last.next() != PacketId::FIRST));
    }
}
