#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod boundary;
mod data_plane;
pub mod elasticity;
mod error;
pub mod estimate;
mod identity;
mod keys;
mod marks;
pub mod message;
mod prefix;
mod receivebox;
mod segments;
mod sendbox;

pub use boundary::{Boundary, BoundaryKey, EpochSize};
pub use data_plane::{SendboxDataPlane, SendboxStatus};
pub use error::BundleError;
pub use identity::{Identity, IdentityFields, TcpIdentity};
pub use keys::{BoxRole, BundleSecret};
pub use marks::{Inserted, Mark, Marks, Matching};
pub use message::{ChannelConfig, Feedback, ReceiveCounters, Refusal, RefusalCounts};
pub use prefix::Prefix;
pub use receivebox::{OutgoingMessage, ReceiveBundleConfig, ReceiveBundleStatus, Receivebox};
pub use segments::{Segment, Segmentation, expand};
pub use sendbox::*;

pub(crate) use prefix::PrefixTable;

/// Most packets that one super-packet becomes: BIG TCP's 512 kB of segments of 536 bytes.
pub const MAX_SEGMENTS: usize = 1_024;
