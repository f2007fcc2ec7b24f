//! A pool open for writing: one owner moves txgs through open, quiescing and syncing.
//!
//! Below: `object` (live object sets), `space` (the allocator), `block` (blocks and labels). Above:
//! datasets take part in txgs as [`Participant`]s, administration runs [`Writer::task`]s. ZFS
//! names: spa_sync, txg, dsl_sync_task.
//!
//! ```text
//!   begin()  ── transactions ──>  open txg n+1
//!                                     │ every 5 s, at a dirty limit, or on demand: gate closes, changes are handed over
//!                                     v
//!   one thread:  participants' object sets ─> tasks ─> space maps and MOS, pass by pass, until nothing is dirty
//!                ─> flush ─> even labels ─> uberblock ─> odd labels ─> n is synced, waiting threads continue
//! ```
//!
//! Layers, from the bottom up:
//!   * the state of each feature (`state` in `scan::live`, `trim`, `expansion`, `removal`,
//!     `checkpoint`)
//!   * the parts of the shared state: `progress` of txgs, `live_config`, `background_state`,
//!     `accounting`
//!   * `spa`, which holds all of it; `txg`: transactions, tasks, waiting
//!   * `background`: what the txg engine asks of features that work in the background
//!   * devices and their objects: `vdevs`, `tree`, `maps`, `label`
//!   * the features, which change the pool in tasks and in the background
//!   * `txg::sync`, which calls the participants and the work in the background
//!   * `lifecycle`, `open`, `create`
//!
//! Invariants:
//!   * only the syncing thread changes the MOS
//!   * an uberblock is written only after everything that it leads to was flushed
//!   * after an error in the middle of a txg nothing more is written: the pool is suspended in the
//!     state of the last synced txg

mod accounting;
mod add;
mod attach;
pub(crate) mod background;
mod background_state;
mod caches;
mod config;
mod create;
mod deflate;
pub(crate) mod detach;
pub(crate) mod dtl;
mod events;
pub(crate) mod exclusion;
pub(crate) mod farewell;
mod features;
mod freeze;
pub(crate) mod grow;
mod history;
mod identity;
pub(crate) mod label;
mod lifecycle;
mod live_config;
pub(crate) mod maps;
pub(crate) mod mos;
pub(crate) mod new_leaf;
mod open;
mod props;
mod remove;
mod shape;
pub(crate) mod spa;
mod space;
mod split;
mod states;
pub(crate) mod tree;
mod vdev_props;
pub(crate) mod vdevs;
mod version;
mod view_cache;
mod views;
pub(crate) mod writable;

pub use crate::feature::{can_write, default_features, is_called};
pub(crate) use crate::removal::{RANGE_BYTES_MAX, SPAN_BYTES_MAX};
pub(crate) use crate::scan::live::Figures as ScanFigures;
pub use crate::scan::live::{ScanActivity, ScanAnswer, ScanRefused};
pub(crate) use crate::trim::read_work;
pub use crate::trim::{Order, Work, WorkRefused, WorkState};
pub use crate::txg::stats::{Phase, TxgStats};
pub use attach::Joins;
pub use create::{CreatePool, check_features};
pub use new_leaf::NewLeaf;
pub(crate) use spa::Shared;
pub use spa::{ClaimLogs, Participant, SyncTx, WriteOptions, Writer};
pub use split::OwnedOpener;
pub use states::{Lasts, Opener};
pub use vdevs::{NewAuxiliary, NewDevices, NewDraid, NewVdev};
pub use version::{VERSION_FEATURES, VERSION_LAST_NUMBERED, is_version};
