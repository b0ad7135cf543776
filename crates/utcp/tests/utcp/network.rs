//! Two hosts joined by two links that lose, reorder, double and damage packets.

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_datapath::{Config as DatapathConfig, Datapath};
use fairwater_lang::SignalSet;
use fairwater_net::{Capacity, Ecn, Limit, Link, LinkConfig, Packet, QueueConfig, Rate, Time};
use fairwater_proto::{Dialect, SignalQualities};
use fairwater_utcp::{Config, ConnectionId, Endpoint, EndpointConfig};
use fairwater_wire::{self as wire, EcnCodepoint, TcpFlags};

/// An IP packet on a link.
#[derive(Debug, Clone)]
pub(crate) struct Wire(pub(crate) Vec<u8>);

impl Packet for Wire {
    fn size_bytes(&self) -> u32 {
        self.0.len() as u32
    }

    fn ecn(&self) -> Ecn {
        match wire::Packet::parse_ip(&self.0).expect("sound").ecn() {
            EcnCodepoint::NotEct => Ecn::NotEct,
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        }
    }

    fn mark_ce(&mut self) {
        let layout = wire::Layout::of_ip(&self.0).expect("sound");
        let mut rewriter = wire::Rewriter::new(&mut self.0, layout, wire::Checksum::Complete);
        rewriter.set_ecn(EcnCodepoint::Ce);
    }
}

pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) datapath: Datapath,
}

impl Host {
    pub(crate) fn new(connection: Config, key: u8) -> Self {
        Self::of(EndpointConfig {
            connection,
            key: [key; 16],
            ..EndpointConfig::default()
        })
    }

    /// A host of so many connections at most.
    pub(crate) fn with_limit(max_connections: usize) -> Self {
        Self::of(EndpointConfig {
            max_connections,
            ..EndpointConfig::default()
        })
    }

    fn of(config: EndpointConfig) -> Self {
        let mut datapath = Datapath::new(DatapathConfig {
            signals: SignalQualities::exact(SignalSet::ALL),
            ..DatapathConfig::default()
        });
        let peer = datapath.add_peer(Dialect::Own, 0);
        Self {
            endpoint: Endpoint::new(config, peer),
            datapath,
        }
    }

    pub(crate) fn release(&mut self, id: ConnectionId) {
        self.endpoint.release(&mut self.datapath, id).unwrap();
    }
}

/// What happened to a packet between two hosts.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Time,
    pub(crate) from_client: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Seen {
    pub(crate) fn tcp(&self) -> wire::Tcp<'_> {
        let packet = wire::Packet::parse_ip(&self.bytes).expect("sound");
        packet.tcp().expect("TCP")
    }

    pub(crate) fn has(&self, flags: TcpFlags) -> bool {
        self.tcp().flags().contains(flags)
    }
}

/// What the links do beyond what their configuration says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Damage {
    /// One packet in so many is doubled, and one has a bit turned; 0 for none.
    pub(crate) doubled: u64,
    pub(crate) corrupted: u64,
}

pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) links: [Link<Wire>; 2],
    pub(crate) damage: Damage,
    random: u64,
    /// All packets that were sent, in order; those that the links lose are among them.
    pub(crate) seen: Vec<Seen>,
    pub(crate) keeps: bool,
}

pub(crate) const SERVER: &str = "192.0.2.1:80";
pub(crate) const CLIENT: &str = "192.0.2.2:40000";

pub(crate) fn server() -> SocketAddr {
    SERVER.parse().unwrap()
}

pub(crate) fn client() -> SocketAddr {
    CLIENT.parse().unwrap()
}

pub(crate) fn link(rate_bps: u64, one_way: Duration, packets: u32) -> LinkConfig {
    let rate = Rate::from_bps(rate_bps).unwrap();
    let limit = Limit::Packets(packets.into());
    LinkConfig::new(Capacity::Rate(rate), QueueConfig::DropTail(limit), one_way)
}

/// 50 Mbit/s, 5 ms each way, 60 packets of queue.
pub(crate) fn plain_link() -> LinkConfig {
    link(50_000_000, Duration::from_millis(5), 60)
}

