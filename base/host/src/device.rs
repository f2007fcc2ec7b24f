//! Devices: files, block devices, partitions within them, and memory.
//!
//! Above: `block::vdev` reads leaves through [`Device`]; `pool::search` finds them.
//!
//! Invariants:
//!   * a device opened here is opened read-only
//!   * a read returns all the bytes asked for, or an error

pub mod gpt;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something with bytes at offsets.
pub trait Device: Send + Sync {
    /// Fills `buf` from `offset` on. Reading past the end is an error of kind `UnexpectedEof`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Size in bytes.
    fn size_bytes(&self) -> u64;
    /// What to call it in messages: its path.
    fn name(&self) -> &str;
    /// Hint that these bytes will be read soon.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
}

/// A file or a block device.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    size_bytes: u64,
    name: String,
}

impl FileDevice {
    /// Opens `path` read-only. Folders, pipes and character devices are refused.
    pub fn open(path: &Path) -> io::Result<Self> {
        // O_NONBLOCK: opening a pipe or an empty tape drive must not hang a search.
        let file: File = rustix::fs::open(
            path,
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK,
            rustix::fs::Mode::empty(),
        )?
        .into();
        let meta = file.metadata()?;
        let size_bytes = if meta.is_file() {
            meta.len()
        } else if meta.file_type().is_block_device() {
            rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?
        } else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"));
        };
        Ok(Self { file, size_bytes, name: path.display().to_string() })
    }
}

impl Device for FileDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn will_need(&self, offset: u64, len: u64) {
        // A hint: that it could not be given changes nothing.
        let _ = rustix::fs::fadvise(&self.file, offset, std::num::NonZero::new(len), rustix::fs::Advice::WillNeed);
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
    /// `size_bytes` of `inner` from `start_bytes` on.
    pub fn new(inner: Arc<dyn Device>, start_bytes: u64, size_bytes: u64, name: String) -> Self {
        Self { inner, start_bytes, size_bytes, name }
    }
}

impl Device for Slice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.size_bytes => self.inner.read_at(self.start_bytes + offset, buf),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(self.start_bytes + offset, len);
    }
}

/// Bytes in memory, for tests and simulations.
pub struct MemoryDevice {
    bytes: Vec<u8>,
    name: String,
}

impl MemoryDevice {
    /// A device that holds `bytes`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { bytes, name: name.into() }
    }
}

impl Device for MemoryDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let from = start.checked_add(buf.len()).and_then(|end| self.bytes.get(start..end));
        buf.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Opens `path` and, when it carries a GPT, its partitions: the whole first, then each partition in order.
pub fn open_with_partitions(path: &Path) -> io::Result<Vec<Arc<dyn Device>>> {
    let whole: Arc<dyn Device> = Arc::new(FileDevice::open(path)?);
    let mut all = vec![whole.clone()];
    for p in gpt::partitions(whole.as_ref()) {
        let name = format!("{}#{}", path.display(), p.number);
        all.push(Arc::new(Slice::new(whole.clone(), p.start_bytes, p.size_bytes, name)));
    }
    Ok(all)
}

/// Files and block devices that `place` names: itself, or, if it is a folder, what stands directly in it.
pub fn devices_in(place: &Path) -> io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(place)?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        // Follows links: /dev/disk/by-id is full of them. What vanishes or cannot be looked at is not a device for us.
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if meta.is_file() || meta.file_type().is_block_device() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
