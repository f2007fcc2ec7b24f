//! A pool in memory with file systems, which zdb may look at.

// Each test uses another part.

use dataset::write::{Bootstrap, NewDataset, bootstrap, create};
use dataset::{Datasets, KeyStore, LiveDatasets};
use files::vfs::{Caller, FileKind, NodeId, Vfs};
use files::zpl::{FileSystem, MAKER, Options};
use host::device::{Device, MemoryDevice};
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Pool, Writer, scan, search_devices};
use rig::{images, zdb};
use std::sync::Arc;
use std::time::Duration;

const DISK_BYTES: usize = 160 << 20;

pub struct Rig {
    pub devices: Vec<Arc<dyn Device>>,
    pub live: Option<Arc<LiveDatasets>>,
}

fn owned(properties: &[(&str, &str)]) -> Vec<(String, String)> {
    properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

fn options() -> WriteOptions {
    WriteOptions {
        interval: Duration::from_secs(3600),
        claim_logs: Some(dataset::intent_log::claim_logs),
        ..WriteOptions::default()
    }
}

pub fn root() -> Caller {
    Caller { privileged: true, ..Caller::default() }
}

impl Rig {
    pub fn new() -> Self {
        Self::with_features(|_| true)
    }

    /// Of the features that a new pool has, those that `keep` names.
    pub fn with_features(keep: impl Fn(&str) -> bool) -> Self {
        Self::of(&[("disk", block::Class::Normal)], keep)
    }

    /// With a log device, which is the last one.
    pub fn with_log_device() -> Self {
        Self::of(&[("disk", block::Class::Normal), ("log", block::Class::Log)], |_| true)
    }

    /// Of a version before feature flags.
    pub fn numbered(version: u64) -> Self {
        Self::of_version(version, &[("disk", block::Class::Normal)], |_| false)
    }

    fn of(disks: &[(&str, block::Class)], keep: impl Fn(&str) -> bool) -> Self {
        Self::of_version(5000, disks, keep)
    }

    fn of_version(version: u64, disks: &[(&str, block::Class)], keep: impl Fn(&str) -> bool) -> Self {
        let device = |name: &str| Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES])) as Arc<dyn Device>;
        let devices: Vec<_> = disks.iter().map(|(name, _)| device(name)).collect();
        let tops = disks.iter().zip(&devices).map(|((name, class), device)| NewVdev {
            kind: "file",
            parity: 0,
            draid: None,
            class: *class,
            leaf: Some(((*name).to_owned(), device.clone())),
            ashift: 9,
            children: vec![],
        });
        let new = CreatePool {
            version,
            name: "tank".into(),
            tops: tops.collect(),
            features: default_features().filter(|name| keep(name)).map(str::to_owned).collect(),
            comment: None,
            compatibility: None,
        };
        let keys = Arc::new(KeyStore::new());
        let root = Bootstrap { properties: Vec::new(), key: None, keys: &keys, maker: MAKER };
        let writer = Writer::create(&new, &OpenOptions::default(), &options(), |sync| bootstrap(sync, &root)).unwrap();
        Self { devices, live: Some(LiveDatasets::new(writer, keys)) }
    }

    /// A pool that OpenZFS made; `Err`: why it cannot be written.
    pub fn of_openzfs(folder: &std::path::Path) -> errors::Result<Self> {
        let devices = images::read(folder).unwrap();
        let found = search_devices(devices.iter().cloned()).pools.remove(0);
        let writer = Writer::open(&found, &OpenOptions::default(), &options())?;
        Ok(Self { devices, live: Some(LiveDatasets::new(writer, Arc::new(KeyStore::new()))) })
    }

    pub fn live(&self) -> &Arc<LiveDatasets> {
        self.live.as_ref().unwrap()
    }

    pub fn make(&self, name: &str, properties: &[(&str, &str)]) -> Arc<FileSystem> {
        let new = NewDataset { name: name.into(), properties: owned(properties), ..NewDataset::default() };
        create(self.live(), &new, MAKER).unwrap();
        self.mount(name)
    }

    pub fn mount(&self, name: &str) -> Arc<FileSystem> {
        let live = self.live().open(name, Some(files::zpl::owners_of)).unwrap();
        FileSystem::mount(&live).unwrap()
    }

    pub fn open(&mut self) {
        let found = search_devices(self.devices.iter().cloned()).pools.remove(0);
        let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
        self.live = Some(LiveDatasets::new(writer, Arc::new(KeyStore::new())));
    }

    /// The pool on what a power cut leaves that keeps all that was written.
    pub fn cut(&self) -> Self {
        let mut after = Self { devices: images::copy(&self.devices).unwrap(), live: None };
        after.open();
        after
    }

    pub fn export(&mut self) {
        self.live().close_all().unwrap();
        self.live().writer().export().unwrap();
        self.live = None;
    }

    /// The pool as another process would find it on the disks now.
    pub fn found(&self) -> Arc<Pool> {
        Pool::open(&search_devices(self.devices.iter().cloned()).pools.remove(0), &OpenOptions::default()).unwrap()
    }

    pub fn read(&self, name: &str) -> Arc<FileSystem> {
        self.read_as(name, Options::default())
    }

    pub fn read_as(&self, name: &str, options: Options) -> Arc<FileSystem> {
        let tree = Datasets::open(self.found()).unwrap();
        let objset = tree.dataset(name).unwrap().objset(&KeyStore::new()).unwrap();
        FileSystem::open(objset, Options { name: name.into(), ..options }).unwrap()
    }

    pub fn zdb(&self, args: &[&str]) -> Option<String> {
        zdb::run(self.images().path(), args).unwrap()
    }

    /// The devices as files in a folder.
    fn images(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        images::write(&self.devices, folder.path()).unwrap();
        folder
    }

    /// What must hold on disk once the pool is exported.
    pub fn judge(&self) {
        let report = scan::verify(&self.found(), &scan::Options { threads: 1 }, &|_| true).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        zdb::check(self.images().path(), self.found().name()).unwrap();
    }
}

