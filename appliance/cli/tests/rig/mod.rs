//! Runs `weir` on image files in a folder of its own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory with image files and a state directory, with or without a daemon.
pub struct Rig {
    dir: tempfile::TempDir,
    daemon: Option<Child>,
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Rig {
    pub fn new(disks: &[&str]) -> Self {
        let rig = Self { dir: tempfile::tempdir().expect("a folder"), daemon: None };
        std::fs::create_dir(rig.path("d")).expect("a folder");
        for disk in disks {
            rig.disk(disk, 128 << 20);
        }
        rig
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn disk(&self, name: &str, bytes: u64) {
        let path = self.path(&format!("d/{name}"));
        std::fs::File::create(path).and_then(|f| f.set_len(bytes)).expect("an image file");
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(line.split(' ').map(|word| word.replace("DIR", &self.path(""))))
            .env("WEIR_STATE", self.path("state"))
            .env("TZ", "UTC")
            .current_dir(self.path("d"))
            .stdin(Stdio::null());
        command
    }

    pub fn start(&mut self, line: &str) {
        self.launch(self.command(line));
    }

    /// Starts a daemon and waits until it listens.
    pub fn launch(&mut self, mut daemon: Command) {
        let log = std::fs::File::create(self.path("log")).expect("a log");
        self.daemon = Some(daemon.stderr(log).spawn().expect("it starts"));
        let deadline = Instant::now() + Duration::from_secs(30);
        while !Path::new(&self.path("state/run/weir.sock")).exists() {
            assert!(
                Instant::now() < deadline,
                "no socket: {}",
                std::fs::read_to_string(self.path("log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let mut daemon = self.daemon.take().expect("it runs");
        Command::new("kill").args([name, &daemon.id().to_string()]).status().expect("kill runs");
        daemon.wait().expect("it ends")
    }

    pub fn run(&self, line: &str) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(line).output().expect("it runs");
        (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
    }

    pub fn good(&self, line: &str) -> String {
        let (code, out, err) = self.run(line);
        assert_eq!((code, err.as_str()), (0, ""), "{line}: {out}");
        out
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SIGTERM, not SIGKILL: a failed test must leave no mounts behind.
        if self.daemon.is_some() {
            self.signal("-TERM");
        }
    }
}
