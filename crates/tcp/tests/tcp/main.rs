//! The TCP sender and receiver, held to the RFCs at their public seams.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agreement;
mod bottleneck;
mod invalid_input;
mod receiver;
mod recovery;
mod script;
mod sending;
mod transfer;
mod wire;
