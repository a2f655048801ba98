#![no_main]

#[path = "../../tests/fuzz/callback_request.rs"]
mod callback_request;

libfuzzer_sys::fuzz_target!(|data: &[u8]| callback_request::run(data));
