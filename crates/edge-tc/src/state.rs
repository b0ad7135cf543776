//! What the programs know, read by the process: connections, controlled flows, counters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fairwater_edge::enforce::Limit;
use fairwater_edge::{EdgeStatistics, Exemption, FlowKey};
use fairwater_wire::{ParseError, Seq, VlanTags};
use libbpf_rs::{MapCore, MapFlags};

use crate::skeleton::types;
use crate::{Programs, TcError};

/// What the programs keep of an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The first byte of the guest's that is not acknowledged.
    pub una: Seq,
    /// The byte after the last that the guest sent.
    pub nxt: Seq,
    /// Maximum segment size of the guest's data, bytes of payload.
    pub mss: u32,
    /// When a packet of it passed last, ns of the monotonic clock.
    pub seen_ns: u64,
    /// What is done with it.
    pub fate: Fate,
}

/// What is done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No rule controls it.
    Passed,
    /// It is measured only.
    Exempt(Exemption),
    /// An algorithm controls it, by the frame of that slot.
    Controlled(u32),
}

/// What the programs keep of a controlled flow beside its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controlled {
    /// What the guest is limited by.
    pub limit: Limit,
    /// The furthest right edge that the guest was told.
    pub told: Seq,
    /// Whether ECN is spoken for the guest.
    pub translates_ecn: bool,
    /// Smoothed RTT between the port and the peer, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Least RTT between the port and the peer, µs; 0 before the first sample.
    pub min_rtt_us: u64,
    /// Packets that were marked with CE since the flow began.
    pub marked_packets: u64,
}

/// Reads a C struct; `None` if the length is another.
pub(crate) fn read<T: Copy>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != size_of::<T>() {
        return None;
    }
    #[expect(unsafe_code, reason = "the kernel gives bytes")]
    // SAFETY: as long as the struct, which is of integers alone; alignment does not matter.
    let value = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) };
    Some(value)
}

/// The bytes of a C struct of integers without padding.
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    #[expect(unsafe_code, reason = "the kernel takes bytes")]
    // SAFETY: a C struct without padding, alive as long as the slice.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>())
    }
}

impl types::connection {
    fn open(&self) -> Connection {
        let exempt = |exemption| Fate::Exempt(exemption);
        let fate = match types::fate(u32::from(self.fate)) {
            types::fate::CONTROLLED_FLOW => Fate::Controlled(self.slot),
            types::fate::EXEMPT_SIGNED => exempt(Exemption::Signed),
            types::fate::EXEMPT_MPTCP => exempt(Exemption::Mptcp),
            types::fate::EXEMPT_NATIVE_ECN => exempt(Exemption::NativeEcn),
            types::fate::EXEMPT_MIDWAY => exempt(Exemption::Midway),
            types::fate::EXEMPT_NO_ROOM => exempt(Exemption::NoRoom),
            _ => Fate::Passed,
        };
        Connection {
            una: Seq(self.una),
            nxt: Seq(self.nxt),
            mss: u32::from(self.mss),
            seen_ns: self.seen_ns,
            fate,
        }
    }
}

/// A flow's key in the kernel's form.
fn to_kernel(key: &FlowKey) -> types::key {
    let mut vlan = [0; 2];
    for (into, id) in vlan.iter_mut().zip(key.vlan.ids()) {
        *into = id | VLAN_PRESENT;
    }
    types::key {
        interface: key.interface,
        vlan,
        guest_port: key.guest.port(),
        peer_port: key.peer.port(),
        is_v6: key.guest.is_ipv6().into(),
        guest: words(key.guest.ip()),
        peer: words(key.peer.ip()),
    }
}

/// The key of a controlled flow's connection.
fn key_of(controlled: &types::controlled, frame: &types::frame) -> types::key {
    types::key {
        interface: controlled.interface,
        vlan: controlled.vlan,
        guest_port: frame.local_port,
        peer_port: frame.remote_port,
        is_v6: (i32::from(frame.family) == libc::AF_INET6).into(),
        guest: frame.local,
        peer: frame.remote,
    }
}

/// Bit of a VLAN identifier that is there.
pub(crate) const VLAN_PRESENT: u16 = 0x1000;

/// An address in network order; IPv4 in the first word.
pub(crate) fn words(address: IpAddr) -> [u32; 4] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes.copy_from_slice(&address.octets()),
    }
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|at| u32::from_ne_bytes(words[at]))
}

