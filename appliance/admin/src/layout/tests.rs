//! Arguments become layouts; errors have OpenZFS's wording.

use super::*;

fn files(names: &[(&str, u64)]) -> (tempfile::TempDir, impl Fn(&str) -> Vec<String>) {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, bytes) in names {
        std::fs::File::create(dir.path().join(name)).and_then(|f| f.set_len(*bytes)).expect("written");
    }
    let root = dir.path().to_owned();
    let words = move |line: &str| {
        line.split_whitespace()
            .map(|w| if w.len() == 1 { root.join(w).display().to_string() } else { w.to_owned() })
            .collect()
    };
    (dir, words)
}

const SIX: &[(&str, u64)] =
    &[("a", 1 << 27), ("b", 1 << 27), ("c", 1 << 27), ("d", 1 << 27), ("e", 1 << 27), ("f", 1 << 28)];

#[test]
fn arguments_become_a_layout_displayed_like_zpool() {
    let (dir, words) = files(SIX);
    let layout = Layout::parse(&words("mirror a b log c cache d spare e")).expect("good");
    assert_eq!((layout.tops.len(), layout.caches.len(), layout.spares.len()), (2, 1, 1));
    let path = |name: &str| dir.path().join(name).display().to_string();
    let expected = format!(
        "\ttank\n\t  mirror\n\t    {}\n\t    {}\n\tlogs\n\t  {}\n\tcache\n\t  {}\n\tspares\n\t  {}\n",
        path("a"),
        path("b"),
        path("c"),
        path("d"),
        path("e")
    );
    assert_eq!(layout.tree("tank"), expected);
    let raidz = Layout::parse(&words("raidz2 a b c special mirror d e")).expect("good");
    assert_eq!((raidz.tops[0].group, raidz.tops[1].purpose), (Group::Raidz(2), Purpose::Special));
}

#[test]
fn wrong_arguments_are_refused_with_openzfs_messages() {
    let (_dir, words) = files(SIX);
    let cases = [
        ("raidz2 a b", "invalid vdev specification: raidz2 requires at least 3 devices"),
        ("mirror a", "invalid vdev specification: mirror requires at least 2 devices"),
        ("a log", "invalid vdev specification: log requires at least 1 device"),
        ("a log raidz b c", "invalid vdev specification: unsupported 'log' device: raidz"),
        ("a spare b spare c", "invalid vdev specification: 'spare' can be specified only once"),
        ("draid4 a b c d", "invalid dRAID parity level 4; must be between 1 and 3"),
        ("draid1:2 a b c d", "invalid dRAID syntax; expected [:<number><c|d|s>] not 'draid1:2'"),
        ("draid1:x a b c d", "invalid dRAID syntax; expected [:<number><c|d|s>] not 'draid1:x'"),
        ("draid1:5c a b c d", "invalid number of dRAID children; 5 required but 4 provided"),
        (
            "draid1:4d a b c d",
            "requested number of dRAID data disks per group 4 is too high,\nat most 3 disks are available for data",
        ),
        (
            "draid1:3s a b c d",
            "request number of distributed spares 3 and parity level 1\nleaves no disks available for data",
        ),
        ("draid2 a b", "invalid vdev specification: draid2 requires at least 3 devices"),
        ("a log draid b c d", "invalid vdev specification: unsupported 'log' device: draid"),
        ("/nosuch/file", "cannot resolve path '/nosuch/file'"),
        (
            "nosuchdisk",
            "cannot open 'nosuchdisk': no such device in /dev\nmust be a full path or shorthand device name",
        ),
        ("/tmp", "cannot use '/tmp': must be a block device or regular file"),
        ("", "invalid vdev specification: at least one toplevel vdev must be specified"),
    ];
    for (line, message) in cases {
        assert_eq!(Layout::parse(&words(line)).expect_err(line).text, message, "{line}");
    }
}

