//! Direct I/O (`O_DIRECT`): reads and writes that bypass Linux's page cache, so that contents are
//! cached once, in the ARC, and a write has reached the disk's own cache when it returns.
//!
//! Linux wants offset, length and address in memory to be multiples of the device's logical block
//! size (open(2)). Buffers that are not aligned are copied.

use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, Ordering};

/// How file and block devices that are opened from now on transfer data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// Block devices bypass the page cache, regular files do not.
    #[default]
    Auto,
    /// All bypass the page cache, where the file system allows it.
    Direct,
    /// All use the page cache.
    Buffered,
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Sets how devices that are opened from now on transfer data: one value for the process.
pub fn set_io(io: Io) {
    CHOSEN.store(io as u8, Ordering::Relaxed);
}

/// Whether a device opened now is to bypass the page cache.
pub(super) fn is_wanted(is_block: bool) -> bool {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    chosen == Io::Direct as u8 || (is_block && chosen == Io::Auto as u8)
}

/// Largest piece that is copied at a time. Bounds the memory for copies.
const PIECE_BYTES: usize = 1 << 20;
/// Buffers of a device that are kept for its next transfers.
const KEPT: usize = 4;
/// Size of a page of the page cache.
const PAGE_BYTES: usize = 4096;
/// Alignment of files whose file system does not report one: the largest that disks use.
const FILE_ALIGNMENT: usize = PAGE_BYTES;

/// A second descriptor of a device, opened with `O_DIRECT`.
#[derive(Debug)]
pub(super) struct Direct {
    file: File,
    alignment: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Direct {
    /// Opens the device behind `file` once more. `None` if it cannot do direct I/O with transfers
    /// of whole blocks: a read is tried, because a device may need another alignment than it
    /// reports.
    ///
    /// `None` also for logical blocks larger than 512 bytes and smaller than a page. Parts of a
    /// block go through the page cache, which there would write back neighbours that were written
    /// directly meanwhile.
    pub fn open(file: &File, is_writable: bool, block_bytes: Option<u64>) -> Option<Self> {
        let alignment = block_bytes.map_or(FILE_ALIGNMENT, |bytes| bytes as usize);
        if !matches!(alignment, 512 | PAGE_BYTES..=PIECE_BYTES) || !alignment.is_power_of_two() {
            return None;
        }
        let access = if is_writable { rustix::fs::OFlags::RDWR } else { rustix::fs::OFlags::RDONLY };
        let file = super::descriptor::reopen(file, access | rustix::fs::OFlags::DIRECT).ok()?;
        let direct = Self { file, alignment, buffers: Mutex::default() };
        let tried = direct.with_buffer(alignment, |block| direct.file.read_at(block, 0));
        // A disk that fails is no reason to use the page cache.
        tried.err().is_none_or(|e| e.raw_os_error() != Some(libc::EINVAL)).then_some(direct)
    }

    /// The descriptor, to replace it by a read-only one.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Fills `buf`.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.fits(offset, buf) { self.file.read_exact_at(buf, offset) } else { self.copy_in(offset, buf) }
    }

