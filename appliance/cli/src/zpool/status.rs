//! `zpool status`: prints the state of each pool and of each of its devices.

use super::iostat::{Stamp, pace, wait};
use super::pools::{Selection, views};
use super::script_columns::{self, ScriptColumns};
use super::scrub::host_seconds as now;
use super::status_json;
use super::status_options::StatusOptions;
use super::vdev_words::{aux_words, is_healthy, shown_state};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, long_flag};
use crate::number::{ctime, duration, nice_bytes, nice_number, number};
use crate::shared_options::{EXACT, FOLLOW, GUIDS, JSON, JSON_INT, KEY_GUID, PATHS, SCRIPTS, STAMP};
use crate::verb::{Call, Verb, for_anyone};
use crate::zfs::datasets::Pools;
use admin::advice;
use admin::health;
use admin::vdev_names::{NameOptions, vdev_name, width};
use host::pace::Pace;
use pool::status::{
    CheckpointStatus, ExpandStatus, PoolStatus, Progress, RebuildStatus, RemovalStatus, ScanKind, ScanStatus,
    VdevClass, VdevState, VdevStatus, VdevWork,
};
use std::fmt::Write;

/// The row of `zpool status`.
pub static VERB: Verb = for_anyone("status", "Show the state of pools and their devices", run)
    .usage(&[
        "[-dDegiLpPstvx] [-c [script1[,script2]...]] [-T d|u] [-j [--json-flat-vdevs] [--json-int] [--json-pool-key-guid]] [pool] ... [interval [count]]",
    ])
    .options(&[
        SCRIPTS,
        JSON,
        flag('d', "Show the number of direct writes that failed their check."),
        flag('D', "Show the histogram of the dedup table."),
        flag('e', "Show only devices that are not healthy."),
        GUIDS,
        flag('i', "Show the progress of initialize."),
        FOLLOW,
        EXACT,
        PATHS,
        flag('s', "Show the number of slow operations."),
        flag('t', "Show the progress of trim."),
        STAMP,
        flag('v', "List the files that are damaged."),
        flag('x', "Show only pools that are not healthy."),
        JSON_INT,
        long_flag('F', "json-flat-vdevs", "With -j, put all devices into one object."),
        KEY_GUID,
        long_flag('W', "power", "Show the power of the slots of devices.")
            .refused(NOT_SUPPORTED),
    ])
    .operands(&[ArgKind::Pool])
    .examples(&[("zpool status -x", "Show what is wrong with any pool."), ("zpool status -v tank", "List the damaged files of a pool.")]);

const NOT_SUPPORTED: &str = "unsupported: 'zpool status' with '--power', or with '-c' and '-j'";

/// `zpool status`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if let Some(outcome) = script_columns::check(cx, "status", parsed) {
        return outcome;
    }
    let options = StatusOptions {
        verbose: parsed.has('v'),
        explain: parsed.has('x'),
        literal: parsed.has('p') || parsed.has('I'),
        unhealthy: parsed.has('e'),
        slow: parsed.has('s'),
        direct: parsed.has('d'),
        initialize: parsed.has('i'),
        trim: parsed.has('t'),
        dedup: parsed.has('D'),
        names: NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') },
        json_int: parsed.has('I'),
        flat: parsed.has('F'),
        key_guid: parsed.has('G'),
    };
    let json = parsed.has('j');
    let only_json = [('I', "'--json-int'"), ('F', "'--json-flat-vdevs'"), ('G', "'json-pool-key-guid'")];
    for (letter, name) in only_json {
        if parsed.has(letter) && !json {
            return Err(Failure::usage(format!("{name} only works with '-j' option")));
        }
    }
    if json && parsed.has('c') {
        return Err(Failure::failed(NOT_SUPPORTED));
    }
    let stamp = Stamp::parse(parsed)?;
    let (names, interval, count) = pace(parsed);
    let mut pace = Pace::new(interval, count);
    let mut first = true;
    loop {
        stamp.print(cx);
        let code = report(cx, parsed, &names, &options, &mut first)?;
        let more = pace.made();
        let _ = cx.out.flush();
        if !more || !wait(cx, &mut pace) {
            return Ok(code);
        }
    }
}

