//! What `object` and `pool` are about to offer to those who write: signatures alone, refused until they do.
#![allow(missing_docs, unused_variables)]

use crate::{Error, Result};
use object::{ObjectSet, Tx};
use ondisk::BlkPtr;
use pool::Pool;
use std::sync::Arc;

fn not_yet<T>() -> Result<T> {
    Err(Error::unsupported("", "writing to pools"))
}

/// The txg engine of a pool.
pub struct Writer {
    pool: Arc<Pool>,
}

/// A txg being synced.
pub struct SyncTx<'a> {
    tx: &'a Tx,
    mos: &'a Arc<ObjectSet>,
}

/// Takes part in each txg.
pub trait Participant: Send + Sync {
    /// Whether the txg has changes of it.
    fn is_dirty(&self, txg: u64) -> bool;
    /// The txg is closed: no `Tx` of it lives any more.
    fn quiesce(&self, txg: u64);
    /// Writes what changed in the txg.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()>;
}

impl Writer {
    pub fn begin(&self, bytes: u64) -> Result<Tx> {
        not_yet()
    }
    pub fn task<R: Send + 'static>(&self, f: impl FnOnce(&SyncTx<'_>) -> Result<R> + Send + 'static) -> Result<R> {
        not_yet()
    }
    pub fn sync(&self) -> Result<()> {
        not_yet()
    }
    pub fn pool(&self) -> Result<Arc<Pool>> {
        Ok(self.pool.clone())
    }
    pub fn store(&self) -> &Arc<object::Store> {
        self.pool.store()
    }
    pub fn register(&self, p: Arc<dyn Participant>) {}
    pub fn unregister(&self, p: &Arc<dyn Participant>) {}
}

impl SyncTx<'_> {
    pub fn tx(&self) -> &Tx {
        self.tx
    }
    pub fn txg(&self) -> u64 {
        self.tx.txg()
    }
    pub fn mos(&self) -> &Arc<ObjectSet> {
        self.mos
    }
    pub fn pool_name(&self) -> String {
        String::new()
    }
    pub fn feature_enabled(&self, name: &str) -> bool {
        false
    }
    pub fn feature_active(&self, name: &str) -> bool {
        false
    }
    pub fn feature_increment(&self, name: &str) -> Result<()> {
        not_yet()
    }
    pub fn feature_decrement(&self, name: &str) -> Result<()> {
        not_yet()
    }
    pub fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        0
    }
    pub fn free(&self, bp: &BlkPtr) -> Result<()> {
        not_yet()
    }
    pub fn pool_bytes(&self) -> u64 {
        0
    }
    pub fn take_mos_space(&self) -> (i64, i64, i64) {
        (0, 0, 0)
    }
    pub fn hole_birth(&self) -> bool {
        false
    }
    pub fn history(&self, name: &str, dataset: Option<(&str, u64)>, text: &str) -> Result<()> {
        not_yet()
    }
}
