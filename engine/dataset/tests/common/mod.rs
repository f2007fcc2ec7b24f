//! A pool on memory devices with a minimal file system of its own, and the checks that must hold
//! after each txg.
//!
//! Its files are objects whose bonus is three numbers: user, group, project. That is all that
//! accounting needs to know.

pub mod devices;
pub mod space_walk;
pub mod streams;

use dataset::write::{Bootstrap, FileSystemMaker, FileSystemTraits, NewDataset, bootstrap};
use dataset::{Accounts, Datasets, Dir, KeyStore, LiveDataset, LiveDatasets, Principal};
use dataset::{live::Owners, write};
use errors::Result;
use host::device::{Device, MemoryDevice};
use object::zap::{Zap, ZapSpec};
use object::{NewObject, ObjectSet, Tx};
use ondisk::zap::Value as ZapValue;
use ondisk::{Dnode, ObjectType};
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Pool, Writer, scan, search_devices};
use rig::{images, zdb};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

const DISK_BYTES: usize = 160 << 20;

pub struct Rig {
    pub devices: Vec<Arc<dyn Device>>,
    pub live: Arc<LiveDatasets>,
}

fn fill(set: &Arc<ObjectSet>, tx: &Tx, traits: &FileSystemTraits, _: (u32, u32)) -> Result<()> {
    let spec = ZapSpec { id: Some(1), ..ZapSpec::new(ObjectType::MASTER_NODE) };
    let master = Zap::create(set, tx, &spec)?;
    for (name, value) in [
        ("VERSION", traits.version),
        ("normalization", traits.normalization),
        ("utf8only", u64::from(traits.utf8_only)),
        ("casesensitivity", traits.case_sensitivity),
    ] {
        master.insert(tx, name, &ZapValue::one(value))?;
    }
    new_file(set, tx, 0).map(drop)
}

/// Owners of the test files, and of files of OpenZFS (SA and old znodes).
pub fn owners_of(dnode: &Dnode, _: dataset::live::Spill<'_>) -> Result<Option<Owners>> {
    const SA_MAGIC: u32 = 0x002f_505a;
    const HAS_PROJECT: u64 = 0x8000_0000_0000;
    let (endian, bonus) = (dnode.endian, &dnode.bonus);
    let word = |at: usize| bonus.get(at..at + 8).map_or(0, |bytes| endian.u64(bytes));
    Ok(match dnode.bonus_type {
        ObjectType::UINT64_OTHER if bonus.len() >= 24 => {
            Some(Owners { user: word(0), group: word(8), project: word(16) })
        }
        ObjectType::ZNODE => Some(Owners { user: word(128), group: word(136), project: 0 }),
        ObjectType::SA if endian.u32(bonus) == SA_MAGIC => {
            let at = usize::from((endian.u16(&bonus[4..]) >> 10) & 0x3f) * 8;
            let project = if word(at + 48) & HAS_PROJECT != 0 { word(at + 128) } else { 0 };
            Some(Owners { user: word(at + 24), group: word(at + 32), project })
        }
        ObjectType::SA => Some(Owners { user: 0, group: 0, project: 0 }),
        _ => None,
    })
}

pub const MAKER: FileSystemMaker = FileSystemMaker { fill, owners_of };

pub fn bonus(user: u64) -> Vec<u8> {
    [user, user + 1000, user + 2000].iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Creates a file of `user`.
pub fn new_file(set: &Arc<ObjectSet>, tx: &Tx, user: u64) -> Result<u64> {
    let new =
        NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 128 << 10).with_bonus(ObjectType::UINT64_OTHER, bonus(user));
    Ok(set.create_object(tx, &new)?.id())
}

pub fn options() -> WriteOptions {
    WriteOptions { interval: Duration::from_secs(3600), ..WriteOptions::default() }
}

fn leaf(name: &str) -> NewVdev {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]));
    let leaf = Some((name.to_owned(), device));
    NewVdev { kind: "file", parity: 0, draid: None, class: block::Class::Normal, leaf, ashift: 12, children: vec![] }
}

