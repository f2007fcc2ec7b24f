//! The error log: blocks that could not be read, recorded in the pool, so that `status -v` can name
//! files after a restart.
//!
//! Errors of a scan are collected in a log of their own, which replaces the last one when the scan
//! ends: so a scrub drops the entries of damage that was repaired.
//!
//! Format: `ondisk::errlog`. Facts: `spa_errlog_sync`, `spa_errlog_rotate`
//! (module/zfs/spa_errlog.c).

use super::error_queue::{Errors, Lists};
use crate::writer::SyncTx;
use block::Bookmark;
use errors::Result;
use object::zap::{Zap, ZapSpec};
use ondisk::dsl_dataset::DslDataset;
use ondisk::dsl_dir::DslDir;
use ondisk::errlog::{ErrorBookmark, HeadError};
use ondisk::pool_dir::directory;
use ondisk::zap::Value as ZapValue;
use ondisk::{ObjectType, Txg};
use std::collections::{BTreeMap, BTreeSet};

impl Errors {
    /// Writes the waiting errors to the pool's logs.
    pub(super) fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        if !self.is_dirty() {
            return Ok(());
        }
        let Lists { last, scan, rotate, gone } = std::mem::take(&mut *self.0.lock());
        let by_head = cx.feature_enabled("head_errlog");
        let before = (cx.directory_entry(directory::ERRLOG_LAST)?, cx.directory_entry(directory::ERRLOG_SCRUB)?);
        if by_head {
            remove(cx, &gone)?;
        }
        let mut of_last = before.0.unwrap_or(0);
        let mut of_scan = before.1.unwrap_or(0);
        write(cx, &last, &mut of_last, by_head)?;
        if rotate {
            delete(cx, of_last, by_head)?;
            of_last = std::mem::take(&mut of_scan);
            write(cx, &scan, &mut of_last, by_head)?;
        } else {
            write(cx, &scan, &mut of_scan, by_head)?;
        }
        if before != (Some(of_last), Some(of_scan)) {
            cx.directory()?.update_u64(cx.tx(), directory::ERRLOG_LAST, of_last)?;
            cx.directory()?.update_u64(cx.tx(), directory::ERRLOG_SCRUB, of_scan)?;
        }
        Ok(())
    }
}

/// Removes the errors of a head that is being destroyed (`spa_delete_dataset_errlog`).
pub(super) fn forget_dataset(cx: &SyncTx<'_>, head: u64) -> Result<()> {
    if !cx.feature_enabled("head_errlog") {
        return Ok(());
    }
    for (_, log) in logs(cx)? {
        let key = format!("{head:x}");
        if let Some(own) = log.lookup_u64(&key)? {
            log.remove(cx.tx(), &key)?;
            cx.mos().free_object(cx.tx(), own)?;
        }
    }
    Ok(())
}

/// Both logs, with the names under which the pool's directory lists them.
fn logs(cx: &SyncTx<'_>) -> Result<Vec<(&'static str, Zap)>> {
    let mut found = Vec::new();
    for name in [directory::ERRLOG_LAST, directory::ERRLOG_SCRUB] {
        if let Some(log) = cx.directory_entry(name)?.filter(|id| *id != 0) {
            found.push((name, Zap::open(cx.mos().object(log)?)?));
        }
    }
    Ok(found)
}

/// Removes entries of blocks that no longer exist (`spa_remove_healed_errors`).
fn remove(cx: &SyncTx<'_>, gone: &BTreeSet<(u64, String)>) -> Result<()> {
    if gone.is_empty() {
        return Ok(());
    }
    for (_, log) in logs(cx)? {
        for (head, name) in gone {
            let Some(own) = log.lookup_u64(format!("{head:x}"))? else { continue };
            let own = Zap::open(cx.mos().object(own)?)?;
            if own.lookup(name)?.is_some() {
                own.remove(cx.tx(), name)?;
            }
        }
    }
    Ok(())
}

