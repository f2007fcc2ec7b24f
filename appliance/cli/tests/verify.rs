//! `weir verify` of intact and of damaged pools: exit codes, counts by device, names of files.
//!
//! Method: copies of pools made by the kernel module are damaged where a block is known to be (from
//! the pool itself), so that the right answer is known exactly. `WEIR_FIXTURES` is a directory with
//! the devices as SCENARIO/DEVICE.

use crate::rig::{Rig, fixtures};
use block::RawBlock;
use block::vdev::{DATA_START_BYTES, Kind};
use dataset::{Datasets, KeyStore, LiveDatasets};
use object::Zap;
use ondisk::{BlkPtr, Compression, Endian};
use pool::writer::WriteOptions;
use pool::{OpenOptions, Pool, Writer};
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Copies of a pool's devices, for damaging.
struct Copy {
    folder: tempfile::TempDir,
    name: &'static str,
}

/// The answer of `weir verify --json`.
struct Answer {
    code: i32,
    json: Value,
}

fn copy(scenario: &str, name: &'static str) -> Option<Copy> {
    let fixtures = fixtures()?;
    let folder = tempfile::tempdir().expect("a temporary folder");
    for entry in std::fs::read_dir(fixtures.join(scenario)).expect("the scenario is unpacked") {
        let path = entry.expect("readable").path();
        let to = folder.path().join(path.file_name().expect("it has a name"));
        // cp keeps holes.
        assert!(
            Command::new("cp")
                .args(["--sparse=always", "--no-preserve=mode"])
                .arg(&path)
                .arg(&to)
                .status()
                .expect("cp")
                .success()
        );
    }
    Some(Copy { folder, name })
}

impl Copy {
    fn open(&self) -> Arc<Pool> {
        let found = pool::search(&[self.folder.path().to_owned()]).pools;
        let found = found.iter().find(|p| p.name() == self.name).expect("the pool exists");
        Pool::open(found, &OpenOptions::default()).expect("the pool opens")
    }

    /// The pointer to block `blkid` of the file called `file` in the root of `dataset`.
    fn block_of(&self, dataset: &str, file: &str, blkid: u64) -> BlkPtr {
        let datasets = Datasets::open(self.open()).expect("datasets");
        let set = datasets.dataset(dataset).and_then(|d| d.objset(&KeyStore::new())).expect("contents");
        object_of(&set, file).block_pointer(0, blkid).expect("a pointer")
    }

    /// Overwrites block `blkid` of a file with a block whose checksum is right and whose data
    /// cannot be decompressed, as a faulty compressor does.
    fn spoil(&self, dataset: &str, file: &str, blkid: u64) {
        let found = pool::search(&[self.folder.path().to_owned()]).pools;
        let found = found.iter().find(|p| p.name() == self.name).expect("the pool exists");
        let writer = Writer::open(found, &OpenOptions::default(), &WriteOptions::default()).expect("opens for writing");
        let live = LiveDatasets::new(writer, Arc::new(KeyStore::new()));
        let head = live.open(dataset, Some(files::zpl::owners_of)).expect("the dataset");
        let object = object_of(head.objset(), file);
        let tx = head.begin(1 << 20).expect("a transaction");
        let block = RawBlock {
            bytes: vec![0x5a; 8192].into(),
            lsize_bytes: u64::from(object.dnode().data_block_bytes),
            compression: Compression::Gzip(1),
            endian: Endian::Little,
            sealed: None,
        };
        object.put_raw(&tx, blkid, block).expect("taken");
        drop((tx, object, head));
        live.close_all().expect("closes");
        live.writer().export().expect("exports");
    }

    fn flip(&self, device: &str, offset: u64) {
        let file = std::fs::File::options().read(true).write(true).open(device).expect("opens");
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).expect("reads");
        file.write_all_at(&[byte[0] ^ 0x55], offset).expect("writes");
    }

    /// Damages copy `copy` of a block on the `leaf`-th device below its top-level vdev: a byte of a
    /// mirror side, or of a raidz column. Returns the device.
    fn damage(&self, bp: &BlkPtr, copy: usize, leaf: usize) -> String {
        let (pool, dva) = (self.open(), bp.dva(copy));
        let top = &pool.store().tree().tops[dva.vdev as usize];
        let (path, offset) = match &top.kind {
            Kind::Raidz(g) => {
                let map = g.map(dva.offset_bytes, bp.psize_bytes(), bp.physical_birth().0).expect("a place");
                let column = map.columns[leaf];
                (top.children[column.child].leaf().expect("a leaf").path.clone(), column.device_offset_bytes())
            }
            _ => (top.leaves()[leaf].path.clone(), dva.offset_bytes + DATA_START_BYTES),
        };
        self.flip(&path, offset + 3);
        path
    }

    fn verify(&self) -> Answer {
        verify(self.folder.path(), self.name)
    }
}

/// The object of the file called `file` in the root of a file system.
fn object_of(set: &Arc<object::ObjectSet>, file: &str) -> object::Object {
    let zap = |id| set.object(id).and_then(Zap::open).expect("a zap");
    let root = zap(1).lookup_u64("ROOT").expect("readable").expect("a root");
    let entry = zap(root).lookup_u64(file).expect("readable").expect("the file");
    set.object(entry & ((1 << 48) - 1)).expect("the file's object")
}

