//! Scheduled snapshots, with a clock that the test sets: what is taken, what is kept, and what is
//! never touched.

use admin::create::{CreateRequest, create};
use admin::layout::Layout;
use admin::schedule::{Done, Label, MARK, Round, next, run};
use admin::write::{WritablePool, maker};
use dataset::ListOptions;
use dataset::write::{self, NewDataset};
use std::collections::BTreeMap;

/// 2026-11-22 23:00 UTC, a Sunday.
const START: u64 = 1_795_388_400;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

struct Filer {
    pool: WritablePool,
    done: Done,
    _folder: tempfile::TempDir,
}

impl Filer {
    fn new(datasets: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk");
        std::fs::File::create(&disk).and_then(|f| f.set_len(256 << 20)).expect("an image file");
        let layout = Layout::parse(&[disk.display().to_string()]).expect("a layout");
        let pool =
            create(&CreateRequest { name: "tank".to_owned(), layout, ..CreateRequest::default() }).expect("a pool");
        for name in datasets {
            let new = NewDataset { name: (*name).to_owned(), ..NewDataset::default() };
            write::create(&pool.live, &new, maker()).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        Self { pool, done: Done::default(), _folder: folder }
    }

    fn set(&self, dataset: &str, property: &str, value: &str) {
        write::set(&self.pool.live, dataset, &[(property.to_owned(), value.to_owned())]).expect("set");
    }

    fn run(&mut self, now: u64) -> BTreeMap<Label, Round> {
        run(&self.pool, now, &mut self.done).expect("run").into_iter().collect()
    }

    /// Runs as a new process, without knowledge of what was done.
    fn run_restarted(&mut self, now: u64) -> BTreeMap<Label, Round> {
        self.done = Done::default();
        self.run(now)
    }

    fn snapshots(&self, of: &str) -> Vec<String> {
        let options = ListOptions { filesystems: false, volumes: false, bookmarks: false, ..ListOptions::all() };
        let all = self.pool.live.synced().expect("datasets").list(&["tank"], &options).expect("a list");
        let own = all.entries.iter().filter_map(|e| e.name().split_once('@'));
        own.filter(|(head, _)| *head == of).map(|(_, short)| short.to_owned()).collect()
    }
}

#[test]
fn each_period_has_one_and_the_newest_are_kept() {
    let mut filer = Filer::new(&["tank/home", "tank/home/ann", "tank/other"]);
    filer.set("tank/home", "weir:snapshot-hourly", "3");
    let first = filer.run(START);
    assert_eq!(first[&Label::Hourly].taken.len(), 2, "it and its descendants: {first:?}");
    for minute in 1..60 {
        assert!(filer.run(START + minute * MINUTE).is_empty(), "minute {minute}");
    }
    for hour in 1..6 {
        let round = filer.run(START + hour * HOUR);
        assert_eq!(round[&Label::Hourly].taken.len(), 2);
        assert_eq!(round[&Label::Hourly].destroyed.len(), if hour < 3 { 0 } else { 2 }, "hour {hour}");
    }
    let kept = ["2026-11-23-0200", "2026-11-23-0300", "2026-11-23-0400"].map(|at| format!("zfs-auto-snap_hourly-{at}"));
    assert_eq!(filer.snapshots("tank/home"), kept);
    assert_eq!(filer.snapshots("tank/home/ann"), kept);
    assert_eq!(filer.snapshots("tank/other"), Vec::<String>::new());
    // A smaller number applies on the next run; without a rule nothing is taken or destroyed.
    filer.set("tank/home", "weir:snapshot-hourly", "1");
    assert_eq!(filer.run(START + 5 * HOUR + MINUTE)[&Label::Hourly].destroyed.len(), 4);
    filer.set("tank/home", "weir:snapshot-hourly", "0");
    assert!(filer.run(START + 9 * HOUR).is_empty());
    assert_eq!(filer.snapshots("tank/home").len(), 1);
    assert_eq!(next(START + MINUTE), START + 15 * MINUTE);
    filer.pool.close().expect("closed");
}

#[test]
fn missed_snapshots_are_taken_once_and_restarts_take_no_duplicates() {
    let mut filer = Filer::new(&[]);
    for (label, keep) in [("frequent", "4"), ("hourly", "24"), ("daily", "31"), ("weekly", "8"), ("monthly", "12")] {
        filer.set("tank", &format!("weir:snapshot-{label}"), keep);
    }
    assert_eq!(filer.run(START + 7 * MINUTE).len(), 5, "the first of each is taken immediately");
    assert!(filer.run_restarted(START + 8 * MINUTE).is_empty());
    let frequent = filer.run_restarted(START + 16 * MINUTE);
    assert_eq!(frequent.keys().collect::<Vec<_>>(), [&Label::Frequent]);
    // Three days without a process: one snapshot per missed label. The week has changed, the month
    // has not.
    let after = filer.run_restarted(START + 3 * DAY + 5 * MINUTE);
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), Label::ALL[..4]);
    assert!(after.values().all(|round| round.taken.len() == 1 && round.destroyed.is_empty()), "{after:?}");
    assert!(filer.run_restarted(START + 3 * DAY + 6 * MINUTE).is_empty());
    // A clock that was temporarily years ahead does not prevent later snapshots.
    filer.run_restarted(START + 3650 * DAY);
    assert_eq!(filer.run_restarted(START + 4 * DAY)[&Label::Daily].taken.len(), 1);
    // A snapshot that a user destroys is not taken again in its period.
    let newest = format!("tank@{}", Label::Daily.name_at(START + 4 * DAY));
    write::destroy_snapshots(&filer.pool.live, &[newest], false).expect("destroyed");
    assert!(filer.run(START + 4 * DAY + MINUTE).is_empty());
    filer.pool.close().expect("closed");
}

