//! Help, suggestions and completions: what the rows of verbs say reaches the user.

use crate::rig::Rig;
use std::process::Command;

#[test]
fn every_verb_prints_help_that_names_its_options() {
    let rig = Rig::new(&[]);
    let programs = [
        ("zpool", cli::zpool::VERBS),
        ("zfs", cli::zfs::VERBS),
        ("beadm", cli::beadm::VERBS),
        ("bectl", cli::beadm::BECTL),
    ];
    for (program, verbs) in programs {
        for verb in verbs.iter().filter(|verb| verb.run.is_some()) {
            let name = verb.name;
            let long = rig.good(&format!("{program} {name} --help"));
            for option in verb.options {
                assert!(long.contains(&option.forms()), "{program} {name} {}: {long}", option.forms());
            }
            assert_eq!(rig.good(&format!("{program} help {name}")), long);
            assert_eq!(rig.good(&format!("help {program} {name}")), long);
        }
    }
    for command in cli::commands::COMMANDS {
        let name = (command.command)().get_name().to_owned();
        if !["load", "bench", "record", "graph"].contains(&name.as_str()) {
            assert!(rig.good(&format!("help {name}")).contains("Usage: weir"), "{name}");
        }
    }
}

#[test]
fn usage_errors_are_those_of_openzfs() {
    let rig = Rig::new(&[]);
    for (line, first) in [
        ("zpool create -x", "invalid option 'x'"),
        ("zpool status --nosuch", "invalid option '--nosuch'"),
        ("zpool history -Q", "invalid option 'Q'"),
        ("zpool list -o", "missing argument for 'o' option"),
        ("zfs get -Hx", "invalid option 'x'"),
        ("zfs send --resume", "missing argument for '--resume' option"),
        ("zpool create", "missing pool name argument"),
    ] {
        let (code, out, err) = rig.run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        let words: Vec<&str> = line.split(' ').collect();
        assert!(err.starts_with(&format!("{first}\nusage:\n\t{}", words[1])), "{line}: {err}");
    }
    assert_eq!(rig.run("zpool nosuch").0, 2);
    assert_eq!(rig.run("zpool help nosuch").0, 2);
    let missing = "unsupported: 'zpool ddtprune' is not in this version of weir\n";
    assert_eq!(rig.run("zpool ddtprune -p 10 tank"), (1, String::new(), missing.to_owned()));
}

#[test]
fn a_suggestion_follows_the_message() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    rig.good("zfs create -p tank/home/kerstin");
    rig.good("zfs snapshot tank/home@monday");
    for (line, first, second) in [
        ("zpool crate", "unrecognized command 'crate'", "did you mean 'create'?"),
        ("zfs snapshto tank@a", "unrecognized command 'snapshto'", "did you mean 'snapshot'?"),
        ("zpool list tnak", "cannot open 'tnak': no such pool", "did you mean 'tank'?"),
        ("zpool scrub tankk", "cannot open 'tankk': no such pool", "did you mean 'tank'?"),
        ("zfs list tank/hoem", "cannot open 'tank/hoem': dataset does not exist", "did you mean 'tank/home'?"),
        (
            "zfs set quota=1G tnak/home/kirstin",
            "cannot open 'tnak/home/kirstin': dataset does not exist",
            "did you mean 'tank/home/kerstin'?",
        ),
        (
            "zfs rollback tank/home@mondya",
            "cannot open 'tank/home@mondya': dataset does not exist",
            "did you mean 'tank/home@monday'?",
        ),
        ("zfs get compresion tank", "bad property list: invalid property 'compresion'", "did you mean 'compression'?"),
        ("zpool get helth tank", "bad property list: invalid property 'helth'", "did you mean 'health'?"),
        (
            "zpool set autotirm=on tank",
            "cannot set property for 'tank': invalid property 'autotirm'",
            "did you mean 'autotrim'?",
        ),
    ] {
        let (code, _, err) = rig.run(line);
        assert_ne!(code, 0, "{line}");
        let lines: Vec<&str> = err.lines().collect();
        assert_eq!(lines.get(..2), Some(&[first, second][..]), "{line}: {err}");
    }
    for (line, first, second) in [
        ("zpool scrub -h", "invalid option 'h'", "did you mean '--help'?"),
        ("zpool list --jsno", "invalid option '--jsno'", "did you mean '--json'?"),
    ] {
        let (code, out, err) = rig.run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(err.starts_with(&format!("{first}\n{second}\nusage:\n")), "{line}: {err}");
    }
    for line in ["zpool list other", "zfs list tank/x", "zfs create tank/home", "zfs snapshot tank/home@monday"] {
        let (code, _, err) = rig.run(line);
        assert!(code != 0 && !err.contains("did you mean"), "{line}: {err}");
    }
}

