//! The sendbox in the kernel: an HTB class per bundle, which the sans-IO control drives.

mod options;
mod plane;
mod port;
mod probe;
mod programs;
mod tc;
mod waiting;

pub use options::{HtbOptions, LeafScheduler, MAX_BANDS, MAX_BUNDLES};
pub use plane::{HtbDataPlane, HtbDataPlaneConfig};
pub use port::{has_classes, remove_leftovers};
pub use probe::KernelScheduler;

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::fs::MetadataExt;
use std::time::Duration;

use fairwater_bundle::{
    Boundary, EpochSize, IdentityFields, Mark, SendBundleConfig, SendboxControl,
};
use fairwater_kernel::now_ns;
use fairwater_net::Time;

use self::options::Plan;
use self::port::Port;
use self::programs::{Place, Programs};
use self::tc::{LeafReading, UNLIMITED};
use self::waiting::Waiting;
use crate::{BoxError, Framing};

/// Bytes of an Ethernet header, which HTB counts and a bundle's rate does not.
const LINK_HEADER: f64 = 14.0;
/// Share of the rate while dequeues are held, and the least then, bytes/s: a class that owes a packet at a lower rate
/// would pay for it for too long once the hold ends.
const HELD_SHARE: u64 = 8;
const HELD_MIN: u64 = 125_000;
/// Changes of a rate by less than this share are not worth a message.
const RATE_STEP: u64 = 500;
/// Time between two exact readings of what waits.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// A bundle that sends nothing for so long is looked at only as often as the readings are due.
const QUIET: Duration = Duration::from_secs(1);
/// Longest time between two turns: heartbeat and hold need it.
const TURN: Duration = Duration::from_millis(10);
const TURN_WHILE_HELD: Duration = Duration::from_millis(2);

/// One bundle's class.
#[derive(Debug)]
struct BundleClass {
    epoch: EpochSize,
    /// What the class is set to, bytes/s with link headers.
    rate: u64,
    /// Limit of its leaves, and limits of the bundle: bytes, and time.
    fifo_bytes: u32,
    limits: (u64, Duration),
    waiting: Waiting,
    /// Packets dropped by its leaves, by minor number, at the last reading.
    leaf_drops: BTreeMap<u32, u32>,
    /// When its packets were last seen.
    seen_at: Time,
}

/// The sendbox's queues in the kernel. Dropping this lets what waits leave, and removes all of it.
#[derive(Debug)]
pub struct HtbSendbox {
    // Before the port, whose queueing discipline they outlive otherwise.
    programs: Programs,
    port: Port,
    plan: Plan,
    leaves: LeafScheduler,
    bundles: Vec<BundleClass>,
    stale_packets: u64,
    dropped: u64,
    read_at: Time,
    next_turn: Time,
}

impl HtbSendbox {
    /// Takes over the queue of an interface in the namespace of the calling thread, for these bundles in the order in
    /// which the sans-IO control has them. What a killed process left there is removed first.
    ///
    /// # Errors
    /// There is a queueing discipline that somebody chose, another process has the interface, or the kernel refuses.
    pub fn attach(
        interface: &str,
        configs: &[SendBundleConfig],
        options: &HtbOptions,
    ) -> Result<Self, BoxError> {
        let plan = Plan::new(configs.len(), options)?;
        if let LeafScheduler::Kernel(kind) = options.leaves
            && !kind
                .is_available()
                .map_err(BoxError::io("find out which schedulers this kernel has"))?
        {
            return Err(BoxError::NoScheduler(kind.name()));
        }
        let mut port = Port::claim(interface)?;
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")
            .map_err(BoxError::io("name the network namespace"))?;
        let place = Place {
            interface: port.facts.index,
            namespace: u32::try_from(namespace.st_ino()).unwrap_or(0),
            framing: if port.facts.has_ethernet {
                Framing::Ethernet
            } else {
                Framing::Ip
            },
        };
        let programs = Programs::load(configs, plan, place, options)?;
        let bundles: Vec<BundleClass> = configs.iter().map(BundleClass::new).collect();
        let fifo_bytes: Vec<u32> = bundles.iter().map(|bundle| bundle.fifo_bytes).collect();
        port.build(plan, options.leaves, &fifo_bytes, options.max_segments)?;
        // From the first packet on it lives.
        programs.beat(Time::from_nanos(now_ns()));
        port.tc
            .add_classifier(programs.classify.as_raw_fd())
            .map_err(BoxError::io("attach the classifier"))?;
        Ok(Self {
            programs,
            port,
            plan,
            leaves: options.leaves,
            bundles,
            stale_packets: 0,
            dropped: 0,
            read_at: Time::ZERO,
            next_turn: Time::ZERO,
        })
    }

