//! Chance, where a source asks for it: drawn from what identifies the flow, so that equal runs stay
//! equal and flows that begin together part.

use std::net::IpAddr;

use fairwater_plane::FlowInfo;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A flow's stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Draws(ChaCha8Rng);

impl Draws {
    /// The stream of this flow.
    pub(crate) fn of(info: &FlowInfo) -> Self {
        let address = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let (local, remote) = (info.local, info.remote);
        let ends = address(local.ip()).to_bits() ^ address(remote.ip()).to_bits().rotate_left(64);
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&info.now_us.to_le_bytes());
        seed[8..10].copy_from_slice(&local.port().to_le_bytes());
        seed[10..12].copy_from_slice(&remote.port().to_le_bytes());
        seed[12..16].copy_from_slice(&info.tag.to_le_bytes());
        seed[16..].copy_from_slice(&ends.to_le_bytes());
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// From 0 to `most`, each as likely.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        self.0.random_range(0..=most)
    }
}
