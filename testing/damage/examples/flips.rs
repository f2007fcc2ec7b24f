//! Damages real images at random, thousands of times, and checks how the engine reacts.
//!
//! `flips [--seed N] [--cases N] [--from N] [--seconds N] [--image NAME] [--jobs N]`; images come
//! from WEIR_FIXTURES. Each case runs in a child process that is monitored: a panic, an abort, a
//! step of more than ten seconds, memory beyond the cache and 256 MB, or a wrong answer is a
//! failure. A failure prints the command that reproduces it.

use anyhow::{Context, Result, bail};
use damage::flips::Target;
use damage::image;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Timeout of a step; to be increased on a busy machine.
const STEP_SECONDS: u64 = 10;
/// Memory, including the cache, that a case may use in addition to what the process used before.
const MEMORY_MAX_KB: u64 = (image::CACHE_BYTES + (256 << 20)) / 1024;
/// Address space limit of a child, to stop runaway allocation.
const ADDRESS_SPACE_MAX: u64 = 8 << 30;

#[derive(Clone)]
struct Arguments {
    seed: u64,
    from: u64,
    cases: u64,
    seconds: u64,
    image: Option<String>,
    child: bool,
    patience: u64,
}

fn arguments() -> Result<Arguments> {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_secs());
    let mut a = Arguments { seed, from: 0, cases: 10_000, seconds: u64::MAX, image: None, child: false, patience: 1 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => a.seed = value()?.parse()?,
            "--from" => a.from = value()?.parse()?,
            "--cases" => a.cases = value()?.parse()?,
            "--seconds" => a.seconds = value()?.parse()?,
            "--patience" => a.patience = value()?.parse()?,
            "--image" => a.image = Some(value()?),
            "--child" => a.child = true,
            other => bail!("unknown option {other}"),
        }
    }
    Ok(a)
}

fn main() -> Result<()> {
    let a = arguments()?;
    if a.child { child(&a) } else { parent(&a) }
}

/// Runs cases one after another, and prints each step before it starts.
fn child(a: &Arguments) -> Result<()> {
    std::panic::set_hook(Box::new(|info| {
        eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
        std::process::abort();
    }));
    let limit = rustix::process::Rlimit { current: Some(ADDRESS_SPACE_MAX), maximum: Some(ADDRESS_SPACE_MAX) };
    rustix::process::setrlimit(rustix::process::Resource::As, limit)?;
    let name = a.image.as_deref().context("--child needs --image")?;
    let target = Target::new(image::scenario(name).context("no such image")?)?;
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        // If the parent has exited, the output is not needed.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    for case in a.from..a.from + a.cases {
        say(&format!("case {case}"));
        // Resets the high-water mark of memory. If that is not permitted, the mark covers the life
        // of the process.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let outcome = target.run(a.seed, case, &mut |step| say(&format!("step {step}")));
        for wrong in outcome.wrong.iter().take(3) {
            say(&format!("wrong {wrong}"));
        }
        say(&format!("done {} {} {}", u8::from(outcome.opened), outcome.errors, memory_peak_kb()));
    }
    Ok(())
}

fn memory_peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[derive(Default)]
struct Totals {
    cases: u64,
    opened: u64,
    with_errors: u64,
    failures: Vec<String>,
    slowest: Duration,
    memory_peak_kb: u64,
}

fn parent(a: &Arguments) -> Result<()> {
    let images: Vec<String> =
        image::all().into_iter().map(|s| s.name).filter(|n| a.image.as_ref().is_none_or(|i| i == n)).collect();
    if images.is_empty() {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked images (make images)");
        return Ok(());
    }
    println!("seed {}, {} cases over {} images", a.seed, a.cases, images.len());
    let start = Instant::now();
    let mut totals = Totals::default();
    // In rounds, so that a run that is limited by time has covered every image.
    let per_round = a.cases.div_ceil(images.len() as u64).min(if a.seconds == u64::MAX { 200 } else { 20 });
    let mut next = a.from;
    let end = a.from + a.cases;
    'all: while next < end {
        for image in &images {
            let left = Duration::from_secs(a.seconds).checked_sub(start.elapsed());
            let count = per_round.min(end - next);
            if count == 0 || left.is_none() {
                break 'all;
            }
            run(a, image, next, count, &mut totals)?;
            next += count;
        }
    }
    println!(
        "{} cases in {:.0} s: {} opened, {} met errors, {} failures; slowest step {:.1} s, most memory {} MB",
        totals.cases,
        start.elapsed().as_secs_f64(),
        totals.opened,
        totals.with_errors,
        totals.failures.len(),
        totals.slowest.as_secs_f64(),
        totals.memory_peak_kb >> 10
    );
    if !totals.failures.is_empty() {
        bail!("failed:\n{}", totals.failures.join("\n"));
    }
    Ok(())
}

