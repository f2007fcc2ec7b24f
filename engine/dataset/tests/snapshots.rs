//! Snapshots are taken and destroyed on pools in memory and compared with a model of each state.
//! After each step every block, space map and account must be correct; where OpenZFS's `zdb` is
//! installed, it must agree.

use crate::common;
use crate::common::{Rig, layout, new_file, space_walk};
use dataset::write::{self, Failures, NewDataset};
use dataset::{Entry, LiveDataset};
use errors::{Error, Refusal};
use rig::{Chance, noise};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Bytes per block of the test files.
const BLOCK: u64 = 16 << 10;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|n| (*n).to_owned()).collect()
}

fn take(rig: &Rig, list: &[&str]) -> Result<(), Failures> {
    write::snapshot(&rig.live, &names(list), &[])
}

fn destroy(rig: &Rig, list: &[&str]) -> Result<(), Failures> {
    write::destroy_snapshots(&rig.live, &names(list), false)
}

/// Everything that must hold, including the space of each state.
fn check(rig: &Rig) {
    rig.check();
    space_walk::check(&rig.tree());
}

/// Writes blocks of `file` from seeds; 0 makes a hole.
fn put(live: &LiveDataset, file: u64, blocks: &[(u64, u64)]) {
    let tx = live.begin(blocks.len() as u64 * BLOCK).unwrap();
    let object = live.objset().object(file).unwrap();
    for (at, seed) in blocks {
        match seed {
            0 => object.punch(&tx, at * BLOCK, BLOCK).unwrap(),
            seed => object.write_at(&tx, at * BLOCK, &noise(*seed, BLOCK as usize)).unwrap(),
        }
    }
}

fn new(live: &LiveDataset) -> u64 {
    let tx = live.begin(BLOCK).unwrap();
    let id = new_file(live.objset(), &tx, 1).unwrap();
    live.objset().object(id).unwrap().set_block_bytes(&tx, BLOCK as u32).unwrap();
    id
}

/// Whether a state has exactly these blocks in `file`.
fn has(rig: &Rig, state: &str, file: u64, blocks: &BTreeMap<u64, u64>) {
    let set = rig.tree().dataset(state).unwrap().objset(rig.live.keys()).unwrap();
    let object = set.object(file).unwrap();
    for (at, seed) in blocks {
        let read = object.read_vec(at * BLOCK, BLOCK as usize).unwrap();
        let wanted = if *seed == 0 { vec![0; BLOCK as usize] } else { noise(*seed, BLOCK as usize) };
        assert!(read == wanted, "{state}: block {at} of file {file}");
    }
}

fn used(rig: &Rig, name: &str) -> u64 {
    rig.get(name, "used").parse().unwrap()
}

#[test]
fn a_snapshot_contains_exactly_the_earlier_writes() {
    let rig = Rig::with(layout(true), &[("recordsize", "16K")], None);
    rig.create("tank/a", &[]).unwrap();
    let a = rig.open("tank/a");
    let file = new(&a);
    put(&a, file, &[(0, 1), (1, 2), (2, 3)]);
    // Nothing was synced since: it is in the snapshot's own txg.
    write::snapshot(&rig.live, &names(&["tank/a@one"]), &common::owned(&[("com.example:why", "first")])).unwrap();
    put(&a, file, &[(1, 20), (2, 0), (3, 30)]);
    check(&rig);
    has(&rig, "tank/a@one", file, &BTreeMap::from([(0, 1), (1, 2), (2, 3), (3, 0)]));
    has(&rig, "tank/a", file, &BTreeMap::from([(0, 1), (1, 20), (2, 0), (3, 30)]));
    assert_eq!(rig.get("tank/a@one", "com.example:why"), "first");
    assert_ne!(rig.get("tank/a", "snapshots_changed"), "-");
    assert!(used(&rig, "tank/a@one") > 2 * BLOCK);
    rig.judge();
    drop(a);
    let rig = rig.reopen();
    check(&rig);
    has(&rig, "tank/a@one", file, &BTreeMap::from([(0, 1), (1, 2), (2, 3), (3, 0)]));
}