/// One disk, or a raidz1 of three.
pub fn layout(raidz: bool) -> NewVdev {
    match raidz {
        false => leaf("disk"),
        true => NewVdev {
            kind: "raidz",
            parity: 1,
            draid: None,
            class: block::Class::Normal,
            leaf: None,
            ashift: 12,
            children: (0..3).map(|i| leaf(&format!("disk-{i}"))).collect(),
        },
    }
}

impl Rig {
    /// The pool of an image, in memory; `Err`: why it cannot be written.
    pub fn of_image(folder: &std::path::Path) -> Result<Self> {
        let devices = images::read(folder).unwrap();
        let found = search_devices(devices.iter().cloned()).pools.remove(0);
        let writer = Writer::open(&found, &OpenOptions::default(), &options())?;
        Ok(Self { devices, live: LiveDatasets::new(writer, Arc::new(KeyStore::new())) })
    }

    pub fn new() -> Self {
        Self::with(layout(false), &[], None)
    }

    pub fn with(top: NewVdev, properties: &[(&str, &str)], key: Option<&str>) -> Self {
        let devices =
            top.leaf.iter().map(|l| l.1.clone()).chain(top.children.iter().map(|c| c.leaf.clone().unwrap().1));
        let devices: Vec<_> = devices.collect();
        let new = CreatePool {
            version: 5000,
            name: "tank".into(),
            tops: vec![top],
            features: default_features().map(str::to_owned).collect(),
            comment: None,
            compatibility: None,
        };
        let keys = Arc::new(KeyStore::new());
        let root = Bootstrap {
            properties: owned(properties),
            key: key.map(|k| Zeroizing::new(k.as_bytes().to_vec())),
            keys: &keys,
            maker: MAKER,
        };
        let writer = Writer::create(&new, &OpenOptions::default(), &options(), |sync| bootstrap(sync, &root)).unwrap();
        Self { devices, live: LiveDatasets::new(writer, keys) }
    }

    pub fn create(&self, name: &str, properties: &[(&str, &str)]) -> Result<()> {
        let new = NewDataset { name: name.into(), properties: owned(properties), ..NewDataset::default() };
        write::create(&self.live, &new, MAKER)
    }

    pub fn set(&self, name: &str, property: &str, value: &str) -> Result<()> {
        write::set(&self.live, name, &[(property.to_owned(), value.to_owned())])
    }

    pub fn open(&self, name: &str) -> Arc<LiveDataset> {
        self.live.open(name, Some(owners_of)).unwrap()
    }

    pub fn tree(&self) -> Arc<Datasets> {
        self.live.synced().unwrap()
    }

    /// The value that `zfs get -p` prints.
    pub fn get(&self, name: &str, property: &str) -> String {
        let entry = self.tree().entry(name).unwrap();
        dataset::property::get(&entry, property, &dataset::View::default()).unwrap().map_or("-".into(), |p| p.value.raw)
    }

    /// The pool as another process finds it now on the devices.
    pub fn found(&self) -> Arc<Pool> {
        let found = search_devices(self.devices.iter().cloned()).pools.remove(0);
        Pool::open(&found, &OpenOptions::default()).unwrap()
    }

    /// The pool as another machine finds it on copies of the devices in their current state: no
    /// thread may be writing to them.
    pub fn copy(&self) -> Self {
        let devices = images::copy(&self.devices).unwrap();
        let found = search_devices(devices.iter().cloned()).pools.remove(0);
        let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
        Self { devices, live: LiveDatasets::new(writer, Arc::new(KeyStore::new())) }
    }

    /// Exports and imports again.
    pub fn reopen(self) -> Self {
        let keys = self.live.keys().clone();
        self.live.close_all().unwrap();
        self.live.writer().export().unwrap();
        drop(self.live);
        let found = search_devices(self.devices.iter().cloned()).pools.remove(0);
        let writer = Writer::open(&found, &OpenOptions::default(), &options()).unwrap();
        Self { devices: self.devices, live: LiveDatasets::new(writer, keys) }
    }

    /// Checks the pool with OpenZFS's `zdb`, if installed: no bad checksums, no leaks, correct
    /// feature counts, in a checkpoint as well.
    pub fn judge(&self) -> Option<String> {
        self.live.writer().sync().unwrap();
        let folder = self.images();
        zdb::check(folder.path(), &self.live.writer().name()).unwrap()
    }

