//! Starts the server, runs writers, kills the server and checks the result; repeatedly on one pool.

use crate::serve::{KEY, Layout, POOL, create, verify, zdb};
use crate::writer::Writer;
use anyhow::{Context, Result, bail, ensure};
use damage::promises::Promises;
use rig::Chance;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// This program, called as `PROGRAM serve LAYOUT FOLDER DIRECTORY MILLISECONDS`.
    pub program: PathBuf,
    /// If set, `weir mount` of this program is killed instead.
    pub weir: Option<PathBuf>,
    /// Directory for images and the mount point.
    pub folder: PathBuf,
    /// Layout of the pool.
    pub layout: Layout,
    /// Seed of all random choices. The interleaving of threads is not reproducible.
    pub seed: u64,
    pub kills: u64,
    /// Number of writer threads.
    pub threads: u64,
    /// zdb checks the pool after this many kills.
    pub zdb_every: u64,
}

/// Counts of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Kills: (in total, while the pool was being opened).
    pub kills: (u64, u64),
    /// Operations: (in total, synced).
    pub operations: (u64, u64),
    /// Number of zdb checks.
    pub judged: u64,
}

struct Server {
    child: Child,
    dir: PathBuf,
}

/// Properties that affect how files are written, with values that do not change their contents.
const PROPERTIES: [(&str, &[&str]); 6] = [
    ("recordsize", &["4K", "32K", "128K"]),
    ("xattr", &["sa", "dir"]),
    ("compression", &["lz4", "off", "zstd", "gzip-1"]),
    ("checksum", &["fletcher4", "sha256", "blake3"]),
    ("copies", &["1", "2"]),
    ("logbias", &["latency", "throughput"]),
];
/// Transaction group intervals in milliseconds.
const INTERVALS: [u64; 3] = [100, 700, 5000];

