//! The algorithms' programs as machine code.

use fairwater_exec::interp;
use fairwater_exec::invocation::{Registers, initial, reset_volatile};
use fairwater_exec::native::Code;
use fairwater_lang::{Program, Signals, arbitrary};
use fairwater_plane::Plane;
use proptest::collection::vec;
use proptest::prelude::*;

const SPECS: [&str; 9] = [
    "bbr",
    "bbr3",
    "constant:cwnd=10",
    "reno",
    "reno:slow_start=plane",
    "reno:slow_start=program-rate",
    "cubic",
    "cubic:slow_start=plane",
    "cubic:slow_start=program-rate",
];

fn programs(spec: &str) -> Vec<Program> {
    let choice = fairwater_algorithms::by_spec(spec).unwrap();
    let mut plane = Plane::new();
    plane.add(|programs| choice.build(programs)).unwrap();
    let programs = plane.algorithms()[0].programs();
    programs.iter().map(|p| p.program().clone()).collect()
}

/// Signals of one ACK: mostly of a likely size.
fn signals() -> impl Strategy<Value = Signals> {
    let number = prop_oneof![
        8 => 0..100_000_u64,
        1 => (0..64_u32, any::<u64>()).prop_map(|(bits, n)| n >> bits),
    ];
    arbitrary::signals(number)
}

#[test]
fn every_program_does_compiled_what_it_means() {
    let compiled: Vec<_> = SPECS
        .into_iter()
        .flat_map(programs)
        .map(|program| (Code::compile(&program).unwrap(), program))
        .collect();
    assert!(compiled.len() >= SPECS.len());
    proptest!(|(stream in vec(signals(), 1..200), cwnd in 1..1_000_000_u64)| {
        for (code, program) in &compiled {
            let start = Registers { cwnd, ..Registers::default() };
            let (mut meant, mut got) = ((start, initial(program)), (start, initial(program)));
            for signals in &stream {
                let reports = interp::run(program, &mut meant.0, &mut meant.1, signals);
                prop_assert_eq!(code.run(&mut got.0, &mut got.1, signals), reports);
                prop_assert_eq!(&got, &meant);
                if reports {
                    reset_volatile(program, &mut meant.1);
                    reset_volatile(program, &mut got.1);
                }
            }
        }
    });
}
