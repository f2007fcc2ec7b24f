//! Every file of the pools made by the kernel module reads as the kernel recorded it.
//!
//! Goal: compare type, mode, owner, size, times, link count, link target, contents, extended
//! attributes and ACLs of every dataset and snapshot. Method: `WEIR_FIXTURES` is a directory with
//! the unpacked devices as SCENARIO/DEVICE, `WEIR_EXPECTED` (default: the same directory) contains
//! the recorded data as SCENARIO/tree/DATASET. `WEIR_SCENARIO` selects one scenario.

use anyhow::{Result, ensure};
use dataset::{Dataset, DatasetKind};
use files::vfs::{FileKind, Vfs};
use oracle::datasets::Opened;
use oracle::{recordings, tree};
use pool::search;
use std::path::{Path, PathBuf};

struct Scenario {
    opened: Opened,
    all: Vec<Dataset>,
    trees: PathBuf,
}

impl Scenario {
    fn mounts(&self, dataset: &Dataset) -> Result<tree::Mounts> {
        let mut mounts = tree::Mounts::new();
        if dataset.is_snapshot() {
            return Ok(mounts);
        }
        for child in &self.all {
            if let Some(rest) = child.name().strip_prefix(&format!("{}/", dataset.name()))
                && !child.is_snapshot()
                && child.kind()? == DatasetKind::FileSystem
            {
                mounts.insert(format!("./{rest}").into_bytes(), self.opened.files(child)?);
            }
        }
        Ok(mounts)
    }

    fn compare_file_system(&self, dataset: &Dataset, file: &Path) -> Result<()> {
        let (files, mounts) = (self.opened.files(dataset)?, self.mounts(dataset)?);
        if let Some(text) = recordings::differences(&recordings::tree(file)?, &tree::tree(&*files, &mounts)?) {
            anyhow::bail!("tree: {text}");
        }
        let xattrs = PathBuf::from(format!("{}.xattr", file.display()));
        if xattrs.exists()
            && let Some(text) = recordings::differences(&recordings::xattrs(&xattrs)?, &tree::xattrs(&*files, &mounts)?)
        {
            anyhow::bail!("xattrs: {text}");
        }
        self.compare_more(&*files, file)
    }

    /// Compares what only some scenarios record: numbers of stat(1), names found by lookup, the
    /// order of a directory.
    fn compare_more(&self, files: &dyn Vfs, file: &Path) -> Result<()> {
        let recorded = |kind: &str| -> Result<Option<Vec<Vec<u8>>>> {
            let path = PathBuf::from(format!("{}.{kind}", file.display()));
            path.exists().then(|| recordings::tree(&path)).transpose()
        };
        if let Some(openzfs) = recorded("stat")?
            && let Some(text) = recordings::differences(&openzfs, &tree::stats(files)?)
        {
            anyhow::bail!("stat: {text}");
        }
        if let Some(openzfs) = recorded("lookup")? {
            let name = |line: &'_ Vec<u8>| line.iter().rposition(|b| *b == b'|').unwrap_or(line.len());
            let names: Vec<&[u8]> = openzfs.iter().map(|line| &line[..name(line)]).collect();
            if let Some(text) = recordings::differences(&openzfs, &tree::lookups(files, &names)?) {
                anyhow::bail!("lookup: {text}");
            }
        }
        if let Some(openzfs) = recorded("order")? {
            let (dir, openzfs) = openzfs.split_first().expect("the first line names the directory");
            ensure!(tree::order(files, dir)? == openzfs, "{}: another order", String::from_utf8_lossy(dir));
        }
        Ok(())
    }

    fn compare_volume(&self, dataset: &Dataset, file: &Path) -> Result<()> {
        let volume = self.opened.files(dataset)?;
        let attr = volume.attr(volume.root())?;
        ensure!(attr.kind == FileKind::Regular, "a volume is no file");
        let (openzfs, weir) = (std::fs::read_to_string(file)?, tree::sha256(&*volume, &attr)?);
        ensure!(openzfs.starts_with(&weir), "volume: OpenZFS has {openzfs}, Weir {weir}");
        Ok(())
    }

    /// `None`: nothing was recorded for this dataset.
    fn compare(&self, dataset: &Dataset) -> Option<Result<()>> {
        let name = dataset.name().replace('/', "+");
        let (file, volume) = (self.trees.join(&name), self.trees.join(format!("{name}.volume")));
        if file.exists() {
            Some(self.compare_file_system(dataset, &file))
        } else if volume.exists() {
            Some(self.compare_volume(dataset, &volume))
        } else {
            None
        }
    }
}

fn compare(devices: &Path, expected: &Path) -> Result<(usize, Vec<String>)> {
    let (mut good, mut failures) = (0, Vec::new());
    for found in &search(&[devices.to_owned()]).pools {
        let opened = Opened::new(found, Some(expected))?;
        let all = opened.datasets()?;
        let scenario = Scenario { opened, all, trees: expected.join("tree") };
        for dataset in &scenario.all {
            match scenario.compare(dataset) {
                Some(Ok(())) => good += 1,
                Some(Err(e)) => failures.push(format!("{}: {e:#}", dataset.name())),
                None => {}
            }
        }
    }
    let files = std::fs::read_dir(expected.join("tree"))?.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let recorded = files.filter(|f| !f.contains('.') || f.ends_with(".volume")).count();
    ensure!(good + failures.len() >= recorded, "{recorded} trees were recorded, {good} found good, {failures:?} bad");
    Ok((good, failures))
}

#[test]
fn every_tree_is_as_the_kernel_recorded_it() {
    let Some(images) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from).filter(|p| p.is_dir()) else {
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
        if !expected.join(&scenario).join("tree").is_dir() || only.as_ref().is_some_and(|o| *o != name) {
            continue;
        }
        let start = std::time::Instant::now();
        match compare(&images.join(&scenario), &expected.join(&scenario)) {
            Ok((good, bad)) => {
                println!("{name}: {good} good, {} bad, {:.1} s", bad.len(), start.elapsed().as_secs_f64());
                failures.extend(bad.into_iter().map(|f| format!("{name}: {f}")));
            }
            Err(e) => failures.push(format!("{name}: {e:#}")),
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
