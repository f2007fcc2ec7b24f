//! The error logs: damage that the pool itself has recorded.
//!
//! Format: `ondisk::errlog`. ZFS name: spa_errlog.

use crate::Pool;
use errors::Result;
use object::zap::Zap;
use ondisk::errlog::{ErrorBookmark, HeadError, parse_head};
use ondisk::pool_dir::directory;
use std::collections::BTreeSet;

/// A damaged block in the error log. With head_errlog the dataset is the head; snapshots that share
/// the block are not listed.
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
}

/// Limit for the errors that are read.
const ERRORS_MAX: usize = 1 << 20;

impl Pool {
    /// All recorded errors, of the last scrub and since.
    pub fn error_log(&self) -> Result<Vec<LoggedError>> {
        let by_head = self.features().is_active("com.delphix:head_errlog");
        let mut found = BTreeSet::new();
        for name in [directory::ERRLOG_LAST, directory::ERRLOG_SCRUB] {
            let Some(id) = self.directory().lookup_u64(name)?.filter(|id| *id != 0) else { continue };
            for entry in Zap::open(self.mos().object(id)?)?.entries()? {
                if !by_head {
                    let b = ErrorBookmark::parse(&entry.name)?;
                    found.insert(LoggedError { dataset: b.objset, object: b.object, level: b.level, block: b.block });
                    continue;
                }
                let dataset = parse_head(&entry.name)?;
                let Some(inner) = entry.value.as_u64() else { continue };
                for e in Zap::open(self.mos().object(inner)?)?.entries()? {
                    let b = HeadError::parse(&e.name)?;
                    found.insert(LoggedError { dataset, object: b.object, level: b.level, block: b.block });
                }
                if found.len() > ERRORS_MAX {
                    break;
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}
