//! Redaction lists that are being made: their bookmarks must not be destroyed, and each is made once.

use super::Open;
use host::sync::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The objects of these lists.
pub(super) type Lists = Mutex<BTreeSet<u64>>;

/// A redaction list is being made while this value exists.
pub(crate) struct Redacting {
    lists: Arc<Lists>,
    list: u64,
}

impl Drop for Redacting {
    fn drop(&mut self) {
        self.lists.lock().remove(&self.list);
    }
}

impl Open {
    /// Begins to make the list in object `list`; `None` if another redaction does.
    pub(crate) fn redacting(&self, list: u64) -> Option<Redacting> {
        let is_new = self.redacting.lock().insert(list);
        is_new.then(|| Redacting { lists: self.redacting.clone(), list })
    }

    /// Whether that list is being made.
    pub(crate) fn is_redacting(&self, list: u64) -> bool {
        self.redacting.lock().contains(&list)
    }
}
