//! One case of a run: an image, damage derived from the seed and the number of the case, and what
//! the pool then returns.
//!
//! Required in each case: no panic, no hang, bounded memory, and each answer is correct or an
//! error. The program `flips` runs cases in child processes and monitors them.

use crate::image::{self, Opened, Scenario};
use crate::overlay::{Extent, Overlay};
use crate::places::{Place, places};
use crate::survey::{Limits, Survey};
use anyhow::Result;
use dataset::tree::{Entry, ListOptions};
use host::device::Device;
use ondisk::Txg;
use ondisk::label::{self, CONFIG_BYTES, CONFIG_OFFSET, LABELS, RING_BYTES, RING_OFFSET};
use ondisk::uberblock::Uberblock;
use rig::Chance;
use std::sync::Arc;
use transform::checksum::Order;
use transform::checksum::embedded::{self, Kind};

/// Kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Flips bits in blocks that are in use, often in all copies of a block.
    Blocks,
    /// Flips bits in labels and uberblocks.
    Labels,
    /// Flips bits anywhere, or truncates the image.
    Anywhere,
    /// Changes labels and uberblocks and recomputes their checksums.
    Sealed,
    /// Changes the contents of blocks after their checksum was verified.
    Hostile,
}

/// An image, and the survey of its undamaged pool.
pub struct Target {
    scenario: Scenario,
    places: Vec<Place>,
    undamaged: Survey,
    newest: Txg,
}

/// Result of one case.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Answers that are neither correct nor an error.
    pub wrong: Vec<String>,
    /// Whether the pool could be opened.
    pub opened: bool,
    /// Number of errors from reading the pool.
    pub errors: usize,
}

impl Target {
    /// Reads the undamaged image, for comparison, and finds the places to damage.
    pub fn new(scenario: Scenario) -> Result<Self> {
        let opened = image::open(scenario.devices.iter().cloned(), scenario.keys.as_ref())?;
        let undamaged = Survey::of(&opened, Limits::ALL);
        let newest = opened.pool().uberblock().txg;
        let (places, _) = places(&scenario)?;
        Ok(Self { scenario, places, undamaged, newest })
    }

    /// Name of the scenario.
    pub fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Runs a case. `step` is called with the name of each step before it starts.
    pub fn run(&self, seed: u64, case: u64, step: &mut dyn FnMut(&str)) -> Outcome {
        let mut chance = Chance::of_case(seed, case);
        let mode = match chance.below(20) {
            0..=7 => Mode::Blocks,
            8..=9 => Mode::Labels,
            10..=11 => Mode::Anywhere,
            12..=14 => Mode::Sealed,
            _ => Mode::Hostile,
        };
        step(&format!("{} {mode:?}", self.scenario.name));
        let mut devices: Vec<Overlay> = self.scenario.devices.iter().cloned().map(Overlay::new).collect();
        match mode {
            Mode::Blocks => self.flip_blocks(&mut devices, &mut chance),
            Mode::Labels => flip_labels(&mut devices, &mut chance),
            Mode::Anywhere => flip_anywhere(&mut devices, &mut chance),
            Mode::Sealed => seal_labels(&mut devices, &mut chance),
            Mode::Hostile => hostile::begin(chance.next()),
        }
        let devices = devices.into_iter().map(|d| -> Arc<dyn Device> { Arc::new(d) });
        let limits = Limits { entries: 3000, bytes: 24 << 20, one_in: 1 + chance.below(24), seed };
        let exact = !matches!(mode, Mode::Sealed | Mode::Hostile);
        let outcome = self.look(devices, limits, exact, step);
        hostile::end();
        outcome
    }

    fn look(
        &self,
        devices: impl Iterator<Item = Arc<dyn Device>>,
        limits: Limits,
        exact: bool,
        step: &mut dyn FnMut(&str),
    ) -> Outcome {
        let mut outcome = Outcome::default();
        step("open");
        let Ok(opened) = image::open(devices, self.scenario.keys.as_ref()) else { return outcome };
        outcome.opened = true;
        step("describe");
        outcome.errors += describe(&opened);
        step("survey");
        let mut survey = Survey::of(&opened, limits);
        outcome.errors += survey.errors.len();
        // Errors that the undamaged pool has too, for example for a dataset without its key, are
        // not due to damage.
        survey.errors.retain(|place, _| !self.undamaged.errors.contains_key(place));
        // Without the labels of the newest devices the pool opens in an older state; then older
        // answers are correct.
        let exact = exact && opened.pool().uberblock().txg == self.newest;
        if exact {
            outcome.wrong = survey.differences(&self.undamaged, false);
        }
        step("verify");
        match opened.verify() {
            // A block that a reader cannot read must not be clean for the verifier.
            Ok(report) if exact && report.is_clean() && !survey.errors.is_empty() => {
                outcome.wrong.push(format!("verify reports clean, reading reports {:?}", survey.errors.iter().next()));
            }
            Ok(report) => outcome.errors += report.damage.len(),
            Err(_) => outcome.errors += 1,
        }
        outcome
    }

