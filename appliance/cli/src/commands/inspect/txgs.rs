//! `inspect txgs`: statistics of the last txgs of a mounted pool.

use super::argument::argument;
use crate::figures::{self, Document, PHASES};
use anyhow::{Result, bail};
use clap::ArgMatches;
use daemon::Owner;
use serde_json::{Value, json};

/// `inspect txgs POOL`.
pub fn txgs(matches: &ArgMatches) -> Result<Value> {
    let pool = argument(matches, "POOL");
    let Some(document) = figures::read(&admin::state::folder()?, pool)? else {
        bail!("{pool}: no process has the pool mounted for writing; statistics exist only while one does");
    };
    Ok(show(&document))
}

/// Whether a process has left statistics of the pool in the state directory.
pub fn are_in_folder(matches: &ArgMatches) -> Result<bool> {
    Ok(figures::read(&admin::state::folder()?, argument(matches, "POOL"))?.is_some())
}

/// The same for a pool that this process has imported.
pub fn of_owner(owner: &Owner, pool: &str) -> Result<Value> {
    let owned = owner.house.pool(pool)?;
    match owned.writable() {
        Some(writable) => Ok(show(&figures::document(writable.writer(), pool, &[]))),
        None => bail!("{pool}: not open for writing, so there are no txgs"),
    }
}

fn show(document: &Document) -> Value {
    let rows: Vec<Value> = document
        .txgs
        .iter()
        .map(|t| {
            let mut row = json!({
                "txg": t.txg, "closed": crate::number::date_seconds(t.closed_seconds), "dirty_bytes": t.dirty_bytes,
                "passes": t.passes, "writes": t.writes, "written_bytes": t.written_bytes,
            });
            for (name, ns) in PHASES.iter().zip(t.phase_ns) {
                row[format!("{name}_us")] = json!(ns / 1000);
            }
            row
        })
        .collect();
    json!({
        "pool": document.pool, "pid": document.pid, "waiting_bytes": document.waiting_bytes, "txgs": rows,
    })
}
