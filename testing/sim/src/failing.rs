//! One seed of devices that fail: as many at a time as the layout can miss, while files are written, snapshots taken and a scrub runs.
//!
//! ```text
//!   round: some devices are hurt ─ the workload goes on ─ a scrub may begin, too ─ the tree is as the model says
//!          ─ devices come back or are replaced ─ resilver, scrub ─ nothing is missing any more
//!   end:   export; whole without any devices that the layout can miss
//! ```
//!
//! Invariants:
//!   * never are more devices hurt than the layout can miss, counted from one repair to the next

use crate::Chance;
use crate::device::{Faults, Machine};
use crate::rig::{Layout, POOL, Rig, Shape, verify, verify_without};
use crate::workload::{Workload, read_tree};
use anyhow::{Context, Result, anyhow, bail};
use files::vfs::{Caller, NewNode, Vfs};
use pool::writer::Joins;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of each device.
const DISK_BYTES: u64 = 96 << 20;
/// Behind the labels in front, and before those at the end.
const DATA: std::ops::Range<u64> = 4 << 20..DISK_BYTES - (1 << 20);
/// A repair that takes longer has stopped; the machine may be very busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// What to do.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Everything random comes from this, but for how far a scan has come when the next thing happens.
    pub seed: u64,
    /// How often devices fail.
    pub rounds: u64,
    /// Steps of the workload in each round.
    pub steps: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Devices that were hurt.
    pub hurt: u64,
    /// Bytes written by repairs.
    pub repaired_bytes: u64,
}

/// What happens to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hurt {
    /// Its blocks become zeros.
    Zeroed,
    /// Ranges of it become noise.
    Noise,
    /// It is pulled, and plugged in again before the repair.
    Away,
    /// Some writes fail.
    WritesFail,
    /// It holds again what it held at the beginning of the round, and says nothing.
    SetBack,
    /// It is pulled for good, and another one is put in its place.
    Replaced,
}

const HURTS: [Hurt; 6] = [Hurt::Zeroed, Hurt::Noise, Hurt::Away, Hurt::WritesFail, Hurt::SetBack, Hurt::Replaced];
const LAYOUTS: [Layout; 6] = [
    Layout::Copies(2),
    Layout::Copies(3),
    Layout::Parity(1, 4),
    Layout::Parity(2, 5),
    Layout::Parity(3, 6),
    Layout::Draid(1, 5),
];

/// Runs a seed. An error tells the seed and what is wrong.
pub fn run(plan: &Plan) -> Result<Done> {
    let mut chance = Chance::of_case(plan.seed, 4);
    let layout = *chance.pick(&LAYOUTS).context("there are layouts")?;
    let ashift = if chance.once_in(2) { 9 } else { 12 };
    let properties = [
        ("compression", *chance.pick(&["lz4", "off"]).context("one")?),
        ("recordsize", *chance.pick(&["128K", "8K"]).context("one")?),
        ("copies", *chance.pick(&["1", "2"]).context("one")?),
        ("dedup", *chance.pick(&["off", "on"]).context("one")?),
    ];
    let shape = Shape { layout, ashift, interval: Duration::from_secs(3600) };
    run_with(plan, &shape, &properties, &mut chance)
        .with_context(|| format!("seed {} ({layout:?}, ashift {ashift}, {properties:?})", plan.seed))
}

