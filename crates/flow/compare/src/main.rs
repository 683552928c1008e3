//! What a condition costs by other languages and by other readers of JSON, on the message of 300
//! bytes in `tests/wialon.json`: nanoseconds per message, the median of rounds.
//!
//!     cd crates/flow/compare && cargo run --release --target-dir ../../../target/compare

#![expect(clippy::unwrap_used, reason = "a measuring program: a panic is its failure")]

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, RcIter};
use sonic_rs::{JsonContainerTrait, JsonValueTrait};
use std::hint::black_box;
use std::time::Instant;
use weir_flow::{Condition, Message, Scratch, Verdict};

const WIALON: &str = include_str!("../../tests/wialon.json");

const FOUR: &str = "has(payload.p.mcc) && has(payload.p.mnc) && has(payload.p.lac) \
                    && has(payload.p.cell_id)";

const FIELDS: [&str; 4] = ["mcc", "mnc", "lac", "cell_id"];

const ROUNDS: usize = 15;
const MESSAGES: u32 = 50_000;

/// Times one way, which must say that the message matches.
fn time(name: &str, mut says: impl FnMut(&[u8]) -> bool) {
    let payload = WIALON.trim_end().as_bytes().to_vec();
    assert!(says(&payload), "{name}");
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..MESSAGES {
                black_box(says(black_box(&payload)));
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(MESSAGES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:<52} {:8.0} ns   (from {:.0} to {:.0})", rounds[ROUNDS / 2], rounds[0],
        rounds[ROUNDS - 1]);
}

fn main() {
    println!("presence of p.mcc, p.mnc, p.lac, p.cell_id in {} bytes", WIALON.trim_end().len());
    ours();
    readers();
    languages();
}

fn message(payload: &[u8]) -> Message<'_> {
    Message { topic: "ud/7", payload, qos: 0, retain: false, user_properties: &[] }
}

fn ours() {
    let condition = Condition::parse(FOUR).unwrap();
    let mut scratch = Scratch::default();
    time("weir-flow, index, whole message checked", |payload| {
        condition.check(&message(payload), &mut scratch) == Verdict::Match
    });
    let mut scratch = Scratch::default();
    time("CEL (cel), with the tree it needs", |payload| {
        let message = message(payload);
        scratch.reading(&message).check_by_interpreter(&condition) == Verdict::Match
    });
}

fn readers() {
    let mut tree = sonic_rs::PointerTree::new();
    for field in FIELDS {
        tree.add_path(&["p", field]);
    }
    time("sonic-rs get_many, checked", |payload| {
        sonic_rs::get_many(payload, &tree).is_ok_and(|found| found.iter().all(Option::is_some))
    });
    time("sonic-rs, value (arena)", |payload| {
        let value: sonic_rs::Value = sonic_rs::from_slice(payload).unwrap();
        let p = value.get("p").and_then(|p| p.as_object());
        p.is_some_and(|p| FIELDS.iter().all(|field| p.get(field).is_some()))
    });
    let mut buffers = simd_json::Buffers::new(1024);
    let mut copy = Vec::new();
    time("simd-json, tape, buffers kept, payload copied", |payload| {
        copy.clear();
        copy.extend_from_slice(payload);
        let tape = simd_json::to_tape_with_buffers(&mut copy, &mut buffers).unwrap();
        let root = tape.as_value();
        let p = root.as_object().and_then(|root| root.get("p")).and_then(|p| p.as_object());
        p.is_some_and(|p| FIELDS.iter().all(|field| p.get(field).is_some()))
    });
    time("serde_json, value", |payload| {
        let value: serde_json::Value = serde_json::from_slice(payload).unwrap();
        FIELDS.iter().all(|field| value["p"].get(field).is_some())
    });
}

fn languages() {
    let found = jmespath::compile("p.mcc && p.mnc && p.lac && p.cell_id").unwrap();
    time("JMESPath (jmespath), with its tree", |payload| {
        let value = jmespath::Variable::from_json(std::str::from_utf8(payload).unwrap()).unwrap();
        found.search(value).unwrap().is_truthy()
    });

    let code = ".p | has(\"mcc\") and has(\"mnc\") and has(\"lac\") and has(\"cell_id\")";
    let loader = Loader::new(jaq_std::defs().chain(jaq_json::defs()));
    let arena = Arena::default();
    let modules = loader.load(&arena, File { code, path: () }).unwrap();
    let functions = jaq_std::funs().chain(jaq_json::funs());
    let filter = Compiler::default().with_funs(functions).compile(modules).unwrap();
    let inputs = RcIter::new(core::iter::empty());
    time("jq (jaq), with its tree", |payload| {
        let value: serde_json::Value = serde_json::from_slice(payload).unwrap();
        let context = Ctx::new([], &inputs);
        let first = filter.run((context, jaq_json::Val::from(value))).next();
        first.is_some_and(|value| value.is_ok_and(|value| value == jaq_json::Val::from(true)))
    });
}