#[test]
fn only_snapshots_of_a_rule_without_holds_or_clones_are_destroyed() {
    let mut filer = Filer::new(&["tank/a"]);
    filer.set("tank/a", "weir:snapshot-hourly", "1");
    let take = |filer: &Filer, short: &str, mark: &[(String, String)]| {
        write::snapshot(&filer.pool.live, &[format!("tank/a@{short}")], mark).expect("taken");
    };
    // By hand, by zfs-auto-snapshot, and with the mark of another label.
    take(&filer, "mine", &[]);
    take(&filer, "zfs-auto-snap_hourly-2026-11-22-1100", &[]);
    take(&filer, "zfs-auto-snap_hourly-2026-11-22-1200", &[(MARK.to_owned(), "daily".to_owned())]);
    // The mark on a dataset does not apply to its snapshots.
    filer.set("tank/a", MARK, "hourly");
    for hour in 0..3 {
        filer.run(START + hour * HOUR);
        if hour == 0 {
            let held = format!("tank/a@{}", Label::Hourly.name_at(START));
            write::hold(&filer.pool.live, &[held], "keep").expect("held");
        }
        if hour == 1 {
            let origin = format!("tank/a@{}", Label::Hourly.name_at(START + HOUR));
            write::clone(&filer.pool.live, &origin, "tank/clone", &[]).expect("cloned");
        }
    }
    assert_eq!(filer.snapshots("tank/a").len(), 3 + 3, "{:?}", filer.snapshots("tank/a"));
    write::release(&filer.pool.live, &[format!("tank/a@{}", Label::Hourly.name_at(START))], "keep").expect("released");
    let round = filer.run(START + 3 * HOUR);
    assert_eq!(round[&Label::Hourly].destroyed.len(), 2, "the held one, and one that is due: {round:?}");
    let left = filer.snapshots("tank/a");
    let expected = [
        "mine",
        "zfs-auto-snap_hourly-2026-11-22-1100",
        "zfs-auto-snap_hourly-2026-11-22-1200",
        "zfs-auto-snap_hourly-2026-11-23-0000",
        "zfs-auto-snap_hourly-2026-11-23-0200",
    ];
    assert_eq!(left, expected);
    filer.pool.close().expect("closed");
}

#[test]
fn rules_are_inherited_ended_and_refused() {
    let mut filer = Filer::new(&["tank/a", "tank/a/b", "tank/a/b/c", "tank/d", "tank/e", "tank/f"]);
    filer.set("tank", "weir:snapshot-daily", "2,only");
    filer.set("tank/a", "weir:snapshot-daily", "2");
    filer.set("tank/a/b", "weir:snapshot-daily", "none");
    filer.set("tank/d", "weir:snapshot-daily", "lots");
    filer.set("tank/e", "weir:snapshot-daily", "2");
    filer.set("tank/e", "com.sun:auto-snapshot", "false");
    filer.set("tank/f", "weir:snapshot-daily", "2");
    filer.set("tank/f", "weir:snapshot-hourly", "2");
    filer.set("tank/f", "com.sun:auto-snapshot:daily", "false");
    let rounds = filer.run(START);
    let name = |of: &str, label: Label| format!("{of}@{}", label.name_at(START));
    assert_eq!(rounds[&Label::Daily].taken, ["tank", "tank/a"].map(|of| name(of, Label::Daily)));
    assert_eq!(rounds[&Label::Hourly].taken, [name("tank/f", Label::Hourly)]);
    let wrong = run(&filer.pool, START, &mut filer.done).expect("run");
    assert_eq!((wrong.len(), wrong[0].1.failed[0].0.as_str()), (1, "tank/d"), "{wrong:?}");
    // A snapshot that cannot be taken does not prevent the others.
    write::snapshot(&filer.pool.live, &[name("tank/a", Label::Daily).replace("22-2300", "23-2300")], &[])
        .expect("taken");
    let rounds = filer.run(START + DAY);
    assert_eq!(rounds[&Label::Daily].taken.len(), 1, "{rounds:?}");
    assert!(rounds[&Label::Daily].failed.iter().any(|(name, _)| name.starts_with("tank/a@")), "{rounds:?}");
    filer.pool.close().expect("closed");
}
