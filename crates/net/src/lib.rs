//! Sans-IO links, queues, loss and delivery traces: packets go in with the time they arrive, and
//! come out with the time they are due. There is no clock, socket or thread here; a caller that
//! has them (an emulator, a simulator, a test) passes `now` in.
//!
//! ```
//! use fairwater_net::{LinkSpec, Time, Verdict};
//!
//! let spec: LinkSpec = "48mbit 20ms 1bdp".parse()?;
//! let capacity = spec.capacity.load(|_| Err("no traces here"))?;
//! let mut link = spec.forward(&capacity);
//! let now = Time::ZERO;
//! assert!(matches!(link.enqueue(now, 1500, "a packet"), Verdict::Queued));
//! // 250 µs to serialise 1500 bytes at 48 Mbit/s, and half of the 20 ms.
//! assert_eq!(link.next_departure(), Some(Time::from_micros(10_250)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod link;
mod loss;
mod queue;
mod rate;
mod service;
mod spec;
mod time;
mod trace;

pub use link::{Counters, Delivered, DropReason, Link, LinkConfig, Passage, Verdict};
pub use loss::{LossRate, RandomLoss};
pub use queue::{DropTail, Limit};
pub use rate::Rate;
pub use service::Capacity;
pub use spec::{Buffer, CapacitySpec, LinkSpec, LinkSpecError, Problem};
pub use time::Time;
pub use trace::{DeliveryTrace, OPPORTUNITY_BYTES, TraceError, TraceProblem};
