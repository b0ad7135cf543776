//! Under an agent of libccp's dialect: what an agent says in bytes, and what it is told.

use fairwater_datapath::{Config, Datapath, FlowState, PeerId};
use fairwater_proto::{Dialect, FlowId, RefusalReason, ToDatapath, Update, Updates};

use crate::harness::{ack, config, info, tell};

const SILENCE_US: u64 = 100_000;
/// The slot of a probe.
const MAX_FLOWS: u32 = 1000;

struct Agent {
    datapath: Datapath,
    peer: PeerId,
    now_us: u64,
}

/// `(def (Report (x 0)) (step 1)) (when true (:= Report.x (+ Report.x step)) (:= Cwnd cwnd) (report))`
/// as portus lays it out.
fn program(cwnd: u32) -> Vec<u8> {
    const ADD: u8 = 0;
    const BIND: u8 = 1;
    const DEF: u8 = 2;
    const CONTROL: (u8, u32) = (0, 0);
    const X: (u8, u32) = (6, 0);
    const FLAG: (u8, u32) = (2, 0);
    const REPORT: (u8, u32) = (2, 2);
    const CWND: (u8, u32) = (2, 4);
    const TMP: (u8, u32) = (7, 0);
    let instructions = [
        (DEF, CONTROL, CONTROL, (1, 1)),
        (DEF, X, X, (1, 0)),
        (BIND, FLAG, FLAG, (1, 1)),
        (ADD, TMP, X, CONTROL),
        (BIND, X, X, TMP),
        (BIND, CWND, CWND, (1, cwnd)),
        (BIND, REPORT, REPORT, (1, 1)),
    ];
    let mut body = Vec::new();
    for word in [1, instructions.len() as u32, 2, 1, 3, 4] {
        body.extend(u32::to_le_bytes(word));
    }
    for (opcode, result, left, right) in instructions {
        body.push(opcode);
        for (kind, register) in [result, left, right] {
            body.push(kind);
            body.extend(register.to_le_bytes());
        }
    }
    body
}

impl Agent {
    fn new() -> Self {
        let mut datapath = Datapath::new(Config {
            silence_us: SILENCE_US,
            max_flows: MAX_FLOWS,
            ..config()
        });
        let peer = datapath.add_peer(Dialect::Ccp, 0);
        Self {
            datapath,
            peer,
            now_us: 0,
        }
    }

    fn send(&mut self, message: &ToDatapath<'_>) {
        let mut packet = Vec::new();
        Dialect::Ccp
            .encode_to_datapath(message, &mut packet)
            .unwrap();
        self.datapath.on_message(self.peer, &packet, self.now_us);
    }

    fn install(&mut self, number: u32, cwnd: u32) {
        let body = program(cwnd);
        self.send(&ToDatapath::Install {
            idle_restart: true,
            program: number,
            body: &body,
        });
    }

    /// With an opcode that libccp does not have.
    fn install_badly(&mut self) {
        let mut body = program(9);
        body[24] = 0xee;
        let refused = |agent: &Self| {
            let statistics = agent.datapath.statistics();
            statistics.refused(RefusalReason::BadProgram)
        };
        let before = refused(self);
        self.send(&ToDatapath::Install {
            idle_restart: true,
            program: 1,
            body: &body,
        });
        assert_eq!(refused(self), before + 1);
    }

    fn switch(&mut self, flow: FlowId, number: u32) {
        self.send(&ToDatapath::Command {
            flow,
            switch: Some(number),
            cwnd: None,
            rate: None,
            updates: Updates::NONE,
            withdraw: false,
        });
    }

    fn running() -> (Self, FlowId) {
        let mut agent = Self::new();
        agent.install(1, 50_000);
        let flow = agent.datapath.start(agent.peer, "reno", &info(1)).unwrap();
        assert_eq!(agent.drain(), ["hello libccp", "created 0.0 reno"]);
        agent.switch(flow, 1);
        (agent, flow)
    }

    /// Half the silence that is borne has passed, and the agent has been asked for a sign of life.
    fn probed() -> (Self, FlowId) {
        let (mut agent, flow) = Self::running();
        agent.ack(flow);
        agent.drain();
        agent.wait(SILENCE_US / 2);
        agent.drain();
        (agent, flow)
    }

