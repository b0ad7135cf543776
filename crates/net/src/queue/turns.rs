//! The order in which queues are served.

use super::flows::Index;

/// Not in the list.
const NONE: Index = Index::MAX;

/// The queues that take turns, the next in front: a doubly linked list by index, so that a queue
/// which lost its last packet leaves in O(1), wherever it stands.
#[derive(Debug)]
pub(super) struct Turns {
    /// By index: the queue before and the queue after.
    links: Vec<(Index, Index)>,
    front: Index,
    back: Index,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Turns {
            links: Vec::new(),
            front: NONE,
            back: NONE,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front == NONE
    }

    #[inline]
    pub(super) fn front(&self) -> Option<Index> {
        (self.front != NONE).then_some(self.front)
    }

    /// Puts a queue, which is not in the list, last.
    #[inline]
    pub(super) fn push_back(&mut self, index: Index) {
        let at = index as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, (NONE, NONE));
        }
        self.links[at] = (self.back, NONE);
        match self.back {
            NONE => self.front = index,
            back => self.links[back as usize].1 = index,
        }
        self.back = index;
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        if let Some(front) = self.front() {
            self.remove(front);
        }
    }

    /// Puts the first queue last.
    #[inline]
    pub(super) fn rotate(&mut self) {
        if self.front != self.back {
            let front = self.front;
            self.remove(front);
            self.push_back(front);
        }
    }

    /// Takes a queue, which is in the list, out of it.
    #[inline]
    pub(super) fn remove(&mut self, index: Index) {
        let (before, after) = self.links[index as usize];
        match before {
            NONE => self.front = after,
            before => self.links[before as usize].1 = after,
        }
        match after {
            NONE => self.back = before,
            after => self.links[after as usize].0 = before,
        }
    }

    pub(super) fn clear(&mut self) {
        (self.front, self.back) = (NONE, NONE);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_list_behaves_as_a_deque(steps in prop::collection::vec((0..4u8, 0..12u32), 1..300)) {
            let mut turns = Turns::new();
            let mut deque = VecDeque::new();
            for (step, index) in steps {
                let is_in = deque.contains(&index);
                match step {
                    0 | 1 if !is_in => {
                        turns.push_back(index);
                        deque.push_back(index);
                    }
                    1 if is_in => {
                        turns.remove(index);
                        deque.retain(|other| *other != index);
                    }
                    2 if !deque.is_empty() => {
                        turns.rotate();
                        deque.rotate_left(1);
                    }
                    3 => {
                        turns.pop_front();
                        deque.pop_front();
                    }
                    _ => {}
                }
                prop_assert_eq!(turns.front(), deque.front().copied());
                prop_assert_eq!(turns.is_empty(), deque.is_empty());
            }
            while let Some(front) = deque.pop_front() {
                prop_assert_eq!(turns.front(), Some(front));
                turns.pop_front();
            }
            prop_assert!(turns.is_empty());
        }
    }
}
