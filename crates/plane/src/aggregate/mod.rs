//! Flows that are controlled together (CCP §6.3).

mod group;
mod key;
pub(crate) mod members;
mod shares;

pub use group::Group;
pub use key::{By, Key};
pub use members::Member;
pub use shares::{Claim, divide};

use crate::{FlowInfo, Report};

/// Flows that share one controller: what an author writes in place of a [`Flow`](crate::Flow)
/// where flows belong together (CCP §6.3).
///
/// [`Algorithm::aggregate_by`](crate::Algorithm::aggregate_by) says which flows do. The first of
/// a key makes the aggregate; the last that leaves ends it. Whatever happens to one member, the
/// aggregate may answer with controls for each of them, which take effect when the author's
/// function returns.
///
/// A mistake in the controls of a member withdraws that member, and `on_close` tells of it. A
/// panic withdraws the members of this aggregate, and no other flow.
///
/// Nine flows that share a window, whoever they are:
///
/// ```
#[doc = include_str!("../../examples/shared_window.rs")]
/// ```
pub trait Aggregate: Send {
    /// A flow joined, or came back from the datapath's fallback. It begins with the algorithm's
    /// first program unless the group's control of it switches to another. Of a new aggregate
    /// this is the first call.
    fn create_subflow(&mut self, member: Member, info: &FlowInfo, group: &mut Group);

    /// A report of the program that the member last switched to.
    fn on_report(&mut self, member: Member, report: &Report, group: &mut Group);

    /// A member's segments are of `mss` bytes of payload from now on; see
    /// [`Flow::on_mss`](crate::Flow::on_mss).
    fn on_mss(&mut self, _member: Member, _mss: u32, _group: &mut Group) {}

    /// A member left: it ended, was withdrawn, or stopped by its datapath. It is no longer in
    /// the group. A flow that comes back from the fallback leaves and joins again.
    fn on_close(&mut self, _member: Member, _group: &mut Group) {}
}
