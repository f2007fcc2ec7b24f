//! Volumes under power cuts: random writes, zeros, trims and flushes; each sector is compared with
//! all its possible contents.
//!
//! Each change stamps the sectors that it touches with its number. At a cut, a sector may contain
//! what the last flush before the cut left there, or the result of any change begun since then.
//! Afterwards the pool is verified, and the volume is read once more without its log. `SIM_SEED`
//! repeats one seed.

use anyhow::{Context, Result, bail};
use files::Volume;
use rig::Chance;
use sim::device::{Cut, Machine};
use sim::pages;
use sim::rig::{Extras, Layout, Rig, Shape, verify};
use std::collections::BTreeMap;
use std::time::Duration;

const DISK_BYTES: u64 = 96 << 20;
const NAME: &str = "sim/volume";
const SECTOR: u64 = 512;
const SECTORS: u64 = 2048;
const SEEDS: u64 = 8;

/// The changes of one sector.
#[derive(Default, Clone)]
struct Sector {
    /// (operation of the machine at which the change may take effect, contents), oldest first.
    changes: Vec<(u64, u64)>,
}

/// The possible contents of a volume.
struct Model {
    sectors: Vec<Sector>,
    /// The operation of the machine at which a flush was acknowledged, with the number of changes
    /// of each sector when it was requested.
    safe: Vec<(u64, Vec<usize>)>,
}

impl Model {
    fn new() -> Self {
        Self { sectors: vec![Sector { changes: vec![(0, 0)] }; SECTORS as usize], safe: Vec::new() }
    }

    fn change(&mut self, begun: u64, first: u64, count: u64, stamp: u64) {
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.changes.push((begun, stamp));
        }
    }

    fn marks(&self) -> Vec<usize> {
        self.sectors.iter().map(|s| s.changes.len() - 1).collect()
    }

    fn judge(&self, operation: u64, found: &[u64]) -> Result<()> {
        let safe = self.safe.iter().rev().find(|(answered, _)| *answered <= operation).map(|(_, marks)| marks);
        for (n, (sector, found)) in self.sectors.iter().zip(found).enumerate() {
            let from = safe.map_or(0, |marks| marks[n]);
            let may: Vec<u64> =
                sector.changes[from..].iter().filter(|(begun, _)| *begun <= operation).map(|(_, s)| *s).collect();
            // Durable contents are present, whatever the machine's clock was when their change
            // began.
            if !may.contains(found) && sector.changes[from].1 != *found {
                bail!("sector {n} holds {found}, expected one of {may:?}");
            }
        }
        Ok(())
    }
}

fn stamps(volume: &Volume) -> Result<Vec<u64>> {
    let mut bytes = vec![0; (SECTORS * SECTOR) as usize];
    volume.read_at(0, &mut bytes)?;
    let stamp = |s: &[u8]| -> Result<u64> {
        let stamp = u64::from_le_bytes(s[..8].try_into()?);
        // A sector is complete or absent.
        if s.chunks_exact(8).any(|w| w != stamp.to_le_bytes()) {
            bail!("a sector is torn");
        }
        Ok(stamp)
    };
    bytes
        .chunks_exact(SECTOR as usize)
        .enumerate()
        .map(|(n, s)| stamp(s).with_context(|| format!("sector {n}")))
        .collect()
}

