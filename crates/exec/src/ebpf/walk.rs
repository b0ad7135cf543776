//! How far the kernel's verifier walks, as far as the code can steer it.

/// What the verifier has walked since it last kept a state.
///
/// It follows every path, and ends one that comes with nothing new to where it kept a state of
/// another. It keeps one only at a jump or where one goes, and only past 2 jumps and 8
/// instructions since the last (`is_state_visited` in `kernel/bpf/verifier.c`). Where paths meet
/// just short of that, all that follows would be walked once for each: there a jump to the next
/// instruction makes it keep a state. The verifier takes such jumps out again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walk {
    insns: usize,
    jumps: usize,
    /// Whether paths have met since the last jump.
    met: bool,
}

impl Walk {
    const INSNS: usize = 8;
    const JUMPS: usize = 2;

    /// An instruction follows; whether it is to be jumped to.
    pub(super) fn instruction(&mut self) -> bool {
        let jumped_to = self.met && self.jump_would_keep();
        self.insns += 1;
        jumped_to
    }

    /// A jump follows; whether it is to be jumped to.
    pub(super) fn jump(&mut self) -> bool {
        self.keep();
        let jumped_to = self.met && self.jump_would_keep();
        self.insns += 1;
        self.jumps += 1;
        self.met = false;
        jumped_to
    }

    /// Paths meet here; whether here is to be jumped to.
    pub(super) fn meet(&mut self) -> bool {
        let jumped_to = self.jumps < Self::JUMPS && self.jump_would_keep();
        self.keep();
        self.met = true;
        jumped_to
    }

    /// The verifier may keep a state here.
    fn keep(&mut self) {
        if self.insns >= Self::INSNS && self.jumps >= Self::JUMPS {
            *self = Self::default();
        }
    }

    /// Whether a jump to here makes the verifier keep a state, which is then kept.
    fn jump_would_keep(&mut self) -> bool {
        let keeps = self.insns + 1 >= Self::INSNS && self.jumps + 1 >= Self::JUMPS;
        if keeps {
            *self = Self::default();
        }
        keeps
    }
}
