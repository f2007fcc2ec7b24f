//! Promoting a clone: it takes over the snapshots up to its origin, and the dataset it was cloned
//! from becomes its clone.
//!
//! ```text
//!   before   s1 <── s2 <── s3 <── head       after   s1 <── s2 <── c1 <── clone
//!                    ^── c1 <── clone                         ^── s3 <── head
//! ```
//! Facts: `dsl_dataset_promote_check`, `dsl_dataset_promote_sync` in module/zfs/dsl_dataset.c,
//! `dsl_dataset_promote_crypt_check` in dsl_crypt.c.

use super::cx::{Cx, DatasetNode};
use super::limits::{self, Counted};
use super::space::{self, Delta, Part};
use super::tree::{self, Node};
use super::{bookmark, deadlist, keys, rename, snapshot, unsnap};
use crate::KeyStore;
use crate::delegation::Credentials;
use crate::live::LiveDatasets;
use crate::tree::CHAIN_MAX;
use errors::{Error, Refusal, Result};
use ondisk::zap::Value as ZapValue;
use ondisk::{DslDataset, SpaceTriple, version};
use pool::SpaceCheck;

/// Promotes the clone `name`. Returns when the change is on disk.
pub fn promote(live: &LiveDatasets, name: &str) -> Result<()> {
    promote_for(live, None, name, None)
}

/// The same for a user; `None`: for the owner of the pools. `origin`: the number of the snapshot
/// that the user may promote from, 0 if the dataset was no clone; any other is refused.
pub fn promote_for(live: &LiveDatasets, user: Option<&Credentials>, name: &str, origin: Option<u64>) -> Result<()> {
    let ((keys, _), name, user) = (live.parts(), name.to_owned(), user.cloned());
    live.writer().task(move |sync| {
        let cx = Cx::on_behalf(sync, user.as_ref());
        sync.check_space(&name, 2, SpaceCheck::Reserved)?;
        let plan = Plan::new(&cx, &name)?;
        if origin.is_some_and(|origin| origin != plan.origin) {
            return Err(Error::invalid(&*name, "its origin has just changed; try again"));
        }
        sync.all_or_nothing(|| plan.apply(&cx, &keys))
    })?;
    live.refresh()
}

/// The names of snapshots that a clone would take over, and already has.
pub(super) fn conflicts(cx: &Cx<'_>, name: &str) -> Result<Vec<String>> {
    let node = tree::find(cx, name)?;
    let head = cx.dataset(node.head)?.phys;
    let origin = cx.dir(node.dir)?.phys.origin;
    let from = cx.dir(cx.dataset(origin)?.phys.dir)?.phys;
    let mut names = Vec::new();
    for state in chain(cx, origin, from.origin)? {
        let short = unsnap::stored_name(cx, from.head_dataset, state.id)?;
        let short = String::from_utf8_lossy(&short).into_owned();
        if tree::snapshot_of(cx, &head, &short)?.is_some() {
            names.push(short);
        }
    }
    names.sort_unstable();
    Ok(names)
}

pub(super) struct Plan {
    node: Node,
    /// The directory of the origin's dataset.
    from: u64,
    from_head: u64,
    origin: u64,
    /// Snapshots to move, the origin first, with their names.
    shared: Vec<(DatasetNode, Vec<u8>)>,
    /// The first state of the clone after the origin.
    oldest: u64,
    /// The origin's dataset is an encryption root, and no longer is afterwards.
    takes_root: bool,
    /// Space that moves with the snapshots.
    space: SpaceTriple,
    /// The origin's unique space after the promotion.
    unique: u64,
    /// Space used by snapshots after the promotion, of the clone and of the other dataset.
    snapshots: (u64, u64),
}

/// The states from `at` back to `end`, exclusive: the newest first.
fn chain(cx: &Cx<'_>, mut at: u64, end: u64) -> Result<Vec<DatasetNode>> {
    let mut found = Vec::new();
    while at != end && at != 0 {
        if found.len() > CHAIN_MAX {
            return Err(Error::corrupt("", "the chain of snapshots does not end"));
        }
        let state = cx.dataset(at)?;
        at = state.phys.prev_snap;
        found.push(state);
    }
    Ok(found)
}

