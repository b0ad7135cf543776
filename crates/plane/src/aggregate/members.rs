//! What the plane keeps of the members of one aggregate.

use crate::control::Draft;
use crate::{FlowId, ProgramId};

/// One member of an aggregate: an index, dense from 0, that is given out again when the member
/// has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member(u32);

impl Member {
    pub(super) const fn at(index: u32) -> Self {
        Self(index)
    }

    /// The index: for an author's table of members.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The flow of a member, and what its aggregate wants of it.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) flow: FlowId,
    pub(crate) draft: Draft,
    /// Whether the member is among those that the draft is to be looked at.
    touched: bool,
}

/// The members, and those of them that the author's function at hand has controlled.
#[derive(Debug, Default)]
pub(crate) struct Members {
    seats: Vec<Option<Seat>>,
    free: Vec<u32>,
    touched: Vec<Member>,
}

impl Members {
    /// A flow joins, to begin with this program.
    pub(crate) fn join(&mut self, flow: FlowId, first: ProgramId) -> Member {
        let mut draft = Draft::new(first);
        draft.command.switch = Some(first.index);
        let seat = Seat {
            flow,
            draft,
            touched: false,
        };
        let member = match self.free.pop() {
            Some(index) => {
                self.seats[index as usize] = Some(seat);
                Member(index)
            }
            None => {
                // A plane has fewer flows than `u32` has numbers.
                let index = self.seats.len() as u32;
                self.seats.push(Some(seat));
                Member(index)
            }
        };
        self.touch(member);
        member
    }

    /// A member leaves; what was wanted of it is forgotten.
    pub(crate) fn leave(&mut self, member: Member) -> Option<Seat> {
        let seat = self.seats.get_mut(member.index())?.take()?;
        self.free.push(member.0);
        Some(seat)
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    pub(super) fn contains(&self, member: Member) -> bool {
        matches!(self.seats.get(member.index()), Some(Some(_)))
    }

    /// Indices are below this.
    pub(super) fn indices(&self) -> u32 {
        self.seats.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Member, &Seat)> {
        let numbered = (0..).map(Member).zip(&self.seats);
        numbered.filter_map(|(member, seat)| Some((member, seat.as_ref()?)))
    }

    /// The draft of a member, which is looked at when the author's function has returned.
    pub(crate) fn touch(&mut self, member: Member) -> Option<&mut Draft> {
        let seat = self.seats.get_mut(member.index())?.as_mut()?;
        if !seat.touched {
            seat.touched = true;
            self.touched.push(member);
        }
        Some(&mut seat.draft)
    }

    /// Members whose draft was touched at a position of the order in which that happened; those
    /// that have left since have no seat.
    pub(crate) fn touched(&mut self, at: usize) -> Option<(Member, Option<&mut Seat>)> {
        let member = *self.touched.get(at)?;
        let seat = self.seats.get_mut(member.index())?.as_mut();
        Some((member, seat))
    }

    /// Everything that was wanted is done.
    pub(crate) fn settled(&mut self) {
        for member in self.touched.drain(..) {
            if let Some(Some(seat)) = self.seats.get_mut(member.index()) {
                seat.touched = false;
            }
        }
    }
}
