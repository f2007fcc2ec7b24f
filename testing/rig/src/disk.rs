//! A device in memory that fails, or takes its time, on request.
//!
//! `host::device::faults` injects faults into the devices of an open pool; this one works below
//! that, and without a pool.

use host::device::faults::errno::EIO;
use host::device::{Device, MemoryDevice};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Labels, and the area between them and the data, at each end of a device.
const LABEL_BYTES: u64 = 512 << 10;

/// A device in memory. What fails returns EIO and changes nothing.
pub struct Disk {
    pub memory: MemoryDevice,
    pub fails_writes: AtomicBool,
    /// Only writes to the labels fail.
    pub fails_label_writes: AtomicBool,
    pub fails_flushes: AtomicBool,
    /// Writes outside of the labels, and flushes, panic: as if an invariant did not hold.
    pub panics: AtomicBool,
    /// Number of flushes, including those that failed.
    pub flushes: AtomicU64,
    /// Duration of each read and write, in microseconds.
    pub latency_us: AtomicU64,
    /// It was released, and so open to other processes, while a write was under way.
    pub was_released_early: AtomicBool,
    /// Most writes that were under way at the same time.
    pub writing_max: AtomicU64,
    /// Writes under way.
    writing: AtomicU64,
    /// Reads that still succeed.
    reads: AtomicU64,
    failed_reads: AtomicU64,
}

impl Disk {
    /// A device on which everything works, and takes no time.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryDevice::new(name, bytes),
            fails_writes: false.into(),
            fails_label_writes: false.into(),
            fails_flushes: false.into(),
            panics: false.into(),
            flushes: 0.into(),
            latency_us: 0.into(),
            was_released_early: false.into(),
            writing_max: 0.into(),
            writing: 0.into(),
            reads: u64::MAX.into(),
            failed_reads: 0.into(),
        })
    }

    /// Lets the next `reads` reads succeed, and all later ones fail.
    pub fn allow_reads(&self, reads: u64) {
        self.failed_reads.store(0, Ordering::SeqCst);
        self.reads.store(reads, Ordering::SeqCst);
    }

    /// Number of reads that failed since then.
    pub fn failed_reads(&self) -> u64 {
        self.failed_reads.load(Ordering::SeqCst)
    }

    fn wait(&self) {
        match self.latency_us.load(Ordering::Relaxed) {
            0 => {}
            us => std::thread::sleep(Duration::from_micros(us)),
        }
    }
}

fn fail_if(fails: bool) -> io::Result<()> {
    if fails { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
}

impl Device for Disk {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.wait();
        if self.reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
            self.failed_reads.fetch_add(1, Ordering::SeqCst);
            return fail_if(true);
        }
        self.memory.read_at(offset, buf)
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn name(&self) -> &str {
        self.memory.name()
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let writing = self.writing.fetch_add(1, Ordering::SeqCst) + 1;
        self.writing_max.fetch_max(writing, Ordering::SeqCst);
        self.wait();
        self.writing.fetch_sub(1, Ordering::SeqCst);
        let is_label = offset < LABEL_BYTES || offset + LABEL_BYTES >= self.size_bytes();
        fail_if(self.fails_writes.load(Ordering::SeqCst))?;
        fail_if(is_label && self.fails_label_writes.load(Ordering::SeqCst))?;
        assert!(is_label || !self.panics.load(Ordering::SeqCst), "{} panics in a write", self.name());
        self.memory.write_at(offset, data)
    }

    fn flush(&self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics.load(Ordering::SeqCst), "{} panics in a flush", self.name());
        fail_if(self.fails_flushes.load(Ordering::SeqCst))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn release(&self) {
        self.was_released_early.fetch_or(self.writing.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
    }
}
