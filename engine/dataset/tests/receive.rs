//! Received streams become what was sent.
//!
//! `WEIR_FIXTURES` is a directory with the unpacked devices as SCENARIO/DEVICE. Streams of the pool
//! `history` are byte for byte those of the kernel module (tests/send.rs checks this); received
//! into a pool in memory and sent again, the stream must be the same.

use crate::common;
use crate::common::streams::{send, take, target, try_receive};
use crate::common::{Rig, owners_of};
use dataset::property::Value;
use dataset::receive::{Target, VerifyingReader, receive};
use dataset::send::{Base, Options, Outgoing, Resume};
use dataset::stream::Writer;
use dataset::write::ReceivedProperties;
use dataset::{Datasets, KeyStore, write};
use ondisk::ddt::Key;
use ondisk::send_record::{Begin, Body, Crypt, Record, WriteRecord};
use ondisk::{Endian, ObjectType};
use pool::{OpenOptions, Pool, search};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use transform::compress::{Algorithm, compress, decompress, zstd};

const LEC: Options = Options { large_blocks: true, embedded: true, compressed: true, raw: false };

fn history() -> Option<Arc<Datasets>> {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: WEIR_FIXTURES is not set");
        return None;
    };
    let found = search(&[folder.join("history")]);
    let Some(found) = found.pools.first() else {
        println!("skipped: there is no pool history");
        return None;
    };
    Some(Datasets::open(Pool::open(found, &OpenOptions::default()).unwrap()).unwrap())
}

/// The records, without the fields that identify their pool and name.
fn records(stream: &[u8]) -> Vec<(Body, Vec<u8>)> {
    let (mut checked, mut all) = (VerifyingReader::new(stream), Vec::new());
    while let Some(packet) = checked.next_record().unwrap() {
        let Record { body, .. } = packet.record;
        let body = match body {
            Body::Begin(begin) => Body::Begin(Begin { to_name: Vec::new(), ..begin }),
            Body::End { to_guid, .. } => Body::End { checksum: [0; 4], to_guid },
            // The block's checksum depends on how it is compressed on each side.
            Body::Write(write) => {
                let key = Key { checksum: [0; 4], prop: 0 };
                Body::Write(WriteRecord { checksum_type: 0, flags: 0, key, ..write })
            }
            other => other,
        };
        all.push((body, packet.payload));
    }
    all
}