fn dead_since(cx: &Cx<'_>, states: &[&DslDataset], txg: u64) -> Result<u64> {
    let each = states.iter().map(|phys| Ok(deadlist::space_range(cx, phys.deadlist, txg, u64::MAX)?.used));
    each.sum()
}

impl Plan {
    pub(super) fn new(cx: &Cx<'_>, name: &str) -> Result<Self> {
        let invalid = |what: &str| Error::invalid(name, what);
        let node = tree::find(cx, name)?;
        if node.snapshot.is_some() {
            return Err(invalid("snapshots can not be promoted"));
        }
        let head = cx.dataset(node.head)?.phys;
        let origin = cx.dir(node.dir)?.phys.origin;
        if origin == 0 || Some(origin) == cx.origin_snapshot()? {
            return Err(invalid("not a cloned filesystem"));
        }
        if head.has(DslDataset::FLAG_NOPROMOTE) {
            return Err(invalid("it cannot be promoted"));
        }
        let origin_phys = cx.dataset(origin)?.phys;
        let from = origin_phys.dir;
        let from_dir = cx.dir(from)?.phys;
        let takes_root = check_keys(cx, name, node.dir, from)?;
        let shared = chain(cx, origin, from_dir.origin)?;
        let own = chain(cx, node.head, origin)?;
        let others = chain(cx, from_dir.head_dataset, origin)?;
        let oldest = own.last().ok_or_else(|| invalid("not a cloned filesystem"))?;
        let unique = dead_since(cx, &[&oldest.phys], origin_phys.prev_snap_txg.0)?;

        let mut space = SpaceTriple {
            used: origin_phys.referenced_bytes,
            compressed: origin_phys.compressed_bytes,
            uncompressed: origin_phys.uncompressed_bytes,
        };
        let mut below_txg = 0;
        // Before pool version 11, only clones have an origin.
        if from_dir.origin != 0 {
            let below = cx.dataset(from_dir.origin)?.phys;
            space.used = space.used.wrapping_sub(below.referenced_bytes);
            space.compressed = space.compressed.wrapping_sub(below.compressed_bytes);
            space.uncompressed = space.uncompressed.wrapping_sub(below.uncompressed_bytes);
            below_txg = below.creation_txg.0;
        }
        let mut moved = Vec::new();
        for state in shared {
            let short = unsnap::stored_name(cx, from_dir.head_dataset, state.id)?;
            let text = String::from_utf8_lossy(&short).into_owned();
            if tree::snapshot_of(cx, &head, &text)?.is_some() {
                return Err(Refusal::Exists.at(format!("{name}@{text}")));
            }
            if name.len() + 1 + short.len() > tree::NAME_MAX {
                return Err(Refusal::NameTooLong.at(format!("{name}@{text}")));
            }
            crate::deadlist::add(&mut space, deadlist::space(cx, state.phys.deadlist)?);
            moved.push((state, short));
        }
        bookmark::check_transfer(cx, name, from_dir.head_dataset, node.head, origin_phys.creation_txg.0)?;
        rename::check_limits(cx, (from, node.dir), (0, moved.len() as u64))?;
        rename::check_room(cx, name, (from, node.dir), space.used)?;
        let phys = |states: &[DatasetNode]| states.iter().map(|s| s.phys.clone()).collect::<Vec<_>>();
        let (own, others) = (phys(&own), phys(&others));
        let after: Vec<&DslDataset> = moved.iter().map(|(s, _)| &s.phys).chain(&own).collect();
        let others: Vec<&DslDataset> = others.iter().collect();
        let snapshots = (dead_since(cx, &after, below_txg)?, dead_since(cx, &others, origin_phys.creation_txg.0)?);
        let (from_head, oldest) = (from_dir.head_dataset, oldest.id);
        Ok(Self { node, from, from_head, origin, shared: moved, oldest, takes_root, space, unique, snapshots })
    }

