//! What is done to a guest's packets, so that it keeps to what the algorithm decides.

mod echo;
mod ecn;
mod window;

pub use echo::{EchoedAck, MarkEcho};
pub use ecn::{EcnChanges, EcnTranslation};
pub use window::{Limit, Window, WindowUpdate};
