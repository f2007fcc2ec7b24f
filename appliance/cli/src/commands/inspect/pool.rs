//! Parts that inspect a pool as a whole.

use super::argument::argument;
use super::{convert, device};
use crate::number::date_history;
use crate::source::Opener;
use anyhow::Result;
use clap::ArgMatches;
use ondisk::feature::FEATURES;
use ondisk::history::keys;
use serde_json::{Value, json};

/// `inspect config POOL`.
pub fn config(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let pool = opener.pool(argument(matches, "POOL"))?.pool();
    Ok(json!({
        "txg": pool.uberblock().txg.0,
        "configuration": convert::nvlist(pool.config()),
        "object_directory": device::directory_of(pool)?,
    }))
}

/// `inspect features POOL`.
pub fn features(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let pool = opener.pool(argument(matches, "POOL"))?.pool();
    let features = pool.features();
    let all = features.for_read.iter().map(|f| (f, true)).chain(features.for_write.iter().map(|f| (f, false)));
    let mut rows: Vec<Value> = all
        .map(|((guid, count), to_read)| {
            let known = FEATURES.iter().find(|f| f.guid == guid);
            json!({
                "feature": known.map_or("(not known)", |f| f.name),
                "guid": guid,
                "references": count,
                "state": if *count == 0 { "enabled" } else { "active" },
                "needed_to": if to_read { "read" } else { "write" },
            })
        })
        .collect();
    rows.sort_by_key(|r| r["feature"].as_str().unwrap_or_default().to_owned());
    Ok(Value::Array(rows))
}

/// `inspect history POOL`.
pub fn history(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let pool = opener.pool(argument(matches, "POOL"))?.pool();
    let history = pool.history()?;
    if matches.get_flag("json") {
        return Ok(history.iter().map(convert::nvlist).collect());
    }
    let text = |list: &ondisk::Nvlist, name: &str| list.get_str(name).map(str::to_owned);
    let rows = history.iter().map(|h| {
        let internal =
            text(h, keys::INTERNAL_NAME).or_else(|| h.get_u64(keys::INTERNAL_EVENT).map(|n| format!("event {n}")));
        let what = text(h, keys::COMMAND).or_else(|| {
            let dataset = text(h, keys::DATASET_NAME).unwrap_or_default();
            let rest = text(h, keys::INTERNAL_TEXT).unwrap_or_default();
            internal.map(|i| format!("[{i}] {dataset} {rest}"))
        });
        json!({
            "time": h.get_u64(keys::TIME).map(date_history),
            "txg": h.get_u64(keys::TXG),
            "what": what.or_else(|| text(h, keys::IOCTL).map(|i| format!("ioctl {i}"))),
        })
    });
    Ok(rows.collect())
}
