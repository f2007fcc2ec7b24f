//! Finds by walking which blocks each state of each dataset reaches, and compares that with the
//! space accounting.

use block::Bookmark;
use dataset::{Dataset, Datasets, ListOptions};
use pool::scan::walk::{Visit, Visitor, walk};
use pool::scan::{Root, RootKind};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// An address. A deduplicated block counts for each pointer to it, so its key includes the
/// pointer's own location and birth txg.
type Key = (u32, u64, Option<(Bookmark, u64)>);

/// Space by address, with its birth txg.
type Blocks = BTreeMap<Key, (u64, u64)>;

struct Collect<'a> {
    tree: &'a Datasets,
    found: Mutex<Blocks>,
}

impl Visitor for Collect<'_> {
    fn block(&self, visit: &Visit<'_>) -> bool {
        let bp = visit.bp;
        if let Some(dva) = bp.dvas().next() {
            let space = (self.tree.pool().deflated_bytes(bp), bp.logical_birth().0);
            let pointer = bp.is_dedup().then_some((Bookmark { objset: 0, ..visit.at }, bp.logical_birth().0));
            self.found.lock().unwrap().insert((dva.vdev, dva.offset_bytes, pointer), space);
        }
        true
    }

    fn broken(&self, _: usize, at: Bookmark, error: &errors::Error) {
        panic!("{at:?}: {error}");
    }
}

fn blocks(tree: &Datasets, dataset: &Dataset) -> Blocks {
    let phys = dataset.phys();
    // As for a snapshot: the intent log is not accounted to any dataset.
    let kind = RootKind::Dataset {
        previous: 0,
        referenced_bytes: 0,
        dead_bytes: 0,
        is_snapshot: true,
        is_inconsistent: false,
    };
    let roots = [Root { objset: dataset.id(), bp: phys.bp, since_txg: 0, kind }];
    let collect = Collect { tree, found: Mutex::default() };
    walk(tree.mos().store(), &roots, 1, &collect);
    collect.found.into_inner().unwrap()
}

/// The referenced and unique space of each state, and its directory's totals for head and
/// snapshots, match the blocks.
pub fn check(tree: &Arc<Datasets>) {
    let heads = tree.list(&[], &ListOptions::heads()).unwrap().entries;
    let mut states: BTreeMap<u64, (Dataset, Blocks)> = BTreeMap::new();
    for entry in &heads {
        let head = entry.dataset().unwrap();
        for state in head.snapshots().unwrap().into_iter().chain([head.clone()]) {
            let found = blocks(tree, &state);
            states.insert(state.id(), (state, found));
        }
    }
    let sum = |blocks: &mut dyn Iterator<Item = &(u64, u64)>| blocks.map(|(space, _)| space).sum::<u64>();
    for (id, (state, own)) in &states {
        let phys = state.phys();
        assert_eq!(phys.referenced_bytes, sum(&mut own.values()), "referenced by {}", state.name());
        let is_shared = |key: &Key| states.iter().any(|(other, (_, blocks))| other != id && blocks.contains_key(key));
        // A block that a clone also has does not count for snapshots other than its origin.
        if states.len() > 1 && phys.num_children <= 1 && heads.len() == tree_without_clones(&heads) {
            let alone = sum(&mut own.iter().filter(|(key, _)| !is_shared(key)).map(|(_, v)| v));
            assert_eq!(phys.unique_bytes, alone, "unique of {}", state.name());
        }
    }
    for entry in &heads {
        let head = entry.dataset().unwrap();
        let origin_txg = head.origin().unwrap().map_or(0, |o| o.phys().creation_txg.0);
        let is_own = |blocks: &Blocks| -> Blocks {
            blocks.iter().filter(|(_, (_, birth))| *birth > origin_txg).map(|(k, v)| (*k, *v)).collect()
        };
        let live = is_own(&states[&head.id()].1);
        let mut old = Blocks::new();
        for snapshot in head.snapshots().unwrap() {
            old.extend(is_own(&states[&snapshot.id()].1));
        }
        old.retain(|key, _| !live.contains_key(key));
        let used = head.dir().phys().used;
        assert_eq!(used.head, sum(&mut live.values()), "used by the head of {}", head.name());
        assert_eq!(used.snapshots, sum(&mut old.values()), "used by snapshots of {}", head.name());
    }
}

fn tree_without_clones(heads: &[dataset::Entry]) -> usize {
    heads.iter().filter(|e| e.dataset().is_some_and(|d| d.origin().unwrap().is_none())).count()
}
