//! Redaction on pools in memory, compared with a model: which blocks all clones have changed, and
//! what a redacted stream brings. After each step every block and account must be correct; where
//! OpenZFS's `zdb` is installed, it must agree. testing/kernel/redaction compares with the kernel
//! module.

use crate::common::streams::{take, target, try_receive};
use crate::common::{Rig, new_file};
use dataset::redact::{NotRedacted, redact};
use dataset::send::{Base, Options, Outgoing, Resume};
use dataset::stream::Writer;
use dataset::{Entry, LiveDataset, write};
use errors::{Error, Refusal};
use ondisk::send_record::{Body, Features};
use rig::{Chance, noise};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes per block of the test files.
const BLOCK: u64 = 4 << 10;
/// Blocks of a test file.
const BLOCKS: u64 = 40;
/// A block: file and number.
type At = (u64, u64);

/// Contents of a state: the seed of each block that is no hole.
type Model = BTreeMap<At, u64>;

fn snapshot(rig: &Rig, name: &str) {
    write::snapshot(&rig.live, &[name.to_owned()], &[]).unwrap();
}

fn new(live: &LiveDataset, block_bytes: u64) -> u64 {
    let tx = live.begin(block_bytes).unwrap();
    let id = new_file(live.objset(), &tx, 1).unwrap();
    live.objset().object(id).unwrap().set_block_bytes(&tx, block_bytes as u32).unwrap();
    id
}

fn put(live: &LiveDataset, model: &mut Model, at: At, seed: u64) {
    let tx = live.begin(BLOCK).unwrap();
    live.objset().object(at.0).unwrap().write_at(&tx, at.1 * BLOCK, &noise(seed, BLOCK as usize)).unwrap();
    model.insert(at, seed);
}

/// Punches a hole; `blocks`: `u64::MAX` truncates.
fn punch(live: &LiveDataset, model: &mut Model, (file, first): At, blocks: u64) {
    let tx = live.begin_freeing(BLOCK).unwrap();
    let object = live.objset().object(file).unwrap();
    let length = if blocks == u64::MAX { u64::MAX } else { blocks * BLOCK };
    object.punch(&tx, first * BLOCK, length).unwrap();
    model.retain(|at, _| at.0 != file || at.1 < first || at.1 >= first.saturating_add(blocks));
}

/// `tank/a@s` with some files, and its contents.
fn base(rig: &Rig, files: usize) -> (Vec<u64>, Model) {
    rig.create("tank/a", &[]).unwrap();
    let live = rig.open("tank/a");
    let files: Vec<u64> = (0..files).map(|_| new(&live, BLOCK)).collect();
    let mut model = Model::new();
    for file in &files {
        for block in 0..BLOCKS {
            put(&live, &mut model, (*file, block), file * 1000 + block);
        }
    }
    snapshot(rig, "tank/a@s");
    (files, model)
}

/// Changes clone `name` by chance, and takes its snapshot. Returns the changed blocks.
fn changed_clone(rig: &Rig, chance: &mut Chance, name: &str, files: &[u64], old: &Model) -> BTreeSet<At> {
    write::clone(&rig.live, "tank/a@s", name, &[]).unwrap();
    let live = rig.open(name);
    let (mut model, mut changed) = (old.clone(), BTreeSet::new());
    let mut gone = BTreeSet::new();
    for round in 0..25 {
        let file = files[chance.below(files.len() as u64) as usize];
        if gone.contains(&file) {
            continue;
        }
        let first = chance.below(BLOCKS);
        let span = match chance.below(12) {
            0 => {
                let tx = live.begin_freeing(BLOCK).unwrap();
                live.objset().free_object(&tx, file).unwrap();
                gone.insert(file);
                0..u64::MAX
            }
            1 => {
                punch(&live, &mut model, (file, first.max(1)), u64::MAX);
                first.max(1)..u64::MAX
            }
            2 | 3 => {
                let blocks = 1 + chance.below(12);
                punch(&live, &mut model, (file, first), blocks);
                first..first + blocks
            }
            _ => {
                // Also the same contents again.
                let seed = if chance.below(3) == 0 { file * 1000 + first } else { 1 << 32 | round };
                put(&live, &mut model, (file, first), seed);
                first..first + 1
            }
        };
        changed.extend(old.keys().filter(|at| at.0 == file && span.contains(&at.1)));
    }
    snapshot(rig, &format!("{name}@s"));
    changed
}

