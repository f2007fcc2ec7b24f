//! Commands that show statistics of a running daemon: their columns, their rows, and how they end.

use crate::rig::Rig;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A daemon with the pool `tank` on an image file.
fn serving() -> Rig {
    let mut rig = Rig::new(&["disk"]);
    rig.serve();
    assert_eq!(rig.good("zpool create tank DIR/d/disk"), "");
    rig.wait("no second was recorded", |rig| rig.run("stat nfs3.ops").0 == 0);
    rig
}

impl Rig {
    /// Writes to the disk. Devices report statistics from a second after the pool was opened.
    fn write(&self) {
        let number = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos();
        self.good(&format!("zfs create tank/{number}"));
    }

    fn json(&self, line: &str) -> Vec<serde_json::Value> {
        self.good(line).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Sends a request to the daemon and returns the parsed answer.
    fn ask(&self, method: &str, path: &str) -> serde_json::Value {
        let mut stream = UnixStream::connect(self.path("state/run/weir.sock")).expect("it listens");
        let request_text = format!("{method} {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n");
        stream.write_all(request_text.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{path}: {e}: {answer}"))
    }

    /// The totals of a statistic, by key; a raw statistic has an empty key.
    fn sums(&self, name: &str) -> BTreeMap<String, u64> {
        let name = name.replace('[', "%5B").replace(']', "%5D").replace('=', "%3D");
        let series = self.ask("GET", &format!("/v1/analytics/query?name={name}&from={}", seconds() - 600));
        let mut sums = BTreeMap::new();
        for column in series["columns"].as_array().expect("columns") {
            let cells = column["cells"].as_array().expect("cells");
            if cells.is_empty() {
                *sums.entry(String::new()).or_default() += column["total"].as_u64().expect("a number");
            }
            for cell in cells.chunks(2) {
                let key = series["keys"][cell[0].to_string()].as_str().expect("a name").to_owned();
                *sums.entry(key).or_default() += cell[1].as_u64().expect("a number");
            }
        }
        sums.retain(|_, sum| *sum > 0);
        sums
    }

    /// The newest job of a kind, once it meets the condition.
    fn job(&self, kind: &str, is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let newest = |rig: &Self| {
            let all = rig.ask("GET", "/v1/jobs")["items"].as_array().expect("jobs").clone();
            all.into_iter().find(|job| job["kind"] == kind).filter(|job| is_so(job))
        };
        self.wait(kind, |rig| newest(rig).is_some());
        newest(self).expect("it existed")
    }
}

fn seconds() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs()
}

/// Splits a line at white space.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn statistics_are_shown_each_interval_and_for_the_past() {
    let rig = serving();
    rig.wait("no writes were seen", |rig| {
        rig.write();
        let rows = rig.json("stat -j io.ops[op]");
        rows.iter().any(|row| row["key"] == "write" && row["ops/s"].as_f64().is_some_and(|n| n > 0.0))
    });
    let disk = rig.path("d/disk");
    // A statistic without counters of its own comes from the recorder, once that has a complete
    // second.
    rig.wait("the recorder has no writes", |rig| {
        rig.write();
        rig.run("stat -j io.bytes[disk] --from -10m").1.contains(&disk)
    });
    let live = rig.good("stat nfs3.ops[client] 1 2");
    let lines: Vec<_> = live.lines().map(words).collect();
    assert_eq!(lines[0], ["time", "ops/s", "key"]);
    // On a busy machine the recorder may have missed a second; then the output says so.
    let is_idle = |line: &[&str]| line.len() == 3 && matches!(line[1..], ["0" | "-", "-"]);
    assert!(lines.len() == 3 && is_idle(&lines[1]) && is_idle(&lines[2]), "{live}");
    let second = |line: &[&str]| line[0].parse::<u64>().expect("seconds since 1970");
    assert!(second(&lines[2]) > second(&lines[1]), "{live}");
    assert_eq!(words(rig.good("stat nfs3.bytes").lines().next().expect("a heading")), ["time", "value_B/s"]);
    assert_eq!(words(rig.good("stat -u MiB arc.size").lines().next().expect("a heading")), ["time", "value_MiB"]);
    assert!(rig.good("stat --columns arc.size").contains("\"unit\":\"bytes\""));
}

