//! What is on a page, and its bytes: a page says all that its messages need, and no more than the
//! log lost to it.

use crate::keys::{Micros, PageId};
use crate::message::{Message, Queued};
use crate::record::codec::{Reader, put_bytes, put_flags, put_number, put_time};
use crate::record::{BadRecord, Wall};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use weir_wire::{PropertiesBuf, QoS};

/// The first byte of a page of this form.
const FORM: u8 = 1;

/// What a delivery takes beside its message, at most, and each of its identifiers.
const BESIDE_BYTES: u64 = 32;
const IDENTIFIER_BYTES: u64 = 5;

/// A page, and what of it is wanted: so many messages at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(crate) id: PageId,
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl PageRef {
    /// The oldest is not wanted any more. Returns its bytes, which are taken to be the mean: what
    /// is on a page is not known.
    pub(crate) fn skip_one(&mut self) -> u64 {
        let bytes = self.bytes / u64::from(self.messages).max(1);
        self.messages = self.messages.saturating_sub(1);
        self.bytes -= bytes;
        bytes
    }
}

/// Deliveries that are to be written on one page.
#[derive(Clone, Copy, Debug)]
pub struct PageOut<'a> {
    deliveries: &'a VecDeque<Queued>,
    messages: usize,
    bytes: u64,
}

impl<'a> PageOut<'a> {
    /// The oldest of these, as many as fit.
    pub(crate) fn of(
        deliveries: &'a VecDeque<Queued>,
        messages_max: usize,
        bytes_max: u64,
    ) -> Self {
        let (mut messages, mut bytes) = (0, 0);
        for queued in deliveries.iter().take(messages_max) {
            let ids = queued.subscription_ids.as_ref().map_or(0, |ids| ids.len() as u64);
            let more = queued.message.bytes() + BESIDE_BYTES + IDENTIFIER_BYTES * ids;
            if messages > 0 && bytes + more > bytes_max {
                break;
            }
            (messages, bytes) = (messages + 1, bytes + more);
        }
        Self { deliveries, messages, bytes }
    }

    /// How many messages it has.
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Appends its bytes.
    pub fn encode(&self, wall: Wall, out: &mut Vec<u8>) {
        out.reserve(self.bytes as usize);
        out.push(FORM);
        let mut topic_before = "";
        for queued in self.deliveries.iter().take(self.messages) {
            let Queued { message, qos, retain, subscription_ids } = queued;
            put_flags(out, *qos, *retain);
            put_flags(out, message.qos, message.retain);
            put_time(out, message.expires_at, wall);
            // No topic is empty: so it is the one before.
            let topic = if message.topic == topic_before { "" } else { &message.topic };
            topic_before = &message.topic;
            put_bytes(out, topic.as_bytes());
            put_bytes(out, message.properties.as_properties().as_bytes());
            let ids = subscription_ids.as_deref().unwrap_or_default();
            put_number(out, ids.len() as u64);
            ids.iter().for_each(|&id| put_number(out, u64::from(id)));
            put_bytes(out, &message.payload);
        }
    }
}

/// What was on a page that was read.
#[derive(Clone, Debug)]
pub struct PageIn(pub(crate) Vec<Queued>);

/// Bytes that are no page: what was written is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPage(BadRecord);

impl fmt::Display for BadPage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a page has {}", self.0)
    }
}

impl std::error::Error for BadPage {}

impl PageIn {
    /// The page with these bytes.
    ///
    /// # Errors
    /// Bytes that no page has.
    pub fn decode(bytes: &[u8], wall: Wall) -> Result<Self, BadPage> {
        let mut reader = Reader::new(bytes);
        let mut deliveries = Vec::new();
        match reader.byte() {
            Ok(FORM) => {}
            Ok(form) => return Err(BadPage(BadRecord::UnknownKind(form))),
            Err(bad) => return Err(BadPage(bad)),
        }
        let mut topic = "";
        while !reader.is_empty() {
            deliveries.push(delivery(&mut reader, &mut topic, wall).map_err(BadPage)?);
        }
        Ok(Self(deliveries))
    }

    /// How many messages it has.
    pub fn messages(&self) -> usize {
        self.0.len()
    }
}