#[test]
fn several_are_taken_in_one_txg_or_none() {
    let rig = Rig::new();
    for name in ["tank/a", "tank/b"] {
        rig.create(name, &[]).unwrap();
    }
    take(&rig, &["tank/a@s", "tank/b@s", "tank@s"]).unwrap();
    let txgs: BTreeSet<String> = ["tank/a@s", "tank/b@s", "tank@s"].map(|n| rig.get(n, "createtxg")).into();
    assert_eq!(txgs.len(), 1);
    let why = take(&rig, &["tank/a@t", "tank/b@s", "tank/no@s", "tank@b%d"]).unwrap_err();
    let failed: Vec<&str> = why.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(failed, ["tank/b@s", "tank/no@s", "tank@b%d"]);
    assert!(matches!(why[0].1, Error::Refused { why: Refusal::Exists, .. }), "{why:?}");
    assert!(matches!(why[1].1, Error::NotFound { .. }), "{why:?}");
    assert!(rig.tree().entry("tank/a@t").is_err());
    let why = take(&rig, &["tank/a@t", "tank/a@u"]).unwrap_err();
    assert!(matches!(why[0].1, Error::Refused { why: Refusal::CrossDevice, .. }), "{why:?}");
    check(&rig);
    rig.judge();
}

#[test]
fn all_space_is_reclaimed_when_snapshots_are_destroyed_in_any_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let rig = Rig::with(layout(false), &[("recordsize", "16K")], None);
        rig.create("tank/a", &[]).unwrap();
        let a = rig.open("tank/a");
        let file = new(&a);
        put(&a, file, &(0..20).map(|at| (at, at + 1)).collect::<Vec<_>>());
        for snapshot in 0..4u64 {
            take(&rig, &[&format!("tank/a@{snapshot}")]).unwrap();
            put(&a, file, &(0..5).map(|at| (at * (snapshot + 1), 100 * snapshot + at + 50)).collect::<Vec<_>>());
        }
        check(&rig);
        for snapshot in order {
            destroy(&rig, &[&format!("tank/a@{snapshot}")]).unwrap();
            check(&rig);
        }
        assert_eq!(rig.get("tank/a", "usedbysnapshots"), "0");
        assert_eq!(used(&rig, "tank/a"), rig.get("tank/a", "referenced").parse::<u64>().unwrap());
        // Equal to a pool that never had snapshots.
        rig.judge();
    }
}

#[test]
fn a_refreservation_covers_the_head_only() {
    let rig = Rig::with(layout(false), &[("recordsize", "16K")], None);
    rig.create("tank/a", &[("refreservation", "10M")]).unwrap();
    let a = rig.open("tank/a");
    let file = new(&a);
    put(&a, file, &(0..200).map(|at| (at, at + 1)).collect::<Vec<_>>());
    check(&rig);
    let before = used(&rig, "tank/a");
    take(&rig, &["tank/a@s"]).unwrap();
    check(&rig);
    let unique = 200 * BLOCK;
    assert!(used(&rig, "tank/a") >= before + unique, "{} {before}", used(&rig, "tank/a"));
    put(&a, file, &(0..100).map(|at| (at, at + 1000)).collect::<Vec<_>>());
    check(&rig);
    destroy(&rig, &["tank/a@s"]).unwrap();
    check(&rig);
    assert_eq!(used(&rig, "tank/a"), before);
    // Without room for the space that it would pin, no snapshot is taken.
    rig.create("tank/full", &[("quota", "11M"), ("refreservation", "10M")]).unwrap();
    let full = rig.open("tank/full");
    let file = new(&full);
    put(&full, file, &(0..200).map(|at| (at, at + 1)).collect::<Vec<_>>());
    full.sync().unwrap();
    let why = take(&rig, &["tank/full@s"]).unwrap_err();
    assert!(matches!(why[0].1, Error::Refused { why: Refusal::NoSpace, .. }), "{why:?}");
    rig.judge();
}

