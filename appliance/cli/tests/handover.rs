//! Commands that `weir-bench` runs. A script takes its place, so that these tests need no build of
//! it; what it does itself is tested in workbench/bench.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `weir` in a folder without other programs. A link would lead back to the folder where it was
/// built.
fn alone(folder: &Path) -> PathBuf {
    let (built, program) = (env!("CARGO_BIN_EXE_weir"), folder.join("weir"));
    std::fs::hard_link(built, &program).or_else(|_| std::fs::copy(built, &program).map(drop)).expect("a second weir");
    program
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

fn run(program: &Path, args: &[&str], path: &Path) -> (Option<i32>, String, String) {
    let out = Command::new(program).args(args).env("PATH", path).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn arguments_and_exit_code_pass_through_the_program_next_to_it_or_in_path() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let weir = alone(folder.path());
    script(&other.path().join("weir-bench"), "printf '%s|' elsewhere \"$@\"; exit 3");
    assert_eq!(run(&weir, &["graph", "-h"], other.path()), (Some(3), "elsewhere|graph|-h|".to_owned(), String::new()));
    script(&folder.path().join("weir-bench"), "printf '%s|' \"$@\"; exit 7");
    for line in [
        &["load", "randread", "a b", "--", "-x"][..],
        &["--state", "/s", "record", "start", "x"],
        &["--state=/s", "bench", "--help"],
        &["help", "load", "mix"],
        &["analytics", "overhead", "nfs://a/b"],
    ] {
        let expected = line.iter().map(|word| format!("{word}|")).collect();
        assert_eq!(run(&weir, line, other.path()), (Some(7), expected, String::new()), "{line:?}");
    }
    // Its own commands stay here.
    assert_eq!(run(&weir, &["analytics", "--help"], other.path()).0, Some(0));
}

#[test]
fn a_missing_program_is_named_with_where_it_is_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    let weir = alone(folder.path());
    for (line, command) in [(&["load", "randread", "x"][..], "load"), (&["analytics", "overhead", "x"], "analytics")] {
        let (code, out, err) = run(&weir, line, folder.path());
        assert_eq!((code, out.as_str()), (Some(1), ""), "{line:?}");
        let expected = format!(
            "weir {command}: the program weir-bench is not installed; expected it next to {} or in a folder of $PATH\n",
            weir.display()
        );
        assert_eq!(err, expected);
    }
    let (code, help, _) = run(&weir, &["--help"], folder.path());
    assert_eq!(code, Some(0));
    for command in ["load", "bench", "record", "graph"] {
        assert!(help.contains(&format!("\n  {command}")), "{help}");
    }
}

#[test]
fn man_pages_of_all_programs_are_written_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let weir = alone(folder.path());
    let pages = folder.path().join("man");
    let args = ["man", pages.to_str().expect("text")];
    assert_eq!(run(&weir, &args, folder.path()).0, Some(0));
    let page = std::fs::read_to_string(pages.join("weir-load.1")).expect("a page");
    assert!(page.contains("weir\\-bench"), "it names the program that is missing: {page}");
    script(&folder.path().join("weir-bench"), "echo \"$1 of the other\" > \"$2/weir-load.1\"");
    assert_eq!(run(&weir, &args, folder.path()).0, Some(0));
    assert_eq!(std::fs::read_to_string(pages.join("weir-load.1")).expect("a page"), "man of the other\n");
}
