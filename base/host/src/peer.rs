//! The process at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Maximum number of groups of a process on Linux (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;
/// Room for the groups of most processes.
const GROUPS_USUAL: usize = 64;

/// The supplementary groups of the process that connected the socket, as they were then.
#[allow(unsafe_code)]
pub fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; GROUPS_USUAL];
    loop {
        let mut bytes = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: `socket` is open for the duration of the call, and `groups` has `bytes` writable
        // bytes, of which the kernel writes as many as it says in `bytes`.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        let error = io::Error::last_os_error();
        match failed {
            0 => {
                groups.truncate(count);
                return Ok(groups);
            }
            // There are more: the kernel has said how many.
            _ if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() && count <= GROUPS_MAX => {
                groups.resize(count, 0);
            }
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_groups_of_this_process_are_those_in_proc() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let status = std::fs::read_to_string("/proc/self/status").expect("readable");
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).expect("a line");
        let mut expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().expect("a number")).collect();
        let mut found = super::groups(ours.as_fd()).expect("known");
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
