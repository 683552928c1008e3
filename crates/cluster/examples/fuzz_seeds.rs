//! Seeds of the fuzz target of this crate: `fuzz/corpus/frame`.

#[path = "../tests/it/support.rs"]
#[expect(dead_code, reason = "it is a part of tests")]
mod support;

use std::path::Path;
use support::{WALL, flush, letter, link, message, publish, push};
use weir_core::Micros;
use weir_wire::QoS;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut a, mut b) = (link(1, 0, 2, 1 << 20), link(0, 1, 1, 1 << 20));
    let now = Micros(0);
    a.connected(now);
    b.connected(now);
    a.received(&flush(&mut b, now), now, WALL, &mut support::Notes::default())?;
    let hello = flush(&mut a, now);
    let message = message(QoS::AtLeastOnce, b"payload".to_vec());
    for number in 1..4 {
        push(&mut a, &publish(&message, number, true));
    }
    push(&mut a, &letter(4));
    let letters = flush(&mut a, now);
    let ping = flush(&mut a, Micros(1_000_000));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frame");
    std::fs::create_dir_all(&folder)?;
    let seeds =
        [[&[1][..], &hello, &letters, &ping].concat(), [&[0][..], &letters, &ping].concat()];
    for (at, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{at}")), seed)?;
    }
    Ok(())
}
