//! Job files of fio: the subset that defines operations, targets, numbers and rates.
//!
//! Nothing in a file is ignored silently: an unknown or unsupported option is an error that names
//! it.

use crate::number::{size, time};
use crate::pace::Arrivals;
use crate::pattern::Kind;
use crate::run::Plan;
use crate::target::Target;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::time::Duration;

/// Jobs that run concurrently, with their names.
pub type Stage = Vec<(String, Plan)>;

/// Options without effect here: they concern reporting, or describe the only behaviour.
const WITHOUT_EFFECT: [&str; 17] = [
    "group_reporting",
    "thread",
    "name",
    "description",
    "norandommap",
    "randrepeat",
    "invalidate",
    "fallocate",
    "create_on_open",
    "refill_buffers",
    "scramble_buffers",
    "clat_percentiles",
    "percentile_list",
    "end_fsync",
    "create_serialize",
    "overwrite",
    "io_submit_mode",
];

/// The stages of a job file: `stonewall` starts a new one.
pub fn parse(text: &str) -> Result<Vec<Stage>> {
    let mut global: BTreeMap<String, String> = BTreeMap::new();
    let mut jobs: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut is_global = false;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            is_global = name == "global";
            if !is_global {
                jobs.push((name.to_owned(), global.clone()));
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        match jobs.last_mut() {
            _ if is_global => drop(global.insert(key, value)),
            Some((_, options)) => drop(options.insert(key, value)),
            None => bail!("line {}: an option before any [job]", n + 1),
        }
    }
    ensure!(!jobs.is_empty(), "no [job] found");
    let mut stages: Vec<Stage> = Vec::new();
    for (name, options) in jobs {
        let mut job = Job { name: &name, options };
        let is_walled = job.flag(&["stonewall", "wait_for_previous"])?;
        let plan = job.plan().with_context(|| format!("[{name}]"))?;
        match stages.last_mut() {
            Some(stage) if !is_walled => stage.push((name, plan)),
            _ => stages.push(vec![(name, plan)]),
        }
    }
    Ok(stages)
}

struct Job<'a> {
    name: &'a str,
    options: BTreeMap<String, String>,
}

