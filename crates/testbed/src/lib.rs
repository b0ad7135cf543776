//! Experiments on real TCP, over an emulated link.
//!
//! Two hosts, `sender` and `receiver`, are network namespaces with a TUN device each; the router
//! between them is a pair of user-space [links](fairwater_net::Link) that real packets pass
//! through, on time. The kernel's TCP sends over them under any congestion control that the kernel
//! knows by name: its own, or those that a plane has registered; or a [TCP in user space](fairwater_utcp) sends
//! to the kernel's; or [ends of QUIC](QuicEnds) that the caller brings send. Namespaces and devices have no
//! names, so nothing can be left behind: this process holds them, and they end with it.

mod bridged;
mod calibrate;
mod check;
mod clock;
mod emulator;
mod error;
mod guests;
mod other_load;
mod packet;
mod path;
mod preflight;
mod run;
mod sampler;
mod sites;
mod steal;
mod traffic;

pub use bridged::{BridgedSite, Family};
pub use calibrate::{Calibration, calibrate};
pub use check::has_congestion_control;
pub use error::TestbedError;
pub use guests::{EdgeAttacher, GuestPort};
pub use other_load::OtherLoad;
pub use preflight::{Missing, available_program, require};
pub use run::{KernelSender, Measured, Run, kernel_release};
pub use sites::{Bulk, Machine, Ping, TwoSites};
pub use traffic::{QUIC, QuicEnds, QuicFlow, QuicState, USER_TCP, UserPlane};
