//! A path under search: a point of the search space, and the scenario that it stands for.

use std::fmt::Write;
use std::time::Duration;

/// Whose packets are jittered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JitterOn {
    /// All flows': the bottleneck jitters.
    All,
    /// Those of the first flow alone: its access link jitters.
    First,
}

/// A standard algorithm that shares the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Competitor {
    /// `native:cubic`.
    Cubic,
    /// `native:reno`.
    Reno,
}

impl Competitor {
    /// As scenarios name it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Cubic => "native:cubic",
            Self::Reno => "native:reno",
        }
    }
}

/// A path, its flows and their starts. Equal paths give equal scenarios, and so equal results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// Rate of the bottleneck, kbit/s.
    pub rate_kbit: u32,
    /// Round trip without queues, ms.
    pub rtt_ms: u32,
    /// Buffer, tenths of a BDP.
    pub buffer_tenths: u32,
    /// Greatest extra delay of a packet, ms; packets keep their order.
    pub jitter_ms: u32,
    /// Whose packets are jittered.
    pub jitter_on: JitterOn,
    /// Mean time for which ACKs are held, ms, until they leave together; 0 is not at all.
    pub ack_gap_ms: u32,
    /// Random loss, hundredths of a percent.
    pub loss_bp: u32,
    /// Flows of the algorithm.
    pub flows: u32,
    /// Flows of a standard algorithm.
    pub competitors: u32,
    /// Which standard algorithm.
    pub competitor: Competitor,
    /// Time between the starts of two flows, ms.
    pub gap_ms: u32,
    /// Time simulated, s.
    pub duration_s: u32,
}

/// Which paths are searched: bounds of each dimension, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Flows of the algorithm.
    pub flows: (u32, u32),
    /// Flows of a standard algorithm.
    pub competitors: (u32, u32),
    /// Greatest jitter, as a multiple of the round trip, in percent.
    pub jitter_percent: u32,
    /// Greatest random loss, hundredths of a percent.
    pub loss_bp: u32,
}

/// Shortest and longest run, s.
const DURATION_S: (f64, f64) = (20.0, 90.0);

/// Round trips of a run after the last start: flows that have only begun show no fault that stays.
const ROUND_TRIPS: f64 = 150.0;

/// IP bytes of a data packet.
const PACKET_BITS: f64 = 12_000.0;

impl Space {
    /// Dimensions of a position.
    pub(crate) const DIMENSIONS: usize = 10;

    /// The path at a position, each coordinate from 0 to 1.
    pub(crate) fn path(&self, position: &[f64]) -> Path {
        let at = |index: usize| {
            let value = position.get(index).copied().unwrap_or(0.0);
            if value.is_nan() {
                0.0
            } else {
                value.clamp(0.0, 1.0)
            }
        };
        // A disturbance is absent in the lower part of its coordinate, so that paths without it are found.
        let above = |value: f64, least: f64| ((value - least) / (1.0 - least)).max(0.0);
        let between = |value: f64, (low, high): (u32, u32)| {
            let steps = f64::from(high - low + 1);
            low + ((value * steps) as u32).min(high - low)
        };
        let rate_kbit = round(logarithmic(at(0), 2_000.0, 50_000.0));
        let rtt_ms = round(logarithmic(at(1), 10.0, 300.0));
        let jitter =
            above(at(3), 0.25) * f64::from(rtt_ms) * f64::from(self.jitter_percent) / 100.0;
        let flows = between(at(6), self.flows);
        let others = between(at(7), self.competitors);
        let gap_ms = above(at(8), 0.1) * 4_000.0;
        let switch = at(9);
        let mut path = Path {
            rate_kbit,
            rtt_ms,
            buffer_tenths: round(logarithmic(at(2), 3.0, 80.0)),
            jitter_ms: round(jitter),
            jitter_on: if switch < 0.5 {
                JitterOn::First
            } else {
                JitterOn::All
            },
            ack_gap_ms: round(above(at(4), 0.5) * 40.0),
            loss_bp: round(above(at(5), 0.5) * f64::from(self.loss_bp)),
            flows,
            competitors: others,
            competitor: if ((switch * 4.0) as u32).is_multiple_of(2) {
                Competitor::Cubic
            } else {
                Competitor::Reno
            },
            gap_ms: round(gap_ms),
            duration_s: 0,
        };
        path.duration_s = path.least_duration_s();
        path
    }
}

/// From `low` at 0 to `high` at 1, equal steps being equal ratios.
fn logarithmic(at: f64, low: f64, high: f64) -> f64 {
    low * (high / low).powf(at)
}

/// To two digits, which is as much as a path needs to be told by.
fn round(value: f64) -> u32 {
    let value = value.max(0.0);
    if value < 1.0 {
        return value.round() as u32;
    }
    let unit = 10f64.powf(value.log10().floor() - 1.0).max(1.0);
    ((value / unit).round() * unit) as u32
}

impl Path {
    /// Shortest run in which all flows start and settle, s.
    #[must_use]
    pub fn least_duration_s(&self) -> u32 {
        let settling = (ROUND_TRIPS * f64::from(self.rtt_ms) / 1e3).max(DURATION_S.0);
        (settling + self.starts_s()).min(DURATION_S.1).ceil() as u32
    }

    /// Time until the last flow has started, s.
    fn starts_s(&self) -> f64 {
        f64::from(self.gap_ms) / 1e3 * f64::from(self.all().saturating_sub(1))
    }

