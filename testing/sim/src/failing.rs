//! One seed of failing devices: as many at a time as the layout tolerates, while files are written,
//! snapshots taken and a scrub runs.
//!
//! ```text
//!   round: some devices are hurt ─ the workload continues ─ a spare may take over, a scrub start
//!          ─ the tree matches the model ─ devices come back or are replaced
//!          ─ resilver or rebuild, scrub ─ nothing is missing any more, no spare is in use
//!   end:   export; complete without any devices that the layout tolerates to lose
//! ```
//! A pool has a main vdev, or several side by side with `copies`, and may have log devices, special
//! devices and spares.
//!
//! Invariants:
//!   * from one repair to the next, no part has more damaged devices than it tolerates

mod hurt;
mod scans;

use crate::device::Machine;
use crate::rig::{Extras, Layout, POOL, Rig, Shape, verify, verify_without};
use crate::workload::{Workload, read_tree};
use anyhow::{Context, Result, anyhow, bail};
use files::vfs::{Caller, NewNode, Vfs};
use hurt::Part;
use rig::Chance;
use scans::{repaired, scrub, settle};
use std::time::Duration;

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Seed of all random choices. How far a scan has come at the next event is not reproducible.
    pub seed: u64,
    /// Number of rounds of failures.
    pub rounds: u64,
    /// Steps of the workload in each round.
    pub steps: u64,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Number of devices that were hurt.
    pub hurt: u64,
    /// Bytes written by repairs.
    pub repaired_bytes: u64,
}

const LAYOUTS: [Layout; 9] = [
    Layout::Copies(2),
    Layout::Copies(3),
    Layout::Parity(1, 4),
    Layout::Parity(2, 5),
    Layout::Parity(3, 6),
    Layout::Draid(1, 5),
    Layout::Draid(2, 6),
    Layout::SideBySide(2),
    Layout::SideBySide(3),
];

/// Runs a seed. An error contains the seed and the failure.
pub fn run(plan: &Plan) -> Result<Done> {
    let mut chance = Chance::of_case(plan.seed, 4);
    let layout = *chance.pick(&LAYOUTS).context("there are layouts")?;
    let ashift = if chance.once_in(2) { 9 } else { 12 };
    let copies = match layout {
        Layout::SideBySide(2) => "2",
        Layout::SideBySide(_) => "3",
        _ => *chance.pick(&["1", "2"]).context("one")?,
    };
    let properties = [
        ("compression", *chance.pick(&["lz4", "off"]).context("one")?),
        ("recordsize", *chance.pick(&["128K", "8K"]).context("one")?),
        ("copies", copies),
        ("dedup", *chance.pick(&["off", "on"]).context("one")?),
        ("special_small_blocks", *chance.pick(&["0", "8K"]).context("one")?),
    ];
    let is_draid = matches!(layout, Layout::Draid(..));
    let has_spare = !is_draid && !matches!(layout, Layout::SideBySide(_)) && chance.once_in(2);
    let extras = Extras {
        logs: *chance.pick(&[0, 1, 2]).context("one")?,
        special: *chance.pick(&[0, 2]).context("one")?,
        spares: usize::from(has_spare),
    };
    let shape = Shape { layout, ashift, interval: Duration::from_secs(3600), extras };
    run_with(plan, &shape, &properties, &mut chance)
        .with_context(|| format!("seed {} ({layout:?}, {extras:?}, ashift {ashift}, {properties:?})", plan.seed))
}

fn run_with(plan: &Plan, shape: &Shape, properties: &[(&str, &str)], chance: &mut Chance) -> Result<Done> {
    let in_use = shape.devices();
    let mut parts = Part::of(shape);
    // The maximum number of replacement devices.
    let most = parts.iter().map(|part| part.may_lose).sum::<usize>() * plan.rounds as usize;
    let machine = Machine::new(plan.seed, in_use + most, hurt::DISK_BYTES);
    let rig = Rig::create(&machine, shape, properties).context("making the pool")?;
    rig.writer.run_scans()?;
    let who = Caller { privileged: true, ..Caller::default() };
    rig.files.create(&who, rig.files.root(), b"work", &NewNode::Directory, 0o755, 0)?;
    rig.writer.sync()?;
    let clock = || machine.operations();
    let root = rig.files.lookup(rig.files.root(), b"work")?.node;
    let mut workload = Workload::new(plan.seed, &*rig.files, root, &clock)?;
    let mut done = Done::default();
    let mut next = in_use;
    for round in 0..plan.rounds {
        let before = machine.media();
        let mut hurt = hurt::choose(&parts, &rig, chance)?;
        let case = format!("round {round}, {hurt:?}");
        for step in 0..plan.steps {
            if step == plan.steps / 4 {
                hurt.iter().for_each(|patient| patient.begin(&machine, chance));
                done.hurt += hurt.len() as u64;
            }
            if step == plan.steps / 3 && chance.once_in(2) {
                // May be refused, for example while a resilver is in progress.
                let _ = rig.writer.start_scrub()?;
            }
            if step == plan.steps / 2 {
                hurt.iter()
                    .try_for_each(|patient| patient.worsen(&rig, &machine, &hurt, &before))
                    .context(case.clone())?;
                let name = format!("{POOL}/fs@round-{round}");
                dataset::write::snapshot(&rig.live, &[name], &[])
                    .map_err(|why| anyhow!("taking a snapshot: {why:?}"))?;
            }
            workload.step().with_context(|| format!("step {step}, {case}"))?;
            if chance.once_in(12) {
                rig.writer.sync().with_context(|| format!("syncing a txg, step {step}, {case}"))?;
            }
        }
        rig.writer.sync().with_context(|| format!("syncing a txg, {case}"))?;
        workload.model.acknowledge(clock(), None);
        let found = read_tree(&*rig.files, root).with_context(|| case.clone())?;
        workload.model.judge(clock(), &found).map_err(|why| anyhow!(why)).with_context(|| case.clone())?;

        for patient in &mut hurt {
            patient
                .heal(&rig, &machine, &mut parts, &mut next)
                .with_context(|| format!("healing {patient:?}, {case}"))?;
        }
        rig.writer.restart_resilver()?;
        settle(&rig).with_context(|| format!("the resilver, {case}"))?;
        done.repaired_bytes += scrub(&rig).with_context(|| case.clone())?;
        let first = repaired(&rig);
        let again = scrub(&rig).with_context(|| format!("{case}, once more"))?;
        if again > 0 {
            bail!("{case}: behind {first:?}, a second scrub repaired {again} bytes: {:?}", repaired(&rig));
        }
    }
    rig.export().context("exporting")?;
    verify(&machine, false).context("after the export")?;
    for _ in 0..4 {
        let away: Vec<usize> = parts.iter().flat_map(|part| part.some(chance)).collect();
        verify_without(&machine, &away)?;
    }
    Ok(done)
}
