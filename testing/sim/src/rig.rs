//! A pool on a [`Machine`]: created, opened, mounted, verified.

use crate::device::Machine;
use anyhow::{Context, Result, bail};
use block::Class;
use block::vdev::Kind;
use dataset::write::{Bootstrap, KeyChange, NewDataset, NewKey, bootstrap};
use dataset::{KeyStore, LiveDataset, LiveDatasets};
use files::zpl::{MAKER, owners_of};
use files::{FileSystem, Volume};
use host::clock::Instant;
use host::device::Device;
use host::sync::Mutex;
use pool::scan::{self, Options};
use pool::writer::{
    CreatePool, Joins, NewAuxiliary, NewDevices, NewDraid, NewLeaf, NewVdev, WriteOptions, default_features,
};
use pool::{FoundPool, OpenOptions, Pool, Writer, search_devices};
use std::sync::Arc;
use std::time::Duration;
use transform::crypt::KeyFormat;
use zeroize::Zeroizing;

pub const POOL: &str = "sim";
/// The file system under test.
pub const FILES: &str = "sim/fs";
/// Size of the block cache.
const CACHE_BYTES: u64 = 16 << 20;

/// Arrangement of the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Single,
    /// A mirror of two devices.
    Mirror,
    /// A raidz1 of three devices.
    Raidz,
    /// One device and one log device.
    WithLog,
    /// A stripe of two devices.
    Stripe,
    /// A mirror of that many devices.
    Copies(usize),
    /// A raidz with that parity and number of devices.
    Parity(u64, usize),
    /// A dRAID with that parity and number of devices, two data columns and a distributed spare.
    Draid(u64, usize),
    /// A stripe of that many devices, each of which holds one of the `copies` of every block if
    /// possible.
    SideBySide(usize),
}

impl Layout {
    /// The layouts for power cuts.
    pub const ALL: [Self; 5] = [Self::Single, Self::Mirror, Self::Raidz, Self::WithLog, Self::Stripe];

    /// Whether any device may fail.
    pub fn is_redundant(self) -> bool {
        self.may_lose() > 0
    }

    /// How many devices may fail at a time.
    pub fn may_lose(self) -> usize {
        match self {
            Self::Single | Self::WithLog | Self::Stripe | Self::SideBySide(_) => 0,
            Self::Mirror | Self::Raidz => 1,
            Self::Copies(count) => count - 1,
            Self::Parity(parity, _) | Self::Draid(parity, _) => parity as usize,
        }
    }

    /// Number of devices, including the log device.
    pub fn devices(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Mirror | Self::WithLog | Self::Stripe => 2,
            Self::Raidz => 3,
            Self::Copies(count) | Self::Parity(_, count) | Self::Draid(_, count) | Self::SideBySide(count) => count,
        }
    }

    fn tops(self, machine: &Arc<Machine>, ashift: u8) -> Vec<NewVdev> {
        let leaves: Vec<NewVdev> =
            machine.devices().into_iter().take(self.devices()).map(|device| leaf(device, ashift)).collect();
        let group = |kind, parity, children| {
            vec![NewVdev { kind, parity, draid: None, class: Class::Normal, leaf: None, ashift, children }]
        };
        match self {
            Self::Single | Self::Stripe | Self::SideBySide(_) => leaves,
            Self::Mirror => group("mirror", 0, leaves),
            Self::Raidz => group("raidz", 1, leaves),
            Self::Copies(_) => group("mirror", 0, leaves),
            Self::Parity(parity, _) => group("raidz", parity, leaves),
            Self::Draid(parity, _) => {
                let mut tops = group("draid", parity, leaves);
                tops.iter_mut().for_each(|top| top.draid = Some(NewDraid { data: 2, spares: 1 }));
                tops
            }
            Self::WithLog => leaves
                .into_iter()
                .zip([Class::Normal, Class::Log])
                .map(|(leaf, class)| NewVdev { class, ..leaf })
                .collect(),
        }
    }
}

