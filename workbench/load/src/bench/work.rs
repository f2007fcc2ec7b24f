//! The work that is repeated: operations of one kind, a flow (`vdb`, `profile`), or either on many
//! clients at once.

use crate::clients::{Clients, One};
use crate::command::{self, kinds, others};
use crate::drive::{Control, Report};
use crate::flow::{Fileset, Flow, Format, Step};
use crate::pattern::Kind;
use crate::run::Plan;
use crate::target::Target;
use anyhow::{Context, Result, bail, ensure};
use clap::{ArgMatches, Command};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The work of a benchmark; see the module.
pub(super) enum Work {
    /// Operations of one kind.
    Plan(Plan),
    /// Steps on file sets.
    Flow(Box<Flow>),
    /// Many clients, and the work of each.
    Clients(Clients, Vec<Work>),
}

/// The result of a repetition: the total, and each client if there are several.
pub(super) struct Done {
    pub report: Report,
    pub each: Vec<One>,
}

/// Default duration of a repetition.
pub(super) const SECONDS: Duration = Duration::from_secs(30);
/// Number of files of a set whose length and disk usage are queried.
const SAMPLE: u64 = 32;

/// Subcommands of `weir bench run`.
pub(super) fn commands() -> Vec<Command> {
    let mut all = kinds::commands();
    all.extend([others::vdb_command(), others::profile_command(), others::clients_command()]);
    all
}

impl Work {
    /// The work that arguments specify, its name, and its own warm-up time.
    pub fn of(matches: &ArgMatches) -> Result<(String, Self, Duration)> {
        let (name, matches) = matches.subcommand().context("the kind of load is missing")?;
        match name {
            "clients" => {
                let (clients, line) = others::clients(matches)?;
                let one = |host: &String| -> Result<(String, Self)> {
                    let words = line.iter().map(|word| word.replace("%h", host));
                    let arguments =
                        command::command().try_get_matches_from(std::iter::once("load".to_owned()).chain(words))?;
                    let (name, work, ramp) = Self::of(&arguments)?;
                    ensure!(
                        ramp.is_zero() && !matches!(work, Self::Clients(..)),
                        "{name}: the load of a client cannot have a ramp or clients of its own"
                    );
                    ensure!(work.time().is_some(), "{name}: clients require a duration: --seconds or elapsed");
                    Ok((name, work))
                };
                let all = clients.hosts.iter().map(one).collect::<Result<Vec<_>>>()?;
                let (names, works): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                let name = names.first().context("no clients")?;
                Ok((format!("{} clients {name}", works.len()), Self::Clients(clients, works), Duration::ZERO))
            }
            "vdb" => {
                let mut runs = others::vdb_runs(matches)?;
                let count = runs.len();
                let run = runs.pop().filter(|run| count == 1 && !run.only_format);
                let run = run.with_context(|| {
                    format!("{count} runs are in the file, or files are only created: one run is judged at a time")
                })?;
                Ok(Self::of_flow(run.name, run.flow))
            }
            "profile" => {
                let (name, flow) = others::profile_flow(matches)?;
                Ok(Self::of_flow(name, flow))
            }
            name if kinds::is_one(name) => {
                let plan = kinds::plan(name, matches)?;
                ensure!(plan.ramp.is_zero(), "--ramp is not available here: use --warm for the warm-up");
                Ok((name.to_owned(), Self::Plan(plan), Duration::ZERO))
            }
            other => bail!("Unsupported: {other} in a benchmark; kinds of load, vdb, profile and clients are judged"),
        }
    }

    /// The warm-up comes before the counters are read.
    fn of_flow(name: String, mut flow: Flow) -> (String, Self, Duration) {
        let ramp = std::mem::take(&mut flow.ramp);
        flow.time = flow.time.map(|t| t.saturating_sub(ramp));
        (name, Self::Flow(Box::new(flow)), ramp)
    }

    /// Sets the duration if none was specified.
    pub fn or_for(mut self, time: Duration) -> Self {
        match &mut self {
            Self::Plan(plan) => _ = plan.time.get_or_insert(time),
            Self::Flow(flow) => _ = flow.time.get_or_insert(time),
            Self::Clients(..) => {}
        }
        self
    }