/// Prints one report. `first`: nothing has been printed before it.
fn report(
    cx: &mut Context<'_>,
    parsed: &Parsed,
    names: &[String],
    options: &StatusOptions,
    first: &mut bool,
) -> Outcome {
    let Selection { mut views, code } = views(cx, names)?;
    if options.verbose {
        for view in views.iter_mut().filter(|v| v.status.error_count != 0) {
            view.status.errors = damaged_files(cx, &view.status.name).unwrap_or_default();
        }
    }
    if options.dedup {
        for view in &mut views {
            let tables = &mut view.status.dedup;
            tables.cached_bytes = dedup_cached_bytes(cx, &view.status.name).map(|bytes| bytes.min(tables.core_bytes));
        }
    }
    let statuses: Vec<&PoolStatus> = views.iter().map(|v| &v.status).collect();
    if parsed.has('j') {
        if !statuses.is_empty() || code == 0 {
            cx.print(&status_json::document(&statuses, options));
        }
        return Ok(code);
    }
    let scripts = ScriptColumns::of(cx.client, parsed, &statuses, &[])?.unwrap_or_default();
    let all = names.is_empty();
    let mut shown = false;
    for view in &views {
        let text = pool(&view.status, options, &scripts, all);
        if text.is_empty() {
            continue;
        }
        if !std::mem::take(first) {
            cx.print("\n");
        }
        cx.print(&text);
        shown = true;
    }
    for view in &views {
        let pools = cx.owner.iter().flat_map(|owner| owner.house.list());
        let why = pools.filter(|p| p.name() == view.status.name).find_map(|p| p.why_read_only().map(str::to_owned));
        if let Some(why) = why {
            cx.complain(&format!("weir: '{}' is open read-only: {why}", view.status.name));
        }
    }
    if all && views.is_empty() && code == 0 {
        cx.complain("no pools available");
    } else if all && options.explain && !shown && code == 0 {
        cx.print("all pools are healthy\n");
    }
    Ok(code)
}

/// The names of the damaged files of an imported pool. `None`: they cannot be read.
fn damaged_files(cx: &mut Context<'_>, name: &str) -> Option<Vec<String>> {
    let open = cx.owner.iter().flat_map(|owner| owner.house.list()).find(|pool| pool.name() == name);
    if let Some(pool) = open {
        return pool.damaged_files().ok();
    }
    let pool = Pools::new(cx).pool(cx, name).ok()??;
    let found = admin::view::damaged_files(&pool.datasets, &pool.keys, pool.record.altroot.as_deref());
    found.ok().map(|(names, _)| names)
}

/// The size of the dedup tables that this process has in memory. `None`: it does not have the pool
/// open.
fn dedup_cached_bytes(cx: &Context<'_>, name: &str) -> Option<u64> {
    let open = cx.owner.iter().flat_map(|owner| owner.house.list()).find(|pool| pool.name() == name)?;
    open.pool().ok()?.dedup_cached_bytes().ok()
}

/// The report of one pool. For a healthy pool with `-x` it is empty, or one line if the pool was
/// named (`all_pools` is false).
pub fn pool(status: &PoolStatus, options: &StatusOptions, scripts: &ScriptColumns, all_pools: bool) -> String {
    let reason = health::reason(status, false);
    if options.explain && reason.is_healthy() {
        return if all_pools { String::new() } else { format!("pool '{}' is healthy\n", status.name) };
    }
    let mut out = format!("  pool: {}\n state: {}\n", status.name, health::pool_state(status));
    if let Some((text, action)) = advice::imported(reason) {
        let _ = write!(out, "status: {text}");
        if !action.is_empty() {
            let _ = write!(out, "action: {action}");
        }
    }
    if let Some(id) = reason.message_id() {
        let _ = writeln!(out, "   see: https://openzfs.github.io/openzfs-docs/msg/{id}");
    }
    scans(&mut out, status);
    if let Some(r) = &status.removal {
        removal(&mut out, r, &status.root);
    }
    if let Some(c) = &status.checkpoint {
        checkpoint(&mut out, c);
    }
    if let Some(e) = &status.expand {
        expand(&mut out, e, &status.root);
    }
    config(&mut out, status, options, scripts);
    out.push('\n');
    match status.error_count {
        0 => out.push_str("errors: No known data errors\n"),
        n if !options.verbose => {
            let _ = writeln!(out, "errors: {n} data errors, use '-v' for a list");
        }
        _ => {
            out.push_str("errors: Permanent errors have been detected in the following files:\n\n");
            for path in &status.errors {
                let _ = writeln!(out, "        {path}");
            }
        }
    }
    if options.dedup {
        dedup(&mut out, status, options.literal);
    }
    out
}

