//! `weir cat`: writes files of a pool to standard output.

use super::ls::is_broken_pipe;
use crate::exit_code::{SOME_FAILED, USAGE};
use crate::source::{self, Opener, Spec};
use crate::tree;
use anyhow::{Result, bail};
use clap::{Arg, ArgMatches, value_parser};
use files::vfs::{Attr, FileKind, Vfs};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;

/// Size of one read, and number of pieces buffered for the writer: enough to read the next one
/// while one is written.
const PIECE_BYTES: usize = 1 << 20;
const PIECES_AHEAD: usize = 4;

/// Options of `weir cat`.
pub fn command() -> clap::Command {
    clap::Command::new("cat")
        .about("Write files of a pool to standard output")
        .arg(
            Arg::new("source")
                .value_name("POOL/DATASET[@SNAPSHOT]:/path")
                .help("The files to write")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(OsString)),
        )
        .args(source::args())
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut opener = Opener::new(matches);
    // Standard output itself, without Rust's line buffer.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut failed = false;
    for argument in source::operands(matches, "source") {
        let spec = match Spec::parse(&argument) {
            Ok(spec) => spec,
            Err(e) => {
                eprintln!("weir cat: {e:#}");
                return Ok(ExitCode::from(USAGE));
            }
        };
        let result = opener.open(&spec.dataset).and_then(|vfs| {
            let attr = tree::resolve(&*vfs, &spec.path, true)?;
            write_file(&*vfs, &attr, &mut out)
        });
        match result {
            Err(e) if is_broken_pipe(&e) => return Ok(ExitCode::SUCCESS),
            Err(e) => {
                eprintln!("weir cat: {spec}: {e:#}");
                failed = true;
            }
            Ok(()) => {}
        }
    }
    Ok(if failed { ExitCode::from(SOME_FAILED) } else { ExitCode::SUCCESS })
}

/// Writes a whole file, or up to the first byte that cannot be read.
fn write_file(vfs: &dyn Vfs, attr: &Attr, out: &mut dyn Write) -> Result<()> {
    match attr.kind {
        FileKind::Regular => {}
        FileKind::Directory => bail!("is a directory"),
        _ => bail!("is neither a file nor a volume"),
    }
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<errors::Result<_>>(PIECES_AHEAD);
        scope.spawn(move || {
            let mut offset = 0;
            while offset < attr.size {
                let piece = vfs.read(attr.node, offset, PIECE_BYTES);
                let len = piece.as_ref().map_or(0, |p| p.len() as u64);
                offset += len;
                // The writer has ended, or this was the last piece.
                if sender.send(piece).is_err() || len == 0 {
                    break;
                }
            }
        });
        for piece in receiver {
            out.write_all(&piece?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;

    #[test]
    fn a_file_comes_out_up_to_its_damage() {
        let mut t = MemoryVfs::new();
        let data: Vec<u8> = (0..(5 << 20) + 77_u32).map(|i| (i % 251) as u8).collect();
        let file = t.add_file(t.root(), "f", data.clone());
        let attr = t.attr(file).expect("made");
        let mut out = Vec::new();
        write_file(&t, &attr, &mut out).expect("whole");
        assert_eq!(out, data);
        t.break_range(file, 3 << 20..4 << 20, errors::Error::corrupt("record", "bad"));
        out.clear();
        write_file(&t, &attr, &mut out).expect_err("damaged");
        assert_eq!(out, data[..3 << 20]);
    }
}
