//! What is done to a guest's packets, so that it keeps to what the algorithm decides.

mod ecn;
mod window;

pub use ecn::{EcnChanges, EcnTranslation};
pub use window::{Limit, Window, WindowUpdate};
