//! The client in the own broker as a value: what its session has comes out of it, and is
//! acknowledged when it is settled, in order.

use crate::relay::{Broken, Errand};
use crate::settings::Dialect;
use crate::side::Side;
use crate::topics::{End, Routes, Topic};
use weir_client::{Ear, Event, Heard, Sink};
use weir_wire::packet::{Connect, Publish};
use weir_wire::{PropertiesBuf, Property, ReasonCode, Version};

/// Where it writes.
#[derive(Debug, Default)]
struct Output(Vec<u8>);

impl Sink for Output {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}

/// Who has what comes.
pub(crate) trait Taker {
    /// A message with this number, none at QoS 0, that fits the subscription of this index, if it
    /// still fits one. Says whether [`Tap::settle`] is to be called for it.
    fn take(&mut self, publish: &Publish<'_>, route: Option<usize>, source: Option<u64>) -> bool;
}

/// The client.
#[derive(Debug)]
pub(crate) struct Tap {
    client_id: String,
    side: Side,
    errand: Errand,
    output: Output,
    complaint: Option<String>,
}

impl Tap {
    pub(crate) fn new(client_id: String, topics: &[Topic]) -> Self {
        Self {
            client_id,
            side: Side::new(Routes::from(End::Local, topics), Vec::new(), Dialect::V5),
            errand: Errand::Prepare,
            output: Output::default(),
            complaint: None,
        }
    }

    /// It has a connection: CONNECT. Of QoS 1, so many messages may be on their way.
    pub(crate) fn open(&mut self, errand: Errand, window: u16, now_us: u64) {
        self.side.forget();
        self.output.0.clear();
        self.errand = errand;
        let mut properties = PropertiesBuf::new();
        properties.push(Property::ReceiveMaximum(window.max(1)));
        properties.push(Property::SessionExpiryInterval(u32::MAX));
        let connect = Connect {
            clean_start: false,
            properties: properties.as_properties(),
            ..Connect::new(Version::V5, &self.client_id)
        };
        self.side.client.connect_with(&connect, now_us, &mut self.output);
    }

    /// The session is there and has its subscriptions.
    pub(crate) fn is_ready(&self) -> bool {
        self.side.is_ready
    }

    /// What is to be written.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output.0
    }

    /// So much of it was.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.output.0.drain(..bytes);
    }

    /// Something that is wrong and ends nothing.
    pub(crate) fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    /// Bytes came in, those not consumed the last time first. Returns how many were consumed.
    ///
    /// # Errors
    /// The connection is to be given up.
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        now_us: u64,
        taker: &mut impl Taker,
    ) -> Result<usize, Broken> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Some((publish, bytes)) =
                self.side.client.peek_message(rest).map_err(Broken::Protocol)?
            {
                at += bytes;
                self.message(&publish, now_us, taker);
                continue;
            }
            let Some(frame) = self.side.client.frame(rest).map_err(Broken::Protocol)? else {
                break;
            };
            at += frame.bytes;
            let packet = &rest[..frame.bytes];
            self.packet(packet, now_us)?;
        }
        Ok(at)
    }

    fn message(&mut self, publish: &Publish<'_>, now_us: u64, taker: &mut impl Taker) {
        // It comes again when there is somebody to take it.
        if self.errand != Errand::Relay {
            return;
        }
        let sources = &mut self.side.sources;
        let source = publish.packet_id.map(|packet_id| sources.begin(packet_id, publish.qos));
        let is_taken = taker.take(publish, self.side.routes.find(publish.topic), source);
        match source {
            Some(number) if is_taken => self.side.sources.add_result(number),
            _ => self.side.acknowledge(now_us, &mut self.output),
        }
    }

    /// A message is where it is to be, or nowhere.
    pub(crate) fn settle(&mut self, source: u64, now_us: u64) {
        self.side.sources.result_done(source);
        self.side.acknowledge(now_us, &mut self.output);
    }

    fn packet(&mut self, bytes: &[u8], now_us: u64) -> Result<(), Broken> {
        let mut ear = Ear::new(&mut self.output);
        let result = self.side.client.handle(bytes, now_us, &mut ear);
        let Ear { heard, why, .. } = ear;
        result.map_err(Broken::Protocol)?;
        match heard {
            Heard::Connected { session_present, limits } => {
                self.side.limits = limits;
                self.side.subscribe(Dialect::V5, session_present, now_us, &mut self.output);
            }
            Heard::Refused(reason) => return Err(Broken::Refused(reason, why)),
            Heard::Disconnected(reason) => return Err(Broken::Disconnected(reason, why)),
            Heard::Subscribed(codes) => {
                if let Some(reason) = refusal(&codes) {
                    let said = weir_connection::named(reason, why.as_deref());
                    self.complaint = Some(format!("a subscription is refused: {said}"));
                }
                self.side.subscribed();
            }
            Heard::Acknowledged { .. } | Heard::Nothing | Heard::Unsubscribed => {}
        }
        Ok(())
    }
}

