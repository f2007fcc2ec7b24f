//! `weir zfs receive` as programs call it: packages with properties, renamed and destroyed
//! datasets, interrupted streams, alone and with `weir serve`. engine/dataset/tests/receive.rs
//! tests the received contents; zdb checks the pool where it is installed.

use crate::rig::{Rig, text};
use std::io::Write;
use std::process::Stdio;

/// A rig with the pool `tank`.
fn with_pool(serves: bool) -> Rig {
    let mut rig = Rig::new(&["disk"]);
    if serves {
        rig.serve();
    }
    rig.good("zpool create -m none tank DIR/d/disk");
    rig
}

impl Rig {
    fn send(&self, line: &str) -> Vec<u8> {
        let out = self.command(line).output().expect("it runs");
        assert!(out.status.success(), "{line}: {}", text(&out.stderr));
        out.stdout
    }

    /// Runs a command with `input` on standard input. Returns the exit code and the output.
    fn given(&self, line: &str, input: &[u8]) -> (i32, String) {
        let mut command = self.command(line);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            // A command that refuses a stream does not read it.
            scope.spawn(move || drop(stdin.write_all(input)));
            let out = child.wait_with_output().expect("it ends");
            (out.status.code().unwrap_or(-1), text(&out.stdout) + &text(&out.stderr))
        })
    }

    fn receive(&self, line: &str, input: &[u8]) {
        assert_eq!(self.given(line, input), (0, String::new()), "{line}");
    }

    fn names(&self, root: &str) -> Vec<String> {
        self.good(&format!("zfs list -H -r -t all -o name {root}")).lines().map(|l| l.replace(root, "")).collect()
    }
}

fn judge(rig: &Rig) {
    rig.good("zpool sync tank");
    rig.judge("tank");
}

#[test]
fn a_tree_is_received_and_follows_later_changes() {
    let rig = with_pool(false);
    rig.good("zfs create -o compression=gzip-7 -o com.example:note=hello tank/src");
    rig.good("zfs create -o quota=64M tank/src/a");
    rig.good("zfs create tank/src/a/deep");
    rig.good("zfs create -V 8M tank/src/volume");
    rig.good("zfs create tank/src/gone");
    rig.good("zfs snapshot -r tank/src@1");
    rig.good("zfs hold keep tank/src/a@1");
    rig.good("zfs clone tank/src/a@1 tank/src/clone");
    rig.good("zfs snapshot -r -o com.example:snap=yes tank/src@2");
    rig.receive("zfs receive tank/copy", &rig.send("zfs send -Rh tank/src@2"));
    assert_eq!(rig.names("tank/copy"), rig.names("tank/src"));
    let get = |what: &str| rig.good(&format!("zfs get -H -o value,source {what}"));
    assert_eq!(get("compression tank/copy"), "gzip-7\treceived\n");
    assert_eq!(get("compression tank/copy/a/deep"), "gzip-7\tinherited from tank/copy\n");
    assert_eq!(get("com.example:note tank/copy"), "hello\treceived\n");
    assert_eq!(get("quota tank/copy/a"), "64M\treceived\n");
    assert_eq!(get("com.example:snap tank/copy/volume@2"), "yes\treceived\n");
    assert_eq!(get("origin tank/copy/clone"), "tank/copy/a@1\t-\n");
    assert!(rig.good("zfs holds tank/copy/a@1").contains("keep"));
    judge(&rig);

    rig.good("zfs rename tank/src/a tank/src/b");
    rig.good("zfs rename -r tank/src@1 tank/src@one");
    rig.good("zfs destroy -r tank/src/gone");
    rig.good("zfs create tank/src/b/new");
    rig.good("zfs set compression=zstd tank/src");
    // Properties of existing snapshots: one with a new value, one added, and one set locally.
    rig.good("zfs set com.example:snap=no tank/src/volume@2");
    rig.good("zfs set com.example:more=new tank/src@one");
    rig.good("zfs set com.example:snap=here tank/copy@2");
    rig.good("zfs snapshot -r tank/src@3");
    let more = rig.send("zfs send -R -I @2 tank/src@3");
    let (code, message) = rig.given("zfs receive -v -F tank/copy", &more);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("attempting rename tank/copy/a to tank/copy/b\nsuccess\n"), "{message}");
    assert_eq!(rig.names("tank/copy"), rig.names("tank/src"));
    assert_eq!(get("compression tank/copy"), "zstd\treceived\n");
    assert_eq!(get("com.example:snap tank/copy/volume@2"), "no\treceived\n");
    assert_eq!(get("com.example:more tank/copy@one"), "new\treceived\n");
    assert_eq!(get("com.example:snap tank/copy@2"), "here\tlocal\n");
    // The same stream again: all snapshots exist.
    let (code, message) = rig.given("zfs receive -v tank/copy", &rig.send("zfs send -I @2 tank/src@3"));
    assert!(code == 0 && message.contains("snap tank/copy@3 already exists; ignoring\n"), "{message}");
    judge(&rig);

    // The whole package again, under other names and with other properties.
    let all = rig.send("zfs send -R tank/src@3");
    rig.good("zfs create tank/else");
    rig.receive("zfs receive -e -x com.example:note -o compression=lz4 tank/else", &all);
    assert_eq!(rig.names("tank/else/src"), rig.names("tank/src"));
    assert_eq!(get("compression tank/else/src"), "lz4\tlocal\n");
    assert_eq!(get("com.example:note tank/else/src").trim(), "-\t-");
    let (code, message) = rig.given("zfs receive tank/x@y", &all);
    assert_eq!(
        (code, message.as_str()),
        (1, "cannot receive: cannot specify snapshot name for multi-snapshot stream\n")
    );
    let (code, message) = rig.given("zfs receive -nv -d tank/else", &all);
    assert!(
        code == 0 && message.starts_with("would receive full stream of tank/src@one into tank/else/src@one\n"),
        "{message}"
    );
    judge(&rig);
}

