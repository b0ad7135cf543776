//! Whatever bytes arrive as a program in libccp's encoding, they are refused, or are a verified
//! program, which runs (with the feature `native`, alike as machine code), and, if it fits libccp, means
//! the same once it is encoded again.

#![no_main]

use fairwater_exec::portable::{self, Append, Decoded};
use fairwater_fuzz::{Flow, acks, runs};
use fairwater_lang::binary;
use libfuzzer_sys::fuzz_target;

/// The program means the same after it was encoded again.
fn comes_back(first: &Decoded, bytes: &[u8]) {
    let Ok(encoded) = portable::encode(&first.program, Append::Nothing) else {
        return;
    };
    let second = portable::decode(&encoded.body).unwrap();
    let (mut a, mut b) = (Flow::new(&first.program), Flow::new(&second.program));
    for signals in acks(bytes).take(8) {
        assert_eq!(a.ack(&signals), b.ack(&signals));
        assert_eq!(a.registers, b.registers);
        for (id, register) in &encoded.controls {
            assert_eq!(a.variable(*id), b.variable(second.controls[register]));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(decoded) = portable::decode(bytes) {
        let program = &decoded.program;
        assert_eq!(program.verify(), Ok(()));
        assert_eq!(
            binary::decode(&binary::encode(program)).as_ref(),
            Ok(program)
        );
        runs(program, bytes);
        comes_back(&decoded, bytes);
    }
});
