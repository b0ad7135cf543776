//! Messages between a plane and its datapaths, and their encodings.
//!
//! A packet is what a link carries at once: one message or several, all in one [`Dialect`] and
//! one direction.
//!
//! ```
//! use fairwater_proto::{Dialect, FlowId, ToPlane};
//!
//! let flow = FlowId { slot: 3, generation: 1 };
//! let report = ToPlane::Reported {
//!     flow,
//!     program: 1,
//!     time_us: Some(1_000_000),
//!     cwnd: 14_480,
//!     rate: 0,
//!     fields: (&[2896, 0]).into(),
//! };
//! let mut packet = Vec::new();
//! Dialect::Own.encode_to_plane(&report, &mut packet)?;
//! Dialect::Own.encode_to_plane(&ToPlane::Closed { flow }, &mut packet)?;
//!
//! assert_eq!(Dialect::of(&packet), Some(Dialect::Own));
//! let messages: Vec<_> = Dialect::Own.to_plane(&packet).collect();
//! assert_eq!(messages, [Ok(report), Ok(ToPlane::Closed { flow })]);
//! # Ok::<(), fairwater_proto::EncodeError>(())
//! ```

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod ccp;
mod description;
mod dialect;
mod error;
mod fixed;
mod flow;
#[cfg(feature = "std")]
pub mod link;
mod message;
pub mod own;
mod refusal;
mod values;

pub use description::{Abilities, Capabilities, Fallback, SignalQualities, SignalQuality};
pub use dialect::{Dialect, Messages};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use flow::{FlowId, FlowInfo};
pub use message::{Hello, ToDatapath, ToPlane, Welcome};
pub use refusal::{Refusal, RefusalCounts, RefusalReason};
pub use values::{Fields, Update, Updates, UpdatesIter};