    /// From when on results count, s: the last half of the time after the last start.
    #[must_use]
    pub fn from_s(&self) -> u32 {
        let starts_s = (self.starts_s().ceil() as u32).min(self.duration_s);
        starts_s + (self.duration_s - starts_s) / 2
    }

    /// Time that one packet takes at the bottleneck.
    #[must_use]
    pub fn packet_time(&self) -> Duration {
        Duration::from_secs_f64(PACKET_BITS / (f64::from(self.rate_kbit.max(1)) * 1e3))
    }

    /// The scenario, of at most 15 lines, in which `algorithm` takes this path.
    #[must_use]
    pub fn scenario(&self, algorithm: &str) -> String {
        let apart = self.jitter_ms > 0 && self.jitter_on == JitterOn::First && self.all() > 1;
        let mut text = format!("duration = \"{}s\"\n", self.duration_s);
        match apart {
            true => self.write_hosts(&mut text),
            false => self.write_dumbbell(&mut text),
        }
        self.write_flows(&mut text, algorithm, apart);
        // Writing to a string does not fail.
        let _ = writeln!(text, "measure = {{ from = \"{}s\" }}", self.from_s());
        text
    }

    /// Tenths of a BDP that hold two packets: a smaller buffer passes none.
    fn least_buffer_tenths(&self) -> u32 {
        let bdp_s = f64::from(self.rtt_ms.max(1)) / 1e3;
        (2.0 * self.packet_time().as_secs_f64() / bdp_s * 10.0).ceil() as u32
    }

    const fn all(&self) -> u32 {
        self.flows + self.competitors
    }

    /// `rate = …, buffer = …` and what disturbs packets at the bottleneck.
    fn bottleneck(&self, with_jitter: bool) -> String {
        let mut keys = format!("rate = \"{}\"", rate(self.rate_kbit));
        let tenths = self.buffer_tenths.max(self.least_buffer_tenths());
        let (whole, tenth) = (tenths / 10, tenths % 10);
        let _ = match tenth {
            0 => write!(keys, ", buffer = \"{whole}bdp\""),
            _ => write!(keys, ", buffer = \"{whole}.{tenth}bdp\""),
        };
        if self.loss_bp > 0 {
            let _ = write!(keys, ", loss = \"{}%\"", f64::from(self.loss_bp) / 100.0);
        }
        if with_jitter && self.jitter_ms > 0 {
            let _ = write!(keys, ", jitter = \"{}ms\"", self.jitter_ms);
        }
        if self.ack_gap_ms > 0 {
            let gap = self.ack_gap_ms;
            let _ = write!(
                keys,
                ", back = {{ rate = \"1gbit\", aggregate = {{ frames = 256, gap = \"{gap}ms\" }} }}"
            );
        }
        keys
    }

    fn write_dumbbell(&self, text: &mut String) {
        let keys = self.bottleneck(true);
        let _ = writeln!(text, "dumbbell = {{ rtt = \"{}ms\", {keys} }}", self.rtt_ms);
    }

    fn write_hosts(&self, text: &mut String) {
        text.push_str("hosts = { first = 1, others = 1, router = 1, receiver = 1 }\nlink = [\n");
        let (jitter, half) = (self.jitter_ms, f64::from(self.rtt_ms) / 2.0);
        let keys = self.bottleneck(false);
        let lines = [
            format!(
                "between = [\"first\", \"router\"], jitter = \"{jitter}ms\", back = {{ jitter = \"0ms\" }}"
            ),
            "between = [\"others\", \"router\"]".to_owned(),
            format!(
                "name = \"bottleneck\", between = [\"router\", \"receiver\"], delay = \"{half}ms\", {keys}"
            ),
        ];
        for line in lines {
            let _ = writeln!(text, "  {{ {line} }},");
        }
        text.push_str("]\n");
    }

    fn write_flows(&self, text: &mut String, algorithm: &str, apart: bool) {
        let mut tables: Vec<String> = Vec::new();
        let quoted = format!("\"{algorithm}\"");
        let gap = self.gap_ms;
        let mut begun = 0;
        let mut add = |name: &str, algorithm: &str, host: &str, count: u32| {
            if count == 0 {
                return;
            }
            let mut table = format!("name = \"{name}\", algorithm = {algorithm}");
            if apart {
                let _ = write!(table, ", from = \"{host}\", to = \"receiver\"");
            }
            if count > 1 {
                let _ = write!(table, ", count = {count}");
            }
            if count > 1 && gap > 0 {
                let _ = write!(table, ", stagger = \"{gap}ms\"");
            }
            if begun > 0 && gap > 0 {
                let _ = write!(table, ", start = \"{}ms\"", gap * begun);
            }
            begun += count;
            tables.push(table);
        };
        match apart {
            true => {
                add("first", &quoted, "first", 1);
                add("others", &quoted, "others", self.flows - 1);
            }
            false => add("flows", &quoted, "", self.flows),
        }
        let standard = format!("\"{}\"", self.competitor.text());
        add("standard", &standard, "others", self.competitors);
        text.push_str("flow = [\n");
        for table in tables {
            let _ = writeln!(text, "  {{ {table} }},");
        }
        text.push_str("]\n");
    }
}

fn rate(kbit: u32) -> String {
    match kbit % 1_000 {
        0 => format!("{}mbit", kbit / 1_000),
        _ => format!("{kbit}kbit"),
    }
}
