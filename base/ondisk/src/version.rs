//! Versions of pools before feature flags, named by what is known from them on.
//!
//! A pool of version N has everything of the versions up to N; with feature flags (version 5000) it
//! has all of them. Source: `SPA_VERSION_*` in include/sys/fs/zfs.h.

/// Blocks have up to three copies. Before, all have one.
pub const DITTO_BLOCKS: u64 = 2;
/// Hot spares.
pub const SPARES: u64 = 3;
/// Raidz with two parity devices.
pub const RAIDZ2: u64 = 3;
/// Lists of block pointers count logical sizes.
pub const BPOBJ_ACCOUNT: u64 = 3;
/// Space of datasets is counted without parity.
pub const RAIDZ_DEFLATE: u64 = 3;
/// Dnodes count their space in bytes. Before: in sectors of 512 bytes.
pub const DNODE_BYTES: u64 = 3;
/// The history of the pool.
pub const HISTORY: u64 = 4;
/// Compression with gzip.
pub const GZIP: u64 = 5;
/// The pool property `bootfs`.
pub const BOOTFS: u64 = 6;
/// Separate log devices.
pub const LOGS: u64 = 7;
/// `zfs allow`.
pub const DELEGATION: u64 = 8;
/// The properties `refquota` and `refreservation`.
pub const REFQUOTA: u64 = 9;
/// Heads count exactly what they alone reference.
pub const UNIQUE_ACCURATE: u64 = 9;
/// Cache devices.
pub const CACHES: u64 = 10;
/// Snapshots list their clones.
pub const NEXT_CLONES: u64 = 11;
/// Every dataset descends from the empty snapshot `$ORIGIN@$ORIGIN`.
pub const ORIGIN: u64 = 11;
/// Snapshots have properties.
pub const SNAPSHOT_PROPERTIES: u64 = 12;
/// Directories count their space by use.
pub const USED_BREAKDOWN: u64 = 13;
/// The value `passthrough-x` of `aclinherit`.
pub const PASSTHROUGH_X: u64 = 14;
/// Space by user and group.
pub const USERSPACE: u64 = 15;
/// Raidz with three parity devices.
pub const RAIDZ3: u64 = 17;
/// Holds on snapshots, and deferred destruction.
pub const USER_HOLDS: u64 = 18;
/// Log devices can be removed: holes among the top-level devices.
pub const HOLES: u64 = 19;
/// Compression with zle.
pub const ZLE: u64 = 20;
/// Deduplication.
pub const DEDUP: u64 = 21;
/// Received properties are kept apart from local ones.
pub const RECEIVED_PROPERTIES: u64 = 22;
/// Blocks of the intent log begin with their header.
pub const SLIM_ZIL: u64 = 23;
/// System attributes, and spill blocks.
pub const SYSTEM_ATTRIBUTES: u64 = 24;
/// Directories list the clones of their snapshots.
pub const DIR_CLONES: u64 = 26;
/// Deadlists are sorted by birth, and the pool frees destroyed snapshots in later txgs.
pub const DEADLISTS: u64 = 26;
/// Snapshots may have an intent log in their root block.
pub const FAST_SNAPSHOTS: u64 = 27;
/// A device that is being replaced can be replaced again.
pub const MULTI_REPLACE: u64 = 28;
/// The last version before feature flags.
pub const LAST_NUMBERED: u64 = 28;
