//! From text to [`LinkSpec`], word by word.

use std::ops::Range;
use std::time::Duration;

use super::decimal::scaled;
use super::{Buffer, CapacitySpec, LinkSpec, MIN_BUFFER_BYTES, Problem};
use crate::{Probability, Rate};

pub(super) const DEFAULT_SEED: u64 = 1;

const CAPACITY: &str = "a rate from 1kbit to 100gbit such as `48mbit`, or `trace:FILE`";
const RTT: &str = "a time from 0ms to 60s such as `20ms`, in `us`, `ms` or `s`";
const BUFFER: &str = "`160pkt`, `100kB` or `1bdp`: at least 1 packet or 1500 B, at most 10 million packets, 10 GB or 10000 BDP";
const LOSS: &str = "a percentage from 0% to 100%, such as `loss=0.01%`";
const MARK: &str = "a number of packets from 0 to 10 million, such as `mark=20pkt`";
const SEED: &str = "a whole number, such as `seed=7`";
const WORD: &str = "a rate `48mbit` or `trace:FILE`, an RTT `20ms`, a buffer `1bdp`, `loss=0.01%`, `mark=20pkt`, `seed=7`";

/// What one word says.
enum Word {
    Capacity(CapacitySpec),
    Rtt(Duration),
    Buffer(Buffer),
    Loss(Probability),
    Mark(u64),
    Seed(u64),
}

/// A word that was said, and where.
struct Said<T> {
    value: T,
    span: Range<usize>,
}

pub(super) fn link_spec(text: &str) -> Result<LinkSpec, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut capacity = Slot::new("capacity");
    let mut rtt = Slot::new("RTT");
    let mut buffer = Slot::new("buffer");
    let mut loss = Slot::new("loss");
    let mut mark = Slot::new("mark");
    let mut seed = Slot::new("seed");

    for span in words(text) {
        match word(&text[span.clone()]) {
            Ok(Word::Capacity(value)) => capacity.fill(value, span, &mut problems),
            Ok(Word::Rtt(value)) => rtt.fill(value, span, &mut problems),
            Ok(Word::Buffer(value)) => buffer.fill(value, span, &mut problems),
            Ok(Word::Loss(value)) => loss.fill(value, span, &mut problems),
            Ok(Word::Mark(value)) => mark.fill(value, span, &mut problems),
            Ok(Word::Seed(value)) => seed.fill(value, span, &mut problems),
            Err(Wrong {
                kind,
                message,
                allowed,
            }) => {
                // A capacity that is wrong is not also missing.
                match kind {
                    Some(Kind::Capacity) => capacity.attempted = true,
                    Some(Kind::Rtt) => rtt.attempted = true,
                    None => {}
                }
                problems.push(Problem {
                    span,
                    message,
                    allowed,
                });
            }
        }
    }

    let end = text.trim_end().len()..text.trim_end().len();
    for (attempted, name, allowed) in [
        (capacity.attempted, "capacity", CAPACITY),
        (rtt.attempted, "RTT", RTT),
    ] {
        if !attempted {
            problems.push(Problem {
                span: end.clone(),
                message: format!("the link has no {name}"),
                allowed,
            });
        }
    }
    let buffer_span = buffer.said.as_ref().map_or(end, |said| said.span.clone());
    let spec = capacity.said.zip(rtt.said).map(|(capacity, rtt)| LinkSpec {
        capacity: capacity.value,
        rtt: rtt.value,
        buffer: buffer
            .said
            .map_or(Buffer::MilliBdp(1000), |said| said.value),
        loss: loss.said.map_or(Probability::NEVER, |said| said.value),
        mark: mark.said.map(|said| said.value),
        seed: seed.said.map_or(DEFAULT_SEED, |said| said.value),
    });
    problems.extend(
        spec.as_ref()
            .and_then(|spec| bdp_too_small(spec, buffer_span)),
    );
    match spec {
        Some(spec) if problems.is_empty() => Ok(spec),
        _ => Err(problems),
    }
}

/// A buffer in BDPs that comes to less than a packet would drop everything.
fn bdp_too_small(spec: &LinkSpec, span: Range<usize>) -> Option<Problem> {
    let (CapacitySpec::Rate(rate), Buffer::MilliBdp(milli)) = (&spec.capacity, spec.buffer) else {
        return None;
    };
    let bytes = u128::from(rate.bytes_in(spec.rtt)) * u128::from(milli) / 1000;
    (bytes < u128::from(MIN_BUFFER_BYTES)).then(|| Problem {
        span,
        message: format!(
            "a buffer of {} is {bytes} bytes at {rate}, less than one packet",
            spec.buffer
        ),
        allowed: BUFFER,
    })
}

