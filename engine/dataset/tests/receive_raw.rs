//! Raw streams: an encrypted dataset that was received without its key equals what was sent once
//! the key is loaded.
//!
//! Reading everything with the key checks every MAC up to the root block's portable one, so it
//! detects a tree of another shape, a dnode with another bonus, or a hole in another place.

use crate::common;
use crate::common::streams::{send, send_from, take, target};
use crate::common::{Rig, layout};
use dataset::receive::{Target, VerifyingReader, receive};
use dataset::send::{Base, Options, Outgoing, Resume};
use dataset::stream::Writer;
use dataset::write::{self, KeyChange, NewKey};
use dataset::{Dataset, Datasets, KeyStore, LiveDataset};
use errors::Error;
use object::{NewObject, ObjectSet};
use ondisk::ObjectType;
use ondisk::send_record::{Body, Features};
use pool::{OpenOptions, Pool, search};
use rig::{Chance, noise};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use transform::crypt::KeyFormat;
use zeroize::Zeroizing;

const RAW: Options = Options { large_blocks: true, embedded: true, compressed: true, raw: true };
const KEY: &str = "correct horse battery";

fn refused(rig: &Rig, stream: &[u8], to: &str, force: bool) -> String {
    take(rig, stream, to, force).unwrap_err().to_string()
}

/// By object: bonus, spill block, blocks by number.
type Contents = BTreeMap<u64, (Vec<u8>, Option<Vec<u8>>, BTreeMap<u64, Vec<u8>>)>;

/// All contents of an object set, by object: the bonus, spill block and blocks. Reading them checks
/// the MACs.
fn contents(set: &Arc<ObjectSet>) -> Contents {
    let (mut all, mut at) = (BTreeMap::new(), 0);
    while let Some(id) = set.next_object(at).unwrap() {
        at = id;
        let object = set.object(id).unwrap();
        let mut blocks = BTreeMap::new();
        let mut offset = 0;
        while let Some(data) = object.next_data(offset).unwrap() {
            let blkid = data / object.block_bytes();
            blocks.insert(blkid, object.block(blkid).unwrap().map_or_else(Vec::new, |block| block.data.to_vec()));
            offset = (blkid + 1) * object.block_bytes();
        }
        let spill = object.spill().unwrap().map(|spill| spill.data.to_vec());
        all.insert(id, (object.bonus().to_vec(), spill, blocks));
    }
    all
}

/// The same for a dataset, including its root block's MACs, with a key that is loaded for this.
fn opened(dataset: &Dataset, key: &[u8]) -> Contents {
    let keys = KeyStore::new();
    keys.load(dataset, key).unwrap_or_else(|e| panic!("{}: {e}", dataset.name()));
    contents(&dataset.objset(&keys).unwrap())
}

/// A pool written by the kernel module, sent raw (tests/send.rs: byte for byte as the module sends
/// it), is received intact.
#[test]
fn data_encrypted_by_the_kernel_opens_with_its_key() {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: WEIR_FIXTURES is not set");
        return;
    };
    let found = search(&[folder.join("encrypted")]);
    let Some(found) = found.pools.first() else {
        println!("skipped: there is no pool encrypted");
        return;
    };
    let tree = Datasets::open(Pool::open(found, &OpenOptions::default()).unwrap()).unwrap();
    for raidz in [false, true] {
        let rig = Rig::with(layout(raidz), &[], None);
        for (from, to) in
            [("te/gcm@s", "tank/gcm@s"), ("te/gcm/child@s", "tank/child@x"), ("te/ccm@s", "tank/gcm/ccm@s")]
        {
            let stream = send(&tree, from, None, RAW);
            take(&rig, &stream, to, false).unwrap();
            assert_eq!(rig.get(to, "ivsetguid"), {
                let entry = tree.entry(from).unwrap();
                let view = dataset::View::default();
                dataset::property::get(&entry, "ivsetguid", &view).unwrap().map_or("-".into(), |p| p.value.raw)
            });
            let head = to.split('@').next().unwrap();
            assert_eq!((rig.get(head, "encryptionroot"), rig.get(head, "keylocation")), (head.into(), "prompt".into()));
            // Without a key it is sent on as it was received.
            let again = send(&rig.tree(), to, None, RAW);
            let (sent, comes) = (bodies(&stream), bodies(&again));
            assert_eq!(sent.len(), comes.len(), "{from}");
            sent.iter().zip(&comes).for_each(|(a, b)| assert_eq!(a, b, "{from}"));
            let (sent, received) = (tree.dataset(from).unwrap(), rig.tree().dataset(to).unwrap());
            if from != "te/ccm@s" {
                assert!(opened(&sent, b"correct horse 1\n") == opened(&received, b"correct horse 1\n"), "{from}");
            }
            rig.check();
        }
        rig.judge();
        // Opened for writing with the key, it is a dataset like any other.
        rig.live.keys().load(&rig.tree().dataset("tank/gcm").unwrap(), b"correct horse 1\n").unwrap();
        let head = rig.open("tank/gcm");
        let tx = head.begin(1 << 20).unwrap();
        let file = common::new_file(head.objset(), &tx, 7).unwrap();
        head.objset().object(file).unwrap().write_at(&tx, 0, &noise(1, 300_000)).unwrap();
        drop(tx);
        rig.live.close(&head).unwrap();
        let rig = rig.reopen();
        let kept = opened(&rig.tree().dataset("tank/gcm").unwrap(), b"correct horse 1\n");
        assert_eq!(kept[&file].2.len(), 3);
        rig.judge();
    }
}

