//! What the program reports.

use fairwater_plane::{AlgorithmError, Field, ProgramHandle, Report};

/// The datapath program whose reports are observed.
pub const PROGRAM: &str = include_str!("program.ccp");

/// The names of the program's report fields, in its order.
pub const FIELDS: [&str; 7] = [
    "delivered",
    "lost",
    "rtt_sum",
    "rtt_samples",
    "timeouts",
    "elapsed",
    "min_rtt",
];

/// One report of [`PROGRAM`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reported {
    /// The datapath's time, µs.
    pub time_us: u64,
    /// cwnd, bytes.
    pub cwnd: u64,
    /// Bytes that arrived since the report before, in order or not.
    pub delivered: u64,
    /// Packets found lost since the report before.
    pub lost: u64,
    /// The sum of the RTT samples since the report before, µs.
    pub rtt_sum: u64,
    /// How many they are.
    pub rtt_samples: u64,
    /// Retransmission timeouts since the report before.
    pub timeouts: u64,
    /// Time since the report before, µs.
    pub elapsed: u64,
    /// The least RTT sample of the connection, µs; `u64::MAX` before the first.
    pub min_rtt: u64,
}

impl Reported {
    /// From the values of [`FIELDS`], in that order.
    #[must_use]
    pub fn new(time_us: u64, cwnd: u64, fields: [u64; FIELDS.len()]) -> Self {
        let [
            delivered,
            lost,
            rtt_sum,
            rtt_samples,
            timeouts,
            elapsed,
            min_rtt,
        ] = fields;
        Self {
            time_us,
            cwnd,
            delivered,
            lost,
            rtt_sum,
            rtt_samples,
            timeouts,
            elapsed,
            min_rtt,
        }
    }
}

/// The program's fields, resolved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handles([Field; FIELDS.len()]);

impl Handles {
    pub(crate) fn resolve(program: &ProgramHandle) -> Result<Self, AlgorithmError> {
        let first = program.field(FIELDS[0])?;
        let mut fields = [first; FIELDS.len()];
        for (field, name) in fields.iter_mut().zip(FIELDS) {
            *field = program.field(name)?;
        }
        Ok(Self(fields))
    }

    pub(crate) fn read(&self, report: &Report<'_>) -> Reported {
        let fields = self.0.map(|field| report[field]);
        Reported::new(report.time_us(), report.cwnd(), fields)
    }
}
