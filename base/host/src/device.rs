//! Devices: files, block devices, partitions within them, and memory.
//!
//! Above: `block::vdev` reads leaves through [`Device`]; `pool::search` finds them.
//!
//! Invariants:
//!   * only [`FileDevice::open_for_writing`] returns a writable file device, and only one of them
//!     is open at a time
//!   * a read or write transfers all bytes requested, or returns an error
//!   * written data survives a power cut only after a [`Device::flush`] that returned no error

#[allow(unsafe_code)]
mod claim;
mod descriptor;
mod direct;
#[allow(unsafe_code)]
mod discard;
pub mod faults;
pub mod gpt;
pub mod latency;
mod open;
pub mod queue;

pub use direct::{Io, set_io};
pub use open::{devices_in, open_all_for_writing, open_with_partitions};

use crate::clock::Stopwatch;
use direct::Direct;
use latency::Latency;
use parking_lot::RwLock;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Type of the file at `path`; links are followed.
pub fn file_type(path: &Path) -> io::Result<std::fs::FileType> {
    Ok(std::fs::metadata(path)?.file_type())
}

/// Storage that is read and written by byte offset.
pub trait Device: Send + Sync {
    /// Fills `buf` with the bytes at `offset`. Reading past the end returns an error of kind
    /// `UnexpectedEof`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Changes only with [`Device::remeasure`].
    fn size_bytes(&self) -> u64;
    /// Name for messages: the path.
    fn name(&self) -> &str;
    /// Checks whether the device has grown, and makes the new space usable. Returns the current
    /// size in bytes. A device that shrank keeps its size, and fails where it is used.
    fn remeasure(&self) -> io::Result<u64> {
        Ok(self.size_bytes())
    }
    /// Writes all of `data` at `offset`. A write never extends a device: data that does not fit is
    /// an error of kind `UnexpectedEof`.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let _ = (offset, data);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    /// Returns when all earlier writes are on stable storage. After an error the state of those
    /// writes is unknown.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    /// Whether [`Device::write_at`] is allowed.
    fn is_writable(&self) -> bool {
        false
    }
    /// Discards `len` bytes at `offset`. What they read as afterwards is unspecified. This is a
    /// hint: a device that cannot discard returns `Ok`.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
    /// Whether [`Device::discard`] has an effect.
    fn can_discard(&self) -> bool {
        false
    }
    /// Checks whether the device works, before it is used again after a failure. Memory always
    /// works.
    fn probe(&self) -> io::Result<()> {
        Ok(())
    }
    /// Gives up write access so that another process can open the device for writing. The device
    /// remains readable.
    fn release(&self) {}
    /// Whether reads and writes bypass the page cache.
    fn is_direct(&self) -> bool {
        false
    }
    /// Hint that small writes, each followed by a flush, will go to this range: allocates space
    /// where the range has holes, without changing its contents. The allocation is durable after
    /// the next flush.
    fn take_space(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
}

/// A regular file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    /// Bypasses the page cache; `None` if all transfers use it.
    direct: Option<Direct>,
    size_bytes: AtomicU64,
    is_writable: AtomicBool,
    /// Whether this is a regular file that had a name when it was opened.
    has_name: bool,
    /// Serialises writes to a regular file in the page cache. The kernel admits one write to such a
    /// file at a time, and waiters spin. With this lock, two threads that write 128 KiB at a time
    /// use a quarter less processor time, on ext4 and on tmpfs. Writes that wait for a device share
    /// the lock.
    writing: Option<RwLock<()>>,
    /// Duration of writes: decides whether they share `writing`.
    latency: Latency,
    name: String,
}

