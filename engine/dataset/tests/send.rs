//! Streams equal those that the kernel module wrote of the same snapshots.
//!
//! `WEIR_FIXTURES` is a directory with the unpacked devices as SCENARIO/DEVICE, `WEIR_EXPECTED` one
//! with the recorded streams, as streams/NAME.zsend.zst and encrypted/ccm-raw.zsend.zst. They are
//! compared byte by byte; where a record may differ, [`compare`] explains why.

use dataset::send::{Base, Options, Outgoing, Package, PackageOptions, Resume};
use dataset::stream::{Reader, Writer};
use dataset::{Dataset, Datasets, KeyStore};
use errors::Error;
use ondisk::nvlist::Nvlist;
use ondisk::send_record::{Body, Features, Record};
use pool::{OpenOptions, Pool, search};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use transform::checksum::{Algorithm, Order, checksum};

fn folders() -> Option<(PathBuf, PathBuf)> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let both = folder("WEIR_FIXTURES").zip(folder("WEIR_EXPECTED"));
    if both.is_none() {
        println!("skipped: set WEIR_FIXTURES and WEIR_EXPECTED, see the head of this file");
    }
    both
}

fn open(folder: &Path) -> Option<Arc<Datasets>> {
    let found = search(&[folder.to_owned()]);
    let Some(found) = found.pools.first() else {
        println!("skipped: there is no pool in {}", folder.display());
        return None;
    };
    let pool = Pool::open(found, &OpenOptions::default()).unwrap();
    Some(Datasets::open(pool).unwrap())
}

fn unpack(path: &Path) -> Option<Vec<u8>> {
    let out = Command::new("zstd").arg("-dcq").arg(path).output();
    match out {
        Ok(out) if out.status.success() => Some(out.stdout),
        _ => {
            println!("skipped: {} cannot be unpacked (apt-get install zstd)", path.display());
            None
        }
    }
}

fn send(to: &Dataset, from: Option<Base>, keys: &KeyStore, options: Options) -> Vec<u8> {
    let outgoing = Outgoing::new(to, from.as_ref(), keys, options, None).unwrap();
    let mut writer = Writer::new(Vec::new(), outgoing.endian());
    outgoing.run(&mut writer).unwrap();
    writer.into_inner()
}

fn package(head: &Dataset, from: Option<&str>, to: &str, options: PackageOptions) -> Vec<u8> {
    let package = Package::new(head, from, to, options).unwrap();
    let mut writer = Writer::new(Vec::new(), ondisk::Endian::Little);
    package.open(&mut writer, ondisk::Endian::Little).unwrap();
    for planned in package.streams().unwrap() {
        let outgoing = Outgoing::new(&planned.to, planned.from.as_ref(), &KeyStore::new(), Options::default(), None);
        outgoing.unwrap().run(&mut writer).unwrap();
    }
    package.close(&mut writer).unwrap();
    writer.into_inner()
}

fn records(stream: &[u8]) -> Vec<(Record, Vec<u8>)> {
    let (mut reader, mut all) = (Reader::new(stream), Vec::new());
    while let Some(packet) = reader.next_record().unwrap() {
        all.push((packet.record, packet.payload.to_vec()));
    }
    assert!(reader.is_whole());
    all
}