    /// Writes `data`. `None` if it has parts of blocks: the kernel reads, changes and writes them
    /// in the page cache.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Option<io::Result<()>> {
        if !self.is_aligned(offset) || !self.is_aligned(data.len() as u64) {
            return None;
        }
        Some(if self.fits(offset, data) { self.file.write_all_at(data, offset) } else { self.copy_out(offset, data) })
    }

    fn is_aligned(&self, number: u64) -> bool {
        number.is_multiple_of(self.alignment as u64)
    }

    /// Whether `buf` can be transferred as it is.
    fn fits(&self, offset: u64, buf: &[u8]) -> bool {
        self.is_aligned(offset) && self.is_aligned(buf.len() as u64) && self.is_aligned(buf.as_ptr().addr() as u64)
    }

    fn copy_in(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let first = offset - offset % self.alignment as u64;
        let mut skip = (offset - first) as usize;
        let (mut at, mut done) = (first, 0);
        while done < buf.len() {
            let wanted = (skip + buf.len() - done).min(PIECE_BYTES);
            let rounded = wanted.next_multiple_of(self.alignment);
            let count = self.with_buffer(rounded, |piece| {
                // A read is shorter only at the end of the device, whose last block may be cut.
                let mut have = 0;
                while have < wanted {
                    match self.file.read_at(&mut piece[have..], at + have as u64) {
                        Ok(count) => {
                            have += count;
                            if have < wanted && (count == 0 || !self.is_aligned(have as u64)) {
                                return Err(io::ErrorKind::UnexpectedEof.into());
                            }
                        }
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(e),
                    }
                }
                let count = wanted - skip;
                buf[done..done + count].copy_from_slice(&piece[skip..wanted]);
                Ok(count)
            })?;
            done += count;
            at += rounded as u64;
            skip = 0;
        }
        Ok(())
    }

    fn copy_out(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (number, piece) in data.chunks(PIECE_BYTES).enumerate() {
            let at = offset + (number * PIECE_BYTES) as u64;
            self.with_buffer(piece.len(), |buffer| {
                buffer.copy_from_slice(piece);
                self.file.write_all_at(buffer, at)
            })?;
        }
        Ok(())
    }

    /// Calls `run` with `len` bytes of aligned memory, whose contents are arbitrary.
    fn with_buffer<R>(&self, len: usize, run: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        if buffer.len() < len + self.alignment {
            buffer.resize(len + self.alignment, 0);
        }
        let start = buffer.as_ptr().align_offset(self.alignment);
        let result = run(&mut buffer[start..start + len]);
        let mut kept = self.buffers.lock();
        if kept.len() < KEPT {
            kept.push(buffer);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(bytes: &[u8]) -> Option<(tempfile::NamedTempFile, Direct)> {
        // /var/tmp: memory file systems before Linux 6.6 refuse O_DIRECT.
        let image = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file");
        std::fs::write(image.path(), bytes).expect("written");
        let file = File::options().read(true).write(true).open(image.path()).expect("opens");
        let direct = Direct::open(&file, true, None);
        if direct.is_none() {
            println!("skipped: /var/tmp does not support O_DIRECT");
        }
        Some((image, direct?))
    }

    #[test]
    fn any_range_reads_as_through_the_page_cache_up_to_a_cut_last_block() {
        let bytes: Vec<u8> = (0..3_000_001_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let Some((_image, direct)) = opened(&bytes) else { return };
        for (offset, len) in
            [(0, 4096), (1, 1), (511, 2), (4095, 4098), (100, 2_500_000), (2_999_990, 11), (0, 3_000_001)]
        {
            let mut buf = vec![0; len];
            direct.read_at(offset as u64, &mut buf).expect("read");
            assert_eq!(buf, bytes[offset..offset + len], "{len} at {offset}");
        }
        let mut buf = [0; 2];
        let past = direct.read_at(3_000_000, &mut buf).expect_err("past the end");
        assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn whole_blocks_are_written_directly_from_any_address_and_parts_of_blocks_are_left_to_the_page_cache() {
        let Some((image, direct)) = opened(&vec![1; 4 << 20]) else { return };
        let data: Vec<u8> = (0..2_100_000_u32).map(|n| n as u8).collect();
        let whole = &data[3..3 + (2 << 20)];
        direct.write_at(8192, whole).expect("direct").expect("written");
        assert!(direct.write_at(8192, &data[..100]).is_none() && direct.write_at(100, &data[..4096]).is_none());
        let now = std::fs::read(image.path()).expect("read");
        assert_eq!((&now[..8192], &now[8192..8192 + whole.len()]), (&[1; 8192][..], whole));
        assert!(now[8192 + whole.len()..].iter().all(|b| *b == 1));
    }
}
