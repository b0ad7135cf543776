//! One file per subcommand.

pub(crate) mod algorithms;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod man;
