//! `zpool wait`: waits for background activities of a pool to end. `-w` of other verbs does the
//! same.
//!
//! Facts: zpool_do_wait, print_wait_status_row (cmd/zpool/zpool_main.c), spa_activity_in_progress
//! (module/zfs/spa.c).
//!
//! Invariants:
//!   * a pool that cannot write has no background activity: waiting for it fails at once

use super::iostat::{Stamp, pace};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::number::number;
use crate::shared_options::{EXACT, SCRIPTED, STAMP};
use crate::verb::{Call, Verb, for_anyone};
use admin::state::Imported;
use pool::status::{PoolStatus, Progress, ScanKind, VdevStatus};
use std::time::{Duration, Instant};

/// A background activity of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Freeing the blocks that only a discarded checkpoint uses.
    Discard,
    /// Freeing the blocks of destroyed datasets.
    Free,
    /// Initialize: writing to all free space.
    Initialize,
    /// Resilvering the replacement of a device.
    Replace,
    /// Device removal: copying a device's blocks away.
    Remove,
    /// Resilver: writing what devices miss.
    Resilver,
    /// Scrub: reading all blocks.
    Scrub,
    /// Trim: sending the free ranges to devices.
    Trim,
    RaidzExpand,
}

/// All activities with their names for `-t`, in column order.
pub const ALL: [(Activity, &str); 9] = [
    (Activity::Discard, "discard"),
    (Activity::Free, "free"),
    (Activity::Initialize, "initialize"),
    (Activity::Replace, "replace"),
    (Activity::Remove, "remove"),
    (Activity::Resilver, "resilver"),
    (Activity::Scrub, "scrub"),
    (Activity::Trim, "trim"),
    (Activity::RaidzExpand, "raidz_expand"),
];

/// Interval at which the activities are polled.
const LOOK: Duration = Duration::from_millis(100);
/// Number of lines between two headings.
const SCREEN: u64 = 24;

/// The row of `zpool wait`.
pub static VERB: Verb = for_anyone("wait", "Wait for background activity to finish", run)
    .usage(&["[-Hp] [-T d|u] [-t activity[,activity]...] pool [interval]"])
    .options(&[
        SCRIPTED,
        EXACT,
        flag('n', "Print the headings once only."),
        STAMP,
        value('t', "activity,...", ArgKind::Words(&ACTIVITIES), "Wait for these activities instead of all."),
    ])
    .operands(&[ArgKind::Pool])
    .examples(&[("zpool wait -t scrub,resilver tank", "Wait until a pool has no scrub and no resilver.")]);

/// The words of `-t`.
const ACTIVITIES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut i = 0;
    while i < ALL.len() {
        names[i] = ALL[i].1;
        i += 1;
    }
    names
};

/// `zpool wait`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let mut wanted: Vec<Activity> = ALL.map(|(activity, _)| activity).to_vec();
    if let Some(list) = parsed.last('t') {
        wanted.clear();
        for name in list.split(',') {
            let found = ALL.iter().find(|(_, n)| *n == name);
            let (activity, _) = found.ok_or_else(|| Failure::usage(format!("invalid activity '{name}'")))?;
            wanted.push(*activity);
        }
    }
    let stamp = Stamp::parse(parsed)?;
    let (operands, interval, count) = pace(parsed);
    let pool = match operands.as_slice() {
        [] => return Err(Failure::usage("missing 'pool' argument")),
        [pool] if count.is_none() => pool,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let record = super::writing::record(cx, pool)?;
    let once = parsed.has('n') || !cx.client.output_is_terminal();
    let mut row = 0;
    let mut shown = Shown { wanted: &wanted, scripted: parsed.has('H'), literal: parsed.has('p') };
    let mut next = Instant::now();
    wait(cx, &record, &wanted, &mut |cx, left| {
        let Some(interval) = interval else { return };
        if Instant::now() < next {
            return;
        }
        next = Instant::now() + interval;
        stamp.print(cx);
        let heading = row == 0 || (!once && row % SCREEN == 0);
        cx.print(&shown.line(left, heading));
        let _ = cx.out.flush();
        row += 1;
    })
}

/// Waits until none of these activities is active: for `-w` of other verbs.
pub fn until_done(cx: &mut Context<'_>, record: &Imported, wanted: &[Activity]) -> Outcome {
    let _ = cx.out.flush();
    wait(cx, record, wanted, &mut |_, _| ())
}

type Left = [Option<u64>; ALL.len()];

