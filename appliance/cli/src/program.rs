//! The program, and the names under which it can be called.
//!
//! Called through a link named `zpool`, `zfs`, `beadm`, `bectl`, `arcstat`, `zarcstat`,
//! `arcsummary`, `arc_summary`, `zarcsummary`, `zilstat` or `nicstat`, it is that command. `weir
//! zpool …`, `weir zfs …`, `weir beadm …` and `weir bectl …` are the same; everything else is one
//! of Weir's own verbs, some of which another program has ([`handover`]).

use crate::context::Context;
use crate::dispatch::{dispatch, in_posix_order, is_help, runs_here};
use crate::state_option::choose_state;
use crate::{beadm, commands, handover, zfs, zpool};
use admin::state::State;
use std::ffi::OsString;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    host::memory::tune();
    let args: Vec<OsString> = std::env::args_os().collect();
    let called = args.first().and_then(|a| Path::new(a).file_name()).and_then(|n| n.to_str()).unwrap_or("weir");
    let rest = args.get(1..).unwrap_or_default();
    if is_face(called) {
        let code = face(called, rest);
        abort_by_request();
        return code;
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
    let all = rest;
    let rest = match choose_state(rest) {
        Ok(rest) => rest,
        Err(code) => return code,
    };
    match rest {
        _ if handover::is_handed_over(rest) => handover::hand_over(all),
        [name, rest @ ..] if name.to_str().is_some_and(is_face) => face(&name.to_string_lossy(), rest),
        // `weir help zpool create` is `weir zpool help create`.
        [help, name, rest @ ..] if help == "help" && name.to_str().is_some_and(is_face) => {
            let line: Vec<OsString> = std::iter::once(help.clone()).chain(rest.iter().cloned()).collect();
            face(&name.to_string_lossy(), &line)
        }
        _ => commands::main(rest),
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
    let verbs = match face {
        "zpool" => zpool::VERBS,
        "beadm" => beadm::VERBS,
        "bectl" => beadm::BECTL,
        _ => zfs::VERBS,
    };
    if std::env::var_os("POSIXLY_CORRECT").is_some() {
        args = in_posix_order(verbs, args);
    }
    let forwarded = State::of_process().and_then(|state| match face {
        // Any user may read it, even if another user has the pools.
        _ if is_help(verbs, &args) || runs_here(verbs, &args) => Ok((None, state)),
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
    let mut cx = Context::here(&mut out, &mut err, state);
    ExitCode::from(dispatch(&mut cx, face, verbs, &args))
}

/// Ends the process with a core dump if the environment variable `ZFS_ABORT` is set: see zfs(8) and
/// zpool(8) of OpenZFS.
fn abort_by_request() {
    if std::env::var_os("ZFS_ABORT").is_some() {
        println!("dumping core by request");
        std::process::abort();
    }
}
