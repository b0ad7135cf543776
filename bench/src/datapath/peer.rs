//! libccp, through its own crate, under an agent that only chooses a program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libccp::{
    CongestionOps, Connection, Datapath, DatapathBuilder, DatapathOps, FlowInfo, Primitives,
};
use portus::serialize::{changeprog, install, serialize};

/// How often libccp reads the clock in an invocation: for its fallback and for `Micros`.
pub(crate) const CLOCK_READS: f64 = 2.0;

const PROGRAM: u32 = 7;

/// A datapath with a program installed.
pub(crate) struct Agent {
    datapath: Datapath,
    sent: Arc<Sent>,
    instructions: usize,
}

/// What libccp has sent.
#[derive(Default)]
struct Sent {
    messages: AtomicU64,
    /// The flow that the first message of all was about.
    flow: AtomicU32,
}

struct Sink(Arc<Sent>);

impl DatapathOps for Sink {
    fn send_msg(&mut self, message: &[u8]) {
        self.0.messages.fetch_add(1, Ordering::Relaxed);
        if let (0, Some(sid)) = (self.0.flow.load(Ordering::Relaxed), message.get(4..8)) {
            let sid = sid.try_into().map_or(0, u32::from_le_bytes);
            self.0.flow.store(sid, Ordering::Relaxed);
        }
    }
}

/// What libccp told the transport to enforce.
pub(crate) struct Enforced {
    cwnd: u32,
    rate: u32,
}

impl CongestionOps for Enforced {
    fn set_cwnd(&mut self, cwnd: u32) {
        self.cwnd = cwnd;
    }
    fn set_rate_abs(&mut self, rate: u32) {
        self.rate = rate;
    }
}

/// One flow of libccp's, under the program.
pub(crate) struct Peer<'a> {
    connection: Connection<'a, Enforced>,
    agent: &'a Agent,
}

impl Agent {
    pub(crate) fn new(source: &str) -> anyhow::Result<Self> {
        let sent = Arc::<Sent>::default();
        let datapath = DatapathBuilder::default()
            .with_ops(Sink(Arc::clone(&sent)))
            .with_id(1)
            .init()
            .map_err(|error| anyhow::anyhow!("libccp: {error:?}"))?;
        let (program, _) = portus::lang::compile(source.as_bytes(), &[])?;
        let instructions = program.instrs.len();
        let agent = Self {
            datapath,
            sent,
            instructions,
        };
        agent.tell(&install::Msg {
            sid: 0,
            program_uid: PROGRAM,
            num_events: u32::try_from(program.events.len())?,
            num_instrs: u32::try_from(instructions)?,
            instrs: program,
        })?;
        Ok(agent)
    }

    fn tell(&self, message: &impl portus::serialize::AsRawMsg) -> anyhow::Result<()> {
        let mut packet =
            serialize(message).map_err(|error| anyhow::anyhow!("portus: {error:?}"))?;
        self.datapath
            .recv_msg(&mut packet)
            .map_err(|error| anyhow::anyhow!("libccp: {error:?}"))
    }

    /// A flow under the program.
    pub(crate) fn connect(&self) -> anyhow::Result<Peer<'_>> {
        let start = Enforced {
            cwnd: 14480,
            rate: 0,
        };
        let info = FlowInfo::default().with_init_cwnd(14480).with_mss(1448);
        let connection = Connection::start(&self.datapath, start, info)
            .map_err(|error| anyhow::anyhow!("libccp: {error:?}"))?;
        self.tell(&changeprog::Msg {
            // libccp's crate leaves its table as the allocator gave it: any slot may be the first.
            sid: self.sent.flow.load(Ordering::Relaxed),
            program_uid: PROGRAM,
            num_fields: 0,
            fields: Vec::new(),
        })?;
        self.sent.messages.store(0, Ordering::Relaxed);
        let mut peer = Peer {
            connection,
            agent: self,
        };
        peer.checked(&super::acks()[0])?;
        Ok(peer)
    }

    /// How many instructions portus makes of the program.
    pub(crate) const fn instructions(&self) -> usize {
        self.instructions
    }
}

impl Peer<'_> {
    /// What a transport does at an ACK: fill in the primitives, run the program. libccp calls
    /// back with cwnd, rate and messages.
    #[inline]
    pub(crate) fn invoke(&mut self, ack: &super::Ack) {
        let _ = self.checked(ack);
    }

    #[inline]
    fn checked(&mut self, ack: &super::Ack) -> anyhow::Result<()> {
        let primitives = Primitives::default()
            .with_bytes_acked(ack.bytes_acked)
            .with_packets_acked(ack.packets_acked)
            .with_lost_pkts_sample(ack.lost_packets)
            .with_rtt_sample_us(ack.rtt_us)
            .with_rate_incoming(ack.rate_incoming)
            .with_rate_outgoing(ack.rate_outgoing)
            .with_packets_in_flight(ack.packets_in_flight)
            .with_snd_cwnd(self.connection.cwnd)
            .with_snd_rate(self.connection.rate.into());
        self.connection.load_primitives(primitives);
        self.connection
            .invoke()
            .map_err(|error| anyhow::anyhow!("libccp: {error:?}"))
    }

    /// Messages that left.
    pub(crate) fn reports(&self) -> u64 {
        self.agent.sent.messages.load(Ordering::Relaxed)
    }
}
