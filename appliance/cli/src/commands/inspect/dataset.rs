//! `inspect dataset`: on-disk structures of a dataset or snapshot.

use super::argument::{argument, find};
use super::convert;
use crate::source::Opener;
use anyhow::Result;
use clap::ArgMatches;
use ondisk::{DslDir, Objset, Uberblock, ZilHeader};
use serde_json::{Value, json};

/// `inspect dataset POOL/DATASET`.
pub fn dataset(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let name = argument(matches, "DATASET");
    let pool = opener.pool(name)?;
    let d = find(pool, name)?;
    let p = d.phys();
    let mut document = json!({
        "name": d.name(),
        "object": d.id(),
        "kind": d.kind().map_or_else(|e| e.to_string(), |k| k.name().to_owned()),
        "encryption_key_object": d.crypto_object().ok().flatten(),
        "dataset": {
            "directory": p.dir, "previous_snapshot": p.prev_snap, "previous_snapshot_txg": p.prev_snap_txg.0,
            "next_snapshot": p.next_snap, "snapshot_names": p.snapnames_zap, "children": p.num_children,
            "creation_time": convert::time(p.creation_time), "creation_txg": p.creation_txg.0,
            "deadlist": p.deadlist, "referenced_bytes": p.referenced_bytes,
            "compressed_bytes": p.compressed_bytes, "uncompressed_bytes": p.uncompressed_bytes,
            "unique_bytes": p.unique_bytes, "fsid_guid": p.fsid_guid, "guid": p.guid,
            "flags": format!("{:#x}", p.flags), "next_clones": p.next_clones_zap, "properties": p.props_zap,
            "holds": p.userrefs_zap, "root": convert::pointer(&p.bp),
        },
        "directory": dir(d.dir().phys()),
    });
    document["objects"] = match d.objset_without_keys() {
        Ok(set) => objset(set.phys(), pool.pool().uberblock()),
        Err(e) => json!(e.to_string()),
    };
    Ok(document)
}

/// A DSL directory (`dsl_dir_phys_t`). Its properties and children are numbers of objects.
pub fn dir(d: &DslDir) -> Value {
    json!({
        "creation_time": convert::time(d.creation_time), "head_dataset": d.head_dataset, "parent": d.parent,
        "origin": d.origin, "children": d.children_zap, "used_bytes": d.used_bytes,
        "compressed_bytes": d.compressed_bytes, "uncompressed_bytes": d.uncompressed_bytes,
        "quota_bytes": d.quota_bytes, "reserved_bytes": d.reserved_bytes, "properties": d.props_zap,
        "delegation": d.delegation_zap, "flags": format!("{:#x}", d.flags), "used_by_head": d.used.head,
        "used_by_snapshots": d.used.snapshots, "used_by_children": d.used.children,
        "used_by_reservations_of_children": d.used.children_reserved, "used_by_reservation": d.used.refreservation,
        "clones": d.clones_zap,
    })
}

fn objset(o: &Objset, uberblock: &Uberblock) -> Value {
    let accounting = |d: &Option<ondisk::Dnode>| d.as_ref().map(convert::dnode);
    json!({
        "kind": format!("{:?}", o.kind),
        "flags": format!("{:#x}", o.flags),
        "intent_log": log_header(&o.zil, uberblock),
        "dnodes": convert::dnode(&o.meta_dnode),
        "pointers": o.meta_dnode.blkptrs.iter().map(convert::pointer).collect::<Vec<_>>(),
        "user_accounting": accounting(&o.user_used),
        "group_accounting": accounting(&o.group_used),
        "project_accounting": accounting(&o.project_used),
    })
}

/// The header of an intent log.
pub fn log_header(z: &ZilHeader, uberblock: &Uberblock) -> Value {
    json!({
        "first_block": convert::pointer(&z.log),
        "claim_txg": z.claim_txg.0,
        "claim_block_sequence": z.claim_block_seq,
        "claim_record_sequence": z.claim_record_seq,
        "replay_sequence": z.replay_seq,
        "flags": format!("{:#x}", z.flags),
        "synced_txg": uberblock.txg.0,
    })
}
