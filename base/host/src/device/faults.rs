//! Fault injection: a device that fails, returns wrong data, loses writes or is slow, on request.
//!
//! ```text
//! Faulty (a device) ── guid ──> Faults (of a pool's devices) ── Rule, Rule, … ──> Outcome
//! ```
//!
//! Above: `block::inject`, which assigns each rule its number. ZFS name: zinject's device handlers.
//!
//! Invariants:
//!   * without rules an operation costs one extra atomic load
//!   * the first rule that hits decides the outcome; delays of several rules are lanes of one
//!     device

use super::Device;
use crate::clock::Instant;
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Error numbers of the operating system.
pub mod errno {
    /// I/O error: the device failed.
    pub const EIO: i32 = libc::EIO;
    /// No such device: it was removed.
    pub const ENXIO: i32 = libc::ENXIO;
}

/// An operation on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Read,
    Write,
    /// Makes completed writes durable.
    Flush,
    /// Discards data that is no longer needed.
    Trim,
    /// Checks whether the device works ([`Device::probe`]).
    Probe,
}

/// What happens to an operation that a rule hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The operation runs, and then returns this error number.
    Failed(i32),
    /// The operation does not run, and returns this error number.
    Prevented(i32),
    /// The operation does not run, and reports success.
    Ignored,
    /// The operation runs, and one bit of the data that it read is flipped.
    Flipped,
    /// Only the first half of the sectors is written, and the write reports success.
    Torn,
    /// The operation takes at least `latency`, and no more than `lanes` of them run at a time.
    Slow {
        latency: Duration,
        /// Maximum number of concurrent operations; at least 1.
        lanes: usize,
    },
}

/// A range of bytes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Area {
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
}

/// A fault to inject.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// GUID of the device.
    pub device: u64,
    /// Operations that it affects; empty: all but probes.
    pub operations: Vec<Operation>,
    /// Ranges that it affects; empty: the whole device.
    pub areas: Vec<Area>,
    /// Whether it affects flushes and probes, which have no range, although `areas` is not empty.
    pub with_placeless: bool,
    /// Probability in millionths; from 1,000,000 on, every operation.
    pub per_million: u32,
    pub outcome: Outcome,
}

/// Counts how often a rule matched, and how often it was applied.
#[derive(Debug, Default)]
pub struct Struck {
    /// Operations that matched the rule.
    pub matched: AtomicU64,
    /// Operations that the rule changed.
    pub injected: AtomicU64,
}

impl Struck {
    /// Counts one matching operation and decides at random whether the rule applies to it, with a
    /// probability of `per_million` in a million.
    pub fn draw(&self, per_million: u32) -> bool {
        self.matched.fetch_add(1, Ordering::Relaxed);
        let hit = per_million >= 1_000_000 || crate::random::u64() % 1_000_000 < u64::from(per_million);
        if hit {
            self.injected.fetch_add(1, Ordering::Relaxed);
        }
        hit
    }
}

struct Active {
    id: u64,
    rule: Rule,
    struck: Arc<Struck>,
    /// When each lane of a slow device is free again.
    lanes: Mutex<Vec<Instant>>,
}

/// The fault rules of a pool's devices.
#[derive(Default)]
pub struct Faults {
    armed: AtomicBool,
    rules: RwLock<Vec<Arc<Active>>>,
}

impl Faults {
    /// Adds a rule under the number `id`. Returns its counters.
    pub fn add(&self, id: u64, rule: Rule) -> Arc<Struck> {
        let struck = Arc::<Struck>::default();
        let lanes = match rule.outcome {
            Outcome::Slow { lanes, .. } => vec![Instant::now(); lanes.max(1)],
            _ => Vec::new(),
        };
        let mut rules = self.rules.write();
        rules.push(Arc::new(Active { id, rule, struck: struck.clone(), lanes: Mutex::new(lanes) }));
        self.armed.store(true, Ordering::Release);
        struck
    }

    /// Removes the rule with number `id`. Returns whether it existed.
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.rules.write();
        let before = rules.len();
        rules.retain(|active| active.id != id);
        self.armed.store(!rules.is_empty(), Ordering::Release);
        rules.len() != before
    }

    /// The outcome of an operation. Sleeps first if a rule delays it.
    fn strike(&self, device: u64, operation: Operation, offset: u64, len: u64) -> Option<Outcome> {
        if !self.armed.load(Ordering::Acquire) {
            return None;
        }
        let all: Vec<Arc<Active>> = self
            .rules
            .read()
            .iter()
            .filter(|active| active.rule.is_about(device, operation, offset, len))
            .cloned()
            .collect();
        wait(&all);
        all.iter()
            .filter(|active| !matches!(active.rule.outcome, Outcome::Slow { .. }))
            // Only reads return data whose bits can be flipped, and only writes can be torn.
            .filter(|active| match active.rule.outcome {
                Outcome::Flipped => operation == Operation::Read,
                Outcome::Torn => operation == Operation::Write,
                _ => true,
            })
            .find(|active| active.struck.draw(active.rule.per_million))
            .map(|active| active.rule.outcome)
    }
}

