//! Looks up the datasets that a verb operates on.

use super::invocation::Invocation;
use super::refusal::{Kind, Refusal};
use crate::state::Imported;
use dataset::{Dataset, Datasets, Entry, Error, KeyStore, ListOptions, Mounts, View};
use std::sync::Arc;

/// An imported pool that is open for reading, with its datasets and the keys that are loaded.
pub struct ReadPool {
    pub record: Imported,
    /// The datasets of the last synced txg.
    pub datasets: Arc<Datasets>,
    pub keys: Arc<KeyStore>,
}

impl ReadPool {
    /// The context for property values that do not come from the pool: keys, mounts and altroot.
    pub fn view<'a>(&'a self, mounted: &'a dyn Fn(&str) -> bool) -> View<'a> {
        View {
            keys: Some(&self.keys),
            mounts: Mounts::Of(mounted),
            altroot: self.record.altroot.as_deref(),
            read_only: false,
        }
    }
}

/// A dataset and its pool.
pub struct Found {
    pub pool: Arc<ReadPool>,
    /// The dataset or bookmark.
    pub entry: Entry,
}

/// Name of the pool that contains a dataset.
pub fn pool_of(dataset: &str) -> &str {
    dataset.split(['/', '@', '#']).next().unwrap_or(dataset)
}

/// Why a dataset cannot be opened.
pub fn cannot_open(name: &str, error: &Error) -> Refusal {
    let why = match error {
        Error::NotFound { .. } => "dataset does not exist".to_owned(),
        Error::Invalid { .. } => "invalid dataset name".to_owned(),
        error => error.to_string(),
    };
    Refusal::new(Kind::of(error), format!("cannot open '{name}': {why}"))
}

/// A dataset of a kind for which the verb does not exist.
pub(super) fn not_applicable(name: &str) -> Refusal {
    let message = format!("cannot open '{name}': operation not applicable to datasets of this type");
    Refusal::new(Kind::Invalid, message)
}

/// The file systems and volumes at `root`; with `recursive`, also those below it.
pub fn heads(tree: &Arc<Datasets>, root: &str, recursive: bool) -> Result<Vec<Dataset>, Refusal> {
    let options = ListOptions { depth: if recursive { None } else { Some(0) }, ..ListOptions::heads() };
    let listing = tree.list(&[root], &options).map_err(|e| cannot_open(root, &e))?;
    Ok(listing.entries.iter().filter_map(|e| e.dataset().cloned()).collect())
}

impl Invocation<'_> {
    /// Opens the imported pool of that name for reading; `None`: there is none.
    pub fn pool(&self, name: &str) -> Result<Option<Arc<ReadPool>>, Refusal> {
        let record = self.state.pool(name).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))?;
        let Some(record) = record else { return Ok(None) };
        let (datasets, keys) = self.datasets(&record)?;
        Ok(Some(Arc::new(ReadPool { record, datasets, keys })))
    }

    /// Looks up a dataset, snapshot or bookmark.
    pub fn entry(&self, name: &str) -> Result<Found, Refusal> {
        let Some(pool) = self.pool(pool_of(name))? else {
            return Err(Refusal::new(Kind::NotFound, format!("cannot open '{name}': dataset does not exist")));
        };
        let entry = pool.datasets.entry(name).map_err(|e| cannot_open(name, &e))?;
        Ok(Found { pool, entry })
    }
}
