//! The contents of a dataset, which need its keys if it is encrypted.

use crate::dataset::Dataset;
use crate::keys::KeyStore;
use errors::{Error, Place, Result};
use object::{ObjectSet, Zap};
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
        let master = Zap::open(set.object(MASTER_NODE).at(self.name())?).at(self.name())?;
        match master.lookup_u64(DELETE_QUEUE).at(self.name())? {
            Some(queue) => Zap::open(set.object(queue).at(self.name())?)?.count().at(self.name()),
            None => Ok(0),
        }
    }
}
