//! Reports: one HTML file each that needs nothing else, with a table and plots.

mod experiment;
mod grid;
mod page;
mod scenario;

pub use experiment::html;
pub use scenario::findings;
