#![no_main]

#[path = "../../tests/fuzz/auth_headers.rs"]
mod auth_headers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| auth_headers::run(data));