/// The stream of `to`, redacted by bookmark `redact` of its dataset.
fn outgoing(
    rig: &Rig,
    to: &str,
    from: Option<&str>,
    redact: Option<&str>,
    at: Option<Resume>,
) -> errors::Result<Outgoing> {
    let tree = rig.tree();
    let base = from.map(|name| match tree.entry(name).unwrap() {
        Entry::Dataset(dataset) => Base::Snapshot(dataset),
        Entry::Bookmark(mark) => Base::Bookmark(mark),
    });
    let to = tree.dataset(to)?;
    let head = tree.head(to.dir())?;
    let redact = redact.map(|name| head.bookmark(name)).transpose()?;
    Outgoing::redacted(&to, base.as_ref(), rig.live.keys(), Options::default(), at, redact.as_ref())
}

fn send(rig: &Rig, to: &str, from: Option<&str>, redact: Option<&str>) -> Vec<u8> {
    let outgoing = outgoing(rig, to, from, redact, None).unwrap();
    let mut writer = Writer::new(Vec::new(), outgoing.endian());
    outgoing.run(&mut writer).unwrap();
    let stream = writer.into_inner();
    assert_eq!(outgoing.measure().unwrap(), stream.len() as u64);
    assert_eq!(outgoing.begin().features.contains(Features::REDACTED), redact.is_some());
    stream
}

fn redact_by(rig: &Rig, of: &str, mark: &str, by: &[&str]) -> Result<(), NotRedacted> {
    let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
    redact(&rig.live, of, mark, &by, &|| false)
}

/// Whether a state has exactly these blocks, except for those that it lacks.
fn has(rig: &Rig, state: &str, files: &[u64], model: &Model, lacks: &BTreeSet<At>) {
    let set = rig.tree().dataset(state).unwrap().objset(rig.live.keys()).unwrap();
    for file in files {
        let object = set.object(*file).unwrap();
        for block in 0..BLOCKS + 20 {
            let read = object.read_vec(block * BLOCK, BLOCK as usize).unwrap();
            let at = (*file, block);
            let expected = match model.get(&at).filter(|_| !lacks.contains(&at)) {
                Some(seed) => noise(*seed, BLOCK as usize),
                None => vec![0; BLOCK as usize],
            };
            assert!(read == expected, "{state}: block {block} of file {file}, redacted: {}", lacks.contains(&at));
        }
    }
}

fn refused<T>(result: Result<T, NotRedacted>) -> NotRedacted {
    result.err().expect("it is refused")
}

#[test]
fn a_redacted_stream_lacks_what_all_clones_changed_and_nothing_else() {
    for seed in 1..=4 {
        let (rig, mut chance) = (Rig::new(), Chance::new(seed));
        let (files, model) = base(&rig, 5);
        let names: Vec<String> = (0..1 + seed).map(|n| format!("tank/c{n}")).collect();
        let changed: Vec<_> = names.iter().map(|n| changed_clone(&rig, &mut chance, n, &files, &model)).collect();
        let lacks = changed.iter().skip(1).fold(changed[0].clone(), |all, next| &all & next);
        let by: Vec<String> = names.iter().map(|n| format!("{n}@s")).collect();
        redact(&rig.live, "tank/a@s", "mark", &by, &|| false).unwrap();
        rig.check();
        let stream = send(&rig, "tank/a@s", None, Some("mark"));
        take(&rig, &stream, "tank/r@s", false).unwrap();
        has(&rig, "tank/r@s", &files, &model, &lacks);
        assert_eq!(rig.get("tank/r", "redacted"), "1");
        let named: BTreeSet<String> = rig.get("tank/r@s", "redact_snaps").split(',').map(str::to_owned).collect();
        assert_eq!(named, by.iter().map(|name| rig.get(name, "guid")).collect());
        // A clone that redacts can be received on top of it, and is whole.
        take(&rig, &send(&rig, "tank/c0@s", Some("tank/a@s"), None), "tank/rc@s", false).unwrap();
        assert_eq!(rig.get("tank/rc", "redacted"), "0");
        let rig = rig.reopen();
        rig.check();
        if seed == 1 {
            rig.judge();
        }
        for name in ["tank/rc", "tank/r"] {
            write::destroy(&rig.live, name).ok();
        }
        write::destroy_bookmark(&rig.live, "tank/a#mark").unwrap();
        rig.check();
    }
}

