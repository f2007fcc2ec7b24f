//! `step`, `clients`, `vdb`, `fio`, `profile`, `disks`, `draw`.

use super::kinds;
use super::output::{Output, SOME_FAILED, print_clients, with_output};
use crate::clients::{self, Clients};
use crate::draw::{Axis, Bitmap, Drawing, duration};
use crate::drive::Report;
use crate::fio;
use crate::flow::{Flow, Format, profile};
use crate::number::size_argument as size;
use crate::pattern::Kind;
use crate::run::{Arrivals, Plan, Steps, together};
use crate::target::Target;
use crate::vdb::{self, Changes};
use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn place(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(value).required(true).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(super) fn commands() -> Vec<Command> {
    vec![
        kinds::step_command(),
        clients_command(),
        vdb_command(),
        fio_command(),
        profile_command(),
        disks_command(),
        draw_command(),
    ]
}

pub(crate) fn clients_command() -> Command {
    Command::new("clients")
        .about("Run the same load on many machines over ssh, starting at the same time")
        .long_about(
            "Runs 'weir load …' on each machine of a list. Each connects and creates its files, then waits; when all are ready they start \
             together. %h in LOAD is replaced by the machine's name, so that each can have its own share or file.",
        )
        .arg(option("file", "LIST", "File that lists the machines, one per line").short('f').required(true).value_parser(value_parser!(PathBuf)))
        .arg(option("rsh", "COMMAND", "Command that runs a command line on a machine").default_value("ssh -o BatchMode=yes"))
        .arg(option("program", "PATH", "The program on each machine").default_value("weir"))
        .arg(flag("json", "Print the results of each client as JSON").short('j'))
        .arg(Arg::new("line").value_name("LOAD").required(true).num_args(1..).trailing_var_arg(true).allow_hyphen_values(true).help("Arguments of 'weir load' on each machine: 'randread nfs://filer/tank/%h …'"))
}

pub(crate) fn vdb_command() -> Command {
    with_output(
        Command::new("vdb")
            .about("Run a vdbench parameter file: file systems (fsd), workloads (fwd), runs (rd)")
            .arg(place("file", "FILE", "The parameter file").value_parser(value_parser!(PathBuf)))
            .arg(Arg::new("variable").value_name("NAME=VALUE").num_args(0..).help("Values of $NAME in the file"))
            .arg(
                option("scale", "FACTOR", "Factor for the number of files, the rate and the time")
                    .value_parser(value_parser!(f64)),
            )
            .arg(
                option("anchor", "FSD=TARGET", "Directory or nfs:// URL to use for a file system of the file")
                    .action(ArgAction::Append),
            )
            .arg(option("elapsed", "TIME", "Duration of each run, instead of that of the file").value_parser(duration))
            .arg(option("rate", "N", "Rate of each run, instead of that of the file").value_parser(value_parser!(f64)))
            .arg(
                option(
                    "format",
                    "HOW",
                    "Files to create before a run: all again (yes), missing ones (restart), none (no)",
                )
                .value_parser(["yes", "no", "restart", "only"]),
            )
            .arg(
                option("seed", "N", "Seed: the same seed gives the same operations")
                    .default_value("1")
                    .value_parser(value_parser!(u64)),
            ),
    )
}

fn fio_command() -> Command {
    Command::new("fio")
        .about("Run a fio job file, limited to operations, targets, sizes and rates")
        .arg(place("file", "FILE", "The job file").value_parser(value_parser!(PathBuf)))
        .arg(flag("json", "Print the results of each job as JSON").short('j'))
}

pub(crate) fn profile_command() -> Command {
    let names = profile::ALL.map(|(name, _)| name);
    let list: Vec<String> = profile::ALL.iter().map(|(name, about)| format!("{name}: {about}")).collect();
    with_output(
        Command::new("profile")
            .about("Generate the load of a mail server, file server, database, desktops, build …")
            .long_about(format!(
                "Creates files below TARGET, a directory or nfs:// URL, and works on them.\n\n{}",
                list.join("\n")
            ))
            .arg(place("name", "NAME", "Which").value_parser(names))
            .arg(place("target", "TARGET", "Directory of its files, created if missing"))
            .arg(
                option("scale", "FACTOR", "Factor for the number of files")
                    .default_value("1")
                    .value_parser(value_parser!(f64)),
            )
            .arg(option("seconds", "N", "Duration in seconds").default_value("60").value_parser(value_parser!(f64)))
            .arg(
                option("ramp", "N", "Seconds at the start that are not counted")
                    .default_value("0")
                    .value_parser(value_parser!(f64)),
            )
            .arg(option("rate", "N", "Operations per second, all threads together").value_parser(value_parser!(f64)))
            .arg(flag("poisson", "Start operations independently (Poisson), not at equal intervals").requires("rate"))
            .arg(flag("sync", "Writes are on stable storage when they are acknowledged"))
            .arg(flag("direct", "Use direct I/O for files, bypassing the memory of this machine (O_DIRECT)"))
            .arg(
                option("compressible", "PERCENT", "Percentage of zero bytes in written data")
                    .default_value("0")
                    .value_parser(value_parser!(u8).range(0..=100)),
            )
            .arg(
                option("seed", "N", "Seed: the same seed gives the same operations")
                    .default_value("1")
                    .value_parser(value_parser!(u64)),
            ),
    )
}

fn disks_command() -> Command {
    with_output(
        Command::new("disks")
            .about(
                "Read disks sequentially, one more every few seconds, so that activity lights show where each disk is",
            )
            .arg(
                Arg::new("disk")
                    .value_name("DISK")
                    .required(true)
                    .num_args(1..)
                    .help("Devices, or image files; they are only read"),
            )
            .arg(flag("light-up", "Add one disk after another, and read all concurrently").required(true))
            .arg(
                option("every", "TIME", "Time until the next disk is added").default_value("5s").value_parser(duration),
            )
            .arg(option("size", "SIZE", "Size of a read").default_value("128K").value_parser(size)),
    )
}

fn draw_command() -> Command {
    Command::new("draw")
        .about("Draw a text into the heat maps of the server's offsets, sizes or latencies")
        .arg(option("offset", "TEXT", "Draw with the offsets of reads").num_args(0..=1).default_missing_value(""))
        .arg(
            option("draw-size", "TEXT", "Draw with the sizes of reads")
                .long("size")
                .num_args(0..=1)
                .default_missing_value(""),
        )
        .arg(
            option("latency", "TEXT", "Draw with the latencies of reads; measures for some seconds first")
                .num_args(0..=1)
                .default_missing_value(""),
        )
        .group(ArgGroup::new("axis").args(["offset", "draw-size", "latency"]).required(true))
        .arg(place("target", "TARGET", "A local file, or an nfs:// URL"))
        .arg(option("bitmap", "FILE", "Draw this picture (PBM) instead of a text").value_parser(value_parser!(PathBuf)))
        .arg(option("duration", "TIME", "Duration [default: a second per column]").value_parser(duration))
        .arg(option("file-size", "SIZE", "First extend the file to this size").default_value("64M").value_parser(size))
        .arg(option("largest", "SIZE", "The largest read").default_value("1M").value_parser(size))
        .arg(option("reads", "N", "Number of reads per pixel").default_value("24").value_parser(value_parser!(u64)))
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Result<ExitCode> {
    match name {
        "step" => kinds::step(matches),
        "clients" => run_clients(matches),
        "vdb" => run_vdb(matches),
        "fio" => run_fio(matches),
        "profile" => run_profile(matches),
        "disks" => run_disks(matches),
        "draw" => run_draw(matches),
        other => bail!("no load is named {other}"),
    }
}

fn path<'a>(matches: &'a ArgMatches, name: &str) -> &'a Path {
    matches.get_one::<PathBuf>(name).map_or(Path::new(""), PathBuf::as_path)
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn code(failed: bool) -> ExitCode {
    if failed { ExitCode::from(SOME_FAILED) } else { ExitCode::SUCCESS }
}

/// The clients of a list, and the words after 'weir load' for each.
pub(crate) fn clients(matches: &ArgMatches) -> Result<(Clients, Vec<String>)> {
    let words = |name: &str| -> Vec<String> {
        let text = matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let mut line = words("program");
    line.push("load".to_owned());
    let load: Vec<String> = matches.get_many::<String>("line").into_iter().flatten().cloned().collect();
    line.extend(load.iter().cloned());
    line.push("--await-go".to_owned());
    Ok((Clients { hosts: clients::hosts(&text(path(matches, "file"))?), shell: words("rsh"), line }, load))
}

fn run_clients(matches: &ArgMatches) -> Result<ExitCode> {
    let all = clients(matches)?.0.run()?;
    let reports: Vec<Report> = all.iter().map(|c| c.report.clone()).collect();
    let together = Report::merged(&reports).context("no clients")?;
    if matches.get_flag("json") {
        let each = all
            .iter()
            .map(|c| json!({ "host": c.host, "began_late_us": c.began_late_us, "report": c.report.json("client") }));
        println!("{}", json!({ "clients": each.collect::<Vec<_>>(), "all": together.json("clients") }));
    } else {
        print_clients(&all);
        print!("{}", together.text(&format!("{} clients", all.len())));
    }
    Ok(code(together.failed > 0))
}

/// The runs of a parameter file, modified by options.
pub(crate) fn vdb_runs(matches: &ArgMatches) -> Result<Vec<vdb::Run>> {
    let pairs = |name: &str| -> Result<Vec<(String, String)>> {
        let pairs = matches.get_many::<String>(name).into_iter().flatten();
        let pair = |t: &String| {
            let (name, value) = t.split_once('=').with_context(|| format!("'{t}' is not NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        pairs.map(pair).collect()
    };
    let anchors = pairs("anchor")?.into_iter().map(|(name, t)| Ok((name, t.parse::<Target>()?)));
    let changes = Changes {
        scale: matches.get_one("scale").copied(),
        anchors: anchors.collect::<Result<_>>()?,
        elapsed: matches.get_one("elapsed").copied(),
        rate: matches.get_one("rate").copied(),
        format: matches.get_one("format").cloned(),
        variables: pairs("variable")?.into_iter().collect(),
        seed: matches.get_one("seed").copied().unwrap_or(1),
    };
    vdb::read(path(matches, "file"), &changes)
}

fn run_vdb(matches: &ArgMatches) -> Result<ExitCode> {
    let runs = vdb_runs(matches)?;
    let output = Output { matches };
    let mut failed = false;
    for run in &runs {
        std::thread::sleep(run.pause);
        let chosen: String = run.chosen.iter().map(|(w, v)| format!(" {w}={v}")).collect();
        let name = format!("{}{chosen}", run.name);
        if run.only_format {
            let make = Flow { time: Some(Duration::from_millis(1)), arrivals: Arrivals::Closed, ..run.flow.clone() };
            output.watched(|control| make.run(control))?;
            println!("{name}: {} files created", run.flow.filesets.iter().map(|s| s.count()).sum::<u64>());
            continue;
        }
        let report = output.watched(|control| run.flow.run(control))?;
        failed |= output.finish(&name, &report)? != ExitCode::SUCCESS;
    }
    Ok(code(failed))
}

fn run_fio(matches: &ArgMatches) -> Result<ExitCode> {
    let path = path(matches, "file");
    let stages = fio::parse(&text(path)?).with_context(|| path.display().to_string())?;
    let mut failed = false;
    for stage in &stages {
        for ((name, _), report) in stage.iter().zip(together(stage, &AtomicBool::new(false))?) {
            failed |= report.failed > 0;
            if matches.get_flag("json") { println!("{}", report.json(name)) } else { print!("{}", report.text(name)) }
        }
    }
    Ok(code(failed))
}

/// A profile's name, and its flow.
pub(crate) fn profile_flow(matches: &ArgMatches) -> Result<(String, Flow)> {
    let number = |name: &str| matches.get_one::<f64>(name).copied();
    let time =
        |name: &str| Duration::try_from_secs_f64(number(name).unwrap_or(0.0)).with_context(|| format!("--{name}"));
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let name = word("name");
    let mut flow =
        profile::named(name, &word("target").parse()?, number("scale").unwrap_or(1.0)).context("no such profile")?;
    flow.ramp = time("ramp")?;
    flow.time = Some(time("seconds")? + flow.ramp);
    flow.arrivals = match number("rate") {
        None => Arrivals::Closed,
        Some(rate) if matches.get_flag("poisson") => Arrivals::Poisson(rate),
        Some(rate) => Arrivals::Even(rate),
    };
    flow.format = Format::Fill;
    flow.access.sync |= matches.get_flag("sync");
    flow.access.direct = matches.get_flag("direct");
    flow.access.zeros = matches.get_one("compressible").copied().unwrap_or(0);
    flow.seed = matches.get_one("seed").copied().unwrap_or(1);
    Ok((name.to_owned(), flow))
}

fn run_profile(matches: &ArgMatches) -> Result<ExitCode> {
    let (name, flow) = profile_flow(matches)?;
    let output = Output { matches };
    let report = output.watched(|control| flow.run(control))?;
    output.finish(&name, &report)
}

fn run_disks(matches: &ArgMatches) -> Result<ExitCode> {
    let disks: Vec<&String> = matches.get_many::<String>("disk").into_iter().flatten().collect();
    let every = matches.get_one::<Duration>("every").copied().unwrap_or(Duration::from_secs(5));
    for disk in &disks {
        // Otherwise a missing file would be created.
        ensure!(Path::new(disk).exists(), "{disk}: no such device or file");
    }
    let plan = Plan {
        kind: Kind::SeqRead,
        targets: disks.iter().map(|d| Target::Path(PathBuf::from(d))).collect(),
        size: matches.get_one::<u64>("size").copied().unwrap_or(128 << 10),
        threads: disks.len(),
        time: Some(every * u32::try_from(disks.len() + 1)?),
        direct: true,
        steps: Some(Steps { from: 1, every }),
        ..Plan::default()
    };
    for (n, disk) in disks.iter().enumerate() {
        eprintln!("{:>6.1} s: {disk} joins", every.as_secs_f64() * n as f64);
    }
    let output = Output { matches };
    let report = output.watched(|control| plan.run_with(control))?;
    output.finish("disks", &report)
}

fn run_draw(matches: &ArgMatches) -> Result<ExitCode> {
    let axes = [("offset", Axis::Offset), ("draw-size", Axis::Size), ("latency", Axis::Latency)];
    let selected = axes.iter().find_map(|(name, axis)| Some((*axis, matches.get_one::<String>(name)?)));
    let (axis, words) = selected.context("none of --offset, --size, --latency")?;
    let bitmap = match matches.get_one::<PathBuf>("bitmap") {
        Some(path) => Bitmap::pbm(&std::fs::read(path).with_context(|| path.display().to_string())?)?,
        None => Bitmap::text(words)?,
    };
    let second = Duration::from_secs(1);
    let columns = u32::try_from(bitmap.width())?;
    let column = matches.get_one::<Duration>("duration").map_or(second, |d| *d / columns);
    ensure!(
        column >= second,
        "the text has {columns} columns, and heat maps have one per second: use --duration {columns}s or a shorter text"
    );
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(0);
    let drawing = Drawing {
        target: matches.get_one::<String>("target").context("no target")?.parse()?,
        axis,
        bitmap,
        column,
        file_size: number("file-size"),
        largest: number("largest"),
        reads: number("reads"),
    };
    let (reads, late) = drawing.draw(&AtomicBool::new(false))?;
    println!("{reads} reads in {} columns of {:.1} s", columns, column.as_secs_f64());
    if late > 0 {
        println!("{late} columns started late: the reads took too long; use fewer --reads");
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::super::command;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
        let line = ["load", "step", "--from", "1", "--to", "3", "--every", "2s", "randread", "/x", "--size", "4K"];
        assert!(command().try_get_matches_from(line).is_ok());
        let line = ["load", "clients", "-f", "list", "randread", "nfs://f/%h", "--threads", "4"];
        assert!(command().try_get_matches_from(line).is_ok());
        assert!(command().try_get_matches_from(["load", "draw", "--size", "WEIR", "/x"]).is_ok());
        assert!(command().try_get_matches_from(["load", "draw", "/x"]).is_err());
        assert!(command().try_get_matches_from(["load", "profile", "mailserver", "/x"]).is_err());
    }
}
