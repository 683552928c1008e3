#![no_main]

use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

// Its clock goes on when there is nothing to do, so that nothing is waited for.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| weir_fuzz::api::check(&RUNTIME, input));