#[test]
fn increments_from_a_redaction_bookmark_bring_what_it_lacks() {
    let rig = Rig::new();
    let (files, mut model) = base(&rig, 3);
    write::clone(&rig.live, "tank/a@s", "tank/c", &[]).unwrap();
    let (live, mut other) = (rig.open("tank/c"), model.clone());
    let mut lacks = BTreeSet::new();
    for block in [0, 1, 7, 20, 38, BLOCKS - 1] {
        put(&live, &mut other, (files[0], block), 77 + block);
        lacks.insert((files[0], block));
    }
    let tx = live.begin_freeing(BLOCK).unwrap();
    live.objset().free_object(&tx, files[1]).unwrap();
    drop(tx);
    lacks.extend((0..BLOCKS).map(|block| (files[1], block)));
    snapshot(&rig, "tank/c@s");
    redact_by(&rig, "tank/a@s", "mark", &["tank/c@s"]).unwrap();
    let full = send(&rig, "tank/a@s", None, Some("mark"));
    let whole = model.clone();
    // Of what is redacted, this changes some and deletes some.
    let a = rig.open("tank/a");
    put(&a, &mut model, (files[0], 7), 5007);
    punch(&a, &mut model, (files[0], 38), 1);
    put(&a, &mut model, (files[2], 3), 5003);
    let late = new(&a, BLOCK);
    put(&a, &mut model, (late, 0), 9);
    let tx = a.begin_freeing(BLOCK).unwrap();
    a.objset().free_object(&tx, files[1]).unwrap();
    drop(tx);
    model.retain(|at, _| at.0 != files[1]);
    snapshot(&rig, "tank/a@t");
    let rest = [files[0], files[2], late];

    // The same snapshot, without redaction.
    take(&rig, &full, "tank/same@s", false).unwrap();
    has(&rig, "tank/same@s", &files, &whole, &lacks);
    take(&rig, &send(&rig, "tank/a@s", Some("tank/a#mark"), None), "tank/same@whole", false).unwrap();
    has(&rig, "tank/same@whole", &files, &whole, &BTreeSet::new());
    assert_eq!((rig.get("tank/same@s", "redacted"), rig.get("tank/same", "redacted")), ("1".into(), "0".into()));
    // The next one.
    take(&rig, &full, "tank/next@s", false).unwrap();
    take(&rig, &send(&rig, "tank/a@t", Some("tank/a#mark"), None), "tank/next@t", false).unwrap();
    has(&rig, "tank/next@t", &rest, &model, &BTreeSet::new());
    // The next one, redacted too: only what both lists have stays away.
    write::clone(&rig.live, "tank/a@t", "tank/d", &[]).unwrap();
    let (d, mut other) = (rig.open("tank/d"), model.clone());
    for at in [(files[0], 0), (files[0], 7), (files[0], 12), (late, 0)] {
        put(&d, &mut other, at, 31);
    }
    snapshot(&rig, "tank/d@s");
    redact_by(&rig, "tank/a@t", "next", &["tank/d@s"]).unwrap();
    take(&rig, &full, "tank/both@s", false).unwrap();
    take(&rig, &send(&rig, "tank/a@t", Some("tank/a#mark"), Some("next")), "tank/both@t", false).unwrap();
    let lacks = BTreeSet::from([(files[0], 0), (files[0], 7), (files[0], 12), (late, 0)]);
    has(&rig, "tank/both@t", &rest, &model, &lacks);
    assert_eq!(rig.get("tank/both", "redact_snaps"), rig.get("tank/d@s", "guid"));
    rig.check();
    rig.judge();
}

