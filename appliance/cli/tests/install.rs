//! `make install`, into a folder.

use crate::rig::Rig;
use std::path::Path;
use std::process::Command;

#[test]
fn make_install_puts_the_program_its_pages_completions_and_unit_in_their_places() {
    let rig = Rig::new(&[]);
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut make = Command::new("make");
    make.args(["-s", "-C", repository, "install", "PREFIX=/opt/weir", "LINKS=zpool zfs", "BENCH_BIN=/none"]);
    make.arg(format!("DESTDIR={}", rig.path("root"))).arg(concat!("WEIR_BIN=", env!("CARGO_BIN_EXE_weir")));
    // Variables of a make that runs this test are not for this one.
    for variable in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PREFIX", "BINDIR", "DATADIR", "UNITDIR"] {
        make.env_remove(variable);
    }
    let Ok(output) = make.output() else {
        println!("skipped: make is not installed");
        return;
    };
    assert!(output.status.success(), "{}", crate::rig::text(&output.stderr));
    let place = |name: &str| rig.path(&format!("root/opt/weir/{name}"));
    for file in [
        "bin/weir",
        "share/man/man8/weir.8",
        "share/man/man8/weir-zpool.8",
        "share/man/man8/zfs.8",
        "share/man/man1/weir-ls.1",
        "share/bash-completion/completions/weir",
        "share/bash-completion/completions/zpool",
        "share/zsh/site-functions/_weir",
        "share/fish/vendor_completions.d/weir.fish",
    ] {
        let length = std::fs::metadata(place(file)).map(|file| file.len());
        assert!(length.as_ref().is_ok_and(|bytes| *bytes > 100), "{file}: {length:?}");
    }
    assert_eq!(std::fs::read_link(place("bin/zpool")).expect("a link"), Path::new("weir"));
    let unit = std::fs::read_to_string(place("lib/systemd/system/weir.service")).expect("a unit");
    assert!(unit.contains("\nExecStart=/opt/weir/bin/weir serve\n"), "{unit}");
}