    fn ack(&mut self, flow: FlowId) -> Option<u64> {
        self.now_us += 10;
        let controls = self.datapath.invoke(flow, &ack(self.now_us, 0)).unwrap();
        controls.map(|controls| controls.cwnd)
    }

    fn wait(&mut self, us: u64) {
        self.now_us += us;
        self.datapath.tick(self.now_us);
    }

    /// Each packet is one message.
    fn drain(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some((_, packet)) = self.datapath.poll_transmit(1024) {
            let messages: Vec<_> = Dialect::Ccp.to_plane(packet).collect();
            assert_eq!(messages.len(), 1);
            texts.push(tell(messages[0].as_ref().unwrap()));
        }
        texts
    }

    fn state(&self, flow: FlowId) -> FlowState {
        self.datapath.flow(flow).unwrap().state
    }
}

#[test]
fn a_program_of_portus_runs_and_its_control_register_is_updated() {
    let (mut agent, flow) = Agent::running();
    assert_eq!(agent.ack(flow), Some(50_000));
    agent.send(&ToDatapath::Command {
        flow,
        switch: None,
        cwnd: None,
        rate: None,
        updates: (&[Update {
            variable: 0,
            value: 10,
        }])
            .into(),
        withdraw: false,
    });
    assert_eq!(agent.ack(flow), None);
    assert_eq!(
        agent.drain(),
        ["reported 0.0 1 [1] cwnd=0", "reported 0.0 1 [11] cwnd=0"]
    );
    agent.datapath.close(flow).unwrap();
    assert_eq!(agent.drain(), ["closed 0.0"]);
}

#[test]
fn another_program_under_a_number_in_use_leaves_what_runs() {
    let (mut agent, flow) = Agent::running();
    agent.ack(flow);
    agent.install(2, 20_000);
    agent.install(1, 60_000);
    assert_eq!(agent.ack(flow), None);
    // What was installed before program 1 is gone, like an agent's former life.
    agent.switch(flow, 2);
    let refused = |agent: &Agent, reason| agent.datapath.statistics().refused(reason);
    assert_eq!(refused(&agent, RefusalReason::UnknownProgram), 1);
    agent.switch(flow, 1);
    assert_eq!(agent.ack(flow), Some(60_000));
    // Installing the same again takes nothing away.
    agent.install(2, 20_000);
    agent.install(1, 60_000);
    agent.switch(flow, 2);
    assert_eq!(agent.ack(flow), Some(20_000));
}

#[test]
fn the_generation_tells_tenants_of_a_slot_apart() {
    let (mut agent, flow) = Agent::running();
    agent.datapath.close(flow).unwrap();
    let next = agent.datapath.start(agent.peer, "reno", &info(2)).unwrap();
    assert_eq!(next.slot, flow.slot);
    agent.drain();
    agent.switch(flow, 1);
    agent.ack(next);
    assert_eq!(agent.state(next), FlowState::Waiting);
    agent.switch(next, 1);
    agent.ack(next);
    assert_eq!(agent.state(next), FlowState::Running);
}

#[test]
fn an_agent_that_owes_nothing_is_not_silent() {
    let (mut agent, flow) = Agent::running();
    agent.wait(100 * SILENCE_US);
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Running);
}

#[test]
fn an_agent_that_answers_a_probe_keeps_its_flows() {
    let (mut agent, flow) = Agent::running();
    agent.ack(flow);
    agent.drain();
    for round in 1..5 {
        agent.wait(SILENCE_US / 2);
        let probe = format!("created {MAX_FLOWS}.{round} ");
        assert_eq!(agent.drain(), [probe]);
        agent.switch(
            FlowId {
                slot: MAX_FLOWS,
                generation: round,
            },
            1,
        );
        assert_eq!(agent.drain(), [format!("closed {MAX_FLOWS}.{round}")]);
        agent.ack(flow);
        assert_eq!(agent.drain().len(), 1);
        assert_eq!(agent.state(flow), FlowState::Running);
    }
    assert_eq!(agent.datapath.statistics().refused_total(), 0);
}

