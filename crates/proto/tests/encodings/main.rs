//! Both encodings: what is written is read, and nothing else is taken for a message.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ccp;
mod corruption;
mod golden;
mod messages;
mod round_trip;
