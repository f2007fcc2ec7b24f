//! The report of `weir verify` for people: first the verdict, then the errors, then what to do.

use crate::number::{ctime, nice_bytes};
use crate::tree;
use admin::verify::{DamagedFile, Place, Verdict, Verification};
use pool::scan::{Leak, Report};
use std::fmt::Write;

/// Limit for the lines of each list; the rest is counted. `--json` has more.
const LISTED_MAX: usize = 50;

/// The whole report, with a newline at the end.
pub fn report(v: &Verification) -> String {
    let mut out = String::new();
    let r = &v.report;
    let seconds = v.elapsed.as_secs_f64();
    let rate = (r.read_bytes as f64 / seconds.max(1e-6)) as u64;
    let _ = writeln!(out, "   pool: {}, as of txg {} ({})", v.pool, v.txg, ctime(v.txg_time));
    let _ = writeln!(out, "verdict: {}", verdict(v));
    let _ = writeln!(
        out,
        "checked: {} blocks holding {}; {} read with all copies and parity, in {seconds:.1} s ({}/s)",
        r.blocks,
        nice_bytes(r.logical_bytes),
        nice_bytes(r.read_bytes),
        nice_bytes(rate)
    );
    if r.sealed_blocks > 0 {
        let _ = writeln!(
            out,
            "         {} are encrypted and were not decrypted, as their key is not loaded: only their checksums are known to be correct",
            count(r.sealed_blocks, "block")
        );
    }
    devices(&mut out, v);
    files(&mut out, v);
    space(&mut out, v, r);
    accounting(&mut out, v);
    logs(&mut out, v);
    advice(&mut out, v);
    out
}

fn verdict(v: &Verification) -> String {
    let r = &v.report;
    match v.verdict {
        Verdict::Clean => {
            let sealed = if r.sealed_blocks > 0 { " that has a key" } else { "" };
            format!(
                "clean. Every copy and all parity is right, everything{sealed} unpacks; space maps and accounting fit the blocks."
            )
        }
        Verdict::Damaged if r.repairable_blocks > 0 => format!(
            "DAMAGED, nothing lost. {} have wrong or missing copies or parity; all of them are readable.",
            count(r.repairable_blocks, "block")
        ),
        Verdict::Damaged if v.devices.iter().any(|d| d.absent.is_some()) => {
            "DAMAGED, nothing lost. Devices are missing; all data is readable.".to_owned()
        }
        Verdict::Damaged if !v.logs.short.is_empty() => {
            "DAMAGED. A device of intent logs cannot be read: what they hold is unknown. All other data is readable."
                .to_owned()
        }
        Verdict::Damaged => {
            "DAMAGED, nothing lost. All data is readable, but the pool's space accounting is wrong.".to_owned()
        }
        Verdict::Lost => {
            let also = match r.repairable_blocks {
                0 => String::new(),
                n => format!(" {} more are damaged and readable.", count(n, "block")),
            };
            let malformed = match r.malformed_blocks {
                0 => String::new(),
                n => format!(" Of {n} every copy is what was written, but it does not decrypt or decompress."),
            };
            // Records of intent logs, of which nothing else is known, are no blocks of files.
            let what = match (r.lost_blocks, v.logs.short.len() as u64) {
                (0, logs) => format!("Records of {}", count(logs, "intent log")),
                (blocks, 0) => count(blocks, "block"),
                (blocks, logs) => format!("{} and records of {}", count(blocks, "block"), count(logs, "intent log")),
            };
            format!("DATA LOST. {what} cannot be read in any way.{malformed}{also}")
        }
    }
}

fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn devices(out: &mut String, v: &Verification) {
    let bad = |d: &&admin::verify::Device| d.absent.is_some() || d.faults != pool::scan::DeviceFaults::default();
    let bad: Vec<_> = v.devices.iter().filter(bad).collect();
    if bad.is_empty() {
        return;
    }
    let width = bad.iter().map(|d| d.name.chars().count()).max().unwrap_or(0).max(6);
    let _ = writeln!(out, "\nDevices with faults (copies and columns of blocks):\n");
    let _ =
        writeln!(out, "  {:width$} {:>10} {:>10} {:>10} {:>10}", "DEVICE", "WRONG", "UNREADABLE", "MISSING", "STALE");
    for d in bad {
        let f = &d.faults;
        let why = d.absent.as_ref().map_or(String::new(), |why| format!("  {why}"));
        let _ = writeln!(
            out,
            "  {:width$} {:>10} {:>10} {:>10} {:>10}  {}{why}",
            d.name, f.wrong, f.unreadable, f.missing, f.stale, d.top
        );
    }
}

/// Name of a damaged object, in the form that other commands accept.
fn place(f: &DamagedFile) -> String {
    let path = |p: &[u8]| String::from_utf8_lossy(&tree::shown(p, true)).into_owned();
    let bytes = |ranges: &[(u64, u64)]| match ranges {
        [] => String::new(),
        // People expect the last lost byte to be included.
        ranges => {
            let all: Vec<String> = ranges.iter().take(8).map(|(a, b)| format!("{a}-{}", b.saturating_sub(1))).collect();
            let more = if ranges.len() > 8 { ", ..." } else { "" };
            format!("  bytes {}{more}", all.join(", "))
        }
    };
    let ds = &f.dataset;
    match &f.place {
        Place::File { path: p, ranges } => format!("{ds}:{}{}", path(p), bytes(ranges)),
        Place::Directory { path: p } => format!("{ds}:{}  (directory: some names in it cannot be read)", path(p)),
        Place::Attributes { path: p } => format!("{ds}:{}  (extended attributes and access lists)", path(p)),
        Place::Object { what, ranges } => format!("{ds}: object {}: {what}{}", f.object, bytes(ranges)),
        Place::Objects { first, end } if end - first == 1 => format!("{ds}: object {first} cannot be read"),
        Place::Objects { first, end } => {
            format!(
                "{ds}: objects {first} to {} cannot be read: files and directories may be missing from this list",
                end - 1
            )
        }
        Place::Everything => format!("{ds}: everything in it"),
    }
}

fn files(out: &mut String, v: &Verification) {
    if v.files.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nLost:\n");
    for f in v.files.iter().take(LISTED_MAX) {
        let _ = writeln!(out, "  {}\n      {}", place(f), f.error);
        if !f.also_in.is_empty() {
            let _ = writeln!(out, "      the same in {}", f.also_in.join(", "));
        }
    }
    more(out, v.files.len());
    if v.report.lost_blocks > v.report.damage.len() as u64 {
        let _ = writeln!(
            out,
            "  ({} blocks are lost; the first {} are named)",
            v.report.lost_blocks,
            v.report.damage.len()
        );
    }
}

fn more(out: &mut String, n: usize) {
    if n > LISTED_MAX {
        let _ = writeln!(out, "  ... and {} more (--json lists them)", n - LISTED_MAX);
    }
}

fn space(out: &mut String, v: &Verification, r: &Report) {
    let mut list = |what: &str, bytes: u64, leaks: &[Leak]| {
        if bytes == 0 {
            return;
        }
        let _ = writeln!(out, "\n{what}: {}\n", nice_bytes(bytes));
        for l in leaks.iter().take(LISTED_MAX) {
            let top = v.tops.get(l.vdev as usize).map_or("?", String::as_str);
            let _ = writeln!(out, "  {}:{:x}:{:x}  {top}", l.vdev, l.offset_bytes, l.size_bytes);
        }
        more(out, leaks.len());
    };
    list("Leaked (allocated, but not referenced)", r.leaked_bytes, &r.leaked);
    list("In use but free in the space maps (the next write may destroy it)", r.unallocated_bytes, &r.unallocated);
    list("Used by two blocks", r.doubly_used_bytes, &r.doubly_used);
    if !r.space_anomalies.is_empty() {
        let _ = writeln!(out, "\nSpace maps contradict themselves:\n");
        for a in r.space_anomalies.iter().take(LISTED_MAX) {
            let _ = writeln!(out, "  {a}");
        }
        more(out, r.space_anomalies.len());
    }
    if r.wrong_references_count > 0 {
        let _ = writeln!(out, "\nShared blocks whose count of uses is wrong: {}\n", r.wrong_references_count);
        for w in r.wrong_references.iter().take(LISTED_MAX) {
            let _ = writeln!(out, "  {}:{:x}: the table says {}, found {}", w.vdev, w.offset_bytes, w.says, w.found);
        }
        more(out, r.wrong_references.len());
    }
    if let Some(why) = &r.space_unknown {
        let _ = writeln!(out, "\nSpace and accounting could not be compared: {why}.");
    }
}