#[test]
fn held_snapshots_stay_until_the_last_hold_is_released() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    take(&rig, &["tank/a@s", "tank@s"]).unwrap();
    let both = names(&["tank/a@s", "tank@s"]);
    write::hold(&rig.live, &both, "keep").unwrap();
    write::hold(&rig.live, &both[..1], "more").unwrap();
    let why = write::hold(&rig.live, &both, "keep").unwrap_err();
    assert!(matches!(why[0].1, Error::Refused { why: Refusal::Exists, .. }) && why.len() == 2, "{why:?}");
    assert_eq!(rig.get("tank/a@s", "userrefs"), "2");
    let why = destroy(&rig, &["tank/a@s"]).unwrap_err();
    assert!(matches!(why[0].1, Error::Refused { why: Refusal::Busy, .. }), "{why:?}");
    write::destroy_snapshots(&rig.live, &both, true).unwrap();
    assert_eq!(rig.get("tank/a@s", "defer_destroy"), "on");
    assert!(matches!(write::release(&rig.live, &both, "no").unwrap_err()[0].1, Error::NotFound { .. }));
    write::release(&rig.live, &both, "keep").unwrap();
    assert!(rig.tree().entry("tank@s").is_err());
    write::release(&rig.live, &both[..1], "more").unwrap();
    assert!(rig.tree().entry("tank/a@s").is_err());
    check(&rig);
    rig.judge();
}

#[test]
fn an_encrypted_dataset_needs_no_key_for_its_snapshots() {
    let encrypted = [("encryption", "on"), ("keyformat", "passphrase"), ("recordsize", "16K")];
    let rig = Rig::with(layout(false), &encrypted, Some("password"));
    rig.create("tank/a", &[]).unwrap();
    let a = rig.open("tank/a");
    let file = new(&a);
    put(&a, file, &[(0, 1), (1, 2)]);
    take(&rig, &["tank/a@s", "tank@s"]).unwrap();
    put(&a, file, &[(1, 3)]);
    check(&rig);
    has(&rig, "tank/a@s", file, &BTreeMap::from([(0, 1), (1, 2)]));
    assert_ne!(rig.get("tank/a@s", "ivsetguid"), "-");
    drop(a);
    rig.live.close_all().unwrap();
    assert!(rig.live.unload_key("tank").unwrap());
    take(&rig, &["tank/a@t"]).unwrap();
    destroy(&rig, &["tank/a@s"]).unwrap();
    rig.check();
    rig.judge();
}

#[test]
fn counts_of_snapshots_are_kept_where_a_limit_is_set() {
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    rig.create("tank/a/b", &[]).unwrap();
    rig.set("tank/a", "snapshot_limit", "1").unwrap();
    take(&rig, &["tank/a@s", "tank/a/b@s"]).unwrap();
    take(&rig, &["tank/a/b@t"]).unwrap();
    assert_eq!((rig.get("tank/a", "snapshot_count"), rig.get("tank/a/b", "snapshot_count")), ("3".into(), "2".into()));
    destroy(&rig, &["tank/a/b@s", "tank/a@s"]).unwrap();
    assert_eq!((rig.get("tank/a", "snapshot_count"), rig.get("tank/a/b", "snapshot_count")), ("1".into(), "1".into()));
    check(&rig);
}

#[test]
fn rolling_back_restores_the_snapshot_and_frees_the_rest() {
    let rig = Rig::with(layout(true), &[("recordsize", "16K")], None);
    rig.create("tank/a", &[("refreservation", "3M")]).unwrap();
    let a = rig.open("tank/a");
    let file = new(&a);
    put(&a, file, &(0..30).map(|at| (at, at + 1)).collect::<Vec<_>>());
    take(&rig, &["tank/a@one"]).unwrap();
    take(&rig, &["tank/a@two"]).unwrap();
    write::bookmark(&rig.live, &[("tank/a@two".to_owned(), "tank/a#two".to_owned())]).unwrap();
    let before = used(&rig, "tank/a");
    put(&a, file, &(10..60).map(|at| (at, at + 500)).collect::<Vec<_>>());
    a.sync().unwrap();
    check(&rig);
    // Open, and not the latest: both are rejected.
    assert!(matches!(write::rollback(&rig.live, "tank/a@two"), Err(Error::Refused { why: Refusal::Busy, .. })));
    rig.live.close(&a).unwrap();
    drop(a);
    assert!(matches!(write::rollback(&rig.live, "tank/a@one"), Err(Error::Invalid { .. })));
    write::rollback(&rig.live, "tank/a@two").unwrap();
    check(&rig);
    has(&rig, "tank/a", file, &(0..60).map(|at| (at, if at < 30 { at + 1 } else { 0 })).collect());
    assert_eq!(used(&rig, "tank/a"), before);
    let a = rig.open("tank/a");
    put(&a, file, &[(3, 99)]);
    check(&rig);
    rig.judge();
    drop(a);
    let rig = rig.reopen();
    has(&rig, "tank/a", file, &BTreeMap::from([(3, 99), (4, 5)]));
    destroy(&rig, &["tank/a@two", "tank/a@one"]).unwrap();
    write::destroy_bookmark(&rig.live, "tank/a#two").unwrap();
    check(&rig);
    rig.judge();
}

