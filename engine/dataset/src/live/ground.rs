//! What the intent log of a dataset depends on: the pool's txgs, and the dataset's features.

use super::notes::UnsyncedNotes;
use crate::intent_log::{Ground, LogFigures, SkippedRecord, Unread, is_unread_reported, skipped_numbers};
use block::WriteStore;
use errors::Result;
use host::sync::RwLock;
use object::Tx;
use ondisk::version;
use pool::Writer;
use std::sync::Arc;

/// Records of extended attributes may be in the log.
const ZILSAXATTR: &str = "org.openzfs:zilsaxattr";
const ZILSAXATTR_NAME: &str = "zilsaxattr";

pub(super) struct DatasetGround {
    pub writer: Arc<Writer>,
    /// Object number of the dataset.
    pub id: u64,
    /// Shared with the dataset, which updates it on a rename.
    pub name: Arc<RwLock<String>>,
    pub figures: Arc<LogFigures>,
    /// Shared with the dataset, which writes them with the txg.
    pub notes: Arc<UnsyncedNotes>,
}

impl Ground for DatasetGround {
    fn store(&self) -> &WriteStore {
        self.writer.store()
    }

    fn hold(&self) -> Result<Tx> {
        self.writer.hold()
    }

    fn sync(&self) -> Result<()> {
        self.writer.sync()
    }

    fn synced_txg(&self) -> u64 {
        let synced = self.writer.synced_txg();
        synced.min(self.writer.frozen_after().unwrap_or(synced))
    }

    fn frozen_after(&self) -> Option<u64> {
        self.writer.frozen_after()
    }

    fn figures(&self) -> &LogFigures {
        &self.figures
    }

    fn name(&self) -> String {
        self.name.read().clone()
    }

    fn random(&self) -> u64 {
        self.writer.random()
    }

    fn skipped(&self, claim_txg: u64, sequence: u64, named: Option<&SkippedRecord>) -> Result<()> {
        let tx = self.writer.hold()?;
        self.notes.add_skipped(&tx, claim_txg, sequence, named);
        Ok(())
    }

    fn unread(&self, unread: &Unread) -> Result<()> {
        if is_unread_reported(&*self.writer.pool()?, self.id, unread) {
            return Ok(());
        }
        let tx = self.writer.hold()?;
        self.notes.add_unread(&tx, unread);
        drop(tx);
        // The mount fails now, and with it this dataset is closed.
        self.sync()
    }

    fn skipped_before(&self, claim_txg: u64) -> Result<Vec<u64>> {
        skipped_numbers(self.writer.pool()?.directory(), self.id, claim_txg)
    }

    fn can_log(&self) -> bool {
        self.writer.version() >= version::SLIM_ZIL
    }

    fn begins(&self) {
        if self.logs_attributes() {
            self.notes.use_feature(ZILSAXATTR);
        }
    }

    fn logs_attributes(&self) -> bool {
        self.writer.feature_enabled(ZILSAXATTR_NAME)
    }
}
