//! `weir zfs send` and `weir stream` as programs call them.
//!
//! `WEIR_FIXTURES` is a directory with the unpacked devices as SCENARIO/DEVICE. The pool `history`
//! is imported read-only into a state directory of its own, and its streams are examined as files.
//! engine/dataset/tests/send.rs tests the contents of streams.

use crate::rig::{Rig, fixtures, text};
use std::process::Output;

/// A rig with the pool `th`.
struct Weir {
    rig: Rig,
}

impl Weir {
    fn with_history() -> Option<Self> {
        let folder = fixtures()?.join("history");
        if !folder.is_dir() {
            println!("skipped: {} is missing", folder.display());
            return None;
        }
        let weir = Self { rig: Rig::new(&[]) };
        weir.good(&["zpool", "import", "-o", "readonly=on", "-d", folder.to_str().expect("text"), "th"]);
        Some(weir)
    }

    fn run(&self, args: &[&str]) -> Output {
        self.rig.weir(args).output().expect("weir runs")
    }

    fn good(&self, args: &[&str]) -> Vec<u8> {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        out.stdout
    }

    fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.good(args)).expect("text")
    }

    /// Runs a command. Returns the exit code and standard error.
    fn bad(&self, args: &[&str]) -> (i32, String) {
        let out = self.run(args);
        (out.status.code().expect("an exit code"), text(&out.stderr))
    }

    /// Sends to a file. Returns its path.
    fn send(&self, name: &str, args: &[&str]) -> String {
        let path = self.rig.folder().join(name);
        std::fs::write(&path, self.good(&[&["zfs", "send"], args].concat())).expect("written");
        path.to_str().expect("text").to_owned()
    }
}

#[test]
fn files_come_out_of_saved_streams() {
    let Some(weir) = Weir::with_history() else { return };
    let full = weir.send("full", &["-Lec", "th/prom@s1"]);
    let more = weir.send("more", &["-I", "@s1", "th/prom@s4"]);
    let file = |snapshot: &str| weir.good(&["cat", &format!("th/prom@{snapshot}:/text.txt")]);
    assert_eq!(weir.good(&["stream", "cat", &format!("{full}:/text.txt")]), file("s1"));
    let then = ["--then", &more];
    let path = format!("{full}:/text.txt");
    assert_eq!(weir.good(&[&["stream", "cat", &path], &then[..]].concat()), file("s4"));
    assert_eq!(weir.good(&[&["stream", "cat", &path, "--snapshot", "s2"], &then[..]].concat()), file("s2"));
    // The short listing, as the space figures differ: the tree is the same as in the pool.
    let ours = weir.text(&[&["stream", "ls", "-R", &format!("{full}:/")], &then[..]].concat());
    let pools = weir.text(&["ls", "-R", "th/prom@s4:/"]);
    assert_eq!(ours.replace(&full, "th/prom@s4"), pools);
    let copies = weir.rig.folder().join("copies");
    std::fs::create_dir(&copies).expect("a folder");
    weir.good(&["stream", "cp", "-q", &path, copies.to_str().expect("text")]);
    assert_eq!(std::fs::read(copies.join("text.txt")).expect("copied"), file("s1"));
}

