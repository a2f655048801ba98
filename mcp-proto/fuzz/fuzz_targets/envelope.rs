#![no_main]

#[path = "../../tests/fuzz/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|data: &[u8]| envelope::run(data));
