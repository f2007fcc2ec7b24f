//! Opens a pool by name, and datasets in it.

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

/// Folders searched for disks on a Linux machine by default.
const DEFAULT_PLACES: [&str; 1] = ["/dev"];

/// A pool opened read-only, its datasets, and their loaded keys.
pub struct OpenPool {
    /// The datasets, which hold the pool.
    pub datasets: Arc<Datasets>,
    pub keys: Arc<KeyStore>,
}

/// Finds the pool with the name or guid `name` among the disks in `places`; if that is empty, among
/// this machine's disks.
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
    // A search of the whole machine skips many places that do not matter.
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
    pub fn pool(&self) -> &Arc<Pool> {
        self.datasets.pool()
    }

    /// The dataset `name`. If it is encrypted, loads its key from `source`.
    pub fn dataset(&self, name: &str, source: &KeySource<'_>) -> Result<Dataset> {
        // A pool may be given by its guid, its datasets may not.
        let rest = name.find(['/', '@', '#']).map_or("", |at| &name[at..]);
        let dataset = self.datasets.dataset(&format!("{}{rest}", self.pool().name()))?;
        if !self.keys.is_available(&dataset)? {
            keys::load(&self.keys, &dataset, source).with_context(|| format!("{name}: cannot load its key"))?;
        }
        Ok(dataset)
    }

    /// Loads the keys of all encrypted datasets, from `source` or from the datasets' own locations.
    /// Returns the encryption roots that stay locked, each with the reason.
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

    /// The files of a file system or snapshot; a volume is a single file.
    pub fn files(&self, dataset: &Dataset) -> Result<Arc<dyn Vfs>> {
        Ok(crate::provider::files(dataset, &self.keys)?)
    }

    /// A warning about a dataset of a pool that was not exported, if its intent log has changes
    /// that are not shown. These are durable, but not replayed in a read-only pool.
    pub fn unreplayed(&self, dataset: &Dataset) -> Option<String> {
        crate::provider::unreplayed(dataset, &self.keys)
    }

    /// A dataset with everything to show below it. Datasets below with keys of their own are opened
    /// with `key_files`, or with the files that their property `keylocation` names.
    pub fn provider(&self, dataset: Dataset, key_files: &[KeyFile]) -> Arc<dyn Provider> {
        Arc::new(DatasetProvider::new(dataset, self.keys.clone(), key_files.into(), None))
    }
}
