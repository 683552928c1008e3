//! Seeds of the fuzz target of the API: `fuzz/corpus/api`.

#[expect(clippy::expect_used, dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../../../fuzz/src/api.rs"]
mod api;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/api");
    std::fs::create_dir_all(&folder)?;
    for (at, seed) in api::seeds().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{at}")), seed)?;
    }
    Ok(())
}