fn run(seed: u64) -> Result<usize> {
    let mut chance = Chance::of_case(seed, 77);
    let layout = *chance.pick(&Layout::ALL).expect("there are some");
    let shape = Shape { layout, ashift: 9, interval: Duration::from_secs(3600), extras: Extras::default() };
    let machine = Machine::new(seed, layout.devices(), DISK_BYTES);
    let rig = Rig::create(&machine, &shape, &[]).context("making the pool")?;
    let size = (SECTORS * SECTOR).to_string();
    let pick = |chance: &mut Chance, from: &[&'static str]| from[chance.below(from.len() as u64) as usize];
    let sync = pick(&mut chance, &["standard", "standard", "always"]);
    let block = pick(&mut chance, &["4096", "16384", "131072"]);
    let compression = pick(&mut chance, &["lz4", "off"]);
    let properties =
        [("volsize", size.as_str()), ("volblocksize", block), ("compression", compression), ("sync", sync)];
    let volume = rig.make_volume(NAME, &properties)?;
    rig.writer.sync()?;
    let start = machine.operations();
    let mut model = Model::new();
    for step in 1..400u64 {
        if chance.below(400) < 10 {
            machine.cut_at(machine.operations() + chance.below(30));
        }
        let first = chance.below(SECTORS);
        let count = (1 + if chance.once_in(8) { chance.below(1200) } else { chance.below(40) }).min(SECTORS - first);
        let (offset, len) = (first * SECTOR, count * SECTOR);
        let marks = model.marks();
        match chance.below(20) {
            0..11 => {
                model.change(machine.operations(), first, count, step);
                let data: Vec<u8> = step.to_le_bytes().into_iter().cycle().take(len as usize).collect();
                volume.write_at(offset, &data)?;
            }
            11..14 => {
                model.change(machine.operations(), first, count, 0);
                volume.write_zeros(offset, len, chance.once_in(2))?;
            }
            14 => {
                // Only whole blocks are trimmed.
                let unit = volume.block_bytes() / SECTOR;
                let (from, to) = (first.next_multiple_of(unit), (first + count) / unit * unit);
                if from < to {
                    model.change(machine.operations(), from, to - from, 0);
                }
                volume.trim(offset, len)?;
            }
            15..18 => {
                volume.flush()?;
                model.safe.push((machine.operations(), marks));
                continue;
            }
            _ => {
                rig.writer.sync()?;
                model.safe.push((machine.operations(), marks));
                continue;
            }
        }
        if sync == "always" {
            model.safe.push((machine.operations(), model.marks()));
        }
    }
    let cuts: Vec<Cut> = machine.take_cuts().into_iter().filter(|cut| cut.operation >= start).collect();
    for cut in &cuts {
        judge(seed, &model, cut).with_context(|| format!("power cut before operation {}", cut.operation))?;
    }
    let now = stamps(&volume)?;
    model.judge(u64::MAX, &now)?;
    drop(volume);
    rig.export()?;
    verify(&machine, false).context("after the export")?;
    let rig = Rig::open(&machine)?;
    if stamps(&rig.open_volume(NAME)?)? != now {
        bail!("the volume changed over an export");
    }
    Ok(cuts.len())
}

fn judge(seed: u64, model: &Model, cut: &Cut) -> Result<()> {
    let media: Vec<pages::Pages> = cut.media.clone();
    let machine = Machine::with_media(seed, media, DISK_BYTES);
    verify(&machine, false).context("unchanged")?;
    let rig = Rig::open(&machine)?;
    let found = stamps(&rig.open_volume(NAME)?)?;
    model.judge(cut.operation, &found)?;
    rig.export()?;
    verify(&machine, false).context("after the log was replayed")?;
    let rig = Rig::open(&machine)?;
    if stamps(&rig.open_volume(NAME)?)? != found {
        bail!("the volume changed over an export");
    }
    Ok(())
}

#[test]
fn nothing_flushed_to_a_volume_is_lost_by_a_power_cut() {
    let first = std::env::var("SIM_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = first.map_or(1..1 + SEEDS, |seed| seed..seed + 1);
    let mut cuts = BTreeMap::new();
    for seed in seeds {
        match run(seed) {
            Ok(n) => cuts.insert(seed, n),
            Err(error) => panic!("seed {seed}: {error:#}"),
        };
    }
    assert!(cuts.values().sum::<usize>() > 0);
}

#[test]
fn a_volume_changes_its_size_while_it_is_written() {
    let machine = Machine::new(5, 1, DISK_BYTES);
    let shape =
        Shape { layout: Layout::Single, ashift: 9, interval: Duration::from_millis(20), extras: Extras::default() };
    let rig = Rig::create(&machine, &shape, &[]).unwrap();
    let properties = [("volsize", "8388608"), ("volblocksize", "16384")];
    let volume = rig.make_volume(NAME, &properties).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|n| {
                let volume = &volume;
                scope.spawn(move || {
                    for i in 0..600u64 {
                        let offset = (i * 37 + n * 11) % 500 * 16384;
                        // Fails if it is beyond the current end.
                        let _ = volume.write_at(offset + 512 * n, &[7; 20_000]);
                    }
                })
            })
            .collect();
        for bytes in [2u64 << 20, 6 << 20, 1 << 20, 8 << 20, 1 << 20].iter().cycle().take(20) {
            rig.set_volume_size(NAME, *bytes).unwrap();
            assert_eq!(volume.size(), *bytes);
        }
        writers.into_iter().for_each(|w| w.join().unwrap());
    });
    rig.set_volume_size(NAME, 1 << 20).unwrap();
    rig.set_volume_size(NAME, 8 << 20).unwrap();
    // What was beyond the end is gone permanently.
    assert!(volume.extents(1 << 20, 7 << 20, 8).unwrap().iter().all(|e| e.is_hole));
    assert!(volume.write_at(8 << 20, &[1]).is_err());
    drop(volume);
    rig.export().unwrap();
    verify(&machine, false).unwrap();
}
