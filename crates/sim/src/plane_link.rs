//! The plane and the datapaths: one service, a datapath on each sending host, and packets between them that take time.
//! The code is what runs in reality; only the clock and the links are simulated.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fairwater_bundle::{SendBundleConfig, Sendbox};
use fairwater_datapath::{
    Backend, Controls, Datapath, FlowState, InvocationObserver, PeerId, Signals, StartError,
    UnknownFlow,
};
use fairwater_edge::buffer::{BufferStatistics, Outgoing};
use fairwater_edge::track::TableConfig;
use fairwater_edge::{Edge, EdgeStatistics, Fate, FlowKey, Mode, PortPacket, Treatment, Verdict};
use fairwater_net::Time;
use fairwater_plane::{Capabilities, CarefulResumeStatus, Plane, SignalQualities, SignalSet};
use fairwater_proto::{Dialect, FlowId, FlowInfo, ToDatapath, Updates};
use fairwater_service::{self, HandOverError, Service, ServiceNotice};

use crate::PlaneConfig;
use crate::sendboxes::Carried;

/// Where a datapath is: an index of the hosts that have one.
pub(crate) type Host = u32;

/// A message is not cut: a packet has what was to be sent at one moment.
const MAX_PACKET: usize = 1 << 16;

/// How often boxes look for connections that have ended: it takes time in their number.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// Interval of divisions and selections before a box has measured an RTT, and the least one.
const MIN_INTERVAL: Duration = Duration::from_micros(10);

/// A plane, the datapaths, and the packets between them.
#[derive(Debug)]
pub(crate) struct PlaneLink {
    service: Service,
    hosts: Vec<DatapathHost>,
    delay: Duration,
    /// At least 1.
    period_ns: u64,
    outages: Vec<(Time, Time)>,
    heartbeat: Duration,
    /// When boxes next forget connections that have ended.
    expires_at: Time,
    to_plane: Transit,
    to_datapaths: Transit,
    notices: Vec<(Time, String)>,
}

/// The datapath of one host, and its peer at the service.
#[derive(Debug)]
struct DatapathHost {
    datapath: HostDatapath,
    /// When the box next divides windows by weight; `None` if no flow has a weight.
    divides_at: Option<Time>,
    /// When the box next asks its selectors; `None` if no flow has one.
    selects_at: Option<Time>,
    /// Times that selectors asked for another algorithm.
    switches: u64,
    plane: PeerId,
    peer: fairwater_service::PeerId,
}

/// Whose flows a host's datapath controls.
#[derive(Debug)]
enum HostDatapath {
    /// Those of the host's own senders.
    Senders(Box<Datapath>),
    /// Those of guests, from the packets that pass the box at the host's edge.
    Guests(Box<Edge>),
    /// That of a bundle.
    Bundle(Box<Sendbox<Carried>>),
}

impl HostDatapath {
    #[inline]
    fn get(&self) -> &Datapath {
        match self {
            Self::Senders(datapath) => datapath,
            Self::Guests(edge) => edge.datapath(),
            Self::Bundle(sendbox) => sendbox.datapath(),
        }
    }

    #[inline]
    fn get_mut(&mut self) -> &mut Datapath {
        match self {
            Self::Senders(datapath) => datapath,
            Self::Guests(edge) => edge.datapath_mut(),
            Self::Bundle(sendbox) => sendbox.datapath_mut(),
        }
    }
}

/// Packets in transit, in the order in which they were sent and will arrive.
#[derive(Debug, Default)]
struct Transit {
    packets: VecDeque<Packet>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Packet {
    arrives: Time,
    host: Host,
    bytes: Vec<u8>,
}

impl Transit {
    fn send(&mut self, arrives: Time, host: Host, bytes: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.packets.push_back(Packet {
            arrives,
            host,
            bytes: buffer,
        });
    }

    fn next(&self) -> Option<Time> {
        self.packets.front().map(|packet| packet.arrives)
    }

    fn take(&mut self, now: Time) -> Option<Packet> {
        (self.next()? <= now).then(|| self.packets.pop_front())?
    }

