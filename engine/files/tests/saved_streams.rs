//! A saved stream shows the same files as the pool does for the same snapshot.
//!
//! `WEIR_FIXTURES` names the folder of unpacked scenarios. Each stream is sent into memory and
//! opened there; then both trees are walked side by side and compared: names, attributes, links,
//! extended attributes and contents.

use dataset::send::{Base, Options as SendOptions, Outgoing, Package, PackageOptions};
use dataset::stream::{Writer, browse};
use dataset::{Dataset, Datasets, KeyStore};
use errors::Error;
use files::vfs::{DirEntry, FileKind, NodeId, Vfs};
use files::zpl::{FileSystem, Options};
use host::device::{Device, MemoryDevice};
use ondisk::Endian;
use pool::{OpenOptions, Pool, search};
use std::path::PathBuf;
use std::sync::Arc;

const LEC: SendOptions = SendOptions { large_blocks: true, embedded: true, compressed: true, raw: false };

fn pool(scenario: &str) -> Option<Arc<Datasets>> {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios");
        return None;
    };
    let found = search(&[folder.join(scenario)]);
    Some(Datasets::open(Pool::open(found.pools.first()?, &OpenOptions::default()).unwrap()).unwrap())
}

fn send(to: &Dataset, from: Option<&Dataset>, options: SendOptions) -> Vec<u8> {
    let base = from.map(|from| Base::Snapshot(from.clone()));
    let outgoing = Outgoing::new(to, base.as_ref(), &KeyStore::new(), options, None).unwrap();
    let mut writer = Writer::new(Vec::new(), outgoing.endian());
    outgoing.run(&mut writer).unwrap();
    writer.into_inner()
}

fn open(streams: &[Vec<u8>], wanted: Option<&str>) -> errors::Result<Arc<FileSystem>> {
    let device = |stream: &Vec<u8>| Arc::new(MemoryDevice::new("stream", stream.clone())) as Arc<dyn Device>;
    let saved = browse::open(&streams.iter().map(device).collect::<Vec<_>>(), wanted)?;
    Ok(FileSystem::open(saved.set, Options::default()).unwrap())
}

fn direct(dataset: &Dataset) -> Arc<FileSystem> {
    FileSystem::open(dataset.objset(&KeyStore::new()).unwrap(), Options::default()).unwrap()
}

fn entries(vfs: &dyn Vfs, dir: NodeId) -> Vec<DirEntry> {
    let mut all = Vec::new();
    vfs.read_dir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            all.push(entry);
        }
        true
    })
    .unwrap();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Compares both trees and returns the number of files.
fn same(a: &dyn Vfs, b: &dyn Vfs, at: NodeId, path: &str) -> usize {
    let (left, right) = (entries(a, at), entries(b, at));
    let names = |list: &[DirEntry]| list.iter().map(|e| e.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&left), names(&right), "{path}");
    let mut count = 0;
    for entry in left {
        let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
        let (mine, theirs) = (a.lookup(at, &entry.name).unwrap(), b.lookup(at, &entry.name).unwrap());
        // Space differs: a stream has no copies and no parity.
        assert_eq!(
            (mine.node, mine.kind, mine.mode, mine.links, mine.uid, mine.gid, mine.size, mine.mtime, mine.rdev_minor),
            (
                theirs.node,
                theirs.kind,
                theirs.mode,
                theirs.links,
                theirs.uid,
                theirs.gid,
                theirs.size,
                theirs.mtime,
                theirs.rdev_minor
            ),
            "{path}"
        );
        let mut xattrs = a.list_xattr(mine.node).unwrap();
        xattrs.sort();
        let mut others = b.list_xattr(mine.node).unwrap();
        others.sort();
        assert_eq!(xattrs, others, "{path}");
        for name in xattrs {
            assert_eq!(a.get_xattr(mine.node, &name).unwrap(), b.get_xattr(mine.node, &name).unwrap(), "{path}");
        }
        match mine.kind {
            FileKind::Directory => count += same(a, b, mine.node, &path),
            FileKind::Symlink => assert_eq!(a.read_link(mine.node).unwrap(), b.read_link(mine.node).unwrap(), "{path}"),
            FileKind::Regular => {
                let size = mine.size as usize;
                assert!(a.read(mine.node, 0, size).unwrap() == b.read(mine.node, 0, size).unwrap(), "{path}");
            }
            _ => {}
        }
        count += 1;
    }
    count
}

fn compare(saved: &FileSystem, dataset: &Dataset) {
    let pools = direct(dataset);
    let count = same(saved, &*pools, pools.root(), "");
    assert!(count > 5, "{}: {count} files", dataset.name());
}

