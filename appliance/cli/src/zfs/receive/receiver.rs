//! The state of one call, and what all its parts do with the pool.

use super::list::List;
use super::options::Asked;
use crate::context::Context;
use admin::mounts::{PoolMounts, cannot_unmount};
use admin::state::Imported;
use admin::verbs::{Caller, PoolLease, Unprivileged};
use daemon::{Flow, Owner};
use dataset::{Datasets, LiveDatasets};
use errors::Error;
use std::cell::RefCell;
use std::sync::Arc;

/// The pool to receive into.
pub(super) enum Pool<'r> {
    Writing(&'r PoolLease),
    /// Only read, for `-n`.
    Looking(Arc<Datasets>),
}

/// The state of one call.
pub(super) struct Receiver<'r> {
    pub record: &'r Imported,
    pub pool: Pool<'r>,
    pub asked: &'r Asked,
    /// The owner of the pool, if this process mounts its file systems.
    pub owner: Option<Arc<Owner>>,
    /// Who receives.
    pub caller: Caller,
    /// The list at the start of the package, if it has one.
    pub list: Option<List>,
    /// The dataset that was sent: the names in the streams begin with it.
    pub sent: String,
    /// The first dataset received into. `-o` and `-x` apply to it.
    pub top: Option<String>,
    /// The file systems created by this call.
    pub made: Vec<String>,
    /// The file systems unmounted by this call.
    pub unmounted: RefCell<Vec<String>>,
    /// The flow that reports progress to the daemon.
    pub flow: Option<Arc<Flow>>,
}

impl<'r> Receiver<'r> {
    pub fn new(cx: &Context<'_>, record: &'r Imported, pool: Pool<'r>, asked: &'r Asked) -> Self {
        Self {
            record,
            pool,
            asked,
            owner: crate::mounts::owner(cx, record.guid),
            caller: cx.caller.clone(),
            list: None,
            sent: String::new(),
            top: None,
            made: Vec::new(),
            unmounted: RefCell::default(),
            flow: None,
        }
    }

    /// The datasets of the last synced txg.
    pub fn tree(&self) -> Result<Arc<Datasets>, Error> {
        match &self.pool {
            Pool::Writing(pool) => pool.live.synced(),
            Pool::Looking(tree) => Ok(tree.clone()),
        }
    }

    pub fn live(&self) -> &LiveDatasets {
        match &self.pool {
            Pool::Writing(pool) => &pool.live,
            Pool::Looking(_) => unreachable!("a dry run ends before anything is changed"),
        }
    }

    /// Unmounts and closes a dataset that is about to be replaced, renamed, destroyed or updated.
    /// It is mounted again at the end, except one that is replaced as a whole, with `-u`.
    pub fn let_go(&self, name: &str, is_replaced: bool) -> Result<(), Error> {
        if let (Some(owner), false) = (&self.owner, self.caller.is_owner()) {
            // What is mounted stays mounted.
            let mounter = Unprivileged::new(owner.clone());
            let unmounted = PoolMounts::new(&mounter, &owner.house, self.record).unmount_placed(name, false);
            unmounted.map_err(|e| Error::invalid(name, cannot_unmount(&e)))?;
        } else if let Some(owner) = &self.owner {
            // A file system that is replaced as a whole is not detached from its users, as with
            // OpenZFS on Linux.
            let force = self.asked.force_unmount && !is_replaced;
            let names = crate::mounts::unmount_placed(owner, self.record, name, force);
            let names = names.map_err(|why| Error::invalid(name, why))?;
            if !(is_replaced && self.asked.no_mount) {
                self.unmounted.borrow_mut().extend(names);
            }
        }
        match &self.pool {
            Pool::Writing(pool) => pool.close_dataset(name).map_err(|e| Error::invalid(name, format!("{e:#}"))),
            Pool::Looking(_) => Ok(()),
        }
    }
}
