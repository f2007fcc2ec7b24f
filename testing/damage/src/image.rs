//! Pool images, and opening pools from devices.

use anyhow::{Context, Result};
use dataset::{Dataset, Datasets, KeyStore};
use host::device::{Device, FileDevice};
use pool::{FoundPool, OpenOptions, Pool, search_devices};
use std::path::PathBuf;
use std::sync::Arc;

/// Cache size of the pools under test: small, so that it does not hide reads and excess memory is
/// noticed.
pub const CACHE_BYTES: u64 = 32 << 20;

/// A scenario: the unpacked devices of one or more pools.
#[derive(Clone)]
pub struct Scenario {
    pub name: String,
    /// Directory with key files, if there are any.
    pub keys: Option<PathBuf>,
    /// Devices, sorted by name.
    pub devices: Vec<Arc<dyn Device>>,
}

/// The directory of unpacked images: `WEIR_FIXTURES`.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("WEIR_FIXTURES").map(PathBuf::from).filter(|p| p.is_dir())
}

/// The scenario `name`. Prints a line and returns `None` if there are no images.
pub fn scenario(name: &str) -> Option<Scenario> {
    let found = folder().and_then(|f| load(&f, name).ok()).filter(|s| !s.devices.is_empty());
    if found.is_none() {
        println!("skipped: no image {name}; set WEIR_FIXTURES to the folder of unpacked images (make images)");
    }
    found
}

fn load(folder: &std::path::Path, name: &str) -> Result<Scenario> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder.join(name))?.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for path in paths.iter().filter(|p| p.is_file() && p.extension().is_none()) {
        devices.push(Arc::new(FileDevice::open(path).with_context(|| path.display().to_string())?));
    }
    let expected = std::env::var_os("WEIR_EXPECTED").map_or_else(|| folder.to_owned(), PathBuf::from).join(name);
    let keys = expected.is_dir().then_some(expected);
    Ok(Scenario { name: name.to_owned(), keys, devices })
}

/// All scenarios in [`folder`], sorted by name; none if there is no such directory.
pub fn all() -> Vec<Scenario> {
    let Some(folder) = folder() else { return Vec::new() };
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .map(|entries| entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    names.iter().filter_map(|n| load(&folder, n).ok()).filter(|s| !s.devices.is_empty()).collect()
}

/// A pool and its datasets.
pub struct Opened {
    /// The pool with its keys.
    pub pool: admin::OpenPool,
    keys: Vec<admin::KeyFile>,
}

/// Opens the pool on `devices`. The error describes what is wrong.
pub fn open(devices: impl IntoIterator<Item = Arc<dyn Device>>, keys: Option<&PathBuf>) -> Result<Opened> {
    let mut search = search_devices(devices);
    let found = search.pools.pop().context("no device has a readable label")?;
    open_found(&found, keys)
}

/// Opens a pool that was found.
pub fn open_found(found: &FoundPool, keys: Option<&PathBuf>) -> Result<Opened> {
    let pool = Pool::open(found, &OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() })?;
    let pool = admin::OpenPool { datasets: Datasets::open(pool)?, keys: Arc::new(KeyStore::new()) };
    let files = keys.into_iter().flat_map(|folder| ["pass", "key32"].map(|name| folder.join(name)));
    let keys = files.filter(|path| path.is_file()).map(|path| admin::KeyFile { dataset: None, path }).collect();
    Ok(Opened { pool, keys })
}

impl Opened {
    /// The file system of a dataset.
    pub fn files(&self, dataset: &Dataset) -> Result<Arc<dyn files::vfs::Vfs>> {
        let source = admin::KeySource { files: self.keys.clone(), ..admin::KeySource::default() };
        self.pool.files(&self.pool.dataset(dataset.name(), &source)?)
    }

    pub fn pool(&self) -> &Arc<Pool> {
        self.pool.pool()
    }

    /// Reads every block of the pool and checks its checksum.
    pub fn verify(&self) -> Result<pool::scan::Report> {
        Ok(pool::scan::verify(self.pool(), &pool::scan::Options { threads: 1 }, &|_| true)?)
    }
}
