//! A process that serves a pool on image files, at a fixed port however often it is killed and
//! started.

use anyhow::{Context, Result, bail, ensure};
use crash::serve::{Layout, POOL, create, verify, zdb};
use load::nfs::{Connection, PATIENCE};
use rig::Chance;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Environment variable that makes this crate's program act as `weir`.
pub const AS_WEIR: &str = "WIRE_AS_WEIR";
/// Path of the share.
pub const SHARE: &str = "/crash";

/// The process that serves.
#[derive(Debug, Clone)]
pub enum Server {
    /// `weir serve` of that program, or (`None`) of the one built into this crate's program.
    Weir(Option<PathBuf>),
    /// The NFS server over devices that lose most unflushed writes when their process dies, and
    /// keep some of them.
    Cut,
}

/// See the module documentation.
pub struct Filer {
    folder: PathBuf,
    program: PathBuf,
    server: Server,
    layout: Layout,
    /// Address of the server.
    pub address: SocketAddr,
    child: Option<Child>,
    /// The answers of [`Server::Cut`] to [`Self::set`].
    answers: Option<BufReader<ChildStdout>>,
    /// [`Server::Cut`] also exports a volume with NBD at [`Self::nbd_socket`].
    pub has_volume: bool,
    lives: u64,
    seed: u64,
}

/// What [`Filer::judge_remains`] did.
pub struct Judged {
    pub by_zdb: bool,
    pub was_killed_again: bool,
}