/// Runs `count` cases. If a child dies, continues after the case that killed it.
fn run(a: &Arguments, image: &str, from: u64, count: u64, totals: &mut Totals) -> Result<()> {
    let end = from + count;
    let mut next = from;
    while next < end {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--child", "--image", image, "--seed", &a.seed.to_string()])
            .args(["--from", &next.to_string(), "--cases", &(end - next).to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (lines, errors) = listen(&mut child)?;
        let outcome = watch(a, &lines, next, totals);
        match outcome {
            Ok(()) => {}
            // The child makes no progress and will not exit by itself.
            Err(ref _why) => drop(child.kill()),
        }
        let status = child.wait()?;
        let mut failed = |case: u64, why: String| {
            let text = errors.iter().take(60).collect::<Vec<_>>().join("\n    ");
            let again = format!("--image {image} --seed {} --from {case} --cases 1", a.seed);
            println!("FAILED {again}: {why}\n    {text}");
            totals.failures.push(format!("{again}: {why}"));
        };
        match outcome {
            Ok(()) if status.success() => return Ok(()),
            Ok(()) => {
                failed(next, format!("the child ended with {status}"));
                return Ok(());
            }
            Err((case, why)) => {
                failed(case, format!("{why} ({status})"));
                next = case + 1;
            }
        }
    }
    Ok(())
}

fn listen(child: &mut Child) -> Result<(Receiver<String>, Receiver<String>)> {
    let lines_of = |stream: Box<dyn std::io::Read + Send>| {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        receiver
    };
    let out = child.stdout.take().context("stdout is piped")?;
    let err = child.stderr.take().context("stderr is piped")?;
    Ok((lines_of(Box::new(out)), lines_of(Box::new(err))))
}

/// Monitors a child. The error is the case that failed, and the reason.
fn watch(a: &Arguments, lines: &Receiver<String>, first: u64, totals: &mut Totals) -> Result<(), (u64, String)> {
    let mut case = first;
    let mut step = String::from("preparing");
    let mut mode = String::new();
    let mut began = Instant::now();
    loop {
        // The survey of the undamaged image precedes the first case and may take longer.
        let seconds = if step == "preparing" { 120 } else { STEP_SECONDS } * a.patience;
        let line = match lines.recv_timeout(Duration::from_secs(seconds)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err((case, format!("{mode}: '{step}' takes longer than {seconds} s")));
            }
            Err(RecvTimeoutError::Disconnected) if step == "done" => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err((case, format!("{mode}: ended in '{step}'"))),
        };
        if step != "preparing" {
            totals.slowest = totals.slowest.max(began.elapsed());
        }
        began = Instant::now();
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "case" => {
                case = rest.parse().unwrap_or(case);
                step = "case".into();
            }
            "step" => {
                if step == "case" {
                    mode = rest.to_owned();
                }
                step = rest.to_owned();
            }
            "wrong" => return Err((case, format!("{mode}: wrong answer: {rest}"))),
            "done" => {
                step = "done".into();
                let numbers: Vec<u64> = rest.split(' ').filter_map(|n| n.parse().ok()).collect();
                let [opened, errors, memory_kb] = numbers[..] else { continue };
                totals.cases += 1;
                totals.opened += opened;
                totals.with_errors += u64::from(errors > 0);
                totals.memory_peak_kb = totals.memory_peak_kb.max(memory_kb);
                if memory_kb > MEMORY_MAX_KB {
                    return Err((case, format!("{mode}: {} MB of memory", memory_kb >> 10)));
                }
            }
            _ => {}
        }
    }
}
