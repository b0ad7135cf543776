//! The algorithms at their public seam: their programs run in the reference interpreter, their
//! flows in a plane, over a model path.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bbr;
mod bbr3;
mod congestion_manager;
mod constant;
mod copa;
mod cost;
mod cubic;
mod dctcp;
mod ecn;
mod fidelity;
mod hybla;
mod illinois;
mod ledbatpp;
mod limiter;
mod limits;
mod native;
mod nimbus;
mod programs;
mod reno;
mod robust;
mod rounds;
mod segments;
mod slow_start;
mod spec;
mod sprout;
mod support;
mod vegas;
mod vivace;