#[test]
fn short_names_of_properties_override_and_exclude_received_ones() {
    let rig = with_pool(false);
    rig.good("zfs create -o recordsize=16K -o compression=gzip tank/src");
    rig.good("zfs snapshot tank/src@1");
    let stream = rig.send("zfs send -p tank/src@1");
    rig.receive("zfs receive -o compress=zstd -x recsize tank/to", &stream);
    let get = rig.good("zfs get -H -o property,value,source compression,recordsize tank/to");
    assert_eq!(get, "compression\tzstd\tlocal\nrecordsize\t128K\tdefault\n");
    let (code, message) = rig.given("zfs receive -o COMPRESS=zstd tank/no", &stream);
    assert_eq!((code, message.as_str()), (1, "cannot receive: invalid property 'COMPRESS'\n"));
}

#[test]
fn errors_are_those_of_openzfs() {
    let rig = with_pool(false);
    rig.good("zfs create tank/a");
    rig.good("zfs snapshot tank/a@1");
    rig.good("zfs snapshot tank/a@2");
    let (full, more) = (rig.send("zfs send tank/a@1"), rig.send("zfs send -i @1 tank/a@2"));
    for (line, input, says) in [
        (
            "tank/a",
            &full,
            "cannot receive new filesystem stream: destination 'tank/a' exists\nmust specify -F to overwrite it\n",
        ),
        ("tank/b", &more, "cannot receive incremental stream: destination 'tank/b' does not exist\n"),
        ("tank/no/b", &full, "cannot receive new filesystem stream: parent does not exist\n"),
        ("-o nosuch=1 tank/b", &full, "cannot receive: invalid property 'nosuch'\n"),
        ("tank/b", &Vec::new(), "cannot receive: failed to read from stream\n"),
        ("-A tank/a", &full, "'tank/a' does not have any resumable receive state to abort\n"),
        ("-c tank/a@2", &full, "cannot receive: local snapshot doesn't match the snapshot in the provided stream\n"),
        ("-F -c tank/a@1", &full, "cannot receive: corrective recv can not be used when combined with this flag\n"),
        ("-d tank/a@1", &full, "cannot receive: invalid argument - snapshot not allowed with -d\n"),
    ] {
        assert_eq!(rig.given(&format!("zfs receive {line}"), input), (1, says.to_owned()), "{line}");
    }
    let (code, message) = rig.given("zfs receive", &full);
    assert!(code == 2 && message.starts_with("missing snapshot argument\nusage:\n\treceive "), "{message}");
    let mut bad = full.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    let (code, message) = rig.given("zfs receive tank/b", &bad);
    assert!(
        code == 1 && message.starts_with("cannot receive new filesystem stream: checksum mismatch\nrecord "),
        "{message}"
    );
    assert_eq!(rig.names("tank"), ["", "/a", "/a@1", "/a@2"]);
    judge(&rig);
}

