//! Removed vdevs: their addresses remain valid through a table of where the bytes are now.
//!
//! ZFS name: vdev_indirect, vdev_indirect_mapping.
//!
//! Invariants:
//!   * entries are sorted by source offset and do not overlap

/// One range that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Offset on the removed vdev.
    pub source_bytes: u64,
    pub size_bytes: u64,
    /// Top-level vdev that holds the bytes now (it may be removed, too).
    pub vdev: u32,
    /// Offset on that vdev.
    pub offset_bytes: u64,
}

/// Current location of the bytes of a removed vdev.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    entries: Vec<Entry>,
}

impl Mapping {
    /// Makes a mapping of `entries`. Fails with a description of the first entry that overlaps, is
    /// out of order, or overflows.
    pub fn new(entries: Vec<Entry>) -> Result<Self, String> {
        if let Some(e) = entries.iter().find(|e| e.source_bytes.checked_add(e.size_bytes).is_none()) {
            return Err(format!("the entry at {:#x} is {:#x} bytes long", e.source_bytes, e.size_bytes));
        }
        for pair in entries.windows(2) {
            if pair[0].source_bytes.checked_add(pair[0].size_bytes).is_none_or(|end| end > pair[1].source_bytes) {
                return Err(format!("entries at {:#x} and {:#x} overlap", pair[0].source_bytes, pair[1].source_bytes));
            }
        }
        Ok(Self { entries })
    }

    /// Returns a mapping with more entries appended. Fails as [`Mapping::new`] does.
    pub fn extended(&self, more: impl IntoIterator<Item = Entry>) -> Result<Self, String> {
        Self::new(self.entries.iter().copied().chain(more).collect())
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the pieces that make up `size` bytes at `offset`, in order. Fails with the first
    /// offset that no entry covers.
    pub fn resolve(&self, offset: u64, size: u64) -> Result<Vec<Entry>, u64> {
        let end = offset.checked_add(size).ok_or(offset)?;
        let mut at = offset;
        let mut pieces = Vec::new();
        let first = self.entries.partition_point(|e| e.source_bytes + e.size_bytes <= offset);
        for e in &self.entries[first..] {
            if at >= end {
                break;
            }
            if e.source_bytes > at {
                return Err(at);
            }
            let skip = at - e.source_bytes;
            let len = (e.size_bytes - skip).min(end - at);
            let offset_bytes = e.offset_bytes.checked_add(skip).ok_or(at)?;
            pieces.push(Entry { source_bytes: at, size_bytes: len, vdev: e.vdev, offset_bytes });
            at += len;
        }
        if at < end { Err(at) } else { Ok(pieces) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(source_bytes: u64, size_bytes: u64, vdev: u32, offset_bytes: u64) -> Entry {
        Entry { source_bytes, size_bytes, vdev, offset_bytes }
    }

    #[test]
    fn a_range_over_two_entries_becomes_two_pieces() {
        let m = Mapping::new(vec![entry(0, 100, 1, 1000), entry(100, 100, 2, 5000), entry(300, 10, 1, 0)]).unwrap();
        assert_eq!(m.resolve(50, 100).unwrap(), [entry(50, 50, 1, 1050), entry(100, 50, 2, 5000)]);
        assert_eq!(m.resolve(150, 100), Err(200));
        assert_eq!(m.resolve(1000, 1), Err(1000));
    }

    #[test]
    fn overlapping_entries_are_refused() {
        assert!(Mapping::new(vec![entry(0, 101, 1, 0), entry(100, 1, 1, 0)]).is_err());
        assert!(Mapping::new(vec![entry(1, u64::MAX, 1, 0)]).is_err());
        assert!(Mapping::new(vec![entry(0, u64::MAX, 1, 0), entry(1, u64::MAX, 1, 0)]).is_err());
    }
}
