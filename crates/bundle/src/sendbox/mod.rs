//! The sendbox: queues each bundle's packets, releases them as its algorithm says, and steps aside when it cannot
//! help.

mod bundle;
mod control;
mod enforce;
mod mode;
mod pacer;
mod pass_through;
mod queue;
mod signals;

pub use control::SendboxControl;
pub use enforce::{Enforced, RateBounds, RecentMax};
pub use mode::{
    BackOff, Cause, Health, MAX_OUT_OF_ORDER, MIN_COVERAGE, MIN_MATCH_RATIO, Mode, ModeChange,
    Reason,
};
pub use pacer::Pacer;
pub use pass_through::PassThroughRate;
pub use signals::datapath_config;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fairwater_datapath::{Controls, Datapath, PeerId};
use fairwater_net::{Dropped, JointLimit, Limit, Packet, QueueConfig, Sink, Time};

use self::queue::BundleQueue;
use crate::estimate::Estimates;
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
    control: SendboxControl,
    queues: Vec<BundleQueue<P>>,
    by_destination: PrefixTable,
    /// When the bundles may send their next packets.
    ready: BTreeSet<(Time, usize)>,
    ready_at: Vec<Option<Time>>,
    sink: Sink<P>,
    /// What all queues hold, by index.
    held: JointLimit,
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
        let control = SendboxControl::new(configs, datapath, peer)?;
        let mut by_destination = PrefixTable::default();
        for (index, config) in configs.iter().enumerate() {
            if config.queue.check().is_err() || config.queue_bytes == 0 {
                return Err(BundleError::Queue(config.channel.bundle));
            }
            for prefix in &config.destinations {
                by_destination.insert(*prefix, index)?;
            }
        }
        Ok(Self {
            control,
            queues: configs.iter().map(BundleQueue::new).collect(),
            by_destination,
            ready: BTreeSet::new(),
            ready_at: vec![None; configs.len()],
            sink: Sink::default(),
            held: JointLimit::new(Limit::Bytes(max_queued_bytes)),
        })
    }

    /// A packet to this destination arrives. What queues drop, [`Sendbox::drain_dropped`] tells: where there is too
    /// much, the scheduler chooses what, and of several bundles that with the most bytes drops.
    ///
    /// # Errors
    /// The packet comes back, since it belongs to no bundle.
    pub fn enqueue(&mut self, now: Time, destination: IpAddr, packet: P) -> Result<(), P> {
        let now = self.control.advance(now);
        let Some(index) = self.by_destination.get(destination) else {
            return Err(packet);
        };
        let queue = &mut self.queues[index];
        queue.enqueue(now, packet, &mut self.sink);
        while queue.is_too_long() && queue.evict(now, &mut self.sink) {}
        self.count(index);
        self.schedule(now, index);
        while let Some(longest) = self.held.excess() {
            let longest = longest as usize;
            self.queues[longest].evict(now, &mut self.sink);
            self.count(longest);
            self.schedule(now, longest);
        }
        Ok(())
    }

    /// The rate of the bundle to which packets to this destination belong, bytes/s; `None` if there is none, or no limit.
    #[must_use]
    pub fn rate_to(&self, destination: IpAddr) -> Option<u64> {
        self.control.rate(self.by_destination.get(destination)?)
    }

    /// The bundle's queue has another length.
    fn count(&mut self, index: usize) {
        let (packets, bytes) = self.queues[index].held();
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        self.held.set(number, packets, bytes);
        self.control.set_queued(index, bytes);
    }

    /// The next packet that leaves by `now`; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<P> {
        let now = self.control.advance(now);
        while let Some(&(at, index)) = self.ready.first() {
            if at > now {
                return None;
            }
            self.set_ready(index, None);
            // What held the bundle back may have changed since.
            let packet = if self.may_leave_at(now, index).is_some_and(|at| at <= now) {
                self.dequeue(now, index)
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

    fn dequeue(&mut self, now: Time, index: usize) -> Option<P> {
        let queue = &mut self.queues[index];
        let packet = queue.dequeue(now, &mut self.sink)?;
        let is_app_limited = queue.is_empty();
        packet.for_each_segment(&mut |segment| {
            self.control.on_sent(now, index, segment, is_app_limited);
            queue.spend(segment.ip_bytes);
        });
        self.count(index);
        Some(packet)
    }

    /// A message came at `at`, by the kernel's stamp if there is one.
    ///
    /// # Errors
    /// It was refused, and counted.
    pub fn on_message(&mut self, at: Time, from: SocketAddr, bytes: &[u8]) -> Result<(), Refusal> {
        let index = self.control.on_message(at, from, bytes)?;
        let now = self.control.advance(at);
        self.obey(now, index);
        Ok(())
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<OutgoingMessage> {
        self.control.poll_message()
    }

    /// When to call [`Sendbox::poll`] and [`Sendbox::on_timer`] next, at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Time {
        let tick = self.control.next_timeout();
        let ready = self.ready.first().map(|(at, _)| *at);
        ready.map_or(tick, |at| at.min(tick))
    }

    /// Runs what is due each 10 ms.
    pub fn on_timer(&mut self, now: Time) {
        if self.control.on_timer(now) {
            let now = self.control.advance(now);
            for index in 0..self.queues.len() {
                self.obey(now, index);
            }
        }
    }

    /// Takes other parameters of the same bundles: algorithm, limits of queue and rate, whether to observe. What is queued
    /// stays.
    ///
    /// # Errors
    /// What cannot change while the box runs, as a clause; nothing is changed then.
    pub fn reconfigure(&mut self, configs: &[SendBundleConfig]) -> Result<(), String> {
        let now = self.control.reconfigure(configs)?;
        for (index, config) in configs.iter().enumerate() {
            self.queues[index].set_limit(config);
            self.obey(now, index);
        }
        Ok(())
    }

    /// See [`SendboxControl::set_wall_clock`].
    pub fn set_wall_clock(&mut self, now: Time, wall: Duration) {
        self.control.set_wall_clock(now, wall);
    }

    /// Another detector's verdict on a bundle's cross traffic, for bundles without [`SendBundleConfig::detect`];
    /// `false` if there is no such bundle.
    pub fn set_cross_traffic(&mut self, number: u32, verdict: CrossTraffic) -> bool {
        self.control.set_cross_traffic(number, verdict)
    }

    /// The next change of a bundle's mode.
    pub fn poll_change(&mut self) -> Option<ModeChange> {
        self.control.poll_change()
    }

    /// Packets dropped since this was last called.
    pub fn drain_dropped(&mut self) -> std::vec::Drain<'_, Dropped<P>> {
        self.sink.dropped.drain(..)
    }

    /// Messages refused, by reason.
    #[must_use]
    pub const fn refusals(&self) -> &RefusalCounts {
        self.control.refusals()
    }

    /// How often the clock has jumped, or the box stood still.
    #[must_use]
    pub const fn clock_jumps(&self) -> u64 {
        self.control.clock_jumps()
    }

    /// Bytes in all queues.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// The state of the bundle with this number.
    #[must_use]
    pub fn status(&self, number: u32) -> Option<SendBundleStatus> {
        self.control.status(number)
    }

    /// The datapath.
    #[must_use]
    pub const fn datapath(&self) -> &Datapath {
        self.control.datapath()
    }

    /// The datapath, to carry its messages.
    pub const fn datapath_mut(&mut self) -> &mut Datapath {
        self.control.datapath_mut()
    }

    /// Applies the rate that the bundle's control has chosen.
    fn obey(&mut self, now: Time, index: usize) {
        self.queues[index].set_rate(now, self.control.rate(index));
        self.schedule(now, index);
    }

    fn may_leave_at(&mut self, now: Time, index: usize) -> Option<Time> {
        let ready = self.queues[index].ready_at(now)?;
        (!self.control.is_held(now, index)).then_some(ready)
    }

    fn schedule(&mut self, now: Time, index: usize) {
        let at = self.may_leave_at(now, index);
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
            .field("control", &self.control)
            .field("queued_bytes", &self.held.bytes())
            .finish_non_exhaustive()
    }
}
