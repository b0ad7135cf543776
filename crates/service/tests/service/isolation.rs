//! What dead, slow and flooding peers of a server keep from the others: nothing.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use fairwater_datapath::Connection;
use fairwater_proto::link::{Link, LinkError, MAX_PACKET, datagram, seqpacket};
use fairwater_proto::{Dialect, ToDatapath};
use fairwater_service::Server;

use crate::server::{Sender, config, server};
use crate::support::{bytes, created, hello, id, reported};

/// Slots that a flood uses over and over.
const SLOTS: u32 = 1000;

/// Starts flows and sends reports of no program as fast as its link takes them, and reads none of
/// the answers.
struct Flood {
    link: Box<dyn Link>,
    flows: u32,
}

impl Flood {
    fn new(mut link: impl Link + 'static) -> Self {
        link.send(&bytes(&hello(1))).unwrap();
        Self {
            link: Box::new(link),
            flows: 0,
        }
    }

    fn pour(&mut self) {
        for _ in 0..300 {
            let mut packet = Vec::new();
            for flow in self.flows..self.flows + 8 {
                let flow = id(flow % SLOTS, flow / SLOTS);
                packet.extend(bytes(&created(flow, "echo")));
                packet.extend(bytes(&reported(flow, 0, &[1])));
            }
            match self.link.send(&packet) {
                Ok(()) => self.flows += 8,
                Err(LinkError::WouldBlock) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads what waits, and returns how many packets that was.
    fn read(&mut self) -> usize {
        let mut buffer = vec![0; MAX_PACKET];
        std::iter::from_fn(|| self.link.receive(&mut buffer).ok()).count()
    }
}

/// Peers that start a flow and are dead before they are answered.
fn die(directory: &Path, round: u64) {
    let last_words = [bytes(&hello(1)), bytes(&created(id(0, 1), "echo"))].concat();
    let mut link = seqpacket::Connection::connect(directory.join("seqpacket")).unwrap();
    link.send(&last_words).unwrap();
    // Its path stays, as it does when a process is killed.
    let socket = UnixDatagram::bind(directory.join(format!("dead{round}"))).unwrap();
    socket.set_nonblocking(true).unwrap();
    // A flood may have taken the last place in the agent's queue: then it dies unheard.
    let _ = socket.send_to(&last_words, directory.join("ccp"));
}

#[test]
fn dead_slow_and_flooding_peers_keep_no_answer_from_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut server = server(directory, 1);
    let at = |name: &str| directory.join(name);
    let (seqpacket, agent) = (at("seqpacket"), at("ccp"));
    let mut floods = [
        Flood::new(seqpacket::Connection::connect(&seqpacket).unwrap()),
        Flood::new(datagram::Datapath::bind(at("flood"), &agent).unwrap()),
    ];
    let own = at("well");
    let datagrams = Connection::new(config("two"), Dialect::Own, 0, move || {
        let link: Box<dyn Link> = Box::new(datagram::Datapath::bind(&own, &agent)?);
        Ok(link)
    });
    let mut well = [
        Sender::new(Connection::seqpacket(config("one"), &seqpacket, 0), 30_011),
        Sender::new(datagrams, 30_011),
    ];
    let mut now_us = 0;
    for round in 0..20 {
        for sender in &mut well {
            sender.begin_again(30_011 + round, now_us);
        }
        die(directory, round);
        let mut turns = 0;
        while !well.iter().all(Sender::is_controlled) {
            // A report and its answer need two turns; a queue of 512 datagrams needs eight.
            assert!(
                turns < 200,
                "round {round}: {:?}",
                server.service().statistics()
            );
            turns += 1;
            now_us += 100;
            well.iter_mut().for_each(|sender| sender.step(now_us));
            floods.iter_mut().for_each(Flood::pour);
            server.turn(Duration::ZERO).unwrap();
        }
    }
    for flood in &mut floods {
        assert!(was_full(flood, &mut server));
    }
}

/// Whether answers waited for the flood to read others.
fn was_full(flood: &mut Flood, server: &mut Server) -> bool {
    let waited = flood.read();
    let start = Instant::now();
    // A link that was full for long is tried again after a while.
    while start.elapsed() < Duration::from_secs(10) {
        server.turn(Duration::from_millis(1)).unwrap();
        if flood.read() > 0 {
            return waited > 0;
        }
    }
    false
}

/// Their answers all come from the plane's one socket, which the kernel charges them to.
#[test]
fn connected_datagram_peers_that_do_not_read_keep_no_answer_from_others() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut server = server(directory, 1);
    let connect = |name: &str| {
        let socket = UnixDatagram::bind(directory.join(name)).unwrap();
        socket.connect(directory.join("ccp")).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let stuck: Vec<_> = (0..12).map(|i| connect(&format!("stuck{i}"))).collect();
    let reader = connect("reader");
    let mut buffer = vec![0; MAX_PACKET];
    for round in 0..1_000 {
        // Each flow is answered with commands of its own, so that none are merged.
        let flow = id(round % 64, round / 64);
        let packet = [bytes(&hello(1)), bytes(&created(flow, "echo"))].concat();
        for socket in &stuck {
            socket.send(&packet).unwrap();
            server.turn(Duration::ZERO).unwrap();
        }
        reader.send(&packet).unwrap();
        let mut is_answered = false;
        for _ in 0..20 {
            server.turn(Duration::ZERO).unwrap();
            while let Ok(length) = reader.recv(&mut buffer) {
                let messages = Dialect::Own.to_datapath(&buffer[..length]);
                is_answered |= messages.flatten().any(
                    |message| matches!(message, ToDatapath::Command { flow: of, .. } if of == flow),
                );
            }
            if is_answered {
                break;
            }
        }
        assert!(
            is_answered,
            "round {round}: {:?}",
            server.service().statistics()
        );
    }
}