fn verify(folder: &Path, name: &str) -> Answer {
    verify_with(folder, name, &[])
}

fn verify_with(folder: &Path, name: &str, options: &[&str]) -> Answer {
    let rig = Rig::new(&[]);
    let output = rig.weir(&["verify", "--json", "-d"]).arg(folder).args(options).arg(name).output().expect("weir runs");
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Answer { code: output.status.code().expect("an exit code"), json }
}

impl Answer {
    /// (device, wrong blocks) of the devices with wrong blocks.
    fn wrong(&self) -> Vec<(String, u64)> {
        let devices = self.json["devices"].as_array().expect("devices");
        let row = |d: &Value| (d["path"].as_str().unwrap_or_default().to_owned(), d["wrong"].as_u64().unwrap_or(0));
        devices.iter().map(row).filter(|(_, n)| *n > 0).collect()
    }

    fn lost(&self) -> u64 {
        self.json["lost_blocks"].as_u64().expect("a number")
    }
}

#[test]
fn whole_pools_are_clean() {
    let all = [
        ("mirror3", "tm"),
        ("raidz1-3-a9", "tz1"),
        ("draid2-4d-1s-8c", "td"),
        ("hybrid", "th"),
        ("history", "th"),
        ("encrypted", "te"),
        ("removed", "tr"),
        ("checkpoint", "tk"),
        ("raidz-expanded", "tg"),
        ("gang", "tj"),
        ("version28", "ti"),
        ("no-features", "tb"),
        ("unclean-log", "tu"),
        ("everything", "tank"),
    ];
    let Some(fixtures) = fixtures() else { return };
    for (scenario, name) in all {
        let answer = verify(&fixtures.join(scenario), name);
        assert_eq!(answer.code, 0, "{scenario}: {}", answer.json);
        assert_eq!(answer.json["verdict"], "clean", "{scenario}");
    }
}

#[test]
fn wrong_sides_of_a_mirror_are_counted_and_nothing_is_lost() {
    let Some(pool) = copy("mirror3", "tm") else { return };
    let side = pool.damage(&pool.block_of("tm", "text.txt", 0), 0, 1);
    pool.damage(&pool.block_of("tm", "text.txt", 1), 0, 1);
    let other = pool.damage(&pool.block_of("tm", "text.txt", 1), 0, 2);
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (1, 0), "{}", answer.json);
    let mut expected = vec![(side, 2), (other, 1)];
    expected.sort();
    let mut wrong = answer.wrong();
    wrong.sort();
    assert_eq!(wrong, expected);
    assert_eq!(answer.json["repairable_blocks"], 2);
    assert_eq!(answer.json["space"]["unknown"], Value::Null);
}

#[test]
fn a_block_without_a_good_copy_is_named_by_file_range_and_snapshot() {
    let Some(pool) = copy("mirror3", "tm") else { return };
    let bp = pool.block_of("tm", "text.txt", 1);
    for side in 0..3 {
        pool.damage(&bp, 0, side);
    }
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (2, 1), "{}", answer.json);
    let file = &answer.json["files"][0];
    assert_eq!(file["kind"], "file");
    assert!(matches!(file["path"].as_str(), Some("/text.txt" | "/hard-link")));
    assert_eq!(file["ranges"][0][0], 131_072);
    // The file existed when the snapshot was taken: both hold it.
    let mut holders = vec![file["dataset"].as_str().expect("a name"), file["also_in"][0].as_str().expect("a name")];
    holders.sort_unstable();
    assert_eq!(holders, ["tm", "tm@a"]);
    // Lost data does not affect the space check.
    assert_eq!((&answer.json["space"]["unknown"], &answer.json["space"]["leaked_bytes"]), (&Value::Null, &0.into()));
}

/// Regression: gzip-1 wrote blocks with right checksums that nothing could decompress, and `weir
/// verify`, scrubs and zdb called such pools clean.
#[test]
fn a_block_that_does_not_decompress_is_lost_and_named_though_all_copies_are_right() {
    let Some(pool) = copy("mirror3", "tm") else { return };
    pool.spoil("tm", "text.txt", 1);
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (2, 1), "{}", answer.json);
    assert_eq!((&answer.json["malformed_blocks"], &answer.json["verdict"]), (&1.into(), &"lost".into()));
    assert_eq!((answer.wrong(), &answer.json["repairable_blocks"]), (vec![], &0.into()), "no device is to blame");
    let file = &answer.json["files"][0];
    assert!(matches!(file["path"].as_str(), Some("/text.txt" | "/hard-link")), "{file}");
    assert_eq!(
        (&file["dataset"], &file["ranges"][0][0], &file["also_in"]),
        (&"tm".into(), &131_072.into(), &Value::Array(vec![]))
    );
    assert!(file["error"].as_str().is_some_and(|e| e.contains("gzip-1 block does not unpack")), "{file}");
    // The space check finds no error.
    assert_eq!((&answer.json["space"]["unknown"], &answer.json["space"]["leaked_bytes"]), (&Value::Null, &0.into()));
}

