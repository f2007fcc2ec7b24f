//! What Linux reports about the machine in /proc and /sys: memory and network devices.
//!
//! Facts: proc_meminfo(5), proc_pid_net(5), Documentation/ABI/testing/sysfs-class-net.

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
}
