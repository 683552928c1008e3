#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| weir_fuzz::shards::check(script));