#[test]
fn busy_clients_and_latency_distributions_are_shown() {
    let rig = serving();
    let disk = rig.path("d/disk");
    // The span reaches back to before the daemon started.
    rig.wait("the disk is not busy", |rig| {
        rig.write();
        let rows = rig.json("top -j --by disk 100 1");
        rows.iter().any(|row| row["key"] == disk.as_str() && row["max_ms"].is_number())
    });
    let heading = rig.good("top --by client");
    assert_eq!(
        words(heading.lines().next().expect("a heading")),
        ["time", "ops/s", "data_B/s", "avg_ms", "max_ms", "share%", "key"]
    );
    let spread = rig.good("dist io.ops[op=write]");
    assert!(spread.starts_with("Disk: I/O operations of type write broken down by latency, "), "{spread}");
    assert!(spread.contains("p50 ") && spread.contains("max ") && spread.contains('#'), "{spread}");
    let rows = rig.json("dist -j io.ops[size]");
    assert_eq!(rows.last().expect("rows")["so_far%"], 100);
    let (code, _, err) = rig.run("dist io.ops[op]");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("broken down by names"), "{err}");
    let found = rig.good("analytics explain io.ops[latency] --from -5m");
    assert!(found.contains("operations from ") && found.contains("disk "), "{found}");
}

#[test]
fn the_counted_statistics_can_be_changed() {
    let rig = serving();
    assert_eq!(
        words(rig.good("analytics datasets").lines().next().expect("a heading")),
        ["id", "state", "kept", "incore_B", "ondisk_B", "cost_ns", "created", "name"]
    );
    let added = rig.good("analytics datasets add nfs3.ops[latency]");
    assert!(added.ends_with(" nfs3.ops[latency]: archived\n"), "{added}");
    let state = |rig: &Rig| {
        let all = rig.json("analytics datasets -j");
        all.iter().find(|d| d["name"] == "nfs3.ops[latency]").map(|d| d["state"].as_str().expect("text").to_owned())
    };
    assert_eq!(state(&rig).as_deref(), Some("active"));
    assert!(rig.good("analytics datasets suspend nfs3.ops[latency]").ends_with(": suspended\n"));
    assert_eq!(state(&rig).as_deref(), Some("suspended"));
    assert!(rig.good("analytics datasets resume nfs3.ops[latency]").ends_with(": active\n"));
    rig.good("analytics datasets prune nfs3.ops[latency] --before now");
    rig.good("analytics datasets destroy nfs3.ops[latency]");
    assert_eq!(state(&rig), None);
    let (code, _, err) = rig.run("analytics datasets suspend nfs3.ops[latency]");
    assert_eq!((code, err.contains("statistic 'nfs3.ops[latency]' is not counted")), (1, true), "{err}");
    let all = rig.good("analytics statistics -H -f name,fields");
    assert!(all.contains("nfs3.ops\t") && all.contains("latency+"), "{all}");
}

#[test]
fn a_closed_pipe_ends_a_command_silently() {
    let rig = serving();
    for line in ["stat nfs3.ops 1", "top 1"] {
        let mut child = rig.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = child.stdout.take().expect("a pipe");
        let mut first = [0; 8];
        out.read_exact(&mut first).expect("a heading");
        drop(out);
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success() && ended.stderr.is_empty(), "{line}: {ended:?}");
    }
}

#[test]
fn invalid_requests_are_reported() {
    let rig = serving();
    for (line, message) in [
        ("stat nosuch.ops", "unknown statistic 'nosuch.ops'"),
        ("stat nfs3.ops 0", "invalid interval '0'"),
        ("stat nfs3.ops 1.5", "whole seconds"),
        ("stat nfs3.ops 1 0", "invalid count '0'"),
        ("stat nfs3.ops 1 2 3", "expected NAME [INTERVAL [COUNT]]"),
        ("stat nfs3.ops --from tomorrow", "invalid time 'tomorrow'"),
        ("stat nfs3.ops --from now", "is not before"),
        ("stat nfs3.ops -f nosuch", "unknown column 'nosuch'"),
        ("analytics export nfs3.ops --width 5", "--width applies to pictures only"),
        ("analytics explain nfs3.ops[latency] --low 5K", "'K' is not a unit of latency"),
    ] {
        let (code, out, err) = rig.run(line);
        assert!(code != 0 && err.contains(message), "{line}: {code} {out} {err}");
    }
    let mut alone = rig.command("stat nfs3.ops");
    let alone = alone.env("WEIR_STATE", rig.path("other")).output().expect("it runs");
    let err = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(!alone.status.success() && err.contains("'weir serve' is not running"), "{err}");
}