fn run_with(plan: &Plan, shape: &Shape, properties: &[(&str, &str)], chance: &mut Chance) -> Result<Done> {
    let in_use = shape.layout.devices();
    // As many as may be put in the place of others.
    let machine = Machine::new(plan.seed, in_use + shape.layout.may_lose() * plan.rounds as usize, DISK_BYTES);
    let rig = Rig::create(&machine, shape, properties).context("making the pool")?;
    rig.writer.run_scans()?;
    let who = Caller { privileged: true, ..Caller::default() };
    rig.files.create(&who, rig.files.root(), b"work", &NewNode::Directory, 0o755, 0)?;
    rig.writer.sync()?;
    let clock = || machine.operations();
    let root = rig.files.lookup(rig.files.root(), b"work")?.node;
    let mut workload = Workload::new(plan.seed, &*rig.files, root, &clock)?;
    let mut places: Vec<usize> = (0..in_use).collect();
    let mut done = Done::default();
    let mut next_spare = in_use;
    for round in 0..plan.rounds {
        let before = machine.media();
        let count = 1 + chance.below(shape.layout.may_lose() as u64) as usize;
        let mut hurt: Vec<(usize, Hurt)> = Vec::new();
        while hurt.len() < count {
            let place = chance.below(in_use as u64) as usize;
            let kind = *chance.pick(&HURTS).context("there are some")?;
            if hurt.iter().all(|(p, _)| *p != place) {
                hurt.push((place, kind));
            }
        }
        for step in 0..plan.steps {
            if step == plan.steps / 4 {
                hurt.iter().for_each(|(place, kind)| begin(&machine, places[*place], *kind, chance));
                done.hurt += hurt.len() as u64;
            }
            if step == plan.steps / 3 && chance.once_in(2) {
                // It may be refused, as when a resilver is under way.
                let _ = rig.writer.start_scrub()?;
            }
            if step == plan.steps / 2 {
                for (place, _) in hurt.iter().filter(|(_, kind)| *kind == Hurt::SetBack) {
                    set_back(&machine, places[*place], &before);
                }
                let name = format!("{POOL}/fs@round-{round}");
                dataset::write::snapshot(&rig.live, &[name], &[])
                    .map_err(|why| anyhow!("taking a snapshot: {why:?}"))?;
            }
            workload.step().with_context(|| format!("round {round}, step {step}, {hurt:?}"))?;
            if chance.once_in(12) {
                rig.writer.sync().context("syncing a txg")?;
            }
        }
        rig.writer.sync()?;
        workload.model.acknowledge(clock(), None);
        let found = read_tree(&*rig.files, root).with_context(|| format!("round {round}, {hurt:?}"))?;
        workload.model.judge(clock(), &found).map_err(|why| anyhow!(why)).with_context(|| format!("{hurt:?}"))?;

        for (place, kind) in &hurt {
            match kind {
                Hurt::Replaced => {
                    rig.join(
                        leaf_of(&rig, places[*place])?,
                        machine.devices().swap_remove(next_spare),
                        Joins::Replace,
                    )?;
                    places[*place] = next_spare;
                    next_spare += 1;
                }
                _ => come_back(&rig, &machine, places[*place])?,
            }
        }
        rig.writer.restart_resilver()?;
        wait(&rig).with_context(|| format!("the resilver of round {round}, {hurt:?}"))?;
        done.repaired_bytes += scrub(&rig).with_context(|| format!("round {round}, {hurt:?}"))?;
        let again = scrub(&rig).with_context(|| format!("round {round}, {hurt:?}, once more"))?;
        if again > 0 {
            bail!("round {round}, {hurt:?}: a second scrub repaired {again} bytes");
        }
    }
    rig.export().context("exporting")?;
    verify(&machine, false).context("after the export")?;
    let gone = shape.layout.may_lose();
    for _ in 0..4 {
        let mut away: Vec<usize> = Vec::new();
        while away.len() < gone {
            let place = places[chance.below(in_use as u64) as usize];
            if !away.contains(&place) {
                away.push(place);
            }
        }
        verify_without(&machine, &away)?;
    }
    Ok(done)
}

fn begin(machine: &Machine, index: usize, kind: Hurt, chance: &mut Chance) {
    match kind {
        Hurt::Zeroed => {
            let zeros = vec![0; 1 << 20];
            DATA.step_by(1 << 20)
                .for_each(|at| machine.scribble(index, at, &zeros[..(DATA.end - at).min(1 << 20) as usize]));
        }
        Hurt::Noise => {
            for _ in 0..200 {
                let length = 512 * (1 + chance.below(60));
                let at = DATA.start + chance.below((DATA.end - DATA.start - length) / 512) * 512;
                let noise: Vec<u8> = (0..length).map(|_| chance.below(256) as u8).collect();
                machine.scribble(index, at, &noise);
            }
        }
        Hurt::Away | Hurt::Replaced => machine.set_faults(index, Faults { is_gone: true, ..Faults::default() }),
        Hurt::WritesFail => machine.set_faults(index, Faults { writes_fail_one_in: 15, ..Faults::default() }),
        Hurt::SetBack => {}
    }
}

/// Blocks only: labels that are older than the others' are another story, told when a pool is opened.
fn set_back(machine: &Machine, index: usize, before: &[crate::pages::Pages]) {
    let mut bytes = vec![0; 1 << 20];
    for at in DATA.step_by(1 << 20) {
        let piece = &mut bytes[..(DATA.end - at).min(1 << 20) as usize];
        before[index].read(at, piece);
        machine.scribble(index, at, piece);
    }
}

fn leaf_of(rig: &Rig, index: usize) -> Result<u64> {
    let (tree, name) = (rig.writer.store().tree(), format!("sim{index}"));
    tree.leaves().into_iter().find(|leaf| leaf.path == name).map(|leaf| leaf.guid).context(name)
}

/// The device works again, and the pool is told.
fn come_back(rig: &Rig, machine: &Arc<Machine>, index: usize) -> Result<()> {
    machine.set_faults(index, Faults::default());
    let device = machine.devices().swap_remove(index);
    rig.writer.online(leaf_of(rig, index)?, &|_| Ok(device.clone()))?;
    Ok(())
}

fn wait(rig: &Rig) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = rig.writer.scan_activity();
        if !now.scrubbing && !now.resilvering {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("the scan does not end: {now:?}");
        }
        rig.writer.wait_for_scan(Duration::from_millis(20));
    }
}

/// Scrubs to the end, after what is under way; the bytes that it repaired.
fn scrub(rig: &Rig) -> Result<u64> {
    wait(rig)?;
    if let Err(why) = rig.writer.start_scrub()? {
        bail!("a scrub is refused: {why:?}");
    }
    wait(rig)?;
    let scan = rig.writer.pool()?.status()?.scan.context("there was a scrub")?;
    if scan.errors > 0 {
        bail!("the scrub could not repair {} blocks: {scan:?}", scan.errors);
    }
    Ok(scan.processed_bytes)
}