fn compare(name: &str, ours: &[u8], theirs: &[u8]) {
    let (ours, theirs) = (records(ours), records(theirs));
    for (i, (mine, kernels)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(mine.0, kernels.0, "{name}: record {i}");
        assert!(mine.1 == kernels.1, "{name}: what follows record {i}, {:?}", mine.0);
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
}

#[test]
fn full_streams_come_back_as_they_were() {
    let Some(tree) = history() else { return };
    let rig = Rig::new();
    for (i, (from, options)) in [
        ("th/prom@s1", Options::default()),
        ("th/prom@s4", LEC),
        ("th/fs@s5", Options::default()),
        ("th/vol@v1", Options::default()),
        ("th/vol@v1", LEC),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = send(&tree, from, None, options);
        let to = format!("tank/r{i}@here");
        take(&rig, &stream, &to, false).unwrap();
        let plain = send(&tree, from, None, Options::default());
        compare(from, &send(&rig.tree(), &to, None, Options::default()), &plain);
        let (sent, received) = (tree.dataset(from).unwrap(), rig.tree().dataset(&to).unwrap());
        assert_eq!(received.phys().guid, sent.phys().guid);
        assert_eq!(received.phys().creation_time, sent.phys().creation_time);
        rig.check();
    }
    rig.judge();
    let rig = rig.reopen();
    rig.check();
    assert_eq!(rig.get("tank/r0", "inconsistent"), "0");
}

/// The stream as a big-endian host would have written it. System attributes record their own byte
/// order, so they may stay as they are: the file system came to that host from a little-endian one.
fn turned(stream: &[u8]) -> Vec<u8> {
    let (mut checked, mut writer) = (VerifyingReader::new(stream), Writer::new(Vec::new(), Endian::Big));
    let mut types = BTreeMap::new();
    while let Some(packet) = checked.next_record().unwrap() {
        let (mut body, mut payload) = (packet.record.body, packet.payload);
        let is_zap =
            |object| ![ObjectType::PLAIN_FILE_CONTENTS, ObjectType::ZVOL, ObjectType::FUID].contains(&types[object]);
        match &body {
            Body::End { to_guid, .. } => {
                writer.end(*to_guid).unwrap();
                continue;
            }
            Body::Object(object) => {
                types.insert(object.object, ObjectType(object.object_type as u8));
                if ObjectType(object.bonus_type as u8) == ObjectType::FUID_SIZE {
                    payload.reverse();
                }
            }
            Body::Write(write) if is_zap(&write.object) => {
                let mut data = turned_zap(write.compression, &payload, write.logical_bytes);
                let room = payload.len();
                let packed = Algorithm::from_number(write.compression)
                    .and_then(|algorithm| compress(algorithm, zstd::Level::DEFAULT, &data, room));
                if let Some(mut packed) = packed {
                    packed.resize(room, 0);
                    payload = packed;
                } else {
                    body = Body::Write(WriteRecord { compression: 0, compressed_bytes: 0, ..*write });
                    payload = std::mem::take(&mut data);
                }
            }
            Body::WriteEmbedded(write) if is_zap(&write.object) => {
                payload = turned_zap(write.compression, &payload, write.logical_bytes.into());
                body = Body::Write(WriteRecord {
                    object: write.object,
                    object_type: u32::from(types[&write.object].0),
                    offset: write.offset,
                    logical_bytes: write.length,
                    to_guid: write.to_guid,
                    checksum_type: 0,
                    flags: 0,
                    compression: 0,
                    key: Key { checksum: [0; 4], prop: 0 },
                    compressed_bytes: 0,
                    crypt: Crypt::default(),
                });
            }
            _ => {}
        }
        writer.record(body, &payload).unwrap();
    }
    writer.into_inner()
}

/// An uncompressed block of a ZAP, big-endian.
fn turned_zap(compression: u8, payload: &[u8], bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    match Algorithm::from_number(compression) {
        Some(algorithm) => decompress(algorithm, payload, &mut data).unwrap(),
        None => data.copy_from_slice(payload),
    }
    if data.iter().any(|&b| b != 0) {
        ondisk::zap::swap::turn(&mut data, Endian::Little).unwrap();
    }
    data
}

#[test]
fn streams_of_big_endian_hosts_are_received() {
    let Some(tree) = history() else { return };
    let rig = Rig::new();
    let from = [
        ("th/prom@s1", Options::default(), None),
        ("th/prom@s4", Options::default(), Some("th/prom@s1")),
        ("th/vol@v1", Options::default(), None),
        ("th/fs@s5", LEC, None),
    ];
    for (i, (sent, options, base)) in from.into_iter().enumerate() {
        let stream = turned(&send(&tree, sent, base, options));
        let to = match base {
            Some(_) => format!("tank/r{}@there", i - 1),
            None => format!("tank/r{i}@here"),
        };
        take(&rig, &stream, &to, false).unwrap();
        let plain = |tree: &Arc<Datasets>, name: &str| send(tree, name, None, Options::default());
        compare(sent, &plain(&rig.tree(), &to), &plain(&tree, sent));
        rig.check();
    }
    rig.judge();
    rig.reopen().check();
}

#[test]
fn a_flipped_bit_leaves_no_dataset() {
    let Some(tree) = history() else { return };
    let whole = send(&tree, "th/vol@v1", None, Options::default());
    let rig = Rig::new();
    let names = |rig: &Rig| -> Vec<String> {
        let list = rig.tree().list(&[], &dataset::ListOptions::all()).unwrap();
        list.entries.iter().map(|e| e.name().to_owned()).collect()
    };
    let before = names(&rig);
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let error = take(&rig, &bytes, "tank/new@s", false).unwrap_err().to_string();
        assert!(error.contains("record ") || error.contains("drr_magic"), "byte {at}: {error}");
        assert!(take(&rig, &whole[..at], "tank/new@s", false).is_err(), "cut at {at}");
        assert_eq!(names(&rig), before, "byte {at}");
    }
    rig.check();
    rig.judge();
}