#[test]
fn the_tools_that_people_know_have_their_columns() {
    let rig = serving();
    for (line, heading) in [
        ("arcstat", "time read ddread ddh% dmread dmh% pread ph% size_B c_B avail_B"),
        ("arcstat -x", "time mfu mru mfug mrug unc eskip mtxmis dread pread read"),
        ("arcstat -f time,hits,miss%", "time hits miss%"),
        ("nicstat", "time Int rKB/s wKB/s rPk/s wPk/s rAvs wAvs %Util Sat"),
        ("iostat -xn", "time r/s w/s kr/s kw/s wait actv wsvc_t asvc_t %w %b device"),
        ("zilstat", "time ds cc ic idc idb iic iib imnc imnw imsc imsw blk blkb_B/s each cms"),
    ] {
        let out = rig.good(line);
        let lines: Vec<_> = out.lines().map(words).collect();
        assert_eq!(lines[0].join(" "), heading, "{line}");
        assert!(
            lines.len() > 1 && lines[1..].iter().all(|l| l[0] == "boot" && l.len() >= lines[0].len()),
            "{line}: {out}"
        );
        let json = rig.json(&format!("{line} -j -y 0.05 1"));
        assert!(!json.is_empty() && json.iter().all(|row| row["sample"] == "interval"), "{line}: {json:?}");
        assert!(rig.good(&format!("{line} -v")).lines().count() > 5, "{line}");
    }
    assert!(rig.json("iostat -j")[0]["device"].as_str().expect("text").starts_with("tank "));
    assert_eq!(rig.json("zilstat -j")[0]["ds"], "tank");
    assert_eq!(rig.json("zilstat -j")[0]["idc"], serde_json::Value::Null);
    let (code, _, err) = rig.run("arcstat --pool nosuch");
    assert_eq!((code, err.contains("does not have the pool 'nosuch'")), (1, true), "{err}");
}

#[test]
fn pools_show_their_reads_and_writes() {
    let rig = serving();
    let table = rig.good("zpool iostat");
    let heading = "              capacity     operations     bandwidth \n\
                   pool        alloc   free   read  write   read  write\n\
                   ----------  -----  -----  -----  -----  -----  -----\n";
    assert!(table.starts_with(heading), "{table}");
    let row = words(table.lines().nth(3).expect("a row"));
    assert_eq!((row.len(), row[0], table.lines().count()), (7, "tank", 4), "{table}");
    let disk = rig.path("d/disk");
    let deep = rig.good("zpool iostat -Hplqv tank");
    let rows: Vec<Vec<&str>> = deep.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!((rows.len(), rows[0].len(), rows[1][0]), (2, 1 + 6 + 11 + 14, disk.as_str()), "{deep}");
    assert!(rows[1][4].parse::<u64>().is_ok() && rows[1][1] == rows[0][1], "{deep}");
    let timed = rig.good("zpool iostat -y -H -T u tank 0.1 2");
    let lines: Vec<_> = timed.lines().collect();
    assert_eq!((lines.len(), lines[0].parse::<u64>().is_ok(), words(lines[1])[0]), (4, true, "tank"), "{timed}");
    assert_eq!(rig.good("zpool iostat -w tank").lines().count(), 1 + 3 + 37 + 1);
    for (line, message) in [
        ("zpool iostat nosuch", "Unable to parse pools/vdevs list.\n\n"),
        ("zpool iostat -lw", "[-r|-w] isn't allowed with [-c|-l|-q]"),
        ("zpool iostat -rw", "Only one of [-r|-w] can be passed at a time"),
        ("zpool iostat -rq", "[-r|-w] isn't allowed with [-c|-l|-q]"),
        ("zpool iostat -T x", "invalid argument 'x'"),
    ] {
        let (code, out, err) = rig.run(line);
        assert!(code != 0 && err.contains(message), "{line}: {code} {out} {err}");
    }
}