#[test]
fn devices_with_different_redundancy_are_distinguished() {
    let (_dir, words) = files(SIX);
    let mismatch = |line: &str| {
        let layout = Layout::parse(&words(line)).expect(line);
        check_replication(&layout, None).err().map(|e| e.text.lines().nth(2).unwrap_or_default().to_owned())
    };
    assert_eq!(mismatch("mirror a b mirror c d"), None);
    assert_eq!(mismatch("mirror a b log c"), None);
    assert_eq!(mismatch("raidz1 a b c mirror d e"), None, "both survive one failure");
    let level = |text: &str| Some(format!("mismatched replication level: {text}"));
    assert_eq!(mismatch("mirror a b c mirror d e"), level("both 3-way and 2-way mirror vdevs are present"));
    assert_eq!(mismatch("a mirror b c"), level("both file and mirror vdevs are present"));
    let parity = level("raidz and raidz vdevs with different redundancy, 1 vs. 2 are present");
    assert_eq!(mismatch("raidz1 a b raidz2 c d e"), parity);
    let draid = level("draid and mirror vdevs with different redundancy, 1 vs. 2 (3-way) are present");
    assert_eq!(mismatch("draid a b mirror c d e"), draid);
    assert_eq!(mismatch("raidz1 a b raidz1 c d e"), None, "the number of children does not matter");
    assert_eq!(mismatch("draid1 a b draid1 c d e"), None, "as for raidz");
    assert_eq!(
        mismatch("raidz2 a b c mirror d e"),
        level("raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present")
    );
    assert_eq!(mismatch("mirror a f"), Some("mirror contains devices of different sizes".into()));
    let pool = Replication { kind: "mirror", children: 2, parity: 0 };
    let layout = Layout::parse(&words("a")).expect("good");
    let text = check_replication(&layout, Some(pool)).expect_err("uneven").text;
    assert!(text.ends_with("\nmismatched replication level: pool uses mirror and new vdev is file"), "{text}");
    let draid = Replication { kind: "draid", children: 5, parity: 1 };
    let against = |line: &str| check_replication(&Layout::parse(&words(line)).expect(line), Some(draid));
    assert_eq!(against("draid1 a b c"), Ok(()));
    let text = against("draid2 a b c d").expect_err("another parity").text;
    assert!(text.ends_with(": pool and new vdev with different redundancy, draid and draid vdevs, 1 vs. 2"), "{text}");
}

#[test]
fn a_duplicate_device_is_detected() {
    let (_dir, words) = files(SIX);
    assert!(Layout::parse(&words("mirror a a")).expect("words are good").has_duplicate());
    assert!(!Layout::parse(&words("mirror a b")).expect("good").has_duplicate());
}

/// Devices given as such, not as words, make the same layout as the words, and it can be written as
/// words again.
#[test]
fn devices_form_the_requested_layout() {
    let dir = tempfile::tempdir().expect("a folder");
    let leaves = |names: &[&str]| -> Vec<Leaf> {
        let file = |name: &&str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "").expect("written");
            leaf(&path.display().to_string()).expect("a file")
        };
        names.iter().map(file).collect()
    };
    let mut layout = Layout::default();
    let blocks = Use::Blocks;
    layout.add(Use::Cache, None, leaves(&["c"])).expect("added");
    layout.add(blocks(Purpose::Normal), Some("raidz2"), leaves(&["1", "2", "3"])).expect("added");
    layout.add(blocks(Purpose::Log), Some("mirror"), leaves(&["4", "5"])).expect("added");
    layout.add(blocks(Purpose::Log), Some("mirror"), leaves(&["6", "7"])).expect("added");
    layout.add(blocks(Purpose::Special), None, leaves(&["8", "9"])).expect("added");
    layout.add(Use::Spare, None, leaves(&["s"])).expect("added");
    let words = layout.words();
    assert_eq!(Layout::parse(&words).expect("a layout"), layout, "{words:?}");
    let refused = |purpose, word, count: usize| {
        let names = ["1", "2", "3"];
        Layout::default().add(purpose, Some(word), leaves(&names[..count])).expect_err("refused").text
    };
    assert_eq!(
        refused(blocks(Purpose::Normal), "mirror", 1),
        "invalid vdev specification: mirror requires at least 2 devices"
    );
    assert_eq!(
        refused(blocks(Purpose::Log), "raidz1", 3),
        "invalid vdev specification: unsupported 'log' device: raidz"
    );
    assert_eq!(
        refused(Use::Spare, "mirror", 2),
        "invalid vdev specification: spares and cache devices have no redundancy"
    );
}
