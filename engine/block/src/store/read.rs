//! Reading blocks: from the cache, from cache devices, or through `zio`; injected errors, and what
//! is recorded about blocks that cannot be read.

use super::{Store, cache_key, is_metadata};
use crate::arc::{Met, Want};
use crate::crypt::DatasetKeys;
use crate::zevent::Reading;
use crate::{Block, Bookmark, zio};
use bytes::Bytes;
use errors::{Error, Place, Result};
use ondisk::BlkPtr;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Store {
    /// Returns the contents of the block at `bp`: from the cache, or read, verified, decrypted and
    /// decompressed. A hole reads as zeros.
    pub fn read(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        self.get(bp, at, keys, Want::Demand)
    }

    /// As [`Store::read`], without adding the block to the cache.
    pub fn read_uncached(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if let Some(key) = cache_key(bp)
            && let Some(block) = self.cache.peek(&key)
        {
            return Ok(block);
        }
        self.load(bp, at, keys)
    }

    /// The contents of the block at `bp` if they are available without reading a device.
    pub fn in_memory(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Option<Block>> {
        match cache_key(bp) {
            Some(_) if bp.is_encrypted() && keys.is_none() => Err(Error::KeyUnavailable { place: self.place(at) }),
            Some(key) => {
                let found = self.cache.peek(&key);
                if found.is_some() {
                    Met::Hit.note(is_metadata(bp));
                }
                Ok(found)
            }
            None => self.load(bp, at, keys).map(Some),
        }
    }

    /// Whether the block is in the cache, or in its pointer. Counts as no use of it.
    pub fn is_in_memory(&self, bp: &BlkPtr) -> bool {
        bp.is_embedded() || cache_key(bp).is_some_and(|key| self.cache.knows(&key))
    }

    /// Returns the block decompressed but not decrypted, without verifying MACs and without filling
    /// the cache: for tree walks that follow pointers and have no key. In dnode blocks and indirect
    /// blocks the pointers are not encrypted.
    pub fn read_unopened(&self, bp: &BlkPtr, at: &Bookmark) -> Result<Block> {
        if !bp.uses_crypt() && !bp.is_embedded() {
            // A small pool is walked while its metadata is in the cache; the walk of a large pool
            // must not flush the cache.
            if let Some(block) = cache_key(bp).and_then(|key| self.cache.peek(&key)) {
                return Ok(block);
            }
        }
        self.unless_injected(bp, at, |met_bad| zio::read_unopened(self, bp, met_bad))
    }

    /// The block's bytes as they are on disk, bypassing the cache: verified against the checksum,
    /// but still compressed and encrypted.
    pub fn read_stored(&self, bp: &BlkPtr, at: &Bookmark) -> Result<Bytes> {
        self.unless_injected(bp, at, |met_bad| zio::stored(self, bp, met_bad).map(Bytes::from))
    }

    /// Starts to read the block in the background, unless it is in the cache or the workers are
    /// busy.
    pub fn prefetch(self: &Arc<Self>, bp: &BlkPtr, at: &Bookmark, keys: Option<&Arc<DatasetKeys>>) {
        let Some(key) = cache_key(bp) else { return };
        if self.cache.knows(&key) {
            return;
        }
        let (store, bp, at, keys) = (self.clone(), *bp, *at, keys.cloned());
        let is_slow = self.tree().has_slow_reads();
        self.prefetcher.offer(
            is_slow,
            Box::new(move || {
                // A thread that needs the block hits the error again and returns it.
                let _ = store.get(&bp, &at, keys.as_deref(), Want::Prefetch);
            }),
        );
    }

    /// Rebuilds the index of the cache devices of the pool `pool_guid`. If `feeds`, also writes the
    /// blocks that the cache evicts from now on there, until [`Store::stop_second`].
    pub fn start_second(self: &Arc<Self>, pool_guid: u64, feeds: bool) -> Result<()> {
        self.second.start(self, pool_guid, feeds).map_err(|e| Error::io(self.name.clone(), e))
    }

    /// Stops writing to cache devices.
    pub fn stop_second(&self) {
        self.cache.collect_evicted(false);
        self.second.stop();
    }

    fn get(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>, want: Want) -> Result<Block> {
        match cache_key(bp) {
            // A block that needs a key is never returned without one, even if it is in the cache.
            Some(_) if bp.is_encrypted() && keys.is_none() => Err(Error::KeyUnavailable { place: self.place(at) }),
            Some(key) => {
                let is_metadata = is_metadata(bp);
                // Blocks that are on the cache device already are not written there again.
                let origin = || (self.second.wants(at.objset, is_metadata) && !self.second.has(bp)).then_some(*bp);
                let (result, met) = self.cache.look_from(key, want, is_metadata, origin, || self.load(bp, at, keys));
                met.note(is_metadata);
                result
            }
            None => self.load(bp, at, keys),
        }
    }

    fn load(&self, bp: &BlkPtr, at: &Bookmark, keys: Option<&DatasetKeys>) -> Result<Block> {
        if bp.is_hole() {
            let size = bp.lsize_bytes().min(ondisk::blkptr::MAX_BLOCK_BYTES) as usize;
            return Ok(Block { data: Bytes::from(vec![0; size]), endian: bp.endian() });
        }
        self.demand.fetch_add(1, Ordering::Relaxed);
        let result = self.unless_injected(bp, at, |met_bad| zio::read(self, bp, keys, met_bad));
        if matches!(result, Err(Error::Corrupt { .. } | Error::Io { .. } | Error::Missing { .. })) {
            self.reporter.data_report(at);
            if let Some(watch) = self.watch.read().clone() {
                watch.lost(bp, at);
            }
        }
        result
    }

    fn unless_injected<R>(&self, bp: &BlkPtr, at: &Bookmark, read: impl FnOnce(&Cell<bool>) -> Result<R>) -> Result<R> {
        let _reading = Reading::of(at);
        let met_bad = Cell::new(false);
        let result = match self.injection.data_error(bp, at) {
            Some(error) => Err(error),
            None => read(&met_bad),
        };
        self.report_bad(bp, at, &met_bad);
        result.at_with(|| self.place(at))
    }

    fn report_bad(&self, bp: &BlkPtr, at: &Bookmark, met_bad: &Cell<bool>) {
        if met_bad.get()
            && let Some(watch) = self.watch.read().clone()
        {
            watch.met_bad(bp, at);
        }
    }
}
