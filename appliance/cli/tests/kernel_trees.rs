//! Mounts and copies pools made by the kernel module, and compares the contents with what the
//! kernel recorded.
//!
//! `WEIR_FIXTURES` is a directory with the unpacked devices as SCENARIO/DEVICE, `WEIR_EXPECTED` (or
//! the same directory) one with the recordings. `trees.sh` does the work, with the commands that
//! made the recordings.

use crate::rig::{fixtures, recordings, text};
use std::path::Path;
use std::process::Command;

fn compare(scenario: &str, keys: impl Fn(&Path) -> Vec<String>) {
    let Some(images) = fixtures() else { return };
    let recorded = recordings(&images).join(scenario);
    if !images.join(scenario).is_dir() || !recorded.join("zfs-list.txt").is_file() {
        println!("skipped: {scenario} is not among the fixtures");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees.sh");
    let output = Command::new(script)
        .arg(env!("CARGO_BIN_EXE_weir"))
        .args([images.join(scenario), recorded.clone()])
        .args(keys(&recorded))
        .output()
        .expect("bash is installed");
    let message = text(&output.stdout) + &text(&output.stderr);
    if output.status.code() == Some(77) {
        println!("skipped: this machine cannot mount FUSE: {message}");
        return;
    }
    assert!(output.status.success(), "{scenario}: {message}");
    println!("{scenario}: {message}");
}

#[test]
fn snapshots_clones_and_volumes_are_as_recorded() {
    compare("history", |_| Vec::new());
}

#[test]
fn an_old_pool_is_as_recorded() {
    compare("version28", |_| Vec::new());
}

#[test]
fn encrypted_datasets_are_as_recorded() {
    compare("encrypted", |recorded| {
        let file = |name: &str| recorded.join(name).display().to_string();
        vec![format!("--key-file=te/ccm={}", file("key32")), format!("--passphrase-file=te/gcm={}", file("pass"))]
    });
}
