//! One seed: a pool, a workload, power cuts, and the check after each.

use crate::admin;
use crate::device::{Change, Cut, Faults, Machine};
use crate::model::Model;
use crate::rig::{Extras, Layout, Rig, Shape, verify};
use crate::simulation;
use crate::workload::{Workload, read_tree};
use anyhow::{Context, Result, anyhow};
use block::Class;
use damage::promises::Promises;
use files::vfs::{Caller, NewNode, Vfs};
use pool::writer::{Order, Work};
use rig::Chance;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Size of each device.
const DISK_BYTES: u64 = 96 << 20;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Steps of the workload.
    pub steps: u64,
    /// Approximate number of cuts.
    pub cuts: u64,
    /// Whether threads and the clock are simulated, so that the seed determines the run completely.
    pub simulates: bool,
    /// Where to leave the devices of a cut that failed the check.
    pub keep: Option<PathBuf>,
    /// Where to leave the unmodified devices of every cut, in a folder each, for another judge.
    pub keep_all: Option<PathBuf>,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Steps of the workload.
    pub steps: u64,
    /// Power cuts whose outcome was checked.
    pub cuts: u64,
    /// Writes and flushes of the devices.
    pub operations: u64,
}

/// Runs a seed. An error contains the seed and the failure.
pub fn run(plan: &Plan) -> Result<Done> {
    let setting = Setting::of(plan.seed);
    let run = || run_on(&setting.machine(plan.seed), plan, &setting);
    let done = if plan.simulates { simulation::run(plan.seed, run) } else { run() };
    done.with_context(|| format!("seed {} ({setting:?})", plan.seed))
}

/// Runs a seed in a simulation. Returns all changes of its devices, in their order.
pub fn trace(plan: &Plan) -> Result<Vec<(usize, Change)>> {
    let setting = Setting::of(plan.seed);
    simulation::run(plan.seed, || {
        let machine = setting.machine(plan.seed);
        machine.record();
        run_on(&machine, plan, &setting)?;
        Ok(machine.take_trace())
    })
}

/// Whether a seed has several workers and txgs that begin by the clock.
pub fn is_concurrent(seed: u64) -> bool {
    let setting = Setting::of(seed);
    setting.workers > 1 && setting.shape.interval < Duration::from_secs(1)
}

/// What a seed determines besides the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    shape: Shape,
    properties: Vec<(&'static str, &'static str)>,
    /// One step in this many is followed by a txg.
    txg_one_in: u64,
    /// Number of concurrent workers, each in its own directory. With more than one, with timed
    /// txgs, or with slow devices, only simulated runs are reproducible.
    workers: u64,
    /// Fault of one of several devices, for some of the steps.
    trouble: Option<Trouble>,
    /// Another device is added half-way, with this class.
    joins: Option<Class>,
    /// A device is attached, replaced or removed half-way.
    changes: bool,
    /// A raidz is expanded instead.
    widens: bool,
    /// Devices are trimmed, and discard immediately.
    trims: bool,
    /// One step in this many of the first worker is followed by a change of properties, the key or
    /// snapshots.
    administers_one_in: u64,
}

/// A fault of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// One write in 20 fails.
    WritesFail,
    /// It is disconnected for a while, and comes back unchanged.
    Away,
    /// It is disconnected permanently.
    Gone,
}

