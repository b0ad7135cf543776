//! Whatever bytes arrive as a program in our own form, they are refused, or are the one form of a
//! verified program, which runs (with the feature `native`, alike as machine code).

#![no_main]

use fairwater_fuzz::runs;
use fairwater_lang::binary;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(program) = binary::decode(bytes) {
        assert_eq!(program.verify(), Ok(()));
        assert_eq!(binary::encode(&program), bytes);
        runs(&program, bytes);
    }
});