#[test]
fn a_full_stream_shows_the_files_of_its_snapshot() {
    let Some(datasets) = pool("history") else { return };
    let s1 = datasets.dataset("th/prom@s1").unwrap();
    for options in [SendOptions::default(), LEC] {
        compare(&open(&[send(&s1, None, options)], None).unwrap(), &s1);
    }
}

#[test]
fn incrementals_continue_where_the_previous_stream_ended() {
    let Some(datasets) = pool("history") else { return };
    let dataset = |name: &str| datasets.dataset(name).unwrap();
    let (s1, s2, s4, fs) = (dataset("th/prom@s1"), dataset("th/prom@s2"), dataset("th/prom@s4"), dataset("th/fs@s5"));
    let streams = [
        send(&s1, None, LEC),
        send(&s2, Some(&s1), LEC),
        send(&s4, Some(&s2), SendOptions::default()),
        // A clone has its own name.
        send(&fs, Some(&s4), LEC),
    ];
    for (wanted, shows) in
        [(None, &s4), (Some("s2"), &s2), (Some("@s1"), &s1), (Some("th/prom@s4"), &s4), (Some("th/fs@s5"), &fs)]
    {
        compare(&open(&streams, wanted).unwrap(), shows);
    }
    let error = open(&streams[1..], None).err().unwrap().to_string();
    assert!(
        error.contains("it is based on a snapshot (guid 0x9997d64d3ab2a6ce) that is not in the preceding streams"),
        "{error}"
    );
    let error = open(&streams, Some("s9")).err().unwrap();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[test]
fn packages_show_each_of_their_snapshots() {
    let Some(datasets) = pool("history") else { return };
    let options = PackageOptions { replicate: true, all: true, ..PackageOptions::default() };
    let package = Package::new(&datasets.dataset("th/prom").unwrap(), None, "s4", options).unwrap();
    let mut writer = Writer::new(Vec::new(), Endian::Little);
    package.open(&mut writer, Endian::Little).unwrap();
    for planned in package.streams().unwrap() {
        let outgoing = Outgoing::new(&planned.to, planned.from.as_ref(), &KeyStore::new(), LEC, None).unwrap();
        outgoing.run(&mut writer).unwrap();
    }
    package.close(&mut writer).unwrap();
    let stream = [writer.into_inner()];
    for (wanted, shows) in [(None, "th/prom@s4"), (Some("s2"), "th/prom@s2")] {
        compare(&open(&stream, wanted).unwrap(), &datasets.dataset(shows).unwrap());
    }
}

#[test]
fn large_blocks_dnodes_names_and_every_compressor_are_read() {
    let Some(datasets) = pool("everything") else { return };
    for name in ["r-1M", "dn16k", "ci", "xdir", "xsa", "c-zstd-3", "c-gzip-9", "c-lzjb", "c-zle", "r-512"] {
        // Heads can be sent without a snapshot.
        let head = datasets.dataset(&format!("tank/{name}")).unwrap();
        compare(&open(&[send(&head, None, LEC)], None).unwrap(), &head);
    }
    let head = datasets.dataset("tank/r-1M").unwrap();
    compare(&open(&[send(&head, None, SendOptions::default())], None).unwrap(), &head);
}

#[test]
fn a_volume_comes_out_of_its_stream() {
    let Some(datasets) = pool("history") else { return };
    let v1 = datasets.dataset("th/vol@v1").unwrap();
    let device = Arc::new(MemoryDevice::new("stream", send(&v1, None, LEC))) as Arc<dyn Device>;
    let saved = browse::open(&[device], None).unwrap();
    let volume = files::Volume::open(&saved.set, "saved").unwrap();
    let pools = files::Volume::open(&v1.objset(&KeyStore::new()).unwrap(), "pool").unwrap();
    assert_eq!(volume.size(), 16 << 20);
    let (mut mine, mut theirs) = (vec![0; 16 << 20], vec![0; 16 << 20]);
    volume.read_at(0, &mut mine).unwrap();
    pools.read_at(0, &mut theirs).unwrap();
    assert!(mine == theirs);
}

#[test]
fn altered_or_truncated_streams_are_not_shown() {
    let Some(datasets) = pool("history") else { return };
    let whole = send(&datasets.dataset("th/prom@s1").unwrap(), None, LEC);
    for at in (1000..whole.len()).step_by(whole.len() / 23) {
        let mut altered = whole.clone();
        altered[at] ^= 4;
        assert!(matches!(open(&[altered], None).err(), Some(Error::Corrupt { .. })), "byte {at}");
        assert!(matches!(open(&[whole[..at].to_vec()], None).err(), Some(Error::Corrupt { .. })), "cut at {at}");
    }
}