/// What a shell offers for a line, with a pool, a file system and a snapshot; `None`: it is not
/// installed.
fn offered(rig: &Rig, shell: &str, line: &str) -> Option<Vec<String>> {
    let text = rig.good(&format!("completions {shell}"));
    let folder = rig.path("completions");
    std::fs::create_dir_all(&folder).expect("a folder");
    // fish loads the file that is named after the command, and otherwise has its own for zpool.
    for name in ["weir", "zpool", "zfs"] {
        std::fs::write(format!("{folder}/{name}.{shell}"), &text).expect("written");
    }
    let ask = match shell {
        "bash" => format!(
            "source {folder}/weir.bash; COMP_LINE='{line}' COMP_POINT={} _weir; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            line.len()
        ),
        _ => format!("set fish_complete_path {folder}; complete -C '{line}'"),
    };
    let mut shell = Command::new(shell);
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    shell.env("WEIR_STATE", rig.path("state")).env("PATH", path).env("HOME", rig.folder()).current_dir(rig.folder());
    let output = shell.args(["-c", &ask]).output().ok()?;
    assert_eq!(crate::rig::text(&output.stderr), "", "{line}");
    let words = crate::rig::text(&output.stdout);
    Some(words.lines().map(|word| word.split('\t').next().unwrap_or_default().to_owned()).collect())
}

fn completed_pool() -> Rig {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    rig.good("zfs create tank/home");
    rig.good("zfs snapshot tank/home@monday");
    rig
}

#[test]
fn bash_completes_verbs_options_properties_and_names() {
    let rig = completed_pool();
    for (line, words) in [
        ("zpool sc", &["scrub"][..]),
        ("weir zpool sc", &["scrub"]),
        ("weir comp", &["completions"]),
        ("weir completions ", &["bash", "fish", "zsh"]),
        ("weir analytics datasets pr", &["prune"]),
        ("zpool add --allow-r", &["--allow-replication-mismatch"]),
        ("zpool scrub ", &["tank"]),
        ("zpool scrub -w t", &["tank"]),
        ("zfs list -r tank/h", &["tank/home", "tank/home@monday"]),
        ("zfs mount tank/h", &["tank/home"]),
        // The part after @ is what bash replaces.
        ("zfs rollback tank/home@m", &["monday"]),
        ("zfs get -Ho va", &["value"]),
        ("zfs get compressi", &["compression"]),
        ("zfs get quota,recordsi", &["quota,recordsize"]),
        ("zfs set compressi", &["compression="]),
        ("zfs set quota=1G t", &["tank", "tank/home", "tank/home@monday"]),
        ("zpool create -o feature@ls", &[]),
        ("zpool create -o ashi", &["ashift="]),
        ("zpool wait -t scrub,res", &["scrub,resilver"]),
        ("zpool help scr", &["scrub"]),
        ("beadm cr", &["create"]),
    ] {
        let Some(mut found) = offered(&rig, "bash", line) else { return };
        found.retain(|word| !word.is_empty());
        found.sort();
        assert_eq!(found, words, "{line}");
    }
    let options = offered(&rig, "bash", "zpool clear -").unwrap_or_default();
    let has = |option: &str| options.iter().any(|offered| offered == option);
    assert!(has("--help") && !has("-F"), "an option that is not supported is not offered: {options:?}");
}

#[test]
fn fish_completes_verbs_options_properties_and_names() {
    let rig = completed_pool();
    for (line, words) in [
        ("zpool sc", &["scrub"][..]),
        ("weir zpool sc", &["scrub"]),
        ("zpool add --allow-r", &["--allow-replication-mismatch"]),
        ("zpool scrub t", &["tank"]),
        ("zfs rollback tank/home@m", &["tank/home@monday"]),
        ("zfs get compressi", &["compression"]),
        ("zfs get quota,recordsi", &["quota,recordsize"]),
        ("zfs set compressi", &["compression="]),
    ] {
        let Some(found) = offered(&rig, "fish", line) else {
            println!("skipped: fish is not installed");
            return;
        };
        assert_eq!(found, words, "{line}");
    }
}

#[test]
fn shells_accept_the_completions() {
    let rig = Rig::new(&[]);
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = rig.path("script");
        std::fs::write(&script, rig.good(&format!("completions {shell}"))).expect("written");
        match Command::new(shell).args([check, script.as_str()]).output() {
            Err(_) => println!("skipped: {shell} is not installed"),
            Ok(output) => {
                let err = crate::rig::text(&output.stderr);
                assert!(output.status.success() && err.is_empty(), "{shell}: {err}");
            }
        }
    }
}