/// The rate in bytes per second below which OpenZFS estimates no completion time.
const TELLING_RATE: u64 = 10 << 20;

/// Prints the scan lines: a scrub always; of resilver and rebuild the active one, otherwise the one
/// that ended last.
fn scans(out: &mut String, status: &PoolStatus) {
    let rebuilding = status.rebuilds().any(|(_, r)| r.progress() == Progress::Active);
    let rebuilt = status.rebuilds().map(|(_, r)| r.now.end_time).max().unwrap_or(0);
    let resilver = status.scan.as_ref().filter(|s| s.kind == ScanKind::Resilver);
    let resilvering = resilver.is_some_and(|s| s.state == Progress::Active);
    let resilvered = resilver.map_or(0, |s| s.end_time);
    if let Some(s) = status.scan.as_ref()
        && (s.kind != ScanKind::Resilver || resilvering || (!rebuilding && resilvered >= rebuilt))
    {
        scan(out, s, status.checkpoint.as_ref());
    }
    if rebuilding || (!resilvering && rebuilt > resilvered) {
        status.rebuilds().for_each(|(top, r)| rebuild(out, r, &vdev_name(top, NameOptions::default())));
    }
}

fn rebuild(out: &mut String, rebuild: &RebuildStatus, name: &str) {
    let r = &rebuild.now;
    let (start, end, rebuilt) = (ctime(r.start_time), ctime(r.end_time), nice_bytes(r.rebuilt_bytes));
    let text = match rebuild.progress() {
        Progress::Finished => {
            let taken = duration(r.run_time_ms / 1000);
            format!("resilvered ({name}) {rebuilt} in {taken} with {} errors on {end}", r.errors)
        }
        Progress::Cancelled => format!("resilver ({name}) canceled on {end}"),
        Progress::Active | Progress::None => {
            let (total, scanned) = (r.total_bytes, r.scanned_bytes);
            let skipped = scanned.saturating_sub(r.issued_bytes);
            let rate = |bytes: u64| bytes / (rebuild.pass_time_ms + 1) * 1000;
            let scan_rate = rate(rebuild.pass_scanned_bytes);
            let at = |rate| if rate == 0 { String::new() } else { format!(" at {}/s", nice_bytes(rate)) };
            let tail = match scan_rate {
                TELLING_RATE.. if total >= scanned => {
                    format!(", {} to go", duration((total - scanned) / scan_rate))
                }
                _ => ", no estimated completion time".into(),
            };
            format!(
                "resilver ({name}) in progress since {start}\n\t{} / {} scanned{}, {} / {} issued{}\n\t{rebuilt} resilvered, \
                 {:.2}% done{tail}",
                nice_bytes(scanned),
                nice_bytes(total),
                at(scan_rate),
                nice_bytes(r.issued_bytes),
                nice_bytes(total.saturating_sub(skipped)),
                at(rate(rebuild.pass_issued_bytes)),
                (100.0 * scanned as f64 / (total + 1) as f64).min(100.0),
            )
        }
    };
    let _ = writeln!(out, "  scan: {text}");
}

