//! The process that is killed: a pool on image files, mounted for writing until it is unmounted.

use anyhow::{Context, Result, ensure};
use block::Class;
use dataset::write::{Bootstrap, bootstrap};
use dataset::{KeyStore, LiveDatasets};
use files::FileSystem;
use files::zpl::owners_of;
use host::device::{Device, FileDevice};
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Pool, Writer, search_devices};
use posix::MAKER;
use serve::fuse::{MountOptions, mount};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

pub const POOL: &str = "crash";
const DISK_BYTES: u64 = 512 << 20;
/// Key of the encrypted layouts.
pub const KEY: [u8; 32] = *b"a key that everybody may know...";

/// Layout of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Name on command lines.
    pub name: &'static str,
    kind: &'static str,
    disks: usize,
    has_log: bool,
    properties: &'static [(&'static str, &'static str)],
}

/// All layouts under test.
pub const LAYOUTS: [Layout; 7] = [
    Layout { name: "single", kind: "file", disks: 1, has_log: false, properties: &[("xattr", "sa")] },
    Layout {
        name: "mirror",
        kind: "mirror",
        disks: 2,
        has_log: false,
        properties: &[("xattr", "sa"), ("compression", "zstd"), ("recordsize", "16k")],
    },
    Layout {
        name: "raidz1",
        kind: "raidz",
        disks: 3,
        has_log: false,
        properties: &[("xattr", "sa"), ("compression", "lz4"), ("checksum", "sha256")],
    },
    Layout {
        name: "log",
        kind: "file",
        disks: 1,
        has_log: true,
        properties: &[("xattr", "sa"), ("recordsize", "4k"), ("dnodesize", "auto")],
    },
    Layout {
        name: "encrypted",
        kind: "file",
        disks: 1,
        has_log: false,
        properties: &[("xattr", "sa"), ("encryption", "aes-256-gcm"), ("keyformat", "raw")],
    },
    Layout {
        name: "encrypted-raidz1-log",
        kind: "raidz",
        disks: 3,
        has_log: true,
        properties: &[("xattr", "sa"), ("encryption", "aes-256-ccm"), ("keyformat", "raw"), ("recordsize", "32k")],
    },
    Layout {
        name: "throughput",
        kind: "mirror",
        disks: 2,
        has_log: false,
        properties: &[("xattr", "sa"), ("logbias", "throughput"), ("copies", "2"), ("compression", "off")],
    },
];

impl Layout {
    /// Finds a layout by name.
    pub fn find(name: &str) -> Result<Self> {
        LAYOUTS.into_iter().find(|l| l.name == name).with_context(|| format!("no layout is called {name}"))
    }

    /// Whether it needs the key.
    pub fn is_encrypted(&self) -> bool {
        self.properties.iter().any(|(name, _)| *name == "encryption")
    }

    /// Paths of its image files in `folder`.
    pub fn images(&self, folder: &Path) -> Vec<PathBuf> {
        (0..self.disks + usize::from(self.has_log)).map(|n| folder.join(format!("disk{n}"))).collect()
    }

    fn devices(&self, folder: &Path) -> Result<Vec<Arc<dyn Device>>> {
        let open = |path: &PathBuf| -> Result<Arc<dyn Device>> { Ok(Arc::new(FileDevice::open_for_writing(path)?)) };
        self.images(folder).iter().map(open).collect()
    }

    fn tops(&self, devices: &[Arc<dyn Device>]) -> Vec<NewVdev> {
        let leaf = |device: &Arc<dyn Device>, class| {
            let leaf = Some((device.name().to_owned(), device.clone()));
            NewVdev { kind: "file", parity: 0, draid: None, class, leaf, ashift: 12, children: Vec::new() }
        };
        let normal: Vec<_> = devices[..self.disks].iter().map(|d| leaf(d, Class::Normal)).collect();
        let mut tops = match self.kind {
            "file" => normal,
            kind => {
                let parity = u64::from(kind == "raidz");
                vec![NewVdev {
                    kind,
                    parity,
                    draid: None,
                    class: Class::Normal,
                    leaf: None,
                    ashift: 12,
                    children: normal,
                }]
            }
        };
        tops.extend(devices[self.disks..].iter().map(|d| leaf(d, Class::Log)));
        tops
    }
}