#[test]
fn a_redacted_dataset_accepts_only_streams_that_fit() {
    let rig = Rig::new();
    let (files, model) = base(&rig, 1);
    for (clone, block) in [("b", 1), ("c", 2), ("d", 3), ("e", 4)] {
        let name = format!("tank/{clone}");
        write::clone(&rig.live, "tank/a@s", &name, &[]).unwrap();
        put(&rig.open(&name), &mut model.clone(), (files[0], block), 99);
        snapshot(&rig, &format!("{name}@s"));
    }
    redact_by(&rig, "tank/a@s", "bcd", &["tank/b@s", "tank/c@s", "tank/d@s"]).unwrap();
    redact_by(&rig, "tank/a@s", "bc", &["tank/b@s", "tank/c@s"]).unwrap();
    redact_by(&rig, "tank/a@s", "e", &["tank/e@s"]).unwrap();
    // Nothing can be redacted with respect to a clone that an intermediate one does not precede.
    write::clone(&rig.live, "tank/b@s", "tank/b2", &[]).unwrap();
    snapshot(&rig, "tank/b2@s");
    redact_by(&rig, "tank/b@s", "sub", &["tank/b2@s"]).unwrap();
    let refusal = refused(redact_by(&rig, "tank/b@s", "not", &["tank/c@s"]));
    assert!(matches!(refusal, NotRedacted::NotDescendant), "{refusal:?}");

    redact_by(&rig, "tank/a@s", "b2c", &["tank/b2@s", "tank/c@s"]).unwrap();
    take(&rig, &send(&rig, "tank/a@s", None, Some("bcd")), "tank/r@s", false).unwrap();
    take(&rig, &send(&rig, "tank/a@s", None, Some("b2c")), "tank/r2@s", false).unwrap();
    let mut count = 0;
    let mut fits_on = |onto: &str, to: &str, from: &str, redact: Option<&str>| {
        count += 1;
        let stream = send(&rig, to, Some(from), redact);
        let name = format!("tank/x{count}@s");
        let target = dataset::receive::Target { origin: Some(onto.to_owned()), ..target(&name, false) };
        match try_receive(&rig, &stream, &target) {
            Ok(_) => true,
            Err(Error::Invalid { what, .. }) if what == "invalid backup stream" => false,
            Err(error) => panic!("{error}"),
        }
    };
    // Redacted streams with respect to a part of the snapshots.
    assert!(fits_on("tank/r2@s", "tank/b@s", "tank/a@s", Some("sub")));
    assert!(!fits_on("tank/r@s", "tank/b@s", "tank/a@s", Some("sub")));
    let mut fits = |to: &str, from: &str, redact: Option<&str>| fits_on("tank/r@s", to, from, redact);
    // Snapshots that redact, and no others.
    assert!(fits("tank/b@s", "tank/a@s", None) && fits("tank/d@s", "tank/a@s", None));
    assert!(!fits("tank/e@s", "tank/a@s", None) && !fits("tank/b2@s", "tank/a@s", None));
    // From bookmarks that lack no more than the dataset does.
    assert!(fits("tank/e@s", "tank/a#bcd", None) && fits("tank/e@s", "tank/a#bc", None));
    assert!(!fits("tank/b@s", "tank/a#e", None));
    // Heads redact as well as snapshots.
    redact_by(&rig, "tank/b@s", "heads", &["tank/b2"]).unwrap();
    rig.check();
    rig.judge();
}