#[test]
fn an_agent_that_restarted_is_found_out_by_the_probe_and_told_of_its_flows() {
    let (mut agent, flow) = Agent::probed();
    // It does not know the datapath: it installs its programs, then answers.
    agent.install(1, 70_000);
    assert_eq!(
        agent.drain(),
        [
            format!("closed {MAX_FLOWS}.1"),
            "created 0.0 reno".to_owned()
        ]
    );
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Waiting);
    agent.switch(flow, 1);
    assert_eq!(agent.ack(flow), Some(70_000));
    assert_eq!(agent.datapath.statistics().restarts, 1);
}

#[test]
fn an_agent_that_answers_nothing_is_silent_until_it_speaks() {
    let (mut agent, flow) = Agent::probed();
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Running);
    agent.drain();
    agent.wait(SILENCE_US / 2);
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Silent);
    for _ in 0..3 {
        assert_eq!(agent.drain(), ["hello libccp"]);
        agent.wait(SILENCE_US);
    }
    agent.drain();
    agent.install(1, 50_000);
    assert_eq!(agent.drain(), ["created 0.0 reno"]);
    agent.switch(flow, 1);
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Running);
}

#[test]
fn an_install_that_is_refused_is_no_sign_of_a_restart_nor_of_life() {
    let (mut agent, flow) = Agent::probed();
    agent.install_badly();
    assert_eq!(agent.drain(), Vec::<String>::new());
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Running);
    assert_eq!(agent.datapath.statistics().restarts, 0);
    agent.drain();

    agent.wait(SILENCE_US / 2);
    assert_eq!(agent.drain(), ["hello libccp"]);
    agent.install_badly();
    assert_eq!(agent.drain(), Vec::<String>::new());
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Silent);
}

#[test]
fn an_install_that_is_refused_does_not_hide_the_restart_that_the_next_shows() {
    let (mut agent, flow) = Agent::probed();
    agent.install_badly();
    agent.install(1, 70_000);
    assert_eq!(agent.datapath.statistics().restarts, 1);
    agent.ack(flow);
    assert_eq!(agent.state(flow), FlowState::Waiting);
}

#[test]
fn truncated_and_extreme_messages_change_nothing() {
    let (mut agent, flow) = Agent::running();
    agent.ack(flow);
    let body = program(9);
    let mut packets = Vec::new();
    for message in [
        ToDatapath::Install {
            idle_restart: true,
            program: 7,
            body: &body,
        },
        ToDatapath::Command {
            flow,
            switch: Some(1),
            cwnd: Some(9),
            rate: Some(9),
            updates: (&[Update {
                variable: 0,
                value: 9,
            }])
                .into(),
            withdraw: false,
        },
    ] {
        let mut packet = Vec::new();
        Dialect::Ccp
            .encode_to_datapath(&message, &mut packet)
            .unwrap();
        packets.push(packet);
    }
    let before = format!("{:?}", agent.datapath.flow(flow));
    let installs = agent.datapath.statistics().installs;
    for packet in &packets {
        for end in 1..packet.len() {
            agent
                .datapath
                .on_message(agent.peer, &packet[..end], agent.now_us);
            // The same, with a length that agrees.
            if let Some(end) = u16::try_from(end).ok().filter(|end| *end >= 8) {
                let mut shortened = packet[..usize::from(end)].to_vec();
                shortened[2..4].copy_from_slice(&end.to_le_bytes());
                agent
                    .datapath
                    .on_message(agent.peer, &shortened, agent.now_us);
            }
        }
        // Counts and indices at their extremes, one word at a time.
        for at in (8..packet.len() - 4).step_by(4).take(6) {
            for extreme in [0xff, 0x7f] {
                let mut wrong = packet.clone();
                wrong[at..at + 4].fill(extreme);
                wrong[4..8].fill(extreme);
                agent.datapath.on_message(agent.peer, &wrong, agent.now_us);
            }
        }
    }
    assert_eq!(format!("{:?}", agent.datapath.flow(flow)), before);
    assert!(agent.datapath.statistics().refused_total() > 100);
    let statistics = agent.datapath.statistics();
    // A number at its extreme is a number: such an Install is one.
    assert!(statistics.installs - installs <= 2);
    assert!(matches!(agent.state(flow), FlowState::Running));
}
