//! `inspect block`: the copies of a block, and its bytes.

use super::argument::argument;
use super::{convert, object};
use crate::source::Opener;
use ::object::ObjectSet;
use ::pool::Pool;
use anyhow::{Context, Result, bail};
use block::Bookmark;
use block::vdev::{DATA_START_BYTES, Fault};
use clap::ArgMatches;
use serde_json::{Value, json};

/// Limit for the bytes read at an address.
const SIZE_MAX: u64 = 16 << 20;

/// `inspect block POOL ADDRESS`.
pub fn block(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let pool = opener.pool(argument(matches, "POOL"))?;
    let address = argument(matches, "ADDRESS");
    let shown = *matches.get_one::<usize>("bytes").unwrap_or(&512);
    let parts: Vec<&str> = address.split(':').collect();
    match parts.as_slice() {
        [vdev, offset, size] => {
            let hex = |s: &str| u64::from_str_radix(s.trim_start_matches("0x"), 16).with_context(|| address.to_owned());
            raw(pool.pool(), vdev.parse().with_context(|| address.to_owned())?, hex(offset)?, hex(size)?, shown)
        }
        [objset, number, level, blkid] => {
            let n = |s: &str| s.parse::<u64>().with_context(|| address.to_owned());
            let (objset, number, blkid) = (n(objset)?, n(number)?, n(blkid)?);
            let level: i64 = level.parse().with_context(|| address.to_owned())?;
            at(pool, &Bookmark { objset, object: number, level, blkid }, shown)
        }
        _ => bail!("{address}: expected DEVICE:OFFSET:SIZE or OBJSET:OBJECT:LEVEL:BLOCK"),
    }
}

/// The block at a bookmark: every copy, and its contents if they need no key.
fn at(pool: &admin::OpenPool, at: &Bookmark, shown: usize) -> Result<Value> {
    let mos = pool.pool().mos();
    let root = match at.objset {
        0 => pool.pool().uberblock().root,
        id => pool.datasets.dataset_by_id(id)?.phys().bp,
    };
    let bp = if at.level < 0 {
        root
    } else {
        let set = match at.objset {
            0 => mos.clone(),
            id => ObjectSet::open(mos.store().clone(), &root, id, None)?,
        };
        object::pointer_at(&set, at.object, u8::try_from(at.level)?, at.blkid)?
    };
    let store = pool.pool().store();
    let name = match at.objset {
        0 => "MOS".to_owned(),
        id => pool.datasets.dataset_by_id(id).map_or_else(|e| e.to_string(), |d| d.name().to_owned()),
    };
    let mut document = json!({ "dataset": name, "bookmark": at.to_string(), "pointer": convert::pointer(&bp) });
    if bp.is_hole() {
        return Ok(document);
    }
    let report = store.verify(&bp);
    let faults: Vec<Value> = report
        .faults
        .iter()
        .map(|f| {
            let device = store.tree().find(f.leaf).map_or_else(|| f.leaf.to_string(), |v| v.name.clone());
            let what = match f.fault {
                Fault::Missing => "device is missing",
                Fault::Unreadable => "cannot be read",
                Fault::Wrong => "wrong bytes",
                Fault::Stale => "stale: written while the device was missing",
            };
            json!({ "copy": f.copy, "device": device, "fault": what })
        })
        .collect();
    document["readable"] = json!(report.readable);
    document["good_copies"] = json!(report.good_copies);
    document["copies"] = json!(bp.dvas().count());
    document["faults"] = Value::Array(faults);
    if let Some(e) = report.error {
        document["error"] = json!(e);
    }
    match store.read_unopened(&bp, at) {
        Ok(block) => document["contents"] = json!(convert::dump(&block.data[..block.data.len().min(shown)])),
        Err(e) => document["contents"] = json!(e.to_string()),
    }
    Ok(document)
}

/// The bytes at an address, whether or not a pointer refers to it.
fn raw(pool: &Pool, vdev: u32, offset: u64, size: u64, shown: usize) -> Result<Value> {
    if size == 0 || size > SIZE_MAX {
        bail!("{size:#x} bytes, expected up to {SIZE_MAX:#x}");
    }
    let tree = pool.store().tree();
    let Some(top) = tree.tops.get(vdev as usize) else {
        bail!("no such device: {vdev}; the pool has {}", tree.tops.len());
    };
    let mut document =
        json!({ "device": vdev, "name": top.name, "offset": format!("{offset:x}"), "size": format!("{size:x}") });
    // On a leaf or mirror each device has the bytes at the same offset; other devices assemble them
    // from columns.
    if top.leaf().is_some() || top.children.iter().all(|c| c.leaf().is_some()) && top.name.starts_with("mirror") {
        let mut first: Option<Vec<u8>> = None;
        let mut rows = Vec::new();
        for leaf in top.leaves() {
            let mut bytes = vec![0; size as usize];
            let state = match leaf.read(offset.saturating_add(DATA_START_BYTES), &mut bytes) {
                None => "missing".to_owned(),
                Some(Err(e)) => e.to_string(),
                Some(Ok(())) => match &first {
                    None => {
                        first = Some(bytes);
                        "read".into()
                    }
                    Some(f) if *f == bytes => "the same".into(),
                    Some(f) => {
                        let at = f.iter().zip(&bytes).position(|(a, b)| a != b).unwrap_or(0);
                        format!("differs from byte {at:#x} on")
                    }
                },
            };
            rows.push(json!({ "device": leaf.path, "state": state }));
        }
        document["copies"] = Value::Array(rows);
        if let Some(bytes) = first {
            document["bytes"] = json!(convert::dump(&bytes[..bytes.len().min(shown)]));
        }
        return Ok(document);
    }
    let bytes = pool.store().tree().read(vdev, offset, size, pool.uberblock().txg.0, &mut |_| true);
    let bytes = bytes.map_err(|f| f.into_error(pool.name().to_owned()))?;
    document["bytes"] = json!(convert::dump(&bytes[..bytes.len().min(shown)]));
    Ok(document)
}
