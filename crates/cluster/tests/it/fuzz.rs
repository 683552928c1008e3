//! The fuzz target of frames without a fuzzer: frames of a link that somebody has damaged, and
//! random bytes.

use crate::fuzzed::check;
use crate::support::{flush, letter, link, message, publish, push};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_core::Micros;
use weir_wire::QoS;

/// What a link says on its first connection, behind a Hello that it hears.
fn said() -> Vec<u8> {
    let (mut a, mut b) = (link(1, 0, 2, 1 << 20), link(0, 1, 1, 1 << 20));
    let now = Micros(0);
    a.connected(now);
    b.connected(now);
    let mut notes = crate::support::Notes::default();
    a.received(&flush(&mut b, now), now, crate::support::WALL, &mut notes).unwrap();
    let message = message(QoS::AtLeastOnce, b"payload".to_vec());
    for number in 1..4 {
        push(&mut a, &publish(&message, number, true));
    }
    push(&mut a, &letter(4));
    let mut all = flush(&mut a, now);
    push(&mut a, &letter(5));
    all.extend(flush(&mut a, now));
    all.extend(flush(&mut a, Micros(1_000_000)));
    all
}

proptest! {
    #[test]
    fn damaged_frames_are_refused(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        is_greeted in any::<bool>(),
    ) {
        let mut bytes = said();
        // Where the target greets by itself, the Hello is left out.
        let hello = 4 + u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize;
        let mut bytes = bytes.split_off(if is_greeted { hello } else { 0 });
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        check(&[&[u8::from(!is_greeted)], &bytes[..]].concat());
    }

    #[test]
    fn random_bytes_are_refused(bytes in vec(prop_oneof![3 => 0..6_u8, 1 => any::<u8>()], 0..200)) {
        check(&bytes);
    }
}
