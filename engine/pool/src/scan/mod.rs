//! Walking every block of a pool.
//!
//! [`walk`] visits each block once: datasets and snapshots are entered with the txg of the snapshot before them, below which
//! everything was visited there. [`verify`] checks what the walk finds against devices, space maps and accounting. `ordered` is the
//! walk of scrubs and resilvers, which goes in OpenZFS's order, stops anywhere and goes on from there; what runs them is in `writer`.
//!
//! ZFS name: dsl_scan, dmu_traverse.

pub(crate) mod find;
pub(crate) mod ordered;
pub mod roots;
pub mod verify;
pub mod walk;

pub use roots::{Root, RootKind, roots};
pub use verify::{
    Accounting, Damage, DeviceFaults, KeysOf, Leak, OnProgress, Options, Phase, Progress, Report, WrongReferences,
    verify, verify_with,
};