/// The records, without names and checksums.
fn bodies(stream: &[u8]) -> Vec<(Body, Vec<u8>)> {
    let (mut checked, mut all) = (VerifyingReader::new(stream), Vec::new());
    while let Some(packet) = checked.next_record().unwrap() {
        match packet.record.body {
            Body::Begin(begin) => {
                all.push((Body::Begin(ondisk::send_record::Begin { to_name: Vec::new(), ..begin }), vec![]))
            }
            Body::End { to_guid, .. } => all.push((Body::End { checksum: [0; 4], to_guid }, vec![])),
            // The checksummed data is the same, but the kind of checksum is not.
            Body::Write(write) => {
                let key = ondisk::ddt::Key { checksum: [0; 4], prop: 0 };
                let write = ondisk::send_record::WriteRecord { key, checksum_type: 0, ..write };
                all.push((Body::Write(write), packet.payload));
            }
            body => all.push((body, packet.payload)),
        }
    }
    all
}

fn encrypted(rig: &Rig, name: &str, properties: &[(&str, &str)]) {
    let all =
        [&[("encryption", "on"), ("keyformat", "passphrase"), ("pbkdf2iters", "100000")][..], properties].concat();
    let new = write::NewDataset {
        name: name.into(),
        properties: common::owned(&all),
        key: Some(Zeroizing::new(KEY.as_bytes().to_vec())),
        ..write::NewDataset::default()
    };
    write::create(&rig.live, &new, common::MAKER).unwrap();
}

fn new_key(phrase: &str) -> KeyChange {
    KeyChange::New(NewKey {
        format: KeyFormat::Passphrase,
        location: "prompt".into(),
        iterations: Some(100_000),
        material: Zeroizing::new(phrase.as_bytes().to_vec()),
    })
}

/// Changes that produce trees of every shape: files that grow over levels, are truncated, get
/// holes, are freed and recreated with other sizes.
fn change(head: &Arc<LiveDataset>, files: &mut Vec<u64>, chance: &mut Chance) {
    for _ in 0..chance.below(12) + 1 {
        let set = head.objset();
        let tx = head.begin(4 << 20).unwrap();
        let seed = chance.below(1 << 40);
        match chance.below(9) {
            0 | 1 => {
                let sizes = [512, 1536, 4096, 16 << 10, 128 << 10];
                let mut new = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, sizes[chance.below(5) as usize])
                    .with_bonus(ObjectType::SA, noise(seed | 1, 100 + chance.below(200) as usize));
                new.slots = [1, 1, 1, 2, 4][chance.below(5) as usize];
                new.indirect_shift = [17, 17, 14][chance.below(3) as usize];
                files.push(set.create_object(&tx, &new).unwrap().id());
            }
            2 if files.len() > 2 => {
                let id = files.swap_remove(chance.below(files.len() as u64) as usize);
                set.free_object(&tx, id).unwrap();
            }
            _ if files.is_empty() => {}
            3 => {
                let object = set.object(files[chance.below(files.len() as u64) as usize]).unwrap();
                let spill = (chance.below(3) > 0).then(|| noise(seed, 512 << chance.below(4)));
                // Not every bonus leaves room for one.
                let _ = object.set_spill(&tx, spill);
            }
            4 => {
                let object = set.object(files[chance.below(files.len() as u64) as usize]).unwrap();
                let from = chance.below(object.max_block_id() + 2) * object.block_bytes();
                let len = if chance.below(2) == 0 { u64::MAX } else { chance.below(40) * object.block_bytes() };
                object.punch(&tx, from, len).unwrap();
            }
            _ => {
                let object = set.object(files[chance.below(files.len() as u64) as usize]).unwrap();
                let size = object.block_bytes();
                // One block only, where more could not be.
                let last = if size.is_power_of_two() { [1, 8, 300, 40_000][chance.below(4) as usize] } else { 1 };
                let data = match chance.below(3) {
                    0 => vec![seed as u8 | 1; size as usize],
                    1 => vec![0; size as usize],
                    _ => noise(seed, size as usize),
                };
                object.write_at(&tx, chance.below(last) * size, &data).unwrap();
            }
        }
        drop(tx);
        if chance.below(4) == 0 {
            head.sync().unwrap();
        }
    }
    head.sync().unwrap();
}