/// The queues of the device are seen by commands that run in the daemon.
#[test]
fn device_queues_show_their_operations() {
    let rig = serving();
    rig.good("zfs create -s -V 32M -o compression=off tank/v");
    rig.wait("volumes are not served", |rig| Path::new(&rig.path("state/run/nbd.sock")).exists());
    rig.write_volume("tank/v", 80);
    rig.good("zpool sync tank");
    rig.good("zpool scrub -w tank");
    let disk = rig.path("d/disk");
    // By row: the lower end of the sizes, and the counts by class, single and joined.
    let table = |line: &str| -> Vec<Vec<u64>> {
        let text = rig.good(line);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("tank"), "{text}");
        let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("'{cell}': {text}"));
        lines.map(|line| line.split('\t').map(number).collect()).collect()
    };
    let column = |rows: &[Vec<u64>], n: usize| rows.iter().map(|row| row[n]).sum::<u64>();
    let sizes = table("zpool iostat -Hpr tank");
    assert_eq!((sizes.len(), sizes[0][0], sizes[15][0]), (16, 512, 16 << 20));
    assert!(sizes.iter().all(|row| row.len() == 1 + 14));
    let [asyncs, scrubs] = [7, 9].map(|n| column(&sizes, n) + column(&sizes, n + 1));
    assert!(asyncs > 0 && scrubs > 0, "{sizes:?}");
    // Each row has less than twice its lower end.
    let written: u64 = sizes.iter().map(|row| row[0] * (row[7] + row[8])).sum();
    assert!(written >= ((80 * 128) << 10) / 2, "{written}: {sizes:?}");
    let times = table("zpool iostat -Hpw tank");
    assert_eq!((times.len(), times[0].len()), (37, 1 + 11));
    assert!(column(&times, 8) >= asyncs && column(&times, 9) >= scrubs, "{times:?}");
    // Each operation waited, if only for no time, and was counted once. In the middle of one the
    // sums may differ.
    rig.wait("waits are missing", |_| {
        let times = table("zpool iostat -Hpw tank");
        let all: u64 = (5..=11).map(|n| column(&times, n)).sum();
        column(&times, 1) + column(&times, 2) == all && column(&times, 3) + column(&times, 4) == all
    });
    // Only what is counted already has a value at once.
    rig.good("analytics datasets add io.queue[class]");
    rig.wait("the queues were not sampled", |rig| {
        let (_, out, _) = rig.run("stat io.queue[class] 1 1");
        out.lines().nth(1).map(words).is_some_and(|row| row[1].parse::<u64>().is_ok())
    });
    let row = rig.good("zpool iostat -Hplq tank");
    let cells: Vec<&str> = row.trim_end().split('\t').collect();
    assert!(cells[1 + 6 + 1].parse::<u64>().is_ok_and(|ns| ns > 0), "total wait of writes: {row}");
    assert!(cells[1 + 6 + 11..].iter().all(|cell| cell.parse::<u64>().is_ok()), "{row}");
    let deep = rig.good("zpool iostat -rv tank");
    assert!(deep.contains(&format!("\n{disk} ")) && deep.matches("req_size").count() == 2, "{deep}");
}

#[test]
fn a_pool_that_no_process_has_is_idle() {
    let mut rig = serving();
    assert!(rig.signal("-TERM").success());
    let row = rig.good("zpool iostat -Hp tank");
    let cells: Vec<&str> = row.trim_end().split('\t').collect();
    assert_eq!((cells[0], &cells[3..]), ("tank", &["0", "0", "0", "0"][..]), "{row}");
    let (code, _, err) = rig.run("arcstat");
    assert_eq!((code, err.contains("'weir serve' is not running")), (1, true), "{err}");
}

