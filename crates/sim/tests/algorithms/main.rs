//! What each algorithm's own source says it does, in the simulator: seeded, over several paths, and
//! drawn. `docs/algorithms/` tells of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basicdelay;
mod bbr;
mod bbr3;
mod careful_resume;
mod companies;
mod congestion_manager;
mod constant;
mod copa;
mod cubic;
mod dctcp;
mod ecn;
mod fallback;
mod hand_over;
mod hybla;
mod illinois;
mod ledbatpp;
mod mystique;
mod nimbus;
mod reno;
mod slow_start;
mod sprout;
mod support;
mod vegas;
mod vivace;
