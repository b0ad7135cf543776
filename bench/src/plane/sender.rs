//! A datapath that does nothing but report.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fairwater_proto::link::{Link, LinkError, MAX_PACKET, Poller};
use fairwater_proto::{Capabilities, Dialect, FlowId, FlowInfo, Hello, ToDatapath, ToPlane};

const FLOW: FlowId = FlowId {
    slot: 0,
    generation: 0,
};

/// One flow of one peer.
pub(super) struct Sender {
    link: Box<dyn Link>,
    dialect: Dialect,
    poller: Poller,
    buffer: Vec<u8>,
    report: Vec<u8>,
}

impl Sender {
    /// Says Hello, starts the flow, and waits for its program.
    pub(super) fn start(link: Box<dyn Link>, dialect: Dialect) -> anyhow::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&*link, 0)?;
        let mut sender = Self {
            link,
            dialect,
            poller,
            buffer: vec![0; MAX_PACKET],
            report: Vec::new(),
        };
        sender.say(&ToPlane::Hello(Hello {
            name: "benchmark",
            instance: 1,
            capabilities: Capabilities {
                max_programs: 8,
                ..Capabilities::ALL
            },
        }))?;
        sender.say(&ToPlane::Created {
            flow: FLOW,
            algorithm: "",
            info: FlowInfo {
                local: ([127, 0, 0, 1], 1).into(),
                remote: ([127, 0, 0, 1], 2).into(),
                mss: 1460,
                cwnd: 14_600,
                srtt_us: 0,
                now_us: 0,
                tag: 0,
                ..FlowInfo::default()
            },
        })?;
        let program = sender.command()?.context("the flow has no program")?;
        let report = ToPlane::Reported {
            flow: FLOW,
            program,
            time_us: Some(1),
            cwnd: 14_600,
            rate: 0,
            fields: (&[1, 2, 3, 4, 5, 6]).into(),
        };
        dialect.encode_to_plane(&report, &mut sender.report)?;
        Ok(sender)
    }

    fn say(&mut self, message: &ToPlane<'_>) -> anyhow::Result<()> {
        let mut packet = Vec::new();
        self.dialect.encode_to_plane(message, &mut packet)?;
        while let Err(error) = self.link.send(&packet) {
            ensure!(error == LinkError::WouldBlock, "sending: {error}");
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits for a command; returns the program that it switches to.
    fn command(&mut self) -> anyhow::Result<Option<u32>> {
        let start = Instant::now();
        loop {
            match self.link.receive(&mut self.buffer) {
                Ok(length) => {
                    let packet = self.buffer.get(..length).unwrap_or_default();
                    for message in self.dialect.to_datapath(packet) {
                        if let ToDatapath::Command { switch, .. } = message? {
                            return Ok(switch);
                        }
                    }
                }
                Err(LinkError::WouldBlock) => {
                    ensure!(start.elapsed() < Duration::from_secs(10), "no answer");
                    if self.link.prepare_to_wait() {
                        let _ = self.poller.wait(Some(Duration::from_secs(1)))?.count();
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// From now on each packet has so many reports.
    pub(super) fn pack(&mut self, reports: usize) {
        self.report = self.report.repeat(reports);
    }

    /// Sends a packet of reports, however long that takes.
    pub(super) fn say_report(&mut self) -> anyhow::Result<()> {
        while let Err(error) = self.link.send(&self.report) {
            ensure!(error == LinkError::WouldBlock, "sending: {error}");
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Reads what there is, without waiting for more.
    pub(super) fn forget_answers(&mut self) {
        while self.link.receive(&mut self.buffer).is_ok() {}
    }

    /// Sends packets until the link is full; returns how many.
    pub(super) fn fill(&mut self) -> anyhow::Result<usize> {
        self.forget_answers();
        let mut sent = 0;
        loop {
            match self.link.send(&self.report) {
                Ok(()) => sent += 1,
                Err(LinkError::WouldBlock) => return Ok(sent),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The time from a report to the command that answers it.
    pub(super) fn round_trip(&mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.link.send(&self.report)?;
        self.command()?;
        Ok(start.elapsed())
    }
}
