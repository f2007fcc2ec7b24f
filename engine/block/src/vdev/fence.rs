//! The fence of a pool that other hosts may take over: lets writes to its devices pass only until a
//! deadline, which each heartbeat moves.
//!
//! ```text
//!   a heartbeat is on disk ── extend ──> deadline      Leaf::write, discard, labels ── check ──> error after the deadline
//! ```
//! A thread that compares times would not do: it may be suspended together with the rest of the
//! process, and then the others write first. All that writes asks here.
//!
//! Invariants:
//!   * after the deadline no write begins, until [`Fence::open`]: a late heartbeat does not revive
//!     it, because another host may own the pool by then

use host::clock::Instant;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// No deadline.
const NEVER: u64 = u64::MAX;

/// Until when the devices of a pool may be written.
pub struct Fence {
    start: Instant,
    /// Nanoseconds after `start`; [`NEVER`]: always.
    until_ns: AtomicU64,
}

impl Default for Fence {
    /// Without a deadline.
    fn default() -> Self {
        Self { start: Instant::now(), until_ns: AtomicU64::new(NEVER) }
    }
}

impl Fence {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }

    /// Whether the deadline has passed.
    pub fn is_closed(&self) -> bool {
        let until = self.until_ns.load(Ordering::Acquire);
        until != NEVER && self.now_ns() > until
    }

    /// Fails after the deadline.
    pub fn check(&self) -> io::Result<()> {
        match self.is_closed() {
            true => Err(io::Error::other("another host may have taken over the pool")),
            false => Ok(()),
        }
    }

    /// Moves the deadline to `longest` from now; `None`: removes it. Returns false if it has passed
    /// already.
    pub fn extend(&self, longest: Option<Duration>) -> bool {
        let mut until = self.until_ns.load(Ordering::Acquire);
        loop {
            let now = self.now_ns();
            if until != NEVER && now > until {
                return false;
            }
            let next = longest.map_or(NEVER, |longest| deadline(now, longest));
            match self.until_ns.compare_exchange(until, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => until = other,
            }
        }
    }

    /// As [`Fence::extend`], also after the deadline: the caller knows that no other host has the
    /// pool.
    pub fn open(&self, longest: Option<Duration>) {
        let next = longest.map_or(NEVER, |longest| deadline(self.now_ns(), longest));
        self.until_ns.store(next, Ordering::Release);
    }
}

fn deadline(now: u64, longest: Duration) -> u64 {
    let longest = u64::try_from(longest.as_nanos()).unwrap_or(NEVER);
    now.saturating_add(longest).min(NEVER - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::write_heartbeat;
    use crate::vdev::Leaf;
    use host::device::MemoryDevice;
    use ondisk::BlkPtr;
    use ondisk::label::START_BYTES;
    use ondisk::uberblock::{Multihost, Uberblock};
    use std::sync::Arc;

    #[test]
    fn a_passed_deadline_is_not_moved_but_by_opening() {
        let fence = Fence::default();
        assert!(fence.check().is_ok() && fence.extend(Some(Duration::from_secs(1000))) && fence.check().is_ok());
        assert!(fence.extend(None) && fence.extend(Some(Duration::ZERO)));
        while !fence.is_closed() {}
        assert!(!fence.extend(Some(Duration::from_secs(1000))) && !fence.extend(None) && fence.check().is_err());
        fence.open(Some(Duration::from_secs(1000)));
        assert!(fence.check().is_ok() && fence.extend(None));
    }

    #[test]
    fn nothing_reaches_a_device_after_the_deadline_and_no_error_is_counted() {
        let device = Arc::new(MemoryDevice::new("disk", vec![0; 64 << 20]));
        let leaf = Leaf::present(1, device.clone());
        let fence = Arc::new(Fence::default());
        leaf.keep_to(&fence);
        assert!(leaf.write(5, START_BYTES, &[1; 512]).is_some_and(|written| written.is_ok()));
        fence.open(Some(Duration::ZERO));
        while !fence.is_closed() {}
        let heartbeat = Uberblock {
            version: 5000,
            txg: ondisk::Txg(5),
            guid_sum: 0,
            timestamp: 1,
            root: BlkPtr::HOLE,
            software_version: 5000,
            multihost: Some(Multihost::heartbeat(1, 1000, 1, 10)),
            checkpoint_txg: ondisk::Txg(0),
            raidz_reflow: 0,
            endian: ondisk::Endian::Little,
        };
        assert!(leaf.write(5, START_BYTES, &[2; 512]).is_some_and(|written| written.is_err()));
        assert!(leaf.discard(START_BYTES, 4096).is_some_and(|discarded| discarded.is_err()));
        assert!(write_heartbeat(&leaf, 9, 0, &heartbeat).is_err());
        let mut bytes = [0; 512];
        assert!(leaf.read(START_BYTES, &mut bytes).is_some_and(|read| read.is_ok()));
        assert_eq!((bytes, leaf.errors().write), ([1; 512], 0));
        fence.open(None);
        assert!(write_heartbeat(&leaf, 9, 0, &heartbeat).is_ok());
        let found = crate::label::read(device.as_ref(), true).uberblocks;
        assert_eq!((found.len(), found[0].label, found[0].slot), (1, 0, 127));
    }
}