fn leaf(device: Arc<dyn Device>, ashift: u8) -> NewVdev {
    NewVdev {
        kind: "file",
        parity: 0,
        draid: None,
        class: Class::Normal,
        leaf: Some((device.name().to_owned(), device)),
        ashift,
        children: Vec::new(),
    }
}

/// A device to attach.
pub fn new_leaf(device: Arc<dyn Device>) -> NewLeaf {
    let path = device.name().to_owned();
    NewLeaf { kind: "file", path, device: Some(device), ashift: 9, spare: None, sequentially: false }
}

/// A pool that is open for writing, with its file system mounted.
pub struct Rig {
    pub writer: Arc<Writer>,
    pub live: Arc<LiveDatasets>,
    dataset: Arc<LiveDataset>,
    pub files: Arc<FileSystem>,
    /// Index of the current key in [`KEYS`].
    key: Mutex<usize>,
    /// Number of snapshots taken.
    snapshots: Mutex<u64>,
}

/// The two keys that encrypted datasets alternate between.
const KEYS: [&[u8]; 2] = [b"0123456789abcdef0123456789abcdef", b"fedcba9876543210fedcba9876543210"];

/// How to create a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Arrangement of the devices.
    pub layout: Layout,
    /// log2 of the allocation unit in bytes.
    pub ashift: u8,
    /// Interval between txgs. An hour means only on request, so that a run does not depend on the
    /// clock.
    pub interval: Duration,
    pub extras: Extras,
}

/// Additional devices. They follow the main devices in the order of the machine's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// Log devices: two form a mirror.
    pub logs: usize,
    /// Special devices, in one mirror.
    pub special: usize,
    pub spares: usize,
}

impl Shape {
    /// Total number of devices.
    pub fn devices(&self) -> usize {
        self.layout.devices() + self.extras.logs + self.extras.special + self.extras.spares
    }

    fn tops(&self, machine: &Arc<Machine>) -> Vec<NewVdev> {
        let mut tops = self.layout.tops(machine, self.ashift);
        let mut devices = machine.devices().into_iter().skip(self.layout.devices());
        for (count, class) in [(self.extras.logs, Class::Log), (self.extras.special, Class::Special)] {
            let mut leaves: Vec<NewVdev> =
                devices.by_ref().take(count).map(|device| leaf(device, self.ashift)).collect();
            match leaves.len() {
                0 => {}
                1 => tops.extend(leaves.pop().map(|leaf| NewVdev { class, ..leaf })),
                _ => tops.push(NewVdev {
                    kind: "mirror",
                    parity: 0,
                    draid: None,
                    class,
                    leaf: None,
                    ashift: self.ashift,
                    children: leaves,
                }),
            }
        }
        tops
    }

    fn spares(&self, machine: &Arc<Machine>) -> Vec<NewAuxiliary> {
        let first = self.devices() - self.extras.spares;
        let spare = |device: Arc<dyn Device>| NewAuxiliary {
            kind: "file",
            path: device.name().to_owned(),
            device,
            ashift: self.ashift,
        };
        machine.devices().into_iter().skip(first).take(self.extras.spares).map(spare).collect()
    }
}

fn options(interval: Duration) -> WriteOptions {
    WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), interval, ..WriteOptions::default() }
}

fn open_options() -> OpenOptions {
    OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() }
}

impl Rig {
    /// Creates a pool with one file system, encrypted if `properties` request it.
    pub fn create(machine: &Arc<Machine>, shape: &Shape, properties: &[(&str, &str)]) -> Result<Self> {
        let new = CreatePool {
            version: 5000,
            name: POOL.into(),
            tops: shape.tops(machine),
            features: default_features().map(str::to_owned).collect(),
            comment: None,
            compatibility: None,
        };
        let keys = Arc::new(KeyStore::new());
        // The metadata that leads to the files has as many copies as the files.
        let copies = properties.iter().filter(|(name, _)| *name == "copies");
        let copies = copies.map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let root = Bootstrap { properties: copies, key: None, keys: &keys, maker: MAKER };
        let writer = Writer::create(&new, &open_options(), &options(shape.interval), |sync| bootstrap(sync, &root))?;
        let spares = shape.spares(machine);
        if !spares.is_empty() {
            writer.add(NewDevices { spares, ..NewDevices::default() }, false).context("adding spares")?;
        }
        let live = LiveDatasets::new(writer.clone(), keys);
        let is_encrypted = properties.iter().any(|(name, _)| *name == "encryption");
        let properties = properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let key = is_encrypted.then(|| Zeroizing::new(KEYS[0].to_vec()));
        let new = NewDataset { name: FILES.into(), properties, key, ..NewDataset::default() };
        dataset::write::create(&live, &new, MAKER)?;
        Self::mount(writer, live)
    }

