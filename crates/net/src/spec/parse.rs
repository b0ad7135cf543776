//! From text to [`LinkSpec`], word by word.

use std::ops::Range;
use std::time::Duration;

use super::{CapacitySpec, LinkDiagnostic, LinkSpec};
use crate::decimal::scaled;
use crate::{
    Aggregation, Buffer, MIN_BUFFER_BYTES, Probability, QueueContext, QueueSpec, Rate, quantity,
};

pub(super) const DEFAULT_SEED: u64 = 1;

const CAPACITY: &str = "a rate from 1kbit to 100gbit such as `48mbit`, or `trace:FILE`";
const RTT: &str = "a time from 0ms to 60s such as `20ms`, in `us`, `ms` or `s`";
const BUFFER: &str = "`160pkt`, `100kB` or `1bdp`: at least 1 packet or 1500 B, at most 10 million packets, 10 GB or 10000 BDP";
const BUFFER_TIME: &str =
    "a time such as `buffer=250ms`, or with the most bytes `buffer=10MB,250ms`";
const LOSS: &str = "a percentage from 0% to 100%, such as `loss=0.01%`";
const MARK: &str = "a number of packets from 1 to 10 million, such as `mark=20pkt`";
const QUEUE: &str =
    "a discipline such as `queue=fq_codel`, or with parameters `queue=codel:target=2ms,ecn=true`";
const AGGREGATE: &str = "most packets, most airtime and mean contention, such as `aggregate=32pkt,4ms,100us`: 1 to 256 packets, at most 5484us, at most 1s";
const SEED: &str = "a whole number, such as `seed=7`";
const WORD: &str = "a rate `48mbit` or `trace:FILE`, an RTT `20ms`, a buffer `1bdp` or `buffer=250ms`, `loss=0.01%`, `queue=fq_codel`, `mark=20pkt`, `aggregate=32pkt,4ms,100us`, `seed=7`";

/// The value of one word.
enum Word {
    Capacity(CapacitySpec),
    Rtt(Duration),
    Buffer(Buffer),
    Loss(Probability),
    Queue(QueueSpec),
    Aggregate(Aggregate),
    Seed(u64),
}

/// The word `aggregate=…`: an [`Aggregation`] without its rate.
struct Aggregate {
    frames: u32,
    airtime: Duration,
    gap: Duration,
}

pub(super) fn link_spec(text: &str) -> Result<LinkSpec, Vec<LinkDiagnostic>> {
    let mut fields = Fields::new();
    for span in words(text) {
        match word(&text[span.clone()]) {
            Ok(value) => fields.set(value, span),
            Err(error) => fields.refuse(error, span),
        }
    }
    fields.finish(text.trim_end().len())
}

/// The words of a description, and what is wrong with them.
struct Fields {
    capacity: Field<CapacitySpec>,
    rtt: Field<Duration>,
    buffer: Field<Buffer>,
    loss: Field<Probability>,
    queue: Field<QueueSpec>,
    aggregate: Field<Aggregate>,
    seed: Field<u64>,
    diagnostics: Vec<LinkDiagnostic>,
}

impl Fields {
    fn new() -> Self {
        Fields {
            capacity: Field::new("capacity"),
            rtt: Field::new("RTT"),
            buffer: Field::new("buffer"),
            loss: Field::new("loss"),
            queue: Field::new("queue"),
            aggregate: Field::new("aggregation"),
            seed: Field::new("seed"),
            diagnostics: Vec::new(),
        }
    }

    fn set(&mut self, word: Word, span: Range<usize>) {
        let diagnostics = &mut self.diagnostics;
        match word {
            Word::Capacity(value) => self.capacity.set(value, span, diagnostics),
            Word::Rtt(value) => self.rtt.set(value, span, diagnostics),
            Word::Buffer(value) => self.buffer.set(value, span, diagnostics),
            Word::Loss(value) => self.loss.set(value, span, diagnostics),
            Word::Queue(value) => self.queue.set(value, span, diagnostics),
            Word::Aggregate(value) => self.aggregate.set(value, span, diagnostics),
            Word::Seed(value) => self.seed.set(value, span, diagnostics),
        }
    }

