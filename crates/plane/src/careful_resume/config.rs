//! What an operator chooses.

use std::time::Duration;

use thiserror::Error;

/// How a plane resumes carefully.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarefulResumeConfig {
    /// How long an observation may be used (RFC 9959 §4.3.1): minutes where paths or their load change,
    /// hours where they do not.
    pub lifetime: Duration,
    /// The most that a flow's window is raised to, bytes: `max_jump` of RFC 9959 §3.3.
    pub max_jump: u64,
    /// Bits of an IPv4 address that tell one path from another, 1 to 32. RFC 9959 §2.2 has whole
    /// addresses; fewer bits take the hosts of a network for one.
    pub ipv4_prefix: u8,
    /// Bits of an IPv6 address that do, 1 to 128. Hosts change the lower 64 (RFC 8981).
    pub ipv6_prefix: u8,
    /// The most paths that are remembered, about 150 bytes each; the one that was observed longest ago
    /// gives way. At least 1.
    pub max_paths: usize,
}

impl Default for CarefulResumeConfig {
    /// 10 minutes, 4 MiB, single IPv4 addresses and IPv6 networks of 64 bits, 16,384 paths.
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(600),
            max_jump: 4 << 20,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            max_paths: 1 << 14,
        }
    }
}

/// Why a configuration of Careful Resume is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidCarefulResume {
    /// A lifetime of nothing, or of more than a week.
    #[error("the lifetime is out of range: it must be 1 s to 7 days")]
    Lifetime,
    /// A jump of nothing, or of more than a GiB.
    #[error("the largest jump is out of range: it must be 1 byte to 1 GiB")]
    MaxJump,
    /// A prefix longer than an address, or empty.
    #[error("the prefix is out of range: it must be 1 to 32 bits of IPv4, 1 to 128 of IPv6")]
    Prefix,
    /// No path, or more than 2²⁰.
    #[error("the number of paths is out of range: it must be 1 to 1,048,576")]
    MaxPaths,
}

impl CarefulResumeConfig {
    /// Whether the values make sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), InvalidCarefulResume> {
        const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
        if !(Duration::from_secs(1)..=WEEK).contains(&self.lifetime) {
            return Err(InvalidCarefulResume::Lifetime);
        }
        if !(1..=1 << 30).contains(&self.max_jump) {
            return Err(InvalidCarefulResume::MaxJump);
        }
        if !(1..=32).contains(&self.ipv4_prefix) || !(1..=128).contains(&self.ipv6_prefix) {
            return Err(InvalidCarefulResume::Prefix);
        }
        if !(1..=1 << 20).contains(&self.max_paths) {
            return Err(InvalidCarefulResume::MaxPaths);
        }
        Ok(())
    }
}
