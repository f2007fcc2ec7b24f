//! Several operations in one txg, each of which sees what those before it changed: for programs
//! (`zfs program`).
//!
//! An operation either happens or changes nothing. Those that happened stay, whatever the next ones
//! do. No other thread changes datasets meanwhile, since all of it is one task.
//!
//! Facts: module/zfs/zcp_synctask.c, and the checks that it calls.

use super::cx::Cx;
use super::props::Change;
use super::rename::{self, check_snapshots};
use super::tree::{self, TXG_INITIAL};
use super::{apply_all, bookmark, check_inherit, destroy, promote, rollback, snapshot, unsnap, values};
use crate::live::{LiveDatasets, Open};
use crate::property::{full_name, is_user_property};
use crate::{Datasets, KeyStore};
use errors::{Error, Place, Refusal, Result};
use host::sync::Mutex;
use ondisk::{DslDataset, version};
use pool::SpaceCheck;
use std::sync::Arc;

/// Bytes of a property's value, with its NUL: ZAP_MAXVALUELEN.
const VALUE_MAX: usize = 8192;
/// Bytes of a property's name, with its NUL: ZAP_MAXNAMELEN.
const PROPERTY_NAME_MAX: usize = 256;

/// Why an operation did not happen.
#[derive(Debug, Clone)]
pub enum Denied {
    Error(Error),
    /// It needs another txg than this one: EAGAIN.
    Later,
    /// There is no snapshot to roll back to: ESRCH.
    NoSnapshot,
    /// Snapshots of the clone have the same names: EEXIST.
    Conflicts(Vec<String>),
}

impl From<Error> for Denied {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// What an operation returns.
pub type Done<T = ()> = std::result::Result<T, Denied>;

/// A txg in which a program runs. With `dry_run`, operations are checked and do not happen.
pub struct OneTxg<'a> {
    cx: Cx<'a>,
    keys: Arc<KeyStore>,
    open: Arc<Open>,
    /// The datasets as they are, until the next change.
    tree: Mutex<Option<Arc<Datasets>>>,
    /// Whether a dataset or snapshot is in use, though its state on disk does not say so.
    is_used: IsUsed,
    /// Blocks that the changes so far may need. The txg's own figures are those before it.
    spent_blocks: Mutex<u64>,
}

/// Whether something uses the dataset or snapshot with that object.
pub type IsUsed = Box<dyn Fn(u64) -> bool + Send>;

/// Runs `program` in a txg, and returns when that is on disk: its result, and whether the datasets
/// could be read again after it. What `is_used` holds for is not destroyed.
pub fn in_one_txg<R: Send + 'static>(
    live: &LiveDatasets,
    is_used: IsUsed,
    program: impl FnOnce(&OneTxg<'_>) -> R + Send + 'static,
) -> Result<(R, Result<()>)> {
    let (keys, open) = live.parts();
    let result = live.writer().task(move |sync| {
        let (tree, spent_blocks) = (Mutex::new(None), Mutex::new(0));
        let one = OneTxg { cx: Cx::new(sync), keys, open, tree, is_used, spent_blocks };
        Ok(program(&one))
    })?;
    Ok((result, live.refresh().map(drop)))
}

