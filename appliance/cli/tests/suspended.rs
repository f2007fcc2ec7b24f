//! Devices that fail because somebody asked for it (`weir inject`), and pools that cannot write: whatever devices do, commands answer.
//!
//! Each answer is given [`LONGEST`], which is long because machines that run tests are busy; alone, each takes some hundredths of a second.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer than this hangs.
const LONGEST: Duration = Duration::from_secs(30);

struct Rig {
    dir: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Rig {
    fn new(disks: &[&str]) -> Self {
        let mut rig = Self { dir: tempfile::tempdir().expect("a folder"), daemon: None };
        for disk in disks {
            std::fs::File::create(rig.dir.path().join(disk)).and_then(|f| f.set_len(128 << 20)).expect("an image file");
        }
        rig.serve();
        rig
    }

    fn command(&self, line: &str) -> Command {
        let dir = self.dir.path().display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(line.split(' ').map(|word| word.replace("DIR", &dir)))
            .env("WEIR_STATE", self.dir.path().join("state"));
        command.stdin(Stdio::null());
        command
    }

    fn serve(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log")).expect("a log");
        self.daemon = Some(self.command("serve --no-mount").stderr(log).spawn().expect("it starts"));
        let deadline = Instant::now() + LONGEST;
        while !Path::new(&self.dir.path().join("state/run/weir.sock")).exists() {
            assert!(Instant::now() < deadline, "no socket: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn started(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    fn ended(&self, mut child: Child, line: &str) -> (i32, String) {
        let deadline = Instant::now() + LONGEST;
        while child.try_wait().expect("it can be waited for").is_none() {
            if Instant::now() > deadline {
                let _ = child.kill();
                panic!("'{line}' hangs\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it has ended");
        let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        (status.code().unwrap_or(-1), text)
    }

    fn run(&self, line: &str) -> (i32, String) {
        self.ended(self.started(line), line)
    }

    fn good(&self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 0, "{line}: {text}\n{}", self.log());
        text
    }

    /// Tries until the text is there.
    fn until(&self, line: &str, wanted: &str) -> String {
        let deadline = Instant::now() + LONGEST;
        loop {
            let (_, text) = self.run(line);
            if text.contains(wanted) {
                return text;
            }
            assert!(Instant::now() < deadline, "{line}: no '{wanted}' in\n{text}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) {
        let daemon = self.daemon.take().expect("it runs");
        Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().expect("kill runs");
        self.ended(daemon, "weir serve, told to end");
    }

    /// Both sides of `tank` refuse, and it has noticed.
    fn suspend(&self, how: &str) -> (Child, String) {
        self.good(&format!("inject -d DIR/a {how} tank"));
        self.good(&format!("inject -d DIR/b {how} tank"));
        let change = "zfs set com.example:x=1 tank";
        let child = self.started(change);
        (child, self.until("zpool status tank", "state: SUSPENDED"))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn rules_are_put_in_force_listed_and_ended() {
    let rig = Rig::new(&["a", "b"]);
    assert_eq!(rig.good("inject"), "No rules are in force.\n");
    assert!(rig.run("inject -d DIR/a tank").1.contains("no such pool 'tank'"));
    rig.good("zpool create tank mirror DIR/a DIR/b");
    assert!(rig.run("inject -d nosuch tank").1.contains("'nosuch' is no device of 'tank'"));
    let id = rig.good("inject -q -d DIR/a -e io -T write -f 50 tank");
    let id = id.trim();
    for n in 0..20 {
        // One side of two is enough, so nobody notices but `zpool status`.
        rig.good(&format!("zfs set com.example:n={n} tank"));
    }
    let list = rig.good("inject");
    let row = list.lines().find(|l| l.split_whitespace().next() == Some(id)).expect("the rule");
    let fields: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((fields[1], fields[3], fields[4], fields[5]), ("tank", "write", "io", "50.0000%"));
    let (matched, injected) =
        (fields[6].parse::<u64>().expect("a number"), fields[7].parse::<u64>().expect("a number"));
    assert!(matched > injected && injected > 0, "{row}");
    let errors = |side: &str| {
        let status = rig.good("zpool status -p tank");
        let line = status.lines().find(|l| l.contains(&format!("/{side} "))).expect("a line").to_owned();
        line.split_whitespace().nth(3).and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    assert!(errors("a") > 0 && errors("b") == 0);
    assert!(rig.good("zpool status -x").contains("ZFS-8000-9P"));
    assert_eq!(rig.good(&format!("inject -c {id}")), format!("removed rule {id}\n"));
    assert_eq!(rig.run(&format!("inject -c {id}")).0, 1);
    // A file's second block cannot be read, the first one can; without the rule both can.
    rig.good("zfs create -o recordsize=8K tank/f");
    rig.good("inject -b 1:1:0:0 tank");
    rig.good("inject -t spacemap -e checksum -f 0.5 tank");
    assert!(rig.good("inject").contains("SPA space map") || rig.good("inject").contains("space map"));
    rig.good("inject -c all");
    assert_eq!(rig.good("inject"), "No rules are in force.\n");
    // A slow device is slow, and nothing more.
    rig.good("inject -d DIR/b -D 20:1 tank");
    let start = Instant::now();
    rig.good("zfs set com.example:n=x tank");
    assert!(start.elapsed() > Duration::from_millis(60), "labels and blocks, one after the other");
}

#[test]
fn a_pool_whose_devices_refuse_answers_every_command_and_goes_on_when_they_work_again() {
    for mode in ["wait", "continue"] {
        let mut rig = Rig::new(&["a", "b"]);
        rig.good(&format!("zpool create -o failmode={mode} tank mirror DIR/a DIR/b"));
        rig.good("zfs create tank/kept");
        let (change, status) = rig.suspend("-e io -T write");
        assert!(status.contains("ZFS-8000-HC"), "{status}");
        assert!(rig.good("zpool status -x").contains("state: SUSPENDED"));
        let json = rig.good("zpool status -j tank");
        assert!(json.contains("\"state\":\"SUSPENDED\"") && json.contains("\"msgid\":\"ZFS-8000-HC\""), "{json}");
        assert!(rig.good("zpool list -H -o name,health").contains("tank\tSUSPENDED"));
        for line in
            ["zfs list -r tank", "zpool get all tank", "zpool iostat -v tank", "zpool history tank", "zpool events"]
        {
            rig.good(line);
        }
        for line in [
            "zfs create tank/no",
            "zpool set comment=x tank",
            "zpool sync tank",
            "zfs snapshot tank@no",
            "zfs destroy tank/kept",
        ] {
            let (code, text) = rig.run(line);
            assert!(code != 0 && (text.contains("suspended") || text.contains("write error")), "{line}: {text}");
        }
        let (code, text) = rig.run("zpool clear tank");
        assert!(code != 0, "it still cannot: {text}");
        rig.good("inject -c all");
        rig.good("zpool clear tank");
        assert!(rig.good("zpool status tank").contains("state: ONLINE"));
        rig.ended(change, "the change that met it");
        rig.good("zfs create tank/more");
        // Once more, and the daemon is told to end: what was promised is there for the next one.
        let (change, _) = rig.suspend("-e io-prefail -T write");
        rig.stop();
        rig.ended(change, "the change that met it");
        rig.serve();
        assert!(rig.good("zfs list -H -o name").contains("tank/more"));
        // Not even told to flush: then it has to be let go of.
        let (change, _) = rig.suspend("-e io -T flush");
        assert_ne!(rig.run("zpool clear tank").0, 0);
        let (code, text) = rig.run("zpool export -f tank");
        assert_eq!(code, 0, "{text}");
        rig.ended(change, "the change that met it");
        assert_eq!(rig.good("zpool list -H"), "");
        rig.good("zpool import -d DIR tank");
        // Gone altogether: nothing can be read either.
        rig.good("inject -d DIR/a tank");
        rig.good("inject -a -d DIR/b tank");
        rig.run("zfs list -r tank");
        rig.until("zpool status tank", "state: UNAVAIL");
        assert!(rig.good("zpool status -x").contains("too many errors"));
        rig.good("inject -c all");
        rig.run("zpool clear tank");
        rig.until("zpool status tank", "state: ONLINE");
        let (change, _) = rig.suspend("-e nxio");
        rig.good("inject -a tank");
        assert!(rig.good("zpool status -x").contains("ZFS-8000-HC"));
        rig.run("zfs list -r tank");
        assert_eq!(rig.run("zpool export -f tank").0, 0);
        rig.ended(change, "the change that met it");
        rig.good("zpool import -d DIR tank");
        assert!(rig.good("zfs list -H -o name").contains("tank/more"));
        rig.good("zpool export tank");
    }
}