impl Setting {
    fn of(seed: u64) -> Self {
        let mut chance = Chance::of_case(seed, 2);
        let mut pick = |from: &[&'static str]| from[chance.below(from.len() as u64) as usize];
        let mut properties = vec![
            ("compression", pick(&["lz4", "off", "zstd"])),
            ("recordsize", pick(&["128K", "4K", "32K"])),
            ("xattr", pick(&["sa", "dir"])),
            ("checksum", pick(&["fletcher4", "sha256"])),
            ("sync", pick(&["standard", "standard", "standard", "always", "disabled"])),
            ("logbias", pick(&["latency", "throughput"])),
            ("acltype", pick(&["off", "posix"])),
        ];
        if chance.once_in(3) {
            properties.extend([("encryption", "on"), ("keyformat", "raw")]);
        }
        let layout = *chance.pick(&Layout::ALL).expect("there are layouts");
        let by_clock = chance.once_in(3);
        let shape = Shape {
            extras: Extras::default(),
            layout,
            ashift: 9 + 3 * chance.below(2) as u8,
            interval: if by_clock { Duration::from_millis(5 + chance.below(40)) } else { Duration::from_secs(3600) },
        };
        let workers = if chance.once_in(3) { 2 + chance.below(4) } else { 1 };
        let trouble = match chance.below(6) {
            _ if !layout.is_redundant() => None,
            0 => Some(Trouble::WritesFail),
            1 => Some(Trouble::Away),
            2 => Some(Trouble::Gone),
            _ => None,
        };
        let txg_one_in = 4 + chance.below(60);
        let joins = match chance.below(6) {
            0 => Some(Class::Normal),
            1 => Some(Class::Log),
            2 => Some(Class::Special),
            _ => None,
        };
        let changes = chance.once_in(2) && joins.is_none() && trouble.is_none() && layout != Layout::Stripe;
        let trims = chance.once_in(3);
        let widens = changes && layout == Layout::Raidz && chance.once_in(2);
        let administers_one_in = [u64::MAX, 40, 12][chance.below(3) as usize];
        Self { shape, properties, txg_one_in, workers, trouble, joins, changes, widens, trims, administers_one_in }
    }

    /// The simulated devices, including one that may be added later.
    fn machine(&self, seed: u64) -> Arc<Machine> {
        let count = self.shape.layout.devices() + usize::from(self.joins.is_some() || self.changes);
        let machine = Machine::new(seed, count, DISK_BYTES);
        if Chance::of_case(seed, u64::MAX - 1).once_in(3) {
            machine.set_latency(LATENCY);
        }
        machine
    }

    /// Whether a device may miss data that the others have.
    fn is_hurt(&self) -> bool {
        let lacks = matches!(self.shape.layout, Layout::Single | Layout::Raidz) && !self.widens;
        self.trouble.is_some() || (self.changes && lacks)
    }

    fn has(&self, name: &str, value: &str) -> bool {
        self.properties.contains(&(name, value))
    }
}

/// What a worker did, and in which directory.
struct Worked {
    directory: String,
    model: Model,
}

/// Latency of the devices in some runs: so much that many operations are in flight at once.
const LATENCY: Duration = Duration::from_micros(300);

fn run_on(machine: &Arc<Machine>, plan: &Plan, setting: &Setting) -> Result<Done> {
    let rig = Rig::create(machine, &setting.shape, &setting.properties).context("making the pool")?;
    let who = Caller { privileged: true, ..Caller::default() };
    let root = rig.files.root();
    let names: Vec<String> = (0..setting.workers).map(|n| format!("worker-{n}")).collect();
    for name in &names {
        rig.files.create(&who, root, name.as_bytes(), &NewNode::Directory, 0o755, 0)?;
    }
    rig.writer.sync()?;
    rig.writer.allocator().note_untrimmed(setting.trims);
    let start = machine.operations();
    let sync = setting.properties.iter().find(|(name, _)| *name == "sync").map_or("standard", |(_, value)| value);
    let promises = Promises::new(sync);
    let results: Vec<Result<Worked>> = host::threads::scope(|scope| {
        let workers: Vec<_> = names
            .iter()
            .zip(0..)
            .map(|(name, number)| {
                let (rig, promises) = (&rig, &promises);
                scope.spawn(move || work(plan, setting, (machine, rig, promises), name, number))
            })
            .collect();
        let panicked = || Err(anyhow!("a worker panicked"));
        workers.into_iter().map(|w| w.join().unwrap_or_else(|_| panicked())).collect()
    });
    let works = results.into_iter().collect::<Result<Vec<_>>>()?;
    let mut cuts = machine.take_cuts();
    cuts.push(machine.cut_now());
    cuts.retain(|cut| cut.operation >= start);
    for cut in &cuts {
        judge(plan, setting, &works, cut)?;
    }
    rig.export().context("exporting")?;
    machine.set_faults(0, Faults::default());
    verify(machine, setting.is_hurt()).context("after the export")?;
    let rig = Rig::open(machine).context("after the export")?;
    judge_trees(&rig, &works, u64::MAX).context("after the export")?;
    Ok(Done {
        steps: works.iter().map(|w| w.model.steps()).sum(),
        cuts: cuts.len() as u64,
        operations: machine.operations(),
    })
}

fn work(
    plan: &Plan,
    setting: &Setting,
    (machine, rig, promises): (&Arc<Machine>, &Rig, &Promises),
    name: &str,
    number: u64,
) -> Result<Worked> {
    let clock = || machine.operations();
    let root = rig.files.lookup(rig.files.root(), name.as_bytes())?.node;
    let seed = plan.seed.wrapping_add(number << 48);
    let mut workload = Workload::new(seed, &*rig.files, root, &clock)?;
    workload.promised_by(promises);
    if setting.has("acltype", "posix") {
        workload.with_lists();
    }
    let mut chance = Chance::of_case(seed, 3);
    let steps = plan.steps / setting.workers;
    for step in 0..steps {
        if number == 0 {
            disturb(setting, machine, step, steps);
        }
        if let (0, Some(class), true) = (number, setting.joins, step == steps / 2) {
            // During the label updates, in the txg, and right after it.
            (0..4).for_each(|_| machine.cut_at(clock() + chance.below(90)));
            rig.grow(machine, setting.shape.ashift, class)?;
            workload.model.acknowledge(clock(), None);
        }
        if number == 0 && setting.changes && step == steps / 2 {
            // Before the change, during its label updates, in its txgs, and after them.
            (0..6).for_each(|_| machine.cut_at(clock() + chance.below(160)));
            rig.change(machine, setting.widens)?;
            workload.model.acknowledge(clock(), None);
        }
        if number == 0 && setting.widens && step >= steps / 2 && step % 4 == 0 {
            // Each txg is a step of the expansion: cut within the moved data, and near its
            // uberblock.
            (0..2).for_each(|_| machine.cut_at(clock() + chance.below(120)));
            rig.writer.sync().context("moving sectors")?;
            workload.model.acknowledge(clock(), None);
        }
        if number == 0 && setting.trims && step % 20 == 19 {
            (0..2).for_each(|_| machine.cut_at(clock() + (step + 7) % 30));
            trim(rig, step == 39).context("trimming")?;
        }
        if number == 0 && chance.once_in(setting.administers_one_in) {
            // Before, during and after it.
            (0..2).for_each(|_| machine.cut_at(clock() + chance.below(60)));
            admin::act(rig, promises, &mut chance)?;
        }
        if chance.below(plan.steps) < plan.cuts {
            // Soon: within a step, a commit, or a txg.
            machine.cut_at(clock() + chance.below(40));
        }
        workload.step().with_context(|| format!("step {step} in {name}"))?;
        if chance.once_in(setting.txg_one_in) {
            rig.writer.sync().context("syncing a txg")?;
            workload.model.acknowledge(clock(), None);
        }
    }
    // An export makes everything durable.
    workload.model.acknowledge(u64::MAX, None);
    Ok(Worked { directory: name.to_owned(), model: workload.model })
}

/// Trims recently freed space, or all free space.
fn trim(rig: &Rig, all: bool) -> Result<()> {
    rig.writer.trim_freed()?;
    if all {
        let tree = rig.writer.store().tree();
        for leaf in tree.leaves().into_iter().filter(|leaf| leaf.is_open()) {
            // A device that has just disappeared accepts no work.
            let _ = rig.writer.order_work(Work::Trim, leaf.guid, Order::Start { rate: 0 })?;
        }
    }
    Ok(())
}

/// The first device fails after a third of the steps, and recovers, if it does, after two thirds.
fn disturb(setting: &Setting, machine: &Machine, step: u64, steps: u64) {
    let faults = match (setting.trouble, step) {
        (Some(Trouble::WritesFail), step) if step == steps / 3 => {
            Faults { writes_fail_one_in: 20, ..Faults::default() }
        }
        (Some(Trouble::Away | Trouble::Gone), step) if step == steps / 3 => {
            Faults { is_gone: true, ..Faults::default() }
        }
        (Some(Trouble::WritesFail | Trouble::Away), step) if step == steps * 2 / 3 => Faults::default(),
        _ => return,
    };
    machine.set_faults(0, faults);
}

fn judge(plan: &Plan, setting: &Setting, works: &[Worked], cut: &Cut) -> Result<()> {
    if let Some(folder) = &plan.keep_all {
        keep(&folder.join(format!("{}-{}", plan.seed, cut.operation)), setting, cut)?;
    }
    let result = judge_inner(plan, setting, works, cut);
    if let (Err(_), Some(folder)) = (&result, &plan.keep) {
        keep(folder, setting, cut)?;
    }
    result.with_context(|| format!("power cut before operation {}", cut.operation))
}

fn judge_inner(plan: &Plan, setting: &Setting, works: &[Worked], cut: &Cut) -> Result<()> {
    let machine = Machine::with_media(plan.seed, cut.media.clone(), DISK_BYTES);
    let is_hurt = setting.is_hurt();
    verify(&machine, is_hurt).context("unchanged")?;
    // The power also fails while the pool is opened, the log claimed and replayed, and everything
    // closed again.
    let mut chance = Chance::of_case(plan.seed, cut.operation ^ u64::MAX);
    machine.cut_at(chance.below(40));
    machine.cut_at(chance.below(300));
    let rig = Rig::open(&machine)?;
    judge_trees(&rig, works, cut.operation)?;
    if setting.widens && cut.operation.is_multiple_of(2) {
        rig.widen()?;
        judge_trees(&rig, works, cut.operation).context("widened to the end")?;
    }
    let found = read_tree(&*rig.files, rig.files.root())?;
    rig.export().context("exporting what was found")?;
    verify(&machine, is_hurt).context("after the log was replayed")?;
    // The tree is the same when opened without the log.
    let rig = Rig::open(&machine).context("once more")?;
    let again = read_tree(&*rig.files, rig.files.root()).context("reading the tree once more")?;
    let differs = found.iter().find(|(path, there)| again.get(*path).is_none_or(|now| now.state != there.state));
    if again.len() != found.len() || differs.is_some() {
        return Err(anyhow!("the tree changed over an export: {:?}", differs.map(|(path, _)| path)));
    }
    drop(rig);
    for second in machine.take_cuts() {
        let place = || format!("second power cut, before operation {} of the replay", second.operation);
        judge_second(plan, is_hurt, works, cut.operation, &second).with_context(place)?;
    }
    Ok(())
}

fn judge_second(plan: &Plan, is_hurt: bool, works: &[Worked], operation: u64, cut: &Cut) -> Result<()> {
    let machine = Machine::with_media(plan.seed, cut.media.clone(), DISK_BYTES);
    verify(&machine, is_hurt).context("unchanged")?;
    let rig = Rig::open(&machine)?;
    judge_trees(&rig, works, operation)?;
    rig.export().context("exporting what was found")?;
    verify(&machine, is_hurt).context("after the log was replayed")
}

fn judge_trees(rig: &Rig, works: &[Worked], operation: u64) -> Result<()> {
    for work in works {
        let root = rig.files.lookup(rig.files.root(), work.directory.as_bytes())?.node;
        let found = read_tree(&*rig.files, root).context("reading the tree")?;
        work.model.judge(operation, &found).map_err(|why| anyhow!(why)).with_context(|| work.directory.clone())?;
    }
    Ok(())
}

fn keep(folder: &Path, setting: &Setting, cut: &Cut) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for (i, medium) in cut.media.iter().enumerate() {
        let path = folder.join(format!("sim{i}"));
        let file = std::fs::File::create(&path)?;
        file.set_len(DISK_BYTES)?;
        for (offset, bytes) in medium.written() {
            std::os::unix::fs::FileExt::write_all_at(&file, bytes, offset)?;
        }
    }
    eprintln!("kept the devices ({:?}) in {}", setting.shape, folder.display());
    Ok(())
}

/// Runs several seeds on as many threads as there are processors. Stops at the first failure.
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