#[test]
fn clones_share_blocks_and_are_promoted_and_destroyed() {
    for encrypted in [false, true] {
        let secret = [("encryption", "on"), ("keyformat", "passphrase"), ("recordsize", "16K")];
        let properties = if encrypted { &secret[..] } else { &secret[2..] };
        let rig = Rig::with(layout(false), properties, encrypted.then_some("password"));
        rig.create("tank/a", &[]).unwrap();
        let a = rig.open("tank/a");
        let file = new(&a);
        put(&a, file, &(0..20).map(|at| (at, at + 1)).collect::<Vec<_>>());
        take(&rig, &["tank/a@one"]).unwrap();
        put(&a, file, &[(0, 100)]);
        take(&rig, &["tank/a@two"]).unwrap();
        write::bookmark(&rig.live, &[("tank/a@two".to_owned(), "tank/a#two".to_owned())]).unwrap();
        put(&a, file, &[(1, 101)]);
        take(&rig, &["tank/a@three"]).unwrap();
        write::clone(&rig.live, "tank/a@two", "tank/c", &common::owned(&[("com.example:why", "test")])).unwrap();
        assert_eq!(
            (rig.get("tank/c", "origin"), rig.get("tank/c", "com.example:why")),
            ("tank/a@two".into(), "test".into())
        );
        let c = rig.open("tank/c");
        put(&c, file, &[(2, 200), (3, 201), (2, 202)]);
        check(&rig);
        has(&rig, "tank/c", file, &BTreeMap::from([(0, 100), (1, 2), (2, 202), (3, 201), (4, 5)]));
        has(&rig, "tank/a", file, &BTreeMap::from([(0, 100), (1, 101), (2, 3), (3, 4)]));
        let why = destroy(&rig, &["tank/a@two"]).unwrap_err();
        assert!(matches!(why[0].1, Error::Refused { why: Refusal::Exists, .. }), "{why:?}");
        take(&rig, &["tank/c@own"]).unwrap();
        put(&c, file, &[(4, 300)]);
        rig.judge();
        write::promote(&rig.live, "tank/c").unwrap();
        check(&rig);
        assert_eq!((rig.get("tank/a", "origin"), rig.get("tank/c", "origin")), ("tank/c@two".into(), "-".into()));
        has(&rig, "tank/c@one", file, &BTreeMap::from([(0, 1), (1, 2)]));
        assert!(rig.tree().entry("tank/c#two").is_ok() && rig.tree().entry("tank/a#two").is_err());
        put(&c, file, &[(5, 301)]);
        put(&a, file, &[(5, 302)]);
        check(&rig);
        rig.judge();
        // Promoted back; what was only kept for a clone is destroyed with it.
        write::promote(&rig.live, "tank/a").unwrap();
        check(&rig);
        write::destroy_snapshots(&rig.live, &names(&["tank/a@two"]), true).unwrap();
        rig.live.close(&c).unwrap();
        drop(c);
        destroy(&rig, &["tank/c@own"]).unwrap();
        write::destroy(&rig.live, "tank/c").unwrap();
        assert!(rig.tree().entry("tank/a@two").is_err());
        check(&rig);
        destroy(&rig, &["tank/a@three", "tank/a@one"]).unwrap();
        check(&rig);
        assert_eq!(rig.get("tank/a", "usedbysnapshots"), "0");
        rig.judge();
        assert!(matches!(write::promote(&rig.live, "tank/a"), Err(Error::Invalid { .. })));
    }
}

