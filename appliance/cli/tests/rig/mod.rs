//! Runs `weir` on image files in a folder of its own.

mod nbd;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take for what [`Rig::wait`] waits for: long, because test machines are
/// busy.
const LONGEST: Duration = Duration::from_secs(60);

/// The line that starts a daemon with NFS and the web interface on free ports, and without mounts.
pub const SERVE: &str =
    "serve --no-mount --set nfs.listen=127.0.0.1:0 --set nfs.portmap=off --set api.listen=127.0.0.1:0";

/// A directory with image files in `d`, a state directory `state`, and what a daemon logs in `log`;
/// with or without a daemon.
pub struct Rig {
    dir: tempfile::TempDir,
    daemon: Option<Child>,
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Whether this user can mount one file system inside another here, or in a name space of its own.
pub fn can_mount() -> bool {
    is_root() && Path::new("/dev/fuse").exists()
}

/// The directory of unpacked pools of the kernel module. `None`, with a printed line, without one.
pub fn fixtures() -> Option<PathBuf> {
    let found = folder_of("WEIR_FIXTURES");
    if found.is_none() {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios");
    }
    found
}

/// The directory of what the kernel's tools printed of those pools.
pub fn recordings(fixtures: &Path) -> PathBuf {
    folder_of("WEIR_EXPECTED").unwrap_or_else(|| fixtures.to_owned())
}

/// An absolute path, because commands do not run in the current directory.
fn folder_of(variable: &str) -> Option<PathBuf> {
    let path = std::path::absolute(std::env::var_os(variable)?).expect("a path");
    assert!(path.is_dir(), "{variable}: {} is no folder", path.display());
    Some(path)
}

impl Rig {
    /// Creates image files of 128 MiB in `d`.
    pub fn new(disks: &[&str]) -> Self {
        let rig = Self { dir: tempfile::tempdir().expect("a folder"), daemon: None };
        std::fs::create_dir(rig.path("d")).expect("a folder");
        for disk in disks {
            rig.disk(disk, 128 << 20);
        }
        rig
    }

    /// A pool `tank` on one disk, served and mounted at `tank`. `None`, with a printed line, where
    /// file systems cannot be mounted.
    pub fn mounted() -> Option<Self> {
        if !can_mount() {
            println!("skipped: needs root and /dev/fuse");
            return None;
        }
        let mut rig = Self::new(&["a"]);
        rig.start("serve");
        rig.good("zpool create -m DIR/tank tank DIR/d/a");
        Some(rig)
    }

    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn disk(&self, name: &str, bytes: u64) {
        let path = self.path(&format!("d/{name}"));
        std::fs::File::create(path).and_then(|f| f.set_len(bytes)).expect("an image file");
    }

    /// `weir` with these arguments.
    pub fn weir(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).env("WEIR_STATE", self.path("state")).env("TZ", "UTC");
        command.current_dir(self.path("d")).stdin(Stdio::null());
        command
    }

    /// `weir` with the words of a line, in which `DIR` stands for the directory.
    pub fn command(&self, line: &str) -> Command {
        let line = line.replace("DIR", &self.dir.path().display().to_string());
        self.weir(&line.split(' ').collect::<Vec<_>>())
    }

    /// Starts a daemon that mounts nothing automatically.
    pub fn serve(&mut self) {
        self.start("serve --no-mount");
    }

    pub fn start(&mut self, line: &str) {
        self.launch(self.command(line));
    }

    /// Starts a daemon and waits until it listens.
    pub fn launch(&mut self, mut daemon: Command) {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).expect("a log");
        self.daemon = Some(daemon.stderr(log).spawn().expect("it starts"));
        self.wait("no socket", |rig| Path::new(&rig.path("state/run/weir.sock")).exists());
    }

    /// Waits until the condition holds.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LONGEST;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Sends the daemon a signal that ends it.
    pub fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let mut daemon = self.daemon.take().expect("it runs");
        Command::new("kill").args([name, &daemon.id().to_string()]).status().expect("kill runs");
        daemon.wait().expect("it ends")
    }

    /// Process number of the daemon.
    pub fn daemon_id(&self) -> Option<u32> {
        self.daemon.as_ref().map(Child::id)
    }

    /// The daemon, for a test that ends it in its own way.
    pub fn take_daemon(&mut self) -> Option<Child> {
        self.daemon.take()
    }

    /// Returns the exit code, the output, and the text on standard error.
    pub fn run(&self, line: &str) -> (i32, String, String) {
        outcome(self.command(line))
    }

    /// Runs a command that must succeed without a word on standard error. Returns the output.
    pub fn good(&self, line: &str) -> String {
        good(self.command(line), line)
    }

    /// As [`Rig::run`], for arguments that may have spaces.
    pub fn run_args(&self, args: &[&str]) -> (i32, String, String) {
        outcome(self.weir(args))
    }

    /// As [`Rig::good`], for arguments that may have spaces.
    pub fn good_args(&self, args: &[&str]) -> String {
        good(self.weir(args), &args.join(" "))
    }

    /// Writes so many blocks of 128 KiB that do not compress to a volume of the daemon, from its
    /// start: by NBD, as its clients do.
    pub fn write_volume(&self, name: &str, blocks: u32) {
        nbd::write(self.path("state/run/nbd.sock").as_ref(), name, blocks).expect("written");
    }

    /// Lets zdb, where it is installed, read every block of a pool and add up the space.
    pub fn judge(&self, pool: &str) {
        ::rig::zdb::check(self.path("d").as_ref(), pool).unwrap();
    }
}

fn outcome(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
}

fn good(command: Command, line: &str) -> String {
    let (code, out, err) = outcome(command);
    assert_eq!((code, err.as_str()), (0, ""), "{line}: {out}");
    out
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SIGTERM, not SIGKILL: a failed test must leave no mounts behind.
        if self.daemon.is_some() {
            self.signal("-TERM");
        }
    }
}
