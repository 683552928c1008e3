//! Letters against their bytes.

use super::*;
use crate::keys::{Claim, Lsn, Micros, ShardId};
use crate::mail::{GroupPick, LogMail, SessionMail, SessionPart};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weir_wire::QoS;

/// The clocks' distance in the tests: times of [`message`] are after both epochs.
const WALL: Wall = Wall(-1_000_000);

const TEXTS: &[&str] = &["", "a", "sport/tennis", "$share/g/a/+", "ünïcode/#"];

fn text<T: From<&'static str> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    select(TEXTS).prop_map(T::from)
}

fn numbers() -> impl Strategy<Value = Box<[u64]>> {
    vec(any::<u64>(), 0..4).prop_map(Vec::into_boxed_slice)
}

fn lsn() -> impl Strategy<Value = Lsn> {
    (1..=u64::MAX).prop_map(Lsn)
}

/// As a slot map makes them.
fn ticket() -> impl Strategy<Value = Ticket> {
    (any::<u32>(), any::<u32>()).prop_map(|(index, version)| {
        KeyData::from_ffi(u64::from(version | 1) << 32 | u64::from(index)).into()
    })
}

fn stamp() -> impl Strategy<Value = Stamp> {
    (any::<u16>(), 1..=u32::MAX, any::<u64>()).prop_map(|(shard, origin, number)| Stamp {
        shard: ShardId(shard),
        origin: Origin::of_number(NonZeroU32::new(origin).unwrap()),
        number,
    })
}

fn message() -> impl Strategy<Value = Arc<Message>> {
    let qos = select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]);
    let time = option::of((1_000_001_u64..1 << 60).prop_map(Micros));
    let bytes = select(vec![&b""[..], b"x", &[0xFF; 300]]);
    let properties = select(vec![&b""[..], &[0x26, 0, 1, b'k', 0, 1, b'v']]);
    (text(), bytes, properties, qos, any::<bool>(), time, option::of(stamp())).prop_map(
        |(topic, payload, properties, qos, retain, expires_at, stamp)| {
            let properties = PropertiesBuf::from_bytes(properties.into());
            let payload = payload.into();
            Arc::new(Message { topic, payload, properties, qos, retain, expires_at, stamp })
        },
    )
}

fn publish() -> impl Strategy<Value = Mail> {
    let pick = (text(), any::<u64>(), any::<u64>(), any::<u8>())
        .prop_map(|(share, member, key, hops)| GroupPick { share, member, key, hops });
    let numbers = (option::of(any::<u64>()), option::of(lsn()));
    (message(), any::<bool>(), vec(pick, 0..3), numbers).prop_map(
        |(message, to_subscribers, picks, (number, mailed))| {
            let picks = picks.into();
            Mail::Publish { message, to_subscribers, picks, number, mailed }
        },
    )
}

fn of_shares() -> impl Strategy<Value = Mail> {
    let member = (text(), any::<u64>(), option::of(any::<u32>()), any::<u64>());
    (member, 0..3).prop_map(|((share, member, packet_bytes_max, number), kind)| match kind {
        0 => Mail::Joined { share, member, packet_bytes_max, number },
        1 => Mail::Presence { share, member, packet_bytes_max },
        _ => Mail::Left { share, member },
    })
}

fn of_retained() -> impl Strategy<Value = Mail> {
    let refused = select(vec![None, Some(NotRetained::Full), Some(NotRetained::ShareTaken)]);
    let partitions = vec(any::<u8>().prop_map(Partition), 0..9)
        .prop_map(|all| Box::new(all.into_iter().collect::<PartitionSet>()));
    let query = (text(), option::of(text()), option::of(partitions), any::<u32>(), numbers());
    let page = (vec(message(), 0..3), option::of(text()), numbers());
    prop_oneof![
        (message(), option::of(ticket()))
            .prop_map(|(message, ticket)| Mail::Retain { message, ticket }),
        (ticket(), refused).prop_map(|(ticket, refused)| Mail::Retained { ticket, refused }),
        (query, ticket()).prop_map(
            |((filter, after, partitions, messages_max, needed), ticket)| {
                let query =
                    RetainedQuery { filter, after, partitions, messages_max, needed, ticket };
                Mail::RetainedQuery(query)
            }
        ),
        (page, ticket()).prop_map(|((messages, next, received), ticket)| {
            Mail::RetainedPage(RetainedPage { messages, next, received, ticket })
        }),
        vec(message(), 0..3).prop_map(|messages| Mail::MovedRetained { messages }),
        (message(), any::<(u64, u16)>(), option::of(any::<u64>())).prop_map(
            |(message, (count, node), number)| {
                Mail::Copy { message, version: Version { count, node }, number }
            }
        ),
        any::<u64>().prop_map(|number| Mail::Listing { number }),
        numbers().prop_map(|received| Mail::Listed { received }),
    ]
}