pub(crate) fn from_kernel(key: &types::key) -> FlowKey {
    let address = |words: [u32; 4]| -> IpAddr {
        if key.is_v6 == 0 {
            return Ipv4Addr::from(words[0].to_ne_bytes()).into();
        }
        let mut bytes = [0; 16];
        for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
            four.copy_from_slice(&word.to_ne_bytes());
        }
        Ipv6Addr::from(bytes).into()
    };
    let tags = key.vlan.iter().filter(|id| **id & VLAN_PRESENT != 0);
    FlowKey {
        interface: key.interface,
        vlan: tags.fold(VlanTags::NONE, |tags, id| tags.with(*id).unwrap_or(tags)),
        guest: SocketAddr::new(address(key.guest), key.guest_port),
        peer: SocketAddr::new(address(key.peer), key.peer_port),
    }
}

impl Programs {
    /// The connection of that key, if it is open.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn connection(&self, key: &FlowKey) -> Result<Option<Connection>, TcError> {
        let found = self
            .connections
            .lookup(bytes_of(&to_kernel(key)), MapFlags::ANY)
            .map_err(TcError::bpf("look a connection up"))?;
        let found = found.as_deref().and_then(read::<types::connection>);
        Ok(found.map(|connection| connection.open()))
    }

    /// The open connections; those that open or end meanwhile may be left out.
    pub fn connections(&self) -> impl Iterator<Item = (FlowKey, Connection)> + '_ {
        self.connections.keys().filter_map(|key| {
            let found = self.connections.lookup(&key, MapFlags::ANY).ok()??;
            let found = read::<types::connection>(&found)?;
            Some((from_kernel(&read(&key)?), found.open()))
        })
    }

    /// What is kept of the controlled flow of that slot, and its connection's key.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn controlled(&self, slot: u32) -> Result<Option<(FlowKey, Controlled)>, TcError> {
        let found = self
            .controlled
            .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
            .map_err(TcError::bpf("look a controlled flow up"))?;
        let Some(found) = found.as_deref().and_then(read::<types::controlled>) else {
            return Ok(None);
        };
        let limit = match found.enforcement.limit {
            u64::MAX => Limit::Released,
            bytes => Limit::Target(bytes),
        };
        let controlled = Controlled {
            limit,
            told: Seq(found.enforcement.told),
            translates_ecn: found.enforcement.translates_ecn != 0,
            srtt_us: found.sender.srtt_ns / 1_000,
            min_rtt_us: found.sender.min_rtt_ns / 1_000,
            marked_packets: found.marked_packets,
        };
        let frame = self
            .frames
            .lookup(&slot.to_ne_bytes(), MapFlags::ANY)
            .map_err(TcError::bpf("look a frame up"))?;
        let frame = frame
            .as_deref()
            .and_then(|frame| frame.get(..size_of::<types::frame>()));
        let Some(frame) = frame.and_then(read::<types::frame>) else {
            return Ok(None);
        };
        Ok(Some((from_kernel(&key_of(&found, &frame)), controlled)))
    }

    /// What the programs have seen, on all CPUs together.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn statistics(&self) -> Result<EdgeStatistics, TcError> {
        let mut statistics = EdgeStatistics::default();
        for (error, count) in ParseError::ALL.into_iter().zip(&mut statistics.unreadable) {
            *count = self.count(types::counter(error.index() as u32))?;
        }
        statistics.ignored = self.count(types::counter::IGNORED)?;
        statistics.resets_ignored = self.count(types::counter::RESETS_IGNORED)?;
        statistics.full = self.count(types::counter::FULL)?;
        statistics.policed = self.count(types::counter::POLICED)?;
        statistics.controlled = self.count(types::counter::CONTROLLED)?;
        statistics.exempt = self.count(types::counter::EXEMPT)?;
        Ok(statistics)
    }

    /// Packets that went to the process that buffers, and connections that found no room there.
    pub(crate) fn redirection_counts(&self) -> Result<(u64, u64), TcError> {
        Ok((
            self.count(types::counter::REDIRECTED)?,
            self.count(types::counter::BUFFER_FULL)?,
        ))
    }

    fn count(&self, counter: types::counter) -> Result<u64, TcError> {
        let per_cpu = self
            .counters
            .lookup_percpu(&counter.0.to_ne_bytes(), MapFlags::ANY)
            .map_err(TcError::bpf("read a counter"))?;
        let counts = per_cpu.unwrap_or_default();
        let counts = counts
            .iter()
            .filter_map(|count| count.as_chunks::<8>().0.first());
        Ok(counts.map(|count| u64::from_ne_bytes(*count)).sum())
    }
}
