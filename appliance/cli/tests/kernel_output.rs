//! Compares the output of `weir zpool` and `weir zfs` for pools made by the kernel module with the
//! output of the kernel's tools.
//!
//! Method: `WEIR_FIXTURES` is a directory with the unpacked devices as SCENARIO/DEVICE,
//! `WEIR_EXPECTED` (or the same directory) one with the recordings, as SCENARIO/zpool-get.txt and
//! so on. Each pool is imported into a state directory of its own, queried, and exported.
//! Recordings called `…-readonly` were made of a read-only import of the same image; the others
//! just before the pool was exported, which wrote a few more txgs: [`tolerated`] lists what may
//! differ, and why.

use crate::rig::{Rig, fixtures, recordings, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a line may differ from its recording; `None`: it must not.
fn tolerated(file: &str, ours: &str, theirs: &str) -> Option<&'static str> {
    let field = |line: &str, n: usize| line.split('\t').nth(n).unwrap_or_default().to_owned();
    let property = field(ours, 1);
    match file {
        _ if theirs.is_empty() && ours.contains("zpool export ") => Some("the export that followed the recording"),
        "zpool-get.txt" if property == "readonly" => Some("recorded of a pool that was written"),
        "zpool-get.txt" if property == "load_guid" => Some("a number for each import"),
        "zpool-get.txt" => ["free", "allocated", "capacity", "fragmentation", "checkpoint", "dedup_table_size"]
            .contains(&property.as_str())
            .then_some("the export wrote more txgs"),
        "zfs-get-readonly.txt" | "zfs-get-readonly-human.txt" => {
            (property == "mounted").then_some("we mount nothing by ourselves")
        }
        // Name, size, expandsize, dedup, health and altroot must agree.
        "zpool-list.txt" => [0, 1, 5, 8, 9, 10]
            .iter()
            .all(|n| field(ours, *n) == field(theirs, *n))
            .then_some("the export wrote more txgs"),
        // Name, type, creation, createtxg, guid and origin must agree; zfs-get-readonly has the
        // other numbers.
        "zfs-list.txt" => [0, 1, 8, 9, 10, 11]
            .iter()
            .all(|n| field(ours, *n) == field(theirs, *n))
            .then_some("the export wrote more txgs"),
        "zpool-status.txt" => (ours.starts_with("checkpoint: ") && theirs.starts_with("checkpoint: "))
            .then_some("the export wrote more txgs"),
        _ => None,
    }
}

fn folders() -> Option<Vec<(PathBuf, PathBuf)>> {
    let images = fixtures()?;
    let expected = recordings(&images);
    let only = std::env::var_os("WEIR_SCENARIO");
    let entries = std::fs::read_dir(&images).expect("WEIR_FIXTURES is a folder");
    let mut found: Vec<(PathBuf, PathBuf)> = entries
        .filter_map(Result::ok)
        .filter(|e| only.as_ref().is_none_or(|o| e.file_name() == **o))
        .map(|e| (e.path(), expected.join(e.file_name())))
        .filter(|(_, expected)| expected.join("zpool-get.txt").exists())
        .collect();
    found.sort();
    Some(found)
}

/// Fails with the first difference that [`tolerated`] does not allow.
fn compare(scenario: &Path, file: &str, ours: &str) -> Result<(), String> {
    let Ok(theirs) = std::fs::read_to_string(scenario.join(file)) else { return Ok(()) };
    let (mut a, mut b) = (ours.lines(), theirs.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ok(()),
            (ours, theirs) if ours == theirs => {}
            (ours, theirs) => {
                let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
                if tolerated(file, ours, theirs).is_none() {
                    return Err(format!("{}/{file}:\n     weir: {ours}\n  openzfs: {theirs}", scenario.display()));
                }
            }
        }
    }
}

