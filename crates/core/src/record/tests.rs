//! Records against their bytes.

use super::*;
use crate::mail::GroupPick;
use crate::outbox::{Handling, Mark};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weir_wire::packet::RetainHandling;

const TEXTS: &[&str] = &["", "a", "sport/tennis", "$share/g/a/+", "ünïcode/#"];
const BYTES: &[&[u8]] = &[b"", b"x", &[0x26, 0, 1, b'k', 0, 1, b'v'], &[0xFF; 300]];

/// The clocks' distance in the tests: times of [`time`] are after both epochs.
const WALL: Wall = Wall(-1_000_000);

fn text() -> impl Strategy<Value = &'static str> {
    select(TEXTS)
}

fn bytes() -> impl Strategy<Value = &'static [u8]> {
    select(BYTES)
}

fn lsn() -> impl Strategy<Value = Lsn> {
    prop_oneof![1_u64..300, Just(u64::MAX), any::<u64>().prop_map(|it| it.max(1))].prop_map(Lsn)
}

fn time() -> impl Strategy<Value = Option<Micros>> {
    option::of((1_000_001_u64..1 << 60).prop_map(Micros))
}

fn qos() -> impl Strategy<Value = QoS> {
    select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    (1_u16..=u16::MAX).prop_map(|value| PacketId::new(value).unwrap())
}

fn will() -> impl Strategy<Value = WillRecord<'static>> {
    let flags = (qos(), any::<bool>(), any::<u32>(), option::of(any::<u32>()));
    (text(), bytes(), bytes(), flags).prop_map(|(topic, payload, properties, flags)| {
        let (qos, retain, delay_s, message_expiry_s) = flags;
        WillRecord { topic, payload, properties, qos, retain, delay_s, message_expiry_s }
    })
}

fn options() -> impl Strategy<Value = SubscriptionOptions> {
    let handling =
        select(vec![RetainHandling::Send, RetainHandling::SendIfNew, RetainHandling::DontSend]);
    (qos(), any::<bool>(), any::<bool>(), handling).prop_map(
        |(qos, no_local, retain_as_published, retain_handling)| SubscriptionOptions {
            qos,
            no_local,
            retain_as_published,
            retain_handling,
        },
    )
}

fn queued() -> impl Strategy<Value = Record<'static>> {
    let qos = select(vec![QoS::AtLeastOnce, QoS::ExactlyOnce]);
    let ids = vec(any::<u32>(), 0..4);
    (lsn(), lsn(), qos, any::<bool>(), ids, option::of(packet_id())).prop_map(
        |(session, message, qos, retain, ids, packet_id)| Record::Queued {
            session,
            message,
            qos,
            retain,
            subscription_ids: ids.into(),
            packet_id,
        },
    )
}

fn mailed() -> impl Strategy<Value = Record<'static>> {
    let pick =
        (text(), any::<u64>(), any::<u64>(), any::<u8>()).prop_map(|(share, member, key, hops)| {
            GroupPick { share: share.into(), member, key, hops }
        });
    let target = (any::<u16>(), any::<bool>(), vec(pick, 0..3)).prop_map(
        |(shard, to_subscribers, picks)| MailTarget {
            shard: ShardId(shard),
            to_subscribers,
            picks: picks.into(),
        },
    );
    (prop_oneof![Just(Lsn::NONE), lsn()], lsn(), vec(target, 0..4)).prop_map(
        |(number, message, targets)| Record::Mailed { number, message, targets: targets.into() },
    )
}

fn paged() -> impl Strategy<Value = Record<'static>> {
    let numbers = (1..=u32::MAX, any::<u64>(), any::<u64>());
    (lsn(), any::<u64>().prop_map(PageId), numbers, 0..3).prop_map(
        |(session, page, (messages, bytes, behind), kind)| match kind {
            0 => Record::Paged { session, page, messages, bytes, behind },
            1 => Record::Page { session, page, messages, bytes },
            _ => Record::Fetched { session, page },
        },
    )
}

fn mark() -> impl Strategy<Value = Record<'static>> {
    let handling =
        select(&[Handling::Whole, Handling::Refused, Handling::PutOff, Handling::Mailed]);
    (any::<u16>(), lsn(), handling).prop_map(|(from, number, handling)| {
        Record::of_mark(Mark { from: ShardId(from), number, handling })
    })
}

