//! What can be told of an open pool: numbers, states, properties, history, known errors.
//!
//! Below: the MOS. Above: `admin`, which shows them.

mod errors;
mod history;
mod properties;
mod stats;
mod vdevs;
mod work;

pub use errors::LoggedError;
pub(crate) use stats::metaslab_fragmentation;
pub(crate) use vdevs::{device_state, state_number};
