//! Devices with a volatile cache, which lose power, fail, slow down and disappear.
//!
//! All devices of a pool belong to one [`Machine`], because a power cut affects them at the same
//! instant. Writes and flushes are counted across the devices, and a cut is requested by that
//! number.

use crate::pages::{Pages, SECTOR_BYTES};
use host::device::Device;
use parking_lot::Mutex;
use rig::Chance;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Faults of a device other than power cuts. A number N means one operation in N; 0 means never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    pub reads_fail_one_in: u64,
    /// Writes that fail without changing anything.
    pub writes_fail_one_in: u64,
    /// Additional duration of every operation.
    pub delay: Duration,
    /// Every operation fails, as if the cable was pulled. The contents remain.
    pub is_gone: bool,
    /// Nothing can be read or written from this offset on, as if a file was truncated.
    pub ends_at: Option<u64>,
}

/// What a device was ordered to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Write { offset: u64, data: Vec<u8> },
    Discard { offset: u64, len: u64 },
    Flush,
}

/// Contents of the media after a power cut.
pub struct Cut {
    /// Number of writes and flushes before it.
    pub operation: u64,
    /// One for each device.
    pub media: Vec<Pages>,
}

struct Disk {
    /// Contents that survive a power cut for certain.
    durable: Pages,
    /// Contents that a read returns.
    current: Pages,
    /// Writes since the last flush, in order.
    cached: Vec<(u64, Vec<u8>)>,
    faults: Faults,
}

struct State {
    disks: Vec<Disk>,
    operations: u64,
    cut_at: BTreeSet<u64>,
    cuts: Vec<Cut>,
    seed: u64,
    chance: Chance,
    /// Duration of every read, write and flush of every device.
    latency: Duration,
    /// Changes so far, each with the number of its device, if they are recorded.
    trace: Option<Vec<(usize, Change)>>,
}

/// The machine whose power fails.
pub struct Machine {
    state: Mutex<State>,
    size_bytes: u64,
}

impl Machine {
    /// A machine with `count` empty devices of `size_bytes`.
    pub fn new(seed: u64, count: usize, size_bytes: u64) -> Arc<Self> {
        Self::with_media(seed, vec![Pages::default(); count], size_bytes)
    }

    /// A machine whose devices contain the result of an earlier [`Cut`], or prepared data.
    pub fn with_media(seed: u64, media: Vec<Pages>, size_bytes: u64) -> Arc<Self> {
        let disk = |medium: Pages| Disk {
            durable: medium.clone(),
            current: medium,
            cached: Vec::new(),
            faults: Faults::default(),
        };
        let state = State {
            disks: media.into_iter().map(disk).collect(),
            operations: 0,
            cut_at: BTreeSet::new(),
            cuts: Vec::new(),
            seed,
            chance: Chance::of_case(seed, u64::MAX),
            latency: Duration::ZERO,
            trace: None,
        };
        Arc::new(Self { state: Mutex::new(state), size_bytes })
    }

    /// The devices, named `sim0`, `sim1` and so on.
    pub fn devices(self: &Arc<Self>) -> Vec<Arc<dyn Device>> {
        let count = self.state.lock().disks.len();
        (0..count)
            .map(|index| -> Arc<dyn Device> {
                Arc::new(SimDevice { machine: self.clone(), index, name: format!("sim{index}") })
            })
            .collect()
    }

    /// Number of writes and flushes so far.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Requests a cut immediately before the operation with this number.
    pub fn cut_at(&self, operation: u64) {
        self.state.lock().cut_at.insert(operation);
    }

    /// Takes the requested cuts that were reached since the last call.
    pub fn take_cuts(&self) -> Vec<Cut> {
        std::mem::take(&mut self.state.lock().cuts)
    }

    /// The result of a cut at this moment.
    pub fn cut_now(&self) -> Cut {
        self.state.lock().cut()
    }

    /// Records all changes from now on.
    pub fn record(&self) {
        self.state.lock().trace = Some(Vec::new());
    }

    /// Takes the changes since [`Machine::record`], each with the number of its device, in the
    /// order in which the devices made them. They are no longer recorded.
    pub fn take_trace(&self) -> Vec<(usize, Change)> {
        self.state.lock().trace.take().unwrap_or_default()
    }

