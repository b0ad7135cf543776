//! Real guests, real TCP: the edge at a bridge's port, in namespaces.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests alone")]

mod at_work;
mod buffered;
mod guests;
mod transfer;
