//! Multihost protection (`multihost=on`): a pool on shared devices is written by one host at a
//! time. ZFS name: MMP, multi-modifier protection.
//!
//! ```text
//!   owner:      each interval, the last uberblock with another time ─> one label of one leaf
//!               none for ten intervals ─> suspended: nothing is written any more
//!   importer:   newest uberblock ─> waits twice that long, reading again ─> changed: refused
//!                                                                       └─> the same: claims the pool, then opens it
//! ```
//! Heartbeats have a slot of their own in each uberblock ring, which txgs leave free while
//! `multihost` is on ([`ondisk::label::MMP_SLOTS`]).
//!
//! `heartbeats` is the owner's side: it writes them, and moves the deadline of the pool's
//! [`Fence`](block::vdev::Fence), at which all devices refuse writes; `pace` says when. `activity`
//! is the importer's side. The txg engine knows three calls of [`Heartbeats`]: the fields of an
//! uberblock, that one was written, and the switch. Facts: module/zfs/mmp.c, and spa_activity_check
//! in module/zfs/spa.c.
//!
//! Invariants:
//!   * a host that waits as long as the uberblock requires, and sees no change, may write: the
//!     owner's deadline has passed by then, and it does not resume before it has waited just as
//!     long
//!   * of two importers that have waited, at most one passes: each writes its claim and finds its
//!     own after an interval

mod activity;
mod adapter;
mod heartbeats;
mod history;
mod pace;
mod settings;

pub use activity::{Activity, Owner, Unchanged, check, this_host_id};
pub(crate) use activity::{claim, is_active_elsewhere};
pub(crate) use heartbeats::{Heartbeats, MultihostPool};
pub use history::Heartbeat;
pub use settings::{INTERVAL_MS_MAX, INTERVAL_MS_MIN, Settings, set_settings, settings};
