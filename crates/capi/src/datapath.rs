//! Datapaths: made, joined to a plane, served, freed.

use core::ffi::{c_char, c_int, c_void};
use core::mem::size_of;

use fairwater_proto::Dialect;

use crate::error::fw_error::{self, FW_ERROR_ARGUMENT, FW_ERROR_BUSY};
use crate::flow::string;
use crate::handle::{enter, fw_datapath, guard, is_busy};
use crate::options::{fw_dialect, fw_link, fw_options};
use crate::session::Session;
use crate::sized::{Versioned, read, write};

/// The version of this library: 65536 × major + 256 × minor + patch.
#[unsafe(no_mangle)]
pub extern "C" fn fw_version() -> u32 {
    let mut version = 0_u32;
    for part in [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ] {
        version = version << 8 | part.parse::<u32>().unwrap_or(0);
    }
    version
}

/// Makes a datapath. The next step is fw_datapath_connect, or fw_datapath_attach for a transport
/// that carries the messages itself.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_SIZE; `*out` is then NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_new(
    options: *const fw_options,
    out: *mut *mut fw_datapath,
) -> fw_error {
    guard(|| {
        if out.is_null() {
            return Err(FW_ERROR_ARGUMENT);
        }
        // SAFETY: not NULL, and writable by the caller's promise.
        unsafe { out.write(core::ptr::null_mut()) };
        // SAFETY: the caller's promise.
        let session = unsafe {
            let options = read(options)?;
            Session::new(&options, string(options.name, "libfairwater")?)?
        };
        // SAFETY: as above.
        unsafe { out.write(Box::into_raw(Box::new(fw_datapath::new(session)))) };
        Ok(())
    })
}

/// Closes the link to the plane and frees the datapath, flows and all; no callback is called, and
/// the plane finds the flows gone. NULL is allowed and does nothing. FW_ERROR_BUSY from a callback:
/// nothing is freed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_free(datapath: *mut fw_datapath) -> fw_error {
    guard(|| {
        // SAFETY: not freed, by the caller's promise, when it is not NULL.
        match unsafe { datapath.as_ref() } {
            None => return Ok(()),
            Some(datapath) if is_busy(datapath) => return Err(FW_ERROR_BUSY),
            Some(_) => {}
        }
        // SAFETY: it comes from `fw_datapath_new`, is freed once, and no body runs on it.
        drop(unsafe { Box::from_raw(datapath) });
        Ok(())
    })
}

/// Joins the datapath to the plane at a path, by a link of its own. `link` is an fw_link; `path`
/// is copied. Once per datapath, before the first flow.
///
/// FW_ERROR_NO_PLANE when nobody answers there yet: the datapath is joined nevertheless, flows
/// may start, fw_datapath_service tries again, and `log` tells why. Otherwise FW_ERROR_ARGUMENT,
/// also for a path that is too long for a socket (107 bytes); FW_ERROR_STATE the second time;
/// FW_ERROR_IO when no file descriptors are left; nothing is changed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_connect(
    datapath: *mut fw_datapath,
    link: u32,
    path: *const c_char,
    now_us: u64,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            let link = match link {
                x if x == fw_link::FW_LINK_SEQPACKET as u32 => fw_link::FW_LINK_SEQPACKET,
                x if x == fw_link::FW_LINK_SHARED_MEMORY as u32 => fw_link::FW_LINK_SHARED_MEMORY,
                x if x == fw_link::FW_LINK_CCP_DATAGRAM as u32 => fw_link::FW_LINK_CCP_DATAGRAM,
                _ => return Err(FW_ERROR_ARGUMENT),
            };
            let path = string(path, "")?;
            session.connect(link, path, now_us)
        })
    }
}

