//! `sim [--seed N] [--seeds COUNT] [--seconds S] [--steps N] [--cuts N] [--simulate yes] [--keep
//! FOLDER] [--keep-all FOLDER]`: power cuts during random workloads.
//!
//! Without `--seeds` or `--seconds`, runs one seed. A failing seed is printed. With `--simulate`,
//! threads and the clock derive from the seed too, so that the same seed fails again. With
//! `--keep`, the devices of the failing cut are left in that folder, one file each; with
//! `--keep-all`, those of every cut, for `zdb` and the kernel.

use anyhow::{Context, Result, bail};
use sim::run::{Plan, run_all};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let mut plan = Plan { seed: 1, steps: 300, cuts: 12, simulates: false, keep: None, keep_all: None };
    let (mut count, mut seconds) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{argument} {value} is no number"));
        match argument.as_str() {
            "--seed" => plan.seed = number()?,
            "--seeds" => count = Some(number()?),
            "--seconds" => seconds = Some(number()?),
            "--steps" => plan.steps = number()?,
            "--cuts" => plan.cuts = number()?,
            "--simulate" => match value.as_str() {
                "yes" => plan.simulates = true,
                "no" => plan.simulates = false,
                _ => bail!("--simulate {value}: expected yes or no"),
            },
            "--keep" => plan.keep = Some(value.into()),
            "--keep-all" => plan.keep_all = Some(value.into()),
            other => bail!("{other} is not known"),
        }
    }
    let started = Instant::now();
    let count = count.unwrap_or(if seconds.is_some() { u64::MAX - plan.seed } else { 1 });
    let until = seconds.map(|s| started + Duration::from_secs(s));
    let seeds = (plan.seed..plan.seed + count).take_while(move |_| until.is_none_or(|until| Instant::now() < until));
    let done = run_all(seeds, &plan)?;
    println!(
        "{} steps, {} power cuts, {} device operations in {:.1} s: nothing acknowledged was lost",
        done.steps,
        done.cuts,
        done.operations,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
