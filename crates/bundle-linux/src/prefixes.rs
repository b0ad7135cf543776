//! Prefixes of bundles, as longest-prefix maps have them.

use std::net::IpAddr;

use fairwater_bundle::Prefix;
use fairwater_kernel::KernelError;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapMut};

/// The maps of both versions of IP.
#[derive(Debug)]
pub(crate) struct PrefixMaps {
    v4: MapHandle,
    v6: MapHandle,
}

impl PrefixMaps {
    pub(crate) fn new(v4: &MapMut<'_>, v6: &MapMut<'_>) -> Result<Self, KernelError> {
        let keep = |map| MapHandle::try_from(map).map_err(KernelError::bpf("keep a map"));
        Ok(Self {
            v4: keep(v4)?,
            v6: keep(v6)?,
        })
    }

    /// Maps a prefix to a bundle; `scope` comes before the address in the key.
    pub(crate) fn insert(
        &self,
        prefix: Prefix,
        scope: Option<u32>,
        bundle: u32,
    ) -> Result<(), KernelError> {
        let scope = scope.map(u32::to_ne_bytes);
        let scope = scope.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let bits = u32::from(prefix.length()) + 8 * u32::try_from(scope.len()).unwrap_or(0);
        let mut key = bits.to_ne_bytes().to_vec();
        key.extend(scope);
        let map = match prefix.address() {
            IpAddr::V4(address) => {
                key.extend(address.octets());
                &self.v4
            }
            IpAddr::V6(address) => {
                key.extend(address.octets());
                &self.v6
            }
        };
        map.update(&key, &bundle.to_ne_bytes(), MapFlags::ANY)
            .map_err(KernelError::bpf("tell the programs a prefix"))
    }
}
