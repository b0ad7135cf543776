//! The receivebox: counts a bundle's packets and tells of boundary packets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_wire::{EcnCodepoint, Packet};

use crate::message::{self, Channel, ChannelConfig, Message, ReceiveCounters};
use crate::segments::{Segmentation, expand};
use crate::{
    BoundaryKey, BoxRole, BundleError, EpochSize, Feedback, Prefix, PrefixTable, Refusal,
    RefusalCounts,
};

/// Least time between two greetings of a bundle, so that recorded messages cannot be turned into a flood.
const GREETING_INTERVAL: Duration = Duration::from_millis(100);

/// Of packets with one hash, at most one in this time is told: more would be ambiguous at the sendbox, and a flow of
/// equal packets would be answered packet by packet.
const EQUAL_INTERVAL: Duration = Duration::from_millis(100);
/// Boundaries among which an equal one is looked for.
const RECENT: usize = 8;

/// Most messages that wait to be sent; further feedback is dropped, which makes longer epochs.
const MAX_PENDING: usize = 4_096;

/// A bundle at its receivebox.
#[derive(Debug, Clone)]
pub struct ReceiveBundleConfig {
    /// Number, secret and this box's instance.
    pub channel: ChannelConfig,
    /// Prefixes of the sendbox's site: packets from there are the bundle's.
    pub sources: Vec<Prefix>,
    /// The destinations that the sendbox has for the bundle: packets to others are not counted, since the sendbox does
    /// not count them either. Empty for any.
    pub destinations: Vec<Prefix>,
}

/// A datagram for the other box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The bundle's number.
    pub bundle: u32,
    /// Where to.
    pub to: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// The receivebox: a box beside the receivers that counts and answers, and changes nothing. It keeps no state of
/// flows.
#[derive(Debug)]
pub struct Receivebox {
    bundles: Vec<ReceiveBundle>,
    by_number: BTreeMap<u32, usize>,
    by_source: PrefixTable,
    pending: std::collections::VecDeque<OutgoingMessage>,
    refusals: RefusalCounts,
}

#[derive(Debug)]
struct ReceiveBundle {
    number: u32,
    channel: Channel,
    destinations: Vec<Prefix>,
    key: BoundaryKey,
    epoch: EpochSize,
    counters: ReceiveCounters,
    greeted_at: Option<Time>,
    /// The latest boundaries that were told, and when.
    recent: std::collections::VecDeque<(crate::Boundary, Time)>,
}

/// State of a bundle at its receivebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveBundleStatus {
    /// What was counted.
    pub counters: ReceiveCounters,
    /// The N that the sendbox told last.
    pub epoch: EpochSize,
    /// Where the sendbox is, once it is known.
    pub sendbox: Option<SocketAddr>,
}

impl Receivebox {
    /// A box with these bundles.
    ///
    /// # Errors
    /// Two bundles have one number or one prefix, or an instance is 0.
    pub fn new(configs: &[ReceiveBundleConfig]) -> Result<Self, BundleError> {
        let mut this = Self {
            bundles: Vec::with_capacity(configs.len()),
            by_number: BTreeMap::new(),
            by_source: PrefixTable::default(),
            pending: std::collections::VecDeque::new(),
            refusals: RefusalCounts::default(),
        };
        for (index, config) in configs.iter().enumerate() {
            let number = config.channel.bundle;
            if config.channel.instance == 0 {
                return Err(BundleError::Instance(number));
            }
            if this.by_number.insert(number, index).is_some() {
                return Err(BundleError::Number(number));
            }
            for prefix in &config.sources {
                this.by_source.insert(*prefix, index)?;
            }
            this.bundles.push(ReceiveBundle {
                number,
                channel: Channel::new(&config.channel, BoxRole::Receivebox, None),
                destinations: config.destinations.clone(),
                key: config.channel.secret.boundary_key(),
                epoch: EpochSize::INITIAL,
                counters: ReceiveCounters::default(),
                greeted_at: None,
                recent: std::collections::VecDeque::with_capacity(RECENT),
            });
        }
        Ok(this)
    }

    /// A packet came from the network at `received_at`, by the kernel's stamp if there is one. It goes on untouched.
    /// `segmentation` tells what the packets on the wire were, if they were coalesced.
    pub fn on_packet(
        &mut self,
        received_at: Time,
        packet: &Packet<'_>,
        segmentation: Option<Segmentation>,
    ) {
        let Some(index) = self.by_source.get(packet.source()) else {
            return;
        };
        let is_marked = packet.ecn() == EcnCodepoint::Ce;
        let Self {
            bundles, pending, ..
        } = self;
        let bundle = &mut bundles[index];
        let destination = packet.destination();
        let is_to = |prefix: &Prefix| prefix.contains(destination);
        if !bundle.destinations.is_empty() && !bundle.destinations.iter().any(is_to) {
            return;
        }
        expand(packet, segmentation, &mut |segment| {
            let hash = segment.identity.map(|identity| bundle.key.hash(&identity));
            bundle.count(segment.ip_bytes, is_marked);
            if let Some(boundary) = hash.filter(|hash| bundle.epoch.begins_at(*hash)) {
                let message = bundle.answer(received_at, boundary, pending.len());
                pending.extend(message);
            }
        });
    }