    /// A descriptor that is readable when boundary packets wait.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.programs.ring.readable()
    }

    /// When to call [`HtbSendbox::turn`] next, at the latest.
    #[must_use]
    pub const fn next_timeout(&self) -> Time {
        self.next_turn
    }

    /// Tells the control what happened, lets its timers run, and does what it asks for. Call after messages came, when
    /// [`HtbSendbox::readable`] is, and at [`HtbSendbox::next_timeout`]. `now` is of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn turn(&mut self, now: Time, control: &mut SendboxControl) -> Result<(), BoxError> {
        self.programs.beat(now);
        self.read(control)?;
        if now >= control.next_timeout() {
            self.count(now, control)?;
            control.on_timer(now);
        }
        let is_held = self.obey(now, control)?;
        self.next_turn = now + if is_held { TURN_WHILE_HELD } else { TURN };
        Ok(())
    }

    /// Tells the control which boundary packets left. Call before it is given messages: feedback of a packet that it
    /// does not know of yet would be of no use.
    ///
    /// # Errors
    /// The ring cannot be read.
    pub fn read(&mut self, control: &mut SendboxControl) -> Result<(), BoxError> {
        for boundary in self.programs.ring.drain()? {
            let bundle = boundary.bundle as usize;
            let class = self.bundles.get_mut(bundle);
            let is_app_limited = class.is_none_or(|class| {
                class.seen_at = boundary.at;
                class.waiting.is_empty()
            });
            let fields = IdentityFields::ALL.get(boundary.fields as usize);
            let mark = Mark {
                boundary: Boundary(boundary.hash),
                fields: fields.copied().unwrap_or(IdentityFields::TcpV4),
                sent_at: boundary.at,
                bytes: boundary.counters.bytes,
                packets: boundary.counters.packets,
                is_app_limited,
            };
            control.on_boundary(bundle, mark);
        }
        Ok(())
    }

    /// Tells the control what was sent and what waits.
    fn count(&mut self, now: Time, control: &mut SendboxControl) -> Result<(), BoxError> {
        let stale_packets = self.programs.stale_packets();
        let is_due = now.since(self.read_at) >= READ_INTERVAL;
        let is_read = is_due || stale_packets != self.stale_packets;
        self.stale_packets = stale_packets;
        if is_due {
            self.read_at = now;
        }
        for (index, bundle) in (0u32..).zip(&mut self.bundles) {
            let place = index as usize;
            let is_quiet = bundle.waiting.is_empty() && now.since(bundle.seen_at) > QUIET;
            if is_quiet && !is_due {
                continue;
            }
            let enqueued = self.programs.enqueued.of(place).bytes;
            let sent = self.programs.sent.of(place);
            let has_changed = bundle.waiting.update(enqueued, sent.bytes);
            if has_changed {
                bundle.seen_at = now;
            }
            if is_read && (has_changed || !bundle.waiting.is_empty()) {
                let used = self
                    .programs
                    .used_leaves(self.plan, index, now, waiting::MEMORY);
                let readings = self
                    .port
                    .tc
                    .leaves(&used)
                    .map_err(BoxError::io("read what waits"))?;
                let sum =
                    |of: fn(&LeafReading) -> u32| readings.iter().map(of).map(u64::from).sum();
                bundle
                    .waiting
                    .set(sum(|leaf| leaf.bytes), sum(|leaf| leaf.packets));
                for leaf in &readings {
                    // The kernel's counts wrap around.
                    let before = bundle.leaf_drops.insert(leaf.minor, leaf.drops);
                    let more = leaf.drops.wrapping_sub(before.unwrap_or(0));
                    self.dropped += u64::from(more);
                }
                let limit = bundle.fifo_limit(control.rate(place), used.len());
                if let (LeafScheduler::FlowMap, Some(limit)) = (self.leaves, limit) {
                    let leaves: Vec<u32> = self.plan.leaves_of(index).map(|it| it.0).collect();
                    self.port.set_fifos(&leaves, limit)?;
                    bundle.fifo_bytes = limit;
                }
            }
            control.on_sent_total(now, place, (sent.bytes, sent.packets));
            control.set_queued(place, bundle.waiting.bytes());
        }
        Ok(())
    }

    /// Sets rates and N; whether a bundle's dequeues are held.
    fn obey(&mut self, now: Time, control: &SendboxControl) -> Result<bool, BoxError> {
        let mut is_held = false;
        let mut changes = Vec::new();
        for (index, bundle) in (0u32..).zip(&mut self.bundles) {
            let place = index as usize;
            if let Some(epoch) = control.epoch(place).filter(|epoch| *epoch != bundle.epoch) {
                bundle.epoch = epoch;
                self.programs.settings.set_epoch(place, epoch);
            }
            let held = control.is_held(now, place);
            is_held |= held;
            let rate = control.rate(place).map_or(UNLIMITED, |rate| {
                let sent = self.programs.sent.of(place);
                let rate = if held {
                    (rate / HELD_SHARE).max(HELD_MIN).min(rate)
                } else {
                    rate
                };
                let headers = LINK_HEADER * sent.packets as f64 / sent.bytes.max(1) as f64;
                (rate as f64 * (1.0 + headers)) as u64
            });
            if rate.abs_diff(bundle.rate) > bundle.rate / RATE_STEP {
                bundle.rate = rate;
                changes.push((self.plan.class_of(index), rate));
            }
        }
        if !changes.is_empty() {
            self.port.set_rates(&changes)?;
        }
        Ok(is_held)
    }

    /// Takes other limits of the bundles, and whether they are observed alone, in the order of the configuration.
    pub fn reconfigure(&mut self, configs: &[SendBundleConfig]) {
        for (place, (class, config)) in self.bundles.iter_mut().zip(configs).enumerate() {
            class.limits = (config.queue_bytes, config.queue_time);
            self.programs.set_shaped(place, !config.observe);
        }
    }

    /// Packets of bundles that came to the classifier.
    #[must_use]
    pub fn enqueued_packets(&self) -> u64 {
        let of_one = |bundle| self.programs.enqueued.of(bundle).packets;
        (0..self.bundles.len()).map(of_one).sum()
    }

    /// Bytes of a bundle that wait, by the last reading.
    #[must_use]
    pub fn queued_bytes(&self, bundle: usize) -> u64 {
        let bundle = self.bundles.get(bundle);
        bundle.map_or(0, |bundle| bundle.waiting.bytes())
    }

    /// Packets that the bundles' leaves dropped, by the readings each 100 ms of those in use.
    #[must_use]
    pub const fn dropped_packets(&self) -> u64 {
        self.dropped
    }

    /// Boundary packets that the ring had no room for.
    #[must_use]
    pub fn lost_boundaries(&self) -> u64 {
        let of_one = |bundle| self.programs.sent.lost(bundle);
        (0..self.bundles.len()).map(of_one).sum()
    }

    /// Packets of bundles that passed unlimited because the heartbeat was stale.
    #[must_use]
    pub fn stale_packets(&self) -> u64 {
        self.programs.stale_packets()
    }
}

