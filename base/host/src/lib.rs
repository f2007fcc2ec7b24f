//! All that Weir asks of the machine: devices, the clock, the number of processors.
//!
//! **Invariant: nothing above `host` opens a file that holds pool data, reads a clock or asks for randomness by itself**,
//! so that a simulation can put its own in place. A device opened for reading is never written.

pub mod clock;
pub mod device;
pub mod memory;
pub mod names;
pub mod random;

/// Processors that this process may use, as they were when it was first asked: to ask Linux takes a dozen system calls.
pub fn processors() -> usize {
    static FOUND: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// This machine's name.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".into() } else { name.trim().to_owned() }
}

/// Number of the user that runs this process.
pub fn user() -> u32 {
    rustix::process::getuid().as_raw()
}
