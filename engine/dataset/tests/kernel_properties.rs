//! Every property of every dataset equals what the kernel module printed for it, with its source.
//!
//! The images are those of the scenarios (`WEIR_FIXTURES`, unpacked as SCENARIO/DEVICE). The
//! kernel's output is in `WEIR_RECORDED`:
//!
//! * SCENARIO/zfs-get-readonly.txt, `zfs get -Hp -r -t all all` of a read-only import of that very
//!   image, and zfs-get-readonly-human.txt, the same without `-p`: every line must be equal, and in
//!   this order
//! * SCENARIO/zfs-get.txt, recorded before the export: allows for what reading all files and the
//!   export itself wrote afterwards, see [`DRIFTING`]

use dataset::{Accounts, Datasets, Entry, KeyStore, ListOptions, Mounts, Principal, View, property};
use pool::{OpenOptions, Pool, search};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: set {variable}, see the head of this file");
    }
    folder
}

fn open(folder: &Path) -> Arc<Datasets> {
    let found = search(&[folder.to_owned()]);
    let pool = Pool::open(&found.pools[0], &OpenOptions::default()).unwrap();
    Datasets::open(pool).unwrap()
}

/// Weir's lines of `zfs get -Hp -r -t all all`, or of `zfs get -H …`.
fn our_lines(datasets: &Arc<Datasets>, view: &View<'_>, human: bool) -> Vec<String> {
    let list = datasets.list(&[], &ListOptions::all()).unwrap();
    assert!(list.errors.is_empty(), "{:?}", list.errors);
    let user = property::user_property_names(&list.entries).unwrap();
    let mut lines = Vec::new();
    for entry in &list.entries {
        let mut all = property::all(entry, view).unwrap();
        // One list of many datasets has one order of user properties.
        all.sort_by_key(|p| user.iter().position(|name| *name == p.name).map_or(0, |at| at + 1));
        for p in all {
            let value = if human { &p.value.human } else { &p.value.raw };
            lines.push(format!("{}\t{}\t{value}\t{}", entry.name(), p.name, p.source));
        }
    }
    lines
}

/// The differences, as lines of a diff; order matters.
fn differences(kernel: &[String], ours: &[String]) -> Vec<String> {
    let key = |line: &String| line.splitn(3, '\t').take(2).collect::<Vec<_>>().join("\t");
    let index = |lines: &[String]| lines.iter().map(|l| (key(l), l.clone())).collect::<BTreeMap<_, _>>();
    let (theirs, mine) = (index(kernel), index(ours));
    let mut out = Vec::new();
    for (k, line) in &theirs {
        if mine.get(k) != Some(line) {
            out.push(format!("kernel: {line}\n  ours: {}", mine.get(k).map_or("(nothing)", String::as_str)));
        }
    }
    out.extend(mine.iter().filter(|(k, _)| !theirs.contains_key(*k)).map(|(_, line)| format!("ours alone: {line}")));
    if out.is_empty() && kernel != ours {
        let at = kernel.iter().zip(ours).position(|(a, b)| a != b).unwrap_or(0);
        out.push(format!("order: kernel {}, ours {}", kernel[at], ours[at]));
    }
    out
}

/// Numbers that the recording itself changed: it read all files (access times) and then exported.
const DRIFTING: [&str; 13] = [
    "used",
    "available",
    "referenced",
    "compressratio",
    "refcompressratio",
    "usedbysnapshots",
    "usedbydataset",
    "usedbychildren",
    "written",
    "logicalused",
    "logicalreferenced",
    // Pools without feature flags keep these only in memory.
    "snapshots_changed",
    // The encrypted ones were mounted then; here no key is loaded.
    "keystatus",
];
/// Maximum difference of such a number, in bytes: one access time per file, a few hundred files.
const DRIFT_MAX: u64 = 1 << 20;

/// Whether a number that the recording changed is about the same, or the property may differ.
fn drifted(kernel: &str, ours: Option<&str>) -> bool {
    let mut fields = kernel.split('\t');
    let (_, Some(property), Some(value)) = (fields.next(), fields.next(), fields.next()) else { return false };
    let number = |text: &str| text.replace('.', "").parse::<u64>().ok();
    match (number(value), ours.and_then(|line| line.split('\t').nth(2)).and_then(number)) {
        (Some(a), Some(b)) if DRIFTING.contains(&property) => a.abs_diff(b) <= DRIFT_MAX,
        _ => matches!(property, "snapshots_changed" | "keystatus"),
    }
}

