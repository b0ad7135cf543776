//! What an aggregate does to its members.

use super::members::{Member, Members};
use crate::{Control, LoadedProgram, Reason};

/// The members of an aggregate, and a [`Control`] of each. What is set takes effect together, at
/// each flow's next invocation, when the author's function returns.
#[derive(Debug)]
pub struct Group<'a> {
    members: &'a mut Members,
    programs: &'a [LoadedProgram],
    failure: Option<Reason>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(members: &'a mut Members, programs: &'a [LoadedProgram]) -> Self {
        Self {
            members,
            programs,
            failure: None,
        }
    }

    /// The members, by index.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().map(|(member, _)| member)
    }

    /// The member of that index, if there is one.
    #[must_use]
    pub fn member(&self, index: usize) -> Option<Member> {
        let member = Member::at(u32::try_from(index).ok()?);
        self.members.contains(member).then_some(member)
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the last member has left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The control of each member in turn, by index.
    pub fn each(&mut self, mut work: impl FnMut(Member, &mut Control<'_>)) {
        for index in 0..self.members.indices() {
            let member = Member::at(index);
            if let Some(mut control) = self.control(member) {
                work(member, &mut control);
            }
        }
    }

    /// The control of a member; `None` when it has left.
    pub fn control(&mut self, member: Member) -> Option<Control<'_>> {
        let pending = self.members.touch(member)?;
        Some(Control::new(pending, self.programs))
    }

    /// Gives all members up: they go under the fallback of their datapaths for good, their
    /// [`Notice`](crate::Notice)s say why, and the aggregate ends.
    pub fn withdraw(&mut self, why: String) {
        self.failure.get_or_insert(Reason::GivenUp(why));
    }

    pub(crate) fn into_failure(self) -> Option<Reason> {
        self.failure
    }
}