    fn flip_blocks(&self, devices: &mut [Overlay], chance: &mut Chance) {
        for _ in 0..1 + chance.below(3) {
            let metadata_only = !chance.once_in(4);
            let mut place = chance.pick(&self.places);
            for _ in 0..64 {
                if !metadata_only || place.is_some_and(Place::is_metadata) {
                    break;
                }
                place = chance.pick(&self.places);
            }
            let Some(place) = place else { return };
            let all_copies = chance.once_in(2);
            let extents: Vec<&Extent> = place.extents().collect();
            let only = chance.pick(&extents).map(|e| **e);
            for extent in place.extents().filter(|e| all_copies || Some(**e) == only) {
                flip_in(devices, extent, chance);
            }
        }
    }
}

/// Collects everything that `zpool` and `zfs` would print. Returns the number of errors.
fn describe(opened: &Opened) -> usize {
    let pool = opened.pool();
    let facts = admin::view::ImportFacts { name: pool.name().to_owned(), ..Default::default() };
    let mut errors = usize::from(admin::view::view(pool, &facts).is_err());
    errors += usize::from(pool.history().is_err()) + usize::from(pool.error_log().is_err());
    let view = dataset::View::default();
    match opened.pool.datasets.list(&[], &ListOptions::all()) {
        Err(_) => errors += 1,
        Ok(list) => {
            errors += list.errors.len();
            for entry in list.entries.iter().take(200) {
                errors += usize::from(dataset::property::all(entry, &view).is_err());
                if let Entry::Dataset(d) = entry {
                    errors += usize::from(d.holds().is_err()) + usize::from(d.clones().is_err());
                }
            }
        }
    }
    errors
}

fn flip_in(devices: &mut [Overlay], extent: &Extent, chance: &mut Chance) {
    let offset = extent.offset + chance.below(extent.len);
    if let Some(device) = devices.get_mut(extent.device) {
        // There is nothing to flip beyond the end.
        let _ = device.flip(offset, chance.below(8) as u32);
    }
}

fn flip_labels(devices: &mut [Overlay], chance: &mut Chance) {
    for _ in 0..1 + chance.below(32) {
        let index = chance.below(devices.len() as u64) as usize;
        let Some(at) = label::label_offset(devices[index].size_bytes(), chance.below(LABELS as u64) as usize) else {
            continue;
        };
        let extent = match chance.once_in(2) {
            true => Extent { device: index, offset: at + CONFIG_OFFSET, len: 8 << 10 },
            false => Extent { device: index, offset: at + RING_OFFSET, len: RING_BYTES },
        };
        flip_in(devices, &extent, chance);
    }
}

fn flip_anywhere(devices: &mut [Overlay], chance: &mut Chance) {
    let index = chance.below(devices.len() as u64) as usize;
    let size = devices[index].size_bytes();
    if chance.once_in(4) {
        devices[index].truncate(match chance.below(4) {
            0 => chance.below(4096),
            1 => size / 2,
            _ => chance.below(size),
        });
        return;
    }
    for _ in 0..1 + chance.below(2000) {
        let index = chance.below(devices.len() as u64) as usize;
        let len = devices[index].size_bytes();
        flip_in(devices, &Extent { device: index, offset: 0, len }, chance);
    }
}

/// Makes the same changes in all labels, so that no correct one remains, and recomputes their
/// checksums.
fn seal_labels(devices: &mut [Overlay], chance: &mut Chance) {
    let (changes, configs, seed) = (1 + chance.below(3), chance.once_in(2), chance.next());
    for device in devices.iter_mut() {
        for index in 0..LABELS {
            let Some(at) = label::label_offset(device.size_bytes(), index) else { continue };
            let mut chance = Chance::new(seed);
            if configs {
                reseal(device, at + CONFIG_OFFSET, CONFIG_BYTES, |part| {
                    let end = CONFIG_BYTES - embedded::ECK_BYTES;
                    let used = part[..end].iter().rposition(|b| *b != 0).map_or(end, |n| n + 1);
                    (0..changes).for_each(|_| mangle(&mut part[..used], &mut chance, 4));
                });
                continue;
            }
            // Slots differ in size. Data that is not a slot of that size has no valid checksum and
            // is left unchanged.
            for size in [1 << 10, 4 << 10, 8 << 10] {
                for slot in 0..RING_BYTES / size {
                    reseal_if_right(device, at + RING_OFFSET + slot * size, size as usize, |part| {
                        (0..changes).for_each(|_| mangle(&mut part[..Uberblock::SIZE_BYTES], &mut chance, 8));
                    });
                }
            }
        }
    }
}