#[test]
fn encrypted_blocks_are_decrypted_with_their_keys_and_counted_without() {
    let Some(fixtures) = fixtures() else { return };
    let folder = fixtures.join("encrypted");
    let without = verify(&folder, "te");
    let sealed = |answer: &Answer| answer.json["sealed_blocks"].as_u64().expect("a number");
    assert!(without.code == 0 && sealed(&without) > 0, "{}", without.json);
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/images/encrypted");
    let key = |file: &str| keys.join(file).to_str().expect("text").to_owned();
    let (raw, pass) = (key("key32"), key("pass"));
    let with = verify_with(&folder, "te", &["--key-file", &raw, "--passphrase-file", &pass]);
    assert_eq!((with.code, &with.json["verdict"]), (0, &"clean".into()), "{}", with.json);
    assert!(sealed(&with) < sealed(&without), "{}", with.json);
    assert_eq!(sealed(&with), 0, "these files have the keys of all its datasets: {}", with.json);
}

#[test]
fn a_lying_raidz_column_is_found_and_two_lose_the_block() {
    let Some(pool) = copy("raidz1-3-a9", "tz1") else { return };
    let device = pool.damage(&pool.block_of("tz1", "text.txt", 0), 0, 1);
    let parity = pool.damage(&pool.block_of("tz1", "random.bin", 1), 0, 0);
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (1, 0), "{}", answer.json);
    assert_eq!(answer.wrong().iter().map(|w| w.1).sum::<u64>(), 2);
    assert!(answer.wrong().iter().any(|w| w.0 == device) && answer.wrong().iter().any(|w| w.0 == parity));
    pool.damage(&pool.block_of("tz1", "text.txt", 0), 0, 2);
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (2, 1), "{}", answer.json);
    // The file has two names; either is right.
    assert!(matches!(answer.json["files"][0]["path"].as_str(), Some("/text.txt" | "/hard-link")));
    assert_eq!(answer.json["files"][0]["ranges"][0], serde_json::json!([0, 131_072]));
}

#[test]
fn a_pool_with_a_missing_device_is_degraded_and_readable() {
    for (scenario, name, device) in
        [("mirror3", "tm", "m1"), ("raidz1-3-a9", "tz1", "z2"), ("draid2-4d-1s-8c", "td", "w1")]
    {
        let Some(pool) = copy(scenario, name) else { return };
        std::fs::remove_file(pool.folder.path().join(device)).expect("it existed");
        let answer = pool.verify();
        assert_eq!((answer.code, answer.lost()), (1, 0), "{scenario}: {}", answer.json);
        let away: Vec<&Value> =
            answer.json["devices"].as_array().expect("devices").iter().filter(|d| !d["absent"].is_null()).collect();
        assert_eq!(away.len(), 1, "{scenario}");
        assert!(away[0]["missing"].as_u64() > Some(0), "{scenario}");
        assert!(answer.wrong().is_empty(), "{scenario}");
    }
}

#[test]
fn a_bad_copy_of_metadata_is_repairable_from_its_ditto() {
    let Some(pool) = copy("no-features", "tb") else { return };
    let root = pool.open().uberblock().root;
    assert!(root.dvas().count() > 1, "the pool's own objects have copies");
    let device = pool.damage(&root, 1, 0);
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (1, 0), "{}", answer.json);
    assert_eq!(answer.wrong(), [(device, 1)]);
}

#[test]
fn a_bad_member_of_a_gang_block_loses_its_file() {
    let Some(pool) = copy("gang", "tj") else { return };
    let bp = pool.block_of("tj", "random.bin", 0);
    assert!(bp.is_gang());
    let members = block::gang_members(pool.open().store(), &bp, &bp.dva(0)).expect("members");
    // Each member may be stored twice, and may itself be a gang block; then its DVAs point to
    // headers.
    let copies = members[1].dvas().count();
    for copy in 0..copies {
        pool.damage(&members[1], copy, 0);
    }
    let answer = pool.verify();
    assert_eq!((answer.code, answer.lost()), (2, 1), "{}", answer.json);
    assert_eq!(answer.wrong().iter().map(|w| w.1).sum::<u64>(), copies as u64);
    assert_eq!(answer.json["files"][0]["path"], "/random.bin");
}

#[test]
fn a_pool_without_its_root_is_reported_as_lost() {
    let Some(pool) = copy("no-features", "tb") else { return };
    let root = pool.open().uberblock().root;
    for n in 0..root.dvas().count() {
        pool.damage(&root, n, 0);
    }
    let answer = pool.verify();
    assert_eq!((answer.code, answer.json["verdict"].as_str()), (2, Some("lost")), "{}", answer.json);
    assert!(answer.json["error"].as_str().is_some_and(|e| e.contains("checksum")), "{}", answer.json);
}

#[test]
fn a_device_without_a_pool_cannot_be_verified() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("x"), vec![7; 1 << 20]).expect("writes");
    assert_eq!(verify(folder.path(), "tank").code, 3);
}
