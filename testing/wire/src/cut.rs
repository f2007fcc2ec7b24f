//! The process that loses power: the NFS server over a pool on devices with a volatile cache.
//! Killing it is the power cut.
//!
//! ```text
//!   write ─> cache in this process ── flush ──> image file
//!              └ one in a few, completely or some of its sectors ──> image file, immediately
//! ```
//! What is lost with the process was not flushed. What is in the image without a flush corresponds
//! to what a drive writes on its own: any of the writes, in any order, torn between sectors.
//!
//! Invariants:
//!   * what was flushed is in the image; a sector of 512 bytes is old or new
//!   * reads return what was written

use anyhow::{Context, Result};
use crash::serve::{KEY, Layout, POOL};
use dataset::write::NewDataset;
use dataset::{KeyStore, LiveDatasets};
use files::zpl::owners_of;
use files::{FileSystem, Volume};
use host::device::{Device, FileDevice};
use parking_lot::Mutex;
use pool::writer::WriteOptions;
use pool::{OpenOptions, Writer, search_devices};
use rig::Chance;
use serve::nbd::{self, Exports, Found, Listed, Opened};
use serve::nfs::exports::FixedExports;
use serve::nfs::{Config, Server, Share, ShareOptions};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SECTOR: u64 = 512;

struct Cache {
    /// Sectors that the image does not contain yet.
    sectors: BTreeMap<u64, [u8; SECTOR as usize]>,
    chance: Chance,
}

/// A device with a volatile cache.
pub struct VolatileDevice {
    image: FileDevice,
    cache: Mutex<Cache>,
    /// One write in this many reaches the image without a flush.
    keeps_one_in: u64,
}

impl VolatileDevice {
    /// Holds writes back from `image` until a flush. `seed` selects how many reach it earlier.
    pub fn new(image: FileDevice, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let keeps_one_in = [1_000_000, 20, 5, 2, 1][chance.below(5) as usize];
        Self { image, cache: Mutex::new(Cache { sectors: BTreeMap::new(), chance }), keeps_one_in }
    }
}

impl Device for VolatileDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let cache = self.cache.lock();
        self.image.read_at(offset, buf)?;
        let end = offset + buf.len() as u64;
        for (sector, bytes) in cache.sectors.range(offset / SECTOR..end.div_ceil(SECTOR)) {
            let (from, to) = ((sector * SECTOR).max(offset), ((sector + 1) * SECTOR).min(end));
            let at = (from - sector * SECTOR) as usize;
            let len = (to - from) as usize;
            buf[(from - offset) as usize..][..len].copy_from_slice(&bytes[at..at + len]);
        }
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.image.size_bytes()
    }

    fn name(&self) -> &str {
        self.image.name()
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !offset.is_multiple_of(SECTOR) || !(data.len() as u64).is_multiple_of(SECTOR) {
            return Err(io::Error::other("simulated: a drive takes whole sectors"));
        }
        if offset + data.len() as u64 > self.image.size_bytes() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut cache = self.cache.lock();
        let (keeps, tears) = (cache.chance.once_in(self.keeps_one_in), cache.chance.once_in(3));
        for (n, sector) in data.chunks(SECTOR as usize).enumerate() {
            let number = offset / SECTOR + n as u64;
            if keeps && !(tears && cache.chance.once_in(2)) {
                self.image.write_at(number * SECTOR, sector)?;
                cache.sectors.remove(&number);
            } else if let Ok(bytes) = sector.try_into() {
                cache.sectors.insert(number, bytes);
            }
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut cache = self.cache.lock();
        for (number, bytes) in std::mem::take(&mut cache.sectors) {
            self.image.write_at(number * SECTOR, &bytes)?;
        }
        Ok(())
    }

    fn is_writable(&self) -> bool {
        self.image.is_writable()
    }

    fn release(&self) {
        self.image.release();
    }
}

/// Name of the volume.
pub const VOLUME: &str = "crash/volume";
/// Size of the volume.
pub const VOLUME_BYTES: u64 = 8 << 20;

/// Exports only the volume.
struct OneVolume(Arc<Volume>);

impl Exports for OneVolume {
    fn list(&self) -> Vec<Listed> {
        vec![Listed { name: VOLUME.to_owned(), description: String::new() }]
    }

    fn open(&self, name: &str) -> Found {
        let opened =
            || Opened { name: VOLUME.to_owned(), export: self.0.clone(), read_only: false, hold: Arc::new(()) };
        if name == VOLUME { Found::Export(opened()) } else { Found::Unknown }
    }
}