fn reseal_if_right(device: &mut Overlay, at: u64, size: usize, change: impl FnOnce(&mut [u8])) {
    let mut part = vec![0; size];
    if device.read_at(at, &mut part).is_ok()
        && part.iter().any(|b| *b != 0)
        && embedded::verify(Kind::Label, &part, [at, 0, 0, 0], false).is_ok()
    {
        reseal(device, at, size, change);
    }
}

fn reseal(device: &mut Overlay, at: u64, size: usize, change: impl FnOnce(&mut [u8])) {
    let mut part = vec![0; size];
    if device.read_at(at, &mut part).is_err() {
        return;
    }
    change(&mut part);
    if embedded::seal(Kind::Label, &mut part, [at, 0, 0, 0], Order::Little, false).is_ok() {
        device.write(at, &part);
    }
}

/// Changes a bit, a byte, or a number of `word` bytes, which is set to a likely limit.
fn mangle(bytes: &mut [u8], chance: &mut Chance, word: usize) {
    if bytes.len() < 16 {
        return;
    }
    let at = chance.below(bytes.len() as u64) as usize;
    match chance.below(4) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][chance.below(5) as usize],
        _ => {
            let word = if chance.once_in(4) { 12 - word } else { word };
            let at = (at - at % word).min(bytes.len() - word);
            let value = match chance.below(8) {
                0 => 0,
                1 => u64::MAX,
                2 => 1 << 63,
                3 => u64::MAX >> 1,
                4 => chance.next(),
                5 => 1 << chance.below(64),
                6 => (1u64 << chance.below(64)).wrapping_sub(1),
                _ => chance.below(1000),
            };
            let value = if chance.once_in(2) { value.to_le_bytes() } else { value.to_be_bytes() };
            bytes[at..at + word].copy_from_slice(&value[..word]);
        }
    }
}

/// Hostile contents: blocks are changed after their checksum was verified.
mod hostile {
    use super::{Chance, mangle};
    use ondisk::{BlkPtr, blkptr};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Number of block pointers remembered for insertion elsewhere.
    const REMEMBERED_MAX: usize = 256;

    static SEED: AtomicU64 = AtomicU64::new(0);
    static POINTERS: Mutex<Vec<[u8; blkptr::SIZE_BYTES]>> = Mutex::new(Vec::new());

    pub fn begin(seed: u64) {
        POINTERS.lock().expect("no holder panics").clear();
        block::tamper::set(change);
        SEED.store(seed | 1, Ordering::SeqCst);
    }

    pub fn end() {
        SEED.store(0, Ordering::SeqCst);
    }

    /// Changes a block in the same way for all readers and at all times.
    fn change(bp: &BlkPtr, mut data: Vec<u8>) -> Vec<u8> {
        let seed = SEED.load(Ordering::Relaxed);
        if seed == 0 {
            return data;
        }
        let dva = bp.dva(0);
        let mut chance =
            Chance::of_case(seed, (u64::from(dva.vdev) << 48) ^ dva.offset_bytes ^ (bp.checksum()[0] << 1));
        // One block in 2 to 64, so that opening sometimes succeeds.
        let one_in = 2u64 << ((seed >> 8) % 6);
        if !chance.once_in(one_in) {
            return data;
        }
        let is_pointers = bp.level() > 0;
        if is_pointers && chance.once_in(3) {
            swap_pointer(&mut data, &mut chance);
        }
        // Most blocks consist mainly of zeros: change the part that is in use.
        let used = data.iter().rposition(|b| *b != 0).map_or(data.len(), |n| n + 1);
        let used = if chance.once_in(8) { data.len() } else { used };
        for _ in 0..1 + chance.below(4) {
            // Headers are near the start.
            let end = if chance.once_in(3) { used.min(256) } else { used };
            mangle(&mut data[..end], &mut chance, 8);
        }
        data
    }

    fn swap_pointer(data: &mut [u8], chance: &mut Chance) {
        let count = data.len() / blkptr::SIZE_BYTES;
        let at = |i: u64| i as usize * blkptr::SIZE_BYTES;
        let from = at(chance.below(count as u64));
        let mut pointers = POINTERS.lock().expect("no holder panics");
        if pointers.len() < REMEMBERED_MAX
            && let Some(raw) = data.get(from..from + blkptr::SIZE_BYTES).and_then(|b| b.first_chunk())
        {
            pointers.push(*raw);
        }
        let to = at(chance.below(count as u64));
        if let (Some(raw), Some(place)) = (chance.pick(&pointers), data.get_mut(to..to + blkptr::SIZE_BYTES)) {
            place.copy_from_slice(raw);
        }
    }
}
