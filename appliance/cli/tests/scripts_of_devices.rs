//! `zpool status -c` and `zpool iostat -c`: scripts of the caller add columns.

use crate::rig::{Rig, text};
use std::os::unix::fs::PermissionsExt;

fn script(rig: &Rig, name: &str, lines: &str) {
    let path = rig.path(&format!("scripts/{name}"));
    std::fs::create_dir_all(rig.path("scripts")).expect("a folder");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Runs a command with variables of the environment; returns the exit code, output and errors.
fn run(rig: &Rig, line: &str, variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = rig.command(line);
    command.env("ZPOOL_SCRIPTS_PATH", rig.path("scripts")).env("ZPOOL_SCRIPTS_AS_ROOT", "1");
    let out = command.envs(variables.iter().copied()).output().expect("it runs");
    (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
}

#[test]
fn scripts_run_in_the_process_of_the_caller_and_add_columns() {
    let mut rig = Rig::new(&["a", "b", "c"]);
    script(&rig, "name", "echo name=$(basename $VDEV_PATH); echo where=$PATH; echo by=$PPID");
    script(&rig, "words", "[ \"$1\" = -h ] && echo Print words. && exit; echo just words");
    script(&rig, "fails", "echo never=shown; exit 1");
    rig.serve();
    rig.good("zpool create -f -O mountpoint=none tank mirror DIR/d/a DIR/d/b log DIR/d/c");
    let (code, out, err) = run(&rig, "zpool status -c name,words,fails,nosuch,../scripts/name tank", &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let line = |of: &str| -> Vec<&str> {
        let is_it = |word: &str| word.rsplit('/').next() == Some(of);
        let found = out.lines().find(|line| line.split_whitespace().next().is_some_and(is_it));
        found.unwrap_or_else(|| panic!("{of}: {out}")).split_whitespace().collect()
    };
    assert_eq!(line("NAME")[5..], ["name", "where", "by"]);
    assert_eq!(line("mirror-0").len(), 5, "only devices have values");
    for device in ["a", "b", "c"] {
        let cells = line(device);
        assert_eq!(cells[5..7], [device, "/bin:/sbin:/usr/bin:/usr/sbin"]);
        let daemon = rig.daemon_id().expect("it runs");
        assert_ne!(cells[7], daemon.to_string(), "it does not run in the daemon");
        assert_eq!(cells[8..], ["just", "words"]);
    }
    let (code, out, err) = run(&rig, "zpool iostat -c name tank", &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].starts_with("pool ") && lines[1].contains("  name "), "{out}");
    let row = lines.iter().find(|line| line.contains("/d/b ")).expect("-c shows devices");
    assert_eq!(row.split_whitespace().nth(7), Some("b"), "{out}");
    let dashes = lines[2].split("  ").count();
    assert_eq!((dashes, lines.last().map(|line| line.split("  ").count())), (10, Some(10)), "{out}");
}

#[test]
fn scripts_can_be_disabled_and_listed() {
    let rig = Rig::new(&["a"]);
    script(&rig, "words", "[ \"$1\" = -h ] && echo Print words. && exit; echo w=x");
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    let disabled = "Can't run -c, disabled by ZPOOL_SCRIPTS_ENABLED.\n";
    for verb in ["status", "iostat"] {
        let line = format!("zpool {verb} -c words");
        assert_eq!(run(&rig, &line, &[("ZPOOL_SCRIPTS_ENABLED", "0")]).2, disabled);
        assert_eq!(run(&rig, &line, &[("ZPOOL_SCRIPTS_ENABLED", "1")]).0, 0);
        if crate::rig::is_root() {
            let message = run(&rig, &line, &[("ZPOOL_SCRIPTS_AS_ROOT", "no")]);
            assert_eq!(
                (message.0, message.2.as_str()),
                (1, "Can't run -c with root privileges unless ZPOOL_SCRIPTS_AS_ROOT is set.\n")
            );
        }
        let (code, out, _) = run(&rig, &format!("zpool {verb} -c"), &[]);
        assert_eq!(
            (code, out),
            (0, format!("Available 'zpool {verb} -c' commands:\n  words           Print words.\n"))
        );
        assert_eq!(run(&rig, &format!("{line} -c words"), &[]).2, "Can't set -c flag twice\n");
    }
}
