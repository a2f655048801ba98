#![no_main]

#[path = "../../tests/fuzz/token_reply.rs"]
mod token_reply;

libfuzzer_sys::fuzz_target!(|data: &[u8]| token_reply::run(data));
