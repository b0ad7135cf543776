//! The sendbox: queues each bundle's packets, releases them as its algorithm says, and steps aside when it cannot
//! help.

mod bundle;
mod enforce;
mod mode;
mod pacer;
mod pass_through;
mod signals;

pub use enforce::{Enforced, RateBounds, RecentMax};
pub use mode::{
    BackOff, Cause, Health, MAX_OUT_OF_ORDER, MIN_COVERAGE, MIN_MATCH_RATIO, Mode, ModeChange,
    Reason,
};
pub use pacer::Pacer;
pub use pass_through::PassThroughRate;
pub use signals::datapath_config;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fairwater_datapath::{Controls, Datapath, PeerId};
use fairwater_net::{Dropped, JointLimit, Limit, Packet, QueueConfig, Sink, Time};

use self::bundle::{BoxParts, SendBundle};
use crate::estimate::Estimates;
use crate::message::bundle_of;
use crate::{
    BundleError, ChannelConfig, EpochSize, OutgoingMessage, Prefix, PrefixTable, Refusal,
    RefusalCounts, Segment,
};

/// Time between two ticks, at each of which every bundle's program is invoked.
pub const TICK: Duration = Duration::from_millis(10);

/// A tick that comes so late means that the clock has jumped or the box stood still.
const CLOCK_JUMP: Duration = Duration::from_millis(500);

/// A packet as a sendbox carries it.
pub trait BundlePacket: Packet {
    /// Calls `each` for every packet on the wire that this becomes: see [`crate::expand`].
    fn for_each_segment(&self, each: &mut dyn FnMut(&Segment));
}

/// Whether traffic that fills buffers competes with a bundle (Bundler §4.3): a detector's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CrossTraffic {
    /// None does.
    #[default]
    Inelastic,
    /// Some does: a delay-controlling algorithm would starve.
    Elastic,
}

/// A bundle at its sendbox.
#[derive(Debug, Clone)]
pub struct SendBundleConfig {
    /// Number, secret and this box's instance.
    pub channel: ChannelConfig,
    /// Where the receivebox is, until its messages tell.
    pub receivebox: SocketAddr,
    /// Prefixes of the receivers' site: packets to there are the bundle's, unless a longer prefix is another's.
    pub destinations: Vec<Prefix>,
    /// The algorithm, by name; empty for the plane's first.
    pub algorithm: String,
    /// Scheduler of the queue.
    pub queue: QueueConfig,
    /// Most bytes in the queue.
    pub queue_bytes: u64,
    /// Most time in the queue at the present rate; ten packets have room at any rate.
    pub queue_time: Duration,
    /// Least rate that is enforced, bytes/s.
    pub min_rate: u64,
    /// Rate that may be reached without that much having been received lately, bytes/s; 0 if only the measured rate
    /// decides.
    pub assured_rate: u64,
    /// Whether the box measures and never shapes.
    pub observe: bool,
    /// Whether the box detects buffer-filling cross traffic itself; else [`Sendbox::set_cross_traffic`] tells.
    pub detect: bool,
    /// Seed of what the queue draws.
    pub seed: u64,
}

impl SendBundleConfig {
    /// A bundle with Bundler's bounds: at least 1 Mbit/s (§6), 250 ms and 12 MB of queue, first in, first out.
    #[must_use]
    pub fn new(channel: ChannelConfig, receivebox: SocketAddr, destinations: Vec<Prefix>) -> Self {
        Self {
            channel,
            receivebox,
            destinations,
            algorithm: String::new(),
            queue: QueueConfig::DropTail(fairwater_net::Limit::Unlimited),
            queue_bytes: 12_000_000,
            queue_time: Duration::from_millis(250),
            min_rate: 125_000,
            assured_rate: 0,
            observe: false,
            detect: true,
            seed: 0,
        }
    }
}

/// State of a bundle at its sendbox.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendBundleStatus {
    /// What is done with its traffic.
    pub mode: Mode,
    /// What is known of its path.
    pub estimates: Estimates,
    /// N.
    pub epoch: EpochSize,
    /// The enforced rate, bytes/s; `None` if none is.
    pub rate: Option<u64>,
    /// What the algorithm asks for.
    pub controls: Option<Controls>,
    /// Bytes in the queue.
    pub queued_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Bytes and packets sent so far.
    pub sent: (u64, u64),
    /// Marks matched so far, and feedback without a mark.
    pub matches: (u64, u64),
    /// Where the receivebox is.
    pub receivebox: Option<SocketAddr>,
}

