//! `weir record`: records the statistics of the machine and of Weir, second by second, into one
//! file.

use anyhow::{Context as _, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::daemon_client::{DaemonClient, when};
use cli::handover::CALLER;
use cli::report;
use record::collect::{self, Source, daemon, machine};
use record::recorder::Recording;
use record::{Meta, Run, folder};
use serve::fuse::Signals;
use std::fs::{File, create_dir_all};
use std::io::{BufWriter, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a recording process to start, and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A duration: `0.5`, `10`, `90s`, `5m`, `2h`.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("invalid time '{text}': expected, for example, 0.5, 10s, 5m or 2h");
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => when::span(text).ok_or_else(wrong)? as f64,
    };
    Duration::try_from_secs_f64(seconds).ok().filter(|t| *t >= Duration::from_millis(10)).ok_or_else(wrong)
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("invalid value '{text}': expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn dir() -> Arg {
    Arg::new("dir")
        .value_name("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The folder of the run; created if it does not exist")
}

fn recording(command: Command) -> Command {
    command
        .arg(dir())
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("TIME")
                .value_parser(time)
                .help("How long to record, such as 5m [default: until stopped]"),
        )
        .arg(
            Arg::new("every")
                .long("every")
                .value_name("TIME")
                .default_value("1")
                .value_parser(time)
                .help("Seconds between rows"),
        )
        .arg(Arg::new("title").long("title").value_name("TEXT").help("Name of the run [default: the folder's name]"))
        .arg(
            Arg::new("about")
                .long("about")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .value_parser(pair)
                .help("A note to store with the run"),
        )
        .arg(
            Arg::new("no-daemon")
                .long("no-daemon")
                .action(ArgAction::SetTrue)
                .help("Record only the machine, without 'weir serve'"),
        )
        .arg(
            Arg::new("text")
                .long("text")
                .action(ArgAction::SetTrue)
                .help("At the end, also write text in the format of vmstat, iostat, nicstat and zpool iostat"),
        )
}

