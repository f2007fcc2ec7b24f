//! What a dataset writes into the MOS with the next txg, apart from its own blocks.

use crate::intent_log::{SkippedRecord, Unread, UnsyncedSkips};
use crate::write::cx::Cx;
use crate::write::feature;
use crate::write::receive_progress::{self, ReceivedTo};
use errors::{Place, Result};
use host::sync::Mutex;
use object::Tx;
use std::collections::{BTreeMap, BTreeSet};

/// Features in use, skipped log records and receive progress that are not yet on disk. Added by any
/// thread, written and cleared by the syncing thread.
#[derive(Default)]
pub(super) struct UnsyncedNotes {
    /// Features that came into use and are not yet counted.
    features: Mutex<BTreeSet<&'static str>>,
    /// By txg: records that a replay skipped.
    skipped: UnsyncedSkips,
    /// By txg: how far a receive that can be resumed has come.
    received: Mutex<BTreeMap<u64, ReceivedTo>>,
}

impl UnsyncedNotes {
    /// Feature `guid` is in use from now on.
    pub fn use_feature(&self, guid: &'static str) {
        self.features.lock().insert(guid);
    }

    /// Record `sequence` of the log claimed in `claim_txg` is skipped with `tx`.
    pub fn add_skipped(&self, tx: &Tx, claim_txg: u64, sequence: u64, named: Option<&SkippedRecord>) {
        self.skipped.add(tx.txg(), claim_txg, sequence, named);
    }

    /// The log cannot be read to its end. Recorded with `tx`.
    pub fn add_unread(&self, tx: &Tx, unread: &Unread) {
        self.skipped.add_unread(tx.txg(), unread);
    }

    /// A receive has come as far as `to` with `tx`.
    pub fn add_received(&self, tx: &Tx, to: ReceivedTo) {
        self.received.lock().insert(tx.txg(), to);
    }

    /// Whether `txg` must be synced for the notes. Receive progress comes with dirty blocks, which
    /// have the same effect.
    pub fn is_dirty(&self, txg: u64) -> bool {
        !self.features.lock().is_empty() || self.skipped.is_dirty(txg)
    }

    /// Writes what is due in the syncing txg for dataset `id`.
    pub fn sync(&self, cx: &Cx<'_>, (name, id): (&str, u64)) -> Result<()> {
        let features = std::mem::take(&mut *self.features.lock());
        for guid in features {
            feature::activate(cx, id, guid)?;
        }
        let received = {
            let mut received = self.received.lock();
            let later = received.split_off(&(cx.txg() + 1));
            std::mem::replace(&mut *received, later).pop_last()
        };
        if let Some((_, to)) = received {
            receive_progress::put(cx, id, &to)?;
        }
        self.skipped.sync(cx, (name, id)).at(name)
    }
}
