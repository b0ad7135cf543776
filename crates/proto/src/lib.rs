//! Messages between a plane and its datapaths, and their encodings.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod flow;
mod message;

pub use flow::{FlowId, FlowInfo};
pub use message::{
    Fields, Hello, Refusal, RefusalReason, ToDatapath, ToPlane, Update, Updates, Welcome,
};