fn options(interval: Duration) -> WriteOptions {
    WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), interval, ..WriteOptions::default() }
}

/// Creates a pool and closes it.
pub fn create(layout: &Layout, folder: &Path) -> Result<()> {
    for image in layout.images(folder) {
        File::create(image)?.set_len(DISK_BYTES)?;
    }
    let new = CreatePool {
        version: 5000,
        name: POOL.to_owned(),
        tops: layout.tops(&layout.devices(folder)?),
        features: default_features().map(str::to_owned).collect(),
        comment: None,
        compatibility: None,
    };
    let keys = KeyStore::new();
    let properties = layout.properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let key = layout.is_encrypted().then(|| Zeroizing::new(KEY.to_vec()));
    let root = Bootstrap { properties, key, keys: &keys, maker: MAKER };
    let writer =
        Writer::create(&new, &OpenOptions::default(), &options(Duration::from_secs(5)), |sync| bootstrap(sync, &root))?;
    Ok(writer.export()?)
}

/// Opens the pool, which replays its log, and mounts it at `dir`. Prints `up`, and returns after it
/// was unmounted and exported.
pub fn serve(layout: &Layout, folder: &Path, dir: &Path, interval: Duration) -> Result<()> {
    // The server must not outlive the tests.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let found = search_devices(layout.devices(folder)?).pools.into_iter().next().context("no pool")?;
    let writer = Writer::open(&found, &OpenOptions::default(), &options(interval)).context("open the pool")?;
    drop(found);
    let live = LiveDatasets::new(writer, Arc::new(KeyStore::new()));
    if layout.is_encrypted() {
        live.keys().load(&live.synced()?.dataset(POOL)?, &KEY)?;
    }
    let dataset = live.open(POOL, Some(owners_of))?;
    let files = FileSystem::mount(&dataset).context("mount")?;
    // A server that is killed while it uses io_uring can block sync(2) on the whole machine.
    let handle = mount(files, dir, &MountOptions { name: POOL.to_owned(), uring: false, ..MountOptions::default() })?;
    let mut out = std::io::stdout();
    out.write_all(b"up\n").and_then(|()| out.flush())?;
    // Ends with this process, or when the parent closes the pipe.
    let (setter, name) = (live.clone(), POOL);
    std::thread::spawn(move || set_properties(&setter, name));
    handle.wait()?;
    drop(dataset);
    live.close_all()?;
    live.writer().export().context("export")
}

/// Reads properties to set, one `name=value` per line, and prints `done` after each is set.
fn set_properties(live: &LiveDatasets, dataset: &str) {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let Some((name, value)) = line.split_once('=') else { return };
        if let Err(error) = dataset::write::set(live, dataset, &[(name.to_owned(), value.to_owned())]) {
            eprintln!("{line}: {error}");
            return;
        }
        let mut out = std::io::stdout();
        if out.write_all(b"done\n").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// Verifies every block of the pool on disk.
pub fn verify(layout: &Layout, folder: &Path) -> Result<()> {
    let open = |path: &PathBuf| -> Result<Arc<dyn Device>> { Ok(Arc::new(FileDevice::open(path)?)) };
    let devices = layout.images(folder).iter().map(open).collect::<Result<Vec<_>>>()?;
    let found = search_devices(devices).pools.into_iter().next().context("no pool")?;
    let pool = Pool::open(&found, &OpenOptions::default())?;
    let report = pool::scan::verify(&pool, &pool::scan::Options { threads: 1 }, &|_| true)?;
    ensure!(report.is_clean(), "verify: {report:#?}");
    Ok(())
}

/// Checks the pool with zdb, if it is installed.
pub fn zdb(folder: &Path) -> Result<()> {
    rig::zdb::check(folder, POOL).map(drop)
}
