//! Walking every block of a pool.
//!
//! [`walk`] visits each block once: in a dataset or snapshot it skips blocks born up to the txg of
//! the previous snapshot, which were visited there. [`verify`] checks the blocks that the walk
//! finds against devices, space maps and accounting. `dsl_scan` is the walk of scrubs and
//! resilvers: it uses OpenZFS's order, and can stop anywhere and resume from there. `live` runs
//! them.
//!
//! ZFS name: dsl_scan, dmu_traverse.

pub(crate) mod dsl_scan;
pub(crate) mod find;
pub(crate) mod live;
pub mod roots;
pub mod verify;
pub mod walk;

pub use roots::{Root, RootKind, roots};
pub use verify::{
    Accounting, Damage, DeviceFaults, KeysOf, Leak, OnProgress, Options, Phase, Progress, Report, WrongReferences,
    verify, verify_with,
};
