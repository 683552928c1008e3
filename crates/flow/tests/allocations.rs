//! Conditions that need no tree allocate nothing, and neither does a rule that keeps the bytes.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use weir_flow::{Condition, Flow, Message, Scratch, Verdict};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WIALON: &str = include_str!("wialon.json");

// One test alone in its process, and several rounds: allocations of the thread that runs the tests
// count too.
#[test]
fn a_message_allocates_nothing_once_the_memory_is_warm() {
    let conditions = [
        "has(payload.p.mcc) && has(payload.p.mnc) && has(payload.p.lac) && has(payload.p.cell_id)",
        "payload.pos.s > 60 || payload.n in [1, 2, 3]",
        "payload.tp == \"ud\" && topic.startsWith(\"ud/\") && !retain",
        "payload.none.at_all == 1 || payload.tp.contains(\"d\")",
    ]
    .map(|text| Condition::parse(text).unwrap());
    let rule = "[[flow]]\nname = \"r\"\nfrom = \"ud/#\"\nwhen = 'has(payload.p.mcc)'\n\
                to = \"cells/{payload.p.mcc}/{topic[1]}\"\npayload = 'payload.p'";
    let mut flow = Flow::parse(rule).unwrap();
    let message = Message {
        topic: "ud/unit/7",
        payload: WIALON.trim_end().as_bytes(),
        qos: 1,
        retain: false,
        user_properties: &[("a", "b")],
    };
    let mut scratch = Scratch::default();
    let mut work = || {
        for condition in &conditions {
            assert_eq!(condition.check(&message, &mut scratch), Verdict::Match);
        }
        let applied = flow.apply(&message, 0, &mut |output| assert_eq!(output.qos, 1));
        assert_eq!(applied.published, 1);
    };
    work();
    let allocations = (0..10).map(|_| {
        let region = Region::new(ALLOCATOR);
        for _ in 0..100 {
            work();
        }
        region.change().allocations
    });
    assert_eq!(allocations.min(), Some(0));
}
