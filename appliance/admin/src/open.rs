//! Opening a pool by name, and datasets in it.

use crate::keys::{self, KeyFile, KeySource};
use crate::provider::DatasetProvider;
use anyhow::{Context, Result, bail};
use dataset::tree::{Entry, ListOptions};
use dataset::{Dataset, Datasets, KeyStore};
use files::namespace::Provider;
use files::vfs::Vfs;
use pool::{FoundPool, OpenOptions, Pool, PoolState, Search};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Where disks are on a Linux machine, when nobody says it.
const DEFAULT_PLACES: [&str; 1] = ["/dev"];

/// A pool, its datasets, and the keys that were given for them.
pub struct OpenPool {
    /// The datasets; the pool is theirs.
    pub datasets: Arc<Datasets>,
    /// Keys that are loaded.
    pub keys: Arc<KeyStore>,
}

/// The pool that `name` (or its guid) stands for, among the disks found in `places`; in none: among this machine's.
pub fn find(name: &str, places: &[PathBuf]) -> Result<FoundPool> {
    let defaults = DEFAULT_PLACES.map(PathBuf::from);
    let search = pool::search(if places.is_empty() { &defaults } else { places });
    choose(name, search, places.is_empty())
}

fn choose(name: &str, search: Search, everywhere: bool) -> Result<FoundPool> {
    let guid = name.parse::<u64>().ok();
    let Search { pools, skipped, damaged } = search;
    let mut others: Vec<String> = pools.iter().map(|p| format!("'{}'", p.name())).collect();
    let (destroyed, mut found): (Vec<_>, Vec<_>) = pools
        .into_iter()
        .filter(|p| p.name() == name || Some(p.guid) == guid)
        .partition(|p| p.state() == PoolState::Destroyed);
    if found.is_empty() {
        found = destroyed;
    }
    if found.len() > 1 {
        let guids: Vec<String> = found.iter().map(|p| p.guid.to_string()).collect();
        bail!("there are {} pools named '{name}': specify one by its GUID, {}", found.len(), guids.join(" or "));
    }
    if let Some(found) = found.pop() {
        return Ok(found);
    }
    others.sort();
    others.dedup();
    let mut why = format!("no such pool '{name}'");
    if !others.is_empty() {
        why += &format!("; found {}", others.join(", "));
    }
    // Where the whole machine was searched, there are many places that are nobody's business.
    for place in if everywhere { &[] } else { skipped.as_slice() } {
        why += &format!("; {}: {}", place.path.display(), place.why);
    }
    for device in damaged {
        why += &format!("; {}: {}", device.path.display(), device.why);
    }
    if everywhere {
        why += " (use -d to search other places for its devices)";
    }
    bail!("{why}")
}

/// Finds and opens the pool of the dataset `name`, read-only.
pub fn open_pool(name: &str, places: &[PathBuf], options: &OpenOptions) -> Result<OpenPool> {
    let pool_name = name.split(['/', '@', '#']).next().unwrap_or(name);
    let found = find(pool_name, places)?;
    let pool = Pool::open(&found, options)?;
    let datasets = Datasets::open(pool)?;
    Ok(OpenPool { datasets, keys: Arc::new(KeyStore::new()) })
}

impl OpenPool {
    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        self.datasets.pool()
    }

    /// The dataset `name`; if it is encrypted, with its key loaded from `source`.
    pub fn dataset(&self, name: &str, source: &KeySource<'_>) -> Result<Dataset> {
        // A pool may be named by its number, its datasets may not.
        let rest = name.find(['/', '@', '#']).map_or("", |at| &name[at..]);
        let dataset = self.datasets.dataset(&format!("{}{rest}", self.pool().name()))?;
        if !self.keys.is_available(&dataset)? {
            keys::load(&self.keys, &dataset, source).with_context(|| format!("{name}: cannot load its key"))?;
        }
        Ok(dataset)
    }

    /// Loads the keys of all encrypted datasets that `source` has, or that are where the datasets say. The encryption roots that stay
    /// locked, each with why.
    pub fn load_keys(&self, source: &KeySource<'_>) -> Result<Vec<(String, anyhow::Error)>> {
        let mut locked = BTreeMap::new();
        for entry in self.datasets.list(&[], &ListOptions::heads())?.entries {
            let Entry::Dataset(dataset) = entry else { continue };
            let Some(root) = dataset.encryption_root()? else { continue };
            if locked.contains_key(root.name()) || self.keys.is_available(&dataset)? {
                continue;
            }
            if let Err(e) = keys::load(&self.keys, &dataset, source) {
                locked.insert(root.name().to_owned(), e);
            }
        }
        Ok(locked.into_iter().collect())
    }

    /// The files of a file system or snapshot; of a volume, the one file that it is.
    pub fn files(&self, dataset: &Dataset) -> Result<Arc<dyn Vfs>> {
        Ok(crate::provider::files(dataset, &self.keys)?)
    }

    /// What a person should know who looks at a dataset of a pool that was not closed: changes that only its intent log
    /// has. They were promised to be kept, and are not shown.
    pub fn unreplayed(&self, dataset: &Dataset) -> Option<String> {
        crate::provider::unreplayed(dataset, &self.keys)
    }

    /// A dataset with all that can be shown beneath it. Datasets beneath with keys of their own are opened with `key_files`,
    /// or the files that their property `keylocation` names.
    pub fn provider(&self, dataset: Dataset, key_files: &[KeyFile]) -> Arc<dyn Provider> {
        Arc::new(DatasetProvider::new(dataset, self.keys.clone(), key_files.into(), None))
    }
}