fn accounting(out: &mut String, v: &Verification) {
    if v.accounting.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nDatasets whose `referenced` does not fit their blocks:\n");
    for a in v.accounting.iter().take(LISTED_MAX) {
        let _ = writeln!(out, "  {}: says {}, found {}", a.dataset, a.says_bytes, a.found_bytes);
    }
    more(out, v.accounting.len());
}

fn logs(out: &mut String, v: &Verification) {
    if !v.logs.unreplayed.is_empty() {
        let _ = writeln!(out, "\nThe pool was not closed; not yet replayed from intent logs (not an error):\n");
        for l in &v.logs.unreplayed {
            let records = count(l.log.unreplayed_records, "record");
            let _ = writeln!(out, "  {}: {records}, {}", l.dataset, nice_bytes(l.log.unreplayed_bytes));
        }
        let _ = writeln!(out, "\n  `weir inspect log {}` lists them.", v.pool);
    }
    if !v.logs.short.is_empty() {
        let _ = writeln!(out, "\nIntent logs that end early; the records behind cannot be replayed:\n");
        for l in v.logs.short.iter().take(LISTED_MAX) {
            let _ = writeln!(out, "  {}: {}", l.dataset, l.unread);
        }
        more(out, v.logs.short.len());
    }
    for e in &v.logs.errors {
        let _ = writeln!(out, "\nAn intent log could not be inspected: {e}");
    }
}

fn advice(out: &mut String, v: &Verification) {
    if v.verdict == Verdict::Clean {
        return;
    }
    let (r, name) = (&v.report, &v.pool);
    let _ = writeln!(out, "\nWhat to do:");
    let absent: Vec<&str> = v.devices.iter().filter(|d| d.absent.is_some()).map(|d| d.name.as_str()).collect();
    if !absent.is_empty() {
        let _ =
            writeln!(out, "  - bring back or replace {}; until then the pool has less redundancy", absent.join(", "));
    }
    if !v.logs.short.is_empty() {
        let _ = writeln!(
            out,
            "  - bring back the device of the intent logs above before you mount their datasets, or give up the records that \
             cannot be read with `zpool clear {name}`"
        );
    }
    if r.lost_blocks > 0 {
        let _ = writeln!(
            out,
            "  - copy the intact files (`weir cp -r --best-effort {name}:/ DIR`), and restore the files above from a backup"
        );
    }
    if v.devices.iter().any(|d| d.faults.wrong + d.faults.unreadable > 0) {
        let _ = writeln!(
            out,
            "  - check the devices above: a scrub of the imported pool (`zpool scrub {name}`) repairs the damage on them"
        );
    }
    if v.devices.iter().any(|d| d.faults.stale > 0) {
        let _ = writeln!(out, "  - stale devices catch up by a resilver when the pool is imported for writing");
    }
    if r.unallocated_bytes > 0 || r.doubly_used_bytes > 0 {
        let _ = writeln!(out, "  - do not write to this pool: copy its data to a new one");
    } else if r.leaked_bytes > 0
        || !v.accounting.is_empty()
        || !r.space_anomalies.is_empty()
        || r.wrong_references_count > 0
    {
        let _ = writeln!(out, "  - reading is safe; the space is recovered by copying the data to a new pool");
    }
}

/// Advice for a pool that cannot be opened.
pub fn cannot_open_advice(name: &str) -> String {
    format!(
        "What to do:\n  - give all of its devices: `-d DIR` may be repeated\n  - \
         `weir inspect uberblocks {name}` shows earlier states; one may open with `weir zpool import -T TXG`\n"
    )
}