    fn keep(&mut self, packet: Packet) {
        self.spare.push(packet.bytes);
    }
}

/// What the datapath of a simulated host is.
fn datapath_config() -> fairwater_datapath::Config {
    fairwater_datapath::Config {
        signals: SignalQualities::exact(SignalSet::ALL),
        instance: 1,
        // Compiling takes longer than many a simulation.
        backend: Backend::Interpreter,
        ..fairwater_datapath::Config::default()
    }
}

/// What the datapaths of simulated hosts have and can do.
#[must_use]
pub fn capabilities() -> Capabilities {
    datapath_config().capabilities()
}

impl PlaneLink {
    pub(crate) fn new(plane: Plane, config: &PlaneConfig) -> Self {
        let interval = config.silence / 10;
        let service = fairwater_service::Config {
            alive_us: u32::try_from(interval.as_micros())
                .unwrap_or(u32::MAX)
                .max(1),
            max_peers: u32::MAX,
            max_flows: fairwater_plane::MAX_FLOWS,
            ..fairwater_service::Config::default()
        };
        Self {
            service: Service::new(plane, service),
            hosts: Vec::new(),
            delay: config.delay,
            period_ns: (Time::ZERO + config.period).as_nanos().max(1),
            outages: config.outages.clone(),
            heartbeat: interval / 2,
            expires_at: Time::ZERO + EXPIRY_INTERVAL,
            to_plane: Transit::default(),
            to_datapaths: Transit::default(),
            notices: Vec::new(),
        }
    }

    /// Another host with a datapath; `None` when there are too many.
    pub(crate) fn add_host(&mut self, name: &str, silence: Duration) -> Option<Host> {
        let mut datapath = Datapath::new(fairwater_datapath::Config {
            name: name.to_owned(),
            silence_us: micros(Time::ZERO + silence),
            ..datapath_config()
        });
        let plane = datapath.add_peer(Dialect::Own, 0);
        self.join(HostDatapath::Senders(Box::new(datapath)), plane)
    }

    /// Another box at a host's edge, which does with the guests' connections as `treatments` say by their interface;
    /// `None` when there are too many datapaths.
    pub(crate) fn add_edge(
        &mut self,
        name: &str,
        silence: Duration,
        treatments: BTreeMap<u32, Treatment>,
    ) -> Option<Host> {
        let divides = treatments.values().any(|each| each.share.is_some());
        let selects = treatments.values().any(|each| each.selector.is_some());
        let config = match treatments.values().all(|each| each.mode == Mode::Buffer) {
            true => Edge::buffering_datapath_config(),
            false => Edge::datapath_config(),
        };
        let policy = Box::new(move |key: &FlowKey| treatments.get(&key.interface).cloned());
        let mut datapath = Datapath::new(fairwater_datapath::Config {
            name: name.to_owned(),
            silence_us: micros(Time::ZERO + silence),
            instance: 1,
            backend: Backend::Interpreter,
            ..config
        });
        let plane = datapath.add_peer(Dialect::Own, 0);
        let edge = Edge::new(TableConfig::default(), datapath, plane, policy);
        let host = self.join(HostDatapath::Guests(Box::new(edge)), plane)?;
        let joined = &mut self.hosts[host as usize];
        joined.divides_at = divides.then_some(Time::ZERO);
        joined.selects_at = selects.then_some(Time::ZERO);
        Some(host)
    }

    /// Another sendbox; `None` when there are too many datapaths.
    pub(crate) fn add_sendbox(
        &mut self,
        name: &str,
        silence: Duration,
        bundle: SendBundleConfig,
    ) -> Option<Host> {
        let mut datapath = Datapath::new(fairwater_datapath::Config {
            name: name.to_owned(),
            silence_us: micros(Time::ZERO + silence),
            instance: 1,
            backend: Backend::Interpreter,
            ..fairwater_bundle::datapath_config()
        });
        let plane = datapath.add_peer(Dialect::Own, 0);
        let mut sendbox = Sendbox::new(&[bundle], u64::MAX, datapath, plane).ok()?;
        // Boxes have clocks of their own that NTP holds together.
        sendbox.set_wall_clock(Time::ZERO, Duration::ZERO);
        self.join(HostDatapath::Bundle(Box::new(sendbox)), plane)
    }

    /// The sendbox with this datapath.
    #[inline]
    pub(crate) fn sendbox(&mut self, host: Host) -> Option<&mut Sendbox<Carried>> {
        match &mut self.hosts[host as usize].datapath {
            HostDatapath::Bundle(sendbox) => Some(sendbox),
            HostDatapath::Senders(_) | HostDatapath::Guests(_) => None,
        }
    }