impl FileDevice {
    /// Opens `path` read-only. Directories, pipes and character devices are refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, rustix::fs::OFlags::RDONLY)
    }

    /// Opens `path` for reading and exclusive writing: a second open for writing, even in this
    /// process, returns an error of kind `ResourceBusy`. Read-only opens still succeed.
    pub fn open_for_writing(path: &Path) -> io::Result<Self> {
        let busy = || io::Error::new(io::ErrorKind::ResourceBusy, "in use by another process");
        // O_EXCL without O_CREAT is defined for block devices only. It also fails on devices that
        // are mounted or part of an array.
        let is_block = std::fs::metadata(path)?.file_type().is_block_device();
        let exclusive = if is_block { rustix::fs::OFlags::EXCL } else { rustix::fs::OFlags::empty() };
        let device = Self::open_with(path, rustix::fs::OFlags::RDWR | exclusive)?;
        rustix::fs::flock(&device.file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
            rustix::io::Errno::WOULDBLOCK => busy(),
            e => e.into(),
        })?;
        Ok(device)
    }

    fn open_with(path: &Path, flags: rustix::fs::OFlags) -> io::Result<Self> {
        let file = descriptor::open(path, flags)?;
        let meta = file.metadata()?;
        let size_bytes = AtomicU64::new(measure(&file, &meta)?);
        let is_writable = AtomicBool::new(flags.contains(rustix::fs::OFlags::RDWR));
        let has_name = meta.is_file() && meta.nlink() > 0;
        let writing = meta.is_file().then(RwLock::default);
        let (latency, name) = (Latency::default(), path.display().to_string());
        let direct = direct::is_wanted(!meta.is_file())
            .then(|| {
                Direct::open(
                    &file,
                    flags.contains(rustix::fs::OFlags::RDWR),
                    queue::number_of(&meta, "logical_block_size"),
                )
            })
            .flatten();
        Ok(Self { file, direct, size_bytes, is_writable, has_name, writing, latency, name })
    }

    /// Returns an error if the file was truncated or deleted: data written to it would be lost.
    fn check_still_there(&self) -> io::Result<()> {
        if !self.has_name {
            return Ok(());
        }
        let meta = self.file.metadata()?;
        let what = match (meta.nlink(), meta.len()) {
            (0, _) => "the file was deleted or replaced while in use".to_owned(),
            (_, len) if len < self.size_bytes() => {
                format!("the file was cut to {len} bytes while in use, it had {}", self.size_bytes())
            }
            _ => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, what))
    }

    fn check_end(&self, offset: u64, len: u64) -> io::Result<()> {
        end_within(offset, len, self.size_bytes()).map(|_| ())
    }
}

/// Size of a file or block device in bytes.
fn measure(file: &File, meta: &std::fs::Metadata) -> io::Result<u64> {
    if meta.is_file() {
        Ok(meta.len())
    } else if meta.file_type().is_block_device() {
        Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"))
    }
}

/// The end of a range if it is within `size_bytes`.
fn end_within(offset: u64, len: u64, size_bytes: u64) -> io::Result<u64> {
    offset.checked_add(len).filter(|end| *end <= size_bytes).ok_or(io::ErrorKind::UnexpectedEof.into())
}

impl Device for FileDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.direct {
            Some(direct) => direct.read_at(offset, buf),
            None => self.file.read_exact_at(buf, offset),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    fn remeasure(&self) -> io::Result<u64> {
        let now = measure(&self.file, &self.file.metadata()?)?;
        Ok(self.size_bytes.fetch_max(now, Ordering::Relaxed).max(now))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn take_space(&self, offset: u64, len: u64) -> io::Result<()> {
        self.fill_holes(offset, len)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.is_writable() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.check_end(offset, data.len() as u64)?;
        let slow = self.latency.is_slow();
        let _shared = self.writing.as_ref().filter(|_| slow).map(RwLock::read);
        let _alone = self.writing.as_ref().filter(|_| !slow).map(RwLock::write);
        let clock = Stopwatch::start();
        let direct = self.direct.as_ref().and_then(|direct| direct.write_at(offset, data));
        let result = direct.unwrap_or_else(|| self.file.write_all_at(data, offset));
        self.latency.note(clock.ns());
        result
    }

    fn flush(&self) -> io::Result<()> {
        if !self.is_writable() {
            return Ok(());
        }
        self.file.sync_data()?;
        self.check_still_there()
    }

    fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::Relaxed)
    }

    /// Reads the first sector, which fails if the disk is gone.
    fn probe(&self) -> io::Result<()> {
        self.check_still_there()?;
        let mut sector = [0; 512];
        let len = sector.len().min(usize::try_from(self.size_bytes()).unwrap_or(usize::MAX));
        self.read_at(0, &mut sector[..len])
    }

    /// A block device is claimed by the file opened with `O_EXCL` until that file is closed. To
    /// keep reading, replace it with a second open without the claim.
    fn release(&self) {
        if !self.is_writable.swap(false, Ordering::SeqCst) {
            return;
        }
        // If this fails, the lock is released on close.
        if self.writing.is_some() {
            let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
        } else {
            // The claim goes last: until then no other process writes.
            let _ = self.direct.as_ref().map(|direct| claim::give_up(direct.file(), rustix::fs::OFlags::DIRECT));
            let _ = claim::give_up(&self.file, rustix::fs::OFlags::empty());
        }
    }

    fn can_discard(&self) -> bool {
        self.writing.is_some()
            || self.file.metadata().is_ok_and(|meta| queue::number_of(&meta, "discard_max_bytes") > Some(0))
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.is_writable() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.check_end(offset, len)?;
        if self.writing.is_none() {
            return discard::block_device(&self.file, offset, len);
        }
        let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, how, offset, len) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NODEV | rustix::io::Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }
}

