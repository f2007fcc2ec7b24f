//! Devices that wrap others: with changed bytes, with another size, or recording reads.

use host::device::Device;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// A device with some bytes changed in memory, and possibly truncated.
pub struct Overlay {
    base: Arc<dyn Device>,
    changes: BTreeMap<u64, Vec<u8>>,
    size_bytes: u64,
}

impl Overlay {
    /// Wraps `base` without changes.
    pub fn new(base: Arc<dyn Device>) -> Self {
        let size_bytes = base.size_bytes();
        Self { base, changes: BTreeMap::new(), size_bytes }
    }

    /// Replaces bytes at `offset`. Bytes beyond the end are dropped; later changes take precedence.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let room = self.size_bytes.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if room == 0 {
            return;
        }
        // Merged with overlapping changes, so that ranges never overlap.
        let mut merged = bytes[..room].to_vec();
        let mut start = offset;
        let end = offset + room as u64;
        let overlapping: Vec<u64> =
            self.changes.range(..end).filter(|(at, b)| **at + b.len() as u64 > offset).map(|(at, _)| *at).collect();
        for at in overlapping {
            let Some(old) = self.changes.remove(&at) else { continue };
            if at < start {
                let head = (start - at) as usize;
                let mut longer = old[..head].to_vec();
                longer.extend_from_slice(&merged);
                (merged, start) = (longer, at);
            }
            let merged_end = start + merged.len() as u64;
            let old_end = at + old.len() as u64;
            if old_end > merged_end {
                merged.extend_from_slice(&old[(merged_end - at) as usize..]);
            }
        }
        self.changes.insert(start, merged);
    }

    /// Flips bit `bit % 8` of the byte at `offset`.
    pub fn flip(&mut self, offset: u64, bit: u32) -> io::Result<()> {
        let mut byte = [0];
        self.read_at(offset, &mut byte)?;
        self.write(offset, &[byte[0] ^ (1 << (bit % 8))]);
        Ok(())
    }

    /// Truncates the device; never extends it.
    pub fn truncate(&mut self, size_bytes: u64) {
        self.size_bytes = self.size_bytes.min(size_bytes);
    }
}

impl Device for Overlay {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.size_bytes);
        let Some(end) = end else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        self.base.read_at(offset, buf)?;
        for (at, bytes) in self.changes.range(..end) {
            let (from, to) = ((*at).max(offset), (at + bytes.len() as u64).min(end));
            if from < to {
                buf[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            }
        }
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        self.base.name()
    }
}

/// The reads of all devices.
pub type Reads = Arc<Mutex<Vec<Extent>>>;

/// A range of bytes on one of a pool's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// Index of the device in the list of devices that were opened.
    pub device: usize,
    /// Offset on the device, including labels.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A device that records what is read from it.
pub struct Recorder {
    base: Arc<dyn Device>,
    device: usize,
    reads: Reads,
}

impl Recorder {
    /// Wraps `base`, device number `device`, and appends its reads to `reads`.
    pub fn new(base: Arc<dyn Device>, device: usize, reads: Reads) -> Self {
        Self { base, device, reads }
    }
}

impl Device for Recorder {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let extent = Extent { device: self.device, offset, len: buf.len() as u64 };
        self.reads.lock().expect("no reader panics").push(extent);
        self.base.read_at(offset, buf)
    }

    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }

    fn name(&self) -> &str {
        self.base.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::device::MemoryDevice;
    use rig::Chance;

    #[test]
    fn writes_over_each_other_read_back_as_on_a_disk() {
        let mut chance = Chance::new(7);
        let mut plain = chance.bytes(200);
        let mut overlay = Overlay::new(Arc::new(MemoryDevice::new("m", plain.clone())));
        for _ in 0..300 {
            let (at, len) = (chance.below(220), chance.below(40) as usize);
            let bytes = chance.bytes(len);
            overlay.write(at, &bytes);
            for (i, b) in bytes.iter().enumerate() {
                if let Some(p) = plain.get_mut(at as usize + i) {
                    *p = *b;
                }
            }
            let mut all = vec![0; 200];
            overlay.read_at(0, &mut all).unwrap();
            assert_eq!(all, plain);
        }
    }
}
