//! Computed values, derived from the pool's statistics for a dataset.
//!
//! Covers OpenZFS's `dsl_dataset_stats`, `dsl_dir_stats`, `dsl_dataset_crypt_stats` and
//! `dmu_objset_stats`.

use super::value::Value;
use super::view::View;
use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use crate::resume;
use errors::{Place, Result};
use ondisk::dsl_dir::{FIELD_FILESYSTEM_COUNT, FIELD_SNAPSHOT_COUNT};
use ondisk::{DslBookmark, DslDataset, ObjsetKind};

/// A ratio in hundredths.
fn ratio(uncompressed: u64, compressed: u64) -> u64 {
    if compressed == 0 { 100 } else { (u128::from(uncompressed) * 100 / u128::from(compressed)) as u64 }
}

fn number(n: u64) -> Result<Option<Value>> {
    Ok(Some(Value::Number(n)))
}

fn text(text: Option<String>) -> Result<Option<Value>> {
    Ok(text.map(Value::Text))
}

/// The computed value of property `name`, if it has one.
pub(super) fn of_dataset(d: &Dataset, name: &str, view: &View<'_>) -> Result<Option<Value>> {
    let (phys, dir, snapshot) = (d.phys(), d.dir().phys(), d.is_snapshot());
    match name {
        "name" => text(Some(d.name().to_owned())),
        "type" => text(Some(d.kind()?.name().to_owned())),
        "creation" => number(phys.creation_time),
        "createtxg" => number(phys.creation_txg.0),
        "guid" => number(phys.guid),
        "objsetid" => number(d.id()),
        "unique" => number(phys.unique_bytes),
        "referenced" => number(phys.referenced_bytes),
        "logicalreferenced" => number(phys.uncompressed_bytes),
        "refcompressratio" => number(ratio(phys.uncompressed_bytes, phys.compressed_bytes)),
        "compressratio" if snapshot => number(ratio(phys.uncompressed_bytes, phys.compressed_bytes)),
        "compressratio" => number(ratio(dir.uncompressed_bytes, dir.compressed_bytes)),
        "used" => number(if snapshot { phys.unique_bytes } else { dir.used_bytes }),
        "available" => number(d.available()?),
        "written" => Ok(d.written()?.map(Value::Number)),
        "userrefs" => number(d.hold_count()?),
        "defer_destroy" => number(u64::from(phys.has(DslDataset::FLAG_DEFER_DESTROY))),
        "inconsistent" => number(u64::from(phys.has(DslDataset::FLAG_INCONSISTENT))),
        "numclones" if snapshot => number(phys.num_children.saturating_sub(1)),
        "clones" => {
            let names: Vec<String> = d.clones()?.iter().map(|c| c.name().to_owned()).collect();
            text(Some(names.join(",")).filter(|names| !names.is_empty()))
        }
        "origin" => text(d.origin()?.map(|o| o.name().to_owned())),
        "redacted" => number(u64::from(d.redacted_by()?.is_some())),
        "redact_snaps" => match d.redacted_by()? {
            Some(guids) => text(Some(snapshot_names(d, &guids)?)),
            None => Ok(None),
        },
        "useraccounting" => number(u64::from(d.objset_without_keys()?.user_used().is_some())),
        "encryption" | "keyformat" | "keyguid" | "pbkdf2salt" | "pbkdf2iters" | "encryptionroot" | "keystatus"
        | "ivsetguid" => encryption(d, name, view),
        "volsize" | "volblocksize" => volume(d, name, view),
        _ if snapshot => Ok(None),
        "quota" => number(dir.quota_bytes),
        "reservation" => number(dir.reserved_bytes),
        "refquota" | "refreservation" => number(super::number(d, name)?.unwrap_or(0)),
        "logicalused" => number(dir.uncompressed_bytes),
        "usedbysnapshots" if dir.has_breakdown() => number(dir.used.snapshots),
        "usedbydataset" if dir.has_breakdown() => number(dir.used.head),
        "usedbyrefreservation" if dir.has_breakdown() => number(dir.used.refreservation),
        "usedbychildren" if dir.has_breakdown() => number(dir.used.children.saturating_add(dir.used.children_reserved)),
        "filesystem_count" => Ok(d.dir().field_u64(FIELD_FILESYSTEM_COUNT)?.map(Value::Number)),
        "snapshot_count" => Ok(d.dir().field_u64(FIELD_SNAPSHOT_COUNT)?.map(Value::Number)),
        "snapshots_changed" => {
            let at = d.snapshots_changed()?.filter(|(seconds, _)| *seconds != 0);
            Ok(at.map(|(seconds, _)| Value::Number(seconds)))
        }
        "snapshots_changed_nsecs" => {
            let at = d.snapshots_changed()?.filter(|(seconds, _)| *seconds != 0);
            Ok(at.map(|(seconds, nanoseconds)| {
                Value::Number(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
            }))
        }
        "prevsnap" => text(d.previous()?.map(|p| p.name().to_owned())),
        "receive_resume_token" => text(resume::token(d)?),
        _ => Ok(None),
    }
}

/// Names of the snapshots in this pool with these GUIDs, separated by commas; a GUID without a
/// snapshot is printed as a number.
fn snapshot_names(d: &Dataset, guids: &[u64]) -> Result<String> {
    let known = match d.origin()? {
        Some(origin) => d.tree().head(origin.dir())?.snapshots()?,
        None => d.tree().head(d.dir())?.snapshots()?,
    };
    let name = |guid: &u64| match known.iter().find(|s| s.phys().guid == *guid) {
        Some(snapshot) => snapshot.name().to_owned(),
        None => guid.to_string(),
    };
    Ok(guids.iter().map(name).collect::<Vec<_>>().join(","))
}

fn encryption(d: &Dataset, name: &str, view: &View<'_>) -> Result<Option<Value>> {
    let Some(key) = d.key_object()? else { return Ok(None) };
    match name {
        "encryption" => number(key.wrapped.suite),
        "keyguid" => number(key.wrapped.guid),
        "keyformat" => number(key.key_format),
        "pbkdf2salt" => number(key.pbkdf2_salt),
        "pbkdf2iters" => number(key.pbkdf2_iterations),
        "ivsetguid" => Ok(d.ivset_guid()?.map(Value::Number)),
        "keystatus" => {
            let loaded = view.keys.is_some_and(|keys| keys.has_root(key.root_dir));
            number(if loaded { 2 } else { 1 })
        }
        "encryptionroot" => text(Some(d.tree().dir_by_id(key.root_dir)?.name().to_owned())),
        _ => Ok(None),
    }
}

/// Values from object 1 (the data) and 2 (a ZAP) of a volume.
fn volume(d: &Dataset, name: &str, view: &View<'_>) -> Result<Option<Value>> {
    if d.contents()? != ObjsetKind::Volume || d.phys().has(DslDataset::FLAG_INCONSISTENT) {
        return Ok(None);
    }
    let objset = view.objset(d)?;
    if name == "volblocksize" {
        return number(objset.object(1).at(d.name())?.block_bytes());
    }
    let zap = crate::zap::open_zap(&objset, 2).at(d.name())?;
    Ok(zap.lookup_u64("size").at(d.name())?.map(Value::Number))
}

/// The value of property `name` of a bookmark.
pub(super) fn of_bookmark(b: &Bookmark, name: &str) -> Result<Option<Value>> {
    let phys = b.phys();
    let sums = phys.flags & DslBookmark::FLAG_HAS_FBN != 0;
    match name {
        "name" => text(Some(b.name().to_owned())),
        "type" => text(Some("bookmark".into())),
        "guid" => number(phys.guid),
        "createtxg" => number(phys.creation_txg.0),
        "creation" => number(phys.creation_time),
        "ivsetguid" => number(phys.ivset_guid),
        "referenced" if sums => number(phys.referenced.used),
        "logicalreferenced" if sums => number(phys.referenced.uncompressed),
        "redact_snaps" => match b.redaction_list()? {
            Some(list) => text(Some(snapshot_names(b.dataset(), &list.snaps)?)),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}
