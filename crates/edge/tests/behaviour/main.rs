//! What a box at a host's edge does with packets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod buffer;
mod echo;
mod edge;
mod model;
mod plane;
mod random;
mod select;
mod sender;
mod share;
mod starved;
mod support;
mod table;
mod window;
