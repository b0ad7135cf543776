//! From instructions that jump to one another by index to the code that the kernel takes.

use super::insn::{EXIT, Insn, JA, Reg, class};

/// The code, jumps resolved. `targets[i]` is where instruction `i` jumps to, if it jumps.
pub(super) fn lay_out(insns: &[Insn], targets: &[Option<usize>]) -> Vec<Insn> {
    let mut sizes: Vec<usize> = reachable(insns, targets)
        .into_iter()
        .map(usize::from)
        .collect();
    drop_idle_jumps(targets, &mut sizes);
    let addresses = lengthen(insns, targets, &mut sizes);

    let mut code = Vec::with_capacity(addresses[insns.len()]);
    for (at, &insn) in insns.iter().enumerate() {
        let Some(target) = targets[at].filter(|_| sizes[at] > 0) else {
            code.extend((sizes[at] > 0).then_some(insn));
            continue;
        };
        if sizes[at] == FAR {
            code.push(Insn { off: 1, ..insn });
            code.push(Insn::new(class::JMP | JA, Reg::R0, 0, 1, 0));
        }
        let reach = displacement(code.len(), addresses[target]);
        code.push(match i16::try_from(reach) {
            Ok(off) if sizes[at] != FAR => Insn { off, ..insn },
            _ => Insn::new(class::JMP32 | JA, Reg::R0, 0, 0, reach as i32),
        });
    }
    code
}

/// Slots of a conditional jump beyond 16 bits: taken, it steps over a short jump onto a long one.
const FAR: usize = 3;

/// Which instructions can be reached from the first.
fn reachable(insns: &[Insn], targets: &[Option<usize>]) -> Vec<bool> {
    let mut reached = vec![false; insns.len()];
    let mut from = vec![0];
    while let Some(mut at) = from.pop() {
        while at < insns.len() && !reached[at] {
            reached[at] = true;
            from.extend(targets[at]);
            let goes = is_goto(insns[at]) && targets[at].is_some();
            if goes || insns[at].code == class::JMP | EXIT {
                break;
            }
            at += 1;
        }
    }
    reached
}

/// Leaves out each jump to what follows it anyway.
fn drop_idle_jumps(targets: &[Option<usize>], sizes: &mut [usize]) {
    let mut next = sizes.len();
    for (at, size) in sizes
        .iter_mut()
        .enumerate()
        .rev()
        .filter(|(_, size)| **size > 0)
    {
        match targets[at] {
            Some(target) if at < target && target <= next => *size = 0,
            _ => next = at,
        }
    }
}

/// Gives conditional jumps that are too far for 16 bits the room that they need, which may move
/// others apart; the address of every instruction, and of the end.
fn lengthen(insns: &[Insn], targets: &[Option<usize>], sizes: &mut [usize]) -> Vec<usize> {
    loop {
        let mut addresses = vec![0];
        addresses.extend(sizes.iter().scan(0, |next, size| {
            *next += size;
            Some(*next)
        }));
        let mut grew = false;
        for (at, target) in targets.iter().enumerate() {
            let Some(target) = *target else { continue };
            let reach = displacement(addresses[at], addresses[target]);
            if sizes[at] == 1 && !is_goto(insns[at]) && i16::try_from(reach).is_err() {
                sizes[at] = FAR;
                grew = true;
            }
        }
        if !grew {
            return addresses;
        }
    }
}

const fn is_goto(insn: Insn) -> bool {
    insn.code == class::JMP | JA
}

/// Slots from the one after `at` to `target`.
const fn displacement(at: usize, target: usize) -> isize {
    target.cast_signed() - at.cast_signed() - 1
}