#[test]
fn increments_are_received_on_their_base() {
    let Some(tree) = history() else { return };
    let rig = Rig::new();
    let plain = Options::default();
    let inc = |from: &str, to: &str| send(&tree, to, Some(from), plain);
    let same = |rig: &Rig, from: &str, to: &str| {
        compare(to, &send(&rig.tree(), to, None, plain), &send(&tree, from, None, plain));
        rig.check();
    };
    take(&rig, &send(&tree, "th/prom@s1", None, plain), "tank/a@s1", false).unwrap();
    let message = |result: errors::Result<u64>| result.unwrap_err().to_string();
    let error = message(take(&rig, &inc("th/prom@s2", "th/prom@s4"), "tank/a@s4", false));
    assert!(error.ends_with("most recent snapshot of tank/a does not\nmatch incremental source"), "{error}");
    let error = message(take(&rig, &inc("th/prom@s1", "th/prom@s2"), "tank/b@s2", false));
    assert!(error.ends_with("destination 'tank/b' does not exist"), "{error}");
    take(&rig, &inc("th/prom@s1", "th/prom@s2"), "tank/a@s2", false).unwrap();
    same(&rig, "th/prom@s2", "tank/a@s2");
    same(&rig, "th/prom@s1", "tank/a@s1");
    rig.judge();
    // Local changes in between.
    let head = rig.open("tank/a");
    common::new_file(head.objset(), &head.begin(0).unwrap(), 77).unwrap();
    rig.live.close(&head).unwrap();
    let last = inc("th/prom@s2", "th/prom@s4");
    let error = message(take(&rig, &last, "tank/a@s4", false));
    assert!(error.ends_with("destination tank/a has been modified\nsince most recent snapshot"), "{error}");
    write::snapshot(&rig.live, &["tank/a@own".to_owned()], &[]).unwrap();
    assert!(take(&rig, &last, "tank/a@s4", false).is_err());
    take(&rig, &last, "tank/a@s4", true).unwrap();
    assert!(rig.tree().dataset("tank/a@own").is_err());
    same(&rig, "th/prom@s4", "tank/a@s4");
    same(&rig, "th/prom@s2", "tank/a@s2");
    rig.judge();
    // A stream over an existing dataset.
    let full = send(&tree, "th/prom@s4", None, LEC);
    let error = message(take(&rig, &full, "tank/a@x", false));
    assert!(error.ends_with("destination 'tank/a' exists\nmust specify -F to overwrite it"), "{error}");
    let error = message(take(&rig, &full, "tank/a@x", true));
    assert!(error.contains("destination has snapshots (eg. tank/a@s"), "{error}");
    rig.create("tank/c", &[]).unwrap();
    take(&rig, &full, "tank/c@x", true).unwrap();
    same(&rig, "th/prom@s4", "tank/c@x");
    assert!(rig.tree().dataset("tank/c/%recv").is_err());
    rig.judge();
    let rig = rig.reopen();
    rig.check();
}