    /// Opens the pool on the devices as after a power cut: logs are claimed and replayed.
    pub fn open(machine: &Arc<Machine>) -> Result<Self> {
        let options = options(Duration::from_secs(3600));
        let writer = Writer::open(&found(machine)?, &open_options(), &options).context("opening for writing")?;
        // The log is claimed without a key.
        let keys = Arc::new(KeyStore::new());
        let live = LiveDatasets::new(writer.clone(), keys.clone());
        let dataset = live.synced()?.dataset(FILES)?;
        if dataset.crypto_object()?.is_some() {
            keys.load(&dataset, KEYS[0]).or_else(|_| keys.load(&dataset, KEYS[1])).context("loading the key")?;
        }
        Self::mount(writer, live)
    }

    fn mount(writer: Arc<Writer>, live: Arc<LiveDatasets>) -> Result<Self> {
        let dataset = live.open(FILES, Some(owners_of)).context("opening the dataset")?;
        let files = FileSystem::mount(&dataset).context("mounting")?;
        Ok(Self { writer, live, dataset, files, key: Mutex::new(0), snapshots: Mutex::new(0) })
    }

    /// Sets a property of the file system.
    pub fn set(&self, property: &str, value: &str) -> Result<()> {
        dataset::write::set(&self.live, FILES, &[(property.to_owned(), value.to_owned())])
            .with_context(|| format!("zfs set {property}={value}"))
    }

    /// Changes the key of the file system, if it is encrypted.
    pub fn change_key(&self) -> Result<()> {
        if self.live.synced()?.dataset(FILES)?.crypto_object()?.is_none() {
            return Ok(());
        }
        let mut number = self.key.lock();
        *number = 1 - *number;
        let key = Zeroizing::new(KEYS[*number].to_vec());
        let new = NewKey { format: KeyFormat::Raw, location: "prompt".into(), iterations: None, material: key };
        dataset::write::change_key(&self.live, FILES, KeyChange::New(new)).context("zfs change-key")
    }

    /// Takes a snapshot and destroys the previous one.
    pub fn snapshot(&self) -> Result<()> {
        let mut number = self.snapshots.lock();
        let name = |n: u64| vec![format!("{FILES}@{n}")];
        let failed = |failures: dataset::write::Failures| anyhow::anyhow!("snapshots: {failures:?}");
        *number += 1;
        dataset::write::snapshot(&self.live, &name(*number), &[]).map_err(failed)?;
        match *number {
            1 => Ok(()),
            number => dataset::write::destroy_snapshots(&self.live, &name(number - 1), false).map_err(failed),
        }
    }

    /// Adds the machine's last device to the pool with the given class.
    pub fn grow(&self, machine: &Arc<Machine>, ashift: u8, class: Class) -> Result<()> {
        let last = machine.devices().pop().context("a device to add")?;
        let tops = vec![NewVdev { class, ..leaf(last, ashift) }];
        self.writer.add(NewDevices { tops, ..NewDevices::default() }, true).context("adding a device")
    }

