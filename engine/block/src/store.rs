//! The store: a pool's vdev tree with a cache in front. Reads take a block pointer and return
//! verified contents; writes take contents and return a pointer.
//!
//! ```text
//!   Store       reads and verifies              every pool has one
//!   WriteStore  a Store, and what writing needs: the allocator, the tables of shared blocks, the
//!               writes on their way             only a pool that is open for writing has one
//! ```
//!
//! This file has the state that reading needs; [`write_store`] has the rest. The operations, which
//! work through `zio`, are in [`read`], [`verify`], [`write`](mod@write) and [`repair`].
//!
//! Below: `vdev`, `arc`, `l2`. Above: `zio`, then the operations, then `object`.
//!
//! Invariants:
//!   * a `Store` never changes what is stored: code that has no `WriteStore` cannot allocate, write
//!     or free a block
//!   * a `Store` refers to no `WriteStore`, so the objects that decide about space may be read
//!     through it

mod metrics;
mod read;
mod repair;
mod verify;
mod write;
mod write_store;

pub use write_store::{OnWriteFailure, WriteStore};

use crate::arc::{Arc as Cache, Key};
use crate::inject::Injection;
use crate::l2::L2;
use crate::vdev::{Fence, Kind, Leaf, Tree, Vdev};
use crate::zevent::Reporter;
use crate::{Bookmark, zio};
use host::device::Device;
use host::sync::RwLock;
use ondisk::BlkPtr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool's blocks, for reading.
///
/// Writing needs a [`WriteStore`]:
///
/// ```compile_fail,E0599
/// fn free(store: &block::Store, bp: &ondisk::BlkPtr) {
///     store.free(1, bp).unwrap();
/// }
/// ```
pub struct Store {
    name: String,
    tree: RwLock<Arc<Tree>>,
    cache: Cache,
    injection: Injection,
    second: Arc<L2>,
    reporter: Arc<Reporter>,
    fence: Arc<Fence>,
    salt: RwLock<Option<Arc<zio::Salt>>>,
    prefetcher: zio::Prefetcher,
    /// Notified of bad blocks.
    watch: RwLock<Option<Arc<dyn Watch>>>,
    /// Number of reads and writes so far that a caller waits for.
    demand: AtomicU64,
}

/// Is notified of bad blocks by the threads that read them. Its methods must return at once.
pub trait Watch: Send + Sync {
    /// The block was read, but at least one of the copies or columns that were read was bad.
    fn met_bad(&self, bp: &BlkPtr, at: &Bookmark);
    /// The block cannot be read.
    fn lost(&self, bp: &BlkPtr, at: &Bookmark);
}

/// Makes the leaves of a tree those of the store with this reporter and fence.
fn join(tree: &Tree, reporter: &Arc<Reporter>, fence: &Arc<Fence>) {
    for leaf in tree.all_leaves() {
        leaf.report_to(reporter);
        leaf.keep_to(fence);
    }
}

impl Store {
    /// A store over `tree`, with a cache of at most `cache_bytes`. `name` is the pool's name, used
    /// in messages.
    pub fn new(name: String, tree: Tree, cache_bytes: u64) -> Arc<Self> {
        let injection = Injection::default();
        injection.govern(&tree);
        let (reporter, fence) = (Reporter::new(&name), Arc::default());
        join(&tree, &reporter, &fence);
        Arc::new(Self {
            name,
            tree: RwLock::new(Arc::new(tree)),
            cache: Cache::new(cache_bytes),
            injection,
            second: Arc::default(),
            reporter,
            fence,
            salt: RwLock::new(None),
            prefetcher: zio::Prefetcher::default(),
            watch: RwLock::default(),
            demand: AtomicU64::new(0),
        })
    }

    /// A store over one device without a pool. Addresses begin after the space of the front labels.
    pub fn over(name: String, device: Arc<dyn Device>, cache_bytes: u64) -> Arc<Self> {
        let kind = Kind::Leaf(Leaf::present(0, device));
        let leaf = Vdev { guid: 0, id: 0, kind, ashift: 9, children: Vec::new(), name: name.clone() };
        Self::new(name, Tree::of(vec![leaf]), cache_bytes)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The current vdev tree.
    pub fn tree(&self) -> Arc<Tree> {
        self.tree.read().clone()
    }

    /// Replaces the vdev tree. Threads that work with the old tree continue to use it: top-level
    /// vdevs that remain must be shared between the two, with their error counts and flush state.
    pub fn change_tree(&self, change: impl FnOnce(&Tree) -> Tree) {
        let mut tree = self.tree.write();
        *tree = Arc::new(change(&tree));
        self.injection.govern(&tree);
        self.second.release_devices(&tree.caches);
        join(&tree, &self.reporter, &self.fence);
    }

    /// Until when the devices may be written.
    pub fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// Reports the pool's events.
    pub fn reporter(&self) -> &Arc<Reporter> {
        &self.reporter
    }

    /// The cache devices (L2ARC).
    pub fn second(&self) -> &Arc<L2> {
        &self.second
    }

    /// The pool's fault injection.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// The in-memory cache (ARC).
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Sets the pool's checksum salt, which skein, edonr and blake3 need.
    pub fn set_salt(&self, salt: &[u8; 32]) {
        *self.salt.write() = Some(Arc::new(zio::Salt::new(salt)));
    }

    pub(crate) fn has_salt(&self) -> bool {
        self.salt.read().is_some()
    }

    pub(crate) fn salt(&self) -> Option<Arc<zio::Salt>> {
        self.salt.read().clone()
    }

    /// Sets the watcher of bad blocks; `None` removes it.
    pub fn set_watch(&self, watch: Option<Arc<dyn Watch>>) {
        *self.watch.write() = watch;
    }

    /// Number of reads and writes so far that a caller waits for. Scans and healing do not count.
    pub fn demand(&self) -> u64 {
        self.demand.load(Ordering::Relaxed)
    }

    fn place(&self, at: &Bookmark) -> String {
        format!("{}: block {at}", self.name)
    }
}

fn cache_key(bp: &BlkPtr) -> Option<Key> {
    if bp.is_embedded() || bp.is_hole() {
        return None;
    }
    let dva = bp.dva(0);
    Some(Key { vdev: dva.vdev, offset_bytes: dva.offset_bytes, birth: bp.physical_birth().0 })
}

fn is_metadata(bp: &BlkPtr) -> bool {
    bp.level() > 0 || bp.object_type().is_metadata()
}