impl Network {
    pub(crate) fn new(client: Config, server_config: Config, links: [&LinkConfig; 2]) -> Self {
        let mut server_host = Host::new(server_config, 2);
        server_host.endpoint.listen(server(), "cubic");
        Self {
            now: Time::from_millis(1),
            client: Host::new(client, 1),
            server: server_host,
            links: links.map(Link::new),
            damage: Damage::default(),
            random: 0x9e37_79b9,
            seen: Vec::new(),
            keeps: true,
        }
    }

    pub(crate) fn plain() -> Self {
        let link = plain_link();
        Self::new(Config::default(), Config::default(), [&link, &link])
    }

    fn random(&mut self) -> u64 {
        // xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Moves the time such that the client's initial sequence number will be `isn`.
    pub(crate) fn start_at_isn(&mut self, isn: u32) {
        let mut twin = Host::new(Config::default(), 1);
        let zero = Time::ZERO;
        twin.endpoint.connect(zero, client(), server(), "").unwrap();
        let mut packet = [0; 1500];
        let length = twin.endpoint.poll_transmit(zero, &mut packet).unwrap();
        let syn = wire::Packet::parse_ip(&packet[..length]).unwrap();
        let at_zero = syn.tcp().unwrap().seq().0;
        self.now = Time::from_nanos(u64::from(isn.wrapping_sub(at_zero)) << 12);
    }

    pub(crate) fn connect(&mut self) -> ConnectionId {
        let endpoint = &mut self.client.endpoint;
        endpoint
            .connect(self.now, client(), server(), "cubic")
            .unwrap()
    }

    /// Connects, and waits until both ends have the connection.
    pub(crate) fn open(&mut self) -> (ConnectionId, ConnectionId) {
        let near = self.connect();
        for _ in 0..1_000_000 {
            if let Some(far) = self.server.endpoint.accept() {
                return (near, far);
            }
            assert!(
                self.step(),
                "nothing more happens, and no connection is open"
            );
        }
        panic!("no connection was opened");
    }

    fn host(&mut self, is_client: bool) -> &mut Host {
        if is_client {
            &mut self.client
        } else {
            &mut self.server
        }
    }

    pub(crate) fn send_all(&mut self) {
        let mut packet = [0; 1500];
        for is_client in [true, false] {
            let now = self.now;
            while let Some(length) = self
                .host(is_client)
                .endpoint
                .poll_transmit(now, &mut packet)
            {
                let bytes = packet[..length].to_vec();
                if self.keeps {
                    let bytes = bytes.clone();
                    let from_client = is_client;
                    self.seen.push(Seen {
                        at: now,
                        from_client,
                        bytes,
                    });
                }
                self.carry(is_client, bytes);
            }
        }
    }

    fn carry(&mut self, from_client: bool, bytes: Vec<u8>) {
        let damage = self.damage;
        let strikes = |random: u64, one_in: u64| one_in > 0 && random.is_multiple_of(one_in);
        let twice = strikes(self.random(), damage.doubled);
        let link = &mut self.links[usize::from(!from_client)];
        link.enqueue(self.now, Wire(bytes.clone()));
        if twice {
            link.enqueue(self.now, Wire(bytes));
        }
        link.drain_dropped();
    }

    /// Delivers what arrives at a host by now.
    fn deliver(&mut self, to_client: bool) {
        let link = usize::from(to_client);
        while let Some(delivered) = self.links[link].poll(self.now) {
            let Wire(mut bytes) = delivered.packet;
            let damaged = self.damage.corrupted;
            let random = self.random();
            if damaged > 0 && random.is_multiple_of(damaged) {
                let bit = (random >> 20) as usize % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let now = self.now;
            let host = self.host(to_client);
            host.endpoint.on_packet(now, &mut host.datapath, &bytes);
        }
    }

    /// Goes to the next time at which something happens; false if nothing ever will.
    pub(crate) fn step(&mut self) -> bool {
        self.send_all();
        let hosts = [&self.client, &self.server];
        let timers = hosts.iter().filter_map(|host| host.endpoint.next_timeout());
        let links = self.links.iter().filter_map(Link::next_departure);
        let Some(next) = timers.chain(links).min() else {
            return false;
        };
        self.now = self.now.max(next);
        for is_client in [true, false] {
            self.deliver(is_client);
            let now = self.now;
            let host = self.host(is_client);
            host.endpoint.on_timer(now, &mut host.datapath);
        }
        self.send_all();
        true
    }

    /// Runs for so long.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next().is_some_and(|next| next <= end) {
            self.step();
        }
        self.now = end;
    }