fn record() -> impl Strategy<Value = Record<'static>> {
    let any_session = prop_oneof![Just(Lsn::NONE), lsn()];
    let of_packet = (lsn(), packet_id());
    prop_oneof![
        (any_session, text(), any::<u32>(), option::of(will())).prop_map(
            |(session, client_id, expiry_s, will)| Record::Session {
                session,
                client_id,
                expiry_s,
                will,
            }
        ),
        (lsn(), time(), time()).prop_map(|(session, expires_at, will_at)| Record::Absent {
            session,
            expires_at,
            will_at,
        }),
        lsn().prop_map(|session| Record::Gone { session }),
        (lsn(), text(), option::of(text()), options(), option::of(1..=u32::MAX)).prop_map(
            |(session, name, condition, options, subscription_id)| Record::Subscribed {
                session,
                name,
                condition,
                options,
                subscription_id,
            }
        ),
        (lsn(), text()).prop_map(|(session, name)| Record::Unsubscribed { session, name }),
        (text(), bytes(), bytes(), qos(), any::<bool>(), time()).prop_map(
            |(topic, payload, properties, qos, retain, expires_at)| Record::Message {
                topic,
                payload,
                properties,
                qos,
                retain,
                expires_at,
            }
        ),
        queued(),
        lsn().prop_map(|session| Record::Dropped { session }),
        (of_packet, 0..5).prop_map(|((session, packet_id), kind)| match kind {
            0 => Record::Sent { session, packet_id },
            1 => Record::Received { session, packet_id },
            2 => Record::Done { session, packet_id },
            3 => Record::Noted { session, packet_id },
            _ => Record::Released { session, packet_id },
        }),
        Just(Record::Base),
        Just(Record::BaseEnd),
        (text(), bytes(), bytes(), qos(), time()).prop_map(
            |(topic, payload, properties, qos, expires_at)| Record::Retained {
                topic,
                payload,
                properties,
                qos,
                expires_at,
            }
        ),
        text().prop_map(|topic| Record::Cleared { topic }),
        mailed(),
        mark(),
        (lsn(), any::<u64>())
            .prop_map(|(session, claim)| Record::Claimed { session, claim: Claim(claim) }),
        lsn().prop_map(|number| Record::Delivered { number }),
        paged(),
    ]
}

/// Payload and identifiers go to the end of the body, whose length the log says.
fn is_open(record: &Record<'_>) -> bool {
    matches!(record, Record::Message { .. } | Record::Queued { .. } | Record::Retained { .. })
}

proptest! {
    #[test]
    fn a_record_reads_as_written(record in record()) {
        let mut body = Vec::new();
        record.encode(WALL, &mut body);
        prop_assert_eq!(Record::decode(record.kind(), &body, WALL), Ok(record));
    }

    #[test]
    fn no_part_of_a_record_is_another(record in record()) {
        let mut body = Vec::new();
        record.encode(WALL, &mut body);
        for end in 0..body.len() {
            let part = Record::decode(record.kind(), &body[..end], WALL);
            prop_assert_ne!(part.as_ref(), Ok(&record));
            prop_assert!(part.is_err() || is_open(&record), "{part:?}");
        }
        body.push(0);
        let longer = Record::decode(record.kind(), &body, WALL);
        prop_assert!(longer.is_err() || is_open(&record), "{longer:?}");
    }
}

#[test]
fn every_kind_has_a_number_of_its_own_and_the_rest_are_unknown() {
    for kind in 0..=u8::MAX {
        let unknown = Record::decode(kind, &[], WALL) == Err(BadRecord::UnknownKind(kind));
        let is_known = (SESSION..=MARKED_FAR).contains(&kind);
        assert_eq!(unknown, !is_known, "{kind}");
    }
}

#[test]
fn a_time_is_the_same_on_the_wall_for_a_clock_that_began_anew() {
    let (session, at) = (Lsn(7), Micros(5_000_000));
    let mut body = Vec::new();
    let absent = Record::Absent { session, expires_at: Some(at), will_at: None };
    absent.encode(Wall(1_000_000_000), &mut body);
    let read = |wall| match Record::decode(ABSENT, &body, wall) {
        Ok(Record::Absent { expires_at: Some(at), will_at: None, .. }) => at,
        other => panic!("{other:?}"),
    };
    // Two seconds later the machine starts, and its clock with it.
    assert_eq!(read(Wall(1_002_000_000)), Micros(3_000_000));
    // What is over is before all that is to come.
    assert_eq!(read(Wall(2_000_000_000)), Micros(1));
}

#[test]
fn numbers_have_one_encoding() {
    for body in [
        &[0x80, 0x00][..],
        &[0x81, 0x80, 0x00],
        &[0xFF; 10],
        &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02],
        &[0x80],
        &[],
        // No record has this number.
        &[0x00],
    ] {
        let decoded = Record::decode(GONE, body, WALL);
        assert!(matches!(decoded, Err(BadRecord::Malformed(_))), "{body:?}: {decoded:?}");
    }
    let largest = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    let decoded = Record::decode(GONE, &largest, WALL);
    assert_eq!(decoded, Ok(Record::Gone { session: Lsn(u64::MAX) }));
}
