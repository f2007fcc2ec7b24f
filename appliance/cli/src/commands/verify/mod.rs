//! `weir verify`: reads every copy and every parity column of every block of a pool, decrypts and
//! decompresses each block, compares the space maps with the space in use and the accounting with
//! the blocks, and reports errors with the next step.
//!
//! Exit code: 0 clean, 1 damaged but readable, 2 data lost (or a pool that cannot be opened because
//! of damage), 3 could not run.

mod json;
mod text;

use crate::source::{self, Opener};
use admin::verify::Verdict;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use pool::scan::{Phase, Progress};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Exit code if verification could not run.
pub const COULD_NOT_RUN: u8 = 3;

/// Options of `weir verify`.
pub fn command() -> clap::Command {
    clap::Command::new("verify")
        .about("Check every block of a pool: all copies, parity, contents, space and accounting")
        .after_help(
            "Exit code: 0 clean; 1 damaged, but all data is readable; 2 data is lost; 3 could not verify.\n\
             Blocks are decrypted and decompressed too: a checksum only proves that a block is what was written. Encrypted blocks\n\
             whose key is not loaded, not given by --key-file or --passphrase-file, and not found at keylocation,\n\
             are checked by checksum only, and counted.\n\
             Nothing is written.",
        )
        .arg(Arg::new("pool").value_name("POOL").required(true).help("The pool's name or number"))
        .arg(
            Arg::new("threads")
                .long("threads")
                .value_name("N")
                .value_parser(value_parser!(u16).range(1..=1024))
                .help("Threads [default: one for each processor]"),
        )
        .arg(
            Arg::new("quiet")
                .short('q')
                .long("quiet")
                .action(ArgAction::SetTrue)
                .help("Print nothing of a pool that is clean, and no progress"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Write one JSON object, for programs"))
        .args(source::args())
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let name = matches.get_one::<String>("pool").expect("clap requires it");
    let (as_json, quiet) = (matches.get_flag("json"), matches.get_flag("quiet"));
    let mut opener = Opener::new(matches);
    if let Err(e) = opener.pool(name) {
        return Ok(cannot_open(name, &e, as_json));
    }
    let pool = opener.opened(name).expect("it was opened above");
    match opener.load_keys(pool) {
        Ok(_) if quiet => {}
        Ok(locked) => {
            locked.iter().for_each(|(root, why)| eprintln!("weir verify: {root}: its key is not loaded: {why:#}"))
        }
        Err(e) => eprintln!("weir verify: {name}: keys are not loaded: {e:#}"),
    }
    let threads = matches.get_one::<u16>("threads").map_or(0, |n| usize::from(*n));
    let bar = if quiet || as_json || !io::stderr().is_terminal() { ProgressBar::hidden() } else { progress_bar() };
    let show_progress = |p: Progress| {
        show(&bar, p);
        true
    };
    let done = admin::verify::verify(pool, threads, &show_progress);
    bar.finish_and_clear();
    let done = match done {
        Ok(done) => done,
        Err(e) => return Ok(cannot_open(name, &e, as_json)),
    };
    if done.verdict != Verdict::Clean && opener.lost().next().is_some() {
        let why = "the pool is nearly full, and the space being verified was reused; try again when it is not \
                   written to";
        return Ok(cannot_open(name, &anyhow::anyhow!(why), as_json));
    }
    let text = match (as_json, quiet && done.verdict == Verdict::Clean) {
        (true, _) => format!("{:#}\n", json::document(&done)),
        (false, true) => String::new(),
        (false, false) => text::report(&done),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e.into()),
        _ => {}
    }
    Ok(ExitCode::from(match done.verdict {
        Verdict::Clean => 0,
        Verdict::Damaged => 1,
        Verdict::Lost => 2,
    }))
}

/// Reports a pool that cannot be opened. Damage counts as lost data; a missing pool does not.
fn cannot_open(name: &str, error: &anyhow::Error, as_json: bool) -> ExitCode {
    let is_damage = matches!(
        error.downcast_ref::<errors::Error>(),
        Some(errors::Error::Corrupt { .. } | errors::Error::Missing { .. })
    );
    if as_json {
        let verdict = if is_damage { "lost" } else { "unknown" };
        println!("{:#}", serde_json::json!({ "pool": name, "verdict": verdict, "error": format!("{error:#}") }));
    }
    eprintln!("weir verify: {error:#}");
    if is_damage && !as_json {
        eprint!("{}", text::cannot_open_advice(name));
    }
    ExitCode::from(if is_damage { 2 } else { COULD_NOT_RUN })
}

fn progress_bar() -> ProgressBar {
    let template = "{msg} {bar:30} {bytes} of {total_bytes} ({binary_bytes_per_sec}, {eta} left)";
    let style = ProgressStyle::with_template(template).expect("the template is fixed").progress_chars("=> ");
    ProgressBar::new(0).with_style(style).with_message("space maps")
}

fn show(bar: &ProgressBar, p: Progress) {
    bar.set_length(p.total_bytes);
    bar.set_position(p.done_bytes);
    bar.set_message(match p.phase {
        Phase::SpaceMaps => "space maps",
        Phase::Blocks => "blocks    ",
        Phase::Compare => "comparing ",
    });
}