    fn refuse(&mut self, error: WordError, span: Range<usize>) {
        // A capacity that is malformed is not also missing.
        match error.kind {
            Some(Kind::Capacity) => self.capacity.is_attempted = true,
            Some(Kind::Rtt) => self.rtt.is_attempted = true,
            None => {}
        }
        self.diagnostics.push(LinkDiagnostic {
            span,
            message: error.message,
            expected: error.expected,
        });
    }

    /// The description, whose text ends at `end`.
    fn finish(mut self, end: usize) -> Result<LinkSpec, Vec<LinkDiagnostic>> {
        let end = end..end;
        for (is_attempted, name, expected) in [
            (self.capacity.is_attempted, "capacity", CAPACITY),
            (self.rtt.is_attempted, "RTT", RTT),
        ] {
            if !is_attempted {
                self.diagnostics.push(LinkDiagnostic {
                    span: end.clone(),
                    message: format!("the link has no {name}"),
                    expected,
                });
            }
        }
        let buffer_span = self.buffer.span(&end);
        let queue_span = self.queue.span(&end);
        let aggregate_span = self.aggregate.span(&end);
        let has_capacity = self.capacity.value.is_some();
        let capacity = match (self.capacity.value, self.aggregate.value) {
            (Some((CapacitySpec::Rate(rate), _)), Some((aggregate, _))) => {
                Some(CapacitySpec::Aggregates(Aggregation {
                    rate,
                    frames: aggregate.frames,
                    airtime: aggregate.airtime,
                    gap: aggregate.gap,
                }))
            }
            (Some(_), Some(_)) => None,
            (capacity, _) => capacity.map(|(capacity, _)| capacity),
        };
        if has_capacity && capacity.is_none() {
            self.diagnostics.push(LinkDiagnostic {
                span: aggregate_span,
                message: "a trace has no aggregates".to_owned(),
                expected: "nothing: remove this word, or give a rate",
            });
        }
        let value =
            |field: Option<(u64, Range<usize>)>, default| field.map_or(default, |set| set.0);
        let spec = capacity
            .zip(self.rtt.value)
            .map(|(capacity, (rtt, _))| LinkSpec {
                capacity,
                rtt,
                buffer: self.buffer.value.map_or_else(Buffer::default, |set| set.0),
                loss: self.loss.value.map_or(Probability::NEVER, |set| set.0),
                queue: self
                    .queue
                    .value
                    .map_or_else(QueueSpec::default, |set| set.0),
                seed: value(self.seed.value, DEFAULT_SEED),
            });
        if let Some(spec) = &spec {
            self.diagnostics.extend(check_buffer(spec, buffer_span));
            self.diagnostics.extend(check_queue(spec, queue_span));
        }
        match spec {
            Some(spec) if self.diagnostics.is_empty() => Ok(spec),
            _ => Err(self.diagnostics),
        }
    }
}

/// The rate of a capacity, if it is stated.
fn stated_rate(capacity: &CapacitySpec) -> Option<Rate> {
    match capacity {
        CapacitySpec::Rate(rate) => Some(*rate),
        CapacitySpec::Aggregates(aggregation) => Some(aggregation.mean_rate()),
        CapacitySpec::Trace(_) => None,
    }
}

/// A buffer in BDPs that comes to less than a packet would drop everything.
fn check_buffer(spec: &LinkSpec, span: Range<usize>) -> Option<LinkDiagnostic> {
    let rate = stated_rate(&spec.capacity)?;
    let bytes = spec.buffer.less_than_a_packet(rate, spec.rtt)?;
    Some(LinkDiagnostic {
        span,
        message: format!(
            "a buffer of {} is {bytes} bytes at {rate}, less than one packet",
            spec.buffer
        ),
        expected: BUFFER,
    })
}