#[test]
fn a_saved_stream_is_mounted_read_only_until_it_is_unmounted() {
    let Some(weir) = Weir::with_history() else { return };
    let full = weir.send("full", &["-Lec", "th/prom@s1"]);
    let more = weir.send("more", &["-I", "@s1", "th/prom@s4"]);
    let place = weir.rig.folder().join("mount");
    std::fs::create_dir(&place).expect("a folder");
    let at = place.to_str().expect("text");
    for (words, snapshot) in
        [(&["--then", &more][..], "s4"), (&["--then", &more, "--snapshot", "s2"], "s2"), (&[], "s1")]
    {
        let mounted = weir.run(&[&["stream", "mount", &full, at], words].concat());
        let message = text(&mounted.stderr);
        if message.contains("/dev/fuse") || message.contains("fusermount3") {
            println!("skipped: this machine cannot mount FUSE: {message}");
            return;
        }
        assert!(mounted.status.success(), "{message}");
        let text = std::fs::read(place.join("text.txt")).expect("read");
        let written = std::fs::write(place.join("new"), "x").expect_err("read-only");
        let names = std::fs::read_dir(&place).expect("listed").count();
        weir.good(&["umount", at]);
        assert!(text == weir.good(&["cat", &format!("th/prom@{snapshot}:/text.txt")]), "{snapshot}");
        assert_eq!(written.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(names, weir.text(&["ls", "-a", &format!("th/prom@{snapshot}:/")]).lines().count(), "{snapshot}");
        assert_eq!(std::fs::read_dir(&place).expect("listed").count(), 0, "nothing is mounted");
    }
    // An altered stream is not mounted.
    let mut altered = std::fs::read(&full).expect("read");
    let middle = altered.len() / 2;
    altered[middle] ^= 4;
    std::fs::write(&full, altered).expect("written");
    let (code, message) = weir.bad(&["stream", "mount", &full, at]);
    assert!(code == 1 && message.contains("record"), "{code}: {message}");
}

#[test]
fn a_volume_is_copied_out_of_a_stream() {
    let Some(weir) = Weir::with_history() else { return };
    let stream = weir.send("volume", &["th/vol@v1"]);
    let image = weir.rig.folder().join("image");
    weir.good(&["stream", "cp", "-q", &format!("{stream}:"), image.to_str().expect("text")]);
    assert_eq!(std::fs::read(image).expect("copied"), weir.good(&["cat", "th/vol@v1:"]));
}

#[test]
fn errors_in_a_stream_are_reported() {
    let Some(weir) = Weir::with_history() else { return };
    let path = weir.send("full", &["th/prom@s1"]);
    let text = weir.text(&["stream", "dump", &path]);
    assert!(
        text.contains("\ttoname = th/prom@s1\n") && text.ends_with("\tTotal stream length = 2335984 (0x23a4f0)\n"),
        "{text}"
    );
    let mut bytes = std::fs::read(&path).expect("there");
    bytes[1_000_000] ^= 1;
    std::fs::write(&path, &bytes).expect("written");
    for command in ["dump", "ls"] {
        let (code, message) = weir.bad(&["stream", command, &path]);
        assert!(code == 1 && message.contains("its checksum is "), "{command}: {code} {message}");
    }
    assert!(weir.text(&["stream", "dump", "-C", &path]).contains("SUMMARY:"));
    std::fs::write(&path, &bytes[..312]).expect("written");
    let (code, message) = weir.bad(&["stream", "dump", &path]);
    assert!(code == 1 && message.contains("ends without an END record"), "{code} {message}");
}

#[test]
fn sends_print_the_messages_of_openzfs() {
    let Some(weir) = Weir::with_history() else { return };
    // Recorded with the kernel module, for this very pool.
    let expected = "incremental\tth/prom@s1\tth/prom@s2\t228648\nsize\t228648\n";
    assert_eq!(weir.text(&["zfs", "send", "-nvP", "-i", "@s1", "th/prom@s2"]), expected);
    let expected = "full\tth/prom@s1\t1909888\nincremental\ts1\tth/prom@s2\t228648\nincremental\ts2\tth/prom@s4\t427160\nsize\t2565696\n";
    assert_eq!(weir.text(&["zfs", "send", "-nvP", "-R", "th/prom@s4"]), expected);
    let expected = "full send of th/prom@s1 estimated size is 635K\ntotal estimated size is 635K\n";
    assert_eq!(weir.text(&["zfs", "send", "-nv", "-Lec", "th/prom@s1"]), expected);
    for (args, code, says) in [
        (&["th/prom@nosuch"][..], 1, "cannot open 'th/prom@nosuch': dataset does not exist\n"),
        (&["-i", "@nosuch", "th/prom@s1"], 1, "cannot open 'th/prom@nosuch': dataset does not exist\n"),
        (
            &["-i", "@s4", "th/prom@s2"],
            1,
            "warning: cannot send 'th/prom@s2': not an earlier snapshot from the same fs\n",
        ),
        (&["-X", "th/a", "th/prom@s2"], 1, "Cannot specify dataset exclusion (-X) on a non-recursive send.\n"),
        (&["-R", "-i", "th/fs@s5", "th/prom@s4"], 2, "incremental source must be in same filesystem\n"),
        (&["--redact", "b", "th/prom@s2"], 1, "cannot open 'th/prom#b': "),
        (&["--redact", "mark", "th/fs@s5"], 1, "warning: cannot send 'th/fs@s5': not a redaction bookmark\n"),
        (
            &["--redact", "b", "th/prom"],
            1,
            "warning: cannot send 'th/prom': cannot do a redacted send to a filesystem\n",
        ),
        (&["-w", "--redact", "b", "th/prom@s2"], 1, "Error: raw sends may not be redacted.\n"),
        (&["-R", "--redact", "b", "th/prom@s2"], 1, "Error: multiple snapshots cannot be sent redacted.\n"),
        (&["-t", "1-2-3", "--redact", "b"], 2, "invalid flags combined with -t\n"),
        (&["-t", "1-2-3"], 1, "cannot resume send: resume token is corrupt (invalid format)\n"),
    ] {
        let (found, message) = weir.bad(&[&["zfs", "send"], args].concat());
        assert_eq!(found, code, "{args:?}: {message}");
        assert!(message.starts_with(says), "{args:?}: {message}");
    }
}
