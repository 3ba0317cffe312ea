//! See `linger::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linger::fuzzing::target("lmstfy")(data));