/// Joins the datapath to a plane whose messages the transport carries itself: packets for the
/// plane go to the `send` callback, and the plane's come in by fw_datapath_receive. `dialect` is
/// an fw_dialect. Once per datapath, before the first flow.
///
/// FW_ERROR_ARGUMENT, also when there is no `send`; FW_ERROR_STATE the second time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_attach(
    datapath: *mut fw_datapath,
    dialect: u32,
    now_us: u64,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            let dialect = match dialect {
                x if x == fw_dialect::FW_DIALECT_FAIRWATER as u32 => Dialect::Own,
                x if x == fw_dialect::FW_DIALECT_CCP as u32 => Dialect::Ccp,
                _ => return Err(FW_ERROR_ARGUMENT),
            };
            session.attach(dialect, now_us)
        })
    }
}

/// A file descriptor to wait on: when it is readable, call fw_datapath_service. It stays the same
/// from fw_datapath_connect to fw_datapath_free; -1 before, and after fw_datapath_attach. It
/// belongs to the library: do not read from it or close it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_fd(datapath: *mut fw_datapath) -> c_int {
    let mut fd = -1;
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            fd = session.fd();
            Ok(())
        });
    }
    fd
}

/// The time on the transport's clock at which to call fw_datapath_service at the latest, if nothing
/// comes before; UINT64_MAX when there is no such time. It may change with every other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_next_timeout(datapath: *mut fw_datapath) -> u64 {
    let mut next = u64::MAX;
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            next = session.next_timeout();
            Ok(())
        });
    }
    next
}

/// Takes in what the plane sent, notices its silence or return, and sends what is due. Call it
/// when fw_datapath_fd is readable and at fw_datapath_next_timeout, or simply every 10 ms or so. It
/// does not block, but for making FW_LINK_SHARED_MEMORY: a plane then has 10 ms to answer. What the
/// plane asks for is applied at each flow's next fw_flow_ack.
///
/// FW_ERROR_PLANE_FULL for as long as the plane takes no more datapaths: the call has done all else,
/// and asks the plane again from time to time. FW_ERROR_STATE before fw_datapath_connect or
/// fw_datapath_attach. That the plane is gone is not an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_service(datapath: *mut fw_datapath, now_us: u64) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe { enter(datapath, |session| session.service(now_us)) }
}

/// Takes in one packet of the plane's, after fw_datapath_attach. What is wrong with it is
/// answered and counted (fw_datapath_statistics), and changes nothing.
///
/// FW_ERROR_ARGUMENT when `packet` is NULL; FW_ERROR_STATE without fw_datapath_attach.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_receive(
    datapath: *mut fw_datapath,
    packet: *const c_void,
    len: usize,
    now_us: u64,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            if packet.is_null() || len > isize::MAX as usize {
                return Err(FW_ERROR_ARGUMENT);
            }
            // SAFETY: not NULL, and `len` readable bytes by the caller's promise.
            let packet = core::slice::from_raw_parts(packet.cast(), len);
            session.receive(packet, now_us)
        })
    }
}

/// Counts since the datapath was made. Set `size` to sizeof(fw_statistics) before the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct fw_statistics {
    /// sizeof(fw_statistics).
    pub size: usize,
    /// Flows that are open now.
    pub flows: u64,
    /// Programs that are installed now.
    pub programs: u64,
    /// Reports that were queued for the plane.
    pub reports: u64,
    /// Reports that were dropped because the plane did not take them in time.
    pub reports_dropped: u64,
    /// Messages of the plane's that were refused; none of them changed anything.
    pub refused: u64,
    /// Times that a flow went under the fallback because the plane was silent.
    pub fallbacks: u64,
    /// Flows whose program was stopped for good because of what it did.
    pub faults: u64,
}

// SAFETY: `repr(C)`, `size` first, and integers all the way.
unsafe impl Versioned for fw_statistics {
    const FIRST: usize = size_of::<Self>();
}

/// Fills `out` with the datapath's counts.
///
/// FW_ERROR_ARGUMENT, FW_ERROR_SIZE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_datapath_statistics(
    datapath: *mut fw_datapath,
    out: *mut fw_statistics,
) -> fw_error {
    // SAFETY: the caller's promise.
    unsafe {
        enter(datapath, |session| {
            let counts = session.statistics();
            write(out, &counts)
        })
    }
}