fn delivery<'a>(
    from: &mut Reader<'a>,
    topic: &mut &'a str,
    wall: Wall,
) -> Result<Queued, BadRecord> {
    let (qos, retain): (QoS, bool) = from.flags()?;
    let (message_qos, message_retain) = from.flags()?;
    let expires_at: Option<Micros> = from.time(wall)?;
    *topic = Some(from.text()?).filter(|text| !text.is_empty()).unwrap_or(topic);
    let properties = PropertiesBuf::from_bytes(from.bytes()?.into());
    let ids = (0..from.number_of_32_bits()?).map(|_| from.number_of_32_bits());
    let ids: Box<[u32]> = ids.collect::<Result<_, _>>()?;
    let message = Message {
        topic: (*topic).into(),
        payload: from.bytes()?.into(),
        properties,
        qos: message_qos,
        retain: message_retain,
        expires_at,
        // Whom it counts for, if it is retained, is not known any more.
        stamp: None,
    };
    let subscription_ids = Some(ids).filter(|ids| !ids.is_empty());
    Ok(Queued { message: Arc::new(message), qos, retain, subscription_ids })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn queued() -> impl Strategy<Value = Queued> {
        let qos = || select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
        let text = select(vec!["a", "sport/tennis", "ünïcode"]);
        let bytes = || vec(any::<u8>(), 0..300);
        let ids = option::of(vec(any::<u32>(), 1..4));
        let time = option::of((1_u64..1 << 60).prop_map(Micros));
        let flags = (qos(), any::<bool>(), qos(), any::<bool>());
        (text, bytes(), bytes(), flags, time, ids).prop_map(
            |(topic, payload, properties, flags, expires_at, ids)| Queued {
                message: Arc::new(Message {
                    topic: topic.into(),
                    payload,
                    properties: PropertiesBuf::from_bytes(properties),
                    qos: flags.0,
                    retain: flags.1,
                    expires_at,
                    stamp: None,
                }),
                qos: flags.2,
                retain: flags.3,
                subscription_ids: ids.map(Into::into),
            },
        )
    }

    proptest! {
        #[test]
        fn a_page_reads_as_written_and_none_of_its_parts_does(all in vec(queued(), 1..9)) {
            let (wall, all) = (Wall(5_000_000), VecDeque::from(all));
            let mut bytes = Vec::new();
            let page = PageOut::of(&all, usize::MAX, u64::MAX);
            page.encode(wall, &mut bytes);
            prop_assert!(bytes.len() as u64 <= page.bytes + 1, "{} bytes", bytes.len());
            let read = PageIn::decode(&bytes, wall).unwrap().0;
            prop_assert_eq!(format!("{read:?}"), format!("{:?}", Vec::from(all)));
            for end in 0..bytes.len() {
                // The end of a delivery ends a page: how long a page is, its record says.
                let part = PageIn::decode(&bytes[..end], wall);
                prop_assert!(part.is_err() || part.unwrap().0.len() < read.len());
            }
        }

        #[test]
        fn no_bytes_are_too_much(bytes in vec(any::<u8>(), 0..60)) {
            let _ = PageIn::decode(&bytes, Wall(0));
            let page: Vec<u8> = std::iter::once(FORM).chain(bytes).collect();
            let _ = PageIn::decode(&page, Wall(0));
        }
    }

    #[test]
    fn a_page_takes_one_delivery_at_least_and_no_more_than_fit() {
        let one = |payload: usize| Queued {
            message: Arc::new(Message {
                topic: "t".into(),
                payload: vec![0; payload],
                properties: PropertiesBuf::new(),
                qos: QoS::AtLeastOnce,
                retain: false,
                expires_at: None,
                stamp: None,
            }),
            qos: QoS::AtLeastOnce,
            retain: false,
            subscription_ids: None,
        };
        let all: VecDeque<Queued> = [900, 10, 10, 10].map(one).into();
        let messages =
            |messages_max, bytes_max| PageOut::of(&all, messages_max, bytes_max).messages;
        assert_eq!(messages(9, 100), 1);
        assert_eq!(messages(9, 1_100), 4);
        assert_eq!(messages(9, 1_000), 2);
        assert_eq!(messages(2, 10_000), 2);
    }
}
