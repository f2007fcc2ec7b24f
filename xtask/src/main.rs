//! Repository tasks: `cargo xtask tidy` checks what the compiler does not ([`tidy`]), `cargo xtask
//! edges` its part about dependencies between crates, `cargo xtask images` unpacks the test pools.

mod edges;
mod images;
mod tidy;

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
        ["tidy"] => tidy::check(&root(), false)?,
        ["tidy", "--strict"] => tidy::check(&root(), true)?,
        ["tidy", "--lower"] => tidy::lower(&root())?,
        ["tidy", "--list", check] => tidy::list(&root(), check)?,
        ["images"] => unpack("testing/images", "target/images")?,
        ["images", from, to] => unpack(from, to)?,
        _ => bail!("usage: cargo xtask tidy [--strict | --lower | --list CHECK] | edges | images [FROM TO]"),
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