fn snapshot(rig: &Rig, name: &str) {
    write::snapshot(&rig.live, &[name.to_owned()], &[]).unwrap();
}

/// A to B, with increments, also from bookmarks, with the key changed on the way; then back from B,
/// where writing continued, to A. OpenZFS #12594: "Raw send on encrypted datasets does not work
/// when copying snapshots back".
fn round_trip(seed: u64, rounds: u64) {
    let mut chance = Chance::new(seed);
    let (a, b) =
        (Rig::new(), Rig::with(layout(seed % 2 == 1), &[("compression", "zstd"), ("checksum", "sha256")], None));
    encrypted(&a, "tank/e", &[("compression", "lz4")]);
    let (mut files, mut key) = (Vec::new(), KEY.to_owned());
    let head = a.open("tank/e");
    change(&head, &mut files, &mut chance);
    snapshot(&a, "tank/e@s0");
    take(&b, &send(&a.tree(), "tank/e@s0", None, RAW), "tank/e@s0", false).unwrap();
    let same = |a: &Rig, b: &Rig, name: &str, key: &str, round: u64| {
        // The snapshot's own key object is that of its head, which the last stream wrapped.
        let (sent, received) = (a.tree().dataset(name).unwrap(), b.tree().dataset(name).unwrap());
        assert_eq!(sent.phys().guid, received.phys().guid);
        assert!(
            opened(&sent, key.as_bytes()) == opened(&received, key.as_bytes()),
            "seed {seed} round {round}: {name}"
        );
    };
    same(&a, &b, "tank/e@s0", &key, 0);
    for round in 1..=rounds {
        change(&head, &mut files, &mut chance);
        if chance.below(3) == 0 {
            key = format!("another phrase {round}");
            write::change_key(&a.live, "tank/e", new_key(&key)).unwrap();
        }
        let (now, before) = (format!("tank/e@s{round}"), format!("tank/e@s{}", round - 1));
        snapshot(&a, &now);
        let from = match chance.below(2) {
            0 => before.clone(),
            _ => {
                write::bookmark(&a.live, &[(before.clone(), before.replace('@', "#"))]).unwrap();
                before.replace('@', "#")
            }
        };
        take(&b, &send(&a.tree(), &now, Some(&from), RAW), &now, false).unwrap();
        same(&a, &b, &now, &key, round);
        same(&a, &b, "tank/e@s0", &key, round);
        b.check();
    }
    b.judge();
    // B continues, with the key, and sends back.
    let b = b.reopen();
    b.live.keys().load(&b.tree().dataset("tank/e").unwrap(), key.as_bytes()).unwrap();
    let other = b.open("tank/e");
    change(&other, &mut files, &mut chance);
    snapshot(&b, "tank/e@back");
    a.live.close(&head).unwrap();
    let stream = send(&b.tree(), "tank/e@back", Some(&format!("tank/e@s{rounds}")), RAW);
    take(&a, &stream, "tank/e@back", true).unwrap();
    same(&b, &a, "tank/e@back", &key, rounds + 1);
    a.check();
    // A, mounted again, writes; a wrong MAC of the accounting objects would show here.
    let head = a.open("tank/e");
    change(&head, &mut files, &mut chance);
    snapshot(&a, "tank/e@last");
    a.live.close(&head).unwrap();
    b.live.close(&other).unwrap();
    take(&b, &send(&a.tree(), "tank/e@last", Some("tank/e@back"), RAW), "tank/e@last", false).unwrap();
    same(&a, &b, "tank/e@last", &key, rounds + 2);
    a.judge();
    b.judge();
}