impl BundleClass {
    fn new(config: &SendBundleConfig) -> Self {
        Self {
            epoch: EpochSize::INITIAL,
            rate: UNLIMITED,
            fifo_bytes: u32::try_from(config.queue_bytes).unwrap_or(u32::MAX),
            limits: (config.queue_bytes, config.queue_time),
            waiting: Waiting::default(),
            leaf_drops: BTreeMap::new(),
            seen_at: Time::ZERO,
        }
    }

    /// What each leaf may hold, if that differs from what it is set to by a quarter: the bundle's limit divided among
    /// the leaves in use, ten packets at least.
    fn fifo_limit(&self, rate: Option<u64>, used: usize) -> Option<u32> {
        const LEAST: u64 = 15_000;
        let (bytes, time) = self.limits;
        let by_time = rate.map_or(u64::MAX, |rate| (rate as f64 * time.as_secs_f64()) as u64);
        let limit = bytes.min(by_time) / u64::try_from(used.max(1)).unwrap_or(1);
        let limit = u32::try_from(limit.max(LEAST)).unwrap_or(u32::MAX);
        (limit.abs_diff(self.fifo_bytes) > self.fifo_bytes / 4).then_some(limit)
    }
}

impl Drop for HtbSendbox {
    fn drop(&mut self) {
        self.programs.stop();
        let all = |index| (self.plan.class_of(index), UNLIMITED);
        let changes: Vec<_> = (0..self.plan.bundles).map(all).collect();
        // What waits may leave; if it cannot, it goes with the queue.
        if self.port.set_rates(&changes).is_ok() {
            self.port.drain();
        }
    }
}