    /// `zdb`'s output for the pool as it is on disk; `None`, with a printed note, if it is not
    /// installed.
    pub fn zdb(&self, args: &[&str]) -> Option<String> {
        self.live.writer().sync().unwrap();
        zdb::run(self.images().path(), args).unwrap()
    }

    /// The devices as files in a directory.
    fn images(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        images::write(&self.devices, folder.path()).unwrap();
        folder
    }

    /// Whether verify finds no errors.
    pub fn is_clean(&self) -> bool {
        scan::verify(&self.found(), &scan::Options { threads: 1 }, &|_| true).unwrap().is_clean()
    }

    /// Everything that must hold on disk after a txg.
    pub fn check(&self) {
        self.live.writer().sync().unwrap();
        let pool = self.found();
        let report = scan::verify(&pool, &scan::Options { threads: 1 }, &|_| true).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        let tree = Datasets::open(pool.clone()).unwrap();
        check_dirs(&tree, tree.root());
        check_features(&tree);
        for entry in tree.list(&[], &dataset::ListOptions::heads()).unwrap().entries {
            let dataset = entry.dataset().unwrap().clone();
            if dataset.kind().unwrap() == dataset::DatasetKind::FileSystem
                && !dataset.phys().has(ondisk::DslDataset::FLAG_INCONSISTENT)
                && self.live.keys().is_available(&dataset).unwrap()
            {
                check_users(&dataset, self.live.keys());
            }
        }
    }
}

pub fn owned(properties: &[(&str, &str)]) -> Vec<(String, String)> {
    properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
}

/// The parts of a directory's usage add up, and match those of its child directories.
fn check_dirs(tree: &Arc<Datasets>, dir: &Arc<Dir>) {
    let (phys, used) = (dir.phys(), dir.phys().used);
    let sum = used.head + used.snapshots + used.children + used.children_reserved + used.refreservation;
    assert_eq!(phys.used_bytes, sum, "{}: {used:?}", dir.name());
    let mut names: Vec<(String, u64)> = Zap::open(tree.mos().object(phys.children_zap).unwrap())
        .unwrap()
        .entries()
        .unwrap()
        .iter()
        .map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.value.as_u64().unwrap()))
        .collect();
    names.sort();
    let (mut children, mut reserved) = (0, 0);
    for (name, id) in names {
        let child = tree.dir(&format!("{}/{name}", dir.name())).unwrap();
        assert_eq!(child.id(), id);
        children += child.phys().used_bytes;
        reserved += child.phys().reserved_bytes.saturating_sub(child.phys().used_bytes);
        check_dirs(tree, &child);
    }
    assert_eq!((used.children, used.children_reserved), (children, reserved), "{}: {used:?}", dir.name());
    if let Ok(head) = tree.head(dir) {
        let refreservation: u64 =
            dataset::property::get(&dataset::Entry::Dataset(head.clone()), "refreservation", &dataset::View::default())
                .unwrap()
                .map_or(0, |p| p.value.raw.parse().unwrap());
        let unique = head.phys().unique_bytes;
        assert_eq!(used.refreservation, refreservation.saturating_sub(unique), "{}", dir.name());
        check_unique(tree, &head);
        if let Some(list) = dir.field_u64("com.delphix:livelist").unwrap() {
            let devices = |bp: &ondisk::BlkPtr| tree.pool().deflated_bytes(bp);
            let live = dataset::deadlist::Deadlist::open(tree.mos(), list).unwrap().space(&devices).unwrap();
            println!("  livelist of {}: {live:?}", dir.name());
            assert_eq!(live.used, used.head, "livelist of {}", dir.name());
        }
        // Space that a clone shares with its origin is counted there.
        if head.origin().unwrap().is_none() && !dir.name().contains('$') {
            assert_eq!(used.head, head.phys().referenced_bytes, "{}", dir.name());
        }
    }
}

