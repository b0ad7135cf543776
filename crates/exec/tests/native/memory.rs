//! The memory that code lies in.

use std::ops::Range;

use fairwater_exec::invocation::{Registers, initial};
use fairwater_exec::native::Code;
use fairwater_lang::{Program, Signals, compile};

fn grow(by: u64) -> Program {
    let source = format!("(def (x 0)) (when true (:= x (+ x {by})) (:= Cwnd (+ Cwnd x)))");
    compile("grow.ccp", &source)
        .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
        .program
}

fn run(program: &Program, code: &Code) -> u64 {
    let mut registers = Registers::default();
    let mut variables = initial(program);
    code.run(&mut registers, &mut variables, &Signals::default());
    registers.cwnd
}

/// What may be done with each mapping of this process, as `r-xp`.
#[expect(clippy::unwrap_used, reason = "the kernel writes it so")]
fn permissions() -> Vec<(Range<usize>, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parsed = maps.lines().map(|line| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next().unwrap().split_once('-').unwrap();
        let address = |text| usize::from_str_radix(text, 16).unwrap();
        (
            address(start)..address(end),
            words.next().unwrap().to_owned(),
        )
    });
    parsed.collect()
}

#[test]
fn no_memory_is_writable_and_executable() {
    let programs: Vec<_> = (0..64).map(grow).collect();
    let codes: Vec<_> = programs.iter().map(|p| Code::compile(p).unwrap()).collect();
    for (by, (program, code)) in programs.iter().zip(&codes).enumerate() {
        assert_eq!(run(program, code), by as u64);
    }
    let permissions = permissions();
    assert!(permissions.iter().any(|(_, p)| p.starts_with("rw-")));
    for (range, permission) in permissions {
        let both = permission.contains('w') && permission.contains('x');
        assert!(!both, "{range:x?} is {permission}");
    }
}

#[test]
fn a_thousand_programs_take_a_page_each_and_give_it_back() {
    let executable = || {
        let executable = permissions().into_iter().filter(|(_, p)| p.contains('x'));
        executable.map(|(range, _)| range.len()).sum::<usize>()
    };
    // Other tests of this process compile meanwhile: a few mappings may come and go.
    let slack = 2 << 20;
    let program = grow(3);
    let before = executable();
    let codes: Vec<_> = (0..1000)
        .map(|_| Code::compile(&program).unwrap())
        .collect();
    let page = 64 << 10;
    assert!(codes.iter().all(|code| code.size() <= 4096));
    let held = executable();
    assert!(held >= before + 1000 * 4096 - slack, "{held} {before}");
    assert!(held <= before + 1000 * page + slack, "{held} {before}");
    drop(codes);
    assert!(executable() <= before + slack);
}

#[test]
fn code_runs_in_many_threads_at_once() {
    let program = grow(7);
    let code = Code::compile(&program).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| assert_eq!(run(&program, &code), 7)));
        }
    });
}

#[test]
#[should_panic(expected = "out of range")]
fn too_few_variables_are_not_run_on() {
    let code = Code::compile(&grow(1)).unwrap();
    code.run(&mut Registers::default(), &mut [], &Signals::default());
}
