//! Redaction lists that are being made: their bookmarks must not be destroyed, and each is made
//! once.

use host::sync::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The objects of these lists.
#[derive(Default)]
pub(super) struct Lists(Mutex<BTreeSet<u64>>);

/// A redaction list is being made while this value exists.
pub(crate) struct Redacting {
    lists: Arc<Lists>,
    list: u64,
}

impl Drop for Redacting {
    fn drop(&mut self) {
        self.lists.0.lock().remove(&self.list);
    }
}

impl Lists {
    /// Begins to make the list in object `list`; `None` if another redaction does.
    pub(super) fn begin(self: &Arc<Self>, list: u64) -> Option<Redacting> {
        let is_new = self.0.lock().insert(list);
        is_new.then(|| Redacting { lists: self.clone(), list })
    }

    pub(super) fn contains(&self, list: u64) -> bool {
        self.0.lock().contains(&list)
    }
}