impl Rule {
    fn is_about(&self, device: u64, operation: Operation, offset: u64, len: u64) -> bool {
        let fits = match self.operations.as_slice() {
            [] => operation != Operation::Probe,
            some => some.contains(&operation),
        };
        let nowhere = matches!(operation, Operation::Flush | Operation::Probe);
        let within = match nowhere {
            _ if self.areas.is_empty() => true,
            true => self.with_placeless,
            false => self.areas.iter().any(|a| offset < a.end && a.start < offset.saturating_add(len)),
        };
        self.device == device && fits && within
    }
}

/// Takes the lane that finishes first, and sleeps until that time.
fn wait(all: &[Arc<Active>]) {
    let mut best: Option<(Instant, usize, usize, Duration)> = None;
    let slow: Vec<&Arc<Active>> = all
        .iter()
        .filter(|active| {
            matches!(active.rule.outcome, Outcome::Slow { .. }) && active.struck.draw(active.rule.per_million)
        })
        .collect();
    if slow.is_empty() {
        return;
    }
    // Lock all lanes at once: two operations must not choose the same one.
    let mut lanes: Vec<_> = slow.iter().map(|active| active.lanes.lock()).collect();
    let now = Instant::now();
    for (rule, active) in slow.iter().enumerate() {
        let Outcome::Slow { latency, .. } = active.rule.outcome else { continue };
        for (lane, free) in lanes[rule].iter().enumerate() {
            let end = (*free).max(now) + latency;
            if best.is_none_or(|(best, ..)| end < best) {
                best = Some((end, rule, lane, latency));
            }
        }
    }
    let Some((end, rule, lane, _)) = best else { return };
    lanes[rule][lane] = end;
    drop(lanes);
    crate::threads::sleep(end.duration_since(now));
}

/// A device into which faults can be injected.
pub struct Faulty {
    inner: Arc<dyn Device>,
    guid: u64,
    faults: OnceLock<Arc<Faults>>,
}

/// Sector size of torn writes.
const SECTOR_BYTES: usize = 512;

impl Faulty {
    /// Wraps `inner`, which rules address by `guid`. No faults are injected before [`Faulty::obey`]
    /// is called.
    pub fn new(inner: Arc<dyn Device>, guid: u64) -> Self {
        Self { inner, guid, faults: OnceLock::new() }
    }

    /// Applies these rules from now on. Only the first call has an effect.
    pub fn obey(&self, faults: &Arc<Faults>) {
        self.faults.get_or_init(|| faults.clone());
    }

    fn strike(&self, operation: Operation, offset: u64, len: usize) -> Option<Outcome> {
        self.faults.get()?.strike(self.guid, operation, offset, len as u64)
    }
}