    /// Gives each datapath the observer that `observer` has for its name, if it has one.
    pub(crate) fn observe(
        &mut self,
        observer: &mut dyn FnMut(&str) -> Option<Box<dyn InvocationObserver>>,
    ) {
        for host in &mut self.hosts {
            let datapath = host.datapath.get_mut();
            if let Some(observer) = observer(datapath.name()) {
                datapath.set_observer(observer);
            }
        }
    }

    fn join(&mut self, datapath: HostDatapath, plane: PeerId) -> Option<Host> {
        let peer = self.service.connect(0).ok()?;
        let host = Host::try_from(peer.index()).ok()?;
        self.hosts.push(DatapathHost {
            datapath,
            divides_at: None,
            selects_at: None,
            switches: 0,
            plane,
            peer,
        });
        self.transmit(host, Time::ZERO);
        Some(host)
    }

    /// A flow begins.
    pub(crate) fn start(
        &mut self,
        host: Host,
        algorithm: &str,
        info: &FlowInfo,
        now: Time,
    ) -> Result<FlowId, StartError> {
        let joined = &mut self.hosts[host as usize];
        let flow = joined
            .datapath
            .get_mut()
            .start(joined.plane, algorithm, info);
        self.transmit(host, now);
        flow
    }

    /// A flow ends.
    pub(crate) fn close(&mut self, host: Host, flow: FlowId, now: Time) {
        // Only what was started is closed, once.
        let _ = self.hosts[host as usize].datapath.get_mut().close(flow);
        self.transmit(host, now);
    }

    /// Runs the flow's program; what changed is to be enforced.
    #[inline]
    pub(crate) fn invoke(
        &mut self,
        host: Host,
        flow: FlowId,
        signals: &Signals,
        now: Time,
    ) -> Result<Option<Controls>, UnknownFlow> {
        let controls = self.hosts[host as usize]
            .datapath
            .get_mut()
            .invoke(flow, signals);
        self.transmit(host, now);
        controls
    }

    /// A packet passes the box at a host's edge.
    pub(crate) fn pass(&mut self, host: Host, packet: PortPacket<'_>, now: Time) -> Verdict {
        let joined = &mut self.hosts[host as usize];
        let HostDatapath::Guests(edge) = &mut joined.datapath else {
            return Verdict::Pass;
        };
        if joined.divides_at.is_some_and(|at| at <= now) {
            edge.divide(now);
            let shares = |treatment: &Treatment| treatment.share.is_some();
            joined.divides_at = Some(now + half_rtt(edge, shares));
        }
        let verdict = edge.on_packet(now, packet);
        self.transmit(host, now);
        self.select(host, now);
        verdict
    }

    /// Hands connections over as their selectors say, twice in an RTT; not while the plane is stopped.
    fn select(&mut self, host: Host, now: Time) {
        let is_stopped = self.after_outages(now) != now;
        let joined = &mut self.hosts[host as usize];
        let HostDatapath::Guests(edge) = &mut joined.datapath else {
            return;
        };
        if is_stopped || joined.selects_at.is_none_or(|at| at > now) {
            return;
        }
        let selections = edge.select(now);
        let selects = |treatment: &Treatment| treatment.selector.is_some();
        joined.selects_at = Some(now + half_rtt(edge, selects));
        joined.switches += selections.len() as u64;
        let peer = joined.peer;
        for selection in selections {
            let name = &*selection.switch.algorithm;
            let mut hosted = self.service.plane().algorithms().iter();
            let algorithm = hosted.position(|algorithm| algorithm.name() == name);
            let flow = self.service.flow_of_peer(peer, selection.flow);
            let refused = match flow.zip(algorithm) {
                Some((flow, algorithm)) => self.service.hand_over(flow, algorithm).err(),
                // Algorithms were checked with the configuration; the plane may not know a new flow yet.
                None => Some(HandOverError::UnknownFlow),
            };
            if let Some(error) = refused {
                let notice = format!("a guest's flow stays with its algorithm: {error}");
                self.notices.push((now, notice));
            }
        }
        self.answer(now);
    }

    /// The next packet that a box sends itself.
    pub(crate) fn poll_edge(&mut self, host: Host, now: Time) -> Option<Outgoing> {
        let HostDatapath::Guests(edge) = &mut self.hosts[host as usize].datapath else {
            return None;
        };
        edge.poll_transmit(now)
    }

