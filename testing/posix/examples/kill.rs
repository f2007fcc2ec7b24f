//! Kills the server of a mounted pool at random moments of a load that syncs, and checks that
//! everything acknowledged is present when the pool is opened again.
//!
//! cargo run --release -p weir-posix --example kill -- SERVER FOLDER [rounds=N] [workers=N]
//! [seed=N] [write-back] [PROPERTY=VALUE]...
//!
//! SERVER is the example `pool`; FOLDER gets an image (kept from round to round) and a mount point.
//! Each worker has a directory with a log, to which it appends records that it syncs; files, which
//! it removes, or replaces by writing and syncing a new file, renaming it and syncing the
//! directory; and a file that it overwrites without syncing, as background load. For the step in
//! progress when the server died, the old and the new state are both correct, and nothing in
//! between.

use anyhow::{Context, Result, bail, ensure};
use rig::Chance;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const FILES: u64 = 12;
const RECORD_BYTES_MAX: u64 = 9000;
const FILE_BYTES_MAX: u64 = 400_000;

/// Contents unique to this version of this file. Half of it is compressible.
fn contents(version: u64, len: u64) -> Vec<u8> {
    let mut chance = Chance::new(version);
    (0..len).map(|i| if i / 64 % 2 == 0 { chance.below(256) as u8 } else { version as u8 }).collect()
}

/// A piece of a log, whose bytes depend only on their position.
fn stream(worker: u64, from: u64, len: u64) -> Vec<u8> {
    (from..from + len)
        .map(|at| Chance::new((at / 8) ^ (worker << 48)).below(1 << 60).to_le_bytes()[at as usize % 8])
        .collect()
}

/// The step in progress.
#[derive(Clone)]
enum Doing {
    Nothing,
    Append(u64),
    Replace(u64, (u64, u64)),
    Remove(u64),
}

struct Worker {
    number: u64,
    chance: Chance,
    versions: u64,
    log_bytes: u64,
    /// Version and length of each file.
    files: BTreeMap<u64, (u64, u64)>,
    doing: Doing,
    acknowledged: u64,
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Worker {
    fn dir(&self, root: &Path) -> PathBuf {
        root.join(format!("worker-{}", self.number))
    }

    fn step(&mut self, root: &Path) -> io::Result<()> {
        let dir = self.dir(root);
        let name = self.chance.below(FILES);
        let path = dir.join(format!("file-{name}"));
        match self.chance.below(10) {
            0..4 => {
                let len = 1 + self.chance.below(RECORD_BYTES_MAX);
                self.doing = Doing::Append(len);
                let mut log = File::options().append(true).create(true).open(dir.join("log"))?;
                log.write_all(&stream(self.number, self.log_bytes, len))?;
                if self.chance.below(2) == 0 {
                    log.sync_all()?
                } else {
                    log.sync_data()?
                }
                // The new log's directory entry must be synced too.
                if self.log_bytes == 0 {
                    sync(&dir)?;
                }
                self.log_bytes += len;
            }
            4..7 => {
                self.versions += 1;
                let (version, len) = ((self.versions << 16) | self.number, self.chance.below(FILE_BYTES_MAX));
                self.doing = Doing::Replace(name, (version, len));
                let new = dir.join("new");
                let mut file = File::create(&new)?;
                file.write_all(&contents(version, len))?;
                file.sync_all()?;
                fs::rename(&new, &path)?;
                sync(&dir)?;
                self.files.insert(name, (version, len));
            }
            7 if self.files.contains_key(&name) => {
                self.doing = Doing::Remove(name);
                fs::remove_file(&path)?;
                sync(&dir)?;
                self.files.remove(&name);
            }
            _ => {
                let scratch = File::options().write(true).create(true).truncate(false).open(dir.join("scratch"))?;
                let at = self.chance.below(4 << 20);
                scratch.write_all_at(&contents(at, self.chance.below(100_000)), at)?;
                if self.chance.below(8) == 0 {
                    scratch.set_len(self.chance.below(4 << 20))?;
                }
            }
        }
        self.doing = Doing::Nothing;
        self.acknowledged += 1;
        Ok(())
    }

    /// Compares what is found with what was acknowledged, and continues from it.
    fn check(&mut self, root: &Path) -> Result<()> {
        let dir = self.dir(root);
        let doing = std::mem::replace(&mut self.doing, Doing::Nothing);
        let log = match fs::read(dir.join("log")) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("log")?,
        };
        let under_way = if let Doing::Append(len) = doing { len } else { 0 };
        let found = log.len() as u64;
        ensure!(found >= self.log_bytes, "log has {found} bytes, {} were acknowledged", self.log_bytes);
        ensure!(found <= self.log_bytes + under_way, "log has {found} bytes, {} + {under_way} written", self.log_bytes);
        if let Some(at) = log.iter().zip(stream(self.number, 0, found)).position(|(a, b)| *a != b) {
            bail!("log differs from what was written at {at} of {found}; {} were acknowledged", self.log_bytes);
        }
        self.log_bytes = found;
        for name in 0..FILES {
            let found = match fs::read(dir.join(format!("file-{name}"))) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => None,
                other => Some(other.with_context(|| format!("file-{name}"))?),
            };
            let mut right = vec![self.files.get(&name).copied()];
            match doing {
                Doing::Replace(n, new) if n == name => right.push(Some(new)),
                Doing::Remove(n) if n == name => right.push(None),
                _ => {}
            }
            let is = right.iter().find(|r| r.map(|(v, len)| contents(v, len)) == found);
            match is {
                Some(Some(file)) => self.files.insert(name, *file),
                Some(None) => self.files.remove(&name),
                None => bail!("file-{name} has {:?} bytes, none of {right:?}", found.map(|f| f.len())),
            };
        }
        let leftover = dir.join("new");
        if leftover.exists() {
            fs::remove_file(leftover)?;
        }
        Ok(())
    }
}

