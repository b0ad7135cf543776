//! A sender alone, whose ACKs are written by hand.

use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_sim::native::NativeController;
use fairwater_tcp::{Block, Invocation, Segment, Sender, TcpConfig};

pub(crate) const MSS: u64 = 1_000;

pub(crate) struct Script {
    pub(crate) sender: Sender,
    controller: NativeController,
    pub(crate) now: Time,
}

/// What an ACK says besides the offset, in segments of [`MSS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Says<'a> {
    pub(crate) sack: &'a [(u64, u64)],
    pub(crate) ece: bool,
    pub(crate) echo: Option<Time>,
}

pub(crate) fn config() -> TcpConfig {
    TcpConfig {
        mss: MSS as u32,
        handshake: false,
        ..TcpConfig::default()
    }
}

impl Script {
    /// With more to send than any test takes.
    pub(crate) fn new(config: &TcpConfig, native: Native) -> Self {
        let mut sender = Sender::new(config, Time::ZERO);
        sender.write(1 << 40);
        Self {
            sender,
            controller: NativeController::new(native, config),
            now: Time::ZERO,
        }
    }

    /// What is sent now: first segments' numbers.
    pub(crate) fn send(&mut self) -> Vec<u64> {
        self.segments().iter().map(|s| s.seq / MSS).collect()
    }

    pub(crate) fn segments(&mut self) -> Vec<Segment> {
        std::iter::from_fn(|| self.sender.poll_transmit(self.now)).collect()
    }

    /// An ACK of everything before segment `ack`; what follows from it.
    pub(crate) fn ack(&mut self, ack: u64, says: &Says<'_>) -> (Option<Invocation>, Vec<u64>) {
        let segment = Segment {
            ack: ack * MSS,
            sack: says
                .sack
                .iter()
                .map(|&(start, end)| Block {
                    start: start * MSS,
                    end: end * MSS,
                })
                .collect(),
            window: 1 << 24,
            ece: says.ece,
            timestamp: says.echo.unwrap_or(self.now),
            ..Segment::default()
        };
        self.sender.on_segment(self.now, &segment);
        let invocation = self.answer();
        (invocation, self.send())
    }

    pub(crate) fn answer(&mut self) -> Option<Invocation> {
        let invocation = self.sender.poll_invocation();
        if let Some(invocation) = &invocation {
            let controls = self.controller.on_invocation(invocation);
            self.sender.set_controls(controls);
        }
        assert_eq!(self.sender.in_flight(), self.sender.recount_in_flight());
        invocation
    }

    pub(crate) fn sack(&mut self, ack: u64, start: u64, end: u64) -> Vec<u64> {
        self.ack(
            ack,
            &Says {
                sack: &[(start, end)],
                ..Says::default()
            },
        )
        .1
    }

    /// Time passes up to the next timer, which is done; what is sent then.
    pub(crate) fn timer(&mut self) -> (Option<Invocation>, Vec<u64>) {
        self.now = self.sender.next_timer().expect("a timer");
        self.sender.on_timer(self.now);
        let invocation = self.answer();
        (invocation, self.send())
    }

    pub(crate) fn cwnd(&self) -> u64 {
        self.sender.controls().cwnd / MSS
    }
}