    pub(super) fn apply(&self, cx: &Cx<'_>, store: &KeyStore) -> Result<()> {
        let (dir, head) = (self.node.dir, self.node.head);
        if self.takes_root {
            keys::hand_on_root(cx, store, self.from, dir)?;
        }
        let mut origin = cx.dataset(self.origin)?;
        let old_next = std::mem::replace(&mut origin.phys.next_snap, self.oldest);
        origin.phys.unique_bytes = self.unique;
        let origin_txg = origin.phys.creation_txg.0;
        cx.put_dataset(&origin)?;
        if origin.phys.next_clones_zap != 0 {
            tree::remove_int(cx, origin.phys.next_clones_zap, self.oldest)?;
            tree::add_int(cx, origin.phys.next_clones_zap, old_next)?;
        }
        let below = cx.change_dir(self.from, |from| std::mem::replace(&mut from.origin, self.origin))?;
        cx.change_dir(dir, |dir| dir.origin = below)?;
        if cx.sync.version() >= version::DIR_CLONES {
            self.move_clones(cx, below, old_next)?;
        }
        bookmark::transfer(cx, self.from_head, head, origin_txg)?;
        bookmark::next_changed(cx, head, &origin.phys)?;
        let (ours, theirs) = (cx.dataset(head)?.phys.snapnames_zap, cx.dataset(self.from_head)?.phys.snapnames_zap);
        for (state, short) in &self.shared {
            cx.zap(theirs)?.remove(cx.tx(), short)?;
            cx.zap(ours)?.insert(cx.tx(), short, &ZapValue::one(state.id))?;
            cx.change_dataset(state.id, |phys| phys.dir = dir)?;
        }
        let count = i64::try_from(self.shared.len()).unwrap_or(i64::MAX);
        limits::adjust(cx, self.from, Counted::Snapshots, -count)?;
        limits::adjust(cx, dir, Counted::Snapshots, count)?;
        snapshot::changed(cx, self.from)?;

        let moved = Delta::between(self.space, SpaceTriple::default());
        for (dir, all, after) in [(dir, moved, self.snapshots.0), (self.from, moved.negated(), self.snapshots.1)] {
            let phys = cx.dir(dir)?.phys;
            let grown = if phys.has_breakdown() { after.wrapping_sub(phys.used.snapshots) as i64 } else { 0 };
            space::did_use(cx, dir, Part::Snapshots, Delta::used(grown))?;
            space::did_use(cx, dir, Part::Head, Delta { used: all.used.wrapping_sub(grown), ..all })?;
        }
        deadlist::remove_livelist(cx, dir)?;
        deadlist::remove_livelist(cx, self.from)?;
        cx.sync.scan_promoted(head, self.from_head, origin_txg)?;
        cx.history("promote", &self.node.name, head, " ")
    }

    /// Updates the clone lists that directories have from pool version 26 on, for the snapshots
    /// that moved. `below` is the origin of the other dataset.
    fn move_clones(&self, cx: &Cx<'_>, below: u64, old_next: u64) -> Result<()> {
        let theirs = cx.dir(self.from)?.phys.clones_zap;
        let under = cx.dir(cx.dataset(below)?.phys.dir)?.phys.clones_zap;
        let ours = tree::clones(cx, self.node.dir)?;
        tree::remove_int(cx, theirs, self.node.head)?;
        tree::remove_int(cx, under, self.from_head)?;
        tree::add_int(cx, under, self.node.head)?;
        tree::add_int(cx, ours, self.from_head)?;
        for (state, _) in &self.shared {
            let clones = cx.dataset(state.id)?.phys.next_clones_zap;
            if clones == 0 {
                continue;
            }
            for first in cx.zap(clones)?.entries()?.iter().filter_map(|e| e.value.as_u64()) {
                if first != old_next {
                    let head = cx.dir(cx.dataset(first)?.phys.dir)?.phys.head_dataset;
                    tree::remove_int(cx, theirs, head)?;
                    tree::add_int(cx, ours, head)?;
                }
            }
        }
        Ok(())
    }
}

/// Rejects promotions after which a key would be wrapped by an encryption root other than the one
/// above. Returns whether the clone becomes the encryption root.
fn check_keys(cx: &Cx<'_>, name: &str, dir: u64, from: u64) -> Result<bool> {
    let origin = cx.dir(from)?.phys.origin;
    let is_clone = origin != 0 && Some(origin) != cx.origin_snapshot()?;
    let Some(root) = keys::root_of(cx, from)?.filter(|_| !is_clone) else { return Ok(false) };
    if root == from {
        return Ok(true);
    }
    let above = |dir: u64| keys::root_of(cx, cx.dir(dir)?.phys.parent);
    match above(from)? == above(dir)? {
        true => Ok(false),
        false => Err(Error::invalid(name, "cannot promote dataset outside its encryption root")),
    }
}