    /// Changes the devices as the layout permits: a single device becomes a mirror with the
    /// machine's last device, a mirror loses its first side, the second device of a raidz is
    /// replaced by the last device (or with `widens` the last device is added to the raidz), a log
    /// device is removed.
    pub fn change(&self, machine: &Arc<Machine>, widens: bool) -> Result<()> {
        let tree = self.writer.store().tree();
        let top = tree.tops.first().context("a device")?;
        let joins = |guid, how| self.join(guid, machine.devices().pop().context("a device to join")?, how);
        match (&top.kind, tree.tops.get(1)) {
            (_, Some(log)) => {
                let empty = || self.live.empty_logs();
                self.writer.remove(log.guid, &empty).context("removing a log")
            }
            (Kind::Leaf(leaf), None) => joins(leaf.guid, Joins::Attach),
            (Kind::Mirror(_), None) => self.writer.detach(top.leaves()[0].guid).context("detaching"),
            _ if widens => joins(top.guid, Joins::Attach),
            _ => joins(top.leaves()[1].guid, Joins::Replace),
        }
    }

    /// Runs a raidz expansion to its end.
    pub fn widen(&self) -> Result<()> {
        self.writer.run_expansion()?;
        let end = Instant::now() + Duration::from_secs(120);
        while self.writer.expansion_state().0 {
            anyhow::ensure!(Instant::now() < end, "the raidz is not widened to the end");
            self.writer.wait_for_expansion(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Attaches a device to the vdev with this GUID.
    pub fn join(&self, to: u64, device: Arc<dyn Device>, how: Joins) -> Result<()> {
        let new = new_leaf(device);
        self.writer.attach(to, new, how).context("joining")
    }

    /// Creates a volume and opens it.
    pub fn make_volume(&self, name: &str, properties: &[(&str, &str)]) -> Result<Volume> {
        let properties = properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let new = NewDataset { name: name.into(), is_volume: true, properties, ..NewDataset::default() };
        dataset::write::create(&self.live, &new, MAKER).context("making a volume")?;
        self.open_volume(name)
    }

    /// Opens a volume, which replays its log.
    pub fn open_volume(&self, name: &str) -> Result<Volume> {
        Volume::open_live(&self.live.open(name, None)?).context("opening a volume")
    }

    /// Changes the size of a volume.
    pub fn set_volume_size(&self, name: &str, bytes: u64) -> Result<()> {
        Ok(dataset::write::set(&self.live, name, &[("volsize".to_owned(), bytes.to_string())])?)
    }

    /// Closes everything as an export does.
    pub fn export(self) -> Result<()> {
        let Self { writer, live, dataset, files, .. } = self;
        drop((files, dataset));
        live.close_all()?;
        drop(live);
        writer.export()?;
        Ok(())
    }
}

fn found(machine: &Arc<Machine>) -> Result<FoundPool> {
    found_on(machine.devices())
}

fn found_on(devices: Vec<Arc<dyn Device>>) -> Result<FoundPool> {
    let mut pools = search_devices(devices).pools;
    if pools.len() != 1 {
        bail!("{} pools were found instead of one", pools.len());
    }
    Ok(pools.remove(0))
}

/// Verifies every block, every space map and all accounting of the pool. With `is_hurt`, a device
/// may miss data that the others have.
pub fn verify(machine: &Arc<Machine>, is_hurt: bool) -> Result<()> {
    let pool = Pool::open(&found(machine)?, &open_options()).context("opening to verify")?;
    let report = scan::verify(&pool, &Options { threads: 1 }, &|_| true)?;
    let is_right = if is_hurt { report.is_consistent() && report.lost_blocks == 0 } else { report.is_clean() };
    if !is_right {
        bail!("verify finds, at txg {}: {report:?}", pool.uberblock().txg);
    }
    Ok(())
}

/// Verifies that every block can be read without the devices with these indices, and that the
/// others have no errors.
pub fn verify_without(machine: &Arc<Machine>, away: &[usize]) -> Result<()> {
    let here = machine.devices().into_iter().enumerate().filter(|(n, _)| !away.contains(n)).map(|(_, d)| d).collect();
    let pool = Pool::open(&found_on(here)?, &open_options()).with_context(|| format!("opening without {away:?}"))?;
    let report = scan::verify(&pool, &Options { threads: 1 }, &|_| true)?;
    let wrong: u64 = report.devices.values().map(|d| d.wrong + d.unreadable).sum();
    if report.lost_blocks > 0 || !report.is_consistent() || wrong > 0 {
        bail!("without {away:?}, verify finds: {report:?}");
    }
    Ok(())
}
