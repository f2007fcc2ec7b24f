//! Injected device errors (`weir inject`), and pools that cannot write: whatever the devices do,
//! commands answer.
//!
//! Each command gets [`LONGEST`], which is long because test machines are busy; on an idle machine
//! each takes some hundredths of a second.

use crate::rig::{Rig, text};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer than this hangs.
const LONGEST: Duration = Duration::from_secs(30);

/// A rig with a daemon, in which no command may hang.
struct Served {
    rig: Rig,
}

impl std::ops::Deref for Served {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Served {
    fn new(disks: &[&str]) -> Self {
        Self::with(disks, "")
    }

    /// Starts a daemon with additional options.
    fn with(disks: &[&str], options: &str) -> Self {
        let mut rig = Rig::new(disks);
        rig.start(&format!("serve --no-mount{options}"));
        Self { rig }
    }

    fn started(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }

    fn ended(&self, mut child: Child, line: &str) -> (i32, String) {
        // Read while the command runs: it would block for ever on a full pipe.
        let read = |stream: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stream.map(|mut stream| stream.read_to_end(&mut bytes));
                text(&bytes)
            })
        };
        let out = read(child.stdout.take().map(|stream| -> Box<dyn Read + Send> { Box::new(stream) }));
        let err = read(child.stderr.take().map(|stream| -> Box<dyn Read + Send> { Box::new(stream) }));
        let deadline = Instant::now() + LONGEST;
        let status = loop {
            if let Some(status) = child.try_wait().expect("it can be waited for") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                panic!("'{line}' hangs\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = out.join().expect("read") + &err.join().expect("read");
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

    /// Repeats the command until its output has the text.
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
        let daemon = self.rig.take_daemon().expect("it runs");
        Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().expect("kill runs");
        self.ended(daemon, "weir serve, after SIGTERM");
    }

    /// Makes both sides of `tank` fail, and waits until the pool is suspended.
    fn suspend(&self, how: &str) -> (Child, String) {
        self.good(&format!("inject -d DIR/d/a {how} tank"));
        self.good(&format!("inject -d DIR/d/b {how} tank"));
        let change = "zfs set com.example:x=1 tank";
        let child = self.started(change);
        (child, self.until("zpool status tank", "state: SUSPENDED"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One whose devices do not answer might not end by itself.
        if let Some(mut daemon) = self.rig.take_daemon() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn rules_are_put_in_force_listed_and_ended() {
    let rig = Served::new(&["a", "b"]);
    assert_eq!(rig.good("inject"), "No rules are active.\n");
    assert!(rig.run("inject -d DIR/d/a tank").1.contains("no such pool 'tank'"));
    rig.good("zpool create tank mirror DIR/d/a DIR/d/b");
    assert!(rig.run("inject -d nosuch tank").1.contains("'nosuch' is not a device of 'tank'"));
    let id = rig.good("inject -q -d DIR/d/a -e io -T write -f 50 tank");
    let id = id.trim();
    for n in 0..20 {
        // One side of two is enough: only `zpool status` shows the errors.
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
    // A file's second block cannot be read, its first block can; without the rule both can.
    rig.good("zfs create -o recordsize=8K tank/f");
    rig.good("inject -b 1:1:0:0 tank");
    rig.good("inject -t spacemap -e checksum -f 0.5 tank");
    assert!(rig.good("inject").contains("SPA space map") || rig.good("inject").contains("space map"));
    rig.good("inject -c all");
    assert_eq!(rig.good("inject"), "No rules are active.\n");
    // A slow device delays operations, and has no other effect.
    rig.good("inject -d DIR/d/b -D 20:1 tank");
    let start = Instant::now();
    rig.good("zfs set com.example:n=x tank");
    assert!(start.elapsed() > Duration::from_millis(60), "labels and blocks, one after the other");
}

#[test]
fn a_pool_with_failing_devices_answers_every_command_and_resumes_when_they_work() {
    for mode in ["wait", "continue"] {
        let mut rig = Served::new(&["a", "b"]);
        rig.good(&format!("zpool create -o failmode={mode} tank mirror DIR/d/a DIR/d/b"));
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
        // Again, with a stop of the daemon: the next one finds all promised changes.
        let (change, _) = rig.suspend("-e io-prefail -T write");
        rig.stop();
        rig.ended(change, "the change that met it");
        rig.rig.serve();
        assert!(rig.good("zfs list -H -o name").contains("tank/more"));
        // Even the flush fails: then only a forced export is left.
        let (change, _) = rig.suspend("-e io -T flush");
        assert_ne!(rig.run("zpool clear tank").0, 0);
        let (code, text) = rig.run("zpool export -f tank");
        assert_eq!(code, 0, "{text}");
        rig.ended(change, "the change that met it");
        assert_eq!(rig.good("zpool list -H"), "");
        rig.good("zpool import -d DIR/d tank");
        // All devices gone: nothing can be read either.
        rig.good("inject -d DIR/d/a tank");
        rig.good("inject -a -d DIR/d/b tank");
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
        rig.good("zpool import -d DIR/d tank");
        assert!(rig.good("zfs list -H -o name").contains("tank/more"));
        rig.good("zpool export tank");
    }
}

#[test]
fn a_pool_whose_devices_do_not_answer_is_listed_as_it_last_was_and_hinders_no_other() {
    let rig = Served::new(&["a", "b"]);
    rig.good("zpool create tank DIR/d/a");
    rig.good("zpool create good DIR/d/b");
    rig.good("zpool status");
    // Longer than any test waits: for commands, infinitely long.
    rig.good("inject -d DIR/d/a -D 600000:1 tank");
    rig.good("inject -a tank");
    let begun = Instant::now();
    for _ in 0..3 {
        let list = rig.good("zpool list -H -o name,health");
        assert!(list.contains("tank\tONLINE") && list.contains("good\tONLINE"), "{list}");
        assert!(list.contains("tank: Devices do not respond."), "{list}");
        let status = rig.good("zpool status");
        assert!(status.contains("pool: tank") && status.contains("pool: good"), "{status}");
    }
    assert!(begun.elapsed() < LONGEST, "six commands wait for the devices once");
    rig.good("zpool get all good");
    rig.good("zfs create good/x");
    assert!(rig.good("zfs list -H -o name -r good").contains("good/x"));
}

#[test]
fn an_export_that_cannot_be_remembered_changes_nothing() {
    let rig = Served::new(&["a"]);
    rig.good("zpool create tank DIR/d/a");
    // Blocks the creation of the new list, as a full disk would.
    let obstacle = rig.folder().join("state/pools.json.new");
    std::fs::create_dir(&obstacle).expect("made");
    for line in ["zpool export tank", "zpool destroy tank"] {
        let (code, text) = rig.run(line);
        assert!(code != 0 && text.contains("pools.json"), "{line}: {code}: {text}");
        assert!(rig.good("zpool list -H -o name,health").contains("tank\tONLINE"));
        rig.good("zfs set com.example:x=1 tank");
    }
    std::fs::remove_dir(&obstacle).expect("removed");
    rig.good("zpool export tank");
    assert_eq!(rig.good("zpool list -H"), "");
    rig.good("zpool import -d DIR/d tank");
}

#[test]
fn events_are_reported_to_queries_followers_and_programs() {
    use std::io::BufRead;
    use std::os::unix::fs::PermissionsExt;
    let rig = Served::with(&["a", "b"], " --set events.programs=DIR/programs --set events.slow_ms=20");
    let programs = rig.folder().join("programs");
    std::fs::create_dir(&programs).expect("a folder");
    std::fs::set_permissions(&programs, PermissionsExt::from_mode(0o755)).expect("set");
    let program = programs.join("io-note");
    let output = rig.folder().join("output");
    let text = format!(
        "#!/bin/sh\n\"$ZPOOL\" list -H -o name > {0}.$$\necho $ZEVENT_POOL $ZEVENT_VDEV_PATH $ZEVENT_ZIO_ERR >> {0}.$$\nmv {0}.$$ {0}\n",
        output.display()
    );
    std::fs::write(&program, text).expect("written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("set");
    assert_eq!(rig.good("zpool events -H"), "");
    rig.good("zpool create tank mirror DIR/d/a DIR/d/b");
    let classes = |text: &str| text.lines().filter_map(|l| l.split('\t').nth(1).map(str::to_owned)).collect::<Vec<_>>();
    let first = classes(&rig.good("zpool events -H"));
    assert!(first.iter().any(|c| c == "sysevent.fs.zfs.pool_create"), "{first:?}");
    rig.good("inject -d DIR/d/a -e io -T write tank");
    rig.good("inject -d DIR/d/b -D 30:1 -T write tank");
    let mut follows = rig.started("zpool events -H -f tank");
    let mut lines = std::io::BufReader::new(follows.stdout.take().expect("a pipe")).lines();
    rig.good("zfs set com.example:x=1 tank");
    // A follower gets the earlier events, and then the new ones.
    let mut seen = Vec::new();
    for class in ["ereport.fs.zfs.io", "ereport.fs.zfs.delay"] {
        while !seen.contains(&class.to_owned()) {
            let line = lines.next().expect("more").expect("text");
            seen.extend(line.split('\t').nth(1).map(str::to_owned));
        }
    }
    follows.kill().and_then(|()| follows.wait()).expect("it ends");
    let verbose = rig.good("zpool events -v tank");
    for part in [
        "class = \"ereport.fs.zfs.io\"",
        "zio_type = 0x2 [WRITE]",
        "history_internal_name = \"set\"",
        "(embedded nvlist)",
        "eid = 0x1\n",
    ] {
        assert!(verbose.contains(part), "no {part} in {verbose}");
    }
    let slow = rig.good("zpool status -ps tank");
    let row = slow.lines().find(|l| l.contains("/b ")).expect("the slow one").split_whitespace().nth(5);
    assert!(row.and_then(|n| n.parse::<u64>().ok()).is_some_and(|n| n > 0), "{slow}");
    rig.wait("the program was not run", |_| output.exists());
    let text = std::fs::read_to_string(&output).expect("the output");
    assert_eq!(text, format!("tank\ntank {} 5\n", rig.path("d/a")));
    assert!(rig.good("zpool events -c").starts_with("cleared "));
    rig.good("inject -c all");
    rig.good("zpool export tank");
    assert!(classes(&rig.good("zpool events -H")).contains(&"sysevent.fs.zfs.pool_export".to_owned()));
}

#[test]
fn waiting_ends_immediately_without_activity() {
    let rig = Served::new(&["a"]);
    rig.good("zpool create tank DIR/d/a");
    assert_eq!(rig.good("zpool wait tank"), "");
    assert_eq!(rig.good("zpool wait -t scrub,free tank 0.1"), "    FREE   SCRUB\n       0       0\n");
    assert_eq!(rig.good("zpool wait -H -t scrub tank 0.1"), "0\n");
    assert_eq!(rig.run("zpool wait -t nothing tank").0, 2);
    assert_eq!(rig.run("zpool wait nosuch").0, 1);
    assert_eq!(rig.good("zpool status tank 0.05 2").matches("  pool: tank").count(), 2);
}

#[test]
fn the_printed_plan_creates_a_pool_with_the_predicted_space() {
    let disks = ["t0", "t1", "t2", "u0", "u1", "u2"];
    let rig = Served::new(&disks);
    let shelves: String =
        disks.iter().map(|d| format!("{d} {}\n", if d.starts_with('t') { "upper" } else { "lower" })).collect();
    std::fs::write(rig.folder().join("shelves"), shelves).expect("written");
    let devices: String = disks.iter().map(|d| format!(" DIR/d/{d}")).collect();
    for goal in ["speed", "space", "balance"] {
        let text = rig.good(&format!("zpool plan --pool made --for {goal} --enclosures DIR/shelves{devices}"));
        let command = text.lines().last().expect("a command");
        let json = rig.good(&format!("zpool plan -j --pool made --for {goal} --enclosures DIR/shelves{devices}"));
        let document: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let first = &document["proposals"][0];
        assert_eq!((first["advised"].as_bool(), first["command"].as_str()), (Some(true), Some(command)));
        if goal == "speed" {
            assert_eq!(first["survives_any_shelf"], true, "{text}");
        }
        rig.good(command);
        let numbers = rig.good("zfs list -Hp -o used,available made");
        let sum: u64 = numbers.split_whitespace().map(|n| n.parse::<u64>().expect("a number")).sum();
        assert_eq!(first["usable_bytes"].as_u64(), Some(sum), "{text}");
        rig.good("zpool destroy made");
    }
}

#[test]
fn a_diagnosis_is_shown_until_it_is_cleared_and_a_healthy_device_is_not_reported() {
    let rig = Served::new(&["a", "b"]);
    rig.good("zpool create tank mirror DIR/d/a DIR/d/b");
    let state = |side: &str| {
        let status = rig.good("zpool status tank");
        let line = status.lines().find(|l| l.contains(&format!("/{side} "))).expect("a line").to_owned();
        line.split_whitespace().nth(1).expect("a state").to_owned()
    };
    rig.good("inject -d DIR/d/a -A degrade tank");
    assert_eq!((state("a").as_str(), state("b").as_str()), ("DEGRADED", "ONLINE"));
    rig.good("inject -d DIR/d/b -A fault tank");
    assert_eq!(state("b"), "FAULTED");
    let clears = || rig.good("zpool events -H").matches("vdev_clear").count();
    rig.good("zpool clear tank");
    assert_eq!((state("a").as_str(), state("b").as_str(), clears()), ("ONLINE", "ONLINE", 2));
    // The side that was faulted is resilvered, which has events of its own.
    rig.good("zpool wait -t resilver tank");
    rig.good("zpool sync tank");
    rig.good("zpool events -c");
    for _ in 0..3 {
        rig.good("zpool clear tank");
    }
    rig.good("zpool sync tank");
    let events = rig.good("zpool events -H");
    let records = events.lines().filter(|line| line.contains("history_event")).count();
    assert_eq!((records, clears()), (3, 0), "one record of the history for each: {events}");
}

#[test]
fn io_errors_spare_the_labels() {
    let rig = Served::new(&["a", "b"]);
    rig.good("zpool create tank mirror DIR/d/a DIR/d/b");
    rig.good("inject -d DIR/d/a -e io -T read tank");
    // The scrub looks at the labels first, and would close a device without any.
    rig.good("zpool scrub -w tank");
    let status = rig.good("zpool status -p tank");
    let line = status.lines().find(|l| l.contains("/a ")).expect("a line");
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(fields[1], "ONLINE", "{status}");
    assert!(fields[2].parse::<u64>().is_ok_and(|errors| errors > 0), "{status}");
}
