//! A pool of its own, mounted for writing: what suites for file systems are run on.
//!
//! Below: every layer of the program but its commands, so that a suite says what is wrong before they are asked.

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

/// A pool open for writing, and the files of its root dataset.
pub struct LivePool {
    /// Its datasets.
    pub live: Arc<LiveDatasets>,
    /// The files.
    pub files: Arc<FileSystem>,
}

fn fill(set: &Arc<ObjectSet>, tx: &Tx, _: &FileSystemTraits) -> object::Result<()> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() };
    create_contents(set, tx, &CreateOptions { time, projects: true, ..CreateOptions::default() })
}

/// Makes what a new file system begins with.
pub const MAKER: FileSystemMaker = FileSystemMaker { fill, owners_of };

fn options() -> WriteOptions {
    WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), ..WriteOptions::default() }
}

impl LivePool {
    /// Makes a pool called `name` on one device, its root dataset with these properties.
    pub fn create(name: &str, device: Arc<dyn Device>, properties: &[(&str, &str)]) -> Result<Self> {
        let leaf = Some((device.name().to_owned(), device));
        let class = block::Class::Normal;
        let top = NewVdev { kind: "file", parity: 0, draid: None, class, leaf, ashift: 12, children: Vec::new() };
        let new = CreatePool {
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

    /// Opens the pool that is on one device.
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

    /// The files, to be served.
    pub fn vfs(&self) -> Arc<dyn Vfs> {
        self.files.clone()
    }

    /// Brings everything to disk and lets go of the pool.
    pub fn export(self) -> Result<()> {
        drop(self.files);
        self.live.close_all()?;
        self.live.writer().export().context("export the pool")
    }
}