#[test]
fn with_a_daemon_it_receives_the_stream_and_interrupted_receives_resume() {
    let rig = with_pool(true);
    rig.good("zfs create -V 16M tank/volume");
    rig.good("zfs create tank/a");
    for at in 0..6 {
        rig.good(&format!("zfs create tank/a/{at}"));
    }
    rig.good("zfs snapshot -r tank/a@1");
    rig.receive("zfs receive tank/copy", &rig.send("zfs send -R tank/a@1"));
    assert_eq!(rig.names("tank/copy"), rig.names("tank/a"));
    let full = rig.send("zfs send tank/a@1");
    let (code, message) = rig.given("zfs receive -s tank/part", &full[..full.len() / 2]);
    let token = rig.good("zfs get -H -o value receive_resume_token tank/part");
    assert!(code == 1 && message.contains(&format!("    zfs send -t {token}")), "{message}");
    rig.receive("zfs receive -s tank/part", &rig.send(&format!("zfs send -t {}", token.trim())));
    assert_eq!(rig.names("tank/part"), ["", "@1"]);
    // The contents of a file system itself.
    let head = rig.send("zfs send tank/a");
    assert_eq!(rig.given("zfs receive -s tank/whole", &head[..head.len() / 2]).0, 1);
    let token = rig.good("zfs get -H -o value receive_resume_token tank/whole");
    rig.receive("zfs receive -s tank/whole", &rig.send(&format!("zfs send -t {}", token.trim())));
    assert_eq!(rig.names("tank/whole"), ["", "@--head--"]);
    assert_eq!(rig.given("zfs receive -s tank/half", &full[..full.len() / 2]).0, 1);
    rig.good("zfs receive -A tank/half");
    // A client that disconnects in the middle ends the stream, and nothing remains.
    let mut child = rig.command("zfs receive tank/left").stdin(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&full[..400]).expect("taken");
    child.kill().expect("killed");
    child.wait().expect("it ends");
    drop(stdin);
    assert_eq!(rig.names("tank").iter().filter(|name| name.contains("half") || name.contains("left")).count(), 0);
    judge(&rig);
}

#[test]
fn plain_streams_are_encrypted_according_to_options_and_ancestors() {
    let rig = with_pool(true);
    std::fs::write(rig.path("key"), "correct horse battery").expect("a key");
    let own = format!("-o encryption=aes-128-ccm -o keyformat=passphrase -o keylocation=file://{}", rig.path("key"));
    rig.good("zfs create tank/src");
    rig.good("zfs create -V 1M -s tank/src/v");
    rig.good("zfs snapshot -r tank/src@1");
    rig.good("zfs snapshot -r tank/src@2");
    rig.good(&format!("zfs create {own} tank/vault"));
    let (bare, with, all) =
        (rig.send("zfs send tank/src@1"), rig.send("zfs send -p tank/src@1"), rig.send("zfs send -R tank/src@1"));
    let is = |name: &str, encryption: &str, root: &str| {
        let found = rig.good(&format!("zfs get -Ho value encryption,encryptionroot,keystatus {name}"));
        let status = if root == "-" { "-" } else { "available" };
        assert_eq!(found.lines().collect::<Vec<_>>(), [encryption, root, status], "{name}");
    };
    rig.receive("zfs receive tank/vault/bare", &bare);
    is("tank/vault/bare", "aes-128-ccm", "tank/vault");
    rig.receive("zfs receive tank/vault/plain", &with);
    is("tank/vault/plain", "off", "-");
    rig.receive("zfs receive -x encryption tank/vault/kept", &with);
    is("tank/vault/kept", "aes-128-ccm", "tank/vault");
    rig.receive(&format!("zfs receive {own} tank/own"), &bare);
    is("tank/own", "aes-128-ccm", "tank/own");
    rig.receive(&format!("zfs receive {own} tank/all"), &all);
    is("tank/all", "aes-128-ccm", "tank/all");
    is("tank/all/v", "aes-128-ccm", "tank/all");
    rig.receive("zfs receive -x encryption tank/vault/all", &all);
    is("tank/vault/all/v", "aes-128-ccm", "tank/vault");

    let more = rig.send("zfs send -i @1 tank/src@2");
    let raw = rig.send("zfs send -w tank/vault/bare@1");
    let prompt = "cannot receive: Cannot use 'prompt' keylocation because stdin is in use.\n";
    for (line, input, why) in [
        ("-o encryption=on -o keyformat=passphrase tank/x", &bare, prompt),
        ("-o encryption=on tank/x", &bare, "Keyformat required for new encryption root."),
        ("-o encryption=on tank/own", &more, "encryption property 'encryption' cannot be set for incremental streams."),
        ("-x encryption tank/x", &raw, "encryption property 'encryption' cannot be set or excluded for raw streams."),
    ] {
        let (code, message) = rig.given(&format!("zfs receive {line}"), input);
        assert!(code == 1 && message.contains(why), "{line}: {message}");
    }
    rig.receive("zfs receive -x encryption tank/own", &more);
    assert_eq!(rig.names("tank/own"), ["", "@1", "@2"]);
    is("tank/own", "aes-128-ccm", "tank/own");
    assert!(rig.names("tank").iter().all(|name| !name.starts_with("/x")));
    judge(&rig);
}
