//! `failing [--seed N] [--seeds COUNT] [--seconds S] [--rounds N] [--steps N]`: devices fail while
//! files are written, are repaired, and the result is checked.
//!
//! Without `--seeds` or `--seconds`, runs one seed. A failing seed is printed.

use anyhow::{Context, Result, bail};
use sim::failing::{Plan, run};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let mut plan = Plan { seed: 1, rounds: 4, steps: 60 };
    let (mut count, mut seconds) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        let number = value.parse::<u64>().with_context(|| format!("{argument} {value} is no number"))?;
        match argument.as_str() {
            "--seed" => plan.seed = number,
            "--seeds" => count = Some(number),
            "--seconds" => seconds = Some(number),
            "--rounds" => plan.rounds = number,
            "--steps" => plan.steps = number,
            other => bail!("{other} is not known"),
        }
    }
    let started = Instant::now();
    let count = count.unwrap_or(if seconds.is_some() { u64::MAX - plan.seed } else { 1 });
    let until = seconds.map(|s| started + Duration::from_secs(s));
    let (mut seeds, mut hurt, mut repaired) = (0, 0, 0);
    for seed in plan.seed..plan.seed + count {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let done = run(&Plan { seed, ..plan })?;
        seeds += 1;
        hurt += done.hurt;
        repaired += done.repaired_bytes;
    }
    println!(
        "{seeds} schedules, {hurt} devices hurt, {repaired} bytes repaired by scrubs in {:.1} s: no wrong byte, nothing lost",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
