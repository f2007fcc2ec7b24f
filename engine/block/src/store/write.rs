//! Writing and freeing blocks, and making written blocks durable.

use super::{WriteStore, cache_key, is_metadata};
use crate::crypt::DatasetKeys;
use crate::{Block, Bookmark, Class, RawBlock, WritePolicy, zio};
use bytes::Bytes;
use errors::{Error, Place, Result};
use ondisk::{BlkPtr, Dva, Endian};
use std::sync::atomic::Ordering;

impl WriteStore {
    /// Writes a block that is born in `txg`: compressed if that saves an eighth, embedded in the
    /// pointer if allowed and possible, encrypted with `keys` if its type requires it, with a
    /// checksum, as a gang block if it does not fit in one piece, to all its addresses. Zeros
    /// become a hole with a birth, unless compression is off.
    ///
    /// The fill count of the result is 1 at level 0 and otherwise 0; the caller sets it if another
    /// value is right. The contents are in the cache afterwards. They are durable after the next
    /// [`WriteStore::flush`].
    pub fn write(
        &self,
        txg: u64,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        Ok(self.keep(self.write_patiently(txg, data, policy, at, keys.into(), zio::Replaced::Nothing)?, at))
    }

    /// As [`WriteStore::write`], unless `present`, the block from an earlier txg that this one
    /// would replace, holds the same contents in the same form, and the policy allows it to stay
    /// ([`WritePolicy::may_keep`]). Then nothing is written, and the result is `present`.
    pub fn write_or_keep(
        &self,
        txg: u64,
        present: &BlkPtr,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        let replaced = zio::Replaced::Earlier(present);
        Ok(self.keep(self.write_patiently(txg, data, policy, at, keys.into(), replaced)?, at))
    }

    /// As [`WriteStore::write`], for a raw receive whose keys are not loaded: an indirect block or
    /// the root block of an object set, with the sender's MACs in it.
    pub fn write_sealed_set(&self, txg: u64, data: Bytes, policy: &WritePolicy, at: &Bookmark) -> Result<BlkPtr> {
        Ok(self.keep(self.write_patiently(txg, data, policy, at, zio::Seal::Elsewhere, zio::Replaced::Nothing)?, at))
    }

    /// Writes a block as it was received, born in `txg`: see [`RawBlock`]. With `keys`, it is
    /// encrypted unless it is already.
    pub fn write_raw(
        &self,
        txg: u64,
        block: &RawBlock,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        self.patiently(at, || zio::write_raw(self, txg, block, policy, keys))
    }

    /// As [`WriteStore::write`], but overwrites `old`, born in the same txg, if the contents fit
    /// into its space: then nothing is allocated or freed. Otherwise `old` is freed.
    pub fn rewrite(
        &self,
        txg: u64,
        old: &BlkPtr,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: Option<&DatasetKeys>,
    ) -> Result<BlkPtr> {
        let written = self.write_patiently(txg, data, policy, at, keys.into(), zio::Replaced::SameTxg(old))?;
        let moved = written.bp.is_embedded() || written.bp.is_hole() || written.bp.dva(0) != old.dva(0);
        let bp = self.keep(written, at);
        if moved {
            self.free(txg, old).at_with(|| self.place(at))?;
        }
        Ok(bp)
    }

    fn write_patiently(
        &self,
        txg: u64,
        data: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        keys: zio::Seal<'_>,
        replaced: zio::Replaced<'_>,
    ) -> Result<zio::Written> {
        self.patiently(at, || zio::write(self, txg, data.clone(), policy, keys, replaced))
    }

    fn patiently<T>(&self, at: &Bookmark, mut write: impl FnMut() -> Result<T>) -> Result<T> {
        self.demand.fetch_add(1, Ordering::Relaxed);
        loop {
            let begun = self.resumptions();
            let error = match write() {
                Ok(written) => return Ok(written),
                Err(e) => e.at(&self.place(at)),
            };
            if !self.retries(&error, begun) {
                return Err(error);
            }
        }
    }

    /// Whether to retry a write that failed with `error` and began after `begun` resumptions.
    fn retries(&self, error: &Error, begun: u64) -> bool {
        let handler = self.writes.on_failure.read().clone();
        matches!(error, Error::Io { .. } | Error::Missing { .. }) && handler.is_some_and(|ask| ask(error, begun))
    }