#[test]
fn there_and_back_again_with_another_key() {
    for seed in 1..=2 {
        round_trip(seed, 4);
    }
}

/// Reports when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Snapshots are taken, sent raw and plain and destroyed while the file system is written to:
/// OpenZFS #12014, where reading the received data found errors that a scrub did not. The dataset's
/// keys change meanwhile.
#[test]
fn snapshots_created_and_destroyed_during_sends_stay_whole() {
    const ROUNDS: u64 = 6;
    let (a, b) = (Rig::new(), Rig::with(layout(true), &[], None));
    encrypted(&a, "tank/e", &[("compression", "lz4")]);
    let head = a.open("tank/e");
    let (done, steps) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut key = KEY.to_owned();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut files, mut chance) = (Vec::new(), Chance::new(12014));
            while !done.load(Ordering::Relaxed) {
                change(&head, &mut files, &mut chance);
                steps.fetch_add(1, Ordering::Relaxed);
            }
        });
        // The writer also ends if an assertion here fails.
        let _ends = Ends(&done);
        for round in 0..ROUNDS {
            let seen = steps.load(Ordering::Relaxed);
            let start = Instant::now();
            while steps.load(Ordering::Relaxed) == seen && start.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            let now = format!("tank/e@s{round}");
            let before = round.checked_sub(1).map(|before| format!("tank/e@s{before}"));
            snapshot(&a, &now);
            // Like a sender next to a server: what its view of the pool names stays.
            let kept = a.live.writer().allocator().keep_freed();
            let tree = a.tree();
            let raw = send(&tree, &now, before.as_deref(), RAW);
            let base = before.as_deref().map(|name| Base::Snapshot(tree.dataset(name).unwrap()));
            let plain = send_from(&tree, &now, base.as_ref(), Options::default(), a.live.keys());
            drop(kept);
            take(&b, &raw, &now, false).unwrap();
            take(&b, &plain, &now.replace("/e@", "/plain@"), false).unwrap();
            if round % 4 == 3 {
                key = format!("another phrase {round}");
                write::change_key(&a.live, "tank/e", new_key(&key)).unwrap();
            }
            for (rig, name) in before.iter().flat_map(|name| [(&a, name.clone()), (&b, name.clone())]) {
                write::destroy_snapshots(&rig.live, &[name], false).unwrap();
            }
            let sent = a.tree().dataset(&now).unwrap().objset(a.live.keys()).unwrap();
            let copy = b.tree().dataset(&now.replace("/e@", "/plain@")).unwrap().objset(&KeyStore::new()).unwrap();
            assert!(contents(&sent) == contents(&copy), "round {round}");
        }
    });
    a.live.close(&head).unwrap();
    let last = format!("tank/e@s{}", ROUNDS - 1);
    snapshot(&a, "tank/e@last");
    take(&b, &send(&a.tree(), "tank/e@last", Some(&last), RAW), "tank/e@last", false).unwrap();
    let (sent, received) = (a.tree().dataset("tank/e@last").unwrap(), b.tree().dataset("tank/e@last").unwrap());
    assert!(opened(&sent, key.as_bytes()) == opened(&received, key.as_bytes()));
    a.check();
    b.check();
    a.judge();
    b.judge();
}

