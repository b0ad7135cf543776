//! What algorithms share that set a pacing rate in the plane, from the delay and from the rates at
//! which the same packets were sent and received: the program, the counts of its reports, and the
//! delay control of Nimbus' paper.

pub(crate) mod basic_delay;
mod bundle_rates;
pub(crate) mod drain;
pub(crate) mod history;

use fairwater_plane::{AlgorithmError, Control, Field, FlowInfo, Programs, Report, Var};

use crate::bundle::is_bundle;
use crate::windowed::WindowedMin;
use bundle_rates::BundleRates;
use history::{History, Rates};

/// Window of the minimum-RTT filter, µs: beside traffic that fills the buffer the queue is never
/// empty.
pub(crate) const MEMORY_US: u64 = 60_000_000;
/// The longest queueing delay at which the queue counts as empty, µs.
pub(crate) const EMPTY_US: u64 = 1_500;

/// Handles of the program.
#[derive(Debug)]
pub(crate) struct Handles {
    acked: Field,
    lost: Field,
    pub(crate) timeout: Field,
    least_us: Field,
    pub(crate) srtt_us: Field,
    in_flight: Field,
    sent: Field,
    received: Field,
    slow_start: Field,
    mss: Var,
    begins: Var,
    bundle: Var,
}

impl Handles {
    /// Compiles the program: it reports each `report_us`, and ends slow start at a queueing delay of
    /// `target_us`.
    pub(crate) fn load(
        programs: &mut Programs,
        name: &str,
        report_us: u64,
        target_us: u64,
    ) -> Result<Self, AlgorithmError> {
        let constants = [
            ("report_us", report_us.into()),
            ("target_us", target_us.into()),
        ];
        let p = programs.add_with(name, include_str!("program.ccp"), &constants)?;
        Ok(Self {
            acked: p.field("acked")?,
            lost: p.field("lost")?,
            timeout: p.field("timeout")?,
            least_us: p.field("least_us")?,
            srtt_us: p.field("srtt_us")?,
            in_flight: p.field("in_flight")?,
            sent: p.field("sent")?,
            received: p.field("received")?,
            slow_start: p.field("slow_start")?,
            mss: p.variable("mss")?,
            begins: p.variable("begins")?,
            bundle: p.variable("bundle")?,
        })
    }

    /// Tells the program what only the plane knows of a new flow. A flow that has left slow start
    /// under another control does not begin a second one.
    pub(crate) fn begin(&self, info: &FlowInfo, control: &mut Control) {
        self.set_mss(info.mss, control);
        control.update(self.begins, info.ssthresh.is_none());
        control.update(self.bundle, is_bundle(info));
    }

    /// Tells the program the size of segments, bytes.
    pub(crate) fn set_mss(&self, mss: u32, control: &mut Control) {
        control.update(self.mss, mss.max(1));
    }
}

/// What reports have told of a flow.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) mss: f64,
    source: Source,
    base: WindowedMin,
    rtt_us: u64,
    last_us: u64,
}

/// What S and R are taken from.
#[derive(Debug)]
enum Source {
    /// What each report counts.
    Counts(History),
    /// The rates that a bundle's signals tell.
    Told(BundleRates),
}

/// What one report says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) time_us: u64,
    /// Since the last report, µs.
    pub(crate) since_us: u64,
    /// The least RTT since the last report, and of [`MEMORY_US`], µs.
    pub(crate) rtt_us: u64,
    pub(crate) base_us: u64,
    /// Bytes since the last report.
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    pub(crate) slow_start: bool,
}

impl Meter {
    pub(crate) fn new(info: &FlowInfo, report_us: u64) -> Self {
        Self {
            mss: f64::from(info.mss.max(1)),
            source: if is_bundle(info) {
                Source::Told(BundleRates::default())
            } else {
                Source::Counts(History::new(report_us))
            },
            base: WindowedMin::default(),
            rtt_us: 0,
            last_us: info.now_us,
        }
    }

    /// S and R of what came back within the last `window_us`, of a bundle within a round trip at least;
    /// `None` while they are not known.
    pub(crate) fn rates(&self, window_us: u64) -> Option<Rates> {
        match &self.source {
            Source::Counts(history) => history.rates(window_us, self.mss),
            Source::Told(rates) => rates.rates(window_us),
        }
    }

    /// Takes a report; `None` while no RTT is known.
    pub(crate) fn report(&mut self, h: &Handles, report: &Report) -> Option<Counts> {
        let time_us = report.time_us();
        let since_us = time_us.saturating_sub(self.last_us);
        self.last_us = time_us;
        let (acked, lost) = (report[h.acked], report[h.lost]);
        if report[h.least_us] < u64::MAX {
            self.rtt_us = report[h.least_us].max(1);
        }
        match &mut self.source {
            Source::Counts(history) => {
                history.report(time_us, (acked, lost), report[h.in_flight], self.mss);
            }
            Source::Told(rates) => {
                let told = (report[h.sent], report[h.received]);
                rates.report((time_us, self.rtt_us), told, (acked, lost));
            }
        }
        if self.rtt_us == 0 {
            return None;
        }
        Some(Counts {
            time_us,
            since_us,
            rtt_us: self.rtt_us,
            base_us: self.base.update(time_us, self.rtt_us, MEMORY_US),
            acked,
            lost,
            slow_start: report.is_set(h.slow_start),
        })
    }
}