/// The space that only the head and its last snapshot reference follows from the deadlist between
/// them, whose totals are those of its blocks.
fn check_unique(tree: &Arc<Datasets>, head: &dataset::Dataset) {
    let (phys, devices) = (head.phys(), |bp: &ondisk::BlkPtr| tree.pool().deflated_bytes(bp));
    let Some(list) = head.deadlist().unwrap() else { return };
    let mut used = 0;
    list.for_each(&mut |bp| {
        used += devices(bp);
        Ok(true)
    })
    .unwrap();
    assert_eq!(list.space(&devices).unwrap().used, used, "{}", head.name());
    let Some(previous) = head.previous().unwrap() else {
        assert_eq!((phys.unique_bytes, used), (phys.referenced_bytes, 0), "{}", head.name());
        return;
    };
    let before = previous.phys();
    assert_eq!(phys.unique_bytes, phys.referenced_bytes - (before.referenced_bytes - used), "{}", head.name());
    if before.next_snap == head.id() && before.num_children == 1 {
        let only_there = list.space_range(before.prev_snap_txg.0, u64::MAX, &devices).unwrap().used;
        assert_eq!(before.unique_bytes, only_there, "{}", previous.name());
    }
}

/// Features used by single datasets are counted as often as datasets record them; objects with
/// fields, as many as there are.
fn check_features(tree: &Arc<Datasets>) {
    let mos = tree.mos();
    let (mut id, mut counts) = (0, BTreeMap::<&str, u64>::new());
    while let Some(next) = mos.next_object(id).unwrap() {
        id = next;
        let object = mos.object(id).unwrap();
        let dnode = object.dnode();
        if dnode.object_type != ObjectType::OTN_ZAP_METADATA
            || !matches!(dnode.bonus_type, ObjectType::DSL_DATASET | ObjectType::DSL_DIR)
        {
            continue;
        }
        *counts.entry("com.delphix:extensible_dataset").or_default() += 1;
        let fields = Zap::open(object).unwrap();
        for feature in ondisk::feature::FEATURES.iter().filter(|f| f.flags.is_per_dataset()) {
            if fields.lookup(feature.guid).unwrap().is_some() {
                *counts.entry(feature.guid).or_default() += 1;
            }
        }
    }
    let features = tree.pool().features();
    for feature in ondisk::feature::FEATURES.iter().filter(|f| f.flags.is_per_dataset()) {
        let found = counts.get(feature.guid).copied().unwrap_or(0);
        assert_eq!(features.count(feature.guid).unwrap_or(0), found, "{}", feature.name);
    }
    let extensible = counts.get("com.delphix:extensible_dataset").copied().unwrap_or(0);
    assert_eq!(features.count("com.delphix:extensible_dataset").unwrap_or(0), extensible);
}

/// The accounting equals the sum over all objects.
fn check_users(dataset: &dataset::Dataset, keys: &KeyStore) {
    let set = dataset.objset(keys).unwrap();
    let mut sums: [BTreeMap<u64, (u64, u64)>; 3] = Default::default();
    let mut id = 0;
    while let Some(next) = set.next_object(id).unwrap() {
        id = next;
        let dnode = set.dnode(id).unwrap();
        if let Some(owners) = owners_of(&dnode, &|| Ok(None)).unwrap() {
            for (sums, owner) in sums.iter_mut().zip([owners.user, owners.group, owners.project]) {
                let sum = sums.entry(owner).or_default();
                *sum = (sum.0 + 512 + dnode.used_bytes, sum.1 + 1);
            }
        }
    }
    let accounts = Accounts::open(dataset, keys).unwrap();
    for (principal, sums) in [Principal::User, Principal::Group, Principal::Project].into_iter().zip(sums) {
        if !accounts.counts_bytes(principal) {
            continue;
        }
        let all = accounts.all(principal).unwrap();
        let all = all.iter().filter(|u| u.domain.is_none() && u.used_bytes.is_some_and(|n| n > 0));
        let counts_objects = accounts.counts_objects(principal);
        let counted: BTreeMap<u64, (u64, u64)> =
            all.map(|u| (u.id, (u.used_bytes.unwrap(), u.used_objects.unwrap_or(0)))).collect();
        let sums = sums.into_iter().filter(|(id, _)| id >> 32 == 0);
        let sums: BTreeMap<_, _> = sums.map(|(id, (b, o))| (id, (b, if counts_objects { o } else { 0 }))).collect();
        assert_eq!(counted, sums, "{}: {principal:?}", dataset.name());
    }
}
