//! `zfs diff` of the image `history` prints what the kernel module printed.
//!
//! `WEIR_FIXTURES` names the folder of unpacked scenarios; the kernel's output is committed next to
//! this file.

use dataset::{Datasets, KeyStore};
use files::diff::{DiffFormat, diff};
use files::zpl::{FileSystem, Options};
use pool::{OpenOptions, Pool, search};
use std::path::PathBuf;
use std::sync::Arc;

fn history() -> Option<Arc<Datasets>> {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios");
        return None;
    };
    let found = search(&[folder.join("history")]);
    Some(Datasets::open(Pool::open(&found.pools[0], &OpenOptions::default()).unwrap()).unwrap())
}

fn lines(datasets: &Arc<Datasets>, from: &str, to: &str) -> errors::Result<Vec<String>> {
    let open = |name: &str| {
        let dataset = datasets.dataset(name).unwrap();
        let options = Options { name: name.into(), ..Options::default() };
        let files = FileSystem::open(dataset.objset(&KeyStore::new()).unwrap(), options).unwrap();
        (dataset, files)
    };
    let ((from, from_files), (to, to_files)) = (open(from), open(to));
    let mut lines = Vec::new();
    diff((&from, &from_files), (&to, &to_files), &mut |change| {
        let line = change.unwrap().line("/th/prom", &DiffFormat::default());
        lines.push(String::from_utf8(line).unwrap());
    })?;
    Ok(lines)
}

#[test]
fn changes_between_two_snapshots_are_those_that_zfs_diff_prints() {
    let Some(datasets) = history() else { return };
    let kernel: Vec<&str> = include_str!("diff-s1-s4.txt").lines().collect();
    let ours = lines(&datasets, "th/prom@s1", "th/prom@s4").unwrap();
    for (i, (a, b)) in kernel.iter().zip(&ours).enumerate() {
        assert_eq!(a, b, "line {i}");
    }
    assert_eq!(kernel.len(), ours.len());
}

#[test]
fn a_clone_is_compared_with_its_origin_and_never_backwards() {
    let Some(datasets) = history() else { return };
    // The clone was rolled back to its snapshot, which contains what was written into the clone.
    let ours = lines(&datasets, "th/prom@s2", "th/clone").unwrap();
    assert!(ours.iter().any(|l| l == "+\t/th/prom/only-here"), "{ours:?}");
    assert!(ours.iter().any(|l| l == "-\t/th/prom/b128k"), "{ours:?}");
    assert!(lines(&datasets, "th/prom@s4", "th/prom@s1").is_err());
}