#[test]
fn a_clone_takes_over_the_encryption_root_that_it_was_made_of() {
    let rig = Rig::with(layout(false), &[("recordsize", "16K")], None);
    let secret = [("encryption", "on"), ("keyformat", "passphrase"), ("keylocation", "file:///key")];
    let new_root = NewDataset {
        name: "tank/enc".into(),
        properties: common::owned(&secret),
        key: Some(Zeroizing::new(b"password".to_vec())),
        ..NewDataset::default()
    };
    write::create(&rig.live, &new_root, common::MAKER).unwrap();
    rig.create("tank/enc/kid", &[]).unwrap();
    let enc = rig.open("tank/enc");
    let file = new(&enc);
    put(&enc, file, &[(0, 1), (1, 2)]);
    take(&rig, &["tank/enc@s", "tank/enc/kid@s"]).unwrap();
    put(&enc, file, &[(1, 3)]);
    write::clone(&rig.live, "tank/enc@s", "tank/c", &[]).unwrap();
    let roots = || ["tank/enc", "tank/enc/kid", "tank/c"].map(|name| rig.get(name, "encryptionroot"));
    assert_eq!(roots(), ["tank/enc"; 3]);
    write::promote(&rig.live, "tank/c").unwrap();
    assert_eq!(roots(), ["tank/c"; 3]);
    assert_eq!(
        (rig.get("tank/c", "keylocation"), rig.get("tank/enc", "keylocation")),
        ("file:///key".into(), "none".into())
    );
    check(&rig);
    rig.judge();
    drop(enc);
    rig.live.close_all().unwrap();
    assert!(rig.live.unload_key("tank/c").unwrap());
    let kid = rig.tree().dataset("tank/enc/kid").unwrap();
    assert!(!rig.live.keys().is_available(&kid).unwrap());
    rig.live.keys().load(&rig.tree().dataset("tank/c").unwrap(), b"password").unwrap();
    has(&rig, "tank/enc", file, &BTreeMap::from([(0, 1), (1, 3)]));
    has(&rig, "tank/c", file, &BTreeMap::from([(0, 1), (1, 2)]));
    assert!(rig.live.keys().is_available(&kid).unwrap());
    write::promote(&rig.live, "tank/enc").unwrap();
    assert_eq!(roots(), ["tank/enc"; 3]);
    check(&rig);
}

/// Goal: a snapshot of a head that is being written contains everything acknowledged before it was
/// requested, and no partial change. Method: a thread writes the same number into two files in one
/// transaction; every snapshot must have the same number in both.
#[test]
fn snapshots_during_writes_have_whole_changes_and_all_before_them() {
    let rig = Rig::with(layout(false), &[("recordsize", "16K")], None);
    rig.create("tank/a", &[]).unwrap();
    let a = rig.open("tank/a");
    let files = [new(&a), new(&a)];
    let (written, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let number = written.load(Ordering::SeqCst) + 1;
                let tx = a.begin(2 * BLOCK).unwrap();
                for file in files {
                    let object = a.objset().object(file).unwrap();
                    object.write_at(&tx, (number % 7) * BLOCK, &number.to_le_bytes()).unwrap();
                    object.write_at(&tx, 8 * BLOCK, &number.to_le_bytes()).unwrap();
                }
                drop(tx);
                written.store(number, Ordering::SeqCst);
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while written.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < deadline, "nothing was written");
            std::thread::yield_now();
        }
        for n in 0..12 {
            let before = written.load(Ordering::SeqCst);
            let name = format!("tank/a@{n}");
            let result = take(&rig, &[&name]);
            if n % 3 == 2 && result.is_ok() {
                destroy(&rig, &[&format!("tank/a@{}", n - 1)]).unwrap();
            }
            let set = rig.tree().dataset(&name).and_then(|d| d.objset(rig.live.keys()));
            let last = |file: u64| {
                let object = set.as_ref().ok()?.object(file).ok()?;
                Some(u64::from_le_bytes(object.read_vec(8 * BLOCK, 8).ok()?.try_into().ok()?))
            };
            let found = files.map(last);
            if n == 11 || result.is_err() || found[0].is_none_or(|n| n < before) || found[0] != found[1] {
                // The writer also ends if this test fails.
                is_over.store(true, Ordering::SeqCst);
            }
            result.unwrap();
            assert_eq!(found[0], found[1], "{name}");
            assert!(found[0].unwrap() >= before, "{name}: {found:?}, written {before}");
        }
    });
    check(&rig);
    rig.judge();
}

