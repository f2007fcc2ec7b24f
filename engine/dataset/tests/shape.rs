//! Pools that change their shape: a checkpoint made, discarded and wound back to. After each step OpenZFS's `zdb` finds every block, no
//! leak, and right counts of features.

mod common;

use common::{Rig, layout, new_file, noise, options};
use dataset::{KeyStore, LiveDataset, LiveDatasets};
use object::{Error, Result};
use pool::{OpenOptions, Writer, search_devices};
use std::path::PathBuf;
use std::sync::Arc;

const BLOCK: u64 = 128 << 10;

/// Files of noise in one file system.
struct Files {
    live: Arc<LiveDataset>,
    /// Number of the object, and seed of its contents.
    all: Vec<(u64, u64)>,
    next_seed: u64,
}

impl Files {
    fn new(rig: &Rig) -> Self {
        rig.create("tank/a", &[]).unwrap();
        Self { live: rig.open("tank/a"), all: Vec::new(), next_seed: 1 }
    }

    /// Another file, in a txg of its own.
    fn put(&mut self, rig: &Rig) {
        self.next_seed += 1;
        let seed = self.next_seed;
        let id = {
            let tx = self.live.begin(8 * BLOCK).unwrap();
            let id = new_file(self.live.objset(), &tx, 1).unwrap();
            self.live.objset().object(id).unwrap().write_at(&tx, 0, &noise(seed, 6 * BLOCK as usize)).unwrap();
            id
        };
        rig.live.writer().sync().unwrap();
        self.all.push((id, seed));
    }

    /// The oldest file goes.
    fn drop_oldest(&mut self, rig: &Rig) {
        let (id, _) = self.all.remove(0);
        {
            let tx = self.live.begin(BLOCK).unwrap();
            self.live.objset().free_object(&tx, id).unwrap();
        }
        rig.live.writer().sync().unwrap();
    }
}

/// What is on disk is right, to us and to OpenZFS; every file has its contents.
fn check(rig: &Rig, all: &[(u64, u64)]) {
    rig.live.writer().sync().unwrap();
    let found = rig.found();
    let report = pool::scan::verify(&found, &pool::scan::Options { threads: 1 }, &|_| true).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let tree = dataset::Datasets::open(found).unwrap();
    let set = tree.dataset("tank/a").unwrap().objset(rig.live.keys()).unwrap();
    for (id, seed) in all {
        let read = set.object(*id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap();
        assert!(read == noise(*seed, 6 * BLOCK as usize), "file {seed}");
    }
    rig.judge();
}

fn refusal<T>(result: Result<T>) -> String {
    match result {
        Err(Error::Invalid { what, .. }) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// The pool closed and opened anew.
fn reopen(rig: Rig, files: Files, open: &OpenOptions) -> (Rig, Files) {
    let Files { live, all, next_seed } = files;
    drop(live);
    let Rig { devices, live } = rig;
    live.close_all().unwrap();
    live.writer().export().unwrap();
    drop(live);
    let found = search_devices(devices.iter().cloned()).pools.remove(0);
    let writer = Writer::open(&found, open, &options()).unwrap();
    let rig = Rig { devices, live: LiveDatasets::new(writer, Arc::new(KeyStore::new())) };
    let live = rig.open("tank/a");
    (rig, Files { live, all, next_seed })
}

/// OpenZFS's view of the checkpoint itself: every block that it needs is there.
fn judge_checkpoint(rig: &Rig) {
    let Some(text) = rig.zdb(&["-kbcc", &rig.live.writer().name()]) else { return };
    assert!(text.contains("No leaks") && !text.contains("ERROR"), "zdb -k: {text}");
}

#[test]
fn a_checkpoint_keeps_what_is_freed_until_it_is_discarded_or_the_pool_is_wound_back() {
    for raidz in [false, true] {
        let mut rig = Rig::with(layout(raidz), &[], None);
        let mut files = Files::new(&rig);
        (0..4).for_each(|_| files.put(&rig));
        let writer = rig.live.writer().clone();
        assert_eq!(refusal(writer.discard_checkpoint()), "checkpoint does not exist");
        writer.checkpoint().unwrap();
        let kept = files.all.clone();
        assert_eq!(refusal(writer.checkpoint()), "checkpoint exists");
        assert_eq!(refusal(writer.set_guid(7)), "checkpoint exists");
        check(&rig, &files.all);
        judge_checkpoint(&rig);
        files.drop_oldest(&rig);
        files.drop_oldest(&rig);
        files.put(&rig);
        check(&rig, &files.all);
        judge_checkpoint(&rig);
        let status = rig.found().status().unwrap().checkpoint.unwrap();
        assert!(!status.discarding && status.space_bytes > 12 * BLOCK, "{status:?}");
        drop(writer);
        (rig, files) = reopen(rig, files, &OpenOptions::default());
        files.drop_oldest(&rig);
        check(&rig, &files.all);
        judge_checkpoint(&rig);

        // As it was, to look at, and then for good.
        let found = search_devices(rig.devices.iter().cloned()).pools.remove(0);
        let back = OpenOptions { checkpoint: true, ..OpenOptions::default() };
        let old = pool::Pool::open(&found, &back).unwrap();
        let set = dataset::Datasets::open(old).unwrap().dataset("tank/a").unwrap().objset(rig.live.keys()).unwrap();
        let (id, seed) = kept[0];
        assert!(set.object(id).unwrap().read_vec(0, 6 * BLOCK as usize).unwrap() == noise(seed, 6 * BLOCK as usize));
        (rig, files) = reopen(rig, files, &back);
        files.all = kept;
        check(&rig, &files.all);
        assert!(rig.found().status().unwrap().checkpoint.is_none());
        files.put(&rig);
        check(&rig, &files.all);

        // Another one, discarded: a part before the pool is left, the rest after that.
        let writer = rig.live.writer().clone();
        writer.checkpoint().unwrap();
        (0..3).for_each(|_| files.drop_oldest(&rig));
        check(&rig, &files.all);
        writer.discard_checkpoint().unwrap();
        drop(writer);
        (rig, files) = reopen(rig, files, &OpenOptions::default());
        let writer = rig.live.writer().clone();
        writer.finish_discarding(&|| false).unwrap();
        assert!(!writer.feature_active("zpool_checkpoint"));
        assert!(rig.found().status().unwrap().checkpoint.is_none());
        check(&rig, &files.all);
        writer.set_guid(7).unwrap();
        files.put(&rig);
        check(&rig, &files.all);
    }
}

/// The pool of an image that the kernel module made; `None`: the images are not here.
fn image(name: &str) -> Option<Rig> {
    let folder = PathBuf::from(std::env::var_os("WEIR_FIXTURES")?).join(name);
    Some(Rig::of_image(&folder).unwrap())
}

#[test]
fn a_checkpoint_that_openzfs_made_is_kept_discarded_and_wound_back_to() {
    let Some(rig) = image("checkpoint") else {
        println!("skipped: no images (make fixtures)");
        return;
    };
    assert!(rig.found().status().unwrap().checkpoint.is_some());
    rig.live.writer().sync().unwrap();
    rig.judge();
    judge_checkpoint(&rig);
    let rig = rig.copy();
    rig.live.writer().discard_checkpoint().unwrap();
    rig.live.writer().finish_discarding(&|| false).unwrap();
    assert!(rig.is_clean());
    rig.judge();
}
