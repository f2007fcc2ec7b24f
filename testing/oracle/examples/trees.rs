//! Prints the trees of pools on the given devices or folders, in the words of the recipe that records them.

use files::FileSystem;
use files::vfs::Vfs;
use ondisk::ObjsetKind;
use oracle::{datasets::datasets, tree};
use pool::{OpenOptions, Pool, search};
use std::io::Write;

fn main() -> anyhow::Result<()> {
    let places: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let mut out = std::io::stdout().lock();
    for found in &search(&places).pools {
        writeln!(out, "pool {} {}", found.name(), found.guid)?;
        let pool = match Pool::open(found, &OpenOptions::default()) {
            Ok(pool) => pool,
            Err(e) => {
                writeln!(out, "  {e}")?;
                continue;
            }
        };
        for dataset in datasets(&pool)?.into_iter().filter(|d| d.objset.phys().kind == ObjsetKind::FileSystem) {
            writeln!(out, "dataset {}", dataset.name)?;
            let fs = FileSystem::open(dataset.objset, dataset.options)?;
            writeln!(out, "version {} {:?} {:?}", fs.version(), fs.case_sensitivity(), fs.stat_fs(fs.root())?.files)?;
            match tree::tree(&*fs, &Default::default()) {
                Ok(lines) => lines.iter().try_for_each(|line| out.write_all(&[line, &b"\n"[..]].concat()))?,
                Err(e) => writeln!(out, "  {e:#}")?,
            }
        }
    }
    Ok(())
}
