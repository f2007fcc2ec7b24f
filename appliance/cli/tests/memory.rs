//! `--arc-max` bounds the memory of the process that serves a mount: under any load it stays within
//! the cap plus 200 MB.
//!
//! `WEIR_LOAD_MIB` is how much is written and read (600; a soak takes several GiB),
//! `WEIR_LOAD_FILES` how many files are created.

use crate::rig::Rig;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CAP_MIB: u64 = 128;
/// What the process may use beyond the cap.
const BEYOND_MIB: u64 = 200;

struct Serving {
    child: Child,
    rig: Rig,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.rig.path("mount")).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A new pool on an image file, mounted by a process with the cap. `None`, with a printed line,
/// where this machine cannot mount.
fn serving(image_mib: u64) -> Option<Serving> {
    let rig = Rig::new(&[]);
    rig.disk("image", image_mib << 20);
    fs::create_dir(rig.path("mount")).expect("a folder");
    rig.good("zpool create -m none -O compression=lz4 tank DIR/d/image");
    let mount = format!("mount --foreground --arc-max {CAP_MIB}M tank DIR/mount");
    let child = rig.command(&mount).stderr(Stdio::null()).spawn().expect("it runs");
    let mut serving = Serving { child, rig };
    let place = serving.rig.path("mount");
    let start = Instant::now();
    while !fs::read_to_string("/proc/self/mounts").expect("mounts").contains(&format!(" {place} ")) {
        if serving.child.try_wait().expect("it is ours").is_some() || start.elapsed() > Duration::from_secs(60) {
            println!("skipped: this machine cannot mount FUSE");
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(serving)
}

/// The peak resident size of the process.
fn peak_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("reported by Linux");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// A piece of data, half of it incompressible.
fn piece(seed: u64) -> Vec<u8> {
    let (mut data, mut chance) = (vec![0; 1 << 20], ::rig::Chance::new(seed));
    for word in data.chunks_exact_mut(16) {
        word[..8].copy_from_slice(&chance.next().to_le_bytes());
    }
    data
}

fn load(dir: &Path, mib: u64, files: u64) {
    // Several writers and readers at once.
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                let mut file = File::create(dir.join(format!("big{writer}"))).expect("open");
                for i in 0..mib / 4 {
                    file.write_all(&piece(writer << 32 | i)).expect("write");
                }
                file.sync_all().expect("fsync");
            });
        }
        scope.spawn(move || {
            fs::create_dir(dir.join("many")).expect("mkdir");
            for i in 0..files {
                fs::write(dir.join(format!("many/f{i}")), format!("{i}")).expect("write");
            }
        });
    });
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap_or_else(|e| println!("the kernel keeps its caches ({e})"));
    std::thread::scope(|scope| {
        for reader in 0..4 {
            scope.spawn(move || {
                let mut file = File::open(dir.join(format!("big{reader}"))).expect("open");
                let mut data = vec![0; 1 << 20];
                for i in 0..mib / 4 {
                    file.read_exact(&mut data).expect("read");
                    assert!(data == piece(reader << 32 | i), "piece {i} of file {reader} is as written");
                }
                let file = File::options().write(true).open(dir.join(format!("big{reader}"))).expect("open");
                for i in 0..mib / 4 {
                    let at = (i * 7919 % (mib / 4)) << 20;
                    file.write_all_at(&data[..8192], at + 8192 * (i % 100)).expect("write");
                }
                file.sync_all().expect("fsync");
            });
        }
        scope.spawn(move || {
            for entry in fs::read_dir(dir.join("many")).expect("list") {
                let entry = entry.expect("entry");
                let text = fs::read_to_string(entry.path()).expect("read");
                assert_eq!(format!("f{text}"), entry.file_name().to_string_lossy());
            }
        });
    });
}

#[test]
fn memory_stays_within_the_cap() {
    let (mib, files) = (number("WEIR_LOAD_MIB", 600), number("WEIR_LOAD_FILES", 5000));
    let Some(serving) = serving(2 * mib + 512) else { return };
    load(&serving.rig.folder().join("mount"), mib, files);
    let peak = peak_mib(serving.child.id());
    println!("{peak} MiB at most, of {} allowed, for {mib} MiB and {files} files", CAP_MIB + BEYOND_MIB);
    assert!(peak <= CAP_MIB + BEYOND_MIB, "{peak} MiB");
}
