//! Runs one pool of the matrix through all steps and judges.

use crate::contents::{File, bytes_max, files};
use crate::{Arrangement, Case, Group};
use anyhow::{Context, Result, bail, ensure};
use block::Class;
use dataset::write::{Bootstrap, NewDataset, bootstrap};
use dataset::{Datasets, KeyStore, LiveDatasets};
use files::vfs::{Caller, NewNode, Vfs};
use files::zpl::{MAKER, owners_of};
use files::{FileSystem, zpl};
use host::device::{Device, MemoryDevice};
use pool::scan::{self, Options};
use pool::writer::{CreatePool, NewDraid, NewVdev, WriteOptions, default_features};
use pool::{OpenOptions, Pool, Writer, search_devices};
use rig::{Chance, zdb};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

pub const POOL: &str = "matrix";
/// The key of every encrypted dataset, in hexadecimal, because zdb does not accept raw keys.
pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// Space on each device in addition to the files: metadata, and the slop space.
const DISK_BYTES_MIN: usize = 256 << 20;

/// Judges in addition to our own reading and verification.
#[derive(Debug, Clone, Copy)]
pub struct Judges<'a> {
    /// Check the pool with zdb, if it is installed.
    pub zdb: bool,
    /// Number of datasets of which zdb reads a file. Each requires another import by zdb.
    pub zdb_reads: usize,
    /// Leave the devices, the key and the checksums of all files (`sums`) in this directory.
    pub keep: Option<&'a Path>,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    pub datasets: usize,
    /// Bytes of files that were compared after the import.
    pub bytes: u64,
    /// Files read by zdb.
    pub zdb_reads: usize,
}

/// Writes a group's files, exports and imports the pool, and checks everything that is read back.
pub fn run(group: &Group, judges: &Judges<'_>) -> Result<Outcome> {
    let arrangement = &group.arrangement;
    run_in(group, judges).with_context(|| format!("on {}", arrangement.name))
}

fn run_in(group: &Group, judges: &Judges<'_>) -> Result<Outcome> {
    // Each device can hold everything with its parity, twice: records that are synced while
    // incomplete are written twice. Pages that are not touched use no memory.
    let stored = |case: &Case| bytes_max(case) * usize::from(case.copies) * (1 + group.arrangement.parity as usize);
    let disk_bytes = (DISK_BYTES_MIN + 2 * group.cases.iter().map(stored).sum::<usize>()).next_multiple_of(1 << 20);
    let devices: Vec<Arc<dyn Device>> = (0..group.arrangement.devices)
        .map(|n| Arc::new(MemoryDevice::new(format!("disk-{n}"), vec![0; disk_bytes])) as Arc<dyn Device>)
        .collect();
    write(group, &devices).context("writing")?;
    let mut outcome = Outcome { datasets: group.cases.len(), ..Outcome::default() };
    outcome.bytes = compare(group, &devices).context("after export and import")?;
    verify(&devices)?;
    if judges.zdb || judges.keep.is_some() {
        let scratch = tempfile::tempdir()?;
        let folder = judges.keep.unwrap_or(scratch.path());
        leave(group, &devices, folder)?;
        if judges.zdb {
            outcome.zdb_reads = read_by_zdb(group, folder, scratch.path(), judges.zdb_reads)?;
        }
    }
    Ok(outcome)
}

/// The letter is needed because zdb takes a number for the number of an object set.
fn name_of(number: usize) -> String {
    format!("{POOL}/c{number:02}")
}

fn top(arrangement: &Arrangement, devices: &[Arc<dyn Device>]) -> Vec<NewVdev> {
    let ashift = arrangement.ashift;
    let vdev = |kind, leaf| NewVdev {
        kind,
        parity: arrangement.parity,
        draid: None,
        class: Class::Normal,
        leaf,
        ashift,
        children: Vec::new(),
    };
    let leaves = devices
        .iter()
        .map(|device| NewVdev { parity: 0, ..vdev("file", Some((device.name().to_owned(), device.clone()))) });
    match arrangement.kind {
        "file" => leaves.collect(),
        kind => {
            let draid = (kind == "draid").then_some(NewDraid { data: 2, spares: 1 });
            vec![NewVdev { children: leaves.collect(), draid, ..vdev(kind, None) }]
        }
    }
}

fn options() -> WriteOptions {
    WriteOptions {
        claim_logs: Some(dataset::intent_log::claim_logs),
        interval: Duration::from_secs(3600),
        ..WriteOptions::default()
    }
}

fn write(group: &Group, devices: &[Arc<dyn Device>]) -> Result<()> {
    let new = CreatePool {
        version: 5000,
        name: POOL.into(),
        tops: top(&group.arrangement, devices),
        features: default_features().map(str::to_owned).collect(),
        comment: None,
        compatibility: None,
    };
    let keys = Arc::new(KeyStore::new());
    let root = Bootstrap { properties: Vec::new(), key: None, keys: &keys, maker: MAKER };
    let writer = Writer::create(&new, &OpenOptions::default(), &options(), |sync| bootstrap(sync, &root))?;
    let live = LiveDatasets::new(writer, keys);
    for (number, case) in group.cases.iter().enumerate() {
        fill(&live, &name_of(number), case).with_context(|| format!("{case:?}"))?;
    }
    live.close_all()?;
    live.writer().export()?;
    Ok(())
}