/// Options of `weir record`.
pub fn command() -> Command {
    let file = || {
        Arg::new("dir")
            .value_name("RUN")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("A run's folder or file")
    };
    recording(Command::new("record"))
        .about("Record statistics of the machine and of Weir into one file per run")
        .long_about(
            "Writes a row each second into DIR/record.weirrec: processors, memory, disks, network devices, and all that a running \
             'weir serve' counts; with units and the time on both clocks. Stops after --for, or on ^C. 'weir graph' draws it. The file \
             is described in docs/design/record.md.",
        )
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(recording(Command::new("start")).about("Record in the background, until 'weir record stop'"))
        .subcommand(Command::new("stop").about("Stop the recording into a folder").arg(dir()))
        .subcommand(Command::new("show").about("Describe a run and its columns").arg(file()))
        .subcommand(Command::new("text").about("Write the run as text files to its directory: vmstat.txt, iostat.txt, nicstat.txt, zpool-iostat.txt").arg(file()))
        .subcommand(
            Command::new("csv")
                .about("The rows of a run as CSV, totals as rates")
                .arg(file())
                .arg(Arg::new("column").value_name("COLUMN").action(ArgAction::Append).help("Only these columns, such as disk.read_bytes")),
        )
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let path = |matches: &ArgMatches| matches.get_one::<PathBuf>("dir").cloned().context("DIR is missing");
    match matches.subcommand() {
        None => here(matches, &path(matches)?)?,
        Some(("start", matches)) => start(&path(matches)?)?,
        Some(("stop", matches)) => {
            let path = path(matches)?;
            if !folder::stop(&path, PATIENCE).with_context(|| path.display().to_string())? {
                bail!("no process is recording into {}", path.display());
            }
        }
        Some(("text", matches)) => {
            for file in files(&path(matches)?)? {
                twins(&file)?;
            }
        }
        Some((verb, matches)) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            let columns: Vec<&str> = matches
                .try_get_many::<String>("column")
                .ok()
                .flatten()
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            let mut print = || -> Result<()> {
                for file in files(&path(matches)?)? {
                    let run = Run::open(&file)?;
                    if verb == "csv" {
                        record::show::csv(&run, &columns, &mut out)?
                    } else {
                        record::show::show(&run, &mut out)?
                    }
                }
                Ok(out.flush()?)
            };
            report::quiet(print())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let files = folder::files(path).with_context(|| path.display().to_string())?;
    if files.is_empty() {
        bail!("{}: contains no run", path.display());
    }
    Ok(files)
}

fn twins(file: &Path) -> Result<()> {
    for (name, text) in record::twins::all(&Run::open(file)?) {
        let path = file.with_file_name(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Records on this thread until a signal arrives or the duration of `--for` has passed.
fn here(matches: &ArgMatches, path: &Path) -> Result<()> {
    create_dir_all(path).with_context(|| path.display().to_string())?;
    let Some(_held) = folder::hold(path).with_context(|| path.display().to_string())? else {
        bail!("a process is already recording into {}", path.display());
    };
    let name = path.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
    let title = matches.get_one::<String>("title").cloned().or(name).unwrap_or_default();
    let every = matches.get_one::<Duration>("every").copied().unwrap_or(Duration::from_secs(1));
    let mut meta = Meta::now(&title, every);
    meta.machine = machine::describe();
    for (name, value) in matches.get_many::<(String, String)>("about").into_iter().flatten() {
        meta.about.insert(name.clone(), value.clone().into());
    }
    let signals = Signals::block().context("cannot block signals")?;
    let file = folder::file(path);
    let (recording, orders) = Recording::new(
        &file,
        &meta,
        sources(!matches.get_flag("no-daemon"))?,
        matches.get_one::<Duration>("for").copied(),
    )?;
    signals.each(move |_| orders.stop()).context("cannot wait for signals")?;
    let missed = recording.run()?;
    if missed > 0 {
        eprintln!("weir record: {missed} rows are missing: reading took longer than the time between rows");
    }
    if matches.get_flag("text") { twins(&file) } else { Ok(()) }
}

/// All sources that are recorded.
fn sources(with_daemon: bool) -> Result<Vec<Box<dyn Source>>> {
    let mut sources = collect::machine();
    if with_daemon {
        let daemon = DaemonClient::find()?;
        let ask = move || daemon.metrics_text().map_err(|e| format!("{e:#}"));
        sources.push(Box::new(daemon::Daemon::new(Box::new(ask))));
    }
    Ok(sources)
}

/// Starts a recording process, and waits until it records.
fn start(path: &Path) -> Result<()> {
    create_dir_all(path).with_context(|| path.display().to_string())?;
    let log = path.join("record.log");
    let err = File::create(&log).with_context(|| log.display().to_string())?;
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    // Options such as --state may come before the verb.
    let verb = args
        .iter()
        .position(|a| a == "record")
        .and_then(|at| args.get(at + 1).is_some_and(|a| a == "start").then_some(at + 1));
    args.remove(verb.context("'start' must follow 'record' directly")?);
    let mut child = std::process::Command::new(std::env::current_exe().context("finding the path of this program")?)
        // Its errors are shown below.
        .arg0(CALLER)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(err)
        .process_group(0)
        .spawn()
        .context("cannot start another process")?;
    let begun = Instant::now();
    while folder::holder(path)? != Some(child.id()) {
        if let Some(status) = child.try_wait()? {
            let log_text = std::fs::read_to_string(&log).unwrap_or_default();
            if status.success() {
                return Ok(());
            }
            bail!("{}", log_text.trim().trim_start_matches("weir record: "));
        }
        if begun.elapsed() > PATIENCE {
            bail!("process {} does not start recording; see {}", child.id(), log.display());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("recording into {}, as process {}", path.display(), child.id());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_common_notations() {
        assert_eq!(
            [time("0.5"), time("10s"), time("5m")],
            [Ok(Duration::from_millis(500)), Ok(Duration::from_secs(10)), Ok(Duration::from_secs(300))]
        );
        assert!(["", "0", "-1", "5 m", "1e99"].iter().all(|text| time(text).is_err()));
    }

    #[test]
    fn a_folder_is_recorded_into_unless_a_verb_comes_first() {
        let parse = |line: &[&str]| command().try_get_matches_from(line).expect("understood");
        assert!(parse(&["record", "run", "--for", "5m"]).subcommand().is_none());
        assert_eq!(parse(&["record", "stop", "run"]).subcommand_name(), Some("stop"));
        assert!(command().try_get_matches_from(["record"]).is_err());
    }
}