#[test]
fn an_interrupted_redaction_continues_where_it_was() {
    const SMALL: u64 = 512;
    const COUNT: u64 = 9000;
    let rig = Rig::new();
    rig.create("tank/a", &[]).unwrap();
    let live = rig.open("tank/a");
    let file = new(&live, SMALL);
    let object = live.objset().object(file).unwrap();
    let write_every = |live: &Arc<LiveDataset>, step: u64, seed: u64| {
        for at in (0..COUNT).step_by(step as usize) {
            let tx = live.begin(SMALL).unwrap();
            live.objset().object(file).unwrap().write_at(&tx, at * SMALL, &noise(seed + at, SMALL as usize)).unwrap();
        }
    };
    drop(object);
    write_every(&live, 1, 0);
    snapshot(&rig, "tank/a@s");
    for clone in ["tank/c", "tank/other"] {
        write::clone(&rig.live, "tank/a@s", clone, &[]).unwrap();
    }
    write_every(&rig.open("tank/c"), 2, 1 << 40);
    for name in ["tank/c@s", "tank/other@s"] {
        snapshot(&rig, name);
    }
    let by = ["tank/c@s".to_owned()];
    // It stops after the first block of the list, 4096 entries.
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) == 4200;
    let NotRedacted::Failed(error) = refused(redact(&rig.live, "tank/a@s", "mark", &by, &stop)) else {
        panic!("it fails")
    };
    assert_eq!(error.refusal(), Some(Refusal::Stale));
    let list =
        |rig: &Rig| rig.tree().dataset("tank/a").unwrap().bookmark("mark").unwrap().redaction_list().unwrap().unwrap();
    assert_eq!((list(&rig).entries, list(&rig).is_complete(), list(&rig).last_object), (4096, false, file));
    // A stream cannot be made with it.
    let half = outgoing(&rig, "tank/a@s", None, Some("mark"), None).unwrap();
    assert!(half.run(&mut Writer::new(Vec::new(), half.endian())).is_err());
    let rig = rig.reopen();
    rig.check();
    let refusal = refused(redact_by(&rig, "tank/a@s", "mark", &["tank/other@s"]));
    assert!(matches!(refusal, NotRedacted::OtherSnapshots), "{refusal:?}");
    redact(&rig.live, "tank/a@s", "mark", &by, &|| false).unwrap();
    redact(&rig.live, "tank/a@s", "again", &by, &|| false).unwrap();
    // Also the empty file of each file system: a hole without a birth txg may be new.
    assert_eq!((list(&rig).entries, list(&rig).is_complete()), (COUNT / 2 + 1, true));
    assert!(send(&rig, "tank/a@s", None, Some("mark")) == send(&rig, "tank/a@s", None, Some("again")));
    let refusal = refused(redact(&rig.live, "tank/a@s", "mark", &by, &|| false));
    assert!(matches!(refusal, NotRedacted::Exists), "{refusal:?}");
    rig.check();
    rig.judge();
}

#[test]
fn a_list_is_busy_while_it_is_made() {
    let rig = Rig::new();
    let (files, model) = base(&rig, 1);
    write::clone(&rig.live, "tank/a@s", "tank/c", &[]).unwrap();
    put(&rig.open("tank/c"), &mut model.clone(), (files[0], 3), 1);
    snapshot(&rig, "tank/c@s");
    let by = ["tank/c@s".to_owned()];
    let during = || {
        let destroyed = write::destroy_bookmark(&rig.live, "tank/a#mark").unwrap_err();
        assert_eq!(destroyed.refusal(), Some(Refusal::Busy));
        let NotRedacted::Failed(error) = refused(redact(&rig.live, "tank/a@s", "mark", &by, &|| false)) else {
            panic!("it is being made")
        };
        assert_eq!(error.refusal(), Some(Refusal::Busy));
        false
    };
    redact(&rig.live, "tank/a@s", "mark", &by, &during).unwrap();
    write::destroy_bookmark(&rig.live, "tank/a#mark").unwrap();
    rig.check();
}

#[test]
fn many_redaction_snapshots_are_in_a_spill_block() {
    let rig = Rig::new();
    let (files, model) = base(&rig, 1);
    let by: Vec<String> = (0..40).map(|n| format!("tank/c{n}@s")).collect();
    for (n, name) in (0..).zip(&by) {
        let (clone, _) = name.split_once('@').unwrap();
        write::clone(&rig.live, "tank/a@s", clone, &[]).unwrap();
        let live = rig.open(clone);
        put(&live, &mut model.clone(), (files[0], n % BLOCKS), 1 + n);
        put(&live, &mut model.clone(), (files[0], 5), 50 + n);
        rig.live.close(&live).unwrap();
        snapshot(&rig, name);
    }
    redact(&rig.live, "tank/a@s", "mark", &by, &|| false).unwrap();
    let rig = rig.reopen();
    let mark = rig.tree().dataset("tank/a").unwrap().bookmark("mark").unwrap();
    assert_eq!(mark.redaction_list().unwrap().unwrap().snaps.len(), 40);
    take(&rig, &send(&rig, "tank/a@s", None, Some("mark")), "tank/r@s", false).unwrap();
    has(&rig, "tank/r@s", &files, &model, &BTreeSet::from([(files[0], 5)]));
    rig.check();
    rig.judge();
    write::destroy_bookmark(&rig.live, "tank/a#mark").unwrap();
    rig.check();
    rig.judge();
}