    /// Gives all devices a latency. With more than 0.1 ms the engine has many operations in flight
    /// at once, on threads, so that only a [`simulation`](crate::simulation) repeats their order.
    pub fn set_latency(&self, latency: Duration) {
        self.state.lock().latency = latency;
    }

    /// Sets the faults of device `index` from now on.
    pub fn set_faults(&self, index: usize, faults: Faults) {
        self.state.lock().disks[index].faults = faults;
    }

    /// Overwrites bytes on device `index` silently. The old contents are lost even if they were
    /// flushed.
    pub fn scribble(&self, index: usize, offset: u64, bytes: &[u8]) {
        let disk = &mut self.state.lock().disks[index];
        disk.current.write(offset, bytes);
        disk.durable.write(offset, bytes);
    }

    /// The contents of the devices, as if everything had been flushed.
    pub fn media(&self) -> Vec<Pages> {
        self.state.lock().disks.iter().map(|d| d.current.clone()).collect()
    }

    fn operate<R>(
        &self,
        index: usize,
        change: Option<&dyn Fn() -> Change>,
        operate: impl FnOnce(&mut Disk, &mut Chance) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(change) = change {
            if state.cut_at.remove(&state.operations) {
                let cut = state.cut();
                state.cuts.push(cut);
            }
            state.operations += 1;
            if let Some(trace) = &mut state.trace {
                trace.push((index, change()));
            }
        }
        let disk = &mut state.disks[index];
        if disk.faults.is_gone {
            return Err(io::Error::other("simulated: the device is gone"));
        }
        operate(disk, &mut state.chance)
    }

