//! The error logs: damage that the pool itself has recorded.
//!
//! Format: `ondisk::errlog`. ZFS name: spa_errlog. Facts: process_error_block, check_filesystem
//! (module/zfs/spa_errlog.c).

use crate::Pool;
use block::Bookmark;
use errors::Result;
use object::zap::Zap;
use ondisk::dsl_dir::DslDir;
use ondisk::errlog::{ErrorBookmark, HeadError, parse_head};
use ondisk::pool_dir::directory;
use std::collections::{BTreeSet, VecDeque};

/// A damaged block in the error log. With head_errlog the dataset is the head; its snapshots and
/// clones that share the block are found by [`Pool::affected_by`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedError {
    /// Object number of the dataset; 0 for the MOS.
    pub dataset: u64,
    /// Object number in the dataset.
    pub object: u64,
    /// Level of the block; 0 is data.
    pub level: i64,
    /// Number of the block within its level.
    pub block: u64,
    /// Txg in which the block was born; 0 without head_errlog, or if it is unknown.
    pub birth: u64,
}

/// Limit for the errors that are read.
const ERRORS_MAX: usize = 1 << 20;
/// Limit for the snapshots of a dataset that are searched for a damaged block.
const SNAPSHOTS_MAX: usize = 100_000;

impl Pool {
    /// All recorded errors, of the last scrub and since.
    pub fn error_log(&self) -> Result<Vec<LoggedError>> {
        let by_head = self.features().count("com.delphix:head_errlog").is_some();
        let mut found = BTreeSet::new();
        for name in [directory::ERRLOG_LAST, directory::ERRLOG_SCRUB] {
            let Some(id) = self.directory().lookup_u64(name)?.filter(|id| *id != 0) else { continue };
            for entry in Zap::open(self.mos().object(id)?)?.entries()? {
                if !by_head {
                    let ErrorBookmark { objset: dataset, object, level, block } = ErrorBookmark::parse(&entry.name)?;
                    found.insert(LoggedError { dataset, object, level, block, birth: 0 });
                    continue;
                }
                let dataset = parse_head(&entry.name)?;
                let Some(inner) = entry.value.as_u64() else { continue };
                for e in Zap::open(self.mos().object(inner)?)?.entries()? {
                    let HeadError { object, level, block, birth } = HeadError::parse(&e.name)?;
                    found.insert(LoggedError { dataset, object, level, block, birth: birth.0 });
                }
                if found.len() > ERRORS_MAX {
                    break;
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// The object numbers of all heads and snapshots that contain the damaged block: the dataset of
    /// the entry, its snapshots and clones, and those of the dataset that it was cloned from. None
    /// if the block was freed or rewritten everywhere. Only the entry's own dataset if the birth of
    /// the block is unknown.
    pub fn affected_by(&self, error: &LoggedError) -> Result<Vec<u64>> {
        if error.dataset == 0 || error.birth == 0 {
            return Ok(vec![error.dataset]);
        }
        let mut found = Vec::new();
        let mut heads = VecDeque::from([self.oldest_head_with(error)?]);
        let mut seen = BTreeSet::new();
        while let Some(head) = heads.pop_front() {
            if seen.insert(head) {
                self.look_in(head, error, &mut found, &mut heads)?;
            }
        }
        Ok(found)
    }

    /// The head whose snapshots are the oldest ones that may contain the block
    /// (`find_top_affected_fs`).
    fn oldest_head_with(&self, error: &LoggedError) -> Result<u64> {
        let mut at = error.dataset;
        for _ in 0..SNAPSHOTS_MAX {
            match self.dataset_phys(at)? {
                Some(ds) if ds.prev_snap != 0 && ds.prev_snap_txg.0 >= error.birth => at = ds.prev_snap,
                _ => break,
            }
        }
        match self.dataset_phys(at)? {
            Some(ds) => Ok(self.dir_phys(ds.dir)?.head_dataset),
            None => Ok(error.dataset),
        }
    }

    /// Adds the head and those of its snapshots that contain the block to `found`, and clones of
    /// these snapshots to `heads`.
    fn look_in(&self, head: u64, error: &LoggedError, found: &mut Vec<u64>, heads: &mut VecDeque<u64>) -> Result<()> {
        let Some(ds) = self.dataset_phys(head)? else { return Ok(()) };
        let now = self.birth_in(head, error);
        let is_in_head = now == Some(error.birth);
        if is_in_head {
            found.push(head);
        }
        // What the head has instead is newer than all snapshots that have the damaged block.
        let newest = now.filter(|_| !is_in_head).unwrap_or(u64::MAX);
        let dir = self.dir_phys(ds.dir)?;
        let (mut at, mut taken) = (ds.prev_snap, ds.prev_snap_txg.0);
        let mut affected = BTreeSet::new();
        for _ in 0..SNAPSHOTS_MAX {
            // A snapshot has the blocks that were born in its own txg; OpenZFS passes over these.
            if at == 0 || error.birth > taken || taken > newest {
                break;
            }
            let Some(snapshot) = self.dataset_phys(at)? else { break };
            let is_own = snapshot.dir == ds.dir;
            if is_own && (is_in_head || self.birth_in(at, error) == Some(error.birth)) {
                found.push(at);
                affected.insert(at);
            }
            (at, taken) = (snapshot.prev_snap, snapshot.prev_snap_txg.0);
        }
        if dir.clones_zap == 0 || affected.is_empty() {
            return Ok(());
        }
        for entry in Zap::open(self.mos().object(dir.clones_zap)?)?.entries()? {
            let Some(clone) = entry.value.as_u64() else { continue };
            let Some(phys) = self.dataset_phys(clone)? else { continue };
            if affected.contains(&self.dir_phys(phys.dir)?.origin) {
                heads.push_back(clone);
            }
        }
        Ok(())
    }

    /// The birth of what a dataset has at the place of the damaged block; `None` if it has nothing
    /// there, or cannot be read.
    fn birth_in(&self, dataset: u64, error: &LoggedError) -> Option<u64> {
        let at = Bookmark { objset: dataset, object: error.object, level: error.level, blkid: error.block };
        let bp = self.find_block(&at).ok().flatten()?;
        Some(bp.physical_birth().0)
    }

    fn dir_phys(&self, id: u64) -> Result<DslDir> {
        let dir = self.mos().object(id)?;
        Ok(DslDir::parse(dir.bonus(), dir.endian())?)
    }
}