impl Plan {
    fn spawn(&self, chance: &mut Chance) -> Result<Server> {
        let dir = self.folder.join("mount");
        let interval = chance.pick(&INTERVALS).copied().unwrap_or(5000);
        let mut command = match &self.weir {
            Some(weir) => {
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "KILL"]).arg(weir).args(["mount", "--foreground", "--notify"]);
                if self.layout.is_encrypted() {
                    command.args(["-L", &format!("file://{}", self.folder.join("key").display())]);
                }
                command.arg(POOL).arg(&dir).env("WEIR_STATE", self.folder.join("state"));
                command
            }
            None => {
                let mut command = Command::new(&self.program);
                command.args(["serve", self.layout.name]).arg(self.folder.join("disks")).arg(&dir);
                command.arg(interval.to_string());
                command
            }
        };
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the server")?;
        Ok(Server { child, dir })
    }

    /// Runs it. An error describes the failure.
    pub fn run(&self) -> Result<Totals> {
        let disks = self.folder.join("disks");
        fs::create_dir_all(&disks)?;
        fs::create_dir_all(self.folder.join("mount"))?;
        create(&self.layout, &disks)?;
        if let Some(weir) = &self.weir {
            fs::write(self.folder.join("key"), KEY)?;
            let mut import = Command::new(weir);
            import
                .env("WEIR_STATE", self.folder.join("state"))
                .args(["zpool", "import", "-N", "-d"])
                .arg(&disks)
                .arg(POOL);
            ensure!(import.status()?.success(), "weir zpool import");
        }
        let promises = Arc::new(Promises::new("standard"));
        let new =
            |n| Writer::new(self.folder.join(format!("mount/thread{n}")), self.seed ^ (n << 32), promises.clone());
        let mut writers: Vec<Writer> = (0..self.threads).map(new).collect();
        let mut totals = Totals::default();
        let mut synced = None;
        for round in 0..=self.kills {
            let mut chance = Chance::of_case(self.seed, round);
            self.round(round, &mut chance, &promises, &mut writers, &mut synced, &mut totals)
                .with_context(|| format!("layout {} seed {} round {round}", self.layout.name, self.seed))?;
        }
        totals.operations = writers.iter().fold((0, 0), |sum, w| (sum.0 + w.done.0, sum.1 + w.done.1));
        Ok(totals)
    }

    fn round(
        &self,
        round: u64,
        chance: &mut Chance,
        promises: &Promises,
        writers: &mut [Writer],
        synced: &mut Option<Instant>,
        totals: &mut Totals,
    ) -> Result<()> {
        let disks = self.folder.join("disks");
        let judged = round > 0 && round.is_multiple_of(self.zdb_every.max(1));
        if round > 0 {
            verify(&self.layout, &disks).context("as the kill left it")?;
            if judged {
                zdb(&disks).context("as the kill left it")?;
            }
        }
        // Kill the server while it replays the log of the previous run.
        if round > 0 && chance.once_in(4) {
            let server = self.spawn(chance)?;
            std::thread::sleep(Duration::from_millis(chance.below(300)));
            server.kill()?;
            totals.kills.1 += 1;
            verify(&self.layout, &disks).context("killed while it was opened")?;
        }
        let mut server = self.spawn(chance)?;
        server.wait_up()?;
        self.check(writers, *synced)?;
        *synced = None;
        if judged || round == self.kills {
            // Another run with a clean end: nothing of the previous ones may be left over.
            server.end()?;
            verify(&self.layout, &disks).context("exported")?;
            zdb(&disks).context("exported")?;
            totals.judged += 1;
            if round == self.kills {
                return Ok(());
            }
            server = self.spawn(chance)?;
            server.wait_up()?;
            self.check(writers, None).context("after an export")?;
        }
        let work = Duration::from_millis(if chance.once_in(8) { chance.below(4000) } else { chance.below(800) });
        let killed = AtomicBool::new(false);
        let ends: Vec<(std::io::Error, bool)> = std::thread::scope(|scope| {
            let run = |writer| {
                let killed = &killed;
                scope.spawn(move || {
                    let error = Writer::run(writer);
                    (error, killed.load(Ordering::SeqCst))
                })
            };
            let threads: Vec<_> = writers.iter_mut().map(run).collect();
            let changed = self.administer(&mut server, chance, promises, work);
            killed.store(true, Ordering::SeqCst);
            let dead = changed.and_then(|()| server.kill());
            let ends = threads.into_iter().map(|t| t.join().expect("a writer does not panic")).collect();
            dead.map(|()| ends)
        })?;
        totals.kills.0 += 1;
        if let Some((error, _)) = ends.iter().find(|(_, killed)| !killed) {
            bail!("an operation failed while the server lived: {error}");
        }
        *synced = writers.iter().filter_map(|w| w.synced_since).max();
        Ok(())
    }

    /// Changes properties for the time `work` while the writers run.
    fn administer(&self, server: &mut Server, chance: &mut Chance, promises: &Promises, work: Duration) -> Result<()> {
        let end = Instant::now() + work;
        let changes = chance.once_in(2);
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            let pause = if changes { Duration::from_millis(chance.below(300)).min(rest) } else { rest };
            std::thread::sleep(pause);
            if pause == rest {
                return Ok(());
            }
            match chance.once_in(2) {
                true => promises.change(chance, |sync| self.set(server, "sync", sync))?,
                false => {
                    let (name, values) = chance.pick(&PROPERTIES).context("there are some")?;
                    self.set(server, name, chance.pick(values).context("there are some")?)?;
                }
            }
        }
    }

    fn set(&self, server: &mut Server, property: &str, value: &str) -> Result<()> {
        let place = || format!("zfs set {property}={value}");
        if let Some(weir) = &self.weir {
            let mut set = Command::new(weir);
            set.env("WEIR_STATE", self.folder.join("state"));
            let status = set.args(["zfs", "set", &format!("{property}={value}"), POOL]).status().with_context(place)?;
            ensure!(status.success(), "{}: {status}", place());
            return Ok(());
        }
        writeln!(server.child.stdin.as_mut().context("no pipe")?, "{property}={value}").with_context(place)?;
        let mut answer = [0; 5];
        server.child.stdout.as_mut().context("no pipe")?.read_exact(&mut answer).with_context(place)?;
        ensure!(answer == *b"done\n", "{}: {answer:?}", place());
        Ok(())
    }

    fn check(&self, writers: &mut [Writer], synced: Option<Instant>) -> Result<()> {
        for (n, writer) in writers.iter_mut().enumerate() {
            writer.check(synced).map_err(|what| anyhow::anyhow!("thread {n}: {what}"))?;
        }
        Ok(())
    }
}

impl Server {
    fn wait_up(&mut self) -> Result<()> {
        // `weir mount` prints "+", `crash serve` prints "up" and a newline.
        let mut byte = [0];
        let out = self.child.stdout.as_mut().context("no pipe")?;
        if out.read_exact(&mut byte).is_err() {
            bail!("the server does not start: {}", self.child.wait()?);
        }
        ensure!(matches!(byte, [b'u' | b'+']), "the server returned {byte:?}");
        if byte == [b'u'] {
            out.read_exact(&mut [0; 2])?;
        }
        Ok(())
    }

    fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        unmount(&self.dir)
    }

    fn end(mut self) -> Result<()> {
        serve::fuse::unmount_below(&self.dir, false)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has no effect if the server has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = serve::fuse::unmount_below(&self.dir, true);
    }
}

fn unmount(dir: &Path) -> Result<()> {
    serve::fuse::unmount_below(dir, true)?;
    Ok(())
}
