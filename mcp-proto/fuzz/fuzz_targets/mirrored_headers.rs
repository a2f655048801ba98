#![no_main]

#[path = "../../tests/fuzz/mirrored_headers.rs"]
mod mirrored_headers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| mirrored_headers::run(data));
