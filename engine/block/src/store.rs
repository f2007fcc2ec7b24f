//! The store: a pool's device tree with a cache before it. Block pointer in, verified contents out.
//!
//! Below: `vdev`, `arc`, `zio`. Above: `object`.

use crate::arc::{Arc as Cache, Key, Want};
use crate::crypt::DatasetKeys;
use crate::vdev::Tree;
use crate::{Block, Bookmark, Error, Place, Result, zio};
use bytes::Bytes;
use ondisk::BlkPtr;
use parking_lot::RwLock;
use std::sync::Arc;

/// A pool's blocks.
pub struct Store {
    name: String,
    tree: Tree,
    cache: Cache,
    salt: RwLock<Option<Arc<zio::Salt>>>,
    prefetcher: zio::Prefetcher,
    /// Errors that reads met, for `zpool status`: blocks that no copy could give.
    data_errors: RwLock<std::collections::BTreeSet<Bookmark>>,
}

/// Entries kept in the list of unreadable blocks.
const DATA_ERRORS_MAX: usize = 100_000;

impl Store {
    /// A store over `tree`, with a cache of at most `cache_bytes`. `name` is the pool's, for messages.
    pub fn new(name: String, tree: Tree, cache_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            name,
            tree,
            cache: Cache::new(cache_bytes),
            salt: RwLock::new(None),
            prefetcher: zio::Prefetcher::new(host::processors().clamp(2, 8)),
            data_errors: RwLock::default(),
        })
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The devices.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Sets the pool's salt, which skein, edonr and blake3 checksums need.
    pub fn set_salt(&self, salt: &[u8; 32]) {
        *self.salt.write() = Some(Arc::new(zio::Salt::new(salt)));
    }

    pub(crate) fn salt(&self) -> Option<Arc<zio::Salt>> {
        self.salt.read().clone()
    }

    /// Blocks that could not be read since the pool was opened.
    pub fn data_errors(&self) -> Vec<Bookmark> {
        self.data_errors.read().iter().copied().collect()
    }

    /// The contents of the block at `bp`: from the cache, or read, checked, decrypted and decompressed.
    /// A hole gives zeros.
    pub fn read(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        self.get(bp, at, keys, Want::Demand)
    }

    /// As [`Store::read`], without keeping the block in the cache.
    pub fn read_uncached(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if let Some(key) = cache_key(bp)
            && let Some(block) = self.cache.peek(&key)
        {
            return Ok(block);
        }
        self.load(bp, at, keys)
    }

    /// The block decompressed but not decrypted and without looking at MACs, past the cache: for walks that follow pointers
    /// and need no key. Blocks of dnodes and indirect blocks keep their pointers in the clear.
    pub fn read_unopened(&self, bp: &BlkPtr, at: &Bookmark) -> Result<Block> {
        if !bp.uses_crypt() && !bp.is_embedded() {
            // Small pools are walked while their metadata is hot, and large ones must not flush the cache.
            if let Some(block) = cache_key(bp).and_then(|key| self.cache.peek(&key)) {
                return Ok(block);
            }
        }
        zio::read_unopened(self, bp).at_with(|| self.place(at))
    }

    /// Starts to read the block in the background, unless it is in the cache or the workers are busy.
    pub fn prefetch(self: &Arc<Self>, bp: &BlkPtr, at: &Bookmark, keys: Option<&Arc<DatasetKeys>>) {
        let Some(key) = cache_key(bp) else { return };
        if self.cache.knows(&key) {
            return;
        }
        let (store, bp, at, keys) = (self.clone(), *bp, *at, keys.cloned());
        self.prefetcher.offer(Box::new(move || {
            // Whoever comes to need the block will meet the error again and be told.
            let _ = store.get(&bp, &at, keys.as_deref(), Want::Prefetch);
        }));
    }

    fn get(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>, want: Want) -> Result<Block> {
        match cache_key(bp) {
            // What needs a key is never handed out without one, even when it is in the cache.
            Some(_) if bp.is_encrypted() && keys.is_none() => Err(Error::KeyUnavailable { place: self.place(at) }),
            Some(key) => self.cache.get_or_load(key, want, || self.load(bp, at, keys)),
            None => self.load(bp, at, keys),
        }
    }

    fn load(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if bp.is_hole() {
            let size = bp.lsize_bytes().min(ondisk::blkptr::MAX_BLOCK_BYTES) as usize;
            return Ok(Block { data: Bytes::from(vec![0; size]), endian: bp.endian() });
        }
        let result = zio::read(self, bp, keys).at_with(|| self.place(at));
        if matches!(result, Err(Error::Corrupt { .. } | Error::Io { .. } | Error::Missing { .. })) {
            let mut errors = self.data_errors.write();
            if errors.len() < DATA_ERRORS_MAX {
                errors.insert(*at);
            }
        }
        result
    }

    fn place(&self, at: &Bookmark) -> String {
        format!("{}: block {at}", self.name)
    }

    /// Reads every copy and every parity column of the block, and says which are wrong. Nothing is decompressed,
    /// decrypted or cached: the checksum stands over the stored bytes.
    pub fn verify(&self, bp: &BlkPtr) -> crate::vdev::BlockReport {
        zio::verify(self, bp)
    }
}

fn cache_key(bp: &BlkPtr) -> Option<Key> {
    if bp.is_embedded() || bp.is_hole() {
        return None;
    }
    let dva = bp.dva(0);
    Some(Key { vdev: dva.vdev, offset_bytes: dva.offset_bytes, birth: bp.physical_birth().0 })
}