/// Collapses runs of spaces: device names have another length here than in the recording.
fn narrow(text: &str) -> String {
    text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

/// Removes the text of status and action, which is OpenZFS's advice in our words. Their presence is
/// compared, and the message id.
fn without_advice(text: &str) -> String {
    let mut within = false;
    let mut out = String::new();
    for line in text.lines() {
        let head = line.split(' ').next().unwrap_or_default();
        match head {
            "status:" | "action:" => {
                within = true;
                out += head;
                out.push('\n');
            }
            _ if within && !head.ends_with(':') && !line.is_empty() => {}
            _ => {
                within = false;
                out += line;
                out.push('\n');
            }
        }
    }
    out
}

const LIST: &str = "name,type,used,refer,usedbysnapshots,usedbydataset,usedbychildren,usedbyrefreservation,creation,\
                    createtxg,guid,origin,written,logicalused,logicalreferenced";

fn check(images: &Path, expected: &Path) -> Result<(), String> {
    let weir = Rig::new(&[]);
    let recorded = std::fs::read_to_string(expected.join("zpool-get.txt")).expect("it existed");
    let pool = recorded.split('\t').next().expect("a name");
    let place = images.to_str().expect("a plain path");
    weir.good_args(&["zpool", "import", "-o", "readonly=on", "-d", place, "-f", pool]);

    let status = weir.good_args(&["zpool", "status", "-p", pool]).replace(&format!("{place}/"), "/tmp/v/");
    let theirs = std::fs::read_to_string(expected.join("zpool-status.txt")).expect("recorded");
    let scratch = tempfile::tempdir().expect("a folder");
    std::fs::write(scratch.path().join("zpool-status.txt"), without_advice(&narrow(&theirs))).expect("written");
    compare(scratch.path(), "zpool-status.txt", &without_advice(&narrow(&status)))?;

    compare(expected, "zpool-list.txt", &weir.good_args(&["zpool", "list", "-Hp", pool]))?;
    compare(expected, "zpool-get.txt", &weir.good_args(&["zpool", "get", "-Hp", "all", pool]))?;
    compare(expected, "zfs-list.txt", &weir.good_args(&["zfs", "list", "-Hp", "-r", "-t", "all", "-o", LIST, pool]))?;
    let get = |literal: &str| weir.good_args(&["zfs", "get", literal, "-r", "-t", "all", "all", pool]);
    compare(expected, "zfs-get-readonly.txt", &get("-Hp"))?;
    compare(expected, "zfs-get-readonly-human.txt", &get("-H"))?;

    // The recording has an empty line after the last record.
    let history = weir.good_args(&["zpool", "history", "-il", pool]);
    compare(expected, "zpool-history.txt", history.trim_end_matches('\n'))?;

    let snapshots = weir.good_args(&["zfs", "list", "-H", "-o", "name", "-t", "snapshot", "-r", pool]);
    let mut holds = vec!["zfs", "holds", "-r", "-H"];
    holds.extend(snapshots.lines());
    if holds.len() > 4 {
        compare(expected, "zfs-holds.txt", &weir.good_args(&holds))?;
    }

    // JSON output has the same values as text.
    for args in [
        &["zpool", "status", "-j", pool][..],
        &["zpool", "list", "-vj", pool],
        &["zpool", "get", "-j", "all", pool],
        &["zfs", "list", "-j", "-r", pool],
        &["zfs", "get", "-j", "--json-int", "used", pool],
    ] {
        let text = weir.good_args(args);
        let document: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{args:?}: {e}"))?;
        let command = document["output_version"]["command"].as_str().unwrap_or_default();
        assert_eq!(command, format!("{} {}", args[0], args[1]));
    }
    weir.good_args(&["zpool", "export", pool]);
    let (code, out, err) = weir.run_args(&["zpool", "list", pool]);
    assert_eq!((code, out.as_str(), err), (1, "", format!("cannot open '{pool}': no such pool\n")));
    Ok(())
}

#[test]
fn pools_of_the_kernel_module_print_as_it_printed_them() {
    let Some(folders) = folders() else { return };
    assert!(!folders.is_empty(), "no recorded pools in WEIR_FIXTURES");
    let failures: Vec<String> = folders.iter().filter_map(|(i, e)| check(i, e).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The recorded output for a system without pools, and for invalid calls.
#[test]
fn without_pools_the_messages_are_those_of_openzfs() {
    let weir = Rig::new(&[]);
    let run = |line: &str| weir.run(line);
    let exact = |line: &str, code: i32, out: &str, err: &str| {
        assert_eq!(run(line), (code, out.to_owned(), err.to_owned()), "{line}");
    };
    exact("zpool list", 0, "no pools available\n", "");
    exact("zpool list -H", 0, "", "");
    exact("zpool status", 0, "", "no pools available\n");
    exact("zfs list", 0, "", "no datasets available\n");
    exact("zpool list nosuch", 1, "", "cannot open 'nosuch': no such pool\n");
    exact("zpool status nosuch", 1, "", "cannot open 'nosuch': no such pool\n");
    exact("zfs list nosuch", 1, "", "cannot open 'nosuch': dataset does not exist\n");
    exact("zfs list tank/nosuch", 1, "", "cannot open 'tank/nosuch': dataset does not exist\n");
    exact("zpool events", 0, "TIME                           CLASS\n", "");
    exact("zpool events -H", 0, "", "");
    let empty = tempfile::tempdir().expect("a folder");
    let place = empty.path().to_str().expect("a plain path");
    exact(&format!("zpool import -d {place}"), 0, "", "no pools available to import\n");
    exact(&format!("zpool import -d {place} nosuch"), 1, "", "cannot import 'nosuch': no such pool available\n");
    for (line, first) in [
        ("zpool list -o nosuch", "bad property list: invalid property 'nosuch'"),
        ("zpool get nosuch tank", "bad property list: invalid property 'nosuch'"),
        ("zfs list -t nosuch", "invalid type 'nosuch'"),
        ("zfs list -o nosuch", "bad property list: invalid property 'nosuch'"),
        ("zfs get nosuch tank", "bad property list: invalid property 'nosuch'"),
        ("zpool frobnicate", "unrecognized command 'frobnicate'"),
        ("zfs frobnicate tank", "unrecognized command 'frobnicate'"),
        ("zpool export", "missing pool argument"),
        ("zpool list -Q", "invalid option 'Q'"),
    ] {
        let (code, out, err) = run(line);
        assert_eq!((code, out.as_str(), err.lines().next()), (2, "", Some(first)), "{line}");
        assert!(err.contains("usage:"), "{line}: {err}");
    }
    let (code, _, err) = run("zpool ddtprune -p 10 tank");
    assert!(code == 1 && err.starts_with("unsupported: 'zpool ddtprune'"), "{err}");
}

#[test]
fn a_link_named_zpool_or_zfs_is_that_command() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, expected) in [("zpool", "no pools available\n"), ("zfs", "")] {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a link");
        let out = Command::new(&link).arg("list").env("WEIR_STATE", folder.path()).output().expect("it runs");
        assert_eq!(text(&out.stdout), expected, "{name}");
        let version = Command::new(&link).arg("version").output().expect("it runs");
        assert!(text(&version.stdout).starts_with("zfs-2.3.2-weir"), "{name}");
    }
    let state = folder.path().join("elsewhere");
    let state = state.to_str().expect("a plain path");
    let chosen =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(["--state", state, "zpool", "list"]).output().expect("it runs");
    assert_eq!(text(&chosen.stdout), "no pools available\n");
}

/// Imports a pool under another name, with a missing device.
#[test]
fn a_renamed_pool_with_a_missing_device_is_degraded_and_readable() {
    let Some(folders) = folders() else { return };
    let Some((images, expected)) = folders.iter().find(|(i, _)| i.ends_with("raidz1-3-a9")) else { return };
    let recorded = std::fs::read_to_string(expected.join("zpool-get.txt")).expect("it existed");
    let pool = recorded.split('\t').next().expect("a name");
    let weir = Rig::new(&[]);
    let place = tempfile::tempdir().expect("a folder");
    let mut devices: Vec<PathBuf> =
        std::fs::read_dir(images).expect("a folder").filter_map(Result::ok).map(|e| e.path()).collect();
    devices.sort();
    let away = devices.remove(1);
    for device in &devices {
        std::os::unix::fs::symlink(device, place.path().join(device.file_name().expect("a name"))).expect("a link");
    }
    let dir = place.path().to_str().expect("a plain path");
    let found = weir.good_args(&["zpool", "import", "-d", dir]);
    assert!(found.contains(" state: DEGRADED\nstatus: One or more devices are missing from the system.\n"), "{found}");
    assert!(found.contains("UNAVAIL  cannot open\n"), "{found}");
    weir.good_args(&["zpool", "import", "-o", "readonly=on", "-d", dir, "-f", pool, "other"]);
    let status = weir.good_args(&["zpool", "status", "other"]);
    assert!(status.starts_with(
        "  pool: other\n state: DEGRADED\nstatus: Some devices are missing.  The pool has enough redundancy"
    ));
    let was = away.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(status.contains(&format!("UNAVAIL      0     0     0  was /tmp/v/{was}\n")), "{status}");
    let names: BTreeSet<String> =
        weir.good_args(&["zfs", "list", "-H", "-o", "name"]).lines().map(str::to_owned).collect();
    assert!(names.contains("other"), "{names:?}");
    assert_ne!(weir.good_args(&["ls", "other"]), "");
    let (code, _, err) = weir.run_args(&["zpool", "import", "-d", dir, pool, "other"]);
    assert!(code == 1 && err.contains("no such pool available"), "{err}");
}