/// A sendbox with its bundles.
///
/// Packets of bundles go in by [`Sendbox::enqueue`] and leave by [`Sendbox::poll`]. Messages of receiveboxes go in by
/// [`Sendbox::on_message`], those for them come from [`Sendbox::poll_message`]. [`Sendbox::on_timer`] is called
/// when [`Sendbox::next_timeout`] says so. The caller carries the datapath's messages, as for any other datapath.
pub struct Sendbox<P> {
    bundles: Vec<SendBundle<P>>,
    by_number: BTreeMap<u32, usize>,
    by_destination: PrefixTable,
    datapath: Datapath,
    peer: PeerId,
    /// When the bundles may send their next packets.
    ready: BTreeSet<(Time, usize)>,
    ready_at: Vec<Option<Time>>,
    messages: VecDeque<OutgoingMessage>,
    changes: VecDeque<ModeChange>,
    refusals: RefusalCounts,
    sink: Sink<P>,
    /// What all queues hold, by index.
    held: JointLimit,
    next_tick: Time,
    now: Time,
    clock_jumps: u64,
}

impl<P: BundlePacket> Sendbox<P> {
    /// A box with these bundles, of which the plane `peer` controls the rates. `max_queued_bytes` is the most that
    /// all queues hold together. The datapath's configuration should be [`datapath_config`].
    ///
    /// # Errors
    /// Two bundles have one number or one prefix, an instance is 0, or a queue's configuration is refused.
    pub fn new(
        configs: &[SendBundleConfig],
        max_queued_bytes: u64,
        datapath: Datapath,
        peer: PeerId,
    ) -> Result<Self, BundleError> {
        let mut by_number = BTreeMap::new();
        let mut by_destination = PrefixTable::default();
        for (index, config) in configs.iter().enumerate() {
            let number = config.channel.bundle;
            if config.channel.instance == 0 {
                return Err(BundleError::Instance(number));
            }
            if config.queue.check().is_err() || config.queue_bytes == 0 {
                return Err(BundleError::Queue(number));
            }
            if by_number.insert(number, index).is_some() {
                return Err(BundleError::Number(number));
            }
            for prefix in &config.destinations {
                by_destination.insert(*prefix, index)?;
            }
        }
        // One for all bundles of the box.
        let instance = configs.first().map_or(0, |config| config.channel.instance);
        let shift = Duration::from_nanos(instance);
        Ok(Self {
            bundles: configs
                .iter()
                .map(|config| SendBundle::new(config, shift))
                .collect(),
            by_number,
            by_destination,
            datapath,
            peer,
            ready: BTreeSet::new(),
            ready_at: vec![None; configs.len()],
            messages: VecDeque::new(),
            changes: VecDeque::new(),
            refusals: RefusalCounts::default(),
            sink: Sink::default(),
            held: JointLimit::new(Limit::Bytes(max_queued_bytes)),
            next_tick: Time::ZERO,
            now: Time::ZERO,
            clock_jumps: 0,
        })
    }

    /// A packet to this destination arrives. What queues drop, [`Sendbox::drain_dropped`] tells: where there is too
    /// much, the scheduler chooses what, and of several bundles that with the most bytes drops.
    ///
    /// # Errors
    /// The packet comes back, since it belongs to no bundle.
    pub fn enqueue(&mut self, now: Time, destination: IpAddr, packet: P) -> Result<(), P> {
        let now = self.advance(now);
        let Some(index) = self.by_destination.get(destination) else {
            return Err(packet);
        };
        let bundle = &mut self.bundles[index];
        bundle.enqueue(now, packet, &mut self.sink);
        while bundle.is_too_long() && bundle.evict(now, &mut self.sink) {}
        self.count(index);
        self.schedule(now, index);
        while let Some(longest) = self.held.excess() {
            let longest = longest as usize;
            self.bundles[longest].evict(now, &mut self.sink);
            self.count(longest);
            self.schedule(now, longest);
        }
        Ok(())
    }

    /// The bundle's queue has another length.
    fn count(&mut self, index: usize) {
        let (packets, bytes) = self.bundles[index].queued();
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        self.held.set(number, packets, bytes);
    }

