//! Space accounting of datasets: space available, and space written since a snapshot.
//!
//! Below: directories, datasets and their deadlists. Sources of the arithmetic:
//! module/zfs/dsl_dir.c (`dsl_dir_space_available`), module/zfs/dsl_dataset.c (`dsl_get_available`,
//! `dsl_dataset_space_written`).

use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use crate::deadlist::{Deadlist, add};
use crate::dir::Dir;
use crate::property;
use crate::tree::{CHAIN_MAX, Datasets};
use errors::{Error, Place, Result};
use ondisk::{BlkPtr, DslBookmark, SpaceTriple};

impl Datasets {
    /// Space that all datasets together may use: the size of the pool less the slop space, the
    /// checkpoint and deferred frees.
    pub fn pool_bytes(&self) -> Result<u64> {
        if let Some(bytes) = self.available_to_root.get() {
            return Ok(*bytes);
        }
        let bytes = self.pool().usable_space()?.for_datasets();
        Ok(*self.available_to_root.get_or_init(|| bytes))
    }

    /// Space that `dir` and its descendants may still use, limited by its own quota and those of
    /// its ancestors.
    pub fn available(&self, dir: &Dir) -> Result<u64> {
        let parent_bytes = match dir.parent() {
            Some(parent) => Some(self.available(parent)?),
            None => None,
        };
        let phys = dir.phys();
        let mut quota = if phys.quota_bytes == 0 { u64::MAX } else { phys.quota_bytes };
        let parent_bytes = match parent_bytes {
            Some(bytes) => bytes.saturating_add(phys.reserved_bytes.saturating_sub(phys.used_bytes)),
            None => {
                quota = quota.min(self.pool_bytes()?);
                u64::MAX
            }
        };
        Ok(parent_bytes.min(quota.saturating_sub(phys.used_bytes)))
    }
}

impl Dataset {
    /// A numeric property that applies only where it is set.
    fn number(&self, name: &str) -> Result<u64> {
        Ok(property::number(self, name)?.unwrap_or(0))
    }

    /// Space that the head may still reference.
    pub fn available(&self) -> Result<u64> {
        let (quota, reserved) = (self.number("refquota")?, self.number("refreservation")?);
        let phys = self.phys();
        let open = self.tree().available(self.dir())?;
        let bytes = open.saturating_add(reserved.saturating_sub(phys.unique_bytes));
        Ok(match quota {
            0 => bytes,
            quota => bytes.min(quota.saturating_sub(phys.referenced_bytes)),
        })
    }

    /// The deadlist; `None` if the dataset never had one.
    pub fn deadlist(&self) -> Result<Option<Deadlist>> {
        match self.phys().deadlist {
            0 => Ok(None),
            id => Deadlist::open(self.mos(), id).at(self.name()).map(Some),
        }
    }

    /// Space written since the state before this one.
    pub fn written(&self) -> Result<Option<u64>> {
        if self.phys().prev_snap == 0 {
            return Ok(None);
        }
        let referenced = match self.previous()? {
            Some(previous) => previous.phys().referenced_bytes,
            None => 0,
        };
        let dead = self.deadlist()?.map_or(Ok(SpaceTriple::default()), |d| d.space(&|bp| self.device_bytes(bp)))?;
        Ok(Some(self.phys().referenced_bytes.wrapping_sub(referenced).wrapping_add(dead.used)))
    }

    /// Space written since `old`, a snapshot of this dataset or of its origin. Returns
    /// [`Error::Invalid`] if `old` is not before this state.
    pub fn written_since(&self, old: &Dataset) -> Result<SpaceTriple> {
        if !old.is_snapshot() || !self.is_after(old, old.phys().creation_txg.0)? {
            return Err(Error::invalid(self.name(), format!("{} does not lie before it", old.name())));
        }
        let phys = old.phys();
        let mark = DslBookmark {
            guid: phys.guid,
            creation_txg: phys.creation_txg,
            creation_time: phys.creation_time,
            redaction_obj: 0,
            flags: 0,
            referenced: SpaceTriple {
                used: phys.referenced_bytes,
                compressed: phys.compressed_bytes,
                uncompressed: phys.uncompressed_bytes,
            },
            freed_before_next_snap: SpaceTriple::default(),
            ivset_guid: 0,
        };
        self.written_since_mark(&mark)
    }