impl Filer {
    /// Creates a pool with that layout in `folder`, without serving it yet. `program`: this crate's
    /// own program.
    pub fn create(
        program: &Path,
        server: Server,
        layout: Layout,
        folder: &Path,
        seed: u64,
        cache: &str,
    ) -> Result<Self> {
        fs::create_dir_all(folder.join("disks"))?;
        create(&layout, &folder.join("disks"))?;
        // Other processes get other ports for a while. If one takes it anyway, the server reports
        // it.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let this = Self {
            folder: folder.to_owned(),
            program: program.to_owned(),
            server,
            layout,
            address,
            child: None,
            answers: None,
            has_volume: false,
            lives: 0,
            seed,
        };
        if let Server::Weir(_) = this.server {
            ensure!(!layout.is_encrypted(), "an encrypted pool would need its key loaded");
            let config = format!(
                "arc_max = \"{cache}\"\nmount = false\n[api]\nlisten = []\n[nfs]\nlisten = [\"{address}\"]\nportmap = \"off\"\nsecure = false\n"
            );
            fs::write(folder.join("weir.toml"), config)?;
            let disks = folder.join("disks").display().to_string();
            this.weir(&["zpool", "import", "-N", "-d", &disks, POOL])?;
            this.weir(&["zfs", "set", &format!("mountpoint={SHARE}"), "sharenfs=rw,no_root_squash", POOL])?;
        }
        Ok(this)
    }

    /// Directory of the images.
    pub fn disks(&self) -> PathBuf {
        self.folder.join("disks")
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Runs a command of `weir` and returns its output.
    pub fn weir(&self, args: &[&str]) -> Result<String> {
        let output = self.command().args(args).output().context("weir")?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "weir {args:?} ends with {}: {text}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> Command {
        let mut command = match &self.server {
            Server::Weir(Some(weir)) => {
                // The server must not outlive the judge.
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "KILL"]).arg(weir);
                command
            }
            _ => {
                let mut command = Command::new(&self.program);
                command.env(AS_WEIR, "1");
                command
            }
        };
        command.env("WEIR_STATE", self.folder.join("state")).stdin(Stdio::null());
        command
    }

    /// Starts the server without waiting until it answers.
    pub fn begin(&mut self) -> Result<()> {
        self.lives += 1;
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"))?;
        let child = match &self.server {
            Server::Weir(_) => {
                let mut command = self.command();
                command.args(["serve", "--no-mount", "--config"]).arg(self.folder.join("weir.toml"));
                command.stdout(Stdio::null()).stderr(log).spawn()
            }
            Server::Cut => {
                let mut command = Command::new(&self.program);
                command.args(["cut", self.layout.name]).arg(self.folder.join("disks"));
                command.args([self.address.to_string(), (self.seed ^ self.lives << 40).to_string()]);
                if self.has_volume {
                    command.arg(self.nbd_socket());
                }
                // It serves until this end of the pipe is closed.
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()
            }
        };
        let mut child = child.context("start the server")?;
        self.answers = child.stdout.take().map(BufReader::new);
        self.child = Some(child);
        Ok(())
    }

    /// Socket at which [`Server::Cut`] exports its volume.
    pub fn nbd_socket(&self) -> PathBuf {
        self.folder.join("nbd.sock")
    }

    /// Makes [`Server::Cut`] set a property of the file system that it serves.
    pub fn set(&mut self, property: &str, value: &str) -> Result<()> {
        let input = self.child.as_mut().and_then(|child| child.stdin.as_mut()).context("no server is running")?;
        writeln!(input, "{property}={value}")?;
        let mut answer = String::new();
        self.answers.as_mut().context("no answers")?.read_line(&mut answer)?;
        ensure!(answer == "ok\n", "set {property}={value}: the server returned {answer:?}:\n{}", self.log());
        Ok(())
    }

    /// Starts the server and waits until it answers.
    pub fn start(&mut self) -> Result<()> {
        self.begin()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(mut connection) = Connection::open(self.address)
                && connection.call(0, &[]).is_ok()
            {
                return Ok(());
            }
            self.check_alive()?;
            ensure!(Instant::now() < deadline, "the server does not start:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Fails if the server has exited by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        let child = self.child.as_mut().context("no server")?;
        if let Some(status) = child.try_wait()? {
            bail!("the server ended by itself, with {status}:\n{}", self.log());
        }
        Ok(())
    }

    /// Sends SIGKILL to the server and waits until it has ended.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("no server")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Stops the server as systemd does.
    pub fn end(&mut self) -> Result<()> {
        let mut child = self.child.take().context("no server")?;
        match self.server {
            Server::Weir(_) => {
                let pid = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            }
            Server::Cut => drop(child.stdin.take()),
        }
        let status = child.wait()?;
        ensure!(status.success(), "the server ended with {status}:\n{}", self.log());
        Ok(())
    }

    /// Verifies every block of the pool on disk.
    pub fn verify(&self) -> Result<()> {
        verify(&self.layout, &self.folder.join("disks"))
    }

    /// Checks the pool with zdb, if it is installed.
    pub fn zdb(&self) -> Result<()> {
        zdb(&self.folder.join("disks"))
    }

    /// Checks the pool as a kill or power cut left it, in some of the rounds: with `weir verify`,
    /// and with zdb in every `zdb_every`th. In some others, kills the server once more while it
    /// replays the log of its previous run.
    pub fn judge_remains(&mut self, chance: &mut Chance, round: u64, zdb_every: u64) -> Result<Judged> {
        if chance.once_in(5) {
            self.verify()?;
        }
        let by_zdb = (round + 1).is_multiple_of(zdb_every.max(1));
        if by_zdb {
            self.zdb()?;
        }
        let was_killed_again = chance.once_in(4);
        if was_killed_again {
            self.begin()?;
            std::thread::sleep(Duration::from_millis(chance.below(400)));
            self.kill()?;
        }
        Ok(Judged { by_zdb, was_killed_again })
    }

    /// Number of the pool's devices that the server has open.
    pub fn open_devices(&self) -> Result<usize> {
        let child = self.child.as_ref().context("no server")?;
        let (mut count, disks) = (0, self.folder.join("disks"));
        for entry in fs::read_dir(format!("/proc/{}/fd", child.id()))? {
            // A descriptor that was closed meanwhile has no target.
            count += usize::from(fs::read_link(entry?.path()).is_ok_and(|to| to.starts_with(&disks)));
        }
        Ok(count)
    }

    /// Current and maximum memory of the server in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let child = self.child.as_ref().context("no server")?;
        let text = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        let field = |name: &str| -> Result<u64> {
            let line = text.lines().find_map(|l| l.strip_prefix(name)).context("no such field")?;
            Ok(line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>()? << 10)
        };
        Ok((field("VmRSS")?, field("VmHWM")?))
    }

    /// CPU time used by the server.
    pub fn processor_time(&self) -> Result<Duration> {
        let child = self.child.as_ref().context("no server")?;
        let text = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).context("no such field");
        // In ticks of 1/100 s, the unit of Linux.
        Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
    }

    /// The log of all runs of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Fails if a thread of the server has panicked or found a broken invariant.
    pub fn check_log(&self) -> Result<()> {
        let log = self.log();
        let bad: Vec<&str> =
            log.lines().filter(|l| l.contains("panicked") || l.contains("broke an invariant")).take(5).collect();
        ensure!(bad.is_empty(), "the server says: {bad:#?}");
        Ok(())
    }
}

impl Drop for Filer {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.kill();
        }
    }
}
