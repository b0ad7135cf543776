//! Sans-IO links, queues, loss and delivery traces: packets go in with the time they arrive, and
//! come out with the time they are due. There is no clock, socket or thread here; a caller that
//! has them (an emulator, a simulator, a test) passes `now` in.
//!
//! ```
//! use fairwater_net::{Link, LinkSpec, Packet, Time};
//!
//! struct Datagram;
//!
//! impl Packet for Datagram {
//!     fn size_bytes(&self) -> u32 {
//!         1500
//!     }
//! }
//!
//! let spec: LinkSpec = "48mbit 20ms 1bdp".parse()?;
//! let capacity = spec.capacity.load(|_| Err("no traces here"))?;
//! let mut link: Link<Datagram> = spec.forward(&capacity);
//! link.enqueue(Time::ZERO, Datagram);
//! // 250 µs to serialise 1500 bytes at 48 Mbit/s, and half of the 20 ms.
//! assert_eq!(link.next_departure(), Some(Time::from_micros(10_250)));
//! assert_eq!(link.drain_dropped().count(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod buffer;
mod decimal;
mod delay;
mod flight;
mod link;
mod loss;
mod packet;
mod probability;
pub mod quantity;
mod queue;
mod rate;
mod schedule;
mod service;
mod spec;
mod time;
mod trace;

pub use buffer::{Buffer, MIN_BUFFER_BYTES};
pub use delay::{Jitter, Reordering};
pub use link::{Counters, Delivered, Link, LinkConfig, PacketTimes};
pub use loss::{GilbertElliott, Loss, LossConfig};
pub use packet::{Ecn, Packet};
pub use probability::Probability;
pub use queue::{
    CoDelConfig, Discipline, DropReason, Dropped, DrrConfig, FqCoDelConfig, Held, JointLimit,
    Limit, MAX_CLASSES, MAX_WEIGHT, ParameterDescription, PieConfig, PriorityConfig, Queue,
    QueueConfig, QueueContext, QueueError, QueueSpec, QueueSpecError, RedConfig, SfqConfig, Sink,
    StepConfig, WdrrConfig,
};
pub use rate::Rate;
pub use schedule::{RateSchedule, ScheduleError, ScheduleStepError};
pub use service::{Aggregation, Capacity, FixedCapacity};
pub use spec::{CapacitySpec, LinkDiagnostic, LinkSpec, LinkSpecError};
pub use time::Time;
pub use trace::{DeliveryTrace, OPPORTUNITY_BYTES, TraceError, TraceLineError};
