//! `inspect txgs`: what the last txgs of a mounted pool were made of.

use super::argument;
use crate::figures::{self, PHASES};
use anyhow::{Result, bail};
use clap::ArgMatches;
use serde_json::{Value, json};

/// `inspect txgs POOL`.
pub fn txgs(matches: &ArgMatches) -> Result<Value> {
    let pool = argument(matches, "POOL");
    let Some(document) = figures::read(&crate::state::folder()?, pool)? else {
        bail!("{pool}: no process has it mounted for writing; figures are kept as long as one does");
    };
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
    Ok(json!({
        "pool": document.pool, "pid": document.pid, "waiting_bytes": document.waiting_bytes, "txgs": rows,
    }))
}
