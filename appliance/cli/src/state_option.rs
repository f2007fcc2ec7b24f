//! The option `--state DIR` of all programs, which precedes the command.

use crate::exit_code::USAGE;
use admin::state;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The option, for the help.
pub fn state_arg() -> clap::Arg {
    clap::Arg::new("state")
        .long("state")
        .value_name("DIR")
        .help("The state folder, which lists the imported pools; must come first [default: $WEIR_STATE]")
}

/// Chooses the state folder if the arguments begin with `--state DIR`, and returns the rest.
pub fn choose_state(args: &[OsString]) -> Result<&[OsString], ExitCode> {
    let Some((folder, rest)) = split_state(args) else {
        eprintln!("weir: --state takes a folder");
        return Err(ExitCode::from(USAGE));
    };
    if let Some(folder) = folder {
        state::choose(folder);
    }
    Ok(rest)
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