fn scenarios() -> Vec<(PathBuf, PathBuf)> {
    let (Some(images), Some(recorded)) = (folder("WEIR_FIXTURES"), folder("WEIR_RECORDED")) else { return Vec::new() };
    let mut scenarios: Vec<_> = std::fs::read_dir(recorded).unwrap().map(|e| e.unwrap().path()).collect();
    scenarios.sort();
    let with_image = scenarios.into_iter().map(|s| (images.join(s.file_name().unwrap()), s));
    with_image.filter(|(image, scenario)| image.is_dir() && scenario.join("zfs-get.txt").exists()).collect()
}

fn recorded_lines(scenario: &Path, file: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(scenario.join(file)).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn all_properties_of_all_datasets_equal_the_kernels() {
    let mut failed = 0;
    for (image, scenario) in scenarios() {
        let datasets = open(&image);
        let keys = KeyStore::new();
        let view = View { keys: Some(&keys), mounts: Mounts::None, ..View::default() };
        for (file, human) in [("zfs-get-readonly.txt", false), ("zfs-get-readonly-human.txt", true)] {
            let Some(kernel) = recorded_lines(&scenario, file) else { continue };
            let differences = differences(&kernel, &our_lines(&datasets, &view, human));
            println!("{} {file}: {} lines, {} differ", scenario.display(), kernel.len(), differences.len());
            differences.iter().take(40).for_each(|d| println!("{d}"));
            failed += differences.len();
        }
    }
    assert_eq!(failed, 0);
}

#[test]
fn all_properties_are_those_recorded_before_the_export_except_for_later_changes() {
    let mut failed = Vec::new();
    for (image, scenario) in scenarios() {
        let Some(kernel) = recorded_lines(&scenario, "zfs-get.txt") else { continue };
        let datasets = open(&image);
        let mounted = |name: &str| kernel.iter().any(|line| *line == format!("{name}\tmounted\tyes\t-"));
        let view = View { mounts: Mounts::Of(&mounted), ..View::default() };
        let ours = our_lines(&datasets, &view, false);
        let key = |line: &str| line.splitn(3, '\t').take(2).collect::<Vec<_>>().join("\t");
        let mine: BTreeMap<String, &str> = ours.iter().map(|l| (key(l), l.as_str())).collect();
        for line in &kernel {
            let ours = mine.get(&key(line)).copied();
            if ours != Some(line) && !drifted(line, ours) {
                failed.push(format!("kernel: {line}\n  ours: {}", ours.unwrap_or("(nothing)")));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// An import mounts what the kernel had mounted.
#[test]
fn an_import_mounts_the_datasets_that_the_kernel_had_mounted() {
    // In the pool `properties` some datasets were received or created with `-u`.
    for (image, scenario) in scenarios().into_iter().filter(|(_, s)| !s.ends_with("properties")) {
        let Some(kernel) = recorded_lines(&scenario, "zfs-get.txt") else { continue };
        let datasets = open(&image);
        let view = View { mounts: Mounts::AsImported, ..View::default() };
        for line in kernel.iter().filter(|l| l.contains("\tmounted\t")) {
            let fields: Vec<&str> = line.split('\t').collect();
            let entry = datasets.entry(fields[0]).unwrap();
            let encrypted = entry.dataset().unwrap().crypto_object().unwrap().is_some();
            let ours = property::get(&entry, "mounted", &view).unwrap().unwrap().value.raw;
            // Without its key an encrypted file system stays unmounted.
            assert_eq!(ours, if encrypted { "no" } else { fields[2] }, "{line}");
        }
    }
}

#[test]
fn holds_are_those_of_the_kernel() {
    for (image, scenario) in scenarios() {
        let Some(kernel) = recorded_lines(&scenario, "zfs-holds.txt") else { continue };
        let list = open(&image).list(&[], &ListOptions::all()).unwrap();
        let mut held = Vec::new();
        for d in list.entries.iter().filter_map(Entry::dataset) {
            held.extend(d.holds().unwrap().into_iter().map(|h| (format!("{}\t{}", d.name(), h.tag), h.time)));
        }
        held.sort();
        // With a date or the seconds, as recorded.
        let mut kernel: Vec<Vec<&str>> = kernel.iter().map(|line| line.rsplitn(2, '\t').collect()).collect();
        kernel.sort_by_key(|line| line[1]);
        assert_eq!(held.len(), kernel.len(), "{}", scenario.display());
        for ((hold, time), line) in held.iter().zip(kernel) {
            assert_eq!(hold, line[1]);
            assert!(line[0].parse() == Ok(*time) || line[0] == property::format::date(*time, false), "{line:?}");
        }
    }
}

/// The image `properties`: columns that `zfs list` shows on request, the column RECEIVED, and
/// `written@…`.
#[test]
fn properties_shown_only_on_request_match_the_kernel() {
    for (image, scenario) in scenarios().into_iter().filter(|(_, s)| s.ends_with("properties")) {
        let datasets = open(&image);
        let view = View::default();
        let raw = |entry: &Entry, name: &str| {
            property::get(entry, name, &view).unwrap().map_or_else(|| "-".to_owned(), |p| p.value.raw)
        };
        let columns = [
            "name",
            "clones",
            "numclones",
            "prevsnap",
            "inconsistent",
            "unique",
            "redacted",
            "ivsetguid",
            "keyguid",
            "pbkdf2salt",
            "redact_snaps",
            "receive_resume_token",
            "useraccounting",
            "name",
        ];
        let ours: Vec<String> = (datasets.list(&[], &ListOptions::all()).unwrap().entries.iter())
            .map(|entry| columns.map(|name| raw(entry, name)).join("\t"))
            .collect();
        assert_eq!(ours, recorded_lines(&scenario, "zfs-list-hidden.txt").unwrap());

        for line in recorded_lines(&scenario, "zfs-get-received.txt").unwrap() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [name, property, value, received, source] = fields[..] else { panic!("{line}") };
            let entry = datasets.entry(name).unwrap();
            let ours = property::get(&entry, property, &view).unwrap().unwrap();
            let came = property::received(&entry, property).unwrap().map_or_else(|| "-".to_owned(), |v| v.raw);
            assert_eq!((ours.value.raw.as_str(), came.as_str()), (value, received), "{line}");
            assert_eq!(ours.source.to_string(), source, "{line}");
        }

        for line in recorded_lines(&scenario, "zfs-get-written.txt").unwrap() {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(raw(&datasets.entry(fields[0]).unwrap(), fields[1]), fields[2], "{line}");
        }
    }
}

/// `zfs get -Hp written@…,userused@…` of the image `history`, as printed by the kernel module.
#[test]
fn space_since_snapshots_and_by_user_is_that_of_the_kernel() {
    let Some(images) = folder("WEIR_FIXTURES") else { return };
    let datasets = open(&images.join("history"));
    let view = View::default();
    let cases = [
        ("th", "written@s1", Some("15360")),
        ("th", "written@s5", Some("15360")),
        ("th", "written#mark", None),
        ("th", "userused@0", Some("2560")),
        ("th", "userused@1000", Some("0")),
        ("th/fs", "written@s1", None),
        ("th/fs", "written@s5", Some("199680")),
        ("th/fs", "written#mark", Some("123904")),
        // The space that a clone wrote since its origin is what its head uses.
        ("th/fs", "written@th/prom@s4", Some("304640")),
        ("th/fs", "userused@0", Some("1103360")),
        ("th/fs", "userused@1000", Some("1024")),
        ("th/prom", "written@s1", Some("552960")),
        ("th/prom", "written@s2", Some("351744")),
        ("th/prom", "written@s4", Some("28672")),
        ("th/prom", "written@s5", None),
        ("th/prom", "userused@0", Some("892928")),
    ];
    for (name, property, kernel) in cases {
        let entry = datasets.entry(name).unwrap();
        let ours = property::get(&entry, property, &view).unwrap().map(|p| p.value.raw);
        assert_eq!(ours.as_deref(), kernel, "{name} {property}");
    }
}

/// `zfs userspace -Hnp` of the image `gang`, and the quotas that the recipe of `everything` sets.
#[test]
fn the_usage_of_users_and_groups_matches_the_kernel() {
    let Some(images) = folder("WEIR_FIXTURES") else { return };
    let keys = KeyStore::new();
    let accounts = |scenario: &str, name: &str| {
        let dataset = open(&images.join(scenario)).dataset(name).unwrap();
        Accounts::open(&dataset, &keys).unwrap()
    };
    let line = |u: &dataset::Usage| {
        (u.id, u.used_bytes.unwrap(), u.quota_bytes.unwrap(), u.used_objects.unwrap(), u.quota_objects.unwrap())
    };
    let lines = |a: &Accounts, who| a.all(who).unwrap().iter().map(line).collect::<Vec<_>>();
    let gang = accounts("gang", "tj");
    assert_eq!(
        lines(&gang, Principal::User),
        [(0, 2_528_256, 0, 330, 0), (1000, 1024, 0, 1, 0), (4_000_000_000, 1024, 0, 1, 0)]
    );
    assert_eq!(lines(&gang, Principal::Group), [(0, 2_528_256, 0, 330, 0), (77, 1024, 0, 1, 0), (1001, 1024, 0, 1, 0)]);
    if images.join("properties").is_dir() {
        let uq = accounts("properties", "tp/uq");
        // The id 99 owns nothing; the second object quota is of group 21.
        let bytes = |u: &dataset::Usage| (u.id, u.used_bytes.unwrap(), u.quota_bytes.unwrap());
        let ids = |who| uq.all(who).unwrap().iter().map(|u| u.id).collect::<Vec<_>>();
        assert_eq!(ids(Principal::User), [0, 10, 20, 30, 99]);
        let quotas = |who| uq.all(who).unwrap().iter().map(|u| (u.id, bytes(u).2, u.quota_objects)).collect::<Vec<_>>();
        assert_eq!(
            quotas(Principal::Group),
            [(0, 0, Some(0)), (11, 3 << 20, Some(0)), (21, 0, Some(50)), (31, 0, Some(0))]
        );
        assert_eq!(quotas(Principal::Project), [(0, 0, Some(0)), (77, 4 << 20, Some(40))]);
    }
    let quotas = accounts("everything", "tank/q");
    let quota = |who, id| quotas.all(who).unwrap().iter().find(|u| u.id == id).and_then(|u| u.quota_bytes);
    assert_eq!(quota(Principal::User, 1000), Some(20 << 20));
    assert_eq!(quota(Principal::Group, 77), Some(10 << 20));
}

#[test]
fn a_key_unlocks_its_root_and_inheriting_datasets() {
    let Some(images) = folder("WEIR_FIXTURES") else { return };
    let datasets = open(&images.join("encrypted"));
    let keys = KeyStore::new();
    let child = datasets.dataset("te/gcm/child@s").unwrap();
    assert!(matches!(child.objset(&keys), Err(errors::Error::KeyUnavailable { .. })));
    let wrong = keys.load(&child, b"not this horse").unwrap_err();
    assert!(wrong.is_incorrect_key(), "{wrong}");
    keys.load(&child, b"correct horse 1\n").unwrap();
    for name in ["te/gcm", "te/gcm@s", "te/gcm/child", "te/gcm/child@s"] {
        let dataset = datasets.dataset(name).unwrap();
        assert!(keys.is_available(&dataset).unwrap());
        // Objects from 2 on need the key; the root directory is one of them.
        let objset = dataset.objset(&keys).unwrap();
        let mut object = 0;
        while let Some(next) = objset.next_object(object).unwrap() {
            object = next;
            assert!(objset.object(object).unwrap().block(0).is_ok(), "{name} object {object}");
        }
    }
    let other = datasets.dataset("te/ccm").unwrap();
    assert!(!keys.is_available(&other).unwrap() && other.objset(&keys).is_err());
    assert!(keys.unload(&child).unwrap());
    assert!(matches!(child.objset(&keys), Err(errors::Error::KeyUnavailable { .. })));
}
