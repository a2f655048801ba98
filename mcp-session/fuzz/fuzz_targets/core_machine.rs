#![no_main]

#[path = "../../tests/fuzz/core_machine.rs"]
mod core_machine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| core_machine::run(data));