    /// Space written since a bookmark of this dataset or of its origin.
    pub fn written_since_bookmark(&self, mark: &Bookmark) -> Result<SpaceTriple> {
        let phys = mark.phys();
        if !self.is_after(mark.dataset(), phys.creation_txg.0)? {
            return Err(Error::invalid(self.name(), format!("{} does not lie before it", mark.name())));
        }
        if phys.flags & DslBookmark::FLAG_HAS_FBN == 0 {
            return Err(Error::invalid(mark.name(), "it was made before bookmarks kept what was freed since"));
        }
        self.written_since_mark(phys)
    }

    fn written_since_mark(&self, mark: &DslBookmark) -> Result<SpaceTriple> {
        let phys = self.phys();
        let mut sum = SpaceTriple {
            used: phys.referenced_bytes.wrapping_sub(mark.referenced.used),
            compressed: phys.compressed_bytes.wrapping_sub(mark.referenced.compressed),
            uncompressed: phys.uncompressed_bytes.wrapping_sub(mark.referenced.uncompressed),
        };
        let mut state = self.clone();
        for _ in 0..CHAIN_MAX {
            if state.phys().prev_snap_txg <= mark.creation_txg {
                let freed = if mark.flags & DslBookmark::FLAG_HAS_FBN != 0 {
                    mark.freed_before_next_snap
                } else {
                    match state.deadlist()? {
                        Some(dead) => dead.space(&|bp| self.device_bytes(bp)).at(state.name())?,
                        None => SpaceTriple::default(),
                    }
                };
                add(&mut sum, freed);
                return Ok(sum);
            }
            if let Some(dead) = state.deadlist()? {
                let range = dead.space_range(0, mark.creation_txg.0, &|bp| self.device_bytes(bp));
                add(&mut sum, range.at(state.name())?);
            }
            let previous = self.tree().dataset_by_id(state.phys().prev_snap)?;
            if previous.phys().creation_txg >= state.phys().creation_txg && state.is_snapshot() {
                break;
            }
            state = previous;
        }
        Err(Error::corrupt(self.name(), "the chain of previous snapshots does not go back in time"))
    }

    /// Space freed by destroying this snapshot, `last` and all between them. Facts:
    /// `dsl_dataset_space_wouldfree`.
    pub fn would_free_up_to(&self, last: &Dataset) -> Result<u64> {
        let since = self.phys().prev_snap_txg.0;
        let (mut at, mut bytes) = (last.phys().next_snap, 0);
        for _ in 0..CHAIN_MAX {
            if at == self.id() || at == 0 {
                return Ok(bytes);
            }
            let state = self.tree().dataset_by_id(at)?;
            if let Some(dead) = state.deadlist()? {
                let dead = dead.space_range(since, u64::MAX, &|bp| self.device_bytes(bp)).at(state.name())?;
                bytes = dead.used.saturating_add(bytes);
            }
            at = state.phys().prev_snap;
        }
        Err(Error::corrupt(self.name(), "the chain of snapshots does not end"))
    }

    /// Whether `earlier`, a snapshot (or dataset with a bookmark) of txg `txg`, is before this
    /// state, including through the origins of clones.
    pub fn is_after(&self, earlier: &Dataset, txg: u64) -> Result<bool> {
        let mut later = self.clone();
        for _ in 0..CHAIN_MAX {
            if later.is_snapshot() && txg >= later.phys().creation_txg.0 {
                return Ok(false);
            }
            if later.dir().id() == earlier.dir().id() {
                return Ok(true);
            }
            let Some(origin) = later.origin()? else { return Ok(false) };
            if origin.phys().creation_txg.0 == txg && origin.dir().id() == earlier.dir().id() {
                return Ok(true);
            }
            later = origin;
        }
        Err(Error::corrupt(self.name(), "the chain of origins does not end"))
    }

    /// Space of a block on the devices, as datasets count it.
    fn device_bytes(&self, bp: &BlkPtr) -> u64 {
        self.tree().pool().deflated_bytes(bp)
    }
}
