//! Errors that wait for the error log.

use crate::facts::LoggedError;
use block::Bookmark;
use host::sync::Mutex;
use ondisk::Txg;
use ondisk::errlog::HeadError;
use std::collections::{BTreeMap, BTreeSet};

/// Limit for the errors that wait for a txg: more of them are only counted.
const WAITING_MAX: usize = 100_000;

/// Errors that wait to be written.
#[derive(Default)]
pub(super) struct Errors(pub Mutex<Lists>);

/// Blocks and their birth txgs.
#[derive(Default)]
pub(super) struct Lists {
    pub last: BTreeMap<Bookmark, u64>,
    pub scan: BTreeMap<Bookmark, u64>,
    pub rotate: bool,
    /// Entries to remove from the logs, of heads: the blocks no longer exist.
    pub gone: BTreeSet<(u64, String)>,
}

impl Errors {
    /// Adds a block that cannot be read.
    pub fn add(&self, at: &Bookmark, birth: u64, during_scan: bool) {
        let mut lists = self.0.lock();
        let during_scan = during_scan || lists.rotate;
        let list = if during_scan { &mut lists.scan } else { &mut lists.last };
        if list.len() < WAITING_MAX {
            list.insert(*at, birth);
        }
    }

    /// A scan ended: in the next txg its errors replace those of the last scan.
    pub fn rotate(&self) {
        self.0.lock().rotate = true;
    }

    /// Removes these entries in the next txg.
    pub fn forget(&self, entries: &[LoggedError]) {
        let names = entries.iter().map(|e| {
            let name = HeadError { object: e.object, level: e.level, block: e.block, birth: Txg(e.birth) };
            (e.dataset, name.to_string())
        });
        self.0.lock().gone.extend(names);
    }

    /// Whether there is anything to write in a txg.
    pub fn is_dirty(&self) -> bool {
        let lists = self.0.lock();
        lists.rotate || !lists.gone.is_empty() || !lists.last.is_empty() || !lists.scan.is_empty()
    }
}
