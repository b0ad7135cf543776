//! Notices to the operator about peers and their flows.

use fairwater_plane::{FlowId, HostedAlgorithm, Unmet};
use fairwater_proto::Dialect;
use thiserror::Error;

use super::service::join;

/// Something that happened to a peer or a flow, as one sentence without its full stop.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServiceNotice {
    /// A datapath introduced itself.
    #[error("datapath {peer} connected, and speaks {}", dialect_name(*.dialect))]
    Connected {
        /// Its name.
        peer: String,
        /// What it speaks.
        dialect: Dialect,
    },
    /// A datapath is gone.
    #[error("datapath {peer} disconnected, with {flows} flows")]
    Disconnected {
        /// Its name.
        peer: String,
        /// The flows that it had.
        flows: u32,
    },
    /// Newcomers are refused: there are as many datapaths as there may be. Said once in a while.
    #[error(
        "{max_peers} datapaths are connected, which is the limit (--max-peers); {refused} more were \
         refused so far"
    )]
    Full {
        /// The limit.
        max_peers: u32,
        /// Newcomers that were refused so far.
        refused: u64,
    },
    /// A newcomer could not be set up. Said once in a while.
    #[error("a datapath cannot connect: {reason}; `ulimit -n` raises the limit of open files")]
    CannotAdmit {
        /// What the system says.
        reason: String,
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
    /// A datapath cannot run an algorithm; other datapaths may.
    #[error("datapath {datapath} cannot run {algorithm}: {why}")]
    NotServed {
        /// The datapath's name.
        datapath: String,
        /// The algorithm's name.
        algorithm: String,
        /// What the datapath lacks.
        why: String,
    },
    /// A flow goes on under its algorithm, because its datapath cannot hand it over to another.
    #[error("flow {} of {datapath} stays under {from}, and is not handed over to {to}: {why}", flow.slot)]
    HandOverRefused {
        /// The datapath's name.
        datapath: String,
        /// The plane's name of the flow.
        flow: FlowId,
        /// The algorithm that the flow runs under.
        from: String,
        /// The algorithm that it was to run under.
        to: String,
        /// Why it does not.
        why: String,
    },
    /// A signal that a datapath calls exact stands still: the datapath does not fill it in. Said
    /// once for each datapath and signal.
    #[error(
        "datapath {datapath} calls {signal} exact, but {signal} did not move in {reports} \
         reports of a flow of {algorithm}, in which other signals did"
    )]
    SignalUnmoved {
        /// The datapath's name.
        datapath: String,
        /// The signal's name; several with "or" between them where the reports do not tell which.
        signal: String,
        /// The algorithm whose programs read it.
        algorithm: String,
        /// How many reports were looked at.
        reports: u32,
    },
    /// A flow left its algorithm.
    #[error(transparent)]
    Flow(#[from] fairwater_plane::Notice),
}

impl ServiceNotice {
    /// The datapath cannot run the algorithm of this index.
    pub(super) fn not_served(
        datapath: &str,
        algorithms: &[HostedAlgorithm],
        algorithm: usize,
        unmet: &[Unmet],
    ) -> Self {
        Self::NotServed {
            datapath: datapath.to_owned(),
            algorithm: algorithms
                .get(algorithm)
                .map_or_else(String::new, |hosted| hosted.name().to_owned()),
            why: join(unmet),
        }
    }
}

fn dialect_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Own => "Fairwater's encoding",
        Dialect::Ccp => "libccp's encoding",
    }
}