/// A clone took over the snapshots of a head up to its origin, of txg `origin_txg`: the errors of
/// blocks that were born before are now those of the clone (`spa_swap_errlog`).
pub(super) fn promoted(cx: &SyncTx<'_>, clone: u64, head: u64, origin_txg: u64) -> Result<()> {
    if !cx.feature_enabled("head_errlog") {
        return Ok(());
    }
    for (_, log) in logs(cx)? {
        let Some(theirs) = log.lookup_u64(format!("{head:x}"))? else { continue };
        let theirs = Zap::open(cx.mos().object(theirs)?)?;
        for entry in theirs.entries()? {
            if HeadError::parse(&entry.name)?.birth.0 < origin_txg {
                log_of(cx, &log, clone)?.update(cx.tx(), &entry.name, &ZapValue::string(""))?;
                theirs.remove(cx.tx(), &entry.name)?;
            }
        }
    }
    Ok(())
}

/// The feature head_errlog was enabled: writes the logs in its form. Entries whose blocks are not
/// found are dropped (`spa_upgrade_errlog`).
pub(crate) fn upgrade(cx: &SyncTx<'_>) -> Result<()> {
    for (name, log) in logs(cx)? {
        let pool = cx.pool()?;
        let mut errors = BTreeMap::new();
        for entry in log.entries()? {
            let ErrorBookmark { objset, object, level, block } = ErrorBookmark::parse(&entry.name)?;
            let at = Bookmark { objset, object, level, blkid: block };
            if let Ok(Some(bp)) = pool.find_block(&at) {
                errors.insert(at, bp.physical_birth().0);
            }
        }
        let mut by_head = create(cx)?;
        write(cx, &errors, &mut by_head, true)?;
        cx.mos().free_object(cx.tx(), log.id())?;
        cx.directory()?.update_u64(cx.tx(), name, by_head)?;
    }
    Ok(())
}

/// The log of one head in a log by heads; created if there is none.
fn log_of(cx: &SyncTx<'_>, log: &Zap, head: u64) -> Result<Zap> {
    let key = format!("{head:x}");
    let own = match log.lookup_u64(&key)? {
        Some(own) => own,
        None => {
            let own = create(cx)?;
            log.insert_u64(cx.tx(), &key, own)?;
            own
        }
    };
    Zap::open(cx.mos().object(own)?)
}

fn create(cx: &SyncTx<'_>) -> Result<u64> {
    Ok(Zap::create(cx.mos(), cx.tx(), &ZapSpec::new(ObjectType::ERROR_LOG))?.id())
}

fn write(cx: &SyncTx<'_>, errors: &BTreeMap<Bookmark, u64>, log: &mut u64, by_head: bool) -> Result<()> {
    if errors.is_empty() {
        return Ok(());
    }
    if *log == 0 {
        *log = create(cx)?;
    }
    let outer = Zap::open(cx.mos().object(*log)?)?;
    let nothing = ZapValue::string("");
    for (at, birth) in errors {
        if !by_head {
            let name = ErrorBookmark { objset: at.objset, object: at.object, level: at.level, block: at.blkid };
            outer.update(cx.tx(), name.to_string(), &nothing)?;
            continue;
        }
        // For a destroyed dataset only its own number is known.
        let head = head_of(cx, at.objset).ok().flatten().unwrap_or(at.objset);
        let name = HeadError { object: at.object, level: at.level, block: at.blkid, birth: Txg(*birth) };
        log_of(cx, &outer, head)?.update(cx.tx(), name.to_string(), &nothing)?;
    }
    Ok(())
}

/// The head of the DSL directory to which a dataset or snapshot belongs.
fn head_of(cx: &SyncTx<'_>, id: u64) -> Result<Option<u64>> {
    if id == 0 {
        return Ok(None);
    }
    let object = cx.mos().object(id)?;
    if object.dnode().bonus_type != ObjectType::DSL_DATASET {
        return Ok(None);
    }
    let dir = cx.mos().object(DslDataset::parse(object.bonus(), object.endian())?.dir)?;
    Ok(Some(DslDir::parse(dir.bonus(), dir.endian())?.head_dataset).filter(|head| *head != 0))
}

fn delete(cx: &SyncTx<'_>, log: u64, by_head: bool) -> Result<()> {
    if log == 0 {
        return Ok(());
    }
    if by_head {
        for entry in Zap::open(cx.mos().object(log)?)?.entries()? {
            if let Some(own) = entry.value.as_u64() {
                cx.mos().free_object(cx.tx(), own)?;
            }
        }
    }
    cx.mos().free_object(cx.tx(), log)
}