fn fill(live: &Arc<LiveDatasets>, name: &str, case: &Case) -> Result<()> {
    let key = case.encryption.map(|_| Zeroizing::new(KEY.as_bytes().to_vec()));
    let new = NewDataset { name: name.into(), properties: case.properties(), key, ..NewDataset::default() };
    dataset::write::create(live, &new, MAKER)?;
    let dataset = live.open(name, Some(owners_of))?;
    let fs = FileSystem::mount(&dataset)?;
    let who = Caller { privileged: true, ..Caller::default() };
    let mut chance = Chance::new(!case.seed);
    for File { name, bytes, writes } in files(case) {
        let node = fs.create(&who, fs.root(), name.as_bytes(), &NewNode::Regular, 0o644, 0)?.node;
        let mut at = 0;
        for len in writes {
            fs.write(&who, node, at as u64, &bytes[at..at + len])?;
            at += len;
            // Syncing an incomplete record causes a later read-modify-write.
            if chance.once_in(12) {
                live.writer().sync()?;
            }
        }
    }
    live.writer().sync()?;
    Ok(())
}

/// Imports the pool, compares every byte with the plan, and exports it. Returns the number of
/// bytes.
fn compare(group: &Group, devices: &[Arc<dyn Device>]) -> Result<u64> {
    let found = search_devices(devices.iter().cloned()).pools.pop().context("the pool is not found")?;
    let writer = Writer::open(&found, &OpenOptions::default(), &options())?;
    let live = LiveDatasets::new(writer, Arc::new(KeyStore::new()));
    let mut compared = 0;
    for (number, case) in group.cases.iter().enumerate() {
        let name = name_of(number);
        if case.encryption.is_some() {
            live.keys().load(&live.synced()?.dataset(&name)?, KEY.as_bytes())?;
        }
        let fs = FileSystem::mount(&live.open(&name, Some(owners_of))?)?;
        for file in files(case) {
            let step = || format!("{name}/{} of {} bytes, {case:?}", file.name, file.bytes.len());
            compared += read_back(&fs, &file).with_context(step)?;
        }
    }
    live.close_all()?;
    live.writer().export()?;
    Ok(compared)
}

fn read_back(fs: &zpl::FileSystem, file: &File) -> Result<u64> {
    let attr = fs.lookup(fs.root(), file.name.as_bytes())?;
    ensure!(attr.size == file.bytes.len() as u64, "it is {} bytes long", attr.size);
    let mut at = 0;
    while at < file.bytes.len() {
        let part = fs.read(attr.node, at as u64, 1 << 20)?;
        let expected = &file.bytes[at..(at + (1 << 20)).min(file.bytes.len())];
        if part[..] != *expected {
            let wrong = part.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(part.len().min(expected.len()));
            bail!("byte {} is another than was written", at + wrong);
        }
        at += part.len();
    }
    Ok(file.bytes.len() as u64)
}

fn verify(devices: &[Arc<dyn Device>]) -> Result<()> {
    let found = search_devices(devices.iter().cloned()).pools.pop().context("the pool is not found")?;
    let pool = Pool::open(&found, &OpenOptions::default())?;
    let tree = Datasets::open(pool.clone())?;
    let keys = KeyStore::new();
    for entry in tree.list(&[], &dataset::ListOptions::heads())?.entries {
        if let dataset::Entry::Dataset(head) = entry
            && !keys.is_available(&head)?
        {
            keys.load(&head, KEY.as_bytes())?;
        }
    }
    let keys_of = |id| tree.dataset_by_id(id).and_then(|head| keys.dataset_keys(&head)).ok();
    let report = scan::verify_with(&pool, &Options { threads: 0 }, &keys_of, &|_| true)?;
    ensure!(report.is_clean() && report.sealed_blocks == 0, "verify: {report:#?}");
    Ok(())
}

/// Writes the devices as files, the key, and the checksums in the format of `sha256sum -c`.
fn leave(group: &Group, devices: &[Arc<dyn Device>], folder: &Path) -> Result<()> {
    rig::images::write(devices, folder)?;
    let mut sums = String::new();
    for (number, case) in group.cases.iter().enumerate() {
        for file in files(case) {
            writeln!(sums, "{}  {}/{}", rig::hex(&Sha256::digest(&file.bytes)), name_of(number), file.name)?;
        }
    }
    std::fs::write(folder.join("sums"), sums)?;
    std::fs::write(folder.join("key"), KEY)?;
    Ok(())
}

/// Checks the pool with OpenZFS's code in user space: `zdb -bcc` checks checksums and space, plain
/// `zdb` walks all metadata, `zdb -r` reads a file through decryption and decompression. Returns
/// the number of files read.
fn read_by_zdb(group: &Group, folder: &Path, scratch: &Path, reads: usize) -> Result<usize> {
    let Some(text) = zdb::run(folder, &["-bcc", POOL])? else { return Ok(0) };
    ensure!(text.contains("No leaks") && !text.contains("ERROR"), "zdb -bcc: {text}");
    zdb::run(folder, &[POOL])?;
    // A seed's slice puts its main cases first.
    for (number, case) in group.cases.iter().enumerate().take(reads) {
        let file = files(case).into_iter().next().context("each case has files")?;
        let (name, copy) = (name_of(number), scratch.join("copy"));
        let copy = copy.to_str().context("a path that is text")?;
        let args = ["-r", &name, &file.name, copy];
        let with_key = ["-K", KEY, "-r", &name, &file.name, copy];
        zdb::run(folder, if case.encryption.is_some() { &with_key[..] } else { &args[..] })
            .with_context(|| format!("{case:?}"))?;
        let back = std::fs::read(copy)?;
        ensure!(back == file.bytes, "zdb reads {name}/{} differently from what was written: {case:?}", file.name);
        std::fs::remove_file(copy)?;
    }
    Ok(reads.min(group.cases.len()))
}
