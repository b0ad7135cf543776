//! What the algorithms' programs cost in the worst case.

use fairwater_exec::cost::{self, DEFAULT_BUDGET};
use fairwater_plane::Plane;

/// `--nocapture` prints the numbers.
#[test]
fn every_default_algorithm_takes_less_than_half_of_the_default_budget() {
    for entry in fairwater_algorithms::all() {
        let mut plane = Plane::new();
        let choice = fairwater_algorithms::by_spec(entry.name).unwrap();
        plane.add(|programs| choice.build(programs)).unwrap();
        for algorithm in plane.algorithms() {
            for program in algorithm.programs() {
                let cost = cost::of(&program.shared());
                let (name, of) = (program.name(), entry.name);
                println!("{of:18} {name:18} {cost:?}");
                let ebpf = cost.ebpf.unwrap();
                assert!(ebpf < DEFAULT_BUDGET / 2, "{name} of {of}: {ebpf}");
            }
        }
    }
}
