//! Blocks that the dedup (DDT) and clone (BRT) tables count as shared, compared with the references
//! that are found.
//!
//! Only blocks with more than one reference are kept in memory. A block that a table counts once
//! needs no counter: a second reference to it shows in the map of used space. A deduplicated block
//! may be in no table at all: `zpool ddtprune` removes unique ones.
//!
//! Format: `ondisk::{ddt, brt}`. With fast_dedup, entries of the logs replace those of the tables.

use super::report::{Report, WrongReferences, push};
use crate::dedup::logs::{self, Logged};
use crate::{Error, Place, Pool, Result, clones};
use object::ObjectSet;
use object::zap::Zap;
use ondisk::Dva;
use ondisk::ddt::{self, Key, PackedValue, Phys};
use ondisk::pool_dir::directory;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
struct Counted {
    says: u64,
    found: AtomicU64,
}

/// The shared blocks, by (device, offset in bytes).
#[derive(Default)]
pub(super) struct References(HashMap<(u64, u64), Counted>);

impl References {
    /// Reads the tables. The second value is the error if they cannot be read: the counts are then
    /// not reliable.
    pub fn load(pool: &Pool) -> (Self, Option<String>) {
        let mut all = Self::default();
        let loaded = all.load_dedup(pool).and_then(|()| all.load_clones(pool));
        (all, loaded.err().map(|e| format!("the tables of shared blocks cannot be read: {e}")))
    }

    fn load_clones(&mut self, pool: &Pool) -> Result<()> {
        for ((vdev, offset), extra) in clones::references(pool)? {
            let entry = self.0.entry((vdev, offset)).or_default();
            // For a block in both tables, the dedup table has counted the first reference.
            entry.says = entry.says.max(1).saturating_add(extra);
        }
        Ok(())
    }

    fn load_dedup(&mut self, pool: &Pool) -> Result<()> {
        let mos = pool.mos();
        for entry in pool.directory().entries()? {
            let Some(name) = std::str::from_utf8(&entry.name).ok().filter(|n| n.starts_with("DDT-")) else { continue };
            let Some(id) = entry.value.as_u64().filter(|_| name != directory::DDT_STATS) else { continue };
            if name.contains(&format!("-{}-", ddt::STORE)) {
                self.table(mos, id, false, &Logged::new()).at(name)?;
            } else {
                self.fast(mos, id).at(name)?;
            }
        }
        Ok(())
    }

    /// The tables and logs of one checksum algorithm, with fast_dedup.
    fn fast(&mut self, mos: &Arc<ObjectSet>, id: u64) -> Result<()> {
        let zap = Zap::open(mos.object(id)?)?;
        let is_flat = zap.lookup_u64(ddt::DIRECTORY_FLAGS)?.unwrap_or(0) & ddt::FLAG_FLAT != 0;
        let (_, logged) = logs::read(mos, &zap)?;
        for entry in zap.entries()? {
            let is_table = entry.name.starts_with(b"DDT-") && !entry.name.starts_with(b"DDT-log-");
            if let Some(id) = entry.value.as_u64().filter(|_| is_table) {
                self.table(mos, id, is_flat, &logged)?;
            }
        }
        for (_, phys) in logged.into_values() {
            self.note(&phys);
        }
        Ok(())
    }

    fn table(&mut self, mos: &Arc<ObjectSet>, id: u64, is_flat: bool, logged: &Logged) -> Result<()> {
        for step in Zap::open(mos.object(id)?)?.cursor(0) {
            let (entry, _) = step?;
            if logged.contains_key(&Key::from_words(&entry.key)?) {
                continue;
            }
            let value = entry.value.as_bytes().ok_or_else(|| Error::corrupt("", "an entry that is not bytes"))?;
            logs::places(&PackedValue::parse(&value)?, is_flat)?.iter().for_each(|phys| self.note(phys));
        }
        Ok(())
    }

    fn note(&mut self, phys: &Phys) {
        let first = phys.dva(0);
        if phys.references > 1 && !first.is_empty() {
            let entry = self.0.entry((u64::from(first.vdev), first.offset_bytes)).or_default();
            entry.says = entry.says.saturating_add(phys.references);
        }
    }

    /// Counts a reference to the block whose first DVA is `dva`. Returns `None` if no table counts
    /// it as shared, else whether it was found before.
    pub fn count(&self, dva: Option<Dva>) -> Option<bool> {
        if self.0.is_empty() {
            return None;
        }
        let dva = dva?;
        let counted = self.0.get(&(u64::from(dva.vdev), dva.offset_bytes))?;
        Some(counted.found.fetch_add(1, Ordering::Relaxed) > 0)
    }

    /// Compares the references found with those in the tables.
    pub fn compare(self, report: &mut Report) {
        let mut wrong: Vec<WrongReferences> = self
            .0
            .into_iter()
            .map(|((vdev, offset_bytes), c)| WrongReferences {
                vdev,
                offset_bytes,
                says: c.says,
                found: c.found.into_inner(),
            })
            .filter(|r| r.says != r.found)
            .collect();
        wrong.sort_by_key(|r| (r.vdev, r.offset_bytes));
        report.wrong_references_count = wrong.len() as u64;
        for r in wrong {
            push(&mut report.wrong_references, r);
        }
    }
}