impl FileDevice {
    /// Writes zeros to the holes of a regular file. A flush after a write to a hole also writes the
    /// host file system's metadata for the file, which takes 1.5 to 3 times as long (ext4, 8 KiB at
    /// a time: 158 to 307 microseconds, elsewhere 101 to 108). Space that is reserved but never
    /// written costs the same.
    fn fill_holes(&self, offset: u64, len: u64) -> io::Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        // Writers wait, so that zeros only overwrite holes.
        let Some(writing) = self.writing.as_ref().filter(|_| self.is_writable()) else { return Ok(()) };
        let end = end_within(offset, len, self.size_bytes())?;
        let _alone = writing.write();
        let mut at = offset;
        while at < end {
            let start = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(at))?;
            if start >= end {
                break;
            }
            at = match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(start)) {
                Ok(data) => data.min(end),
                Err(rustix::io::Errno::NXIO) => end,
                Err(error) => return Err(error.into()),
            };
            let mut from = start;
            while from < at {
                let count = (at - from).min(ZEROS.len() as u64);
                self.file.write_all_at(&ZEROS[..count as usize], from)?;
                from += count;
            }
        }
        Ok(())
    }
}

/// A range of another device, such as a partition.
pub struct Slice {
    inner: Arc<dyn Device>,
    start_bytes: u64,
    size_bytes: u64,
    name: String,
}

impl Slice {
    /// The `size_bytes` bytes of `inner` that begin at `start_bytes`.
    pub fn new(inner: Arc<dyn Device>, start_bytes: u64, size_bytes: u64, name: String) -> Self {
        Self { inner, start_bytes, size_bytes, name }
    }
}

impl Device for Slice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        end_within(offset, buf.len() as u64, self.size_bytes)?;
        self.inner.read_at(self.start_bytes + offset, buf)
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn take_space(&self, offset: u64, len: u64) -> io::Result<()> {
        end_within(offset, len, self.size_bytes)?;
        self.inner.take_space(self.start_bytes + offset, len)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        end_within(offset, data.len() as u64, self.size_bytes)?;
        self.inner.write_at(self.start_bytes + offset, data)
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn probe(&self) -> io::Result<()> {
        self.inner.probe()
    }

    fn release(&self) {
        self.inner.release();
    }

    fn can_discard(&self) -> bool {
        self.inner.can_discard()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        end_within(offset, len, self.size_bytes)?;
        self.inner.discard(self.start_bytes + offset, len)
    }
}

/// A device in memory, for tests and simulations. Always writable.
pub struct MemoryDevice {
    bytes: RwLock<Vec<u8>>,
    name: String,
}

impl MemoryDevice {
    /// A device that holds `bytes`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { bytes: RwLock::new(bytes), name: name.into() }
    }

    /// A copy of the current contents.
    pub fn contents(&self) -> Vec<u8> {
        self.bytes.read().clone()
    }

    /// Grows the device to `size_bytes`; the new bytes are zero. Never shrinks it.
    pub fn grow(&self, size_bytes: usize) {
        let mut bytes = self.bytes.write();
        let size_bytes = size_bytes.max(bytes.len());
        bytes.resize(size_bytes, 0);
    }
}

/// The range as vector indices, if it is within the vector.
fn range_in(bytes: &[u8], offset: u64, len: u64) -> io::Result<std::ops::Range<usize>> {
    let end = end_within(offset, len, bytes.len() as u64)?;
    Ok(offset as usize..end as usize)
}

