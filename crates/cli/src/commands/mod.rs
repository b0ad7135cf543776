//! One file per subcommand.

pub(crate) mod algorithms;
pub(crate) mod attach;
pub(crate) mod bundle;
pub(crate) mod certify;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod edge;
pub(crate) mod host;
pub(crate) mod man;
pub(crate) mod quic_get;
pub(crate) mod quic_serve;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod simulate;
pub(crate) mod status;
pub(crate) mod switch;
pub(crate) mod top;
pub(crate) mod r#try;
pub(crate) mod up;
pub(crate) mod why;
