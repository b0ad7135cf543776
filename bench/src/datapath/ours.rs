//! Our datapath, as a transport runs it.

use std::net::SocketAddr;

use anyhow::Context;
use fairwater_datapath::{Config, Controls, Datapath, FlowState};
use fairwater_lang::{Signal, Signals, binary, compile};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, Updates, Welcome};

/// One flow of a datapath, under a program.
pub(crate) struct Ours {
    datapath: Datapath,
    flow: FlowId,
    signals: Signals,
    acks: u64,
    enforced: Controls,
    reports: u64,
}

impl Ours {
    /// ACKs in 2 µs: somewhat fewer than libccp takes, so ours reports no less often.
    const ACKS_IN_2_US: u64 = 5;

    pub(crate) fn new(source: &str) -> anyhow::Result<Self> {
        let program = compile("benchmark", source)
            .map_err(|errors| anyhow::anyhow!("{}", errors.render(false)))?
            .program;
        // The plane says nothing during a run.
        let config = Config {
            silence_us: u64::MAX / 4,
            ..Config::default()
        };
        let mut datapath = Datapath::new(config);
        let peer = datapath.add_peer(Dialect::Own, 0);
        let info = FlowInfo {
            local: SocketAddr::from(([192, 0, 2, 1], 1000)),
            remote: SocketAddr::from(([192, 0, 2, 2], 443)),
            mss: 1448,
            cwnd: 14480,
            srtt_us: 0,
            now_us: 0,
            tag: 0,
            ..FlowInfo::default()
        };
        let flow = datapath.start(peer, "", &info)?;
        // A plane may command what it has been told of.
        while datapath.poll_transmit(65_536).is_some() {}
        let body = binary::encode(&program);
        let messages = [
            ToDatapath::Welcome(Welcome {
                instance: 1,
                alive_us: 1_000_000,
            }),
            ToDatapath::Install {
                idle_restart: true,
                program: 1,
                body: &body,
            },
            ToDatapath::Command {
                flow,
                switch: Some(1),
                cwnd: None,
                rate: None,
                updates: Updates::NONE,
                withdraw: false,
            },
        ];
        let mut packet = Vec::new();
        for message in &messages {
            Dialect::Own.encode_to_datapath(message, &mut packet)?;
        }
        datapath.on_message(peer, &packet, 0);
        let mut ours = Self {
            datapath,
            flow,
            signals: Signals::default(),
            acks: 0,
            enforced: Controls {
                cwnd: info.cwnd,
                rate: 0,
            },
            reports: 0,
        };
        ours.invoke(&super::acks()[0]);
        let view = ours.datapath.flow(flow).context("the flow is gone")?;
        anyhow::ensure!(view.state == FlowState::Running, "it is {:?}", view.state);
        anyhow::ensure!(
            ours.datapath.statistics().not_native == 0,
            "it is interpreted"
        );
        Ok(ours)
    }

    /// What a transport does at an ACK: fill in the signals, run the program, enforce what
    /// changed, send what is to be sent.
    #[inline]
    pub(crate) fn invoke(&mut self, ack: &super::Ack) {
        self.acks += 1;
        for (signal, value) in [
            (Signal::Now, 2 * self.acks / Self::ACKS_IN_2_US),
            (Signal::BytesAcked, ack.bytes_acked.into()),
            (Signal::PacketsAcked, ack.packets_acked.into()),
            (Signal::LostPkts, ack.lost_packets.into()),
            (Signal::RttSampleUs, ack.rtt_us),
            (Signal::RateIncoming, ack.rate_incoming),
            (Signal::RateOutgoing, ack.rate_outgoing),
            (Signal::PacketsInFlight, ack.packets_in_flight.into()),
        ] {
            self.signals[signal] = value;
        }
        if let Ok(Some(controls)) = self.datapath.invoke(self.flow, &self.signals) {
            self.enforced = controls;
        }
        while let Some((_, packet)) = self.datapath.poll_transmit(65_536) {
            self.reports += u64::from(!packet.is_empty());
        }
    }

    /// Packets that left with reports in them.
    pub(crate) const fn reports(&self) -> u64 {
        self.reports
    }
}
