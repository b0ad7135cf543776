//! The boxes at their public seams: packets, messages and time in; packets and messages out.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod attack;
mod control;
mod elasticity;
mod estimates;
mod identity;
mod many;
mod messages;
mod modes;
mod network;
mod packets;
mod plane;
mod signals;
