//! The heaviest path through a graph without cycles.

/// The greatest sum of weights along a path from node 0, the nodes of which are `weights`; an edge to a
/// node that is not there ends its path. `None` if a path comes back to where it was.
pub(super) fn path(weights: &[usize], next: &[Vec<usize>]) -> Option<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done(usize),
    }
    let mut states = vec![State::New; weights.len()];
    let mut stack = vec![0];
    while let Some(&at) = stack.last() {
        match states.get(at).copied() {
            None | Some(State::Done(_)) => {
                stack.pop();
            }
            Some(State::New) => {
                states[at] = State::Open;
                for &to in &next[at] {
                    match states.get(to) {
                        Some(State::Open) => return None,
                        Some(State::New) => stack.push(to),
                        _ => {}
                    }
                }
            }
            Some(State::Open) => {
                let rest = next[at].iter().map(|to| match states.get(*to) {
                    Some(State::Done(length)) => *length,
                    _ => 0,
                });
                let rest = rest.max().unwrap_or(0);
                states[at] = State::Done(weights[at] + rest);
                stack.pop();
            }
        }
    }
    match states.first() {
        Some(State::Done(length)) => Some(*length),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn the_heaviest_branch_counts_whatever_the_order() {
        let diamond = [vec![1, 2], vec![3], vec![3], vec![9]];
        assert_eq!(path(&[1, 5, 2, 3], &diamond), Some(9));
        assert_eq!(path(&[1, 2, 5, 3], &diamond), Some(9));
        // A jump back to what lies before is no loop.
        assert_eq!(path(&[1, 4, 2], &[vec![2, 1], vec![], vec![1]]), Some(7));
        assert_eq!(path(&[], &[]), Some(0));
    }

    #[test]
    fn a_loop_has_no_longest_path() {
        assert_eq!(path(&[1, 1], &[vec![1], vec![0]]), None);
        assert_eq!(path(&[1], &[vec![0]]), None);
    }
}
