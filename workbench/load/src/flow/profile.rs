//! Predefined flows: mail servers, file servers, databases, desktops and builds, modelled on
//! filebench's personalities and later traces. They imitate these; their results are not comparable
//! with other benchmarks.

use super::{Access, Fileset, Flow, Format, Group, Mix, Order, Step};
use crate::pace::Arrivals;
use crate::target::Target;
use std::time::Duration;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// Names and descriptions of the profiles.
pub const ALL: [(&str, &str); 7] = [
    ("varmail", "a mail server: 1,000 small files in one directory; each message is written and synced, read, removed"),
    (
        "fileserver",
        "home directories: 10,000 files of 128K; whole files written, appended to, read, removed, looked at",
    ),
    ("webserver", "1,000 files of 16K in a tree, ten read for each line that is appended to the log"),
    (
        "oltp",
        "a database: small random reads of its files, small random writes, and a log that is written synchronously",
    ),
    ("vdi", "desktops: an image each, 4K to 64K, four of five operations write, mostly at random offsets"),
    ("mailarchive", "a mail archive read at random and from front to end, while a backup walks over all of it"),
    ("swbuild", "a build: attributes of many files, sources read whole, objects written and removed"),
];

fn set(name: &str, at: &Target, (depth, width, files): (u32, u32, u64), sizes: Mix, there: u8) -> Fileset {
    let anchor = at.below(name);
    Fileset { name: name.to_owned(), anchor, depth, width, files, everywhere: false, sizes, there, shared: false }
}

fn group(name: &str, fileset: usize, threads: usize, steps: Vec<Step>) -> Group {
    let name = name.to_owned();
    Group { name, fileset, threads, skew: None, order: Order::Random, steps, counted: Vec::new() }
}

fn scaled(n: u64, scale: f64) -> u64 {
    ((n as f64 * scale).round() as u64).max(1)
}

/// A profile on a directory, with its number of files multiplied by `scale`; `None` if there is no
/// such profile.
pub fn named(name: &str, at: &Target, scale: f64) -> Option<Flow> {
    let files = |n: u64| scaled(n, scale);
    let (all, append) = (Mix::one(M), Mix::around(16 * K));
    let read = |transfer: &Mix| [Step::Open(false), Step::ReadAll(transfer.clone()), Step::Close];
    let parts = |reads, random, transfer, count| Step::Parts { reads, random, transfer, count: Some(count) };
    let mut access = Access::default();
    let (filesets, groups) = match name {
        "varmail" => {
            let mail = set("mail", at, (0, 1, files(1000)), Mix::around(16 * K), 80);
            let mut steps = vec![
                Step::Delete,
                Step::Create,
                Step::Append(append.clone()),
                Step::Sync,
                Step::Close,
                Step::Open(true),
                Step::ReadAll(all.clone()),
                Step::Append(append.clone()),
                Step::Sync,
                Step::Close,
            ];
            steps.extend(read(&all));
            (vec![mail], vec![group("mail", 0, 16, steps)])
        }
        "fileserver" => {
            let home = set("home", at, (2, 20, files(10_000).div_ceil(400)), Mix::around(128 * K), 80);
            let mut steps = vec![
                Step::Create,
                Step::WriteAll(all.clone()),
                Step::Close,
                Step::Open(true),
                Step::Append(append.clone()),
                Step::Close,
            ];
            steps.extend(read(&all));
            steps.extend([Step::Delete, Step::Look]);
            (vec![home], vec![group("users", 0, 50, steps)])
        }
        "webserver" => {
            let pages = set("pages", at, (1, 20, files(1000).div_ceil(20)), Mix::around(16 * K), 100);
            let mut log = set("log", at, (0, 1, 1), Mix::one(0), 100);
            log.shared = true;
            let ten: Vec<Step> = (0..10).flat_map(|_| read(&all)).collect();
            let line = vec![
                Step::Open(true),
                Step::Append(append.clone()),
                Step::Close,
                Step::Think(Duration::from_millis(1)),
            ];
            (vec![pages, log], vec![group("readers", 0, 100, ten), group("log", 1, 1, line)])
        }
        "oltp" => {
            let mut data = set("data", at, (0, 1, 10), Mix::one(scaled(100, scale) * M), 100);
            data.shared = true;
            let mut log = set("log", at, (0, 1, 1), Mix::one(10 * M), 100);
            log.shared = true;
            let reads = vec![Step::Open(false), parts(100, true, Mix::one(8 * K), 100), Step::Close];
            let writes = vec![Step::Open(true), parts(0, true, Mix::one(8 * K), 100), Step::Sync, Step::Close];
            let commits = vec![Step::Open(true), parts(0, false, Mix::one(32 * K), 1), Step::Sync, Step::Close];
            let groups =
                vec![group("readers", 0, 50, reads), group("writers", 0, 10, writes), group("log", 1, 1, commits)];
            (vec![data, log], groups)
        }
        "vdi" => {
            let images = set("images", at, (0, 1, 10), Mix::one(scaled(256, scale) * M), 100);
            let sizes = Mix::of(vec![(4 * K, 70.0), (16 * K, 15.0), (32 * K, 10.0), (64 * K, 5.0)])?;
            let steps = vec![Step::Open(true), parts(20, true, sizes.clone(), 80), parts(20, false, sizes, 20)];
            access.sync = true;
            (vec![images], vec![group("desktops", 0, 10, steps)])
        }
        "mailarchive" => {
            let sizes = Mix::of(vec![(8 * K, 60.0), (32 * K, 25.0), (512 * K, 10.0), (4 * M, 5.0)])?;
            let archive = set("archive", at, (2, 8, files(10_000)), sizes, 100);
            let whole = vec![Step::Open(false), Step::ReadAll(Mix::one(8 * K)), Step::Close];
            let some = vec![Step::Open(false), parts(100, true, Mix::one(8 * K), 100), Step::Close];
            // A backup checks all files and reads those it lacks: one of fifty here.
            let mut walk: Vec<Step> = std::iter::repeat_n(Step::Look, 50).collect();
            walk.extend([Step::Open(false), Step::ReadAll(Mix::one(256 * K)), Step::Close]);
            let mut backup = group("backup", 0, 1, walk);
            backup.order = Order::Sequential;
            (vec![archive], vec![group("whole", 0, 48, whole), group("random", 0, 48, some), backup])
        }
        "swbuild" => {
            let sources = set("sources", at, (2, 10, files(5_000).div_ceil(100)), Mix::around(12 * K), 100);
            let mut objects = set("objects", at, (1, 20, files(2_000).div_ceil(20)), Mix::around(24 * K), 40);
            objects.shared = false;
            let mut compile: Vec<Step> = std::iter::repeat_n(Step::Look, 14).collect();
            compile.extend((0..3).flat_map(|_| read(&all)));
            compile.push(Step::List);
            let object = vec![
                Step::Create,
                Step::WriteAll(Mix::one(64 * K)),
                Step::Close,
                Step::Look,
                Step::Look,
                Step::Open(false),
                Step::ReadAll(all.clone()),
                Step::Close,
                Step::Delete,
            ];
            (vec![sources, objects], vec![group("sources", 0, 12, compile), group("objects", 1, 4, object)])
        }
        _ => return None,
    };
    Some(Flow {
        name: name.to_owned(),
        filesets,
        groups,
        arrivals: Arrivals::Closed,
        time: None,
        ramp: Duration::ZERO,
        format: Format::Fill,
        access,
        seed: 1,
    })
}
