//! A path described in a line of text.

mod parse;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use crate::decimal::Decimal;
use crate::{
    Aggregation, Buffer, Capacity, DeliveryTrace, Limit, Link, LinkConfig, LossConfig, Packet,
    Probability, QueueConfig, QueueContext, QueueSpec, Rate,
};

/// A path with one bottleneck, such as `48mbit 20ms 1bdp loss=0.01% seed=7`.
///
/// Words, in any order:
/// - capacity: `48mbit` (`bit`, `kbit`, `mbit`, `gbit` per second, of IP packets), or
///   `trace:FILE`, a mahimahi delivery trace (a name without spaces);
/// - RTT: `20ms` (`us`, `ms`, `s`), the propagation delay of both directions together, split
///   evenly between them;
/// - the bottleneck's buffer: `160pkt`, `100kB` (`B`, `kB`, `MB`, powers of ten) or `1bdp`
///   (times capacity × RTT, a trace's mean rate counting); `1bdp` when not given;
///   `buffer=250ms` or `buffer=10MB,250ms`: what the capacity carries in this time, and no more
///   than those bytes;
/// - `loss=0.01%`: random loss towards the receiver; none when not given;
/// - `queue=fq_codel`, `queue=codel:target=2ms,ecn=true`: the queue discipline
///   (see [`QueueSpec`]); drop-tail when not given;
/// - `mark=20pkt`: short for `queue=step:threshold=20pkt`: a packet that finds more than this waiting
///   is marked (ECN CE), if it can be;
/// - `aggregate=32pkt,4ms,100us`: packets leave in aggregates of at most so many packets and so
///   much airtime, each after contention of this mean time (see [`Aggregation`]);
/// - `seed=7`: of everything random; 1 when not given.
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
    /// The discipline of the queue.
    pub queue: QueueSpec,
    /// Seed of everything random.
    pub seed: u64,
}

/// A bottleneck's capacity as described; a trace is still only named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapacitySpec {
    /// A constant rate.
    Rate(Rate),
    /// A rate that is shared by contention, in aggregates.
    Aggregates(Aggregation),
    /// The name of a file with a delivery trace.
    Trace(String),
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
            CapacitySpec::Aggregates(aggregation) => Capacity::Aggregates(*aggregation),
            CapacitySpec::Trace(name) => Capacity::Trace(Arc::new(read(name)?)),
        })
    }
}

impl LinkSpec {
    /// The buffer's limit. One BDP is capacity × RTT, in bytes, and at least one packet.
    pub fn limit(&self, capacity: &Capacity) -> Limit {
        match (self.buffer, capacity.nominal_rate()) {
            (Buffer::MilliBdp(_) | Buffer::Time { .. }, None) => Limit::Unlimited,
            (buffer, rate) => buffer.limit(rate.unwrap_or(Rate::at_least_one(1)), self.rtt),
        }
    }

    /// The direction with the bottleneck, from sender to receiver.
    pub fn forward<P: Packet>(&self, capacity: &Capacity) -> Link<P> {
        Link::new(&self.forward_config(capacity))
    }

    /// What [`LinkSpec::forward`] is made of.
    pub fn forward_config(&self, capacity: &Capacity) -> LinkConfig {
        LinkConfig {
            loss: LossConfig::Random(self.loss),
            seed: self.seed,
            ..LinkConfig::new(capacity.clone(), self.queue_config(capacity), self.rtt / 2)
        }
    }

    /// The queue before the bottleneck; it holds the buffer.
    fn queue_config(&self, capacity: &Capacity) -> QueueConfig {
        let limit = self.limit(capacity);
        let Some(rate) = capacity.nominal_rate() else {
            return QueueConfig::DropTail(limit);
        };
        let context = QueueContext {
            rate,
            rtt: self.rtt,
            buffer: Some(self.buffer),
        };
        // The parser has refused what does not go together, but for what depends on a trace's rate.
        let config = self.queue.config(&context);
        config.unwrap_or(QueueConfig::DropTail(limit))
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
        parse::link_spec(text).map_err(|diagnostics| LinkSpecError {
            text: text.to_owned(),
            diagnostics,
        })
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rtt = DurationText(self.rtt);
        let name = match self.buffer {
            Buffer::Time { .. } => "buffer=",
            _ => "",
        };
        write!(f, "{} {rtt} {name}{}", self.capacity, self.buffer)?;
        if self.loss != Probability::NEVER {
            write!(f, " loss={}%", Decimal(self.loss.ppb().into(), 7))?;
        }
        if self.queue != QueueSpec::default() {
            write!(f, " queue={}", self.queue)?;
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
            CapacitySpec::Aggregates(Aggregation {
                rate,
                frames,
                airtime,
                gap,
            }) => {
                let (airtime, gap) = (DurationText(*airtime), DurationText(*gap));
                write!(f, "{rate} aggregate={frames}pkt,{airtime},{gap}")
            }
            CapacitySpec::Trace(name) => write!(f, "trace:{name}"),
        }
    }
}

/// A duration as the text of a link has it.
struct DurationText(Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        if ns.is_multiple_of(1_000_000) {
            write!(f, "{}ms", ns / 1_000_000)
        } else {
            write!(f, "{}us", Decimal(ns, 3))
        }
    }
}

/// Why a link's description was refused: all its diagnostics. Displayed, each stands under its word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkSpecError {
    /// The description.
    pub text: String,
    /// What is wrong; never empty.
    pub diagnostics: Vec<LinkDiagnostic>,
}

/// One error in a link's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkDiagnostic {
    /// Bytes of the word in the text; empty, at the end, for a word that is missing.
    pub span: std::ops::Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What is accepted there.
    pub expected: &'static str,
}

impl fmt::Display for LinkSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<_> = self
            .diagnostics
            .iter()
            .map(|diagnostic| {
                Level::ERROR.primary_title(&diagnostic.message).element(
                    Snippet::source(&self.text)
                        .line_start(1)
                        .path("link")
                        .annotation(
                            AnnotationKind::Primary
                                .span(diagnostic.span.clone())
                                .label(diagnostic.expected),
                        ),
                )
            })
            .collect();
        f.write_str(&Renderer::plain().render(&groups))
    }
}

impl std::error::Error for LinkSpecError {}