impl OneTxg<'_> {
    /// Number of the txg.
    pub fn txg(&self) -> u64 {
        self.cx.txg()
    }

    /// The datasets with all changes so far. They must not be kept.
    pub fn tree(&self) -> Result<Arc<Datasets>> {
        let mut tree = self.tree.lock();
        if let Some(tree) = &*tree {
            return Ok(tree.clone());
        }
        Ok(tree.insert(Datasets::open(self.cx.sync.pool()?)?).clone())
    }

    /// The loaded keys.
    pub fn keys(&self) -> &Arc<KeyStore> {
        &self.keys
    }

    fn change(&self, blocks: u64, run: impl FnOnce() -> Result<()>) -> Done {
        self.changed(blocks, self.cx.sync.all_or_nothing(run))
    }

    /// Notes what a change did to the datasets and to the space.
    fn changed(&self, blocks: u64, result: Result<()>) -> Done {
        *self.tree.lock() = None;
        result?;
        *self.spent_blocks.lock() += blocks;
        Ok(())
    }

    /// Refuses a change for which there is no space after those before it. Facts:
    /// zri_space_used.
    fn check_space(&self, name: &str, blocks: u64, check: SpaceCheck) -> Result<()> {
        let spent = *self.spent_blocks.lock();
        self.cx.sync.check_space(name, spent.saturating_add(blocks), check)
    }

    fn check_unused(&self, name: &str, object: u64) -> Result<()> {
        if (self.is_used)(object) { Err(Refusal::Busy.at(name)) } else { Ok(()) }
    }

    fn check_pool(&self, name: &str) -> Result<()> {
        let pool = name.split(['/', '@', '#']).next().unwrap_or(name);
        if pool == self.cx.mos().store().name() { Ok(()) } else { Err(Refusal::CrossDevice.at(name)) }
    }

    /// Takes a snapshot.
    pub fn snapshot(&self, name: &str, dry_run: bool) -> Done {
        if !name.contains('@') {
            return Err(Error::invalid(name, "a snapshot has '@' in its name").into());
        }
        self.check_pool(name)?;
        if name.len() > tree::NAME_MAX {
            return Err(Refusal::NameTooLong.at(name).into());
        }
        self.check_space(name, snapshot::TAKEN_BLOCKS, SpaceCheck::Normal)?;
        if self.cx.sync.version() < version::FAST_SNAPSHOTS {
            // As in OpenZFS: the dataset may have an intent log.
            return Err(Error::unsupported(name, tree::TOO_OLD).into());
        }
        let (node, _) = snapshot::check(&self.cx, name, &[])?;
        if self.cx.dataset(node.head)?.phys.prev_snap_txg.0 >= self.txg() {
            return Err(Denied::Later);
        }
        if dry_run {
            return Ok(());
        }
        let short = name.split_once('@').map_or("", |(_, short)| short);
        self.change(snapshot::TAKEN_BLOCKS, || snapshot::take(&self.cx, &node, short, tree::now()).map(drop))
    }

    /// Destroys a file system, volume or snapshot. Only a snapshot can be `deferred`.
    pub fn destroy(&self, name: &str, deferred: bool, dry_run: bool) -> Done {
        self.check_pool(name)?;
        self.check_space(name, 0, SpaceCheck::ExtraReserved)?;
        if name.contains('@') {
            // One that does not exist is destroyed already.
            let node = unsnap::check(&self.cx, name, deferred)?;
            if let Some(snapshot) = node.as_ref().and_then(|node| node.snapshot) {
                self.check_unused(name, snapshot)?;
            }
            if let (Some(node), false) = (node, dry_run) {
                self.open.has_more_to_free();
                return self.change(0, || unsnap::destroy_in(&self.cx, &node, deferred));
            }
            return Ok(());
        }
        self.check_head(name)?;
        let node = destroy::check(&self.cx, &self.open, name)?;
        self.check_unused(name, node.head)?;
        if dry_run {
            return Ok(());
        }
        destroy::check_blocks(&self.cx, &self.cx.dataset(node.head)?.phys, &node)?;
        if !self.open.release_head(node.head) {
            return Err(Refusal::Busy.at(name).into());
        }
        self.change(0, || destroy::destroy_in(&self.cx, &self.keys, &node))
    }

    /// The refusals of OpenZFS for datasets that others depend on.
    fn check_head(&self, name: &str) -> Result<()> {
        let node = tree::find(&self.cx, name)?;
        let phys = self.cx.dataset(node.head)?.phys;
        if phys.prev_snap != 0 && self.cx.dataset(phys.prev_snap)?.phys.next_snap == node.head {
            return Err(Refusal::Busy.at(name));
        }
        match self.cx.zap(self.cx.dir(node.dir)?.phys.children_zap)?.count()? {
            0 => Ok(()),
            _ => Err(Refusal::Exists.at(name)),
        }
    }

    /// Promotes a clone.
    pub fn promote(&self, name: &str, dry_run: bool) -> Done {
        self.check_pool(name)?;
        self.check_space(name, 3, SpaceCheck::Reserved)?;
        let plan = match promote::Plan::new(&self.cx, name) {
            Ok(plan) => plan,
            Err(Error::Refused { why: Refusal::Exists, .. }) => {
                return Err(Denied::Conflicts(promote::conflicts(&self.cx, name)?));
            }
            Err(error) => return Err(error.into()),
        };
        if dry_run { Ok(()) } else { self.change(3, || plan.apply(&self.cx, &self.keys)) }
    }

    /// Rolls a file system or volume back to its latest snapshot. Returns the name of that.
    pub fn rollback(&self, name: &str, dry_run: bool) -> Done<String> {
        self.check_pool(name)?;
        self.check_space(name, 1, SpaceCheck::Reserved)?;
        let node = tree::find(&self.cx, name)?;
        if node.snapshot.is_some() {
            return Err(Error::invalid(name, "a snapshot cannot be rolled back").into());
        }
        let head: DslDataset = self.cx.dataset(node.head)?.phys;
        if head.prev_snap_txg.0 < TXG_INITIAL || self.cx.dataset(head.prev_snap)?.phys.next_snap != node.head {
            return Err(Denied::NoSnapshot);
        }
        if bookmark::newest_txg(&self.cx, node.head)? > head.prev_snap_txg.0 {
            return Err(Refusal::Exists.at(name).into());
        }
        let short = unsnap::stored_name(&self.cx, node.head, head.prev_snap)?;
        let to = format!("{name}@{}", String::from_utf8_lossy(&short));
        let Some((node, head)) = rollback::check(&self.cx, &self.open, &to)? else { return Err(Denied::Later) };
        if dry_run {
            return Ok(to);
        }
        crate::intent_log::ClosedLog::open(self.cx.mos().store(), &head.bp, node.head).at(name)?;
        if !self.open.release_head(node.head) {
            return Err(Refusal::Busy.at(name).into());
        }
        self.change(1, || rollback::rollback_in(&self.cx, &self.keys, &node, &head))?;
        Ok(to)
    }

    /// Renames a snapshot of a file system or volume.
    pub fn rename_snapshot(&self, dataset: &str, old: &str, new: &str, dry_run: bool) -> Done {
        self.check_pool(dataset)?;
        self.check_space(dataset, 1, SpaceCheck::Reserved)?;
        let (from, to) = (format!("{dataset}@{old}"), format!("{dataset}@{new}"));
        let mut found = Vec::new();
        match check_snapshots(&self.cx, &from, &to, false, &mut found) {
            // As in OpenZFS, a snapshot that does not exist is passed over.
            Err(Error::NotFound { .. }) => drop(tree::find(&self.cx, dataset)?),
            checked => checked?,
        }
        if dry_run {
            return Ok(());
        }
        self.change(1, || found.iter().try_for_each(|(node, stored)| rename::rename_one(&self.cx, node, stored, new)))
    }

    /// Creates a bookmark of a snapshot or of another bookmark.
    pub fn bookmark(&self, source: &str, name: &str, dry_run: bool) -> Done {
        self.check_pool(source)?;
        self.check_pool(name)?;
        self.check_space(name, 1, SpaceCheck::Normal)?;
        let new = bookmark::check(&self.cx, source, name)?;
        if dry_run { Ok(()) } else { self.change(1, || new.make(&self.cx).map(drop)) }
    }

    /// Sets a user property.
    pub fn set_user_property(&self, name: &str, property: &str, value: &str, dry_run: bool) -> Done {
        let is_long = property.len() >= PROPERTY_NAME_MAX;
        if !is_user_property(property.get(..PROPERTY_NAME_MAX - 1).unwrap_or(property)) {
            return Err(Error::invalid(name, "programs can set user properties only").into());
        }
        self.check_pool(name)?;
        if is_long {
            return Err(Refusal::NameTooLong.at(name).into());
        }
        if value.len() >= VALUE_MAX {
            return Err(Refusal::AttributeTooLarge.at(name).into());
        }
        let node = tree::find(&self.cx, name)?;
        let settings = values::settings_for(&self.cx, &node, &[(property.to_owned(), value.to_owned())])?;
        self.apply(&node, settings.into_iter().map(Change::Set).collect(), dry_run)
    }

    /// Makes a dataset inherit a property.
    pub fn inherit(&self, name: &str, property: &str, dry_run: bool) -> Done {
        let property = full_name(property);
        check_inherit(name, property, false)?;
        self.check_pool(name)?;
        let node = tree::find(&self.cx, name)?;
        self.apply(&node, vec![Change::Inherit(property.to_owned())], dry_run)
    }

    fn apply(&self, node: &tree::Node, changes: Vec<Change>, dry_run: bool) -> Done {
        let blocks = changes.len() as u64;
        self.check_space(&node.name, blocks, SpaceCheck::Reserved)?;
        if dry_run {
            return Ok(());
        }
        self.changed(blocks, apply_all(&self.cx, node, changes))
    }
}