fn failed(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// Applies an outcome to an operation that transfers no data.
fn plain(outcome: Option<Outcome>, operate: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match outcome {
        Some(Outcome::Failed(errno)) => {
            // The result is ignored: the operation reports a failure either way.
            let _ = operate();
            Err(failed(errno))
        }
        Some(Outcome::Prevented(errno)) => Err(failed(errno)),
        Some(Outcome::Ignored) => Ok(()),
        _ => operate(),
    }
}

impl Device for Faulty {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match self.strike(Operation::Read, offset, buf.len()) {
            None => self.inner.read_at(offset, buf),
            Some(Outcome::Flipped) => {
                self.inner.read_at(offset, buf)?;
                let bits = buf.len() as u64 * 8;
                if bits > 0 {
                    let bit = crate::random::u64() % bits;
                    buf[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                Ok(())
            }
            Some(Outcome::Ignored) => {
                // Reported as a successful read: return zeros, never data of the device.
                buf.fill(0);
                Ok(())
            }
            outcome => plain(outcome, || self.inner.read_at(offset, buf)),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn remeasure(&self) -> io::Result<u64> {
        self.inner.remeasure()
    }

    fn can_discard(&self) -> bool {
        self.inner.can_discard()
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.strike(Operation::Write, offset, data.len()) {
            None => self.inner.write_at(offset, data),
            Some(Outcome::Torn) => {
                let sectors = data.len() / SECTOR_BYTES;
                self.inner.write_at(offset, &data[..sectors / 2 * SECTOR_BYTES])
            }
            outcome => plain(outcome, || self.inner.write_at(offset, data)),
        }
    }

    fn flush(&self) -> io::Result<()> {
        plain(self.strike(Operation::Flush, 0, 0), || self.inner.flush())
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        let len_shown = usize::try_from(len).unwrap_or(usize::MAX);
        plain(self.strike(Operation::Trim, offset, len_shown), || self.inner.discard(offset, len))
    }

    fn probe(&self) -> io::Result<()> {
        plain(self.strike(Operation::Probe, 0, 0), || self.inner.probe())
    }

    fn release(&self) {
        self.inner.release();
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }

    fn take_space(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.take_space(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryDevice;
    use super::*;

    fn faulty() -> (Arc<MemoryDevice>, Faulty, Arc<Faults>) {
        let memory = Arc::new(MemoryDevice::new("m", vec![1; 8192]));
        let (device, faults) = (Faulty::new(memory.clone(), 7), Arc::<Faults>::default());
        device.obey(&faults);
        (memory, device, faults)
    }

    fn rule(operations: &[Operation], outcome: Outcome) -> Rule {
        Rule {
            device: 7,
            operations: operations.to_vec(),
            areas: Vec::new(),
            with_placeless: false,
            per_million: 1_000_000,
            outcome,
        }
    }

    #[test]
    fn each_operation_fails_as_requested_and_works_again_without_the_rule() {
        let (memory, device, faults) = faulty();
        let struck = faults.add(1, rule(&[Operation::Write], Outcome::Prevented(libc::EIO)));
        assert_eq!(device.write_at(0, &[2; 512]).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!((memory.contents()[0], struck.injected.load(Ordering::Relaxed)), (1, 1));
        device.flush().and_then(|()| device.read_at(0, &mut [0; 8])).expect("only writes fail");
        assert!(faults.remove(1) && !faults.remove(1));
        device.write_at(0, &[2; 512]).expect("no rules are left");
        faults.add(2, rule(&[Operation::Write], Outcome::Failed(libc::ENXIO)));
        assert!(device.write_at(0, &[3; 512]).is_err());
        assert_eq!(memory.contents()[0], 3, "it was done, but reported as failed");
        faults.remove(2);
        faults.add(3, rule(&[Operation::Flush, Operation::Probe], Outcome::Prevented(libc::EIO)));
        assert!(device.flush().is_err() && device.probe().is_err());
        faults.remove(3);
        faults.add(4, rule(&[Operation::Write], Outcome::Ignored));
        device.write_at(0, &[9; 512]).expect("reported as success");
        assert_eq!(memory.contents()[0], 3);
    }

    #[test]
    fn torn_writes_and_flipped_bits_are_reported_as_success() {
        let (memory, device, faults) = faulty();
        faults.add(1, rule(&[], Outcome::Torn));
        device.write_at(0, &[2; 4096]).expect("reported as success");
        assert_eq!((memory.contents()[2047], memory.contents()[2048]), (2, 1));
        faults.remove(1);
        faults.add(2, rule(&[], Outcome::Flipped));
        let mut buf = [0; 4096];
        device.read_at(4096, &mut buf).expect("reported as success");
        assert_eq!(buf.iter().map(|b| (b ^ 1).count_ones()).sum::<u32>(), 1);
    }

    #[test]
    fn rules_keep_to_their_device_their_area_and_their_rate() {
        let (_, device, faults) = faulty();
        let failing = Outcome::Prevented(libc::EIO);
        faults.add(1, Rule { device: 8, ..rule(&[], failing) });
        faults.add(2, Rule { areas: vec![Area { start: 512, end: 1024 }], ..rule(&[], failing) });
        device.write_at(0, &[2; 512]).and_then(|()| device.write_at(1024, &[2; 512])).expect("outside the area");
        device.flush().expect("it has no place");
        assert!(device.write_at(0, &[2; 513]).is_err());
        faults.remove(2);
        faults.add(2, Rule { areas: vec![Area { start: 512, end: 1024 }], with_placeless: true, ..rule(&[], failing) });
        device.write_at(0, &[2; 512]).expect("outside the area");
        assert!(device.flush().is_err(), "requested");
        faults.remove(2);
        let struck = faults.add(3, Rule { per_million: 250_000, ..rule(&[], failing) });
        let bad = (0..4000).filter(|_| device.flush().is_err()).count();
        assert!((700..1300).contains(&bad), "{bad}");
        assert_eq!(struck.matched.load(Ordering::Relaxed), 4000);
    }

    #[test]
    fn a_slow_device_takes_its_time_lane_by_lane() {
        let (_, device, faults) = faulty();
        faults.add(1, rule(&[], Outcome::Slow { latency: Duration::from_millis(20), lanes: 2 }));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| device.flush());
            }
        });
        assert!(start.elapsed() >= Duration::from_millis(40), "four in two lanes");
    }
}
