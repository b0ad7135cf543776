//! A model of a path and of the senders over it.

pub(crate) mod acks;
pub(crate) mod driver;
pub(crate) mod kernel;
pub(crate) mod limiter;
pub(crate) mod path;
pub(crate) mod samples;