/// Compares record by record. Returns how many were allowed to differ.
fn compare(name: &str, ours: &[u8], theirs: &[u8]) -> usize {
    let (ours, theirs) = (records(ours), records(theirs));
    let mut allowed = 0;
    for (i, ((mine, my_payload), (kernels, payload))) in ours.iter().zip(&theirs).enumerate() {
        match (&mine.body, &kernels.body) {
            // Weir packs the list as XDR, OpenZFS 2.3 in its native form.
            (Body::Begin(a), Body::Begin(b)) if my_payload != payload => {
                assert_eq!(a, b, "{name}: record {i}");
                assert_eq!(Nvlist::parse(my_payload).unwrap(), Nvlist::parse(payload).unwrap(), "{name}: record {i}");
                allowed += 1;
            }
            // An embedded spill block: see `travels_embedded`.
            (Body::Spill(_), Body::WriteEmbedded(w)) if w.offset > i64::MAX as u64 => allowed += 1,
            // Checksums depend on everything before them.
            (Body::End { .. }, Body::End { .. }) if allowed > 0 => {}
            (mine, kernels) => {
                assert_eq!(mine, kernels, "{name}: record {i}");
                assert_eq!(my_payload, payload, "{name}: what follows record {i}");
            }
        }
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
    allowed
}

#[test]
fn streams_are_those_of_the_kernel() {
    let Some((images, expected)) = folders() else { return };
    let Some(datasets) = open(&images.join("history")) else { return };
    let keys = KeyStore::new();
    let dataset = |name: &str| datasets.dataset(name).unwrap();
    let base = |name: &str| Some(Base::Snapshot(dataset(name)));
    let lec = Options { large_blocks: true, embedded: true, compressed: true, raw: false };
    let raw = Options { raw: true, ..Options::default() };
    let many = PackageOptions { all: true, ..PackageOptions::default() };
    let replicate = PackageOptions { replicate: true, all: true, ..PackageOptions::default() };
    for (name, ours, differing) in [
        ("full", send(&dataset("th/prom@s1"), None, &keys, Options::default()), 0),
        ("full-Lec", send(&dataset("th/prom@s1"), None, &keys, lec), 1),
        ("raw", send(&dataset("th/prom@s1"), None, &keys, raw), 1),
        ("inc", send(&dataset("th/prom@s2"), base("th/prom@s1"), &keys, Options::default()), 0),
        ("volume", send(&dataset("th/vol@v1"), None, &keys, Options::default()), 0),
        ("volume-Lec", send(&dataset("th/vol@v1"), None, &keys, lec), 0),
        ("inc-I", package(&dataset("th/prom"), Some("s1"), "s4", many), 0),
        ("recursive", package(&dataset("th/prom"), None, "s4", replicate), 0),
    ] {
        let path = expected.join(format!("streams/{name}.zsend.zst"));
        let Some(theirs) = unpack(&path) else { return };
        assert_eq!(compare(name, &ours, &theirs), differing, "{name}");
        assert_eq!(ours == theirs, differing == 0, "{name}: byte by byte");
        println!("{name}: {} bytes", ours.len());
    }
}

/// SHA-256 of the streams that the kernel module wrote, for when the streams themselves are not
/// available.
#[test]
fn streams_have_the_sums_of_the_kernels() {
    let Some((images, _)) = folders() else { return };
    let Some(datasets) = open(&images.join("history")) else { return };
    let dataset = |name: &str| datasets.dataset(name).unwrap();
    let keys = KeyStore::new();
    let lec = Options { large_blocks: true, embedded: true, compressed: true, raw: false };
    let s1 = Some(Base::Snapshot(dataset("th/prom@s1")));
    let replicate = PackageOptions { replicate: true, all: true, ..PackageOptions::default() };
    for (stream, expected) in [
        (
            send(&dataset("th/prom@s1"), None, &keys, Options::default()),
            "12e11cc750c1a42a5200cb8d7594db4c30eab32f27bec05262430bd9c869f8d7",
        ),
        (
            send(&dataset("th/prom@s2"), s1, &keys, Options::default()),
            "1274c6a8e6e6fa4ef60c4abc5d2ed24a914cbd635bb9e04af620ceb110a68147",
        ),
        (
            send(&dataset("th/vol@v1"), None, &keys, lec),
            "a8b1ee68d4fed4a05b336f4fba75b777e998bda6731ec4a8d20cfa1fd1bdd985",
        ),
        (
            package(&dataset("th/prom"), None, "s4", replicate),
            "9eb1f2835561d1b17e956b56f484c09acbbcb1922c4d57c752b1755ebb063b83",
        ),
    ] {
        let sum = Order::Big.word_bytes(checksum(Algorithm::Sha256, &stream, Order::Big, None));
        assert_eq!(rig::hex(&sum), expected);
    }
}

/// Resumes at every block of a stream: the rest equals the whole stream from there.
#[test]
fn a_resumed_stream_has_the_rest_of_the_whole() {
    let Some((images, _)) = folders() else { return };
    let Some(datasets) = open(&images.join("history")) else { return };
    let (to, keys) = (datasets.dataset("th/prom@s1").unwrap(), KeyStore::new());
    let whole = records(&send(&to, None, &keys, Options::default()));
    let body = |records: &[(Record, Vec<u8>)]| -> Vec<(Body, Vec<u8>)> {
        records.iter().map(|(record, payload)| (record.body.clone(), payload.clone())).collect()
    };
    let mut blocks = 0;
    for (at, (record, _)) in whole.iter().enumerate() {
        let Body::Write(write) = &record.body else { continue };
        if blocks % 16 == 0 {
            let resume = Some(Resume { object: write.object, offset: write.offset });
            let outgoing = Outgoing::new(&to, None, &keys, Options::default(), resume).unwrap();
            let mut writer = Writer::new(Vec::new(), outgoing.endian());
            outgoing.run(&mut writer).unwrap();
            let rest = records(&writer.into_inner());
            let Body::Begin(begin) = &rest[0].0.body else { panic!("{:?}", rest[0].0) };
            assert!(begin.features.contains(Features::RESUMING));
            // The object itself and the FREE after its end are sent again, then the block; END's
            // checksum differs.
            let first = rest.iter().position(|(r, _)| r.body == record.body).unwrap();
            assert!(first <= 3, "object {}: {first} records before the block", write.object);
            assert_eq!(body(&rest[first..rest.len() - 1]), body(&whole[at..whole.len() - 1]));
        }
        blocks += 1;
    }
    assert!(blocks > 300);
}

#[test]
fn an_invalid_base_is_refused() {
    let Some((images, _)) = folders() else { return };
    let Some(datasets) = open(&images.join("history")) else { return };
    let dataset = |name: &str| datasets.dataset(name).unwrap();
    for (to, from) in [("th/prom@s1", "th/prom@s2"), ("th/prom@s2", "th/fs@s5"), ("th/prom@s2", "th/prom")] {
        let base = Base::Snapshot(dataset(from));
        let error = Outgoing::new(&dataset(to), Some(&base), &KeyStore::new(), Options::default(), None).err();
        let error = error.expect("refused").to_string();
        assert!(error.ends_with(&format!("{from} is not an earlier snapshot from the same fs")), "{error}");
    }
}

#[test]
fn a_plain_send_of_encrypted_data_requires_the_key() {
    let Some((images, _)) = folders() else { return };
    let Some(datasets) = open(&images.join("encrypted")) else { return };
    let to = datasets.dataset("te/ccm@s").unwrap();
    let error = Outgoing::new(&to, None, &KeyStore::new(), Options::default(), None).err();
    assert!(matches!(error, Some(Error::KeyUnavailable { .. })), "{error:?}");
}

#[test]
fn a_raw_stream_is_that_of_the_kernel_and_needs_no_key() {
    let Some((images, expected)) = folders() else { return };
    let Some(datasets) = open(&images.join("encrypted")) else { return };
    let options = Options { raw: true, ..Options::default() };
    let ours = send(&datasets.dataset("te/ccm@s").unwrap(), None, &KeyStore::new(), options);
    let Some(theirs) = unpack(&expected.join("encrypted/ccm-raw.zsend.zst")) else { return };
    assert_eq!(compare("ccm-raw", &ours, &theirs), 1);
}