    fn delay(&self, index: usize) {
        // Not under the lock, so that a slow device does not slow down the others.
        let delay = {
            let state = self.state.lock();
            state.disks[index].faults.delay.max(state.latency)
        };
        // On a simulated machine other threads may run now, even if there is no delay.
        host::threads::sleep(delay);
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl State {
    fn cut(&self) -> Cut {
        // An independent sequence of random numbers, so that adding or removing a cut changes no
        // other.
        let mut chance = Chance::of_case(self.seed, self.operations);
        Cut { operation: self.operations, media: self.disks.iter().map(|d| after_cut(d, &mut chance)).collect() }
    }
}

/// The contents of a device after its cache lost power: some of the cached writes survive, in any
/// order, some torn.
fn after_cut(disk: &Disk, chance: &mut Chance) -> Pages {
    let mut media = disk.durable.clone();
    // From "all lost" to "all kept", with steps in between.
    let keep_percent = [0, 20, 50, 80, 95, 100][chance.below(6) as usize];
    let in_order = chance.once_in(3);
    let mut order: Vec<usize> = (0..disk.cached.len()).collect();
    if !in_order {
        for i in (1..order.len()).rev() {
            order.swap(i, chance.below(i as u64 + 1) as usize);
        }
    }
    for i in order {
        let (offset, data) = &disk.cached[i];
        if chance.below(100) >= keep_percent {
            continue;
        }
        if chance.once_in(4) {
            for (n, sector) in data.chunks(SECTOR_BYTES).enumerate() {
                if chance.once_in(2) {
                    media.write(offset + (n * SECTOR_BYTES) as u64, sector);
                }
            }
        } else {
            media.write(*offset, data);
        }
    }
    media
}

fn within(disk: &Disk, offset: u64, len: usize) -> io::Result<()> {
    match disk.faults.ends_at {
        Some(end) if offset.saturating_add(len as u64) > end => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn fails(one_in: u64, chance: &mut Chance) -> bool {
    one_in != 0 && chance.once_in(one_in)
}

/// A device of a [`Machine`].
pub struct SimDevice {
    machine: Arc<Machine>,
    index: usize,
    name: String,
}

impl Device for SimDevice {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.machine.check(offset, buf.len())?;
        self.machine.delay(self.index);
        self.machine.operate(self.index, None, |disk, chance| {
            within(disk, offset, buf.len())?;
            if fails(disk.faults.reads_fail_one_in, chance) {
                return Err(io::Error::other("simulated read error"));
            }
            disk.current.read(offset, buf);
            Ok(())
        })
    }

    fn size_bytes(&self) -> u64 {
        let ends_at = self.machine.state.lock().disks[self.index].faults.ends_at;
        ends_at.map_or(self.machine.size_bytes, |end| end.min(self.machine.size_bytes))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.machine.check(offset, data.len())?;
        self.machine.delay(self.index);
        let change = || Change::Write { offset, data: data.to_vec() };
        self.machine.operate(self.index, Some(&change), |disk, chance| {
            within(disk, offset, data.len())?;
            if fails(disk.faults.writes_fail_one_in, chance) {
                return Err(io::Error::other("simulated write error"));
            }
            disk.current.write(offset, data);
            disk.cached.push((offset, data.to_vec()));
            Ok(())
        })
    }

    fn can_discard(&self) -> bool {
        true
    }

    /// Discarded ranges become noise immediately, even if they were flushed: the worst that a
    /// device may do.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.machine.check(offset, len as usize)?;
        let change = || Change::Discard { offset, len };
        self.machine.operate(self.index, Some(&change), |disk, _| {
            let noise = [0xdb; 64 << 10];
            let mut at = offset;
            while at < offset + len {
                let part = &noise[..noise.len().min((offset + len - at) as usize)];
                disk.current.write(at, part);
                disk.durable.write(at, part);
                at += part.len() as u64;
            }
            Ok(())
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.machine.delay(self.index);
        self.machine.operate(self.index, Some(&|| Change::Flush), |disk, _| {
            for (offset, data) in disk.cached.drain(..) {
                disk.durable.write(offset, &data);
            }
            Ok(())
        })
    }

    fn is_writable(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pages: &Pages, offset: u64, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        pages.read(offset, &mut buf);
        buf
    }

    #[test]
    fn flushed_data_survives_every_cut_and_sectors_are_atomic() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let machine = Machine::new(seed, 1, 1 << 20);
            let device = &machine.devices()[0];
            device.write_at(0, &[1; 8192]).unwrap();
            device.flush().unwrap();
            device.write_at(0, &[2; 8192]).unwrap();
            let cut = machine.cut_now();
            let bytes = read(&cut.media[0], 0, 8192);
            for sector in bytes.chunks(SECTOR_BYTES) {
                assert!(sector.iter().all(|b| *b == sector[0]) && [1, 2].contains(&sector[0]));
            }
            match bytes.iter().filter(|b| **b == 2).count() {
                0 => lost += 1,
                8192 => kept += 1,
                _ => torn += 1,
            }
            assert_eq!(read(&machine.media()[0], 0, 8192), [2; 8192]);
        }
        assert!(lost > 20 && kept > 20 && torn > 10, "{lost} lost, {kept} kept, {torn} torn");
    }

    #[test]
    fn a_seed_gives_the_same_cuts_again() {
        let run = |seed| {
            let machine = Machine::new(seed, 2, 1 << 20);
            machine.cut_at(3);
            machine.cut_at(5);
            let devices = machine.devices();
            for i in 0..8u8 {
                devices[usize::from(i % 2)].write_at(u64::from(i) * 700, &[i; 3000]).unwrap();
            }
            let cuts = machine.take_cuts();
            assert_eq!(cuts.iter().map(|c| c.operation).collect::<Vec<_>>(), [3, 5]);
            cuts.iter().flat_map(|c| c.media.iter().map(|m| read(m, 0, 10_000))).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert!((8..20).any(|seed| run(seed) != run(7)));
    }

    #[test]
    fn faults_hit_the_device_they_are_set_on() {
        let machine = Machine::new(1, 2, 1 << 20);
        let devices = machine.devices();
        machine.set_faults(0, Faults { is_gone: true, ..Faults::default() });
        machine.set_faults(1, Faults { writes_fail_one_in: 2, ..Faults::default() });
        assert!(devices[0].read_at(0, &mut [0; 8]).is_err() && devices[0].flush().is_err());
        let failed = (0..100).filter(|_| devices[1].write_at(0, &[1]).is_err()).count();
        assert!((20..80).contains(&failed), "{failed}");
        machine.set_faults(0, Faults::default());
        assert!(devices[0].read_at(0, &mut [0; 8]).is_ok());
        assert!(devices[1].write_at(1 << 20, &[1]).is_err(), "a device never grows");
    }
}
