//! What an open pool reports: statistics, device states, properties, history, known errors.
//!
//! Below: the MOS. Above: `admin`, which prints it.

mod error_log;
mod history;
mod properties;
mod stats;
mod vdevs;
mod work;

pub use error_log::LoggedError;
pub(crate) use vdevs::{device_state, state_number};