    fn next(&mut self) -> Option<Time> {
        self.send_all();
        let hosts = [&self.client, &self.server];
        let timers = hosts.iter().filter_map(|host| host.endpoint.next_timeout());
        let links = self.links.iter().filter_map(Link::next_departure);
        timers.chain(links).min()
    }

    /// A packet of this test's own arrives at the client or the server.
    pub(crate) fn inject(&mut self, to_client: bool, bytes: &[u8]) {
        let now = self.now;
        let host = self.host(to_client);
        host.endpoint.on_packet(now, &mut host.datapath, bytes);
    }

    /// The last packet that was sent in a direction.
    pub(crate) fn last(&self, from_client: bool) -> &Seen {
        let mut packets = self.seen.iter().rev();
        packets
            .find(|seen| seen.from_client == from_client)
            .expect("none was sent")
    }
}

/// The byte of a stream at an offset.
pub(crate) fn byte_at(offset: u64, salt: u64) -> u8 {
    let mixed = (offset / 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (offset % 8))) as u8
}

/// Writes and reads one direction of a connection, and checks each byte.
pub(crate) struct Stream {
    pub(crate) salt: u64,
    pub(crate) length: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Most bytes of one read.
    pub(crate) chunk: usize,
}

impl Stream {
    pub(crate) fn new(length: u64, salt: u64) -> Self {
        Self {
            salt,
            length,
            written: 0,
            read: 0,
            chunk: 1 << 16,
        }
    }

    /// Writes as much as the sending host takes, and shuts down behind the last byte.
    pub(crate) fn write(&mut self, host: &mut Host, id: ConnectionId) {
        while self.written < self.length {
            let end = (self.written + 10_000).min(self.length);
            let bytes: Vec<u8> = (self.written..end)
                .map(|at| byte_at(at, self.salt))
                .collect();
            let taken = host.endpoint.write(id, &bytes).expect("open");
            self.written += taken as u64;
            if taken == 0 {
                return;
            }
            if self.written == self.length {
                host.endpoint.shutdown(id).expect("open");
            }
        }
    }

    /// Reads once.
    pub(crate) fn read(&mut self, host: &mut Host, id: ConnectionId) {
        let mut bytes = vec![0; self.chunk];
        let count = host.endpoint.read(id, &mut bytes).expect("known");
        for (byte, at) in bytes[..count].iter().zip(self.read..) {
            assert_eq!(*byte, byte_at(at, self.salt), "at offset {at}");
        }
        self.read += count as u64;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.read == self.length
    }
}

/// Sends so many bytes in both directions and checks each; returns how long that took.
pub(crate) fn exchange(network: &mut Network, forward: u64, reverse: u64) -> Duration {
    let begin = network.now;
    let (near, far) = network.open();
    let mut up = Stream::new(forward, 1);
    let mut down = Stream::new(reverse, 2);
    if forward == 0 {
        network.client.endpoint.shutdown(near).unwrap();
    }
    if reverse == 0 {
        network.server.endpoint.shutdown(far).unwrap();
    }
    for _ in 0..50_000_000 {
        up.write(&mut network.client, near);
        up.read(&mut network.server, far);
        down.write(&mut network.server, far);
        down.read(&mut network.client, near);
        let finished = |host: &Host, id| host.endpoint.connection(id).unwrap().is_read_finished();
        if finished(&network.client, near) && finished(&network.server, far) {
            assert!(
                up.is_done() && down.is_done(),
                "cut off: {} {}",
                up.read,
                down.read
            );
            return network.now.since(begin);
        }
        assert!(network.step(), "it hangs: {} {}", up.read, down.read);
    }
    panic!("it takes too long");
}
