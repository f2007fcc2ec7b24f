//! All that Weir asks of the machine: devices, the clock, the number of processors.
//!
//! **Invariant: nothing above `host` opens a file that holds pool data, reads a clock or asks for randomness by itself**,
//! so that a simulation can put its own in place. A device opened for reading is never written.

pub mod device;
pub mod random;

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