#[test]
fn clones_find_their_origin() {
    let Some(tree) = history() else { return };
    let origins: Vec<_> = tree.list(&[], &dataset::ListOptions::heads()).unwrap().entries;
    let clones = origins.iter().filter_map(|e| e.dataset()).filter_map(|d| Some((d.clone(), d.origin().unwrap()?)));
    let rig = Rig::new();
    let mut count = 0;
    for (clone, origin) in clones {
        let Some(last) = clone.snapshots().unwrap().pop() else { continue };
        let to = format!("tank/o{count}@o");
        take(&rig, &send(&tree, origin.name(), None, Options::default()), &to, false).unwrap();
        let stream = send(&tree, last.name(), Some(origin.name()), Options::default());
        let name = format!("tank/c{count}@c");
        take(&rig, &stream, &name, false).unwrap();
        assert_eq!(rig.tree().dataset(name.split('@').next().unwrap()).unwrap().origin().unwrap().unwrap().name(), to);
        compare(
            &name,
            &send(&rig.tree(), &name, None, Options::default()),
            &send(&tree, last.name(), None, Options::default()),
        );
        rig.check();
        count += 1;
    }
    println!("{count} clones");
    // The same with an explicit origin.
    take(&rig, &send(&tree, "th/prom@s1", None, Options::default()), "tank/base@s1", false).unwrap();
    let full = send(&tree, "th/prom@s2", None, Options::default());
    let chosen = Target { origin: Some("tank/base@s1".to_owned()), ..target("tank/chosen@s2", false) };
    try_receive(&rig, &full, &chosen).unwrap();
    compare("chosen", &send(&rig.tree(), "tank/chosen@s2", None, Options::default()), &full);
    rig.check();
    rig.judge();
}

/// The kernel's own stream, whose embedded spill block its own receiver loses; `WEIR_EXPECTED` has
/// it as streams/full-Lec.zsend.zst.
#[test]
fn embedded_spill_blocks_become_spill_blocks() {
    let Some(tree) = history() else { return };
    let path = std::env::var_os("WEIR_EXPECTED").map(|at| PathBuf::from(at).join("streams/full-Lec.zsend.zst"));
    let unpacked = path.and_then(|path| Command::new("zstd").arg("-dcq").arg(path).output().ok());
    let Some(unpacked) = unpacked.filter(|out| out.status.success()) else {
        println!("skipped: the kernel's stream is not at hand, or there is no zstd");
        return;
    };
    let rig = Rig::new();
    take(&rig, &unpacked.stdout, "tank/lec@s1", false).unwrap();
    let plain = send(&tree, "th/prom@s1", None, Options::default());
    compare("full-Lec", &send(&rig.tree(), "tank/lec@s1", None, Options::default()), &plain);
    rig.check();
    rig.judge();
}

/// The rest of the stream that a receive into `dataset` is missing.
fn rest(tree: &Arc<Datasets>, rig: &Rig, dataset: &str, to: &str, from: Option<&str>) -> Vec<u8> {
    let token = dataset::resume::token(&rig.tree().dataset(dataset).unwrap()).unwrap().expect("a token");
    let state = dataset::resume::parse(&token).unwrap();
    let number = |name: &str| state.get_u64(name).unwrap();
    let base = from.map(|name| Base::Snapshot(tree.dataset(name).unwrap()));
    assert_eq!(state.get_u64("fromguid"), from.map(|name| tree.dataset(name).unwrap().phys().guid));
    let at = Some(Resume { object: number("object"), offset: number("offset") });
    let keys = KeyStore::new();
    let options = Options { embedded: state.contains("embedok"), compressed: state.contains("compressok"), ..LEC };
    let options = Options { large_blocks: state.contains("largeblockok"), ..options };
    let outgoing = Outgoing::new(&tree.dataset(to).unwrap(), base.as_ref(), &keys, options, at).unwrap();
    let mut writer = Writer::new(Vec::new(), outgoing.endian());
    outgoing.run(&mut writer).unwrap();
    writer.into_inner()
}

