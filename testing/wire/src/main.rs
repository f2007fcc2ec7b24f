//! wire kills [seed=N] [kills=N] [threads=N] [zdb=N] [weir=PROGRAM|cut] [keep=FOLDER] [LAYOUT]...:
//! kills the server under clients that many times in total; `cut` is a power cut of the devices.
//!
//! wire ledger [seed=N] [cuts=N] [clients=N] [zdb=N] [keep=FOLDER] [LAYOUT]...: power cuts under
//! clients of NFSv4.2 and NBD, while properties change.
//!
//! wire load [seconds=N] [weir=PROGRAM] [connections=N] [clients=N] [outstanding=N]: many clients
//! at once.
//!
//! wire mutate [seconds=N] [seed=N] [weir=PROGRAM] [keep=FOLDER]: malformed calls. `wire seeds
//! FOLDER COUNT` writes an initial corpus for fuzzing.

use anyhow::{Context, Result};
use crash::Layout;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::{Server, filer, kills, ledger, load, mutate};

struct Args(Vec<String>);

impl Args {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='))
    }

    fn number(&self, name: &str, otherwise: u64) -> Result<u64> {
        self.text(name).map_or(Ok(otherwise), |n| n.parse().with_context(|| format!("{name}={n}")))
    }

    fn server(&self) -> Result<Server> {
        Ok(match self.text("weir") {
            None => Server::Weir(None),
            Some("cut") => Server::Cut,
            Some(program) => Server::Weir(Some(Path::new(program).canonicalize()?)),
        })
    }
}

fn main() -> Result<ExitCode> {
    if std::env::var_os(filer::AS_WEIR).is_some() {
        // The server must not outlive the judge.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        return Ok(cli::program::main());
    }
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, layout, folder, address, seed, volume @ ..] = args.as_slice()
        && word == "cut"
    {
        let volume = volume.first().map(Path::new);
        wire::cut::serve(&Layout::find(layout)?, Path::new(folder), address.parse()?, seed.parse()?, volume)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [word, folder, count] = args.as_slice()
        && word == "seeds"
    {
        mutate::seeds(Path::new(folder), count.parse()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let word = if args.is_empty() { String::new() } else { args.remove(0) };
    let args = Args(args);
    let seed = args.number("seed", SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let result = match word.as_str() {
        "kills" => kill(&args, seed),
        "ledger" => ledger(&args, seed),
        "load" => load(&args),
        "mutate" => mutate(&args, seed),
        _ => anyhow::bail!("wire kills, wire ledger, wire load or wire mutate? See the top of main.rs."),
    };
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) => {
            eprintln!("{e:#}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn kill(args: &Args, seed: u64) -> Result<()> {
    let named: Vec<&str> = args.0.iter().filter(|a| !a.contains('=')).map(String::as_str).collect();
    let layouts = if named.is_empty() { vec!["single", "mirror", "raidz1", "log"] } else { named };
    let (kills, threads, zdb_every) = (args.number("kills", 20)?, args.number("threads", 4)?, args.number("zdb", 15)?);
    for (n, name) in layouts.iter().enumerate() {
        let temporary = tempfile::tempdir()?;
        let folder = temporary.path().canonicalize()?;
        let kills = kills * (n as u64 + 1) / layouts.len() as u64 - kills * n as u64 / layouts.len() as u64;
        let (program, server, layout) = (std::env::current_exe()?, args.server()?, Layout::find(name)?);
        let plan = kills::Plan { program, server, layout, folder: folder.clone(), seed, kills, threads, zdb_every };
        let began = Instant::now();
        let result = plan.run();
        if let (Err(_), Some(to)) = (&result, args.text("keep")) {
            std::fs::create_dir_all(to)?;
            std::process::Command::new("cp").args(["-r", "--sparse=always"]).arg(folder.join(".")).arg(to).status()?;
        }
        let t = result?;
        println!(
            "{name:<10} seed {seed}: {} {}, {} more while opening; {} calls, {:.1} MB acknowledged, none lost; {} writes and {} changes of names sent again; judged {} times, by zdb {}; {:.0} s",
            t.kills.0,
            if args.text("weir") == Some("cut") { "power cuts" } else { "kills" },
            t.kills.1,
            t.calls,
            t.bytes as f64 / 1e6,
            t.sent_again,
            t.done_again,
            t.judged,
            t.zdb,
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn ledger(args: &Args, seed: u64) -> Result<()> {
    let named: Vec<&str> = args.0.iter().filter(|a| !a.contains('=')).map(String::as_str).collect();
    let layouts = if named.is_empty() { vec!["single", "raidz1", "log", "encrypted"] } else { named };
    let (cuts, clients, zdb_every) = (args.number("cuts", 20)?, args.number("clients", 3)?, args.number("zdb", 10)?);
    for (n, name) in layouts.iter().enumerate() {
        let temporary = tempfile::tempdir()?;
        let folder = temporary.path().canonicalize()?;
        let cuts = cuts * (n as u64 + 1) / layouts.len() as u64 - cuts * n as u64 / layouts.len() as u64;
        let (program, layout) = (std::env::current_exe()?, Layout::find(name)?);
        let plan = ledger::Plan { program, layout, folder: folder.clone(), seed, cuts, clients, zdb_every };
        let began = Instant::now();
        let result = plan.run();
        if let (Err(_), Some(to)) = (&result, args.text("keep")) {
            std::fs::create_dir_all(to)?;
            std::process::Command::new("cp").args(["-r", "--sparse=always"]).arg(folder.join(".")).arg(to).status()?;
        }
        println!("{name:<10} seed {seed}: {}; {:.0} s", result?, began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn load(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let plan = load::Plan {
        program: std::env::current_exe()?,
        server: args.server()?,
        folder: folder.path().canonicalize()?,
        time: Duration::from_secs(args.number("seconds", 60)?),
        connections: args.number("connections", 1000)? as usize,
        clients: args.number("clients", 50)? as usize,
        outstanding: args.number("outstanding", 16)? as usize,
        reads_percent: args.number("reads", 80)?,
    };
    let report = plan.run()?;
    println!("{report}");
    report.check(args.number("slowest", 0)?)
}

fn mutate(args: &Args, seed: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let plan = mutate::Plan {
        program: std::env::current_exe()?,
        server: args.server()?,
        folder: folder.path().canonicalize()?,
        seed,
        time: Duration::from_secs(args.number("seconds", 60)?),
        keep: args.text("keep").map(Into::into),
    };
    println!("{}", plan.run()?);
    Ok(())
}
