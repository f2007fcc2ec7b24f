//! Prints the trees of the pools on the given devices or directories, in the format of the recipe
//! that records them.

use oracle::{datasets::Opened, tree};
use pool::search;
use std::io::Write;

fn main() -> anyhow::Result<()> {
    let places: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let mut out = std::io::stdout().lock();
    for found in &search(&places).pools {
        writeln!(out, "pool {} {}", found.name(), found.guid)?;
        let opened = Opened::new(found, None)?;
        for dataset in opened.datasets()? {
            writeln!(out, "dataset {}", dataset.name())?;
            match opened.files(&dataset).and_then(|files| tree::tree(&*files, &Default::default())) {
                Ok(lines) => lines.iter().try_for_each(|line| out.write_all(&[line, &b"\n"[..]].concat()))?,
                Err(e) => writeln!(out, "  {e:#}")?,
            }
        }
    }
    Ok(())
}
