//! A leaf of the device tree: one disk or file, or the place of one that is not there.

use host::device::Device;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a leaf cannot be used, as `zpool status` words it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aux {
    /// No device with this guid was found.
    NotFound,
    /// The labels are not readable or belong to something else.
    CorruptLabel,
    /// Taken offline by an administrator.
    Offline,
    /// Removed.
    Removed,
    /// Marked faulted by the pool.
    Faulted,
    /// Smaller than the pool says.
    TooSmall,
}

/// Errors seen on a leaf since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u64,
    /// Reads that succeeded with wrong bytes.
    pub checksum: u64,
}

/// One disk or file.
pub struct Leaf {
    /// Identity, as in its labels.
    pub guid: u64,
    /// Path, as opened, or as the configuration says if it was not.
    pub path: String,
    device: Option<Arc<dyn Device>>,
    /// Why there is no device.
    pub aux: Option<Aux>,
    /// Txg ranges (first, last) in which the device was away: what it holds from then is stale (`DTL_MISSING`).
    stale: RwLock<Vec<(u64, u64)>>,
    read_errors: AtomicU64,
    checksum_errors: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl Leaf {
    /// A leaf with its device.
    pub fn present(guid: u64, device: Arc<dyn Device>) -> Self {
        Self::new(guid, device.name().to_owned(), Some(device), None)
    }

    /// A leaf whose device cannot be used.
    pub fn absent(guid: u64, path: String, aux: Aux) -> Self {
        Self::new(guid, path, None, Some(aux))
    }

    fn new(guid: u64, path: String, device: Option<Arc<dyn Device>>, aux: Option<Aux>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            guid,
            path,
            device,
            aux,
            stale: RwLock::new(Vec::new()),
            read_errors: zero(),
            checksum_errors: zero(),
            reads: zero(),
            read_bytes: zero(),
        }
    }

    /// The device, if it can be used.
    pub fn device(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref()
    }

    /// Reads from `offset` on the device, labels included. `None`: there is no device.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Option<std::io::Result<()>> {
        let device = self.device.as_ref()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        let result = device.read_at(offset, buf);
        if result.is_err() {
            self.read_errors.fetch_add(1, Ordering::Relaxed);
        }
        Some(result)
    }

    /// Counts bytes that were read well and turned out wrong.
    pub fn count_checksum_error(&self) {
        self.checksum_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Errors so far.
    pub fn errors(&self) -> ErrorCounts {
        ErrorCounts {
            read: self.read_errors.load(Ordering::Relaxed),
            checksum: self.checksum_errors.load(Ordering::Relaxed),
        }
    }

    /// Reads and bytes so far.
    pub fn traffic(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.read_bytes.load(Ordering::Relaxed))
    }

    /// Sets the txg ranges in which the device was away.
    pub fn set_stale(&self, ranges: Vec<(u64, u64)>) {
        *self.stale.write() = ranges;
    }

    /// Whether what was born in `txg` never reached this device.
    pub fn is_stale(&self, txg: u64) -> bool {
        let stale = self.stale.read();
        !stale.is_empty() && stale.iter().any(|(first, last)| (*first..=*last).contains(&txg))
    }

    /// The txg ranges in which the device was away.
    pub fn stale_ranges(&self) -> Vec<(u64, u64)> {
        self.stale.read().clone()
    }
}
