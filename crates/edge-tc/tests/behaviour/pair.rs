//! The box in Rust and the programs in the kernel, over the same packets.

use std::cell::RefMut;
use std::sync::Arc;

use fairwater_edge::{Direction, Fate, FlowKey, Policy, PortPacket, Treatment, Verdict};
use fairwater_edge_tc::{Control, Fate as KernelFate, Rule};
use fairwater_lang::Program;
use fairwater_net::Time;
use fairwater_wire::Checksum;

use crate::kernel::Kernel;
use crate::plane::Box;

/// Guests' ports from here on are controlled.
pub(crate) const CONTROLLED_PORTS: u16 = 30_000;

/// Both.
pub(crate) struct Pair<'a> {
    pub(crate) reference: Box,
    pub(crate) kernel: RefMut<'a, Kernel>,
    variables: usize,
}

impl<'a> Pair<'a> {
    /// Both without connections.
    pub(crate) fn new(
        program: &Program,
        treatment: &Treatment,
        mut kernel: RefMut<'a, Kernel>,
    ) -> Self {
        let rule = Rule {
            guest_ports: CONTROLLED_PORTS..=u16::MAX,
            action: Some(Control {
                algorithm: 0,
                ecn: treatment.ecn,
                police: treatment.police,
                max_scale: treatment.max_scale,
            }),
            ..Rule::default()
        };
        let treatment = Treatment {
            algorithm: Arc::from(""),
            ..treatment.clone()
        };
        let policy: Policy = std::boxed::Box::new(move |key: &FlowKey| {
            (key.guest.port() >= CONTROLLED_PORTS).then(|| treatment.clone())
        });
        kernel.begin(&[rule]);
        Self {
            reference: Box::with_policy(program, policy),
            kernel,
            variables: program.variables.len(),
        }
    }

    /// The planes speak no more.
    pub(crate) fn silence(&mut self) {
        self.reference.is_alive = false;
        self.kernel.is_alive = false;
    }

    /// Time passes without a packet.
    pub(crate) fn wait(&mut self, now: Time) {
        self.reference.now = now;
        self.reference.serve();
        self.kernel.serve(now.as_nanos());
    }

    /// A frame passes both; as it leaves both, or where they differ.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        direction: Direction,
        frame: &[u8],
        keys: &[FlowKey],
    ) -> Result<Option<Vec<u8>>, String> {
        self.reference.now = now;
        let mut bytes = frame.to_vec();
        let verdict = self.reference.edge.on_packet(
            now,
            PortPacket {
                interface: 1,
                direction,
                bytes: &mut bytes,
                is_ethernet: true,
                checksum: Checksum::Complete,
            },
        );
        self.reference.serve();
        let got = self.kernel.pass(now.as_nanos(), direction, frame);
        if got.0 != verdict {
            return Err(format!("verdict {:?}, not {verdict:?}", got.0));
        }
        if got.1 != bytes {
            let at = got.1.iter().zip(&bytes).position(|(a, b)| a != b);
            return Err(format!(
                "bytes differ at {at:?}: {:02x?}, not {bytes:02x?}",
                got.1
            ));
        }
        for key in keys {
            self.compare(key)?;
        }
        let statistics = self.kernel.statistics();
        if statistics != *self.reference.edge.statistics() {
            let expected = self.reference.edge.statistics();
            return Err(format!("{statistics:?}, not {expected:?}"));
        }
        Ok((verdict == Verdict::Pass).then_some(bytes))
    }

    /// Whether both know the same of a connection.
    fn compare(&self, key: &FlowKey) -> Result<(), String> {
        let table = self.reference.edge.connections();
        let expected = table.find(key).and_then(|id| table.get(id));
        let got = self.kernel.programs.connection(key).unwrap();
        let (Some((_, flow, fate)), Some(connection)) = (expected, got) else {
            if expected.is_some() != got.is_some() {
                return Err(format!("{got:?}, not {expected:?}"));
            }
            return Ok(());
        };
        let differs = |what: &str, got: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            Err(format!("{what} {got:?}, not {expected:?}"))
        };
        let sender = flow.sender();
        let expected = (sender.una(), sender.nxt(), sender.mss());
        let got = (connection.una, connection.nxt, connection.mss);
        if got != expected {
            return differs("una, nxt, mss", &got, &expected);
        }
        match (connection.fate, fate) {
            (KernelFate::Passed, Fate::Passed) => Ok(()),
            (KernelFate::Exempt(got), Fate::Exempt(expected)) if got == *expected => Ok(()),
            (KernelFate::Controlled(slot), Fate::Controlled(expected)) => {
                let (_, got) = self.kernel.programs.controlled(slot).unwrap().unwrap();
                if got.limit != expected.limit() {
                    return differs("limit", &got.limit, &expected.limit());
                }
                if got.translates_ecn != expected.translates_ecn() {
                    return differs("translation", &got.translates_ecn, &());
                }
                if got.srtt_us != sender.srtt_us() {
                    return differs("SRTT", &got.srtt_us, &sender.srtt_us());
                }
                let status = self.reference.edge.datapath().flow(expected.flow());
                let status = status.ok_or("no flow")?;
                if status.program.is_none() {
                    return Ok(());
                }
                let got = self.kernel.variables(slot, self.variables);
                if got != status.variables {
                    return differs("variables", &got, &status.variables);
                }
                Ok(())
            }
            (got, expected) => differs("fate", &got, expected),
        }
    }
}