fn scan(out: &mut String, scan: &ScanStatus, checkpoint: Option<&CheckpointStatus>) {
    let (end, start) = (ctime(scan.end_time), ctime(scan.start_time));
    let taken = duration(scan.end_time.saturating_sub(scan.start_time));
    let processed = nice_bytes(scan.processed_bytes);
    if scan.kind == ScanKind::ErrorScrub {
        return error_scrub(out, scan);
    }
    let text = match (scan.kind, scan.state) {
        (ScanKind::None | ScanKind::ErrorScrub, _) | (_, Progress::None) => return,
        (ScanKind::Scrub, Progress::Finished) => {
            format!("scrub repaired {processed} in {taken} with {} errors on {end}", scan.errors)
        }
        (ScanKind::Resilver, Progress::Finished) => {
            format!("resilvered {processed} in {taken} with {} errors on {end}", scan.errors)
        }
        (ScanKind::Scrub, Progress::Cancelled) => format!("scrub canceled on {end}"),
        (ScanKind::Resilver, Progress::Cancelled) => format!("resilver canceled on {end}"),
        (kind, Progress::Active) => {
            let (total, issued) = (scan.to_examine_bytes, scan.issued_bytes());
            let to_issue = total.saturating_sub(scan.skipped_bytes);
            let (head, verb) = match kind {
                ScanKind::Resilver => (format!("resilver in progress since {start}"), "resilvered"),
                _ if scan.pause_time != 0 => {
                    (format!("scrub paused since {}\n\tscrub started on {start}", ctime(scan.pause_time)), "repaired")
                }
                _ => (format!("scrub in progress since {start}"), "repaired"),
            };
            let is_paused = scan.pause_time != 0 && kind != ScanKind::Resilver;
            let seconds = now().saturating_sub(scan.pass_start).saturating_sub(scan.spent_paused).max(1);
            let (examine_rate, issue_rate) = (scan.pass_examined_bytes / seconds, scan.pass_issued_bytes / seconds);
            let at = |rate| match rate {
                0 => String::new(),
                _ if is_paused => String::new(),
                rate => format!(" at {}/s", nice_bytes(rate)),
            };
            // With few bytes issued so far, no estimate is possible.
            let has_begun = if kind == ScanKind::Resilver { scan.processed_bytes > 0 } else { issued > 0 };
            let tail = match is_paused {
                true => String::new(),
                false if to_issue >= issued && issue_rate >= TELLING_RATE && has_begun => {
                    format!(", {} to go", duration((to_issue - issued) / issue_rate))
                }
                false => ", no estimated completion time".into(),
            };
            format!(
                "{head}\n\t{} / {} scanned{}, {} / {} issued{}\n\t{processed} {verb}, {:.2}% done{tail}",
                nice_bytes(scan.examined_bytes),
                nice_bytes(total),
                at(examine_rate),
                nice_bytes(issued),
                nice_bytes(to_issue),
                at(issue_rate),
                100.0 * issued as f64 / to_issue.max(1) as f64,
            )
        }
    };
    let _ = writeln!(out, "  scan: {text}");
    let ended = matches!(scan.state, Progress::Finished | Progress::Cancelled);
    match checkpoint {
        Some(c) if c.discarding || (ended && scan.end_time < c.start_time) => {}
        Some(_) if ended => {
            out.push_str("    scan warning: skipped blocks that are only referenced by the checkpoint.\n");
        }
        Some(_) => out.push_str("    scan warning: skipping blocks that are only referenced by the checkpoint.\n"),
        None => {}
    }
}

/// Prints the scrub of the error log. Its sizes are numbers of blocks.
fn error_scrub(out: &mut String, scan: &ScanStatus) {
    let (start, end) = (ctime(scan.start_time), ctime(scan.end_time));
    let (seconds, examined) = (scan.end_time.saturating_sub(scan.start_time), scan.examined_bytes);
    let _ = match scan.state {
        Progress::None => return,
        Progress::Finished => {
            let (days, clock) = (seconds / 86_400, duration(seconds % 86_400));
            writeln!(out, " scrub: scrubbed {examined} error blocks in {days} days {clock} on {end}")
        }
        Progress::Cancelled => writeln!(out, " scrub: error scrub canceled on {end}"),
        Progress::Active => {
            let head = match scan.pause_time {
                0 => format!("error scrub in progress since {start}"),
                since => format!("error scrub paused since {}\n\terror scrub started on {start}", ctime(since)),
            };
            let percent = 100.0 * examined as f64 / scan.to_examine_bytes.max(1) as f64;
            writeln!(out, " scrub: {head}\n\t{percent:.2}% done, issued I/O for {examined} error blocks")
        }
    };
}

fn removal(out: &mut String, removal: &RemovalStatus, root: &VdevStatus) {
    let name = || root.children.iter().find(|c| c.id == removal.vdev).map_or(String::new(), |v| v.name.clone());
    match removal.state {
        Progress::None => return,
        Progress::Finished => {
            let minutes = removal.end_time.saturating_sub(removal.start_time) / 60;
            let _ = writeln!(
                out,
                "remove: Removal of vdev {} copied {} in {}h{}m, completed on {}",
                removal.vdev,
                nice_number(removal.copied_bytes),
                minutes / 60,
                minutes % 60,
                ctime(removal.end_time)
            );
        }
        Progress::Cancelled => {
            let _ = writeln!(out, "remove: Removal of {} canceled on {}", name(), ctime(removal.end_time));
        }
        Progress::Active => {
            let copied = removal.copied_bytes.max(1);
            let _ = writeln!(
                out,
                "remove: Evacuation of {} in progress since {}\n\t{} copied out of {}, {:.2}% done",
                name(),
                ctime(removal.start_time),
                nice_number(copied),
                nice_number(removal.to_copy_bytes),
                100.0 * copied as f64 / removal.to_copy_bytes.max(1) as f64,
            );
        }
    }
    if removal.mapping_bytes > 0 {
        let memory = nice_number(removal.mapping_bytes);
        let _ = writeln!(out, "\t{memory} memory used for removed device mappings");
    }
}

