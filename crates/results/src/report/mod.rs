//! Reports: one HTML file each that needs nothing else, with a table and plots.

mod certificate;
mod comparison;
mod grid;
mod layout;
mod page;
mod run;
mod sender;

pub use certificate::{CertificatePage, CheckRow, Picture, certificate};
pub use comparison::{comparison, rounds};
pub use layout::GridLayout;
pub use page::{COLOURS, Data, Line, Plot, X, assets, escaped, rounded};
pub use run::points;
