//! What `weir-bench` does when it is run as a program, under its own name and under that of `weir`,
//! which hands its commands over.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, output, errors.
type Outcome = (Option<i32>, String, String);

fn run(name: &str, folder: &Path, line: &str) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.arg0(name).args(line.split(' ')).current_dir(folder).env("WEIR_STATE", folder.join("state"));
    let out = command.stdin(Stdio::null()).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

fn good(folder: &Path, line: &str) -> String {
    let (code, out, err) = run("weir", folder, line);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{line}: {out}");
    out
}

#[test]
fn help_and_errors_have_the_name_by_which_it_was_called() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["weir", "weir-bench"] {
        for (line, expected) in [
            ("load --help", "load <COMMAND>"),
            ("bench compare --help", "bench compare"),
            ("help record", "record"),
            ("analytics help overhead", "analytics overhead"),
        ] {
            let (code, out, _) = run(name, folder.path(), line);
            assert_eq!(code, Some(0), "{line}");
            assert!(out.contains(&format!("Usage: {name} {expected}")), "{line}: {out}");
        }
        let (code, _, err) = run(name, folder.path(), "load randread");
        assert!(code == Some(2) && err.contains(&format!("Usage: {name} load randread")), "{code:?} {err}");
        let (code, _, err) = run(name, folder.path(), "graph cpu missing");
        assert!(code == Some(1) && err.starts_with(&format!("{name} graph: missing")), "{code:?} {err}");
        let (code, _, err) = run(name, folder.path(), "bench judge missing");
        assert!(code == Some(1) && err.starts_with(&format!("{name} bench: missing/facts.json")), "{code:?} {err}");
    }
    assert_eq!(run("weir", folder.path(), "--state").0, Some(2));
    let (code, _, err) = run("weir", folder.path(), "--state other analytics overhead nfs://127.0.0.1/x");
    assert!(code == Some(1) && err.contains("not running with the state folder other"), "{code:?} {err}");
}

#[test]
fn a_run_is_recorded_described_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    good(folder.path(), "record run --no-daemon --for 0.3 --every 0.1 --about layout=mirror --text");
    assert!(good(folder.path(), "record show run").contains("mirror"));
    let csv = good(folder.path(), "record csv run cpu.time");
    assert!(csv.lines().count() >= 3, "{csv}");
    assert!(folder.path().join("run/vmstat.txt").exists());
    assert!(good(folder.path(), "graph cpu run").starts_with("<svg"));
    good(folder.path(), "graph cpu run/vmstat.txt -o cpu.png");
    assert_eq!(std::fs::read(folder.path().join("cpu.png")).expect("a picture")[1..4], *b"PNG");
    let (code, _, err) = run("weir", folder.path(), "graph cpu run -o cpu.gif");
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "weir graph: 'cpu.gif': expected a name that ends with .svg or .png, or -\n")
    );
}

#[test]
fn a_background_recording_locks_its_folder_and_can_be_stopped() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(
        good(folder.path(), "record start run --no-daemon --every 0.1").starts_with("recording into run, as process ")
    );
    let (code, _, err) = run("weir-bench", folder.path(), "record run --no-daemon");
    assert_eq!((code, err.as_str()), (Some(1), "weir-bench record: a process is already recording into run\n"));
    // Its error comes from the process that could not record.
    for name in ["weir", "weir-bench"] {
        let (code, _, err) = run(name, folder.path(), "record start run --no-daemon");
        assert_eq!((code, err), (Some(1), format!("{name} record: a process is already recording into run\n")));
    }
    good(folder.path(), "record stop run");
    assert!(good(folder.path(), "record show run").contains("cpu.time"));
    let (code, _, err) = run("weir", folder.path(), "record stop run");
    assert_eq!((code, err.as_str()), (Some(1), "weir record: no process is recording into run\n"));
}

#[test]
fn a_file_is_loaded_and_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = good(folder.path(), "load mix data --size 4K --file-size 64K --seconds 0.2 -j");
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert!(report["ops"].as_u64().is_some_and(|ops| ops > 0) && report["failed"] == 0, "{report}");
    let (code, out, err) = run(
        "weir",
        folder.path(),
        "bench run result --repeats 1 randread data --size 4K --file-size 64K --seconds 0.5",
    );
    assert_eq!(err, "", "{out}");
    assert!(code == Some(0) || out.contains("no result: "), "{code:?} {out}");
    let facts = std::fs::read_to_string(folder.path().join("result/facts.json")).expect("stored");
    assert!(facts.contains("\"randread\""), "{facts}");
    assert_eq!(run("weir", folder.path(), "bench judge result").0, code);
}
