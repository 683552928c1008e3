#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| weir_fuzz::mosquitto::check(file));