fn checkpoint(out: &mut String, checkpoint: &CheckpointStatus) {
    let space = nice_number(checkpoint.space_bytes);
    let _ = match checkpoint.discarding {
        true => writeln!(out, "checkpoint: discarding, {space} remaining."),
        false => writeln!(out, "checkpoint: created {}, consumes {space}", ctime(checkpoint.start_time)),
    };
}

fn expand(out: &mut String, expand: &ExpandStatus, root: &VdevStatus) {
    let moved = nice_number(expand.reflowed_bytes);
    let name = root.children.iter().find(|c| c.id == expand.vdev).map_or("raidz", |v| &v.name);
    let _ = match expand.state {
        Progress::None | Progress::Cancelled => return,
        Progress::Finished => writeln!(
            out,
            "expand: expanded {name} copied {moved} in {}, on {}",
            duration(expand.end_time.saturating_sub(expand.start_time)),
            ctime(expand.end_time)
        ),
        Progress::Active => writeln!(
            out,
            "expand: expansion of {name} in progress since {}\n\t{moved} / {} copied, {:.2}% done{}",
            ctime(expand.start_time),
            nice_number(expand.to_reflow_bytes),
            100.0 * expand.reflowed_bytes as f64 / expand.to_reflow_bytes.max(1) as f64,
            if expand.waiting_for_resilver { ", paused for resilver or clear" } else { "" },
        ),
    };
}

fn config(out: &mut String, status: &PoolStatus, options: &StatusOptions, scripts: &ScriptColumns) {
    let below = |list: &[VdevStatus]| list.iter().map(|v| width(v, 2, options.names)).max().unwrap_or(0);
    let name_width =
        width(&status.root, 0, options.names).max(below(&status.caches)).max(below(&status.spares)).max(10);
    let _ =
        write!(out, "config:\n\n\t{:name_width$}  {:8} {:>5} {:>5} {:>5}", "NAME", "STATE", "READ", "WRITE", "CKSUM");
    for (shown, heading) in [(options.slow, "SLOW"), (options.direct, "DIO")] {
        if shown {
            let _ = write!(out, " {heading:>5}");
        }
    }
    out.push_str(&scripts.headings());
    out.push('\n');
    let rebuilding = status.rebuilds().filter(|(_, r)| r.progress() == Progress::Active);
    let rebuilding = rebuilding.flat_map(|(top, _)| top.walk()).map(|vdev| vdev.guid).collect();
    let table = Devices { options, name_width, scan: status.scan.as_ref(), rebuilding, pool: &status.name, scripts };
    table.device(out, &status.root, &status.name, 0, false);
    let classes = [(VdevClass::Dedup, "dedup\t"), (VdevClass::Special, "special\t"), (VdevClass::Log, "logs\t")];
    for (class, heading) in classes {
        let tops = status.root.children.iter().filter(|c| c.class == class && c.kind != "hole" && c.kind != "indirect");
        table.group(out, heading, tops, false);
    }
    table.group(out, "cache", status.caches.iter(), false);
    table.group(out, "spares", status.spares.iter(), true);
}

struct Devices<'a> {
    options: &'a StatusOptions,
    name_width: usize,
    scan: Option<&'a ScanStatus>,
    /// The guids of all devices in top-level vdevs with an active rebuild.
    rebuilding: Vec<u64>,
    pool: &'a str,
    scripts: &'a ScriptColumns,
}

