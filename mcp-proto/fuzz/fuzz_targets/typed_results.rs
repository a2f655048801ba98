#![no_main]

#[path = "../../tests/fuzz/typed_results.rs"]
mod typed_results;

libfuzzer_sys::fuzz_target!(|data: &[u8]| typed_results::run(data));