/// Parameters of a queue that do not go together.
fn check_queue(spec: &LinkSpec, span: Range<usize>) -> Option<LinkDiagnostic> {
    let context = QueueContext {
        rate: stated_rate(&spec.capacity)?,
        rtt: spec.rtt,
        buffer: Some(spec.buffer),
    };
    let error = spec.queue.config(&context).err()?;
    Some(LinkDiagnostic {
        span,
        message: error.to_string(),
        expected: QUEUE,
    })
}

/// One kind of word; it may be given once.
struct Field<T> {
    name: &'static str,
    value: Option<(T, Range<usize>)>,
    is_attempted: bool,
}

impl<T> Field<T> {
    fn new(name: &'static str) -> Self {
        Field {
            name,
            value: None,
            is_attempted: false,
        }
    }

    fn set(&mut self, value: T, span: Range<usize>, diagnostics: &mut Vec<LinkDiagnostic>) {
        self.is_attempted = true;
        if self.value.is_some() {
            diagnostics.push(LinkDiagnostic {
                span,
                message: format!("the link's {} is given twice", self.name),
                expected: "nothing: remove this word or the one before",
            });
        } else {
            self.value = Some((value, span));
        }
    }

    /// Where the word is; `end` if it is not given.
    fn span(&self, end: &Range<usize>) -> Range<usize> {
        let value = self.value.as_ref();
        value.map_or_else(|| end.clone(), |(_, span)| span.clone())
    }
}

/// The byte ranges of the words of a text.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split_whitespace().map(|word| {
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        start..start + word.len()
    })
}

/// Why a word was refused, and what it was meant to be, if that is clear.
struct WordError {
    kind: Option<Kind>,
    message: String,
    expected: &'static str,
}

enum Kind {
    Capacity,
    Rtt,
}

impl WordError {
    fn new(message: String, expected: &'static str) -> Self {
        WordError {
            kind: None,
            message,
            expected,
        }
    }

    fn of(kind: Kind, message: String, expected: &'static str) -> Self {
        WordError {
            kind: Some(kind),
            message,
            expected,
        }
    }
}

fn word(word: &str) -> Result<Word, WordError> {
    if let Some(name) = word.strip_prefix("trace:") {
        return if name.is_empty() {
            let message = "`trace:` has no file name".to_owned();
            Err(WordError::of(Kind::Capacity, message, CAPACITY))
        } else {
            Ok(Word::Capacity(CapacitySpec::Trace(name.to_owned())))
        };
    }
    if let Some((name, value)) = word.split_once('=') {
        return setting(word, name, value);
    }
    let unit_at = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(unit_at);
    let out_of_range = |what| format!("{what} `{word}` is malformed or out of range");
    match unit {
        "bit" | "kbit" | "mbit" | "gbit" => rate(number, unit)
            .map(|rate| Word::Capacity(CapacitySpec::Rate(rate)))
            .ok_or_else(|| {
                let message = format!("rate `{word}` is out of range (1kbit to 100gbit)");
                WordError::of(Kind::Capacity, message, CAPACITY)
            }),
        "us" | "ms" | "s" => rtt(number, unit)
            .map(Word::Rtt)
            .ok_or_else(|| WordError::of(Kind::Rtt, out_of_range("RTT"), RTT)),
        "pkt" | "B" | "kB" | "MB" | "bdp" => buffer(number, unit)
            .map(Word::Buffer)
            .ok_or_else(|| WordError::new(out_of_range("buffer"), BUFFER)),
        _ if looks_like_a_rate(unit) => {
            let message = format!("`{word}` is not a rate");
            Err(WordError::of(Kind::Capacity, message, CAPACITY))
        }
        _ => Err(WordError::new(format!("unknown word `{word}`"), WORD)),
    }
}

