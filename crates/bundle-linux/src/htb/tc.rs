//! Traffic control by netlink: queueing disciplines, HTB's classes, a classifier. Layouts are those of
//! linux/pkt_sched.h and linux/pkt_cls.h.

use std::io;

use fairwater_netlink::{Batch, Netlink, attributes};

/// Major number of the root: tells the bundle's from others.
pub(crate) const ROOT: u32 = 0xfa1b_0000;
/// What the root's `rate2quantum` says, which nothing uses since all quanta are told: tells the bundle's from others.
const MARK: u32 = 0xfa1b;
/// The class that keeps what the interface is to get back.
pub(crate) const KEEPER: u32 = 0xfffe;

/// Kinds of requests (linux/rtnetlink.h).
mod rtm {
    pub(super) const NEW_QDISC: u16 = 36;
    pub(super) const DEL_QDISC: u16 = 37;
    pub(super) const GET_QDISC: u16 = 38;
    pub(super) const NEW_CLASS: u16 = 40;
    pub(super) const GET_CLASS: u16 = 42;
    pub(super) const NEW_FILTER: u16 = 44;
}

const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
/// Without this the kernel tells a class to those who listen for changes, and not to who asks.
const ECHO: u16 = 8;
const REPLACE: u16 = 0x100;
/// `TC_H_ROOT`.
const TOP: u32 = u32::MAX;
/// Attributes of all kinds.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;

/// A rate that limits nothing, bytes/s: 400 Gbit/s.
pub(crate) const UNLIMITED: u64 = 50_000_000_000;

/// A class of HTB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) minor: u32,
    /// Minor number of the parent; 0 is the root.
    pub(crate) parent: u32,
    /// Assured and greatest rate, bytes/s with link headers.
    pub(crate) rate: u64,
    pub(crate) ceil: u64,
    /// Bytes that may leave at once at each of them.
    pub(crate) burst: u32,
    pub(crate) ceil_burst: u32,
    pub(crate) quantum: u32,
    /// 0 goes first.
    pub(crate) prio: u32,
}

/// A queueing discipline that is at the root of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootQdisc {
    pub(crate) kind: String,
    pub(crate) handle: u32,
    pub(crate) is_ours: bool,
    /// Bytes that wait in it.
    pub(crate) backlog: u32,
}

/// What a leaf holds now, and how many packets it has dropped so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeafReading {
    pub(crate) minor: u32,
    pub(crate) bytes: u32,
    pub(crate) packets: u32,
    pub(crate) drops: u32,
}

/// A socket for requests about one interface.
#[derive(Debug)]
pub(crate) struct Tc {
    netlink: Netlink,
    interface: u32,
}

