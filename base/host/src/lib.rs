//! Everything that Weir requests from the machine: devices, the clock, threads and their locks,
//! randomness, the number of processors, durable replacement of files, projects of
//! files, the counters of the machine.
//!
//! **Invariant: no crate of the engine opens a file that holds pool data, reads a clock, starts a
//! thread, waits for one, or requests randomness except through this crate**, so that a simulated
//! [`Machine`] can replace them (`engine/clippy.toml` lists what it would bypass). A device opened
//! for reading is never written.

pub mod channel;
pub mod clock;
pub mod device;
pub mod durable;
pub mod machine;
pub mod memory;
pub mod names;
pub mod pace;
pub mod peer;
pub mod proc;
pub mod project;
pub mod random;
pub mod sync;
pub mod threads;
pub mod work;

pub use machine::Machine;

/// Number of processors that this process may use. Determined by the first call and cached, because
/// querying Linux takes a dozen system calls.
pub fn processors() -> usize {
    if let Some(machine) = Machine::simulated() {
        return machine.threads.processors();
    }
    static FOUND: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// The operating system's text for an error, without the error's number.
pub fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The host name; `localhost` if none is set.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".into() } else { name.trim().to_owned() }
}

/// The host ID: `$ZFS_HOSTID` if it is set, for tests; the one that was given to OpenZFS's kernel
/// module, if that is loaded; then the one in /etc/hostid. `None` without any. Never the ID that
/// gethostid(3) makes of an address. Facts: get_system_hostid in lib/libspl/os/linux/gethostid.c.
pub fn id() -> Option<u32> {
    if let Some(given) = std::env::var_os("ZFS_HOSTID") {
        return parse_id(given.to_str()?);
    }
    let of_module = std::fs::read_to_string("/proc/sys/kernel/spl/hostid").ok();
    let of_module = of_module.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    if let Some(id) = of_module.filter(|id| *id != 0) {
        return Some(id as u32);
    }
    let bytes = std::fs::read("/etc/hostid").ok()?;
    bytes.first_chunk().map(|id| u32::from_le_bytes(*id))
}

/// A number as strtoull(3) reads it: hexadecimal after `0x`, octal after `0`, otherwise decimal.
fn parse_id(text: &str) -> Option<u32> {
    let text = text.trim();
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(rest), _) => (rest, 16),
        (None, Some(rest)) if !rest.is_empty() => (rest, 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok().map(|id| id as u32)
}

/// User ID of this process.
pub fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Effective user and group ID of this process: the owner of what it creates.
pub fn creator() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

#[cfg(test)]
mod tests {
    #[test]
    fn host_ids_are_read_in_three_bases() {
        let ids = ["0x01234567", "19088743", "010", "0", "0xffffffff", "x"].map(super::parse_id);
        assert_eq!(ids, [Some(0x0123_4567), Some(0x0123_4567), Some(8), Some(0), Some(u32::MAX), None]);
    }
}