#[test]
fn a_redacted_stream_resumes_after_an_interruption() {
    let rig = Rig::new();
    let (files, model) = base(&rig, 4);
    write::clone(&rig.live, "tank/a@s", "tank/c", &[]).unwrap();
    let (live, mut other) = (rig.open("tank/c"), model.clone());
    let mut lacks = BTreeSet::new();
    for at in files.iter().flat_map(|file| (0..BLOCKS).step_by(3).map(move |block| (*file, block))) {
        put(&live, &mut other, at, 1);
        lacks.insert(at);
    }
    snapshot(&rig, "tank/c@s");
    redact_by(&rig, "tank/a@s", "mark", &["tank/c@s"]).unwrap();
    let stream = send(&rig, "tank/a@s", None, Some("mark"));
    let resumable = dataset::receive::Target { resumable: true, ..target("tank/r@s", false) };
    try_receive(&rig, &stream[..stream.len() * 2 / 3], &resumable).unwrap_err();
    let token = dataset::resume::token(&rig.tree().dataset("tank/r").unwrap()).unwrap().unwrap();
    let state = dataset::resume::parse(&token).unwrap();
    assert!(state.contains("redact_snaps"));
    let number = |name: &str| state.get_u64(name).unwrap();
    let at = Resume { object: number("object"), offset: number("offset") };
    let rest = outgoing(&rig, "tank/a@s", None, Some("mark"), Some(at)).unwrap();
    let mut writer = Writer::new(Vec::new(), rest.endian());
    rest.run(&mut writer).unwrap();
    let rest = writer.into_inner();
    assert!(rest.len() < stream.len() / 2, "{} of {} bytes", rest.len(), stream.len());
    try_receive(&rig, &rest, &resumable).unwrap();
    has(&rig, "tank/r@s", &files, &model, &lacks);
    rig.check();
    rig.judge();
}

#[test]
fn a_bookmark_of_a_redacted_snapshot_says_so() {
    let rig = Rig::new();
    let (files, model) = base(&rig, 1);
    write::clone(&rig.live, "tank/a@s", "tank/c", &[]).unwrap();
    put(&rig.open("tank/c"), &mut model.clone(), (files[0], 3), 1);
    snapshot(&rig, "tank/c@s");
    redact_by(&rig, "tank/a@s", "mark", &["tank/c@s"]).unwrap();
    take(&rig, &send(&rig, "tank/a@s", None, Some("mark")), "tank/r@s", false).unwrap();
    let pair = |source: &str, name: &str| [(source.to_owned(), name.to_owned())];
    write::bookmark(&rig.live, &pair("tank/r@s", "tank/r#mark")).unwrap();
    let guid = rig.get("tank/c@s", "guid");
    assert_eq!(rig.get("tank/r#mark", "redact_snaps"), guid);
    // A copy of a redaction bookmark is a plain one.
    write::bookmark(&rig.live, &pair("tank/a#mark", "tank/a#copy")).unwrap();
    assert_eq!(rig.get("tank/a#copy", "redact_snaps"), "-");
    // What is redacted, or redacts nothing of its own, is not redacted again.
    write::clone(&rig.live, "tank/r@s", "tank/rc", &[]).unwrap();
    snapshot(&rig, "tank/rc@s");
    let refusal = refused(redact_by(&rig, "tank/r@s", "more", &["tank/rc@s"]));
    assert!(matches!(refusal, NotRedacted::Redacted), "{refusal:?}");
    // Sent with its bookmark it stays redacted.
    let stream = send(&rig, "tank/r@s", None, Some("mark"));
    assert!(!records(&stream).iter().any(|body| matches!(body, Body::Redact { .. })));
    take(&rig, &stream, "tank/again@s", false).unwrap();
    assert_eq!(rig.get("tank/again", "redact_snaps"), guid);
    rig.check();
    rig.judge();
    write::destroy_bookmark(&rig.live, "tank/r#mark").unwrap();
    for name in ["tank/rc@s", "tank/again@s", "tank/a@s"] {
        let _ = write::destroy_snapshots(&rig.live, &[name.to_owned()], false);
    }
    rig.check();
}

fn records(stream: &[u8]) -> Vec<Body> {
    let mut checked = dataset::receive::VerifyingReader::new(stream);
    std::iter::from_fn(|| checked.next_record().unwrap().map(|packet| packet.record.body)).collect()
}
