//! `inspect multihost`: the last heartbeats of a pool with `multihost=on`. ZFS name: the kstat
//! `multihost` of a pool.

use super::argument::argument;
use anyhow::{Context, Result, bail};
use clap::ArgMatches;
use daemon::Owner;
use pool::mmp::Heartbeat;
use serde_json::{Value, json};
use std::fmt::Write;

/// `inspect multihost POOL`, without a process that has the pool open.
pub fn multihost(matches: &ArgMatches) -> Result<Value> {
    bail!("{}: no process has the pool open for writing, so there are no heartbeats", argument(matches, "POOL"))
}

/// The heartbeats of a pool that this process has imported: OpenZFS's table, or JSON.
pub fn of_owner(owner: &Owner, matches: &ArgMatches) -> Result<String> {
    let pool = argument(matches, "POOL");
    let owned = owner.house.pool(pool)?;
    let writable = owned.writable().with_context(|| format!("{pool}: not open for writing"))?;
    let heartbeats = writable.writer().heartbeats();
    if matches.get_flag("json") {
        let rows: Vec<Value> = heartbeats.iter().map(row).collect();
        return Ok(format!("{:#}\n", json!({ "pool": pool, "heartbeats": rows })));
    }
    let mut text = Heartbeat::heading() + "\n";
    heartbeats.iter().for_each(|heartbeat| _ = writeln!(text, "{heartbeat}"));
    Ok(text)
}

fn row(h: &Heartbeat) -> Value {
    json!({
        "id": h.id, "txg": h.txg, "timestamp": h.timestamp, "error": h.error,
        "duration_ns": u64::try_from(h.duration.as_nanos()).unwrap_or(u64::MAX), "delay_ns": h.delay_ns,
        "skipped": h.skipped, "vdev_guid": h.vdev_guid.to_string(), "label": h.label, "path": h.path,
    })
}
