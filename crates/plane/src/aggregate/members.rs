//! What the plane keeps of the members of one aggregate.

use crate::control::PendingCommand;
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

/// The flow of a member, and its pending command.
#[derive(Debug)]
pub(crate) struct MemberRecord {
    pub(crate) flow: FlowId,
    pub(crate) pending: PendingCommand,
    /// Whether the member is in the list of members with a pending command.
    touched: bool,
}

/// The members, and those of them that the author's function at hand has controlled.
#[derive(Debug, Default)]
pub(crate) struct Members {
    records: Vec<Option<MemberRecord>>,
    free: Vec<u32>,
    touched: Vec<Member>,
}

impl Members {
    /// A flow joins, to begin with this program.
    pub(crate) fn join(&mut self, flow: FlowId, first: ProgramId) -> Member {
        let mut pending = PendingCommand::new(first);
        pending.command.switch = Some(first);
        let record = MemberRecord {
            flow,
            pending,
            touched: false,
        };
        let member = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = Some(record);
                Member(index)
            }
            None => {
                // A plane has fewer flows than `u32` has numbers.
                let index = self.records.len() as u32;
                self.records.push(Some(record));
                Member(index)
            }
        };
        self.touch(member);
        member
    }

    /// A member leaves; what was wanted of it is forgotten.
    pub(crate) fn leave(&mut self, member: Member) -> Option<MemberRecord> {
        let record = self.records.get_mut(member.index())?.take()?;
        self.free.push(member.0);
        Some(record)
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(super) fn contains(&self, member: Member) -> bool {
        matches!(self.records.get(member.index()), Some(Some(_)))
    }

    /// Indices are below this.
    pub(super) fn indices(&self) -> u32 {
        self.records.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Member, &MemberRecord)> {
        let numbered = (0..).map(Member).zip(&self.records);
        numbered.filter_map(|(member, record)| Some((member, record.as_ref()?)))
    }

    /// The pending command of a member, which is looked at when the author's function has returned.
    pub(crate) fn touch(&mut self, member: Member) -> Option<&mut PendingCommand> {
        let record = self.records.get_mut(member.index())?.as_mut()?;
        if !record.touched {
            record.touched = true;
            self.touched.push(member);
        }
        Some(&mut record.pending)
    }

    /// Members whose pending command was touched at a position of the order in which that happened; those
    /// that have left since have no record.
    pub(crate) fn touched(&mut self, at: usize) -> Option<(Member, Option<&mut MemberRecord>)> {
        let member = *self.touched.get(at)?;
        let record = self.records.get_mut(member.index())?.as_mut();
        Some((member, record))
    }

    /// Everything that was wanted is done.
    pub(crate) fn settled(&mut self) {
        for member in self.touched.drain(..) {
            if let Some(Some(record)) = self.records.get_mut(member.index()) {
                record.touched = false;
            }
        }
    }
}
