//! Ranges of a file that could not be read, stored next to the copy as `FILE.weir-map`.
//!
//! JSON, one object:
//! ```json
//! {
//!   "weir_map": 1,
//!   "source": "tank/fs:/movie.mkv",
//!   "size_bytes": 734003200,
//!   "unreadable_bytes": 131072,
//!   "unreadable": [
//!     { "offset": 1048576, "bytes": 131072, "error": "tank/fs: object 12 record 8: checksum …" }
//!   ]
//! }
//! ```
//! `offset` and `bytes` count from the start of the file; ranges are in order and do not overlap;
//! the copy has zeros there. All other bytes are verified by the pool's checksums.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Beyond this limit, neighbouring ranges are merged even if their errors differ, to bound memory:
/// a map is for people.
const RANGES_MAX: usize = 1 << 16;

/// Byte ranges of one file that could not be read.
#[derive(Debug, Default)]
pub struct DamageMap {
    ranges: Vec<(u64, u64, String)>,
}

impl DamageMap {
    /// Adds `bytes` bytes from `offset` that could not be read.
    pub fn add(&mut self, offset: u64, bytes: u64, error: &dyn std::fmt::Display) {
        self.ranges.push((offset, bytes, error.to_string()));
        if self.ranges.len() >= RANGES_MAX {
            self.merge();
            // Still too many: they are not neighbours. Merge pairs, with the first one's error and
            // the gap between them: this reports too much damage, never too little.
            while self.ranges.len() >= RANGES_MAX / 2 {
                let paired = self.ranges.chunks(2).map(|pair| match pair {
                    [a, b] => (a.0, b.0.saturating_add(b.1) - a.0, a.2.clone()),
                    rest => rest[0].clone(),
                });
                self.ranges = paired.collect();
            }
        }
    }

    /// Merges overlapping and adjacent ranges.
    fn merge(&mut self) {
        self.ranges.sort_by_key(|r| r.0);
        let mut merged: Vec<(u64, u64, String)> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match merged.last_mut() {
                Some(last) if last.0.saturating_add(last.1) >= range.0 => {
                    last.1 = last.1.max(range.0.saturating_add(range.1) - last.0);
                }
                _ => merged.push(range),
            }
        }
        self.ranges = merged;
    }

    /// Whether everything could be read.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Ranges in order (offset, bytes, error), neighbours merged.
    pub fn ranges(&mut self) -> &[(u64, u64, String)] {
        self.merge();
        &self.ranges
    }

    /// The map as JSON.
    pub fn to_json(&mut self, source: &str, size_bytes: u64) -> Value {
        let ranges = self.ranges();
        let total: u64 = ranges.iter().map(|r| r.1).sum();
        let list: Vec<Value> = ranges.iter().map(|(o, n, e)| json!({ "offset": o, "bytes": n, "error": e })).collect();
        json!({ "weir_map": 1, "source": source, "size_bytes": size_bytes, "unreadable_bytes": total, "unreadable": list })
    }

    /// Path of the map for the copy at `file`.
    pub fn path_for(file: &Path) -> PathBuf {
        let mut name = OsString::from(file);
        name.push(".weir-map");
        PathBuf::from(name)
    }

    /// Writes the map for the copy at `file`.
    pub fn write(&mut self, source: &str, size_bytes: u64, file: &Path) -> io::Result<PathBuf> {
        let path = Self::path_for(file);
        // A new file, not through a link that the tree may have put there.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let text = serde_json::to_string_pretty(&self.to_json(source, size_bytes))?;
        let mut out = std::fs::File::create_new(&path)?;
        io::Write::write_all(&mut out, (text + "\n").as_bytes())?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        let mut map = DamageMap::default();
        for offset in [256, 0, 128, 1024] {
            map.add(offset, 128, &"bad");
        }
        let bad = "bad".to_owned();
        assert_eq!(map.ranges(), [(0, 384, bad.clone()), (1024, 128, bad)]);
    }

    #[test]
    fn a_map_of_very_many_ranges_stays_small_and_hides_nothing() {
        let mut map = DamageMap::default();
        for i in 0..1_000_000_u64 {
            map.add(i * 1024, 512, &"bad");
        }
        let ranges = map.ranges();
        assert!(ranges.len() < RANGES_MAX);
        let covered = |at: u64| ranges.iter().any(|r| r.0 <= at && at < r.0 + r.1);
        assert!((0..1_000_000).step_by(997).all(|i| covered(i * 1024)));
    }
}
