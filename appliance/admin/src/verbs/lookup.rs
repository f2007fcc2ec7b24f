//! Looks up the datasets that a verb operates on.

use super::invocation::Invocation;
use super::refusal::{Kind, Refusal};
use super::tally::Tally;
use crate::state::Imported;
use dataset::name::listing_order;
use dataset::property::MountOptions;
use dataset::{Dataset, Datasets, Entry, KeyStore, ListOptions, Mounts, View};
use errors::Error;
use std::collections::HashMap;
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

    /// The same, with the options of the mounts.
    pub fn view_with<'a>(&'a self, mounted: &'a dyn Fn(&str) -> bool, options: &'a MountOptions<'a>) -> View<'a> {
        View { mounts: Mounts::With { mounted, options }, ..self.view(mounted) }
    }
}

/// A dataset and its pool.
pub struct Found {
    pub pool: Arc<ReadPool>,
    /// The dataset or bookmark.
    pub entry: Entry,
}

/// Sorts datasets as `zfs list` does, and removes duplicates.
pub fn in_listing_order(mut all: Vec<Found>) -> Vec<Found> {
    all.sort_by(|a, b| {
        let (a, b) = (&a.entry, &b.entry);
        listing_order((a.name(), a.creation_txg()), (b.name(), b.creation_txg()))
    });
    all.dedup_by(|a, b| a.entry.name() == b.entry.name());
    all
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
    /// The import record of a dataset's pool. `verb` is the verb in the error message.
    pub fn record(&self, verb: &str, name: &str) -> Result<Imported, Refusal> {
        let pool = pool_of(name);
        let found = self.state.pool(pool).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))?;
        let absent = || Refusal::new(Kind::NotFound, format!("cannot {verb} '{name}': no such pool '{pool}'"));
        found.ok_or_else(absent)
    }

    /// Opens the imported pool of that name for reading; `None`: there is none.
    pub fn pool(&self, name: &str) -> Result<Option<Arc<ReadPool>>, Refusal> {
        let record = self.state.pool(name).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))?;
        let Some(record) = record else { return Ok(None) };
        let (datasets, keys) = self.datasets(&record)?;
        Ok(Some(Arc::new(ReadPool { record, datasets, keys })))
    }

    /// Looks up a dataset, snapshot or bookmark.
    pub fn entry(&self, name: &str) -> Result<Found, Refusal> {
        Lookup::new(self).entry(name)
    }
}

/// The pools that one verb reads, each opened once.
pub struct Lookup<'a> {
    invocation: &'a Invocation<'a>,
    open: HashMap<String, Arc<ReadPool>>,
}

impl<'a> Lookup<'a> {
    pub fn new(invocation: &'a Invocation<'a>) -> Self {
        Self { invocation, open: HashMap::new() }
    }

    fn pool(&mut self, name: &str) -> Result<Option<Arc<ReadPool>>, Refusal> {
        if let Some(pool) = self.open.get(name) {
            return Ok(Some(pool.clone()));
        }
        let pool = self.invocation.pool(name)?;
        self.open.extend(pool.iter().map(|pool| (name.to_owned(), pool.clone())));
        Ok(pool)
    }

    /// Looks up a dataset, snapshot or bookmark. The outer error: its pool cannot be opened.
    pub fn find(&mut self, name: &str) -> Result<Result<Found, Refusal>, Refusal> {
        let Some(pool) = self.pool(pool_of(name))? else {
            let message = format!("cannot open '{name}': dataset does not exist");
            return Ok(Err(Refusal::new(Kind::NotFound, message)));
        };
        let entry = pool.datasets.entry(name).map_err(|e| cannot_open(name, &e));
        Ok(entry.map(|entry| Found { pool, entry }))
    }

    /// The same, with one kind of error.
    pub fn entry(&mut self, name: &str) -> Result<Found, Refusal> {
        self.find(name)?
    }

    /// The datasets `names` and those below them that `options` selects, or the datasets of all
    /// pools when `names` is empty: sorted, each once. Names that are refused, and datasets that
    /// cannot be read, are in `tally`.
    pub fn list(&mut self, names: &[String], options: &ListOptions, tally: &mut Tally) -> Result<Vec<Found>, Refusal> {
        let mut roots: Vec<(Arc<ReadPool>, String)> = Vec::new();
        if names.is_empty() {
            let records = self.invocation.state.pools();
            for record in records.map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))? {
                match self.pool(&record.name) {
                    Ok(pool) => roots.extend(pool.map(|pool| (pool, record.name))),
                    Err(refusal) => tally.refuse(refusal),
                }
            }
        }
        for name in names {
            let delimiters = [('@', "snapshot", options.snapshots), ('#', "bookmark", options.bookmarks)];
            if let Some((c, what, _)) = delimiters.iter().find(|(c, _, is_wanted)| !is_wanted && name.contains(*c)) {
                let message = format!("cannot open '{name}': {what} delimiter '{c}' is not expected here");
                tally.refuse(Refusal::new(Kind::Invalid, message));
                continue;
            }
            match self.find(name)? {
                Ok(found) => roots.push((found.pool, name.clone())),
                Err(refusal) => tally.refuse(refusal),
            }
        }
        let mut all = Vec::new();
        for (pool, root) in roots {
            let listing = pool.datasets.list(&[&root], options).map_err(|e| cannot_open(&root, &e))?;
            for error in &listing.errors {
                tally.refuse(Refusal::new(Kind::of(error), format!("weir: {error}")));
            }
            all.extend(listing.entries.into_iter().map(|entry| Found { pool: pool.clone(), entry }));
        }
        Ok(in_listing_order(all))
    }
}
