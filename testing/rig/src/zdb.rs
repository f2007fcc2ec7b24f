//! Asks OpenZFS's zdb about a pool in a folder of image files. If zdb is not installed, the answer
//! is `None`, and a line on standard output says so.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Exit code of both scripts if zdb is not installed.
const NOT_INSTALLED: i32 = 77;
/// Lines of the output that an error quotes.
const QUOTED_LINES: usize = 100;

/// Checks the pool with `testing/zdb`: no bad checksums, no leaks, correct feature counts, in a
/// checkpoint as well. Returns zdb's output; an error says what zdb found wrong.
pub fn check(folder: &Path, pool: &str) -> Result<Option<String>> {
    answer(Command::new(CHECK).arg(folder).arg(pool))
}

/// The same without the structures: only checksums and space, for a pool that zdb reports errors in
/// as OpenZFS left it.
pub fn check_blocks(folder: &Path, pool: &str) -> Result<Option<String>> {
    answer(Command::new(CHECK).arg(folder).arg(pool).env("ZDB_BLOCKS_ONLY", "yes"))
}

/// zdb's output with these arguments; an error if it fails.
pub fn run(folder: &Path, args: &[impl AsRef<OsStr>]) -> Result<Option<String>> {
    answer(Command::new(RUN).args(["-e", "-p"]).arg(folder).args(args))
}

const CHECK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../zdb");
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../run-zdb");

fn answer(command: &mut Command) -> Result<Option<String>> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(Some(text)),
        Some(NOT_INSTALLED) => {
            print!("{text}");
            Ok(None)
        }
        _ => {
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n");
            bail!("{command:?}: {}\n{tail}", output.status)
        }
    }
}
