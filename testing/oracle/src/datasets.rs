//! The datasets and snapshots of a pool, opened in the same way as by the commands.

use admin::{KeyFile, KeySource, OpenPool};
use anyhow::Result;
use dataset::tree::{Entry, ListOptions};
use dataset::{Dataset, Datasets, KeyStore};
use files::vfs::Vfs;
use pool::{FoundPool, OpenOptions, Pool};
use std::path::Path;
use std::sync::Arc;

/// Names of key files in the recorded data.
const KEY_FILES: [&str; 2] = ["pass", "key32"];

/// A pool, and the key files recorded with it.
pub struct Opened {
    pool: OpenPool,
    keys: Vec<KeyFile>,
}

impl Opened {
    /// Opens a pool. `keys` is a directory with key files.
    pub fn new(found: &FoundPool, keys: Option<&Path>) -> Result<Self> {
        let pool = Pool::open(found, &OpenOptions::default())?;
        let pool = OpenPool { datasets: Datasets::open(pool)?, keys: Arc::new(KeyStore::new()) };
        let files = keys.into_iter().flat_map(|folder| KEY_FILES.map(|name| folder.join(name)));
        let keys = files.filter(|path| path.is_file()).map(|path| KeyFile { dataset: None, path }).collect();
        Ok(Self { pool, keys })
    }

    /// All file systems, volumes and snapshots, in the order of `zfs list`.
    pub fn datasets(&self) -> Result<Vec<Dataset>> {
        let list = self.pool.datasets.list(&[], &ListOptions { bookmarks: false, ..ListOptions::all() })?;
        if let Some(error) = list.errors.into_iter().next() {
            return Err(error.into());
        }
        let datasets = list.entries.into_iter().filter_map(|entry| match entry {
            Entry::Dataset(dataset) => Some(dataset),
            Entry::Bookmark(_) => None,
        });
        Ok(datasets.collect())
    }

    /// The files of a dataset. A volume is shown as one file.
    pub fn files(&self, dataset: &Dataset) -> Result<Arc<dyn Vfs>> {
        let source = KeySource { files: self.keys.clone(), ..KeySource::default() };
        self.pool.files(&self.pool.dataset(dataset.name(), &source)?)
    }
}