    /// The next packet that leaves by `now`; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<P> {
        let now = self.advance(now);
        while let Some(&(at, index)) = self.ready.first() {
            if at > now {
                return None;
            }
            self.set_ready(index, None);
            let bundle = &mut self.bundles[index];
            // What held the bundle back may have changed since.
            let packet = if bundle.ready_at(now).is_some_and(|at| at <= now) {
                let packet = bundle.dequeue(now, &mut self.sink);
                self.count(index);
                packet
            } else {
                None
            };
            self.schedule(now, index);
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// A message came at `at`, by the kernel's stamp if there is one.
    ///
    /// # Errors
    /// It was refused, and counted.
    pub fn on_message(&mut self, at: Time, from: SocketAddr, bytes: &[u8]) -> Result<(), Refusal> {
        let result = self.accept(at, from, bytes);
        if let Err(reason) = result {
            self.refusals.count(reason);
        }
        result
    }

    fn accept(&mut self, at: Time, from: SocketAddr, bytes: &[u8]) -> Result<(), Refusal> {
        let number = bundle_of(bytes)?;
        let index = *self.by_number.get(&number).ok_or(Refusal::Bundle)?;
        let now = self.advance(at);
        let (bundles, mut box_of) = self.surroundings();
        bundles[index].on_message((at, now), from, bytes, &mut box_of)?;
        self.schedule(now, index);
        Ok(())
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<OutgoingMessage> {
        self.messages.pop_front()
    }

    /// When to call [`Sendbox::poll`] and [`Sendbox::on_timer`] next, at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let ready = self.ready.first().map(|(at, _)| *at);
        ready.map_or(self.next_tick, |at| at.min(self.next_tick))
    }

    /// Runs what is due each 10 ms.
    pub fn on_timer(&mut self, now: Time) {
        let now = self.advance(now);
        if now < self.next_tick {
            return;
        }
        let is_jump = self.next_tick != Time::ZERO && now.since(self.next_tick) > CLOCK_JUMP;
        self.clock_jumps += u64::from(is_jump);
        self.next_tick = now + TICK;
        self.datapath.tick(now.as_nanos() / 1_000);
        for index in 0..self.bundles.len() {
            let (bundles, mut box_of) = self.surroundings();
            if is_jump {
                bundles[index].on_clock_jump(now);
            }
            bundles[index].on_tick(now, &mut box_of);
            self.schedule(now, index);
        }
    }

    /// Another detector's verdict on a bundle's cross traffic, for bundles without [`SendBundleConfig::detect`];
    /// `false` if there is no such bundle.
    pub fn set_cross_traffic(&mut self, number: u32, verdict: CrossTraffic) -> bool {
        let bundle = self.by_number.get(&number);
        let bundle = bundle.and_then(|index| self.bundles.get_mut(*index));
        bundle
            .filter(|bundle| bundle.detector.is_none())
            .map(|bundle| bundle.cross_traffic = verdict)
            .is_some()
    }

    /// The next change of a bundle's mode.
    pub fn poll_change(&mut self) -> Option<ModeChange> {
        self.changes.pop_front()
    }

    /// Packets dropped since this was last called.
    pub fn drain_dropped(&mut self) -> std::vec::Drain<'_, Dropped<P>> {
        self.sink.dropped.drain(..)
    }

    /// Messages refused, by reason.
    #[must_use]
    pub const fn refusals(&self) -> &RefusalCounts {
        &self.refusals
    }

    /// How often the clock has jumped, or the box stood still.
    #[must_use]
    pub const fn clock_jumps(&self) -> u64 {
        self.clock_jumps
    }

    /// Bytes in all queues.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// The state of the bundle with this number.
    #[must_use]
    pub fn status(&self, number: u32) -> Option<SendBundleStatus> {
        let bundle = &self.bundles[*self.by_number.get(&number)?];
        let estimator = &bundle.estimator;
        Some(SendBundleStatus {
            mode: bundle.mode,
            estimates: estimator.estimates(),
            epoch: bundle.epoch(),
            rate: bundle.rate(),
            controls: bundle.controls,
            queued_bytes: bundle.queued_bytes(),
            in_flight_bytes: bundle.in_flight(self.now),
            sent: estimator.sent(),
            matches: (estimator.matches(), estimator.surplus()),
            receivebox: bundle.receivebox(),
        })
    }

    /// The datapath.
    #[must_use]
    pub const fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    /// The datapath, to carry its messages.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }

    fn surroundings(&mut self) -> (&mut [SendBundle<P>], BoxParts<'_>) {
        let box_of = BoxParts {
            datapath: &mut self.datapath,
            peer: self.peer,
            messages: &mut self.messages,
            changes: &mut self.changes,
        };
        (&mut self.bundles, box_of)
    }

    /// Times never go backwards.
    fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn schedule(&mut self, now: Time, index: usize) {
        let at = self.bundles[index].ready_at(now);
        self.set_ready(index, at);
    }

    fn set_ready(&mut self, index: usize, at: Option<Time>) {
        let before = std::mem::replace(&mut self.ready_at[index], at);
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.ready.remove(&(before, index));
        }
        if let Some(at) = at {
            self.ready.insert((at, index));
        }
    }
}

impl<P> std::fmt::Debug for Sendbox<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sendbox")
            .field("bundles", &self.bundles.len())
            .field("queued_bytes", &self.held.bytes())
            .field("refusals", &self.refusals)
            .finish_non_exhaustive()
    }
}
