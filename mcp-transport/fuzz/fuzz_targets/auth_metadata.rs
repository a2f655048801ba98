#![no_main]

#[path = "../../tests/fuzz/auth_metadata.rs"]
mod auth_metadata;

libfuzzer_sys::fuzz_target!(|data: &[u8]| auth_metadata::run(data));