    fn keep(&self, written: zio::Written, at: &Bookmark) -> BlkPtr {
        if let Some(key) = cache_key(&written.bp) {
            let is_metadata = is_metadata(&written.bp);
            let origin = self.second.wants(at.objset, is_metadata).then_some(&written.bp);
            self.cache.insert_from(key, is_metadata, origin, Block { data: written.contents, endian: Endian::Little });
        }
        written.bp
    }

    /// Frees all addresses of a block, those of gang members included, unless it has other
    /// references, as a clone or because it was deduplicated. Holes and embedded blocks have no
    /// addresses.
    pub fn free(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        let alone;
        let bp = match bp.is_dedup() {
            false => bp,
            true => {
                let place = || format!("{}: freeing {bp}", self.name);
                let Some(duplicates) = self.duplicates() else {
                    return Err(Error::unsupported(place(), "freeing a deduplicated block without its table"));
                };
                if duplicates.release(bp).at_with(place)? {
                    return Ok(());
                }
                // No table knows it: `zpool ddtprune` removed it.
                alone = bp.not_dedup();
                &alone
            }
        };
        if !is_metadata(bp) && !bp.is_hole() && !bp.is_embedded() {
            let is_last = self.references().map_or(Ok(true), |r| r.release(bp));
            if !is_last.at_with(|| format!("{}: freeing {bp}", self.name))? {
                return Ok(());
            }
        }
        zio::free::free(self, txg, bp).at_with(|| format!("{}: freeing {bp}", self.name))?;
        if let Some(key) = cache_key(bp) {
            self.cache.remove(&key);
        }
        Ok(())
    }

    /// As [`WriteStore::free`], for a block that a committed tree or log still refers to, whatever
    /// its birth: intent log blocks are born in future txgs. The space is not reused before the txg
    /// is on disk.
    pub fn free_later(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        zio::free::free_born_before(self, txg, bp).at_with(|| format!("{}: freeing {bp}", self.name))?;
        if let Some(key) = cache_key(bp) {
            self.cache.remove(&key);
        }
        Ok(())
    }

    /// Marks all addresses of a log block found at import as allocated.
    pub fn claim(&self, txg: u64, bp: &BlkPtr) -> Result<()> {
        zio::free::claim(self, txg, bp).at_with(|| format!("{}: claiming {bp}", self.name))
    }

    /// Allocates an intent log block of 4 KiB or a multiple. The caller sets the seed of the chain
    /// as its checksum.
    pub fn allocate_log(&self, txg: u64, size_bytes: u64, class: Class, keys: Option<&DatasetKeys>) -> Result<BlkPtr> {
        zio::log::allocate(self, txg, size_bytes, class, keys).at_with(|| format!("{}: intent log", self.name))
    }

    /// Seals an intent log block, with its used length in the chain header, and writes it to the
    /// addresses of `bp`.
    pub fn write_log(&self, bp: &BlkPtr, block: &mut [u8], keys: Option<&DatasetKeys>) -> Result<()> {
        zio::log::write(self, bp, block, keys).at_with(|| format!("{}: intent log", self.name))
    }

    /// Returns when everything written before is on stable storage of enough devices. After an
    /// error it never succeeds again for those devices, since it is not known what they lost.
    pub fn flush(&self) -> Result<()> {
        let written = self.writes.blocks.each_ref().map(|blocks| blocks.written.load(Ordering::SeqCst));
        self.end_writes()?;
        self.tree().flush().map_err(|failure| failure.into_write_error(self.name.clone()))?;
        for (blocks, written) in self.writes.blocks.iter().zip(written) {
            blocks.flushed.fetch_max(written, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Waits for the writes that [`WriteStore::write`] only began. Those that failed are repeated
    /// for as long as the callback for failed writes returns true.
    fn end_writes(&self) -> Result<()> {
        let mut failed = self.writes.flight.wait();
        // Those that began before the pool was resumed are repeated without asking.
        let mut begun = failed.iter().map(|write| write.begun).max().unwrap_or(0);
        while let Some(first) = failed.first() {
            let error = first.failure.clone().into_write_error(self.name.clone());
            // Waits until the pool is resumed: once for all that failed.
            if !self.retries(&error, begun) {
                return Err(error);
            }
            begun = self.resumptions();
            let tree = self.tree();
            failed.retain_mut(|write| {
                let Dva { vdev, offset_bytes, .. } = write.dva;
                match tree.write(vdev, offset_bytes, &write.stored, write.txg) {
                    Ok(()) => false,
                    Err(again) => {
                        write.failure = again;
                        true
                    }
                }
            });
        }
        Ok(())
    }
}
