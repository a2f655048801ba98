#![no_main]

#[path = "../../tests/fuzz/line_framer.rs"]
mod line_framer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| line_framer::run(data));
