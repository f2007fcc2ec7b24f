//! Everything that Weir requests from the machine: devices, the clock, randomness, the number of
//! processors, durable replacement of files, the counters of the machine.
//!
//! **Invariant: no crate above `host` opens a file that holds pool data, reads a clock or requests
//! randomness by itself**, so that a simulation can substitute its own. A device opened for reading
//! is never written.

pub mod clock;
pub mod device;
pub mod durable;
pub mod memory;
pub mod names;
pub mod pace;
pub mod proc;
pub mod random;
pub mod work;

/// Number of processors that this process may use. Determined by the first call and cached, because
/// querying Linux takes a dozen system calls.
pub fn processors() -> usize {
    static FOUND: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// The host name; `localhost` if none is set.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".into() } else { name.trim().to_owned() }
}

/// User ID of this process.
pub fn user() -> u32 {
    rustix::process::getuid().as_raw()
}