/// A file system with a file, and the model of its contents in each state.
struct Model {
    name: String,
    live: Arc<LiveDataset>,
    file: u64,
    now: BTreeMap<u64, u64>,
    snapshots: BTreeMap<String, BTreeMap<u64, u64>>,
    marks: BTreeSet<String>,
}

/// Random steps: writes, snapshots, bookmarks, and destroying them. Goal: no sequence loses space,
/// content or a count.
#[test]
fn random_steps_leave_every_block_and_every_account_right() {
    let seeds: Vec<u64> = match std::env::var("WEIR_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => vec![1, 2],
    };
    for seed in seeds {
        println!("seed {seed}");
        random_steps(seed, 30);
    }
}

fn random_steps(seed: u64, steps: u64) {
    let mut chance = Chance::new(seed);
    let rig = Rig::with(layout(seed.is_multiple_of(2)), &[("recordsize", "16K")], None);
    let mut models: Vec<Model> = ["tank/a", "tank/a/b"]
        .map(|name| {
            rig.create(name, &[]).unwrap();
            let live = rig.open(name);
            let file = new(&live);
            Model {
                name: name.to_owned(),
                live,
                file,
                now: BTreeMap::new(),
                snapshots: BTreeMap::new(),
                marks: BTreeSet::new(),
            }
        })
        .into();
    for step in 0..steps {
        let which = chance.below(2) as usize;
        let m = &mut models[which];
        match chance.below(12) {
            10 => {
                // What is newer than the snapshot is destroyed first, as with `zfs rollback -r`.
                let all: Vec<String> = m.snapshots.keys().cloned().collect();
                let Some(short) = chance.pick(&all).cloned() else { continue };
                let txg = |name: &str| rig.get(name, "createtxg").parse::<u64>().unwrap();
                let since = txg(&format!("{}@{short}", m.name));
                let newer: Vec<String> =
                    m.snapshots.keys().filter(|s| txg(&format!("{}@{s}", m.name)) > since).cloned().collect();
                let full: Vec<String> = newer.iter().map(|s| format!("{}@{s}", m.name)).collect();
                write::destroy_snapshots(&rig.live, &full, false).unwrap();
                newer.iter().for_each(|s| drop(m.snapshots.remove(s)));
                for mark in m.marks.clone().into_iter().filter(|mark| txg(mark) > since) {
                    write::destroy_bookmark(&rig.live, &mark).unwrap();
                    m.marks.remove(&mark);
                }
                rig.live.close(&m.live).unwrap();
                write::rollback(&rig.live, &format!("{}@{short}", m.name)).unwrap();
                m.live = rig.open(&m.name);
                let then = m.snapshots[&short].clone();
                m.now = m.now.keys().map(|at| (*at, then.get(at).copied().unwrap_or(0))).collect();
            }
            11 => {
                // A clone that is written, checked and destroyed, or promoted twice in between.
                let all: Vec<String> = m.snapshots.keys().cloned().collect();
                let Some(short) = chance.pick(&all).cloned() else { continue };
                let (name, mut has_now) = (format!("tank/c{step}"), m.snapshots[&short].clone());
                write::clone(&rig.live, &format!("{}@{short}", m.name), &name, &[]).unwrap();
                let clone = rig.open(&name);
                let blocks: Vec<_> =
                    (0..1 + chance.below(8)).map(|_| (chance.below(40), 1 + step * 7 + chance.below(99))).collect();
                put(&clone, m.file, &blocks);
                has_now.extend(blocks);
                write::snapshot(&rig.live, &[format!("{name}@own")], &[]).unwrap();
                put(&clone, m.file, &[(0, step + 1), (1, 0)]);
                check(&rig);
                has(&rig, &format!("{name}@own"), m.file, &has_now);
                if chance.below(2) == 0 {
                    write::promote(&rig.live, &name).unwrap();
                    check(&rig);
                    put(&m.live, m.file, &[(5, step + 3)]);
                    m.now.insert(5, step + 3);
                    write::promote(&rig.live, &m.name).unwrap();
                    check(&rig);
                }
                rig.live.close(&clone).unwrap();
                write::destroy_snapshots(&rig.live, &[format!("{name}@own")], false).unwrap();
                write::destroy(&rig.live, &name).unwrap();
            }
            0..=3 => {
                let blocks: Vec<_> = (0..1 + chance.below(12))
                    .map(|_| (chance.below(40), chance.below(5) * (step * 100 + chance.below(99))))
                    .collect();
                put(&m.live, m.file, &blocks);
                m.now.extend(blocks);
            }
            4 => {
                let both: Vec<String> = models.iter().map(|m| format!("{}@r{step}", m.name)).collect();
                write::snapshot(&rig.live, &both, &[]).unwrap();
                for m in &mut models {
                    m.snapshots.insert(format!("r{step}"), m.now.clone());
                }
            }
            5 | 6 => {
                write::snapshot(&rig.live, &[format!("{}@s{step}", m.name)], &[]).unwrap();
                m.snapshots.insert(format!("s{step}"), m.now.clone());
            }
            7 => {
                let all: Vec<String> = m.snapshots.keys().cloned().collect();
                if let Some(short) = chance.pick(&all).cloned() {
                    let mark = format!("{}#m{step}", m.name);
                    write::bookmark(&rig.live, &[(format!("{}@{short}", m.name), mark.clone())]).unwrap();
                    m.marks.insert(mark);
                }
            }
            8 => {
                let all: Vec<String> = m.marks.iter().cloned().collect();
                if let Some(mark) = chance.pick(&all).cloned() {
                    write::destroy_bookmark(&rig.live, &mark).unwrap();
                    m.marks.remove(&mark);
                }
            }
            _ => {
                let count = 1 + chance.below(3);
                for _ in 0..count {
                    let all: Vec<String> = m.snapshots.keys().cloned().collect();
                    let Some(short) = chance.pick(&all).cloned() else { break };
                    write::destroy_snapshots(&rig.live, &[format!("{}@{short}", m.name)], false).unwrap();
                    m.snapshots.remove(&short);
                }
            }
        }
        check(&rig);
        for m in &models {
            for (short, blocks) in &m.snapshots {
                has(&rig, &format!("{}@{short}", m.name), m.file, blocks);
            }
            has(&rig, &m.name, m.file, &m.now);
            for mark in &m.marks {
                let property = format!("written{}", &mark[mark.find('#').unwrap()..]);
                let written = rig.get(&m.name, &property).parse::<u64>().unwrap();
                let Entry::Bookmark(mark) = rig.tree().entry(mark).unwrap() else { panic!() };
                // If its snapshot still exists, both give the same result.
                let of = m.snapshots.keys().map(|short| format!("{}@{short}", m.name));
                for snapshot in of.filter(|s| rig.get(s, "guid") == mark.phys().guid.to_string()) {
                    let short = snapshot.split_once('@').unwrap().1;
                    assert_eq!(rig.get(&m.name, &format!("written@{short}")), written.to_string(), "{snapshot}");
                }
            }
        }
        if step % 8 == 7 {
            rig.judge();
        }
    }
    let all: Vec<String> =
        models.iter().flat_map(|m| m.snapshots.keys().map(|s| format!("{}@{s}", m.name)).collect::<Vec<_>>()).collect();
    write::destroy_snapshots(&rig.live, &all, false).unwrap();
    for mark in models.iter().flat_map(|m| m.marks.clone()) {
        write::destroy_bookmark(&rig.live, &mark).unwrap();
    }
    check(&rig);
    for m in &models {
        assert_eq!(rig.get(&m.name, "usedbysnapshots"), "0");
    }
    rig.judge();
}
