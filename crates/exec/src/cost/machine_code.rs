//! The longest path through machine code, as Cranelift lists it.
//!
//! The listing has a line for each instruction before the last pass, which only leaves out jumps to
//! what follows: no path gets longer by it. A line of several instructions separates them by `;`.

use fairwater_lang::Program;

use super::longest;
use crate::native;

/// The most instructions of one run on this machine; `None` if it has no compiler.
pub(super) fn longest_path(program: &Program) -> Option<usize> {
    let listing = native::listing(program).ok()?;
    let (weights, next) = blocks(&listing);
    let all = weights.iter().sum();
    Some(longest::path(&weights, &next).unwrap_or(all))
}

/// The number of instructions of each block, and the blocks that it goes to.
fn blocks(listing: &str) -> (Vec<usize>, Vec<Vec<usize>>) {
    // What comes before the first label belongs to the block that it names.
    let (mut weights, mut next) = (vec![0], vec![Vec::new()]);
    let mut at = 0;
    for line in listing.lines() {
        let line = line.trim();
        if let Some(label) = line
            .strip_suffix(':')
            .and_then(|label| number(label, "block"))
        {
            at = label;
            if at >= weights.len() {
                weights.resize(at + 1, 0);
                next.resize(at + 1, Vec::new());
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        weights[at] += line
            .split(';')
            .filter(|part| !part.trim().is_empty())
            .count();
        let words = line.split(|c: char| !c.is_ascii_alphanumeric());
        next[at].extend(words.filter_map(|word| number(word, "label")));
    }
    (weights, next)
}

fn number(text: &str, prefix: &str) -> Option<usize> {
    text.strip_prefix(prefix)?.parse().ok()
}