    /// When [`Self::edge_timer`] is due.
    pub(crate) fn next_edge_timer(&self, host: Host) -> Option<Time> {
        match &self.hosts[host as usize].datapath {
            HostDatapath::Guests(edge) => edge.next_timer(),
            HostDatapath::Senders(_) | HostDatapath::Bundle(_) => None,
        }
    }

    /// A box does what is due.
    pub(crate) fn edge_timer(&mut self, host: Host, now: Time) {
        if let HostDatapath::Guests(edge) = &mut self.hosts[host as usize].datapath {
            edge.on_timer(now);
        }
        self.transmit(host, now);
    }

    /// What controls the guest's connection; `None` of one that the box leaves alone.
    pub(crate) fn guest_state(&self, host: Host, key: &FlowKey) -> Option<FlowState> {
        let HostDatapath::Guests(edge) = &self.hosts[host as usize].datapath else {
            return None;
        };
        let connections = edge.connections();
        match connections.get(connections.find(key)?)?.2 {
            Fate::Controlled(controlled) => self.state(host, controlled.flow()),
            Fate::Passed | Fate::Exempt(_) => None,
        }
    }

    /// What a box has seen.
    pub(crate) fn edge_statistics(&self, host: Host) -> Option<EdgeStatistics> {
        match &self.hosts[host as usize].datapath {
            HostDatapath::Guests(edge) => Some(*edge.statistics()),
            HostDatapath::Senders(_) | HostDatapath::Bundle(_) => None,
        }
    }

    /// What a box's buffers have done, and how often its selectors asked for another algorithm.
    pub(crate) fn box_statistics(&self, host: Host) -> Option<(BufferStatistics, u64)> {
        let joined = &self.hosts[host as usize];
        match &joined.datapath {
            HostDatapath::Guests(edge) => Some((*edge.buffer_statistics(), joined.switches)),
            HostDatapath::Senders(_) | HostDatapath::Bundle(_) => None,
        }
    }

    /// Whether the flow's algorithm lets it restart from a smaller window after an idle period.
    pub(crate) fn restarts_after_idle(&self, host: Host, flow: FlowId) -> bool {
        self.hosts[host as usize]
            .datapath
            .get()
            .restarts_after_idle(flow)
    }

    /// What controls the flow.
    pub(crate) fn state(&self, host: Host, flow: FlowId) -> Option<FlowState> {
        let view = self.hosts[host as usize].datapath.get().flow(flow);
        view.map(|view| view.state)
    }

    /// The sender changed its window by itself, for instance after a timeout.
    pub(crate) fn set_controls(&mut self, host: Host, flow: FlowId, controls: Controls) {
        // Controls in force are in range, so the datapath accepts them.
        let _ = self.hosts[host as usize]
            .datapath
            .get_mut()
            .set_controls(flow, controls);
    }

    /// Sends to the plane what a datapath has to say.
    #[inline]
    pub(crate) fn transmit(&mut self, host: Host, now: Time) {
        let arrives = now + self.delay;
        let datapath = self.hosts[host as usize].datapath.get_mut();
        while let Some((_, bytes)) = datapath.poll_transmit(MAX_PACKET) {
            self.to_plane.send(arrives, host, bytes);
        }
    }

    /// When the plane next processes packets.
    pub(crate) fn next_take_up(&self) -> Option<Time> {
        self.to_plane.next().map(|arrives| {
            let turns = arrives.as_nanos().div_ceil(self.period_ns);
            let at = turns.saturating_mul(self.period_ns);
            self.after_outages(Time::from_nanos(at))
        })
    }

    /// The same time, or the end of the outage that it lies in.
    fn after_outages(&self, at: Time) -> Time {
        let mut at = at;
        for (start, end) in &self.outages {
            if (*start..*end).contains(&at) {
                at = *end;
            }
        }
        at
    }

    /// The plane processes the packets that have arrived, and answers.
    pub(crate) fn take_up(&mut self, now: Time) {
        while let Some(packet) = self.to_plane.take(now) {
            let peer = self.hosts[packet.host as usize].peer;
            self.service.on_packet(peer, &packet.bytes, micros(now));
            self.to_plane.keep(packet);
        }
        self.answer(now);
    }

    fn answer(&mut self, now: Time) {
        let arrives = now + self.delay;
        while let Some((peer, bytes)) = self.service.poll_transmit() {
            // Peers are never removed: their indices are the hosts'.
            let host = Host::try_from(peer.index()).unwrap_or(Host::MAX);
            self.to_datapaths.send(arrives, host, bytes);
        }
    }

