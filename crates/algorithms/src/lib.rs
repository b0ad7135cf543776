//! Congestion control algorithms, a module each.
//!
//! [`by_spec`] makes one from text such as `reno:report=10ms`; each is also built directly, from
//! its `Config`. An algorithm sees its flows through `fairwater_plane` alone, and so runs on any
//! datapath that has the signals its programs read.

mod basicdelay;
mod bbr;
mod bundle;
mod congestion_manager;
mod constant;
mod copa;
mod cubic;
mod dctcp;
mod draws;
mod hybla;
mod illinois;
mod ledbatpp;
mod nimbus;
mod parameter;
mod rate_control;
mod registry;
mod reno;
mod spec;
mod sprout;
mod vegas;
mod vivace;
mod window;
mod windowed;
#[cfg(test)]
mod windowed_tests;

pub use basicdelay::{BasicDelay, BasicDelayConfig};
pub use bbr::{Bbr, Bbr3, Bbr3Config, BbrConfig};
pub use congestion_manager::{CongestionManager, CongestionManagerConfig, Share};
pub use constant::{Constant, ConstantConfig};
pub use copa::{Copa, CopaConfig, CopaMode};
pub use cubic::{Cubic, CubicConfig};
pub use dctcp::{Dctcp, DctcpConfig};
pub use hybla::{Hybla, HyblaConfig};
pub use illinois::{Illinois, IllinoisConfig};
pub use ledbatpp::{LedbatPp, LedbatPpConfig};
pub use nimbus::{Nimbus, NimbusCompetitive, NimbusConfig, NimbusConfirm, NimbusDelay, NimbusFlow};
pub use parameter::Parameter;
pub use registry::{Choice, Entry, all, by_spec};
pub use reno::{Growth, Reno, RenoConfig};
pub use spec::SpecError;
pub use sprout::{Sprout, SproutConfig};
pub use vegas::{Vegas, VegasConfig};
pub use vivace::{Vivace, VivaceConfig};
pub use window::{HyStart, Period, SlowStart};
