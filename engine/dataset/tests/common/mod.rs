//! A pool on memory devices with a file system of a kind of its own, and what must hold of it after each txg.
//!
//! Its files are objects whose bonus is three numbers: user, group, project. That is all that accounting needs to know.
#![allow(dead_code)] // Not every test uses all of it.

use dataset::write::{Bootstrap, FileSystemMaker, FileSystemTraits, NewDataset, bootstrap};
use dataset::{Accounts, Datasets, Dir, KeyStore, LiveDataset, LiveDatasets, Principal};
use dataset::{live::Owners, write};
use host::device::{Device, MemoryDevice};
use object::zap::{Zap, ZapSpec};
use object::{NewObject, ObjectSet, Result, Tx, ZapValue};
use ondisk::{Dnode, ObjectType};
use pool::writer::{CreatePool, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Pool, Writer, scan, search_devices};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

const DISK_BYTES: usize = 160 << 20;

pub struct Rig {
    pub devices: Vec<Arc<dyn Device>>,
    pub live: Arc<LiveDatasets>,
}

fn fill(set: &Arc<ObjectSet>, tx: &Tx, traits: &FileSystemTraits) -> Result<()> {
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

fn owners_of(dnode: &Dnode, _: dataset::live::Spill<'_>) -> Result<Option<Owners>> {
    if dnode.bonus_type != ObjectType::UINT64_OTHER || dnode.bonus.len() < 24 {
        return Ok(None);
    }
    let word = |i: usize| dnode.endian.u64(&dnode.bonus[i * 8..]);
    Ok(Some(Owners { user: word(0), group: word(1), project: word(2) }))
}

pub const MAKER: FileSystemMaker = FileSystemMaker { fill, owners_of };

pub fn bonus(user: u64) -> Vec<u8> {
    [user, user + 1000, user + 2000].iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// A new file of `user`.
pub fn new_file(set: &Arc<ObjectSet>, tx: &Tx, user: u64) -> Result<u64> {
    let new =
        NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 128 << 10).with_bonus(ObjectType::UINT64_OTHER, bonus(user));
    Ok(set.create_object(tx, &new)?.id())
}

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

pub fn options() -> WriteOptions {
    WriteOptions { interval: Duration::from_secs(3600), ..WriteOptions::default() }
}

fn leaf(name: &str) -> NewVdev {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(name, vec![0; DISK_BYTES]));
    let leaf = Some((name.to_owned(), device));
    NewVdev { kind: "file", parity: 0, class: block::Class::Normal, leaf, ashift: 12, children: vec![] }
}

/// One disk, or a raidz1 of three.
pub fn layout(raidz: bool) -> NewVdev {
    match raidz {
        false => leaf("disk"),
        true => NewVdev {
            kind: "raidz",
            parity: 1,
            class: block::Class::Normal,
            leaf: None,
            ashift: 12,
            children: (0..3).map(|i| leaf(&format!("disk-{i}"))).collect(),
        },
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(layout(false), &[], None)
    }

    pub fn with(top: NewVdev, properties: &[(&str, &str)], key: Option<&str>) -> Self {
        let devices =
            top.leaf.iter().map(|l| l.1.clone()).chain(top.children.iter().map(|c| c.leaf.clone().unwrap().1));
        let devices: Vec<_> = devices.collect();
        let new = CreatePool {
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

    /// What `zfs get -p` says.
    pub fn get(&self, name: &str, property: &str) -> String {
        let entry = self.tree().entry(name).unwrap();
        dataset::property::get(&entry, property, &dataset::View::default()).unwrap().map_or("-".into(), |p| p.value.raw)
    }

    /// The pool as someone else finds it now on the devices.
    pub fn found(&self) -> Arc<Pool> {
        let found = search_devices(self.devices.iter().cloned()).pools.remove(0);
        Pool::open(&found, &OpenOptions::default()).unwrap()
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

    /// What OpenZFS says of the pool, where its `zdb` is installed: no bad checksum, no leak, right feature counts.
    pub fn judge(&self) {
        self.live.writer().sync().unwrap();
        if std::process::Command::new("zdb").arg("-V").output().is_err() {
            println!("skipped: no zdb (Debian: zfsutils-linux)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for device in &self.devices {
            let mut bytes = vec![0; device.size_bytes() as usize];
            device.read_at(0, &mut bytes).unwrap();
            std::fs::write(folder.path().join(device.name()), bytes).unwrap();
        }
        let run = std::process::Command::new("zdb")
            .args(["-e", "-p", folder.path().to_str().unwrap(), "-bcc", "tank"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && text.contains("No leaks") && !text.contains("ERROR"), "zdb: {text}");
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

/// The parts of what a directory uses add up, and are those of the directories below.
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
        if !dir.name().contains('$') {
            assert_eq!(used.head, unique, "{}", dir.name());
        }
    }
}

/// Features that single datasets use are counted as often as datasets note them; objects with fields, as many as there are.
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
    assert_eq!(features.count("com.delphix:extensible_dataset"), Some(extensible));
}

/// The accounts are what adding up over all objects gives.
fn check_users(dataset: &dataset::Dataset, keys: &KeyStore) {
    let set = dataset.objset(keys).unwrap();
    let (mut id, mut bytes, mut objects) = (0, BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new());
    while let Some(next) = set.next_object(id).unwrap() {
        id = next;
        let dnode = set.dnode(id).unwrap();
        if let Some(owners) = owners_of(&dnode, &|| Ok(None)).unwrap() {
            *bytes.entry(owners.user).or_default() += 512 + dnode.used_bytes;
            *objects.entry(owners.user).or_default() += 1;
        }
    }
    let accounts = Accounts::open(dataset, keys).unwrap();
    for (principal, shift) in [(Principal::User, 0), (Principal::Group, 1000), (Principal::Project, 2000)] {
        let all = accounts.all(principal).unwrap();
        let counted: BTreeMap<u64, u64> = all.iter().map(|u| (u.id - shift, u.used_bytes.unwrap())).collect();
        assert_eq!(counted, bytes, "{}: {principal:?}", dataset.name());
        let counted: BTreeMap<u64, u64> = all.iter().map(|u| (u.id - shift, u.used_objects.unwrap())).collect();
        assert_eq!(counted, objects, "{}: {principal:?}", dataset.name());
    }
}