#[test]
fn an_increment_without_its_base_is_refused() {
    let (a, b) = (Rig::new(), Rig::new());
    encrypted(&a, "tank/e", &[]);
    b.create("tank/plain", &[]).unwrap();
    for name in ["tank/e@1", "tank/e@2", "tank/e@3"] {
        let head = a.open("tank/e");
        change(&head, &mut Vec::new(), &mut Chance::new(77));
        a.live.close(&head).unwrap();
        snapshot(&a, name);
    }
    let full = send(&a.tree(), "tank/e@1", None, RAW);
    let (second, third) =
        (send(&a.tree(), "tank/e@2", Some("tank/e@1"), RAW), send(&a.tree(), "tank/e@3", Some("tank/e@2"), RAW));
    let clear = refused(&b, &full, "tank/plain@1", true);
    assert!(clear.contains("zfs receive -F cannot be used to destroy an encrypted filesystem"), "{clear}");
    take(&b, &full, "tank/e@1", false).unwrap();
    assert!(
        refused(&b, &third, "tank/e@3", false)
            .contains("most recent snapshot of tank/e does not\nmatch incremental source")
    );
    // A snapshot in between has other IVs, even if nothing changed.
    snapshot(&b, "tank/e@own");
    assert!(refused(&b, &second, "tank/e@2", false).contains("has been modified\nsince most recent snapshot"));
    take(&b, &second, "tank/e@2", true).unwrap();
    // The same snapshot, received with the key and not raw, has other IVs.
    let keys = b.live.keys().clone();
    let c = Rig::new();
    encrypted(&c, "tank/e", &[]);
    drop(keys);
    let plain = {
        let dataset = a.tree().dataset("tank/e@1").unwrap();
        let outgoing = Outgoing::new(&dataset, None, a.live.keys(), Options::default(), None).unwrap();
        let mut writer = Writer::new(Vec::new(), outgoing.endian());
        outgoing.run(&mut writer).unwrap();
        writer.into_inner()
    };
    take(&c, &plain, "tank/e/copy@1", false).unwrap();
    let wrong = refused(&c, &second, "tank/e/copy@2", false);
    assert!(wrong.contains("encryption key does not match existing key"), "{wrong}");
    // Streams that lack required fields.
    let mut checked = VerifyingReader::new(&full[..]);
    let first = checked.next_record().unwrap().unwrap();
    let Body::Begin(begin) = &first.record.body else { panic!("no BEGIN") };
    assert!(begin.features.contains(Features::RAW));
    for at in (0..full.len()).step_by(full.len() / 25) {
        let mut bytes = full.clone();
        bytes[at] ^= 0x10;
        let error = take(&b, &bytes, "tank/new@s", false).unwrap_err();
        assert!(!matches!(error, Error::Refused { .. }), "byte {at}: {error}");
        assert!(b.tree().dataset("tank/new").is_err(), "byte {at}");
    }
    b.check();
    b.judge();
}

/// A raw receive that is interrupted resumes, full and incremental, at any position, and ends with
/// what was sent.
#[test]
fn an_interrupted_raw_receive_resumes() {
    let (a, b) = (Rig::new(), Rig::new());
    encrypted(&a, "tank/e", &[("compression", "lz4")]);
    let (mut files, mut chance) = (Vec::new(), Chance::new(4711));
    for name in ["tank/e@1", "tank/e@2"] {
        let head = a.open("tank/e");
        (0..6).for_each(|_| change(&head, &mut files, &mut chance));
        a.live.close(&head).unwrap();
        snapshot(&a, name);
    }
    let resumable = |stream: &[u8], to: &str| {
        let mut checked = VerifyingReader::new(stream);
        let first = checked.next_record()?.expect("a stream begins with a record");
        receive(&b.live, &mut checked, &first, &Target { resumable: true, ..target(to, false) })
    };
    for (name, from) in [("tank/e@1", None), ("tank/e@2", Some("tank/e@1"))] {
        let mut stream = send(&a.tree(), name, from, RAW);
        for parts in [2, 3, 5, 2] {
            resumable(&stream[..stream.len() / parts], name).unwrap_err();
            let token = dataset::resume::token(&b.tree().dataset("tank/e").unwrap()).unwrap().expect("a token");
            let state = dataset::resume::parse(&token).unwrap();
            assert!(state.contains("rawok"), "{token}");
            let number = |name: &str| state.get_u64(name).unwrap();
            let at = Some(Resume { object: number("object"), offset: number("offset") });
            let tree = a.tree();
            let base = from.map(|name| Base::Snapshot(tree.dataset(name).unwrap()));
            let outgoing =
                Outgoing::new(&tree.dataset(name).unwrap(), base.as_ref(), &KeyStore::new(), RAW, at).unwrap();
            let mut writer = Writer::new(Vec::new(), outgoing.endian());
            outgoing.run(&mut writer).unwrap();
            stream = writer.into_inner();
        }
        resumable(&stream, name).unwrap();
        let (sent, received) = (a.tree().dataset(name).unwrap(), b.tree().dataset(name).unwrap());
        assert!(opened(&sent, KEY.as_bytes()) == opened(&received, KEY.as_bytes()), "{name}");
        b.check();
    }
    b.judge();
}