    /// A data plane that counts and hashes by itself received a boundary packet of the bundle with this index among the
    /// configurations at `received_at`. The counters include the packet.
    pub fn on_boundary(
        &mut self,
        received_at: Time,
        index: usize,
        boundary: crate::Boundary,
        counters: ReceiveCounters,
    ) {
        let Some(bundle) = self.bundles.get_mut(index) else {
            return;
        };
        bundle.counters = counters;
        // N may have changed since the packet was found.
        if bundle.epoch.begins_at(boundary) {
            let message = bundle.answer(received_at, boundary, self.pending.len());
            self.pending.extend(message);
        }
    }

    /// A message came.
    ///
    /// # Errors
    /// It was refused, and counted; a sendbox that does not know this instance is greeted nevertheless.
    pub fn on_message(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) -> Result<(), Refusal> {
        let result = self.accept(now, from, bytes);
        if let Err(reason) = result {
            self.refusals.count(reason);
        }
        result
    }

    fn accept(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) -> Result<(), Refusal> {
        let number = message::bundle_of(bytes)?;
        let index = self.by_number.get(&number).ok_or(Refusal::Bundle)?;
        let bundle = &mut self.bundles[*index];
        let mut stranger = None;
        let opened = bundle.channel.open(from, bytes, &mut stranger);
        if let Some(stranger) = stranger
            && bundle
                .greeted_at
                .is_none_or(|at| now.since(at) >= GREETING_INTERVAL)
        {
            bundle.greeted_at = Some(now);
            let greeting = bundle.feedback(now, crate::Boundary(0));
            self.pending.push_back(OutgoingMessage {
                bundle: number,
                to: from,
                bytes: bundle
                    .channel
                    .seal_to(stranger, &Message::Greeting(greeting)),
            });
        }
        match opened?.message {
            Message::Epoch(epoch) => {
                bundle.epoch = epoch;
                Ok(())
            }
            Message::Feedback(_) | Message::Greeting(_) => Err(Refusal::Kind),
        }
    }

    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<OutgoingMessage> {
        self.pending.pop_front()
    }

    /// Messages refused, by reason.
    #[must_use]
    pub const fn refusals(&self) -> &RefusalCounts {
        &self.refusals
    }

    /// The state of the bundle with this number.
    #[must_use]
    pub fn status(&self, number: u32) -> Option<ReceiveBundleStatus> {
        let bundle = &self.bundles[*self.by_number.get(&number)?];
        Some(ReceiveBundleStatus {
            counters: bundle.counters,
            epoch: bundle.epoch,
            sendbox: bundle.channel.address(),
        })
    }
}

impl ReceiveBundle {
    const fn count(&mut self, ip_bytes: u32, is_marked: bool) {
        let counters = &mut self.counters;
        counters.bytes += ip_bytes as u64;
        counters.packets += 1;
        if is_marked {
            counters.ce_bytes += ip_bytes as u64;
            counters.ce_packets += 1;
        }
    }

    /// Feedback on a boundary packet, unless too many messages wait.
    fn answer(
        &mut self,
        received_at: Time,
        boundary: crate::Boundary,
        pending: usize,
    ) -> Option<OutgoingMessage> {
        let to = self.channel.address()?;
        if pending >= MAX_PENDING || !self.is_new(received_at, boundary) {
            return None;
        }
        let message = Message::Feedback(self.feedback(received_at, boundary));
        Some(OutgoingMessage {
            bundle: self.number,
            to,
            bytes: self.channel.seal(&message),
        })
    }

    /// Whether no equal boundary was told lately.
    fn is_new(&mut self, now: Time, boundary: crate::Boundary) -> bool {
        let is_equal =
            |(other, at): &(_, Time)| *other == boundary && now.since(*at) < EQUAL_INTERVAL;
        if self.recent.iter().any(is_equal) {
            return false;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((boundary, now));
        true
    }

    const fn feedback(&self, received_at: Time, boundary: crate::Boundary) -> Feedback {
        Feedback {
            boundary,
            counters: self.counters,
            received_at,
            epoch: self.epoch,
        }
    }
}