/// A word of the form `name=value`.
fn setting(word: &str, name: &str, value: &str) -> Result<Word, WordError> {
    let refused =
        |expected| WordError::new(format!("`{word}` is malformed or out of range"), expected);
    match name {
        "loss" => value
            .strip_suffix('%')
            .and_then(|number| scaled(number, 7))
            .and_then(|ppb| Probability::from_ppb(u32::try_from(ppb).ok()?))
            .map(Word::Loss)
            .ok_or_else(|| refused(LOSS)),
        "buffer" => match quantity::buffer(value) {
            Ok(buffer @ Buffer::Time { .. }) => Ok(Word::Buffer(buffer)),
            _ => Err(refused(BUFFER_TIME)),
        },
        "mark" => {
            let spec = format!("step:threshold={value}");
            let packets = quantity::packets(value).map_err(|_| refused(MARK))?;
            let queue = spec.parse().ok().filter(|_| packets <= 10_000_000);
            queue.map(Word::Queue).ok_or_else(|| refused(MARK))
        }
        "queue" => value
            .parse()
            .map(Word::Queue)
            .map_err(|error: crate::QueueSpecError| WordError::new(error.to_string(), QUEUE)),
        "aggregate" => aggregate(value)
            .map(Word::Aggregate)
            .ok_or_else(|| refused(AGGREGATE)),
        "seed" => value.parse().map(Word::Seed).map_err(|_| refused(SEED)),
        _ => Err(WordError::new(format!("unknown word `{word}`"), WORD)),
    }
}

/// `32pkt,4ms,100us`.
fn aggregate(value: &str) -> Option<Aggregate> {
    let mut parts = value.split(',');
    let frames = quantity::packets(parts.next()?).ok()?;
    let airtime = quantity::period(parts.next()?).ok()?;
    let gap = quantity::duration(parts.next()?).ok()?;
    let fits = frames <= 256
        && airtime <= Aggregation::MAX_AIRTIME
        && gap <= Duration::from_secs(1)
        && parts.next().is_none();
    let frames = u32::try_from(frames).ok()?;
    fits.then_some(Aggregate {
        frames,
        airtime,
        gap,
    })
}

/// Whether a unit is one that rates have elsewhere: `Mbps`, `mbit/s`.
fn looks_like_a_rate(unit: &str) -> bool {
    let unit = unit.to_ascii_lowercase();
    unit.contains("bit") || unit.contains("bps")
}

fn rate(number: &str, unit: &str) -> Option<Rate> {
    let scale = match unit {
        "bit" => 0,
        "kbit" => 3,
        "mbit" => 6,
        _ => 9,
    };
    let bps = scaled(number, scale)?;
    (1_000..=100_000_000_000)
        .contains(&bps)
        .then_some(bps)
        .and_then(Rate::from_bps)
}

fn rtt(number: &str, unit: &str) -> Option<Duration> {
    let scale = match unit {
        "us" => 3,
        "ms" => 6,
        _ => 9,
    };
    let rtt = Duration::from_nanos(scaled(number, scale)?);
    (rtt <= Duration::from_secs(60)).then_some(rtt)
}

fn buffer(number: &str, unit: &str) -> Option<Buffer> {
    let (buffer, is_in_range) = match unit {
        "pkt" => {
            let packets = scaled(number, 0)?;
            let is_in_range = (1..=10_000_000).contains(&packets);
            (Buffer::Packets(packets), is_in_range)
        }
        "bdp" => {
            let milli = scaled(number, 3)?;
            (Buffer::MilliBdp(milli), (1..=10_000_000).contains(&milli))
        }
        _ => {
            let scale = match unit {
                "B" => 0,
                "kB" => 3,
                _ => 6,
            };
            let bytes = scaled(number, scale)?;
            let is_in_range = (MIN_BUFFER_BYTES..=10_000_000_000).contains(&bytes);
            (Buffer::Bytes(bytes), is_in_range)
        }
    };
    is_in_range.then_some(buffer)
}
