//! Every file of pools that the kernel module made is what the kernel said it is.
//!
//! Goal: type, mode, owner, size, time, links, target, contents, extended attributes and ACLs of every dataset and snapshot.
//! Method: `WEIR_FIXTURES` is a folder with the unpacked devices as SCENARIO/DEVICE, `WEIR_EXPECTED` (or the same folder) one
//! with what was recorded, as SCENARIO/tree/DATASET.

use anyhow::{Result, ensure};
use files::vfs::Vfs;
use files::{FileSystem, Volume};
use ondisk::ObjsetKind;
use oracle::datasets::{Found, datasets};
use oracle::{recorded, tree};
use pool::{OpenOptions, Pool, search};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn compare_file_system(found: &Found, all: &[Found], expected: &Path) -> Result<()> {
    let fs = FileSystem::open(found.objset.clone(), found.options.clone())?;
    let mut mounts = tree::Mounts::new();
    for child in
        all.iter().filter(|c| !c.is_snapshot && !found.is_snapshot && c.objset.phys().kind == ObjsetKind::FileSystem)
    {
        if let Some(rest) = child.name.strip_prefix(&format!("{}/", found.name)) {
            let child: Arc<dyn Vfs> = FileSystem::open(child.objset.clone(), child.options.clone())?;
            mounts.insert(format!("./{rest}").into_bytes(), child);
        }
    }
    let file = found.name.replace('/', "+");
    let openzfs = recorded::tree(&expected.join(&file))?;
    let weir = tree::tree(&*fs, &mounts)?;
    if let Some(text) = recorded::differences(&openzfs, &weir) {
        anyhow::bail!("tree: {text}");
    }
    let xattrs = expected.join(format!("{file}.xattr"));
    if xattrs.exists() {
        let (openzfs, weir) = (recorded::xattrs(&xattrs)?, tree::xattrs(&*fs, &mounts)?);
        if let Some(text) = recorded::differences(&openzfs, &weir) {
            anyhow::bail!("xattrs: {text}");
        }
    }
    Ok(())
}

fn compare_volume(found: &Found, expected: &Path) -> Result<()> {
    let volume = Volume::open(&found.objset, found.name.clone())?;
    let (mut sum, mut at) = (Sha256::new(), 0);
    while at < volume.size() {
        let bytes = volume.read(at, 1 << 20)?;
        sum.update(&bytes);
        at += bytes.len() as u64;
    }
    let openzfs = std::fs::read_to_string(expected)?;
    let weir = tree::hex(&sum.finalize());
    ensure!(openzfs.starts_with(&weir), "volume: OpenZFS has {openzfs}, Weir {weir}");
    Ok(())
}

fn compare(scenario: &str, devices: &Path, expected: &Path) -> Result<(usize, Vec<String>)> {
    let found = search(&[devices.to_owned()]);
    let (mut good, mut failures) = (0, Vec::new());
    for found in &found.pools {
        let pool = Pool::open(found, &OpenOptions::default())?;
        let all = datasets(&pool)?;
        for dataset in &all {
            let file = expected.join(dataset.name.replace('/', "+"));
            let volume = expected.join(format!("{}.volume", dataset.name.replace('/', "+")));
            let outcome = match dataset.objset.phys().kind {
                ObjsetKind::FileSystem if file.exists() => compare_file_system(dataset, &all, expected),
                ObjsetKind::Volume if volume.exists() => compare_volume(dataset, &volume),
                _ => continue,
            };
            match outcome {
                Ok(()) => good += 1,
                Err(e) => failures.push(format!("{scenario}: {}: {e:#}", dataset.name)),
            }
        }
    }
    Ok((good, failures))
}

#[test]
fn every_tree_is_as_the_kernel_recorded_it() {
    let Some(images) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios, WEIR_EXPECTED to what was recorded");
        return;
    };
    let expected = std::env::var_os("WEIR_EXPECTED").map_or_else(|| images.clone(), PathBuf::from);
    let only = std::env::var("WEIR_SCENARIO").ok();
    let mut failures = Vec::new();
    let mut scenarios: Vec<_> = std::fs::read_dir(&images).unwrap().map(|e| e.unwrap().file_name()).collect();
    scenarios.sort();
    for scenario in scenarios {
        let name = scenario.to_string_lossy().into_owned();
        let trees = expected.join(&scenario).join("tree");
        if !trees.is_dir() || only.as_ref().is_some_and(|o| *o != name) {
            continue;
        }
        let start = std::time::Instant::now();
        match compare(&name, &images.join(&scenario), &trees) {
            Ok((good, bad)) => {
                println!("{name}: {good} good, {} bad, {:.1} s", bad.len(), start.elapsed().as_secs_f64());
                failures.extend(bad);
            }
            Err(e) => failures.push(format!("{name}: {e:#}")),
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
