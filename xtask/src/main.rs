//! Repository tasks: `cargo xtask edges` checks the dependencies between crates, `cargo xtask
//! images` unpacks the test pools.

mod edges;
mod images;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["edges"] => {
            let found = edges::violations(&root())?;
            if !found.is_empty() {
                bail!("{}", found.join("\n"));
            }
            println!("every crate uses only what ARCHITECTURE.md allows");
        }
        ["images"] => unpack("testing/images", "target/images")?,
        ["images", from, to] => unpack(from, to)?,
        _ => bail!("usage: cargo xtask edges | images [FROM TO]"),
    }
    Ok(())
}

/// The folder of the workspace. `cargo run` and `cargo test` set the variable.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), |xtask| Path::new(&xtask).join(".."))
}

fn unpack(from: &str, to: &str) -> Result<()> {
    let count = images::unpack(Path::new(from), Path::new(to))?;
    println!("{count} images in {to}");
    Ok(())
}
