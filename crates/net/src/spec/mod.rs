//! A path described in a line of text.

mod decimal;
mod parse;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::{
    Capacity, DeliveryTrace, Limit, Link, LinkConfig, LossConfig, Packet, Probability, QueueConfig,
    Rate, StepConfig,
};
use decimal::Decimal;

/// A path with one bottleneck, such as `48mbit 20ms 1bdp loss=0.01% seed=7`.
///
/// Words, in any order:
/// - capacity: `48mbit` (`bit`, `kbit`, `mbit`, `gbit` per second, of IP packets), or
///   `trace:FILE`, a mahimahi delivery trace (a name without spaces);
/// - RTT: `20ms` (`us`, `ms`, `s`), the propagation delay of both directions together, split
///   evenly between them;
/// - the bottleneck's buffer: `160pkt`, `100kB` (`B`, `kB`, `MB`, powers of ten) or `1bdp`
///   (times capacity × RTT, a trace's mean rate counting); `1bdp` when not given;
/// - `loss=0.01%`: random loss towards the receiver; none when not given;
/// - `mark=20pkt`: a packet that finds more than so many waiting is marked (ECN CE), if it can be;
///   none is when not given;
/// - `seed=7`: of the loss; 1 when not given.
///
/// [`fmt::Display`] gives a text that parses to an equal value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpec {
    /// What the bottleneck carries.
    pub capacity: CapacitySpec,
    /// Propagation delay of both directions together.
    pub rtt: Duration,
    /// The queue before the bottleneck.
    pub buffer: Buffer,
    /// Random loss towards the receiver.
    pub loss: Probability,
    /// Above how many waiting packets those that arrive are marked (ECN CE); `None` is never.
    pub mark: Option<u64>,
    /// Seed of the loss.
    pub seed: u64,
}

/// A bottleneck's capacity as described; a trace is still only named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacitySpec {
    /// A constant rate.
    Rate(Rate),
    /// The name of a file with a delivery trace.
    Trace(String),
}

/// The size of a bottleneck's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// So many packets.
    Packets(u64),
    /// So many bytes.
    Bytes(u64),
    /// Thousandths of the bandwidth-delay product.
    MilliBdp(u64),
}

impl CapacitySpec {
    /// The capacity itself; `read` parses the trace that is named.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn load<E>(
        &self,
        read: impl FnOnce(&str) -> Result<DeliveryTrace, E>,
    ) -> Result<Capacity, E> {
        Ok(match self {
            CapacitySpec::Rate(rate) => Capacity::Rate(*rate),
            CapacitySpec::Trace(name) => Capacity::Trace(Arc::new(read(name)?)),
        })
    }
}

/// The smallest buffer taken, bytes: one packet of the usual size. A packet that meets an idle
/// bottleneck passes through the queue too.
pub(crate) const MIN_BUFFER_BYTES: u64 = 1500;

impl LinkSpec {
    /// The buffer's limit. One BDP is capacity × RTT, in bytes, and at least one packet.
    pub fn limit(&self, capacity: &Capacity) -> Limit {
        match self.buffer {
            Buffer::Packets(packets) => Limit::Packets(packets),
            Buffer::Bytes(bytes) => Limit::Bytes(bytes),
            Buffer::MilliBdp(milli) => match capacity.nominal_rate() {
                Some(rate) => {
                    let bdp = u128::from(rate.bytes_in(self.rtt));
                    let bytes = u64::try_from(bdp * u128::from(milli) / 1000).unwrap_or(u64::MAX);
                    Limit::Bytes(bytes.max(MIN_BUFFER_BYTES))
                }
                None => Limit::Unlimited,
            },
        }
    }

    /// The direction with the bottleneck, from sender to receiver.
    pub fn forward<P: Packet>(&self, capacity: &Capacity) -> Link<P> {
        Link::new(&self.forward_config(capacity))
    }

    /// What [`LinkSpec::forward`] is made of.
    pub fn forward_config(&self, capacity: &Capacity) -> LinkConfig {
        let limit = self.limit(capacity);
        let queue = match self.mark {
            Some(packets) => QueueConfig::Step(StepConfig {
                limit,
                threshold: Limit::Packets(packets),
            }),
            None => QueueConfig::DropTail(limit),
        };
        LinkConfig {
            loss: LossConfig::Random(self.loss),
            seed: self.seed,
            ..LinkConfig::new(capacity.clone(), queue, self.rtt / 2)
        }
    }

    /// The direction of the acknowledgements: nothing but the other half of the delay.
    pub fn reverse<P: Packet>(&self) -> Link<P> {
        Link::new(&self.reverse_config())
    }

    /// What [`LinkSpec::reverse`] is made of.
    pub fn reverse_config(&self) -> LinkConfig {
        let queue = QueueConfig::DropTail(Limit::Unlimited);
        let delay = self.rtt - self.rtt / 2;
        LinkConfig::new(Capacity::Unlimited, queue, delay)
    }
}

impl FromStr for LinkSpec {
    type Err = LinkSpecError;

    fn from_str(text: &str) -> Result<Self, LinkSpecError> {
        parse::link_spec(text).map_err(|problems| LinkSpecError {
            text: text.to_owned(),
            problems,
        })
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.capacity, Rtt(self.rtt), self.buffer)?;
        if self.loss != Probability::NEVER {
            write!(f, " loss={}%", Decimal(self.loss.ppb().into(), 7))?;
        }
        if let Some(packets) = self.mark {
            write!(f, " mark={packets}pkt")?;
        }
        if self.seed != parse::DEFAULT_SEED {
            write!(f, " seed={}", self.seed)?;
        }
        Ok(())
    }
}

impl fmt::Display for CapacitySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapacitySpec::Rate(rate) => write!(f, "{rate}"),
            CapacitySpec::Trace(name) => write!(f, "trace:{name}"),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Buffer::Packets(packets) => write!(f, "{packets}pkt"),
            Buffer::Bytes(bytes) if bytes > 0 && bytes.is_multiple_of(1000) => {
                write!(f, "{}kB", bytes / 1000)
            }
            Buffer::Bytes(bytes) => write!(f, "{bytes}B"),
            Buffer::MilliBdp(milli) => write!(f, "{}bdp", Decimal(milli, 3)),
        }
    }
}

/// A duration as the text of a link has it.
struct Rtt(Duration);

impl fmt::Display for Rtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        if ns.is_multiple_of(1_000_000) {
            write!(f, "{}ms", ns / 1_000_000)
        } else {
            write!(f, "{}us", Decimal(ns, 3))
        }
    }
}

/// Why a link's description was refused: everything that is wrong with it. Displayed, each
/// problem stands under the word it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpecError {
    /// The description.
    pub text: String,
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a link's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text it is about; empty, at the end, for a word that is missing.
    pub span: std::ops::Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What is allowed there.
    pub allowed: &'static str,
}

impl fmt::Display for LinkSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<_> = self
            .problems
            .iter()
            .map(|problem| {
                Level::ERROR.primary_title(&problem.message).element(
                    Snippet::source(&self.text)
                        .line_start(1)
                        .path("link")
                        .annotation(
                            AnnotationKind::Primary
                                .span(problem.span.clone())
                                .label(problem.allowed),
                        ),
                )
            })
            .collect();
        f.write_str(&Renderer::plain().render(&groups))
    }
}

impl std::error::Error for LinkSpecError {}
