//! `libfairwater`, the datapath library for transports written in C (`include/fairwater.h`, made
//! from this crate), and libccp's interface over the same library (`include/ccp.h`).
//!
//! Names are those of the headers. Documentation of what is exported is written for readers of C.

#![expect(unsafe_code, reason = "a C interface takes and gives pointers")]
#![expect(non_camel_case_types, reason = "the names are those of the C headers")]
#![expect(
    clippy::missing_safety_doc,
    reason = "the documentation is the header's: what C may pass is said there"
)]

mod address;
mod ccp;

mod datapath;
mod error;
mod flow;
mod handle;
mod library_link;
mod options;
mod session;
mod signals;
mod sized;

pub use address::*;
pub use ccp::*;
pub use datapath::*;
pub use error::*;
pub use flow::*;
pub use handle::fw_datapath;
pub use options::*;
pub use signals::*;