/// Where one kind of word goes; it may be said once.
struct Slot<T> {
    name: &'static str,
    said: Option<Said<T>>,
    attempted: bool,
}

impl<T> Slot<T> {
    fn new(name: &'static str) -> Self {
        Slot {
            name,
            said: None,
            attempted: false,
        }
    }

    fn fill(&mut self, value: T, span: Range<usize>, problems: &mut Vec<Problem>) {
        self.attempted = true;
        if self.said.is_some() {
            problems.push(Problem {
                span,
                message: format!("the link's {} is given twice", self.name),
                allowed: "nothing: remove this one or the one before",
            });
        } else {
            self.said = Some(Said { value, span });
        }
    }
}

/// The byte ranges of the words of a text.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.split_whitespace().map(|word| {
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        start..start + word.len()
    })
}

/// What a word was meant to be, if that can be told, and what is wrong with it.
struct Wrong {
    kind: Option<Kind>,
    message: String,
    allowed: &'static str,
}

enum Kind {
    Capacity,
    Rtt,
}

fn word(word: &str) -> Result<Word, Wrong> {
    let wrong = |kind, what: &str, allowed| Wrong {
        kind,
        message: format!("`{word}` is not {what}"),
        allowed,
    };
    if let Some(name) = word.strip_prefix("trace:") {
        return if name.is_empty() {
            Err(wrong(
                Some(Kind::Capacity),
                "a trace: the file's name is missing",
                CAPACITY,
            ))
        } else {
            Ok(Word::Capacity(CapacitySpec::Trace(name.to_owned())))
        };
    }
    if let Some(percentage) = word.strip_prefix("loss=") {
        return percentage
            .strip_suffix('%')
            .and_then(|number| scaled(number, 7))
            .and_then(|ppb| Probability::from_ppb(u32::try_from(ppb).ok()?))
            .map(Word::Loss)
            .ok_or_else(|| wrong(None, "a loss", LOSS));
    }
    if let Some(threshold) = word.strip_prefix("mark=") {
        let packets = threshold.strip_suffix("pkt");
        let packets = packets.and_then(|number| number.parse().ok());
        return packets
            .filter(|packets| *packets <= 10_000_000)
            .map(Word::Mark)
            .ok_or_else(|| wrong(None, "a mark", MARK));
    }
    if let Some(seed) = word.strip_prefix("seed=") {
        let seed = seed.parse().map(Word::Seed);
        return seed.map_err(|_| wrong(None, "a seed", SEED));
    }
    let unit_at = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(unit_at);
    match unit {
        "bit" | "kbit" | "mbit" | "gbit" => rate(number, unit)
            .map(|rate| Word::Capacity(CapacitySpec::Rate(rate)))
            .ok_or_else(|| wrong(Some(Kind::Capacity), "a rate that can be had", CAPACITY)),
        "us" | "ms" | "s" => rtt(number, unit)
            .map(Word::Rtt)
            .ok_or_else(|| wrong(Some(Kind::Rtt), "an RTT that can be had", RTT)),
        "pkt" | "B" | "kB" | "MB" | "bdp" => buffer(number, unit)
            .map(Word::Buffer)
            .ok_or_else(|| wrong(None, "a buffer that can be had", BUFFER)),
        _ if looks_like_a_rate(unit) => Err(wrong(Some(Kind::Capacity), "a rate", CAPACITY)),
        _ => Err(wrong(None, "a word of a link's description", WORD)),
    }
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
    let (buffer, allowed) = match unit {
        "pkt" => {
            let packets = scaled(number, 0)?;
            (
                Buffer::Packets(packets),
                (1..=10_000_000).contains(&packets),
            )
        }
        "bdp" => {
            let milli = scaled(number, 3)?;
            (Buffer::MilliBdp(milli), (1..=10_000_000).contains(&milli))
        }
        _ => {
            let bytes = scaled(
                number,
                match unit {
                    "B" => 0,
                    "kB" => 3,
                    _ => 6,
                },
            )?;
            (
                Buffer::Bytes(bytes),
                (MIN_BUFFER_BYTES..=10_000_000_000).contains(&bytes),
            )
        }
    };
    allowed.then_some(buffer)
}
