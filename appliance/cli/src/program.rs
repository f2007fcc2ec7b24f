//! The program: which of its faces a call means.
//!
//! Called through a link named `zpool`, `zfs`, `arcstat`, `zarcstat`, `zilstat` or `nicstat` it is that command; `weir zpool …` and `weir zfs …` are the same; everything
//! else is one of Weir's own verbs.

use crate::client::Here;
use crate::context::{Context, dispatch};
use crate::state::{self, State};
use crate::{commands, zfs, zpool};
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
    if matches!(called, "zpool" | "zfs") {
        return openzfs(called, rest);
    }
    if matches!(called, "arcstat" | "zarcstat" | "zilstat" | "nicstat") {
        let name = if called == "zarcstat" { "arcstat" } else { called };
        let line: Vec<OsString> = std::iter::once(name.into()).chain(rest.iter().cloned()).collect();
        return commands::main(&line);
    }
    let Some((folder, rest)) = split_state(rest) else {
        eprintln!("weir: --state takes a folder");
        return ExitCode::from(commands::USAGE);
    };
    if let Some(folder) = folder {
        state::choose(folder);
    }
    match rest {
        [face, rest @ ..] if face == "zpool" || face == "zfs" => openzfs(&face.to_string_lossy(), rest),
        _ => commands::main(rest),
    }
}

/// Takes `--state DIR` off the front.
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

fn openzfs(face: &str, args: &[OsString]) -> ExitCode {
    let args: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    // A stream is bytes, and what goes from process to process is text: who reads snapshots does it by himself.
    let is_here = face == "zfs" && args.first().is_some_and(|verb| verb == "send");
    let forwarded = State::of_process().and_then(|state| match is_here {
        true => Ok((None, state)),
        false => Ok((crate::forward::run(&state, face, &args)?, state)),
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
    let verbs = if face == "zpool" { zpool::VERBS } else { zfs::VERBS };
    ExitCode::from(dispatch(&mut cx, face, verbs, &args))
}
