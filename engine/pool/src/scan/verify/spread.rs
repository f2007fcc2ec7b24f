//! Finds the other datasets that contain a damaged block. The walk visits a block only where it was
//! born, but later snapshots, the head and clones may still use it.

use super::super::{Root, RootKind};
use super::Damage;
use crate::Pool;
use object::ObjectSet;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Limit for the damaged blocks that are looked up: each costs a path of indirect blocks in each
/// later snapshot.
const LOOKED_UP_MAX: usize = 1000;
/// Limit for the datasets that are searched.
const DATASETS_MAX: usize = 256;

/// Fills in `also_in` of the first damaged blocks.
pub(super) fn find_shared(pool: &Pool, roots: &[Root], damage: &mut [Damage]) {
    let damaged: HashSet<u64> = damage.iter().take(LOOKED_UP_MAX).map(|d| d.at.objset).filter(|id| *id != 0).collect();
    let previous: HashMap<u64, u64> = roots
        .iter()
        .filter_map(|r| match r.kind {
            RootKind::Dataset { previous, .. } => Some((r.objset, previous)),
            _ => None,
        })
        .collect();
    for objset in damaged {
        let Some(origin) = open(pool, roots, objset) else { continue };
        let later = roots.iter().filter(|r| r.objset != objset && descends(&previous, r.objset, objset));
        for root in later.take(DATASETS_MAX) {
            let Some(other) = open(pool, roots, root.objset) else { continue };
            for d in damage.iter_mut().take(LOOKED_UP_MAX).filter(|d| d.at.objset == objset) {
                if is_same(&origin, &other, d) {
                    d.also_in.push(root.objset);
                }
            }
        }
    }
}

fn open(pool: &Pool, roots: &[Root], objset: u64) -> Option<Arc<ObjectSet>> {
    let root = roots.iter().find(|r| r.objset == objset && !r.bp.is_hole())?;
    ObjectSet::open(pool.store().clone(), &root.bp, objset, None).ok()
}

/// Whether `ancestor` is one of the snapshots before `dataset`.
fn descends(previous: &HashMap<u64, u64>, dataset: u64, ancestor: u64) -> bool {
    let mut at = dataset;
    for _ in 0..previous.len() {
        match previous.get(&at) {
            Some(p) if *p == ancestor => return true,
            Some(p) if *p != 0 => at = *p,
            _ => return false,
        }
    }
    false
}

fn is_same(origin: &Arc<ObjectSet>, other: &Arc<ObjectSet>, d: &Damage) -> bool {
    let Ok(level) = u8::try_from(d.at.level) else { return false };
    let pointer = |set: &Arc<ObjectSet>| set.object(d.at.object).and_then(|o| o.block_pointer(level, d.at.blkid)).ok();
    match (pointer(origin), pointer(other)) {
        (Some(a), Some(b)) => !a.is_hole() && a.dva(0) == b.dva(0) && a.physical_birth() == b.physical_birth(),
        _ => false,
    }
}