/// What a SUBACK refuses first.
fn refusal(codes: &[u8]) -> Option<ReasonCode> {
    let code = codes.iter().find(|code| **code >= ReasonCode::UnspecifiedError as u8)?;
    Some(ReasonCode::from_u8(*code).unwrap_or(ReasonCode::UnspecifiedError))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::Direction;
    use weir_wire::packet::{ConnAck, SubAck};
    use weir_wire::{Packet, PacketId, Properties, QoS};

    const CODES: &[u8] = &[1];

    /// Takes all but what fits no subscription.
    #[derive(Default)]
    struct Book(Vec<(String, Option<u64>)>);

    impl Taker for Book {
        fn take(&mut self, it: &Publish<'_>, route: Option<usize>, source: Option<u64>) -> bool {
            if route.is_some() {
                self.0.push((it.topic.to_owned(), source));
            }
            route.is_some()
        }
    }

    fn tap() -> Tap {
        let topic = Topic {
            pattern: "a/#".into(),
            direction: Direction::Out,
            qos: QoS::AtLeastOnce,
            local_prefix: String::new(),
            remote_prefix: String::new(),
        };
        Tap::new("$weir/kafka/lake".into(), &[topic])
    }

    fn bytes(packets: &[Packet<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| packet.encode(Version::V5, &mut bytes));
        bytes
    }

    fn connack(session_present: bool) -> Packet<'static> {
        let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
        Packet::ConnAck(ConnAck { session_present, reason, properties })
    }

    fn suback() -> Packet<'static> {
        let properties = Properties::EMPTY;
        Packet::SubAck(SubAck { packet_id: PacketId::FIRST, properties, codes: CODES })
    }

    fn publish(topic: &'static str, packet_id: u16) -> Packet<'static> {
        Packet::Publish(Publish {
            dup: false,
            qos: if packet_id == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce },
            retain: false,
            topic,
            packet_id: PacketId::new(packet_id),
            properties: Properties::EMPTY,
            payload: b"x",
        })
    }

    /// Identifiers of the PUBACKs that it has written.
    fn acknowledged(tap: &mut Tap) -> Vec<u8> {
        let output = tap.output().to_vec();
        tap.wrote(output.len());
        output.chunks(4).filter(|packet| packet[0] == 0x40).map(|packet| packet[3]).collect()
    }

    fn connected(errand: Errand, book: &mut Book) -> Tap {
        let mut tap = tap();
        tap.open(errand, 10, 0);
        tap.wrote(tap.output().len());
        // A session that was there before sends before SUBACK.
        let input = bytes(&[connack(true), publish("a/1", 1), suback()]);
        assert_eq!(tap.received(&input, 0, book).unwrap(), input.len());
        assert!(tap.is_ready());
        let subscribe = tap.output().len();
        tap.wrote(subscribe);
        tap
    }

    #[test]
    fn a_message_is_acknowledged_when_it_is_settled_and_in_order() {
        let mut book = Book::default();
        let mut tap = connected(Errand::Relay, &mut book);
        let input =
            bytes(&[publish("a/2", 2), publish("b", 3), publish("a", 0), publish("a/4", 4)]);
        // Piece by piece, as it may come.
        let (mut at, mut till) = (0, 0);
        while at < input.len() {
            till += 1;
            at += tap.received(&input[at..till], 0, &mut book).unwrap();
        }
        let expected = [("a/1", Some(0)), ("a/2", Some(1)), ("a", None), ("a/4", Some(3))];
        assert_eq!(book.0, expected.map(|(topic, source)| (topic.to_owned(), source)));
        assert_eq!(acknowledged(&mut tap), [0_u8; 0]);
        tap.settle(1, 0);
        assert_eq!(acknowledged(&mut tap), [0_u8; 0]);
        tap.settle(0, 0);
        assert_eq!(acknowledged(&mut tap), [1, 2, 3], "what fits nothing waits for nothing");
        tap.settle(3, 0);
        assert_eq!(acknowledged(&mut tap), [4]);
    }

    #[test]
    fn nothing_is_taken_or_acknowledged_while_the_session_is_prepared() {
        let mut book = Book::default();
        let mut tap = connected(Errand::Prepare, &mut book);
        assert_eq!((book.0.len(), acknowledged(&mut tap).len()), (0, 0));
    }

    #[test]
    fn a_refusal_ends_it() {
        let mut tap = tap();
        tap.open(Errand::Relay, 10, 0);
        let (reason, properties) = (ReasonCode::ServerBusy, Properties::EMPTY);
        let refused = Packet::ConnAck(ConnAck { session_present: false, reason, properties });
        let error = tap.received(&bytes(&[refused]), 0, &mut Book::default()).unwrap_err();
        assert!(error.said_of("it").starts_with("it refused the connection: "), "{error:?}");
    }
}