/// `struct tcmsg`.
fn message(interface: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for word in [interface, handle, parent, info] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn name(kind: &str) -> Vec<u8> {
    let mut bytes = kind.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// `struct tc_ratespec` without a table: the kernel computes.
fn rate_spec(rate: u64) -> [u8; 12] {
    const ETHERNET: u8 = 1;
    let [r0, r1, r2, r3] = u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes();
    [0, ETHERNET, 0, 0, 0, 0, 0, 0, r0, r1, r2, r3]
}

/// Time that a burst takes at a rate, in the kernel's ticks of 64 ns.
fn ticks(burst: u32, rate: u64) -> u32 {
    let ns = u64::from(burst) * 1_000_000_000 / rate.max(1);
    u32::try_from(ns / 64).unwrap_or(u32::MAX).max(1)
}

impl Class {
    fn encode(&self, interface: u32) -> Vec<u8> {
        const PARAMETERS: u16 = 1;
        const RATE64: u16 = 6;
        const CEIL64: u16 = 7;
        let parent = ROOT | self.parent;
        let mut bytes = message(interface, ROOT | self.minor, parent, 0);
        attribute(&mut bytes, KIND, &name("htb"));
        let mut parameters = rate_spec(self.rate).to_vec();
        parameters.extend(rate_spec(self.ceil));
        for word in [
            ticks(self.burst, self.rate),
            ticks(self.ceil_burst, self.ceil),
            self.quantum,
            0,
            self.prio,
        ] {
            parameters.extend(word.to_ne_bytes());
        }
        let mut options = Vec::with_capacity(80);
        attribute(&mut options, PARAMETERS, &parameters);
        for (kind, rate) in [(RATE64, self.rate), (CEIL64, self.ceil)] {
            if rate > u64::from(u32::MAX) {
                attribute(&mut options, kind, &rate.to_ne_bytes());
            }
        }
        attribute(&mut bytes, OPTIONS, &options);
        bytes
    }
}

impl Tc {
    /// For an interface in the namespace of the calling thread.
    pub(crate) fn new(interface: u32) -> io::Result<Self> {
        // NETLINK_ROUTE.
        let netlink = Netlink::new(0)?;
        Ok(Self { netlink, interface })
    }

    /// The queueing discipline at the root.
    pub(crate) fn root(&mut self) -> io::Result<Option<RootQdisc>> {
        let mut found = None;
        let interface = self.interface;
        let all = message(interface, 0, 0, 0);
        self.netlink.dump_raw(rtm::GET_QDISC, &all, |_, body| {
            let words = words::<5>(body);
            if words[1] == interface && words[3] == TOP {
                found = Some(RootQdisc::parse(
                    words[2],
                    body.get(20..).unwrap_or_default(),
                ));
            }
        })?;
        Ok(found)
    }

    /// Puts HTB at the root. What no classifier claims goes to its direct queue.
    pub(crate) fn add_root(&mut self) -> io::Result<()> {
        const INIT: u16 = 2;
        let mut bytes = message(self.interface, ROOT, TOP, 0);
        attribute(&mut bytes, KIND, &name("htb"));
        let mut global = Vec::new();
        // Version, rate2quantum, default class, debug, direct packets.
        for word in [3, MARK, 0, 0, 0u32] {
            global.extend(word.to_ne_bytes());
        }
        let mut options = Vec::new();
        attribute(&mut options, INIT, &global);
        attribute(&mut bytes, OPTIONS, &options);
        self.one(rtm::NEW_QDISC, CREATE | EXCLUSIVE, &bytes)
    }

    /// Puts any queueing discipline with its default settings at the root.
    pub(crate) fn add_plain_root(&mut self, kind: &str) -> io::Result<()> {
        let mut bytes = message(self.interface, 0x10000, TOP, 0);
        attribute(&mut bytes, KIND, &name(kind));
        self.one(rtm::NEW_QDISC, CREATE | EXCLUSIVE, &bytes)
    }

    /// Removes the root, and all that is under it. The kernel puts its default there again.
    pub(crate) fn remove_root(&mut self) -> io::Result<()> {
        let bytes = message(self.interface, ROOT, TOP, 0);
        self.one(rtm::DEL_QDISC, 0, &bytes)
    }

    fn one(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let mut batch = Batch::default();
        batch.push(kind, flags, body);
        self.netlink.submit(&mut batch, |_, _| ())
    }

    /// Makes a class, with the next submission.
    pub(crate) fn add_class(&self, batch: &mut Batch, class: &Class) {
        let body = class.encode(self.interface);
        batch.push(rtm::NEW_CLASS, CREATE | EXCLUSIVE, &body);
    }

    /// Changes a class, with the next submission.
    pub(crate) fn change_class(&self, batch: &mut Batch, class: &Class) {
        batch.push(rtm::NEW_CLASS, 0, &class.encode(self.interface));
    }

    /// Gives a leaf a FIFO of so many bytes, with the next submission. `is_new` replaces what HTB put there.
    pub(crate) fn set_fifo(&self, batch: &mut Batch, minor: u32, bytes: u32, is_new: bool) {
        let mut body = message(self.interface, 0, ROOT | minor, 0);
        attribute(&mut body, KIND, &name("bfifo"));
        attribute(&mut body, OPTIONS, &bytes.to_ne_bytes());
        let flags = if is_new { CREATE | REPLACE } else { 0 };
        batch.push(rtm::NEW_QDISC, flags, &body);
    }

    /// Gives a leaf a scheduler with its default settings, with the next submission.
    pub(crate) fn set_scheduler(&self, batch: &mut Batch, minor: u32, kind: &str) {
        let mut body = message(self.interface, 0, ROOT | minor, 0);
        attribute(&mut body, KIND, &name(kind));
        batch.push(rtm::NEW_QDISC, CREATE | REPLACE, &body);
    }

    /// Attaches a classifier to the root.
    pub(crate) fn add_classifier(&mut self, program: i32) -> io::Result<()> {
        const FD: u16 = 6;
        const NAME: u16 = 7;
        /// `ETH_P_ALL` in network order, below a priority of 1.
        const INFO: u32 = (1 << 16) | (3u16.to_be() as u32);
        let mut body = message(self.interface, 1, ROOT, INFO);
        attribute(&mut body, KIND, &name("bpf"));
        let mut options = Vec::new();
        attribute(&mut options, FD, &program.to_ne_bytes());
        attribute(&mut options, NAME, &name("fairwater-bundle"));
        attribute(&mut body, OPTIONS, &options);
        self.one(rtm::NEW_FILTER, CREATE | EXCLUSIVE, &body)
    }

    /// Carries out what was collected.
    pub(crate) fn submit(&mut self, batch: &mut Batch) -> io::Result<()> {
        self.netlink.submit(batch, |_, _| ())
    }

    /// What these leaves hold and have dropped.
    pub(crate) fn leaves(&mut self, minors: &[u32]) -> io::Result<Vec<LeafReading>> {
        let mut batch = Batch::default();
        for minor in minors {
            let body = message(self.interface, ROOT | minor, 0, 0);
            batch.push(rtm::GET_CLASS, ECHO, &body);
        }
        let mut found = Vec::with_capacity(minors.len());
        self.netlink.submit(&mut batch, |_, body| {
            let [packets, bytes, drops] = queue_statistics(body.get(20..).unwrap_or_default());
            found.push(LeafReading {
                minor: words::<3>(body)[2] & 0xffff,
                bytes,
                packets,
                drops,
            });
        })?;
        Ok(found)
    }

    /// The quantum of a class.
    pub(crate) fn quantum(&mut self, minor: u32) -> io::Result<Option<u32>> {
        const PARAMETERS: u16 = 1;
        let mut batch = Batch::default();
        let body = message(self.interface, ROOT | minor, 0, 0);
        batch.push(rtm::GET_CLASS, ECHO, &body);
        let mut found = None;
        let result = self.netlink.submit(&mut batch, |_, body| {
            let options = find(body.get(20..).unwrap_or_default(), OPTIONS);
            let parameters = find(options, PARAMETERS);
            found = (parameters.len() >= 44).then(|| words::<11>(parameters)[8]);
        });
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(|()| found),
        }
    }
}

impl RootQdisc {
    fn parse(handle: u32, body: &[u8]) -> Self {
        const INIT: u16 = 2;
        let kind = find(body, KIND);
        let kind = kind.strip_suffix(&[0]).unwrap_or(kind);
        let global = words::<5>(find(find(body, OPTIONS), INIT));
        Self {
            kind: String::from_utf8_lossy(kind).into_owned(),
            handle,
            is_ours: kind == b"htb" && handle == ROOT && global[1] == MARK,
            backlog: queue_statistics(body)[1],
        }
    }
}

/// Packets and bytes that wait, and packets dropped so far, of a class or queueing discipline.
fn queue_statistics(body: &[u8]) -> [u32; 3] {
    const QUEUE: u16 = 3;
    // struct gnet_stats_queue of linux/gen_stats.h begins with these.
    words(find(find(body, STATISTICS), QUEUE))
}

/// The value of the attribute of this kind; empty if there is none.
fn find(bytes: &[u8], kind: u16) -> &[u8] {
    attributes(bytes)
        .find(|(it, _)| *it == kind)
        .map_or(&[], |(_, value)| value)
}

/// The first words, zeros where there are fewer.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (chunks, _) = bytes.as_chunks::<4>();
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u32::from_ne_bytes(*chunk);
    }
    words
}
