//! The groups of the user at the other end of a Unix stream or seqpacket socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Supplementary groups that the peer had as it connected, by number: what the kernel noted then,
/// whoever has the peer's process number by now (unix(7), `SO_PEERCRED`; `SO_PEERGROUPS` since
/// Linux 4.13).
///
/// # Errors
/// Of the system: no connected Unix socket, or an older kernel.
#[expect(unsafe_code, reason = "no library offers SO_PEERGROUPS")]
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let fd = socket.as_fd().as_raw_fd();
    let mut groups: Vec<u32> = vec![0; 32];
    loop {
        let room = groups.len() * size_of::<u32>();
        let mut length = libc::socklen_t::try_from(room).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `length` bytes, which the vector has, and how many.
        let failed = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &mut length,
            )
        } != 0;
        let count = length as usize / size_of::<u32>();
        if !failed {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The kernel says how many there are.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_groups_are_those_of_the_process_that_connected() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        let own = line.unwrap().split_whitespace();
        let mut own: Vec<u32> = own.map(|group| group.parse().unwrap()).collect();
        let mut told = peer_groups(&ours).unwrap();
        own.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, own);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(peer_groups(&file).is_err());
    }
}