fn wait(
    cx: &mut Context<'_>,
    record: &Imported,
    wanted: &[Activity],
    look: &mut dyn FnMut(&mut Context<'_>, &Left),
) -> Outcome {
    let cannot = format!("cannot wait for '{}'", record.name);
    let failed = |why: String| Failure::failed(format!("{cannot}: {why}"));
    loop {
        let owned = super::pools::owned(cx, record).map_err(|e| failed(format!("{e:#}")))?;
        let suspended = owned.as_ref().is_some_and(|owned| owned.suspension().is_some());
        let writable = owned.as_ref().and_then(|owned| owned.writable());
        let has_owner = writable.is_some();
        // A resilver that was just requested is not in the configuration yet.
        let resilver_due = writable.is_some_and(|pool| pool.writer().scan_activity().resilvering);
        drop(owned);
        let pool = super::pools::open(cx, record)?;
        let status = pool.status().map_err(|e| failed(e.to_string()))?;
        let freeing = pool.freeing_bytes().map_err(|e| failed(e.to_string()))?;
        drop(pool);
        let left = left(&status, freeing, resilver_due);
        look(cx, &left);
        let goes_on = ALL.iter().zip(&left).any(|((activity, _), left)| wanted.contains(activity) && left.is_some());
        if !goes_on {
            return Ok(0);
        }
        if suspended {
            return Err(failed("pool I/O is currently suspended".to_owned()));
        }
        if !has_owner {
            return Err(failed(
                "no process has the pool open for writing, so there is no activity to wait for: start 'weir serve'"
                    .to_owned(),
            ));
        }
        if cx.client.is_gone() || cx.owner.as_ref().is_some_and(|owner| !owner.is_ready()) {
            return Ok(1);
        }
        // Exported in the meantime: there is nothing left to wait for.
        if cx.state.pool(&record.name).is_ok_and(|found| found.is_none()) {
            return Ok(0);
        }
        std::thread::sleep(LOOK);
    }
}

/// The bytes left to do for each activity; `None`: it is not active.
fn left(status: &PoolStatus, freeing: u64, resilver_due: bool) -> Left {
    let scan = status.scan.as_ref().filter(|s| s.state == Progress::Active);
    let scan_left = |kinds: &[ScanKind]| {
        let scan = scan.filter(|s| kinds.contains(&s.kind) && s.pause_time == 0)?;
        Some(scan.to_examine_bytes.saturating_sub(scan.issued_bytes()))
    };
    let work = |of: fn(&VdevStatus) -> pool::status::VdevWork| {
        let going: Vec<_> = status.root.walk().into_iter().map(of).filter(|work| work.state == 1).collect();
        (!going.is_empty()).then(|| going.iter().map(|w| w.total_bytes.saturating_sub(w.done_bytes)).sum())
    };
    let rebuilds = status.rebuilds().filter(|(_, r)| r.progress() == Progress::Active);
    let rebuild =
        rebuilds.map(|(_, r)| r.now.total_bytes.saturating_sub(r.now.rebuilt_bytes)).reduce(|all, left| all + left);
    let resilver = scan_left(&[ScanKind::Resilver]).or(rebuild).or(resilver_due.then_some(0));
    let replaces = status.root.walk().iter().any(|v| v.kind == "replacing");
    let spares = status.root.walk().iter().any(|v| v.kind == "spare");
    ALL.map(|(activity, _)| match activity {
        Activity::Discard => status.checkpoint.as_ref().filter(|c| c.discarding).map(|c| c.space_bytes),
        Activity::Free => Some(freeing).filter(|bytes| *bytes > 0),
        Activity::Initialize => work(|v| v.initialize),
        // A spare in use stays attached beside the device it replaces.
        Activity::Replace => resilver.filter(|_| replaces || spares).or(replaces.then_some(0)),
        Activity::Remove => {
            let removal = status.removal.as_ref().filter(|r| r.state == Progress::Active);
            removal.map(|r| r.to_copy_bytes.saturating_sub(r.copied_bytes))
        }
        Activity::Resilver => resilver,
        Activity::Scrub => scan_left(&[ScanKind::Scrub, ScanKind::ErrorScrub]),
        Activity::Trim => work(|v| v.trim),
        Activity::RaidzExpand => {
            let expand = status.expand.as_ref().filter(|e| e.state == Progress::Active);
            expand.map(|e| e.to_reflow_bytes.saturating_sub(e.reflowed_bytes))
        }
    })
}

struct Shown<'a> {
    wanted: &'a [Activity],
    scripted: bool,
    literal: bool,
}

impl Shown<'_> {
    fn line(&mut self, left: &Left, heading: bool) -> String {
        let columns = || ALL.iter().zip(left).filter(|((activity, _), _)| self.wanted.contains(activity));
        let width = |name: &str| name.len().max(6) + 2;
        let mut out = String::new();
        if heading && !self.scripted {
            out.extend(columns().map(|((_, name), _)| format!("{:>width$}", name.to_uppercase(), width = width(name))));
            out.push('\n');
        }
        let cell = |left: &Option<u64>| number(left.unwrap_or(0), self.literal);
        if self.scripted {
            out += &columns().map(|(_, left)| cell(left)).collect::<Vec<_>>().join("\t");
        } else {
            out.extend(columns().map(|((_, name), left)| format!(" {:>width$}", cell(left), width = width(name) - 1)));
        }
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pool::status::{ScanStatus, VdevWork};

    #[test]
    fn what_goes_on_is_told_in_bytes_that_are_left() {
        let mut status = PoolStatus::default();
        assert_eq!(left(&status, 0, false), [None; 9]);
        status.scan = Some(ScanStatus {
            kind: ScanKind::Resilver,
            state: Progress::Active,
            to_examine_bytes: 4096,
            examined_bytes: 1024,
            ..ScanStatus::default()
        });
        let trimming = VdevWork { state: 1, done_bytes: 10, total_bytes: 30, ..VdevWork::default() };
        status.root.children = vec![
            VdevStatus { kind: "replacing".into(), ..VdevStatus::default() },
            VdevStatus { kind: "disk".into(), trim: trimming, ..VdevStatus::default() },
        ];
        let all = left(&status, 7, false);
        assert_eq!(all, [None, Some(7), None, Some(3072), None, Some(3072), None, Some(20), None]);
        let mut shown = Shown { wanted: &[Activity::Free, Activity::Resilver], scripted: false, literal: false };
        assert_eq!(shown.line(&all, true), "    FREE  RESILVER\n       7        3K\n");
        shown = Shown { wanted: &[Activity::Free, Activity::Resilver], scripted: true, literal: true };
        assert_eq!(shown.line(&all, true), "7\t3072\n");
        status.scan.as_mut().expect("one").kind = ScanKind::Scrub;
        status.scan.as_mut().expect("one").pause_time = 5;
        assert_eq!(left(&status, 0, true)[5], Some(0), "one is about to begin");
        assert_eq!(left(&status, 0, false)[6], None, "a scrub that pauses is not waited for");
    }
}
