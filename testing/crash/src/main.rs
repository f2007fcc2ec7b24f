//! crash [seed=N] [kills=N] [threads=N] [zdb=N] [keep=FOLDER] [weir=PROGRAM] [LAYOUT]...: runs that
//! many kills with each layout (default: all). With weir=PROGRAM, kills that program's `mount`.
//!
//! For scripts that kill under a load of their own: crash create LAYOUT FOLDER creates a pool;
//! crash serve LAYOUT FOLDER DIRECTORY MILLISECONDS mounts it and prints `up`; crash judge LAYOUT
//! FOLDER verifies it.

use anyhow::{Context, Result};
use crash::{LAYOUTS, Layout, Plan};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, layout, folder, dir, interval] = args.as_slice()
        && word == "serve"
    {
        let interval = Duration::from_millis(interval.parse()?);
        crash::serve::serve(&Layout::find(layout)?, Path::new(folder), Path::new(dir), interval)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [word, layout, folder] = args.as_slice()
        && word == "create"
    {
        crash::serve::create(&Layout::find(layout)?, Path::new(folder))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let [word, layout, folder] = args.as_slice()
        && word == "judge"
    {
        crash::serve::verify(&Layout::find(layout)?, Path::new(folder))?;
        crash::serve::zdb(Path::new(folder))?;
        return Ok(ExitCode::SUCCESS);
    }
    let number = |name: &str, otherwise: u64| -> Result<u64> {
        let given = args.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
        given.map_or(Ok(otherwise), |n| n.parse().with_context(|| format!("{name}={n}")))
    };
    let seed = number("seed", SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let (kills, threads, zdb_every) = (number("kills", 20)?, number("threads", 4)?, number("zdb", 10)?);
    let named: Vec<&String> = args.iter().filter(|a| !a.contains('=')).collect();
    let layouts: Vec<Layout> = match named.as_slice() {
        [] => LAYOUTS.to_vec(),
        some => some.iter().map(|name| Layout::find(name)).collect::<Result<_>>()?,
    };
    let keep = args.iter().find_map(|a| a.strip_prefix("keep="));
    let weir = args.iter().find_map(|a| a.strip_prefix("weir=")).map(|p| Path::new(p).canonicalize()).transpose()?;
    for layout in layouts {
        let temporary = tempfile::tempdir()?;
        let folder = temporary.path().canonicalize()?;
        let program = std::env::current_exe()?;
        let plan =
            Plan { program, weir: weir.clone(), folder: folder.clone(), layout, seed, kills, threads, zdb_every };
        let began = Instant::now();
        match plan.run() {
            Ok(t) => println!(
                "{:<22} seed {seed}: {} kills, {} more while opening; {} operations, {} synced, none lost; zdb {} times: no leaks; {:.0} s",
                layout.name,
                t.kills.0,
                t.kills.1,
                t.operations.0,
                t.operations.1,
                t.judged,
                began.elapsed().as_secs_f64()
            ),
            Err(e) => {
                if let Some(to) = keep {
                    std::fs::create_dir_all(to)?;
                    std::process::Command::new("cp")
                        .args(["-r", "--sparse=always"])
                        .arg(folder.join("disks"))
                        .arg(to)
                        .status()?;
                }
                eprintln!("{e:#}");
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
