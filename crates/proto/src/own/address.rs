//! An address and port, of either family, in 28 bytes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::error::{DecodeErrorKind, ErrorAt};
use crate::fixed::{Fixed, FixedMut};

pub(super) const BYTES: usize = 28;

pub(super) fn encode(address: SocketAddr) -> [u8; BYTES] {
    let fixed = FixedMut::<BYTES>::new().u16::<2>(address.port());
    match address {
        SocketAddr::V4(v4) => fixed.u8::<0>(4).array::<12, 4>(v4.ip().octets()),
        SocketAddr::V6(v6) => fixed
            .u8::<0>(6)
            .u32::<4>(v6.flowinfo())
            .u32::<8>(v6.scope_id())
            .array::<12, 16>(v6.ip().octets()),
    }
    .0
}

/// Flaws are told from the address's beginning.
pub(super) fn decode(bytes: &[u8; BYTES]) -> Result<SocketAddr, ErrorAt> {
    let fixed = Fixed(bytes);
    let port = fixed.u16::<2>();
    let address = match fixed.u8::<0>() {
        4 => {
            let address = Ipv4Addr::from(fixed.array::<12, 4>());
            SocketAddr::new(IpAddr::V4(address), port)
        }
        6 => SocketAddr::V6(SocketAddrV6::new(
            Ipv6Addr::from(fixed.array::<12, 16>()),
            port,
            fixed.u32::<4>(),
            fixed.u32::<8>(),
        )),
        _ => return Err(DecodeErrorKind::Value.at(0)),
    };
    // Of two encodings of one address only the one that is written is read.
    if encode(address) == *bytes {
        Ok(address)
    } else {
        Err(DecodeErrorKind::Value.at(1))
    }
}
