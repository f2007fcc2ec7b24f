//! The document of `weir verify --json`. Keys are stable; new ones may be added.
//!
//! | key | value |
//! |---|---|
//! | `pool`, `txg`, `txg_time` | the state that was verified; seconds since 1970 |
//! | `verdict` | `clean`, `damaged` (all data is readable) or `lost`; `unknown` with `error` if it could not run |
//! | `seconds` | duration |
//! | `checked` | `blocks`, `logical_bytes`, `allocated_bytes`, `read_bytes`, `shared_blocks`, `log_blocks` |
//! | `repairable_blocks`, `lost_blocks` | damaged blocks that are readable; blocks that are not |
//! | `malformed_blocks` | lost blocks whose checksum is correct, but which do not decrypt or decompress |
//! | `sealed_blocks` | encrypted blocks whose key is not loaded: unknown whether they decrypt and decompress |
//! | `devices` | `path`, `guid` (text), `top`, `absent` (why, or null), `missing`, `unreadable`, `wrong`, `stale` blocks |
//! | `files` | `dataset`, `object`, `kind`, `path` (or null), `ranges` (`[from, to)` in bytes), `blocks`, `error`, `also_in` |
//! | `space` | `unknown` (why, or null), and for `leaked`, `unallocated`, `doubly_used`: bytes and the first ranges |
//! | `accounting` | `dataset`, `says_bytes`, `found_bytes` |
//! | `references` | `wrong` (number) and the first: `vdev`, `offset_bytes`, `says`, `found` |
//! | `intent_logs` | `dataset`, `records`, `bytes`, `first_txg`, `last_txg`: not replayed; no damage |
//! | `short_intent_logs` | those that end early: `dataset`, `error` |

use admin::verify::{DamagedFile, Place, Verification};
use pool::scan::Leak;
use serde_json::{Value, json};

/// Limit for the entries of each list of ranges.
const LISTED_MAX: usize = 1000;

/// The document, in the form of the table above.
pub fn document(v: &Verification) -> Value {
    let r = &v.report;
    json!({
        "pool": v.pool, "txg": v.txg, "txg_time": v.txg_time, "verdict": v.verdict.name(),
        "seconds": v.elapsed.as_secs_f64(),
        "checked": {
            "blocks": r.blocks, "logical_bytes": r.logical_bytes, "allocated_bytes": r.allocated_bytes,
            "read_bytes": r.read_bytes, "shared_blocks": r.shared_blocks, "log_blocks": r.log_blocks,
        },
        "repairable_blocks": r.repairable_blocks,
        "lost_blocks": r.lost_blocks,
        "malformed_blocks": r.malformed_blocks,
        "sealed_blocks": r.sealed_blocks,
        "devices": v.devices.iter().map(|d| json!({
            "path": d.name, "guid": d.guid.to_string(), "top": d.top, "absent": d.absent,
            "missing": d.faults.missing, "unreadable": d.faults.unreadable, "wrong": d.faults.wrong,
            "stale": d.faults.stale,
        })).collect::<Vec<_>>(),
        "files": v.files.iter().map(file).collect::<Vec<_>>(),
        "space": {
            "unknown": r.space_unknown,
            "leaked_bytes": r.leaked_bytes, "leaked": leaks(&r.leaked),
            "unallocated_bytes": r.unallocated_bytes, "unallocated": leaks(&r.unallocated),
            "doubly_used_bytes": r.doubly_used_bytes, "doubly_used": leaks(&r.doubly_used),
            "anomalies": r.space_anomalies,
        },
        "accounting": v.accounting.iter().map(|a| json!({
            "dataset": a.dataset, "says_bytes": a.says_bytes, "found_bytes": a.found_bytes,
        })).collect::<Vec<_>>(),
        "references": {
            "wrong": r.wrong_references_count,
            "first": r.wrong_references.iter().take(LISTED_MAX).map(|w| json!({
                "vdev": w.vdev, "offset_bytes": w.offset_bytes, "says": w.says, "found": w.found,
            })).collect::<Vec<_>>(),
        },
        "intent_logs": v.logs.unreplayed.iter().map(|l| json!({
            "dataset": l.dataset, "records": l.log.unreplayed_records, "bytes": l.log.unreplayed_bytes,
            "first_txg": l.log.unreplayed_txgs.map(|t| t.0), "last_txg": l.log.unreplayed_txgs.map(|t| t.1),
        })).collect::<Vec<_>>(),
        "short_intent_logs": v.logs.short.iter().map(|l| json!({
            "dataset": l.dataset, "error": l.unread.to_string(),
        })).collect::<Vec<_>>(),
        "intent_log_errors": v.logs.errors,
    })
}

fn leaks(leaks: &[Leak]) -> Vec<Value> {
    let one = |l: &Leak| json!({ "vdev": l.vdev, "offset_bytes": l.offset_bytes, "size_bytes": l.size_bytes });
    leaks.iter().take(LISTED_MAX).map(one).collect()
}

fn file(f: &DamagedFile) -> Value {
    let path = |p: &[u8]| json!(String::from_utf8_lossy(p));
    let (kind, path, ranges) = match &f.place {
        Place::File { path: p, ranges } => ("file", path(p), ranges.clone()),
        Place::Directory { path: p } => ("directory", path(p), Vec::new()),
        Place::Attributes { path: p } => ("attributes", path(p), Vec::new()),
        Place::Object { ranges, .. } => ("object", Value::Null, ranges.clone()),
        Place::Objects { first, end } => {
            return json!({
                "dataset": f.dataset, "object": f.object, "kind": "objects", "path": null, "first_object": first,
                "end_object": end, "ranges": [], "blocks": f.blocks, "error": f.error, "also_in": f.also_in,
            });
        }
        Place::Everything => ("dataset", Value::Null, Vec::new()),
    };
    json!({
        "dataset": f.dataset, "object": f.object, "kind": kind, "path": path,
        "ranges": ranges.iter().map(|(a, b)| json!([a, b])).collect::<Vec<_>>(),
        "blocks": f.blocks, "error": f.error, "also_in": f.also_in,
    })
}
