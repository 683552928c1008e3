//! Times of conditions on a message of 300 bytes: `cargo bench -p weir-flow`.

use divan::{Bencher, black_box};
use weir_flow::{Condition, Flow, Message, Scratch};

const WIALON: &str = include_str!("../tests/wialon.json");

const FOUR: &str = "has(payload.p.mcc) && has(payload.p.mnc) && has(payload.p.lac) \
                    && has(payload.p.cell_id)";

fn main() {
    divan::main();
}

fn message() -> Message<'static> {
    Message {
        topic: "ud/unit/7",
        payload: WIALON.trim_end().as_bytes(),
        qos: 1,
        retain: false,
        user_properties: &[],
    }
}

#[divan::bench(args = [
    FOUR,
    "payload.pos.s > 60",
    "payload.tp == \"ud\" && payload.pos.s > 60 && topic.startsWith(\"ud/\")",
    "topic.startsWith(\"ud/\")",
])]
fn fast(bencher: Bencher<'_, '_>, text: &str) {
    let condition = Condition::parse(text).expect("a condition");
    let (message, mut scratch) = (message(), Scratch::default());
    assert!(condition.is_fast());
    bencher.bench_local(|| condition.check(black_box(&message), &mut scratch));
}

/// The four of one message by so many conditions that differ.
#[divan::bench(args = [1, 10, 100])]
fn distinct(bencher: Bencher<'_, '_>, count: usize) {
    let conditions: Vec<Condition> = (0..count)
        .map(|at| Condition::parse(&format!("{FOUR} && payload.pos.s > {at}")))
        .collect::<Result<_, _>>()
        .expect("conditions");
    let (message, mut scratch) = (message(), Scratch::default());
    bencher.bench_local(|| {
        let message = black_box(&message);
        let mut reading = scratch.reading(message);
        for condition in &conditions {
            black_box(reading.check(condition));
        }
    });
}

#[divan::bench(args = [FOUR, "payload.pos.s > 60", "payload.pos.s > payload.pos.c"])]
fn interpreter(bencher: Bencher<'_, '_>, text: &str) {
    let condition = Condition::parse(text).expect("a condition");
    let (message, mut scratch) = (message(), Scratch::default());
    bencher.bench_local(|| scratch.reading(black_box(&message)).check_by_interpreter(&condition));
}

#[divan::bench]
fn parse(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Condition::parse(black_box(FOUR)));
}

#[divan::bench(args = [
    "",
    "payload = 'payload.p'",
    "payload = '{\"lat\": payload.pos.y, \"lon\": payload.pos.x}'",
])]
fn flow(bencher: Bencher<'_, '_>, payload: &str) {
    let rule = format!(
        "[[flow]]\nname = \"cells\"\nfrom = \"ud/#\"\nwhen = '{FOUR}'\n\
         to = \"cells/{{payload.p.mcc}}/{{topic[1]}}\"\n{payload}"
    );
    let (message, mut flow) = (message(), Flow::parse(&rule).expect("a rule"));
    bencher.bench_local(|| {
        flow.apply(black_box(&message), 0, &mut |output| {
            black_box(output);
        })
    });
}