    /// Sends a command to a flow as the plane would, in the same encoding and with the same delay.
    pub(crate) fn command(
        &mut self,
        (host, flow): (Host, FlowId),
        (cwnd, rate): (Option<u64>, Option<u64>),
        now: Time,
    ) {
        let command = ToDatapath::Command {
            flow,
            switch: None,
            cwnd,
            rate,
            updates: Updates::default(),
            withdraw: false,
        };
        let mut bytes = Vec::new();
        // A command without updates is of a few bytes: there is nothing in it that does not fit.
        if Dialect::Own
            .encode_to_datapath(&command, &mut bytes)
            .is_ok()
        {
            self.to_datapaths.send(now + self.delay, host, &bytes);
        }
    }

    /// When something of the plane's next arrives at a datapath.
    pub(crate) fn next_arrival(&self) -> Option<Time> {
        self.to_datapaths.next()
    }

    /// Datapaths take what has arrived for them.
    pub(crate) fn arrive(&mut self, now: Time) {
        while let Some(packet) = self.to_datapaths.take(now) {
            let joined = &mut self.hosts[packet.host as usize];
            joined
                .datapath
                .get_mut()
                .on_message(joined.plane, &packet.bytes, micros(now));
            self.transmit(packet.host, now);
            self.to_datapaths.keep(packet);
        }
    }

    /// Heartbeats and silence timers. Returns when to call this again.
    pub(crate) fn heartbeat(&mut self, now: Time) -> Time {
        if self.after_outages(now) == now {
            self.service.tick(micros(now));
            self.answer(now);
        }
        for host in 0..self.hosts.len() {
            let datapath = self.hosts[host].datapath.get_mut();
            let now_us = micros(now);
            if datapath.next_timeout().is_some_and(|at| at <= now_us) {
                datapath.tick(now_us);
                self.transmit(Host::try_from(host).unwrap_or(Host::MAX), now);
            }
        }
        if now >= self.expires_at {
            self.expires_at = now + EXPIRY_INTERVAL;
            for host in &mut self.hosts {
                if let HostDatapath::Guests(edge) = &mut host.datapath {
                    edge.expire(now);
                }
            }
        }
        self.collect_notices(now);
        now + self.heartbeat
    }

    fn collect_notices(&mut self, now: Time) {
        for notice in self.service.drain_notices() {
            // Every host connects: that is not worth a notice.
            if !matches!(
                notice,
                ServiceNotice::Connected { .. } | ServiceNotice::Disconnected { .. }
            ) {
                self.notices.push((now, notice.to_string()));
            }
        }
    }

    /// Adds a notice of the simulator.
    pub(crate) fn notice(&mut self, now: Time, notice: String) {
        self.notices.push((now, notice));
    }

    /// Reports that reached the plane.
    pub(crate) fn reports(&self) -> u64 {
        self.service.statistics().reports
    }

    /// Times that a flow went under the fallback.
    pub(crate) fn fallbacks(&self) -> u64 {
        let of = |joined: &DatapathHost| joined.datapath.get().statistics().fallbacks;
        self.hosts.iter().map(of).sum()
    }

    /// What Careful Resume has done, if the plane resumes carefully.
    pub(crate) fn careful_resume(&self) -> Option<CarefulResumeStatus> {
        self.service.plane().careful_resume()
    }

    /// All notices of the run.
    pub(crate) fn into_notices(mut self, now: Time) -> Vec<(Time, String)> {
        self.collect_notices(now);
        self.notices
    }
}

/// Half of the least smoothed RTT of the connections that are treated so ([`Edge::divide`], [`Edge::select`]).
fn half_rtt(edge: &Edge, is_meant: impl Fn(&Treatment) -> bool) -> Duration {
    let connections = edge.connections().iter();
    let rtts_us = connections.filter_map(|(_, _, flow, fate)| match fate {
        Fate::Controlled(controlled) => {
            is_meant(controlled.treatment()).then_some(())?;
            Some(flow.sender().srtt_us()).filter(|srtt_us| *srtt_us > 0)
        }
        Fate::Passed | Fate::Exempt(_) => None,
    });
    let half = Duration::from_micros(rtts_us.min().unwrap_or_default()) / 2;
    half.max(MIN_INTERVAL)
}

/// The clock of datapaths.
pub(crate) fn micros(now: Time) -> u64 {
    now.as_nanos() / 1_000
}
