//! What a sendbox does without its queues: modes, estimates, rates and messages of its bundles.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fairwater_datapath::{Datapath, PeerId};
use fairwater_net::Time;

use super::bundle::{BoxParts, SendBundle};
use super::{CLOCK_JUMP, CrossTraffic, ModeChange, SendBundleConfig, SendBundleStatus, TICK};
use crate::elasticity;
use crate::message::bundle_of;
use crate::{
    BoundaryKey, BundleError, EpochSize, Mark, OutgoingMessage, Refusal, RefusalCounts, Segment,
};

/// The control of a sendbox's bundles, whoever queues their packets: [`Sendbox`](super::Sendbox) or a scheduler
/// outside of this process. That one tells what waits ([`SendboxControl::set_queued`]) and what left
/// ([`SendboxControl::on_boundary`], [`SendboxControl::on_sent_total`]), and obeys [`SendboxControl::rate`] and
/// [`SendboxControl::is_held`].
///
/// Bundles are named by their place among the configurations; what is told of a place beyond them is ignored.
pub struct SendboxControl {
    bundles: Vec<SendBundle>,
    /// What the bundles were made of, and have been told since.
    configs: Vec<SendBundleConfig>,
    by_number: BTreeMap<u32, usize>,
    datapath: Datapath,
    peer: PeerId,
    messages: VecDeque<OutgoingMessage>,
    changes: VecDeque<ModeChange>,
    refusals: RefusalCounts,
    next_tick: Time,
    now: Time,
    clock_jumps: u64,
}

impl SendboxControl {
    /// The control of these bundles, of which the plane `peer` controls the rates. The datapath's configuration should
    /// be [`datapath_config`](super::datapath_config).
    ///
    /// # Errors
    /// Two bundles have one number, or an instance is 0.
    pub fn new(
        configs: &[SendBundleConfig],
        datapath: Datapath,
        peer: PeerId,
    ) -> Result<Self, BundleError> {
        let mut by_number = BTreeMap::new();
        for (index, config) in configs.iter().enumerate() {
            let number = config.channel.bundle;
            if config.channel.instance == 0 {
                return Err(BundleError::Instance(number));
            }
            if by_number.insert(number, index).is_some() {
                return Err(BundleError::Number(number));
            }
        }
        // One for all bundles of the box, until it is told a clock that boxes share.
        let instance = configs.first().map_or(0, |config| config.channel.instance);
        let shift = Duration::from_nanos(instance);
        Ok(Self {
            bundles: configs
                .iter()
                .map(|config| SendBundle::new(config, shift))
                .collect(),
            configs: configs.to_vec(),
            by_number,
            datapath,
            peer,
            messages: VecDeque::new(),
            changes: VecDeque::new(),
            refusals: RefusalCounts::default(),
            next_tick: Time::ZERO,
            now: Time::ZERO,
            clock_jumps: 0,
        })
    }

    /// It is `wall` since an epoch that boxes of other sites know as well, such as Unix time. Bundles of all boxes then
    /// probe together for buffer-filling traffic in pass-through: bundles that share a bottleneck and probe alone take
    /// each other's end hosts for it. Clocks that differ by a few tens of ms, as NTP leaves them, are near enough for
    /// probes of 300 ms and more. Call again when the wall clock was set.
    pub fn set_wall_clock(&mut self, now: Time, wall: Duration) {
        let now = self.advance(now);
        let period = elasticity::LONGEST_INTERVAL.as_nanos();
        let passed = (wall.as_nanos() + period - u128::from(now.as_nanos()) % period) % period;
        // What the clock of the box shows when the other shows a multiple of the period.
        let shift = Duration::from_nanos(((period - passed) % period) as u64);
        for bundle in &mut self.bundles {
            if let Some(detector) = &mut bundle.detector {
                detector.set_shift(shift);
            }
        }
    }