/// All names, attributes and contents of a tree, as text.
pub fn dump(vfs: &dyn Vfs) -> String {
    fn walk(vfs: &dyn Vfs, node: NodeId, path: &str, out: &mut Vec<String>) {
        let a = vfs.attr(node).unwrap();
        let contents = match a.kind {
            FileKind::Regular if a.size < 1 << 26 => vfs.read(node, 0, a.size as usize).unwrap().to_vec(),
            FileKind::Regular => {
                // The same bytes are data before and after: none of them is all zeros.
                let (mut all, mut at) = (Vec::new(), 0);
                while let Some(data) = vfs.seek_data(node, at).unwrap() {
                    at = vfs.seek_hole(node, data).unwrap();
                    all.extend_from_slice(&data.to_le_bytes());
                    all.extend_from_slice(&vfs.read(node, data, (at - data) as usize).unwrap());
                }
                all
            }
            FileKind::Symlink => vfs.read_link(node).unwrap(),
            _ => Vec::new(),
        };
        let sum = contents.iter().fold(17u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(*b)));
        let mut xattrs = vfs.list_xattr(node).unwrap();
        xattrs.sort();
        let xattrs: Vec<_> = xattrs.into_iter().map(|n| (vfs.get_xattr(node, &n).unwrap(), n)).collect();
        // What is used on disk is known once it is there.
        out.push(format!("{path} {:?} {sum} {xattrs:?}", files::vfs::Attr { blocks_512: 0, ..a }));
        if a.kind == FileKind::Directory {
            let mut entries = Vec::new();
            vfs.read_dir(node, 2, &mut |e| {
                entries.push((e.name, e.node));
                true
            })
            .unwrap();
            entries.sort();
            for (name, node) in entries {
                walk(vfs, node, &format!("{path}/{}", String::from_utf8_lossy(&name)), out);
            }
        }
    }
    let mut out = Vec::new();
    walk(vfs, vfs.root(), "", &mut out);
    out.join("\n")
}

/// Number of entries in the pool's object directory that record which log records were skipped.
pub fn noted(rig: &Rig) -> usize {
    let entries = rig.found().directory().entries().unwrap();
    entries.iter().filter(|e| e.name.starts_with(b"weir:")).count()
}