#[test]
fn an_interrupted_receive_resumes_where_it_was() {
    let Some(tree) = history() else { return };
    let rig = Rig::new();
    let resumable = |to: &str, force: bool| Target { resumable: true, ..target(to, force) };
    let full = send(&tree, "th/prom@s1", None, Options::default());
    let more = send(&tree, "th/prom@s4", Some("th/prom@s1"), LEC);
    for (round, parts) in [2, 3, 7, 11].into_iter().enumerate() {
        let (name, first, last) = (format!("tank/r{round}"), format!("tank/r{round}@s1"), format!("tank/r{round}@s4"));
        for (stream, to, sent, from) in
            [(&full, &first, "th/prom@s1", None), (&more, &last, "th/prom@s4", Some("th/prom@s1"))]
        {
            let mut cut = stream[..stream.len() / parts * (parts - 1) / 2].to_vec();
            for attempt in 0..4 {
                let error = try_receive(&rig, &cut, &resumable(to, false)).unwrap_err().to_string();
                assert!(error.contains("the stream ends"), "{error}");
                // Neither a stream from the start nor one from another position can resume it.
                assert!(try_receive(&rig, stream, &resumable(to, false)).is_err());
                assert!(from.is_some() || rig.live.open(&name, Some(owners_of)).is_err());
                cut = rest(&tree, &rig, &name, sent, from);
                if attempt < 3 {
                    cut.truncate(cut.len() / parts);
                }
            }
            rig.check();
            // Damaged data is rejected, and the rest can still be received.
            let mut bad = cut.clone();
            let middle = bad.len() / 2;
            bad[middle] ^= 1;
            assert!(try_receive(&rig, &bad, &resumable(to, false)).is_err());
            cut = rest(&tree, &rig, &name, sent, from);
            try_receive(&rig, &cut, &resumable(to, false)).unwrap();
            compare(to, &send(&rig.tree(), to, None, Options::default()), &send(&tree, sent, None, Options::default()));
            assert_eq!(dataset::resume::token(&rig.tree().dataset(&name).unwrap()).unwrap(), None);
            rig.check();
        }
    }
    rig.judge();
    // Aborted: an incremental receive with its hidden clone, a full one with the dataset.
    let cut = &more[..more.len() / 2];
    rig.create("tank/kept", &[]).unwrap();
    take(&rig, &full, "tank/left@s1", false).unwrap();
    assert!(try_receive(&rig, cut, &resumable("tank/left@s4", false)).is_err());
    assert!(rig.tree().dataset("tank/left/%recv").is_ok());
    let rig = rig.reopen();
    assert!(rig.tree().dataset("tank/left/%recv").is_ok());
    write::destroy(&rig.live, "tank/left/%recv").unwrap();
    assert!(try_receive(&rig, &full[..full.len() / 2], &resumable("tank/half@s1", false)).is_err());
    write::destroy(&rig.live, "tank/half").unwrap();
    rig.check();
    rig.judge();
}