impl Job<'_> {
    fn take(&mut self, names: &[&str]) -> Option<String> {
        names.iter().filter_map(|n| self.options.remove(*n)).next_back()
    }

    fn number(&mut self, names: &[&str]) -> Result<Option<u64>> {
        self.take(names).map(|v| size(&v).with_context(|| format!("{}={v} is not a number", names[0]))).transpose()
    }

    fn time(&mut self, names: &[&str]) -> Result<Option<Duration>> {
        self.take(names).map(|v| time(&v).with_context(|| format!("{}={v} is not a time", names[0]))).transpose()
    }

    fn flag(&mut self, names: &[&str]) -> Result<bool> {
        Ok(match self.take(names).as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => bail!("{}={other} is none of 0, 1", names[0]),
        })
    }

    fn plan(&mut self) -> Result<Plan> {
        let mixed = self.number(&["rwmixread"])?.unwrap_or(50).min(100) as u8;
        let mixed = self.number(&["rwmixwrite"])?.map_or(mixed, |w| 100 - w.min(100) as u8);
        let kind = match self.take(&["rw", "readwrite"]).as_deref().unwrap_or("read") {
            "read" => Kind::SeqRead,
            "write" => Kind::SeqWrite,
            "randread" => Kind::RandRead,
            "randwrite" => Kind::RandWrite,
            "randrw" => Kind::Mix(mixed),
            other => bail!("Unsupported: rw={other}"),
        };
        let block = self.number(&["bs", "blocksize"])?.unwrap_or(4096);
        let file_size = self.number(&["size", "filesize"])?;
        let jobs = self.number(&["numjobs"])?.unwrap_or(1) as usize;
        let targets = self.targets(jobs)?;
        let poisson = match self.take(&["rate_process"]).as_deref() {
            None | Some("linear") => false,
            Some("poisson") => true,
            Some(other) => bail!("Unsupported: rate_process={other}"),
        };
        // fio's rate applies to each job.
        let arrivals = match self.number(&["rate_iops"])?.map(|r| r as f64 * jobs as f64) {
            None => Arrivals::Closed,
            Some(rate) if poisson => Arrivals::Poisson(rate),
            Some(rate) => Arrivals::Even(rate),
        };
        let ramp = self.time(&["ramp_time"])?.unwrap_or_default();
        let runtime = self.time(&["runtime", "timeout"])?.map(|t| t + ramp);
        let time_based = self.flag(&["time_based"])?;
        ensure!(!time_based || runtime.is_some(), "time_based requires runtime");
        let span = file_size.context("no size")?;
        let depth = self.number(&["iodepth"])?.unwrap_or(1) as usize;
        // Each job covers its size once, unless only time ends it.
        let under_way = if matches!(targets[0], Target::Path(_)) { depth as u64 } else { 1 };
        let zeros = if self.flag(&["zero_buffers"])? { Some(100) } else { None };
        let plan = Plan {
            kind,
            targets,
            size: block,
            threads: jobs,
            depth,
            arrivals,
            time: runtime,
            file_size: span,
            span: Some(span),
            sync: self.flag(&["sync", "dsync"])?,
            zeros: zeros.unwrap_or(self.number(&["buffer_compress_percentage"])?.unwrap_or(0).min(100) as u8),
            seed: self.number(&["randseed"])?.unwrap_or(1),
            direct: self.flag(&["direct"])? | (self.take(&["buffered"]).as_deref() == Some("0")),
            fsync: self.number(&["fsync", "fdatasync"])?.unwrap_or(0),
            ramp,
            steps: None,
            ops: (!time_based).then_some((span / block / under_way).max(1)),
        };
        let left: Vec<&String> = self.options.keys().filter(|k| !WITHOUT_EFFECT.contains(&k.as_str())).collect();
        if let Some(first) = left.first() {
            bail!("Unsupported: {first}");
        }
        Ok(plan)
    }

    fn targets(&mut self, jobs: usize) -> Result<Vec<Target>> {
        let engine = self.take(&["ioengine"]).unwrap_or_else(|| "psync".to_owned());
        let files = self.take(&["filename"]);
        let directory = self.take(&["directory"]);
        ensure!(self.number(&["nrfiles"])?.unwrap_or(1) == 1, "Unsupported: nrfiles");
        // Without a file name, each job has its own file, named as in fio.
        let own = || (0..jobs).map(|n| format!("{}.{n}.0", self.name)).collect::<Vec<_>>();
        let names: Vec<String> = match &files {
            Some(names) => names.split(':').map(str::to_owned).collect(),
            None => own(),
        };
        match engine.as_str() {
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "libaio" | "io_uring" | "posixaio" | "mmap" => {
                ensure!(engine != "mmap", "Unsupported: ioengine=mmap");
                let folder = std::path::PathBuf::from(directory.unwrap_or_default());
                Ok(names.iter().map(|n| Target::Path(folder.join(n))).collect())
            }
            "nfs" => {
                let url = self.take(&["nfs_url"]).context("ioengine=nfs requires nfs_url")?;
                let (place, query) = url.split_once('?').unwrap_or((&url, ""));
                let join = |name: &String| format!("{}/{name}?{query}", place.trim_end_matches('/')).parse();
                names.iter().map(join).collect()
            }
            "nbd" => Ok(vec![self.take(&["uri"]).context("ioengine=nbd requires uri")?.parse()?]),
            other => bail!("Unsupported: ioengine={other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_fio_become_plans() {
        let text = "\
; as in the manual
[global]
ioengine=libaio
direct=1
bs=4k
size=64m
directory=/data

[reader]
rw=randread
iodepth=16
runtime=30
time_based
numjobs=4

[writer]
rw=randrw
rwmixread=20
rate_iops=500
rate_process=poisson
ramp_time=5s
runtime=1m
fsync=32

[late]
stonewall
ioengine=nfs
nfs_url=nfs://127.0.0.1/tank?nfsport=12049
filename=big
rw=write
bs=1m
";
        let stages = parse(text).expect("jobs");
        assert_eq!(stages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        let (name, reader) = &stages[0][0];
        assert_eq!((name.as_str(), reader.kind, reader.threads, reader.depth), ("reader", Kind::RandRead, 4, 16));
        assert!(reader.direct && reader.ops.is_none());
        assert_eq!(reader.targets[3].to_string(), "/data/reader.3.0");
        let writer = &stages[0][1].1;
        assert_eq!((writer.kind, writer.arrivals, writer.fsync), (Kind::Mix(20), Arrivals::Poisson(500.0), 32));
        assert_eq!((writer.time, writer.ops), (Some(Duration::from_secs(65)), Some(16384)));
        let late = &stages[1][0].1;
        assert_eq!((late.kind, late.ops), (Kind::SeqWrite, Some(64)));
        assert_eq!(late.targets[0].to_string(), "nfs://127.0.0.1:12049/tank/big");
        for (wrong, why) in [
            ("[a]\nrw=trim\nsize=1m\n", "Unsupported: rw=trim"),
            ("[a]\nsize=1m\nverify=md5\n", "Unsupported: verify"),
            ("[a]\nrw=read\n", "no size"),
            ("bs=4k\n[a]\n", "before any"),
            ("[a]\nsize=1m\nioengine=rados\n", "Unsupported: ioengine=rados"),
        ] {
            let error = format!("{:#}", parse(wrong).expect_err(wrong));
            assert!(error.contains(why), "{error}");
        }
    }
}
