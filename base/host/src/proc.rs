//! What Linux reports about the machine in /proc and /sys: memory, network devices, and the users
//! that threads run as.
//!
//! Facts: proc_meminfo(5), proc_pid_net(5), proc_pid_status(5),
//! Documentation/ABI/testing/sysfs-class-net.

/// The number after `name` at the start of a line.
pub fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The value of a line of /proc/meminfo, such as `MemTotal:`, in bytes.
pub fn memory_bytes(text: &str, line: &str) -> Option<f64> {
    field(text, line).map(|kib| kib * 1024.0)
}

/// The devices of /proc/net/dev and their counters. Receive: bytes packets errs drop fifo frame
/// compressed multicast; transmit: bytes packets errs drop fifo colls carrier compressed.
pub fn network_devices(text: &str) -> Vec<(String, Vec<u64>)> {
    let device = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let counters: Vec<u64> = rest.split_ascii_whitespace().map_while(|w| w.parse().ok()).collect();
        (counters.len() >= 16).then(|| (name.trim().to_owned(), counters))
    };
    text.lines().filter_map(device).collect()
}

/// Speed of a network device in one direction in bytes per second, if it reports one.
pub fn network_speed_bytes(name: &str) -> Option<f64> {
    // In Mbit/s; a device without a speed reports -1 or nothing.
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    text.trim().parse::<f64>().ok().filter(|mbit| *mbit > 0.0).map(|mbit| mbit * 125_000.0)
}

/// Whether a network device is half duplex.
pub fn is_half_duplex(name: &str) -> bool {
    std::fs::read_to_string(format!("/sys/class/net/{name}/duplex")).is_ok_and(|text| text.trim() == "half")
}

/// The user that a thread accesses files as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUser {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// The user of a thread, from its /proc/TID/status. `None`: a line is missing or malformed.
pub fn file_user(text: &str) -> Option<FileUser> {
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().map(|id| id.parse().ok()).collect()
    };
    // Real, effective, saved, and that of the file system.
    let last = |name| numbers(name).filter(|ids| ids.len() == 4).map(|ids| ids[3]);
    Some(FileUser { uid: last("Uid:")?, gid: last("Gid:")?, groups: numbers("Groups:")? })
}

/// The supplementary groups of the thread `tid`, which must be blocked until this returns. `None`
/// if they are unknown: the thread does not access files as `uid` and `gid`, or /proc belongs to
/// another PID namespace, in which the number is that of another thread.
pub fn groups_of_thread(tid: u32, uid: u32, gid: u32) -> Option<Vec<u32>> {
    let own = std::fs::read_link("/proc/self").ok()?;
    if own.to_str()?.parse() != Ok(std::process::id()) {
        return None;
    }
    let user = file_user(&std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?)?;
    (user.uid == uid && user.gid == gid).then_some(user.groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_linux_become_numbers() {
        let text = "MemTotal:        2 kB\nMemFree: 1 kB\n";
        assert_eq!(
            [memory_bytes(text, "MemTotal:"), memory_bytes(text, "MemFree:"), memory_bytes(text, "Swap:")],
            [Some(2048.0), Some(1024.0), None]
        );
        let text = "Inter-|   Receive    |  Transmit\n face |bytes\n  eth0: 2048 2 1 0 3 0 0 0 10240 10 0 1 0 4 0 0\n    lo:5 1\n";
        let all = network_devices(text);
        assert_eq!(all.len(), 1, "a line without all counters is not a device");
        assert_eq!((all[0].0.as_str(), all[0].1[0], all[0].1[8]), ("eth0", 2048, 10_240));
    }

    #[test]
    fn users_of_threads_are_those_that_files_see() {
        let text = "Name:\tmkdir\nUid:\t1 2 3 4\nGid:\t5 6 7 8\nFDSize:\t64\nGroups:\t10 20 \n";
        assert_eq!(file_user(text), Some(FileUser { uid: 4, gid: 8, groups: vec![10, 20] }));
        assert_eq!(file_user(&text.replace("10 20", "")).map(|user| user.groups), Some(vec![]));
        for damaged in ["Uid:", "Gid:", "Groups:"] {
            assert_eq!(file_user(&text.replace(damaged, "x")), None, "{damaged}");
        }
        assert_eq!(file_user(&text.replace("5 6 7 8", "5 6")), None);
    }

    #[test]
    fn groups_are_those_of_the_thread_only_if_it_has_the_user() {
        let own = file_user(&std::fs::read_to_string("/proc/thread-self/status").expect("readable")).expect("a user");
        let link = std::fs::read_link("/proc/thread-self").expect("a link");
        let tid = link.file_name().and_then(|tid| tid.to_str()?.parse().ok()).expect("a number");
        assert_eq!(groups_of_thread(tid, own.uid, own.gid), Some(own.groups));
        assert_eq!(groups_of_thread(tid, own.uid + 1, own.gid), None);
        assert_eq!(groups_of_thread(tid, own.uid, own.gid + 1), None);
        assert_eq!(groups_of_thread(0, own.uid, own.gid), None);
    }
}
