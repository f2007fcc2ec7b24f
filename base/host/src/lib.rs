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

/// The host name; `localhost` if none is set.
pub fn name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".into() } else { name.trim().to_owned() }
}

/// The host ID in /etc/hostid, as gethostid(3) reads it; `None` without that file.
pub fn id() -> Option<u32> {
    let bytes = std::fs::read("/etc/hostid").ok()?;
    bytes.first_chunk().map(|id| u32::from_le_bytes(*id))
}

/// User ID of this process.
pub fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Effective user and group ID of this process: the owner of what it creates.
pub fn creator() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}