fn of_sessions() -> impl Strategy<Value = Mail> {
    let claim = || any::<u64>().prop_map(Claim);
    let shard = || any::<u16>().prop_map(ShardId);
    let bytes = || vec(any::<u8>(), 0..9).prop_map(Vec::into_boxed_slice);
    let part = prop_oneof![
        bytes().prop_map(SessionPart::State),
        bytes().prop_map(SessionPart::Queue),
        Just(SessionPart::End)
    ];
    prop_oneof![
        (text(), claim(), any::<bool>(), any::<u64>()).prop_map(
            |(client_id, claim, is_clean, number)| SessionMail::Claim {
                client_id,
                claim,
                is_clean,
                number
            }
        ),
        (text(), claim(), any::<bool>()).prop_map(|(client_id, claim, is_asking)| {
            SessionMail::Held { client_id, claim, is_asking }
        }),
        (claim(), claim(), bytes()).prop_map(|(claim, held, records)| SessionMail::Leaving {
            claim,
            held,
            records
        }),
        (claim(), shard()).prop_map(|(claim, from)| SessionMail::Moving { claim, from }),
        (claim(), shard()).prop_map(|(claim, from)| SessionMail::Switched { claim, from }),
        (claim(), part).prop_map(|(claim, part)| SessionMail::Part { claim, part }),
        claim().prop_map(|claim| SessionMail::Taken { claim }),
        (claim(), claim(), 1..9_u64).prop_map(|(claim, anew, number)| {
            SessionMail::Stays { claim, anew: (number > 3).then_some((anew, number)) }
        }),
        (text(), claim(), bytes(), any::<u32>()).prop_map(|(client_id, claim, will, wait_s)| {
            SessionMail::Will { client_id, claim, will, wait_s }
        }),
        text().prop_map(|client_id| SessionMail::WillOver { client_id }),
        (text(), claim())
            .prop_map(|(client_id, claim)| SessionMail::WillTaken { client_id, claim }),
        Just(SessionMail::Unwatch),
        Just(SessionMail::Closing),
    ]
    .prop_map(Mail::Session)
}

fn of_logs() -> impl Strategy<Value = Mail> {
    let records = vec(any::<u8>(), 0..9).prop_map(Vec::into_boxed_slice);
    let copy = any::<u64>;
    prop_oneof![
        copy().prop_map(|copy| LogMail::Begin { copy }),
        (copy(), copy(), records).prop_map(|(copy, nth, records)| LogMail::Records {
            copy,
            nth,
            records
        }),
        (copy(), lsn()).prop_map(|(copy, last)| LogMail::Safe { copy, last }),
        copy().prop_map(|copy| LogMail::Failed { copy }),
    ]
    .prop_map(Mail::Log)
}

fn mail() -> impl Strategy<Value = Mail> {
    let receipt = (any::<u64>(), numbers(), numbers(), numbers(), any::<bool>());
    prop_oneof![
        (text(), any::<u64>()).prop_map(|(filter, number)| Mail::Interest { filter, number }),
        text().prop_map(|filter| Mail::InterestGone { filter }),
        of_shares(),
        receipt.prop_map(|(number, pending, done, retains, is_short)| Mail::Receipt {
            number,
            pending,
            done,
            retains,
            is_short,
        }),
        publish(),
        lsn().prop_map(|number| Mail::Kept { number }),
        (text(), any::<u64>(), select(&DETAILS[..]))
            .prop_map(|(topic, number, detail)| Mail::Refused { topic, number, detail }),
        of_retained(),
        of_sessions(),
        of_logs(),
        any::<u32>().prop_map(|round| Mail::Marker { round }),
        any::<bool>().prop_map(|is_busy| Mail::Rested { is_busy }),
        (any::<u8>(), any::<u16>()).prop_map(|(partition, to)| Mail::Move {
            partition: Partition(partition),
            to: ShardId(to),
        }),
        Just(Mail::Thaw),
        Just(Mail::Thawed),
    ]
}

fn encoded(mail: &Mail) -> Vec<u8> {
    let mut bytes = Vec::new();
    mail.encode(WALL, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn a_letter_reads_as_written(mail in mail()) {
        prop_assert_eq!(Mail::decode(&encoded(&mail), WALL), Ok(mail));
    }

    #[test]
    fn letters_behind_each_other_are_told_apart(first in mail(), second in mail()) {
        let bytes = [encoded(&first), encoded(&second)].concat();
        let rest = &mut &bytes[..];
        prop_assert_eq!(Mail::decode_first(rest, WALL), Ok(first));
        prop_assert_eq!(Mail::decode_first(rest, WALL), Ok(second));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_letter_without_its_message_reads_as_written(mail in publish()) {
        let Mail::Publish { message, .. } = &mail else { unreachable!() };
        let mut bytes = Vec::new();
        mail.encode_again(&mut bytes);
        bytes.push(7);
        let rest = &mut &bytes[..];
        prop_assert_eq!(Mail::decode_again(rest, Arc::clone(message)), Ok(mail));
        prop_assert_eq!(*rest, &[7][..]);
    }

    #[test]
    fn no_part_of_a_letter_is_one(mail in mail()) {
        let mut bytes = encoded(&mail);
        for end in 0..bytes.len() {
            let part = Mail::decode(&bytes[..end], WALL);
            prop_assert!(part.is_err(), "{part:?}");
        }
        bytes.push(0);
        prop_assert!(Mail::decode(&bytes, WALL).is_err());
    }
}

#[test]
fn kinds_have_numbers_without_a_gap_and_the_rest_are_unknown() {
    for kind in 0..=u8::MAX {
        let is_unknown = Mail::decode(&[kind], WALL) == Err(BadRecord::UnknownKind(kind));
        assert_eq!(is_unknown, !(INTEREST..=LOG).contains(&kind), "{kind}");
    }
}

#[test]
fn what_claims_to_be_long_and_is_not_takes_no_memory() {
    // A page of 2^63 messages, of which there is none.
    let mut bytes = vec![MOVED_RETAINED];
    put_number(&mut bytes, 1 << 63);
    assert!(matches!(Mail::decode(&bytes, WALL), Err(BadRecord::Malformed(_))));
}

#[test]
fn words_of_a_newer_version_are_put_in_those_of_this_one() {
    let detail = "the moon is in the way";
    let refused = Mail::Refused { topic: "a".into(), number: 7, detail };
    let known = Mail::Refused { topic: "a".into(), number: 7, detail: DETAILS[3] };
    assert_eq!(Mail::decode(&encoded(&refused), WALL), Ok(known));
}
