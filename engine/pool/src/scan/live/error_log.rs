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
use std::collections::BTreeMap;

impl Errors {
    /// Writes the waiting errors to the pool's logs.
    pub(super) fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        if !self.is_dirty() {
            return Ok(());
        }
        let Lists { last, scan, rotate } = std::mem::take(&mut *self.0.lock());
        let by_head = cx.feature_enabled("head_errlog");
        let before = (cx.directory_entry(directory::ERRLOG_LAST)?, cx.directory_entry(directory::ERRLOG_SCRUB)?);
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
    for name in [directory::ERRLOG_LAST, directory::ERRLOG_SCRUB] {
        let Some(log) = cx.directory_entry(name)?.filter(|id| *id != 0) else { continue };
        let log = Zap::open(cx.mos().object(log)?)?;
        let key = format!("{head:x}");
        if let Some(own) = log.lookup_u64(&key)? {
            log.remove(cx.tx(), &key)?;
            cx.mos().free_object(cx.tx(), own)?;
        }
    }
    Ok(())
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
        let key = format!("{head:x}");
        let own = match outer.lookup_u64(&key)? {
            Some(own) => own,
            None => {
                let own = create(cx)?;
                outer.insert_u64(cx.tx(), &key, own)?;
                own
            }
        };
        let name = HeadError { object: at.object, level: at.level, block: at.blkid, birth: Txg(*birth) };
        Zap::open(cx.mos().object(own)?)?.update(cx.tx(), name.to_string(), &nothing)?;
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
