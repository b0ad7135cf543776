//! What an operator should hear of peers and their flows.

use fairwater_proto::Dialect;
use thiserror::Error;

/// Something that happened to a peer or a flow, as one sentence without its full stop.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Notice {
    /// A datapath introduced itself.
    #[error("datapath {peer} is there, and speaks {}", dialect_name(*.dialect))]
    Came {
        /// Its name.
        peer: String,
        /// What it speaks.
        dialect: Dialect,
    },
    /// A datapath is gone.
    #[error("datapath {peer} is gone, with {flows} flows")]
    Left {
        /// Its name.
        peer: String,
        /// The flows that it had.
        flows: u32,
    },
    /// A datapath cannot have a program: flows of it that need the program stay under the
    /// fallback. Others are not touched.
    #[error("datapath {peer} cannot run program `{program}` of {algorithm}: {why}")]
    ProgramRefused {
        /// The datapath's name.
        peer: String,
        /// The algorithm's name.
        algorithm: String,
        /// The program's name.
        program: String,
        /// The bound that it exceeds, the signals that are missing, or what the datapath said.
        why: String,
    },
    /// A flow left its algorithm.
    #[error(transparent)]
    Flow(#[from] crate::Notice),
}

fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Own => "Fairwater's encoding",
        Dialect::Ccp => "libccp's encoding",
    }
}
