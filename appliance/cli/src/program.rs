//! The program, and the names under which it can be called.
//!
//! Called through a link named `zpool`, `zfs`, `beadm`, `bectl`, `arcstat`, `zarcstat`,
//! `arcsummary`, `arc_summary`, `zarcsummary`, `zilstat` or `nicstat`, it is that command. `weir
//! zpool …`, `weir zfs …`, `weir beadm …` and `weir bectl …` are the same; everything else is one
//! of Weir's own verbs.

use crate::client::Here;
use crate::context::{Context, dispatch};
use crate::exit_code::USAGE;
use crate::{beadm, commands, zfs, zpool};
use admin::state;
use admin::state::State;
use std::ffi::OsString;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    host::memory::tune();
    let args: Vec<OsString> = std::env::args_os().collect();
    let called = args.first().and_then(|a| Path::new(a).file_name()).and_then(|n| n.to_str()).unwrap_or("weir");
    let rest = args.get(1..).unwrap_or_default();
    if is_face(called) {
        return face(called, rest);
    }
    // Well-known names of tools, mapped to Weir's names.
    let tool = match called {
        "arcstat" | "zarcstat" => Some("arcstat"),
        "arcsummary" | "arc_summary" | "zarcsummary" => Some("arcsummary"),
        "zilstat" | "nicstat" => Some(called),
        _ => None,
    };
    if let Some(name) = tool {
        let line: Vec<OsString> = std::iter::once(name.into()).chain(rest.iter().cloned()).collect();
        return commands::main(&line);
    }
    let Some((folder, rest)) = split_state(rest) else {
        eprintln!("weir: --state takes a folder");
        return ExitCode::from(USAGE);
    };
    if let Some(folder) = folder {
        state::choose(folder);
    }
    match rest {
        [name, rest @ ..] if name.to_str().is_some_and(is_face) => face(&name.to_string_lossy(), rest),
        _ => commands::main(rest),
    }
}

/// Splits `--state DIR` off the front.
fn split_state(args: &[OsString]) -> Option<(Option<PathBuf>, &[OsString])> {
    let [first, rest @ ..] = args else { return Some((None, args)) };
    if first == "--state" {
        let [folder, rest @ ..] = rest else { return None };
        return Some((Some(folder.into()), rest));
    }
    match first.to_str().and_then(|f| f.strip_prefix("--state=")) {
        Some(folder) => Some((Some(folder.into()), rest)),
        None => Some((None, args)),
    }
}

/// Commands of other systems, whose verbs also run in the process that owns the pools.
fn is_face(name: &str) -> bool {
    matches!(name, "zpool" | "zfs" | "beadm" | "bectl")
}

fn face(face: &str, args: &[OsString]) -> ExitCode {
    let mut args: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    if face == "bectl" {
        args = beadm::split_root(&args);
    }
    let forwarded = State::of_process().and_then(|state| match face {
        // An environment's name does not contain its pool.
        "beadm" | "bectl" => Ok((crate::forward::run_anywhere(&state, face, &args)?, state)),
        _ => Ok((crate::forward::run(&state, face, &args)?, state)),
    });
    let (mut out, mut err) = (BufWriter::new(std::io::stdout().lock()), std::io::stderr().lock());
    let state = match forwarded {
        Ok((Some(code), _)) => return ExitCode::from(code),
        Ok((None, state)) => state,
        Err(error) => {
            eprintln!("weir: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let mut cx = Context { out: &mut out, err: &mut err, state, client: &Here, owner: None };
    let verbs = match face {
        "zpool" => zpool::VERBS,
        "beadm" => beadm::VERBS,
        "bectl" => beadm::BECTL,
        _ => zfs::VERBS,
    };
    ExitCode::from(dispatch(&mut cx, face, verbs, &args))
}
