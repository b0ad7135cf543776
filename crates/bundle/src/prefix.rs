//! Prefixes of addresses, and the bundle that an address belongs to: the longest prefix wins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use crate::BundleError;

/// A prefix of IPv4 or IPv6 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    is_v6: bool,
    /// The address's bits from the top, those after the prefix 0.
    bits: u128,
    length: u8,
}

impl Prefix {
    /// The first `length` bits of an address; `None` if it has fewer.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let width = if address.is_ipv6() { 128 } else { 32 };
        (length <= width).then(|| Self {
            is_v6: address.is_ipv6(),
            bits: bits_of(address) & mask(length),
            length,
        })
    }

    /// The first address, and how many bits of it the prefix has.
    #[must_use]
    pub fn parts(&self) -> (IpAddr, u8) {
        let address = if self.is_v6 {
            IpAddr::V6(self.bits.into())
        } else {
            IpAddr::V4(((self.bits >> 96) as u32).into())
        };
        (address, self.length)
    }

    /// Whether the address has this prefix.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::new(address, self.length) == Some(*self)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, length) = self.parts();
        write!(f, "{address}/{length}")
    }
}

/// From prefixes to bundles.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrefixTable {
    bundles: BTreeMap<Prefix, usize>,
    /// Lengths that occur, per version of IP.
    lengths: [BTreeSet<u8>; 2],
}

impl PrefixTable {
    /// Adds a prefix.
    ///
    /// # Errors
    /// [`BundleError::Prefix`] if there is one like it.
    pub(crate) fn insert(&mut self, prefix: Prefix, bundle: usize) -> Result<(), BundleError> {
        if self.bundles.insert(prefix, bundle).is_some() {
            return Err(BundleError::Prefix(prefix));
        }
        self.lengths[usize::from(prefix.is_v6)].insert(prefix.length);
        Ok(())
    }

    /// The bundle of the longest prefix of the address. Takes time in the number of different lengths.
    pub(crate) fn get(&self, address: IpAddr) -> Option<usize> {
        let is_v6 = address.is_ipv6();
        let bits = bits_of(address);
        let lengths = self.lengths[usize::from(is_v6)].iter().rev();
        lengths
            .filter_map(|&length| {
                let bits = bits & mask(length);
                self.bundles.get(&Prefix {
                    is_v6,
                    bits,
                    length,
                })
            })
            .copied()
            .next()
    }
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const fn mask(length: u8) -> u128 {
    match length {
        0 => 0,
        length => u128::MAX << (128 - length as u32),
    }
}
