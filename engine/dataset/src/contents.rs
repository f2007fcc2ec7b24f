//! The contents of a dataset, which need its keys if it is encrypted.

use crate::dataset::Dataset;
use crate::keys::KeyStore;
use errors::{Error, Place, Result};
use object::{ObjectSet, Zap};
use std::collections::HashSet;
use std::sync::Arc;

/// The master node of a file system, and its entry for the list of unlinked files.
const MASTER_NODE: u64 = 1;
const DELETE_QUEUE: &str = "DELETE_QUEUE";

impl Dataset {
    /// The contents. Returns [`Error::KeyUnavailable`] if they are encrypted and `keys` has no key
    /// for them.
    pub fn objset(&self, keys: &KeyStore) -> Result<Arc<ObjectSet>> {
        if self.phys().bp.is_hole() {
            return Err(Error::not_found(self.name(), "the contents: nothing was ever written, so the object set"));
        }
        match self.crypto_object()? {
            None => self.objset_without_keys(),
            Some(_) => {
                let keys = keys.dataset_keys(self)?;
                let store = self.mos().store().clone();
                ObjectSet::open(store, &self.phys().bp, self.id(), Some(keys)).at(self.name())
            }
        }
    }

    /// Number of files of a file system that are unlinked but not yet freed: they are open, or were
    /// when a machine stopped.
    pub fn unlinked(&self, keys: &KeyStore) -> Result<u64> {
        let set = self.objset(keys)?;
        self.unlinked_set(&set)?.map_or(Ok(0), |queue| queue.count().at(self.name()))
    }

    /// The numbers of these files. `set`: the contents.
    pub(crate) fn unlinked_objects(&self, set: &Arc<ObjectSet>) -> Result<HashSet<u64>> {
        let Some(queue) = self.unlinked_set(set)? else { return Ok(HashSet::new()) };
        let entries = queue.entries().at(self.name())?;
        Ok(entries.iter().filter_map(|entry| entry.value.as_u64()).collect())
    }

    fn unlinked_set(&self, set: &Arc<ObjectSet>) -> Result<Option<Zap>> {
        let master = Zap::open(set.object(MASTER_NODE).at(self.name())?).at(self.name())?;
        let queue = master.lookup_u64(DELETE_QUEUE).at(self.name())?;
        queue.map(|queue| Zap::open(set.object(queue)?).at(self.name())).transpose()
    }
}
