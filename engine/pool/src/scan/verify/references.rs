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
use crate::{Pool, clones};
use errors::{Error, Place, Result};
use host::sync::Mutex;
use object::ObjectSet;
use object::zap::Zap;
use ondisk::Dva;
use ondisk::ddt::{self, Key, PackedValue, Phys};
use ondisk::pool_dir::directory;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
struct Counted {
    says: u64,
    /// Held while the space of the block is marked as used.
    found: Mutex<u64>,
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

    /// Counts a reference to the block whose first DVA is `dva`, and returns what `mark` returns.
    /// It is called with `None` if no table counts the block as shared, else with whether the block
    /// was found before. Calls for the same block follow each other: a later reference may have
    /// copies that the first has too, and if they were marked before those of the first, the first
    /// would look like a second use.
    pub fn count<R>(&self, dva: Option<Dva>, mark: impl FnOnce(Option<bool>) -> R) -> R {
        let Some(counted) = dva.and_then(|dva| self.0.get(&(u64::from(dva.vdev), dva.offset_bytes))) else {
            return mark(None);
        };
        let mut found = counted.found.lock();
        let result = mark(Some(*found > 0));
        *found += 1;
        result
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn a_later_reference_to_a_shared_block_waits_until_the_first_has_marked_its_space() {
        let shared = References(HashMap::from([((0, 4096), Counted { says: 2, ..Counted::default() })]));
        let dva = Some(Dva { vdev: 0, offset_bytes: 4096, ..Dva::default() });
        let (begun, marked) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let first = shared.count(dva, |met| {
                    begun.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(50));
                    marked.store(true, Ordering::SeqCst);
                    met
                });
                assert_eq!(first, Some(false));
            });
            while !begun.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let second = shared.count(dva, |met| (met, marked.load(Ordering::SeqCst)));
            assert_eq!(second, (Some(true), true));
        });
        assert_eq!(shared.count(None, |met| met), None);
        let mut report = Report::default();
        shared.compare(&mut report);
        assert_eq!(report.wrong_references_count, 0);
    }
}
