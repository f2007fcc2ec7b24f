//! Damages pools in memory and looks at what comes out: devices missing, overwritten, cut short, single bits flipped,
//! contents made by an enemy.
//!
//! ```text
//!   image files -> Overlay (changed bytes) -> pool::search_devices -> Survey: every file as one line, or an error
//!                  Recorder (who reads what)                          held against the survey of the undamaged pool
//! ```
//! That the undamaged pool reads as OpenZFS recorded it is what `testing/oracle` proves.
//!
//! **Invariant: an image is never written to; all changes are in memory.**

pub mod chance;
pub mod flips;
pub mod image;
pub mod overlay;
pub mod places;
pub mod promises;
pub mod survey;

/// The scenario of that name, or an early return from the test with a printed line.
#[macro_export]
macro_rules! scenario_or_return {
    ($name:expr) => {
        match $crate::image::scenario($name) {
            Some(scenario) => scenario,
            None => return,
        }
    };
}