    /// How many bundles there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bundles.len()
    }

    /// Whether there is no bundle.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bundles.is_empty()
    }

    /// The place of the bundle with this number.
    #[must_use]
    pub fn place_of(&self, number: u32) -> Option<usize> {
        self.by_number.get(&number).copied()
    }

    /// So many bytes of the bundle wait now.
    pub fn set_queued(&mut self, bundle: usize, bytes: u64) {
        if let Some(bundle) = self.bundles.get_mut(bundle) {
            bundle.set_queued(bytes);
        }
    }

    /// Bytes and packets of the bundle that an outside scheduler has sent so far, since it started.
    pub fn on_sent_total(&mut self, now: Time, bundle: usize, total: (u64, u64)) {
        let now = self.advance(now);
        if let Some(bundle) = self.bundles.get_mut(bundle) {
            bundle.on_sent_total(now, total);
        }
    }

    /// An outside scheduler sent a boundary packet of the bundle. Its totals count since the scheduler started.
    pub fn on_boundary(&mut self, bundle: usize, mark: Mark) {
        self.advance(mark.sent_at);
        if let Some(bundle) = self.bundles.get_mut(bundle) {
            bundle.on_boundary(mark);
        }
    }

    /// A packet on the wire of the bundle left; `is_app_limited` says that none waited behind it.
    pub(super) fn on_sent(
        &mut self,
        now: Time,
        bundle: usize,
        segment: &Segment,
        is_app_limited: bool,
    ) {
        if let Some(bundle) = self.bundles.get_mut(bundle) {
            bundle.on_sent(now, segment, is_app_limited);
        }
    }

    /// The rate at which the bundle may send, bytes/s of IP packets; `None` does not limit.
    #[must_use]
    pub fn rate(&self, bundle: usize) -> Option<u64> {
        self.bundles.get(bundle)?.rate()
    }

    /// Whether the bundle may send nothing now, since too much is in flight. Feedback and time end that.
    #[must_use]
    pub fn is_held(&self, now: Time, bundle: usize) -> bool {
        let bundle = self.bundles.get(bundle);
        bundle.is_some_and(|bundle| bundle.is_held(now))
    }

    /// N of the bundle.
    #[must_use]
    pub fn epoch(&self, bundle: usize) -> Option<EpochSize> {
        Some(self.bundles.get(bundle)?.epoch())
    }

    /// The key of the bundle's boundary hash.
    #[must_use]
    pub fn boundary_key(&self, bundle: usize) -> Option<BoundaryKey> {
        Some(self.bundles.get(bundle)?.boundary_key())
    }

    /// A message came at `at`, by the kernel's stamp if there is one; the place of its bundle.
    ///
    /// # Errors
    /// It was refused, and counted.
    pub fn on_message(
        &mut self,
        at: Time,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Result<usize, Refusal> {
        let result = self.accept(at, from, bytes);
        if let Err(reason) = result {
            self.refusals.count(reason);
        }
        result
    }

    fn accept(&mut self, at: Time, from: SocketAddr, bytes: &[u8]) -> Result<usize, Refusal> {
        let number = bundle_of(bytes)?;
        let index = *self.by_number.get(&number).ok_or(Refusal::Bundle)?;
        let now = self.advance(at);
        let (bundles, mut box_of) = self.surroundings();
        bundles[index].on_message((at, now), from, bytes, &mut box_of)?;
        Ok(index)
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<OutgoingMessage> {
        self.messages.pop_front()
    }

    /// When to call [`SendboxControl::on_timer`] next, at the latest.
    #[must_use]
    pub const fn next_timeout(&self) -> Time {
        self.next_tick
    }

    /// Runs what is due each 10 ms; whether that was due.
    pub fn on_timer(&mut self, now: Time) -> bool {
        let now = self.advance(now);
        if now < self.next_tick {
            return false;
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
        }
        true
    }

    /// Takes other parameters of the same bundles: algorithm, limits of rate, whether to observe. The limits of queues
    /// are for whoever queues. Returns the time of the change.
    ///
    /// # Errors
    /// What cannot change while the box runs, as a clause; nothing is changed then.
    pub fn reconfigure(&mut self, configs: &[SendBundleConfig]) -> Result<Time, String> {
        let before = self.configs.iter();
        let is_fixed = |(before, after): (&SendBundleConfig, &SendBundleConfig)| {
            before.channel.bundle == after.channel.bundle
                && before.channel.secret == after.channel.secret
                && before.destinations == after.destinations
                && before.receivebox == after.receivebox
                && before.queue == after.queue
                && after.queue_bytes > 0
        };
        if self.configs.len() != configs.len() || !before.zip(configs).all(is_fixed) {
            return Err(
                "the bundles themselves, their keys, destinations, receiveboxes and schedulers cannot change while the \
                 sendbox runs"
                    .to_owned(),
            );
        }
        self.configs = configs.to_vec();
        let now = self.now;
        for (index, config) in configs.iter().enumerate() {
            let (bundles, mut box_of) = self.surroundings();
            bundles[index].reconfigure(now, config, &mut box_of);
        }
        Ok(now)
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

    /// Times never go backwards.
    pub(super) fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    fn surroundings(&mut self) -> (&mut [SendBundle], BoxParts<'_>) {
        let box_of = BoxParts {
            datapath: &mut self.datapath,
            peer: self.peer,
            messages: &mut self.messages,
            changes: &mut self.changes,
        };
        (&mut self.bundles, box_of)
    }
}

impl std::fmt::Debug for SendboxControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendboxControl")
            .field("bundles", &self.bundles.len())
            .field("refusals", &self.refusals)
            .finish_non_exhaustive()
    }
}