fn serve_volume(live: &LiveDatasets, socket: &Path) -> Result<nbd::Server> {
    if live.synced()?.dataset(VOLUME).is_err() {
        let properties = vec![("volsize".to_owned(), VOLUME_BYTES.to_string())];
        let new = NewDataset { name: VOLUME.to_owned(), is_volume: true, properties, ..NewDataset::default() };
        dataset::write::create(live, &new, files::zpl::MAKER)?;
    }
    let volume = Volume::open_live(&live.open(VOLUME, None)?)?;
    let config = nbd::Config { socket: Some(socket.to_owned()), ..nbd::Config::default() };
    Ok(nbd::Server::start(config, Arc::new(OneVolume(Arc::new(volume))))?)
}

/// Opens the pool in `folder`, which replays its log, and serves it until standard input ends. With
/// `volume`, a volume is exported with NBD on that socket. Each line of standard input is a
/// property to set, answered with `ok`.
pub fn serve(layout: &Layout, folder: &Path, address: SocketAddr, seed: u64, volume: Option<&Path>) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let open = |(n, path): (usize, std::path::PathBuf)| -> Result<Arc<dyn Device>> {
        Ok(Arc::new(VolatileDevice::new(FileDevice::open_for_writing(&path)?, seed ^ n as u64)))
    };
    let devices = layout.images(folder).into_iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
    let found = search_devices(devices).pools.into_iter().next().context("no pool")?;
    let interval = Duration::from_millis([100, 700, 5000][(seed >> 40) as usize % 3]);
    let options =
        WriteOptions { claim_logs: Some(dataset::intent_log::claim_logs), interval, ..WriteOptions::default() };
    let writer = Writer::open(&found, &OpenOptions::default(), &options).context("open the pool")?;
    drop(found);
    let live = LiveDatasets::new(writer, Arc::new(KeyStore::new()));
    if layout.is_encrypted() {
        live.keys().load(&live.synced()?.dataset(POOL)?, &KEY)?;
    }
    let (pool_guid, fs_guid) = (live.synced()?.pool().guid(), live.synced()?.dataset(POOL)?.phys().fsid_guid);
    let dataset = live.open(POOL, Some(owners_of))?;
    let share = Share {
        path: crate::filer::SHARE.to_owned(),
        dataset: POOL.to_owned(),
        pool_guid,
        fs_guid,
        vfs: FileSystem::mount(&dataset).context("mount")?,
        options: ShareOptions::parse("rw,insecure,no_root_squash").map_err(anyhow::Error::msg)?.context("shared")?,
    };
    let mut config = Config::new([7; 32]);
    config.listen.push(address);
    let volume = volume.map(|socket| serve_volume(&live, socket)).transpose().context("serve the volume")?;
    let server = Server::start(config, Arc::new(FixedExports::new(vec![share])))?;
    for line in io::stdin().lines() {
        let line = line?;
        let (name, value) = line.split_once('=').with_context(|| format!("{line:?} is no property"))?;
        dataset::write::set(&live, POOL, &[(name.to_owned(), value.to_owned())]).with_context(|| line.clone())?;
        let mut out = io::stdout().lock();
        out.write_all(b"ok\n").and_then(|()| out.flush())?;
    }
    drop((server, volume));
    drop(dataset);
    live.close_all()?;
    live.writer().export().context("export")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_keeps_flushed_data_and_whole_sectors_of_the_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..60 {
            // A forgotten device keeps the lock on its image for the life of the process.
            let path = folder.path().join(format!("image{seed}"));
            std::fs::File::create(&path).and_then(|f| f.set_len(1 << 20)).expect("an image");
            let device = VolatileDevice::new(FileDevice::open_for_writing(&path).expect("opens"), seed);
            device.write_at(4096, &[1; 8192]).expect("written");
            device.flush().expect("flushed");
            for _ in 0..3 {
                device.write_at(4096, &[2; 8192]).expect("written");
            }
            let mut bytes = [0; 8192];
            device.read_at(4096, &mut bytes).expect("read");
            assert_eq!(bytes, [2; 8192]);
            device.read_at(4000, &mut bytes).expect("read");
            assert_eq!((bytes[95], bytes[96]), (0, 2));
            // Lost as if its process was killed.
            std::mem::forget(device);
            let image = &std::fs::read(&path).expect("read")[4096..12288];
            assert!(image.chunks(512).all(|s| s.iter().all(|b| *b == s[0] && [1, 2].contains(b))));
            match image.iter().filter(|b| **b == 2).count() {
                0 => lost += 1,
                8192 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 5 && kept > 5 && torn > 2, "{lost} lost, {kept} kept, {torn} torn");
    }
}