    fn time(&self) -> Option<Duration> {
        match self {
            Self::Plan(plan) => plan.time,
            Self::Flow(flow) => flow.time,
            Self::Clients(_, works) => works.first().and_then(Self::time),
        }
    }

    /// Runs the load without counting.
    pub fn warm(&self, time: Duration) -> Result<()> {
        let stop = AtomicBool::new(false);
        match self {
            Self::Plan(plan) => _ = Plan { time: Some(time), ..plan.clone() }.run(&stop)?,
            Self::Flow(flow) => _ = Flow { time: Some(time), ..(**flow).clone() }.run(Control::plain(&stop))?,
            Self::Clients(..) => {
                bail!("Unsupported: --warm with clients; run them once with 'weir load clients' first")
            }
        }
        Ok(())
    }

    /// Runs repetition `n`, with its own seed, so that random variation is visible; the seeds are
    /// the same for each run of the benchmark.
    pub fn run(&self, n: usize, is_first: bool, ready: &dyn Fn() -> Result<()>) -> Result<Done> {
        let stop = AtomicBool::new(false);
        let control = Control { stop: &stop, ready: Some(ready), each: None };
        let alone = |report| Done { report, each: Vec::new() };
        match self {
            Self::Plan(plan) => Plan { seed: plan.seed + n as u64, ..plan.clone() }.run_with(control).map(alone),
            Self::Flow(flow) => {
                // Files that were recreated for the first repetition exist.
                let format = if !is_first && flow.format == Format::Fresh { Format::Fill } else { flow.format };
                Flow { seed: flow.seed + n as u64, format, ..(**flow).clone() }.run(control).map(alone)
            }
            Self::Clients(clients, works) => {
                let seed = works.first().map_or(1, Self::seed) + n as u64;
                let line = with_seed(&clients.line, seed);
                let each = Clients { line, ..clients.clone() }.run_with(ready)?;
                let reports: Vec<Report> = each.iter().map(|one| one.report.clone()).collect();
                Ok(Done { report: Report::merged(&reports).context("no clients")?, each })
            }
        }
    }

    fn seed(&self) -> u64 {
        match self {
            Self::Plan(plan) => plan.seed,
            Self::Flow(flow) => flow.seed,
            Self::Clients(_, works) => works.first().map_or(1, Self::seed),
        }
    }

