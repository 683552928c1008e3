//! Seeds of the fuzz targets of this crate: `fuzz/corpus/tls_hello`, `tls_compact`.

#[path = "../tests/it/tls/support.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "it is a part of tests")]
mod support;

use std::path::Path;
use support::{End, TLS12, TLS13, pair};

/// What a client does, as `fuzz/src/tls.rs` reads it: content, changes of keys, records of other
/// kinds, bytes that nobody sealed, answers, and pieces.
const ACTIONS: [&[u8]; 6] = [
    b"\x00\x05hello\x00\x00\x01\x01\x00\x01\x01\x01\x00\x02hi",
    b"\x05\x03\x00\x05hello\x04\xff\x01\x01\x01\x00\x01x",
    b"\x02\x03\x15\x01\x00",
    b"\x02\x03\x15\x01\x5a\x02\x04\x00a\x17\x00",
    b"\x03\x06\x17\x03\x03\x00\x11a\x00\x02hi",
    b"\x02\x06\x16\x04\x00\x00\x01\x00",
];

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let greetings = [TLS12, TLS13].map(|kind| {
        let (_, _, _, client) = pair(kind);
        let greeting = End::new(client.layer("localhost").expect("a name")).network;
        // In pieces of 255 bytes.
        [&[255, 0], &greeting[..]].concat()
    });
    let greetings: Vec<&[u8]> = greetings.iter().map(Vec::as_slice).collect();
    for (target, seeds) in [("tls_hello", &greetings[..]), ("tls_compact", &ACTIONS)] {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        for (at, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}