#[test]
fn streams_next_to_the_daemon_are_counted_and_shown_while_they_run() {
    let rig = serving();
    rig.good("zfs create -s -V 32M -o compression=off tank/v");
    rig.wait("volumes are not served", |rig| Path::new(&rig.path("state/run/nbd.sock")).exists());
    rig.write_volume("tank/v", 160);
    rig.good("zfs snapshot tank/v@a");
    rig.write_volume("tank/v", 16);
    rig.good("zfs snapshot tank/v@b");
    // The second of the first recorded operation counts as recorded in part, so breakdowns omit it.
    std::thread::sleep(Duration::from_secs(1));

    // The command runs until its output is read.
    let send = |line: &str| rig.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut sending = send("zfs send tank/v@a");
    let running = |job: &serde_json::Value| job["state"] == "running" && job["progress"]["done_bytes"] != 0;
    let job = rig.job("send", running);
    let number = |job: &serde_json::Value, name: &str| job["progress"][name].as_u64().expect("a number");
    assert_eq!((&job["target"], &job["message"]), (&"tank/v@a".into(), &"tank/v@a, full".into()));
    assert!(number(&job, "done_bytes") < number(&job, "total_bytes") && number(&job, "total_bytes") > 20 << 20);
    let mut full = Vec::new();
    sending.stdout.take().expect("a pipe").read_to_end(&mut full).expect("read");
    assert!(sending.wait().expect("it ends").success());
    let job = rig.job("send", |job| job["state"] == "done");
    assert_eq!(number(&job, "done_bytes"), full.len() as u64);
    let since = rig.command("zfs send -i @a tank/v@b").output().expect("it runs").stdout;
    assert!(since.len() > 1 << 20 && since.len() < full.len());

    let mut receiving = rig.command("zfs receive tank/copy").stdin(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = receiving.stdin.take().expect("a pipe");
    stdin.write_all(&full[..full.len() / 2]).expect("taken");
    let job = rig.job("receive", |job| job["state"] == "running");
    assert_eq!((&job["target"], number(&job, "total_bytes")), (&"tank/copy".into(), 0));
    stdin.write_all(&full[full.len() / 2..]).expect("taken");
    drop(stdin);
    assert!(receiving.wait().expect("it ends").success());
    let mut receiving = rig.command("zfs receive tank/copy").stdin(Stdio::piped()).spawn().expect("it runs");
    receiving.stdin.take().expect("a pipe").write_all(&since).expect("taken");
    assert!(receiving.wait().expect("it ends").success());

    let all = (full.len() + since.len()) as u64;
    for (way, dataset) in [("send", "tank/v"), ("receive", "tank/copy")] {
        let raw = format!("{way}.bytes");
        rig.wait("not all bytes are counted", |rig| rig.sums(&raw).values().sum::<u64>() >= all);
        assert_eq!(rig.sums(&raw).values().sum::<u64>(), all, "{raw}");
        // A breakdown without counters of its own comes from the recorded operations.
        for (field, key) in [("share", dataset), ("pool", "tank")] {
            rig.wait("not all bytes are recorded", |rig| rig.sums(&format!("{raw}[{field}]")).get(key) == Some(&all));
        }
        let kinds = rig.sums(&format!("{raw}[op]"));
        assert!(kinds["write"] > 20 << 20 && kinds["object"] > 0 && kinds.values().sum::<u64>() == all, "{kinds:?}");
    }

    // Cancelling the job stops the command.
    let mut sending = send("zfs send tank/v@b");
    let job = rig.job("send", |job| job["target"] == "tank/v@b" && job["state"] == "running");
    rig.ask("POST", &format!("/v1/jobs/{}/cancel", job["id"]));
    rig.job("send", |job| job["state"] == "cancelled");
    drop(sending.stdout.take());
    let mut printed = String::new();
    sending.stderr.take().expect("a pipe").read_to_string(&mut printed).expect("read");
    assert_eq!(sending.wait().expect("it ends").code(), Some(1));
    assert!(printed.starts_with("warning: cannot send 'tank/v@b'") && printed.contains("it was stopped"), "{printed}");
}

#[test]
fn dedup_tables_are_loaded_into_the_cache_on_request() {
    let rig = serving();
    rig.good("zpool prefetch tank");
    assert!(rig.good("zpool status -D tank").contains(" dedup: no DDT entries\n"));
    rig.good("zfs create -V 8M -o dedup=on -o volblocksize=8K tank/v");
    rig.write_volume("tank/v", 8);
    rig.good("zpool sync tank");
    rig.good("inject -a tank");
    let cached = || {
        let status = rig.good("zpool status -DDp tank");
        let line = status.lines().find(|line| line.starts_with(" dedup: ")).expect("a line").to_owned();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        // The fields that scripts read: on disk, in core, cached.
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        (number(9), number(12), words[14].clone())
    };
    let (core, before, _) = cached();
    assert!(before < core, "{before} of {core}");
    rig.good("zpool prefetch -t ddt tank");
    assert_eq!(cached(), (core, core, "(100.00%)".to_owned()));
    assert_eq!(rig.run("zpool prefetch -t brt tank").0, 2);
}
