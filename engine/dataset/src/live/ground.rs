//! What the intent log of a dataset stands on: the pool's txgs, and the dataset's features.

use crate::Result;
use crate::intent_log::{self, Ground, LogFigures, SKIPPED_EVENT, Skipped, named_text, unnamed_texts};
use object::Tx;
use parking_lot::{Mutex, RwLock};
use pool::Writer;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Records of extended attributes may be in the log.
const ZILSAXATTR: &str = "org.openzfs:zilsaxattr";
const ZILSAXATTR_NAME: &str = "zilsaxattr";

/// The ground of a dataset's log.
pub(super) struct DatasetGround {
    pub writer: Arc<Writer>,
    /// Object number of the dataset.
    pub id: u64,
    /// Shared with the dataset, which follows renames.
    pub name: Arc<RwLock<String>>,
    /// Shared with the dataset: noted on disk with the next txg.
    pub features: Arc<Mutex<BTreeSet<&'static str>>>,
    pub figures: Arc<LogFigures>,
    /// Skipped records of which the open txg, or the one that is synced, notes the numbers.
    pub skipped: Arc<Mutex<Vec<u64>>>,
}

impl DatasetGround {
    /// Has events put into the pool's history with the open txg, which is given up if that fails: what is replayed in it must not be
    /// on disk without them.
    fn note(&self, texts: impl FnOnce() -> Vec<String> + Send + 'static) -> Result<()> {
        let (name, id) = (self.name(), self.id);
        self.writer.task_later(move |sync| {
            let add = |text: &String| sync.history(SKIPPED_EVENT, Some((&name, id)), text);
            sync.all_or_nothing(|| texts().iter().try_for_each(add))
        })
    }
}

impl Ground for DatasetGround {
    fn hold(&self) -> Result<Tx> {
        self.writer.hold()
    }

    fn sync(&self) -> Result<()> {
        self.writer.sync()
    }

    fn synced_txg(&self) -> u64 {
        self.writer.synced_txg()
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

    fn skipped(&self, claim_txg: u64, sequence: u64, named: Option<&Skipped>) -> Result<()> {
        if let Some(record) = named {
            let text = named_text(claim_txg, record);
            return self.note(move || vec![text]);
        }
        let mut numbers = self.skipped.lock();
        if numbers.is_empty() {
            let numbers = self.skipped.clone();
            self.note(move || unnamed_texts(claim_txg, std::mem::take(&mut *numbers.lock())))?;
        }
        numbers.push(sequence);
        Ok(())
    }

    fn skipped_before(&self, claim_txg: u64) -> Result<Vec<u64>> {
        let found = intent_log::skipped_records(&*self.writer.pool()?, self.id, claim_txg)?;
        Ok(found.into_iter().map(|(sequence, _)| sequence).collect())
    }

    fn begins(&self) {
        if self.logs_attributes() {
            self.features.lock().insert(ZILSAXATTR);
        }
    }

    fn logs_attributes(&self) -> bool {
        self.writer.feature_enabled(ZILSAXATTR_NAME)
    }
}
