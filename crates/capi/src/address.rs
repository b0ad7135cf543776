//! Addresses of a flow's two ends.

use core::ffi::{c_int, c_void};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::{mem, ptr};

use crate::fw_error;
use crate::fw_error::FW_ERROR_ARGUMENT;
use crate::handle::guard;

/// An address and port. All zero when they are not known.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct fw_address {
    /// 4 for IPv4, 6 for IPv6, 0 for none.
    pub version: u16,
    /// The port, in the host's byte order.
    pub port: u16,
    /// The address in network byte order: the first 4 bytes for IPv4, all 16 for IPv6.
    pub ip: [u8; 16],
}

impl TryFrom<fw_address> for SocketAddr {
    type Error = fw_error;

    fn try_from(address: fw_address) -> Result<Self, fw_error> {
        let [a, b, c, d, ..] = address.ip;
        let ip = match address.version {
            0 => return Ok(Self::from((Ipv4Addr::UNSPECIFIED, 0))),
            4 => IpAddr::from(Ipv4Addr::new(a, b, c, d)),
            6 => IpAddr::from(Ipv6Addr::from(address.ip)),
            _ => return Err(FW_ERROR_ARGUMENT),
        };
        Ok(Self::new(ip, address.port))
    }
}

/// Fills `out` from a `struct sockaddr_in` or `struct sockaddr_in6` of `len` bytes, as getsockname
/// and getpeername give it. FW_ERROR_ARGUMENT for NULL, another family, or too short a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_address_from_sockaddr(
    sockaddr: *const c_void,
    len: usize,
    out: *mut fw_address,
) -> fw_error {
    guard(|| {
        if sockaddr.is_null() || out.is_null() || len < mem::size_of::<libc::sockaddr>() {
            return Err(FW_ERROR_ARGUMENT);
        }
        // SAFETY: not NULL, and there are as many bytes as a `sockaddr` has.
        let family = unsafe { ptr::read_unaligned(sockaddr.cast::<libc::sockaddr>()) }.sa_family;
        let mut address = fw_address::default();
        match c_int::from(family) {
            libc::AF_INET if len >= mem::size_of::<libc::sockaddr_in>() => {
                // SAFETY: there are as many bytes, and any are a `sockaddr_in`.
                let inet = unsafe { ptr::read_unaligned(sockaddr.cast::<libc::sockaddr_in>()) };
                address.version = 4;
                address.port = u16::from_be(inet.sin_port);
                address.ip[..4].copy_from_slice(&inet.sin_addr.s_addr.to_ne_bytes());
            }
            libc::AF_INET6 if len >= mem::size_of::<libc::sockaddr_in6>() => {
                // SAFETY: there are as many bytes, and any are a `sockaddr_in6`.
                let inet = unsafe { ptr::read_unaligned(sockaddr.cast::<libc::sockaddr_in6>()) };
                address.version = 6;
                address.port = u16::from_be(inet.sin6_port);
                address.ip = inet.sin6_addr.s6_addr;
            }
            _ => return Err(FW_ERROR_ARGUMENT),
        }
        // SAFETY: not NULL, and the caller promises that it is writable.
        unsafe { out.write(address) };
        Ok(())
    })
}