impl Device for MemoryDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read();
        buf.copy_from_slice(&bytes[range_in(&bytes, offset, buf.len() as u64)?]);
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let range = range_in(&bytes, offset, data.len() as u64)?;
        bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn can_discard(&self) -> bool {
        true
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let range = range_in(&bytes, offset, len)?;
        bytes[range].fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_read_past_the_end_is_an_error_and_not_a_short_read() {
        let d = MemoryDevice::new("m", vec![7; 10]);
        let mut buf = [0; 4];
        assert!(d.read_at(6, &mut buf).is_ok());
        assert_eq!(d.read_at(7, &mut buf).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(d.read_at(u64::MAX, &mut buf).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(FileDevice::open(&pipe).is_err());
        assert!(devices_in(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn a_block_device_that_was_released_is_free_for_others_while_it_is_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        std::fs::write(&image, vec![7; 1 << 20]).unwrap();
        let losetup = |args: &[&str]| std::process::Command::new("losetup").args(args).output();
        let path = match losetup(&["--find", "--show", image.to_str().unwrap()]) {
            Ok(output) if output.status.success() => PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()),
            _ => return println!("skipped: no loop devices, or not root"),
        };
        // udev probes a block device that has just appeared or was just closed, and locks it
        // meanwhile.
        let opened = || {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            loop {
                match FileDevice::open_for_writing(&path) {
                    Err(e) if e.kind() == io::ErrorKind::ResourceBusy && std::time::Instant::now() < deadline => {
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                    other => break other,
                }
            }
        };
        let first = opened().unwrap();
        let is_direct = first.is_direct();
        let refused = FileDevice::open_for_writing(&path).err().map(|e| e.kind());
        first.release();
        let second = opened();
        let mut sector = [0; 512];
        let read = first.read_at(4096, &mut sector);
        let written = first.write_at(0, &sector).is_err();
        let second = second.map(drop);
        drop(first);
        losetup(&["--detach", path.to_str().unwrap()]).unwrap();
        assert_eq!(refused, Some(io::ErrorKind::ResourceBusy));
        assert!(second.is_ok() && read.is_ok() && written && sector == [7; 512], "{second:?} {read:?}");
        assert!(is_direct, "a block device is read past the page cache");
    }

    #[test]
    fn holes_of_a_file_are_filled_and_nothing_else() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let device = FileDevice::open_for_writing(&path).unwrap();
        device.write_at(200_000, &[7; 100]).unwrap();
        let before = std::fs::read(&path).unwrap();
        device.take_space(100_000, 300_000).unwrap();
        device.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let taken = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!((300_000..1 << 20).contains(&taken), "{taken} bytes");
        assert_eq!(device.take_space(1 << 20, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        FileDevice::open(&path).unwrap().take_space(0, 1 << 20).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().blocks() * 512, taken, "a reader writes nothing");
    }

    #[test]
    fn a_file_has_one_writer_and_never_grows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, [1; 8192]).unwrap();
        let writer = FileDevice::open_for_writing(&path).unwrap();
        let second = FileDevice::open_for_writing(&path).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        let reader = FileDevice::open(&path).unwrap();
        assert!(writer.is_writable() && !reader.is_writable());
        writer.write_at(8190, &[2; 2]).unwrap();
        writer.discard(0, 4096).unwrap();
        writer.flush().unwrap();
        let mut buf = [9; 2];
        reader.read_at(8190, &mut buf).unwrap();
        assert_eq!(buf, [2; 2]);
        assert_eq!(writer.write_at(8190, &[2; 3]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(16384).unwrap();
        assert_eq!((writer.size_bytes(), writer.remeasure().unwrap(), writer.size_bytes()), (8192, 16384, 16384));
        writer.write_at(16000, &[3; 3]).unwrap();
        assert_eq!(reader.write_at(0, &[2]).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        drop(writer);
        assert!(FileDevice::open_for_writing(&path).is_ok());
    }

    #[test]
    fn a_file_truncated_or_deleted_in_use_fails_later_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let open = || {
            std::fs::write(&path, [1; 8192]).unwrap();
            FileDevice::open_for_writing(&path).unwrap()
        };
        let device = open();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        device.write_at(0, &[2]).unwrap();
        assert!(device.flush().unwrap_err().to_string().contains("cut to 4096 bytes"));
        drop(device);
        let device = open();
        std::fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        device.flush().unwrap();
        std::fs::remove_file(dir.path().join("elsewhere")).unwrap();
        assert!(device.flush().unwrap_err().to_string().contains("deleted"));
    }

    #[test]
    fn partitions_of_one_disk_are_opened_for_writing_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let mut bytes = vec![0u8; 1 << 20];
        bytes[512..520].copy_from_slice(b"EFI PART");
        bytes[512 + 72] = 2;
        bytes[512 + 80] = 2;
        bytes[512 + 84] = 128;
        for (entry, start) in [(1024, 64u64), (1152, 128)] {
            bytes[entry] = 1;
            bytes[entry + 32..entry + 40].copy_from_slice(&start.to_le_bytes());
            bytes[entry + 40..entry + 48].copy_from_slice(&(start + 9).to_le_bytes());
        }
        std::fs::write(&path, &bytes).unwrap();
        let seen = open_with_partitions(&path).unwrap();
        let names: Vec<&str> = seen.iter().map(|d| d.name()).collect();
        let opened = open_all_for_writing(&names).unwrap();
        opened[2].write_at(0, b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[128 * 512..][..6], *b"second");
        assert_eq!(open_all_for_writing(&names[..1]).err().unwrap().kind(), io::ErrorKind::ResourceBusy);
        drop(opened);
        let missing = format!("{}#7", path.display());
        assert!(open_all_for_writing(&[&missing]).err().unwrap().to_string().starts_with(&missing));
    }

    #[test]
    fn a_slice_writes_within_its_bounds_only() {
        let whole = Arc::new(MemoryDevice::new("m", vec![0; 100]));
        let slice = Slice::new(whole.clone(), 10, 20, "m#1".into());
        slice.write_at(18, &[7; 2]).unwrap();
        assert!(slice.write_at(19, &[7; 2]).is_err() && slice.write_at(u64::MAX, &[7]).is_err());
        let bytes = whole.contents();
        assert_eq!((&bytes[27..31], slice.is_writable()), (&[0, 7, 7, 0][..], true));
    }
}
