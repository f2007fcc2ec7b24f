//! A separate pool, mounted for writing, on which file system test suites run.
//!
//! Below: every layer of the program except its commands, so that a suite finds errors of the lower
//! layers on their own.

use anyhow::{Context, Result};
use dataset::write::{Bootstrap, FileSystemMaker, FileSystemTraits, bootstrap};
use dataset::{KeyStore, LiveDatasets};
use files::FileSystem;
use files::vfs::{Time, Vfs};
use files::zpl::{CreateOptions, create_contents, owners_of};
use host::device::Device;
use object::{ObjectSet, Tx};
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Writer, search_devices};
use std::sync::Arc;
use std::time::SystemTime;

/// A pool that is open for writing, and the files of its root dataset.
pub struct LivePool {
    pub live: Arc<LiveDatasets>,
    pub files: Arc<FileSystem>,
}

fn fill(set: &Arc<ObjectSet>, tx: &Tx, _: &FileSystemTraits, _: (u32, u32)) -> errors::Result<()> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() };
    create_contents(set, tx, &CreateOptions { time, projects: true, ..CreateOptions::default() })
}

/// Creates the initial contents of a new file system.
pub const MAKER: FileSystemMaker = FileSystemMaker { fill, owners_of };

fn options() -> WriteOptions {
    WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), ..WriteOptions::default() }
}

impl LivePool {
    /// Creates a pool called `name` on one device. The properties apply to its root dataset.
    pub fn create(name: &str, device: Arc<dyn Device>, properties: &[(&str, &str)]) -> Result<Self> {
        let leaf = Some((device.name().to_owned(), device));
        let class = block::Class::Normal;
        let top = NewVdev { kind: "file", parity: 0, draid: None, class, leaf, ashift: 12, children: Vec::new() };
        let new = CreatePool {
            version: 5000,
            name: name.to_owned(),
            tops: vec![top],
            features: default_features().map(str::to_owned).collect(),
            comment: None,
            compatibility: None,
        };
        let keys = Arc::new(KeyStore::new());
        let properties = properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let root = Bootstrap { properties, key: None, keys: &keys, maker: MAKER };
        let open = OpenOptions::default();
        let writer = Writer::create(&new, &open, &options(), |sync| bootstrap(sync, &root)).context("make the pool")?;
        Self::mount(writer, keys)
    }

    /// Opens the pool on one device.
    pub fn open(device: Arc<dyn Device>) -> Result<Self> {
        let found = search_devices([device]).pools.into_iter().next().context("no pool")?;
        let writer = Writer::open(&found, &OpenOptions::default(), &options()).context("open the pool")?;
        Self::mount(writer, Arc::new(KeyStore::new()))
    }

    fn mount(writer: Arc<Writer>, keys: Arc<KeyStore>) -> Result<Self> {
        let name = writer.name();
        let live = LiveDatasets::new(writer, keys);
        let dataset = live.open(&name, Some(owners_of))?;
        let files = FileSystem::mount(&dataset)?;
        Ok(Self { live, files })
    }

    /// The file system, to be served.
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        self.files.clone()
    }

    /// Writes everything to disk and closes the pool.
    pub fn export(self) -> Result<()> {
        drop(self.files);
        self.live.close_all()?;
        self.live.writer().export().context("export the pool")
    }
}