    /// The targets that the server is queried about.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::Plan(plan) => plan.targets.clone(),
            Self::Flow(flow) => distinct(flow.filesets.iter().map(|set| set.anchor.clone())),
            Self::Clients(_, works) => distinct(works.iter().flat_map(Self::targets)),
        }
    }

    /// Files whose lengths determine total size and compression: all files of a plan, some of a
    /// flow.
    pub fn files(&self) -> Vec<Target> {
        match self {
            Self::Plan(plan) => plan.targets.clone(),
            Self::Flow(flow) => distinct(flow.filesets.iter().flat_map(some_of)),
            Self::Clients(_, works) => distinct(works.iter().flat_map(Self::files)),
        }
    }

    /// Size of the working set in bytes, with file lengths given by `length`.
    pub fn working_set(&self, length: &dyn Fn(&Target) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Plan(plan) => {
                let touched = |size: f64| plan.span.map_or(size, |span| size.min(span as f64));
                plan.targets.iter().map(|t| length(t).map(touched)).sum()
            }
            Self::Flow(flow) => Some(flow.filesets.iter().map(Fileset::bytes).sum()),
            Self::Clients(_, works) => {
                // Clients may share files, which then count once.
                let mut seen: Vec<Vec<Target>> = Vec::new();
                let mut sum = 0.0;
                for work in works {
                    let targets = work.targets();
                    if !seen.contains(&targets) {
                        seen.push(targets);
                        sum += work.working_set(length)?;
                    }
                }
                Some(sum)
            }
        }
    }

    fn any(&self, of_plan: fn(&Plan) -> bool, of_flow: fn(&Flow) -> bool) -> bool {
        match self {
            Self::Plan(plan) => of_plan(plan),
            Self::Flow(flow) => of_flow(flow),
            Self::Clients(_, works) => works.iter().any(|work| work.any(of_plan, of_flow)),
        }
    }

    /// Whether operations are at random offsets.
    pub fn is_random(&self) -> bool {
        self.any(
            |plan| matches!(plan.kind, Kind::RandRead | Kind::RandWrite | Kind::Mix(_)),
            |flow| flow.groups.iter().flat_map(|g| &g.steps).any(|s| matches!(s, Step::Parts { random: true, .. })),
        )
    }

    /// Whether there are only operations on names and attributes.
    pub fn is_meta(&self) -> bool {
        self.any(|plan| plan.kind == Kind::Meta, |_| false)
    }

    /// Whether each write is stable when acknowledged.
    pub fn writes_are_stable(&self) -> bool {
        self.any(|plan| plan.sync, |flow| flow.access.sync)
    }

    /// Whether any operation is requested to be stable.
    pub fn is_sync(&self) -> bool {
        let syncs = |flow: &Flow| flow.access.sync || flow.groups.iter().any(|g| g.steps.contains(&Step::Sync));
        self.any(|plan| plan.sync || plan.fsync > 0, syncs)
    }

    /// Whether this machine's page cache is bypassed: the built-in NFS and NBD clients cache
    /// nothing.
    pub fn is_direct(&self) -> bool {
        self.any(|plan| plan.direct, |flow| flow.access.direct)
            || !self.targets().iter().any(|t| matches!(t, Target::Path(_)))
    }

    /// Percentage of zero bytes in written data.
    pub fn zeros(&self) -> u8 {
        match self {
            Self::Plan(plan) => plan.zeros,
            Self::Flow(flow) => flow.access.zeros,
            Self::Clients(_, works) => works.iter().map(Self::zeros).max().unwrap_or(0),
        }
    }

    /// Size of an operation in bytes; 0: sizes differ, or operations have none.
    pub fn op_bytes(&self) -> u64 {
        match self {
            Self::Plan(plan) if plan.kind == Kind::Meta => 0,
            Self::Plan(plan) => plan.size,
            Self::Flow(_) => 0,
            Self::Clients(_, works) => works.first().map_or(0, Self::op_bytes),
        }
    }

    /// Requested operations per second, of all clients.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Plan(plan) => plan.arrivals.rate(),
            Self::Flow(flow) => flow.arrivals.rate(),
            Self::Clients(_, works) => works.iter().map(Self::rate).sum(),
        }
    }

    /// Number of threads, of all clients.
    pub fn threads(&self) -> usize {
        match self {
            Self::Plan(plan) => plan.threads,
            Self::Flow(flow) => flow.groups.iter().map(|g| g.threads).sum(),
            Self::Clients(_, works) => works.iter().map(Self::threads).sum(),
        }
    }

    /// Maximum number of operations in flight per thread.
    pub fn depth(&self) -> usize {
        match self {
            Self::Plan(plan) => plan.depth,
            Self::Flow(_) => 1,
            Self::Clients(_, works) => works.first().map_or(1, Self::depth),
        }
    }
}

fn distinct(targets: impl Iterator<Item = Target>) -> Vec<Target> {
    let mut all: Vec<Target> = Vec::new();
    targets.for_each(|target| {
        if !all.contains(&target) {
            all.push(target);
        }
    });
    all
}

/// Files of a set, spread evenly over it.
fn some_of(set: &Fileset) -> impl Iterator<Item = Target> {
    let count = set.count();
    let step = count.div_ceil(SAMPLE).max(1);
    (0..count).step_by(usize::try_from(step).unwrap_or(usize::MAX)).map(|n| set.anchor.below(&set.path(n)))
}

/// A command line with another seed; `--await-go` stays last.
fn with_seed(line: &[String], seed: u64) -> Vec<String> {
    let mut words = Vec::with_capacity(line.len() + 2);
    let mut old = line.iter();
    while let Some(word) = old.next() {
        match word.as_str() {
            "--seed" => _ = old.next(),
            word if word.starts_with("--seed=") => {}
            _ => words.push(word.clone()),
        }
    }
    let at = words.len().saturating_sub(1);
    words.splice(at..at, ["--seed".to_owned(), seed.to_string()]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_one_seed() {
        let line = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let with = |text: &str| with_seed(&line(text), 7).join(" ");
        assert_eq!(with("weir load randread x --await-go"), "weir load randread x --seed 7 --await-go");
        assert_eq!(with("weir load randread --seed 3 x --await-go"), "weir load randread x --seed 7 --await-go");
        assert_eq!(with("weir load randread --seed=3 x --await-go"), "weir load randread x --seed 7 --await-go");
    }
}
