//! `inspect log`: the records of intent logs.

use super::argument::{argument, find, has_keys};
use super::{convert, dataset};
use crate::source::Opener;
use ::dataset::intent_log::{self, LogEntry};
use ::dataset::tree::{Entry, ListOptions};
use ::dataset::{Dataset, KeyStore};
use anyhow::Result;
use clap::ArgMatches;
use ondisk::zil::Body;
use serde_json::{Value, json};

/// Limit for the records listed of one log.
const RECORDS_MAX: usize = 100_000;

/// `inspect log POOL[/DATASET]`.
pub fn log(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let name = argument(matches, "DATASET");
    if name.contains('/') {
        if has_keys(matches) {
            let (pool, d) = opener.dataset(name)?;
            return one(&d, Some(&pool.keys));
        }
        let pool = opener.pool(name)?;
        return one(&find(pool, name)?, None);
    }
    let pool = opener.pool(name)?;
    let listing = pool.datasets.list(&[], &ListOptions::heads())?;
    let mut logs = Vec::new();
    for entry in &listing.entries {
        let Entry::Dataset(d) = entry else { continue };
        match one(d, None) {
            Ok(log) if log["blocks"] != 0 || !log["ends_early"].is_null() => logs.push(log),
            Ok(_) => {}
            Err(e) => logs.push(json!({ "dataset": d.name(), "error": format!("{e:#}") })),
        }
    }
    let sum = |key: &str| logs.iter().filter_map(|l| l[key].as_u64()).sum::<u64>();
    Ok(json!({
        "pool": pool.pool().name(), "synced_txg": pool.pool().uberblock().txg.0,
        "unreplayed_records": sum("unreplayed_records"), "unreplayed_bytes": sum("unreplayed_bytes"), "logs": logs,
    }))
}

fn one(d: &Dataset, keys: Option<&KeyStore>) -> Result<Value> {
    let mut records = Vec::new();
    let summary = intent_log::read(d, keys, &mut |e| {
        if records.len() < RECORDS_MAX {
            records.push(record(&e));
        }
    })?;
    let header = match d.objset_without_keys() {
        Ok(set) => dataset::log_header(&set.phys().zil, d.tree().pool().uberblock()),
        Err(e) => json!(e.to_string()),
    };
    Ok(json!({
        "dataset": d.name(), "header": header, "blocks": summary.blocks, "bytes": summary.bytes,
        "records_in_all": summary.records, "unreplayed_records": summary.unreplayed_records,
        "unreplayed_bytes": summary.unreplayed_bytes,
        "ends_early": summary.unread.map(|unread| unread.to_string()), "records": records,
    }))
}

fn record(e: &LogEntry<'_>) -> Value {
    let r = match &e.record {
        Ok(r) => r,
        Err(why) => return json!({ "block": e.block, "type": format!("cannot be read: {why}") }),
    };
    let what = match r.parse_body() {
        _ if !e.is_open => "encrypted".to_owned(),
        Ok(body) => body_text(&body),
        Err(why) => why.to_string(),
    };
    json!({
        "block": e.block, "type": r.kind.name(), "txg": r.txg.0, "sequence": r.sequence, "bytes": r.size_bytes(),
        "unreplayed": e.is_unreplayed, "what": what, "skipped": e.skipped,
    })
}

fn body_text(body: &Body<'_>) -> String {
    let name = |n: &[u8]| format!("{:?}", String::from_utf8_lossy(n));
    match body {
        Body::Create(c) => {
            let target = c.target.map_or(String::new(), |t| format!(" -> {}", name(t)));
            format!(
                "{}{target} in {}: object {}, mode {:o}, {}:{}, generation {}",
                name(c.name),
                c.directory,
                c.object,
                c.mode,
                c.uid,
                c.gid,
                c.generation
            )
        }
        Body::Remove { directory, name: n } => format!("{} from {directory}", name(n)),
        Body::Link { directory, object, name: n } => format!("{} in {directory} for object {object}", name(n)),
        Body::Rename { from_directory, to_directory, from, to, .. } => {
            format!("{} in {from_directory} to {} in {to_directory}", name(from), name(to))
        }
        Body::Write { object, offset, length, pointer, data } => {
            let whence = match (data.is_empty(), pointer.is_hole()) {
                (false, _) => format!("{} bytes in the log", data.len()),
                (true, false) => convert::pointer(pointer),
                (true, true) => "no data".into(),
            };
            format!("object {object}: {length} bytes at {offset} ({whence})")
        }
        Body::Truncate { object, offset, length } => format!("object {object}: {length} bytes at {offset}"),
        Body::SetAttr { object, mask, mode, uid, gid, size, .. } => {
            format!("object {object}: mask {mask:#x}, mode {mode:o}, {uid}:{gid}, size {size}")
        }
        Body::Acl { object, acl } => format!("object {object}: {} entries", acl.count),
        Body::SetSaXattr { object, name: n, value } => match value {
            Some(v) => format!("object {object}: {} = {} bytes", name(n), v.len()),
            None => format!("object {object}: {} removed", name(n)),
        },
        Body::CloneRange { object, offset, length, pointers, .. } => {
            format!("object {object}: {length} bytes at {offset} from {} blocks", pointers.len())
        }
        Body::Commit => String::new(),
    }
}
