//! One seed: a pool, a workload, power cuts, and the judgement of each.

use crate::Chance;
use crate::device::{Cut, Machine};
use crate::model::Model;
use crate::rig::{Layout, Rig, verify};
use crate::workload::{Workload, read_tree};
use anyhow::{Context, Result, anyhow};
use std::path::PathBuf;
use std::sync::Arc;

/// Size of each device.
const DISK_BYTES: u64 = 96 << 20;

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Everything random comes from this.
    pub seed: u64,
    /// Steps of the workload.
    pub steps: u64,
    /// About how many cuts.
    pub cuts: u64,
    /// Where to leave the devices of a cut that was judged wrong.
    pub keep: Option<PathBuf>,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Steps of the workload.
    pub steps: u64,
    /// Cuts judged.
    pub cuts: u64,
    /// Writes and flushes of the devices.
    pub operations: u64,
}

/// Runs a seed. An error tells the seed and what is wrong.
pub fn run(plan: &Plan) -> Result<Done> {
    let setting = Setting::of(plan.seed);
    run_with(plan, &setting).with_context(|| format!("seed {} ({setting:?})", plan.seed))
}

/// What a seed decides beside the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    layout: Layout,
    ashift: u8,
    properties: Vec<(&'static str, &'static str)>,
    /// One step in so many is followed by a txg.
    txg_one_in: u64,
}

impl Setting {
    fn of(seed: u64) -> Self {
        let mut chance = Chance::of_case(seed, 2);
        let mut pick = |from: &[&'static str]| from[chance.below(from.len() as u64) as usize];
        let properties = vec![
            ("compression", pick(&["lz4", "off", "zstd"])),
            ("recordsize", pick(&["128K", "4K", "32K"])),
            ("xattr", pick(&["sa", "dir"])),
            ("checksum", pick(&["fletcher4", "sha256"])),
            ("sync", pick(&["standard", "standard", "standard", "always"])),
            ("logbias", pick(&["latency", "throughput"])),
        ];
        let layout = *chance.pick(&Layout::ALL).expect("there are layouts");
        Self { layout, ashift: 9 + 3 * chance.below(2) as u8, properties, txg_one_in: 4 + chance.below(60) }
    }
}

fn run_with(plan: &Plan, setting: &Setting) -> Result<Done> {
    let machine = Machine::new(plan.seed, setting.layout.devices(), DISK_BYTES);
    let rig = Rig::create(&machine, setting.layout, setting.ashift, &setting.properties).context("making the pool")?;
    let clock = || machine.operations();
    let start = clock();
    let mut workload = Workload::new(plan.seed, &*rig.files, &clock)?;
    if setting.properties.contains(&("sync", "always")) {
        workload.always_safe();
    }
    if setting.properties.contains(&("xattr", "dir")) {
        workload.without_xattrs();
    }
    let mut chance = Chance::of_case(plan.seed, 3);
    let mut done = Done::default();
    for step in 0..plan.steps {
        if chance.below(plan.steps) < plan.cuts {
            // Soon: within a step, a commit, or a txg.
            machine.cut_at(machine.operations() + chance.below(40));
        }
        workload.step().with_context(|| format!("step {step}"))?;
        if chance.once_in(setting.txg_one_in) {
            rig.writer.sync().context("syncing a txg")?;
            workload.model.acknowledge(clock(), None);
        }
        for cut in machine.take_cuts() {
            judge(plan, setting, &workload.model, &cut, start)?;
            done.cuts += 1;
        }
        done.steps += 1;
    }
    let model = workload.model;
    judge(plan, setting, &model, &machine.cut_now(), start)?;
    done.cuts += 1;
    rig.export().context("exporting")?;
    verify(&machine).context("after the export")?;
    let rig = Rig::open(&machine).context("after the export")?;
    let names = model.judge(u64::MAX, &read_tree(&*rig.files)?).map_err(|why| anyhow!(why));
    names.context("after the export")?;
    done.operations = machine.operations();
    Ok(done)
}

fn judge(plan: &Plan, setting: &Setting, model: &Model, cut: &Cut, start: u64) -> Result<()> {
    if cut.operation < start {
        return Ok(());
    }
    let result = judge_inner(plan, model, cut);
    if let (Err(_), Some(folder)) = (&result, &plan.keep) {
        keep(folder, setting, cut)?;
    }
    result.with_context(|| format!("power cut before operation {}", cut.operation))
}

fn judge_inner(plan: &Plan, model: &Model, cut: &Cut) -> Result<()> {
    let machine = Machine::with_media(plan.seed, cut.media.clone(), DISK_BYTES);
    verify(&machine).context("as it was left")?;
    let rig = Rig::open(&machine)?;
    let found = read_tree(&*rig.files).context("reading the tree")?;
    model.judge(cut.operation, &found).map_err(|why| anyhow!(why))?;
    rig.export().context("exporting what was found")?;
    verify(&machine).context("after the log was replayed")?;
    // It is what it was, also without the log.
    let rig = Rig::open(&machine).context("once more")?;
    let again = read_tree(&*rig.files).context("reading the tree once more")?;
    let differs = found.iter().find(|(path, there)| again.get(*path).is_none_or(|now| now.state != there.state));
    match differs {
        None if again.len() == found.len() => Ok(()),
        _ => Err(anyhow!("the tree changed over an export: {:?}", differs.map(|(path, _)| path))),
    }
}

fn keep(folder: &PathBuf, setting: &Setting, cut: &Cut) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for (i, medium) in cut.media.iter().enumerate() {
        let path = folder.join(format!("sim{i}"));
        let file = std::fs::File::create(&path)?;
        file.set_len(DISK_BYTES)?;
        for (offset, bytes) in medium.written() {
            std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset)?;
        }
    }
    eprintln!("kept the devices ({:?}) in {}", setting.layout, folder.display());
    Ok(())
}

/// The same for each of several seeds, on as many threads as there are processors. The first failure ends it.
pub fn run_all(seeds: impl Iterator<Item = u64> + Send, plan: &Plan) -> Result<Done> {
    let seeds = Arc::new(parking_lot::Mutex::new(seeds));
    let total = parking_lot::Mutex::new((Done::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..host::processors() {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.lock().next() else { return };
                    if total.lock().1.is_some() {
                        return;
                    }
                    let result = run(&Plan { seed, ..plan.clone() });
                    let mut total = total.lock();
                    match result {
                        Ok(done) => {
                            total.0.steps += done.steps;
                            total.0.cuts += done.cuts;
                            total.0.operations += done.operations;
                        }
                        Err(error) => {
                            total.1.get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    let (done, error) = total.into_inner();
    error.map_or(Ok(done), Err)
}