#[test]
fn received_properties_exist_next_to_local_ones() {
    let rig = Rig::new();
    rig.create("tank/p", &[("atime", "off"), ("com.example:mine", "1")]).unwrap();
    let brought = |list: &[(&str, Value)]| ReceivedProperties {
        brought: Some(list.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect()),
        ..ReceivedProperties::default()
    };
    let source = |property: &str| {
        let entry = rig.tree().entry("tank/p").unwrap();
        let found = dataset::property::get(&entry, property, &dataset::View::default()).unwrap().unwrap();
        format!("{} {:?}", found.value.raw, found.source)
    };
    let first = brought(&[
        ("compression", Value::Number(15)),
        ("quota", Value::Number(64 << 20)),
        ("com.example:x", Value::Text("y".into())),
    ]);
    assert!(write::receive_properties(&rig.live, "tank/p", &first, true, None).unwrap().is_empty());
    assert_eq!(source("compression"), "lz4 Received");
    assert_eq!(source("quota"), "67108864 Received");
    assert_eq!(source("com.example:x"), "y Received");
    assert_eq!(source("atime"), "off Local");
    rig.set("tank/p", "compression", "zstd").unwrap();
    let second = ReceivedProperties {
        set: vec![("checksum".to_owned(), "sha256".to_owned())],
        inherit: vec!["com.example:x".to_owned()],
        ..brought(&[
            ("compression", Value::Number(10)),
            ("com.example:x", Value::Text("z".into())),
            ("nosuch", Value::Number(1)),
        ])
    };
    // A dataset that took the name meanwhile keeps its own.
    let head = rig.tree().dataset("tank/p").unwrap().id();
    assert!(write::receive_properties(&rig.live, "tank/p", &second, false, Some(head + 1)).is_err());
    let failures = write::receive_properties(&rig.live, "tank/p", &second, false, Some(head)).unwrap();
    assert_eq!(failures.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["nosuch"]);
    assert_eq!(source("compression"), "zstd Local");
    assert_eq!(source("quota"), "0 Default");
    assert_eq!(source("checksum"), "sha256 Local");
    assert!(rig.get("tank/p", "com.example:x") == "-" || source("com.example:x").ends_with("Default"));
    write::inherit(&rig.live, "tank/p", "compression", true).unwrap();
    assert_eq!(source("compression"), "gzip-10 Received".replace("gzip-10", &rig.get("tank/p", "compression")));
    write::snapshot(&rig.live, &["tank/p@s".to_owned()], &[]).unwrap();
    let of_snapshot = brought(&[("com.example:s", Value::Text("t".into()))]);
    assert!(write::receive_properties(&rig.live, "tank/p@s", &of_snapshot, true, None).unwrap().is_empty());
    assert_eq!(rig.get("tank/p@s", "com.example:s"), "t");
    rig.check();
    rig.judge();
}

/// A stream that is interrupted by power cuts: at some byte positions everything received is synced
/// to disk, and the devices are then examined as another machine would find them.
struct WithCuts<'a> {
    stream: &'a [u8],
    at: usize,
    every: usize,
    rig: &'a Rig,
    after: &'a dyn Fn(Rig),
}

impl Read for WithCuts<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let before = self.at / self.every;
        let read = (&self.stream[self.at..]).read(buf)?;
        self.at += read;
        if self.at / self.every != before {
            self.rig.live.writer().sync().unwrap();
            (self.after)(self.rig.copy());
        }
        Ok(read)
    }
}

#[test]
fn after_a_power_cut_the_pool_opens_and_the_receive_resumes_or_restarts() {
    let Some(tree) = history() else { return };
    let plain = Options::default();
    let full = send(&tree, "th/prom@s1", None, plain);
    let more = send(&tree, "th/prom@s4", Some("th/prom@s1"), plain);
    for resumable in [true, false] {
        let rig = Rig::new();
        take(&rig, &full, "tank/there@s1", false).unwrap();
        for (stream, to, sent, from) in
            [(&full, "tank/new@s1", "th/prom@s1", None), (&more, "tank/there@s4", "th/prom@s4", Some("th/prom@s1"))]
        {
            let cuts = std::cell::Cell::new(0);
            let after = |found: Rig| {
                let target = Target { resumable, ..target(to, false) };
                let name = to.split('@').next().unwrap();
                found.check();
                assert!(found.tree().dataset(to).is_err());
                let is_begun = found.tree().dataset(if from.is_some() { "tank/there/%recv" } else { name }).is_ok();
                match resumable && is_begun {
                    true => try_receive(&found, &rest(&tree, &found, name, sent, from), &target),
                    false => try_receive(&found, stream, &target),
                }
                .unwrap();
                compare(to, &send(&found.tree(), to, None, plain), &send(&tree, sent, None, plain));
                found.check();
                cuts.set(cuts.get() + 1);
            };
            let source = WithCuts { stream, at: 0, every: stream.len() / 5, rig: &rig, after: &after };
            let mut checked = VerifyingReader::new(source);
            let first = checked.next_record().unwrap().unwrap();
            receive(&rig.live, &mut checked, &first, &Target { resumable, ..target(to, false) }).unwrap();
            assert!(cuts.get() >= 4, "{to}: {} cuts", cuts.get());
        }
        rig.check();
    }
}
