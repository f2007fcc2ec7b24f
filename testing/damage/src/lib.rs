//! Damages pools in memory and examines the result: devices that are missing, overwritten or
//! truncated, flipped bits, hostile contents.
//!
//! ```text
//!   image files -> Overlay (changed bytes), Recorder (who reads what) -> pool::search_devices
//!     -> Survey: every file as one line, or an error; compared with that of the undamaged pool
//! ```
//! `testing/oracle` checks that the undamaged pool reads as OpenZFS recorded it.
//!
//! **Invariant: images are never written to; all changes are in memory.**

pub mod flips;
pub mod image;
pub mod overlay;
pub mod places;
pub mod promises;
pub mod survey;

/// Returns the scenario of that name. If it is missing, prints a line and returns from the test.
#[macro_export]
macro_rules! scenario_or_return {
    ($name:expr) => {
        match $crate::image::scenario($name) {
            Some(scenario) => scenario,
            None => return,
        }
    };
}
