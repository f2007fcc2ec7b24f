//! Walking every block of a pool.
//!
//! [`walk`] visits each block once: datasets and snapshots are entered with the txg of the snapshot before them, below which
//! everything was visited there. [`verify`] checks what the walk finds against devices, space maps and accounting.
//!
//! ZFS name: dsl_scan, dmu_traverse.

pub mod roots;
pub mod verify;
pub mod walk;

pub use roots::{Root, RootKind, roots};
pub use verify::{
    Accounting, Damage, DeviceFaults, Leak, OnProgress, Options, Phase, Progress, Report, WrongReferences, verify,
};