impl Devices<'_> {
    fn group<'v>(
        &self,
        out: &mut String,
        heading: &str,
        vdevs: impl Iterator<Item = &'v VdevStatus>,
        are_spares: bool,
    ) {
        for (i, vdev) in vdevs.enumerate() {
            if i == 0 {
                let _ = writeln!(out, "\t{heading}");
            }
            self.device(out, vdev, &vdev_name(vdev, self.options.names), 2, are_spares);
        }
    }

    fn device(&self, out: &mut String, vdev: &VdevStatus, name: &str, depth: usize, is_spare: bool) {
        if vdev.kind == "indirect" || (self.options.unhealthy && depth > 0 && is_healthy(vdev)) {
            return;
        }
        let name_width = self.name_width.saturating_sub(depth);
        let _ = write!(out, "\t{:depth$}{name:name_width$}  {:8}", "", shown_state(vdev, is_spare));
        if !is_spare {
            self.counts(out, vdev);
        }
        if vdev.not_present {
            let _ = write!(out, "  was {}", vdev.path.as_deref().unwrap_or("?"));
        } else if let Some(words) = aux_words(vdev) {
            let _ = write!(out, "  {words}");
        }
        if vdev.removing {
            out.push_str("  (removing)");
        } else if vdev.no_alloc {
            out.push_str("  (non-allocating)");
        }
        if let Some(scan) = self.scan.filter(|s| s.state == Progress::Active)
            && vdev.is_leaf()
            && vdev.state == VdevState::Healthy
        {
            if vdev.scan_processed_bytes != 0 {
                out.push_str(if scan.kind == ScanKind::Resilver { "  (resilvering)" } else { "  (repairing)" });
            } else if vdev.resilver_deferred {
                out.push_str("  (awaiting resilver)");
            }
        }
        let is_rebuilt = vdev.is_leaf() && vdev.state == VdevState::Healthy && vdev.scan_processed_bytes != 0;
        if is_rebuilt && self.rebuilding.contains(&vdev.guid) {
            out.push_str("  (resilvering)");
        }
        out.push_str(&self.scripts.values(self.pool, vdev));
        if vdev.is_leaf() {
            let (initialize, trim) = (&vdev.initialize, &vdev.trim);
            let work =
                |on, w, words| if vdev.removing { work(on, &VdevWork::default(), words) } else { work(on, w, words) };
            out.push_str(&work(self.options.initialize, initialize, ["initialized", "uninitialized", "initializing"]));
            let untrimmed = if vdev.trim_unsupported { "trim unsupported" } else { "untrimmed" };
            out.push_str(&work(self.options.trim, trim, ["trimmed", untrimmed, "trimming"]));
        }
        out.push('\n');
        for child in &vdev.children {
            if child.class == vdev.class && child.kind != "hole" {
                self.device(out, child, &vdev_name(child, self.options.names), depth + 2, is_spare);
            }
        }
    }

    fn counts(&self, out: &mut String, vdev: &VdevStatus) {
        for count in [vdev.read_errors, vdev.write_errors, vdev.checksum_errors] {
            let _ = write!(out, " {:>5}", number(count, self.options.literal));
        }
        if self.options.slow {
            let slow = if vdev.is_leaf() || self.options.literal {
                number(vdev.slow_ios, self.options.literal)
            } else {
                "-".to_owned()
            };
            let _ = write!(out, " {slow:>5}");
        }
        if self.options.direct {
            let _ = write!(out, " {:>5}", 0);
        }
    }
}

/// The progress of initialize or trim: `  (100% initialized, completed at …)`.
fn work(shown: bool, work: &VdevWork, [done, not, doing]: [&str; 3]) -> String {
    let when = match work.state {
        1 if !shown => return format!("  ({doing})"),
        _ if !shown => return String::new(),
        1 => "started at",
        3 => "suspended, started at",
        4 => "completed at",
        _ => return format!("  ({not})"),
    };
    let part = u128::from(work.done_bytes) * 100 / (u128::from(work.total_bytes) + 1);
    let percent = if work.state == 4 { 100 } else { part };
    format!("  ({percent}% {done}, {when} {})", ctime(work.action_time))
}

fn dedup(out: &mut String, status: &PoolStatus, literal: bool) {
    let tables = &status.dedup;
    if tables.entries == 0 {
        out.push_str("\n dedup: no DDT entries\n");
        return;
    }
    let _ = write!(
        out,
        "\n dedup: DDT entries {}, size {} on disk, {} in core",
        tables.entries,
        number(tables.disk_bytes, literal),
        number(tables.core_bytes, literal)
    );
    if let Some(cached) = tables.cached_bytes {
        let percent = 100.0 * cached as f64 / tables.core_bytes.max(1) as f64;
        let _ = write!(out, ", {} cached ({percent:.2}%)", number(cached, literal));
    }
    out.push('\n');
    out.push_str(&super::dedup::histogram(&tables.histogram));
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