struct Server {
    child: Child,
    dir: PathBuf,
}

impl Server {
    fn start(program: &str, image: &Path, dir: &Path, options: &[String]) -> Result<Self> {
        let child = Command::new(program).arg(image).arg(dir).args(options).spawn().context("start the server")?;
        let mut this = Self { child, dir: dir.to_owned() };
        let since = Instant::now();
        while !serve::fuse::is_mount_point(dir) {
            if let Some(status) = this.child.try_wait()? {
                bail!("the server ended with {status}");
            }
            ensure!(since.elapsed() < Duration::from_secs(60), "the server does not mount");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(this)
    }

    fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        serve::fuse::unmount_below(&self.dir, true)?;
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        serve::fuse::unmount_below(&self.dir, false)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, folder, rest @ ..] = args.as_slice() else { bail!("which server, and which folder?") };
    let number = |name: &str, otherwise| {
        let found = rest.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        found.unwrap_or(otherwise)
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let (rounds, workers, seed) = (number("rounds", 500), number("workers", 4), number("seed", now));
    let ours = ["rounds=", "workers=", "seed="];
    let options: Vec<String> = rest.iter().filter(|a| !ours.iter().any(|o| a.starts_with(o))).cloned().collect();
    let (image, dir) = (Path::new(folder).join("image"), Path::new(folder).join("mount"));
    fs::create_dir_all(&dir)?;
    let _ = fs::remove_file(&image);
    File::create(&image)?.set_len(2 << 30)?;
    println!("kill: seed {seed}, {rounds} rounds, {workers} workers");

    let mut chance = Chance::new(seed);
    let server = Server::start(program, &image, &dir, &options)?;
    let new_worker = |number| Worker {
        number,
        chance: Chance::new(seed ^ (number << 32)),
        versions: 0,
        log_bytes: 0,
        files: BTreeMap::new(),
        doing: Doing::Nothing,
        acknowledged: 0,
    };
    let mut all: Vec<Worker> = (0..workers).map(new_worker).collect();
    for worker in &all {
        fs::create_dir(worker.dir(&dir))?;
    }
    sync(&dir)?;
    let mut server = Some(server);
    for round in 0..rounds {
        let running = match server.take() {
            Some(server) => server,
            None => Server::start(program, &image, &dir, &options).with_context(|| format!("round {round}"))?,
        };
        for worker in &mut all {
            let number = worker.number;
            worker.check(&dir).with_context(|| format!("seed {seed} round {round} worker {number}"))?;
        }
        // Usually soon, while the replayed data is recent; sometimes after a txg or two.
        let wait = Duration::from_millis(if chance.below(8) == 0 { chance.below(7000) } else { chance.below(600) });
        std::thread::scope(|scope| {
            for worker in &mut all {
                let dir = &dir;
                // Ends with the first error, when the server is gone.
                scope.spawn(move || while worker.step(dir).is_ok() {});
            }
            std::thread::sleep(wait);
            running.kill()
        })?;
        if round % 50 == 49 {
            println!("round {}: {} steps acknowledged", round + 1, all.iter().map(|w| w.acknowledged).sum::<u64>());
        }
    }
    let last = Server::start(program, &image, &dir, &options)?;
    for worker in &mut all {
        worker.check(&dir).with_context(|| format!("seed {seed}, at the end"))?;
    }
    last.end()?;
    println!(
        "kill: {rounds} rounds, {} steps acknowledged, none lost",
        all.iter().map(|w| w.acknowledged).sum::<u64>()
    );
    Ok(())
}
