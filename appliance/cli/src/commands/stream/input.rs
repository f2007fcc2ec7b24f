//! The stream that a command reads: a file or standard input.

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgMatches, value_parser};
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Bytes read at a time: several records of 128 KiB.
const READ_BYTES: usize = 1 << 20;

/// The argument that names the stream.
pub(super) fn file_arg() -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .default_value("-")
        .help("The saved stream; '-' is standard input")
}

/// Opens the stream named on the command line.
pub(super) fn open(matches: &ArgMatches) -> Result<Box<dyn Read>> {
    let path = matches.get_one::<PathBuf>("file").expect("it has a default");
    if path == Path::new("-") {
        if io::stdin().is_terminal() {
            bail!("a send stream cannot be read from a terminal: name a file, or redirect standard input");
        }
        return Ok(Box::new(BufReader::with_capacity(READ_BYTES, io::stdin().lock())));
    }
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(Box::new(BufReader::with_capacity(READ_BYTES, file)))
}
