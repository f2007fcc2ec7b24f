//! `matrix [--seed N] [--seconds S] [--zdb-reads N] [--slice yes] [--keep FOLDER]`: runs the whole
//! matrix, or the part of it that fits into the given time.
//!
//! With `--keep`, creates only the first pool and leaves it in that folder with its key and the
//! checksums of its files, for the kernel module.

use anyhow::{Context, Result, bail};
use matrix::{Judges, everything, run, slice};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let (mut seed, mut seconds, mut zdb_reads, mut is_slice) = (1, None, 6, false);
    let mut keep: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{argument} {value} is no number"));
        match argument.as_str() {
            "--seed" => seed = number()?,
            "--seconds" => seconds = Some(number()?),
            "--zdb-reads" => zdb_reads = number()? as usize,
            "--slice" => is_slice = value == "yes",
            "--keep" => keep = Some(value.into()),
            other => bail!("{other} is not known"),
        }
    }
    println!("seed {seed}");
    let begun = Instant::now();
    let until = seconds.map(|seconds| begun + Duration::from_secs(seconds));
    let groups = if is_slice || keep.is_some() { slice(seed) } else { everything(seed) };
    let all: usize = groups.iter().map(|group| group.cases.len()).sum();
    let (mut datasets, mut bytes, mut reads) = (0, 0, 0);
    for group in &groups {
        let judges = Judges { zdb: true, zdb_reads, keep: keep.as_deref() };
        let outcome = run(group, &judges).with_context(|| format!("seed {seed}"))?;
        datasets += outcome.datasets;
        bytes += outcome.bytes;
        reads += outcome.zdb_reads;
        if keep.is_some() || until.is_some_and(|until| Instant::now() > until) {
            break;
        }
    }
    println!(
        "{datasets} of {all} combinations, {} MiB, {reads} files read by zdb, in {:.1} s: all data was read back",
        bytes >> 20,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
