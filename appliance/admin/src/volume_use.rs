//! Uses of volumes: each ends when it is dropped.

use files::Volume;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// Datasets in use: number of users by object number.
#[derive(Default)]
pub(crate) struct Uses(Mutex<BTreeMap<u64, usize>>);

impl Uses {
    /// Adds a use of dataset `id`.
    pub fn begin(self: &Arc<Self>, id: u64) -> Use {
        *self.0.lock().entry(id).or_default() += 1;
        Use { of: self.clone(), id }
    }

    /// Whether the dataset is in use.
    pub fn has(&self, id: u64) -> bool {
        self.0.lock().contains_key(&id)
    }

    /// Any dataset that is in use.
    pub fn any(&self) -> Option<u64> {
        self.0.lock().keys().next().copied()
    }
}

/// One use; ends when dropped.
pub(crate) struct Use {
    of: Arc<Uses>,
    id: u64,
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut uses = self.of.0.lock();
        if let Some(count) = uses.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.id);
            }
        }
    }
}

/// A volume, or a snapshot of one, that is in use until this is dropped.
pub struct OpenVolume {
    volume: Arc<Volume>,
    _use: Option<Use>,
}

impl OpenVolume {
    pub(crate) fn new(volume: Arc<Volume>, used: Option<Use>) -> Self {
        Self { volume, _use: used }
    }

    /// The volume, for a server that holds this.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }
}

impl Deref for OpenVolume {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}
