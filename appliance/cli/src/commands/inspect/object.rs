//! `inspect object`: one object of a dataset, or the list of all.

use super::argument::{argument, objset};
use super::{convert, dataset};
use crate::source::Opener;
use anyhow::{Context, Result};
use clap::ArgMatches;
use object::{Object, ObjectSet, SaTable, Zap};
use ondisk::sa::Attr;
use ondisk::znode::DirEntryValue;
use ondisk::{BlkPtr, DslDataset, DslDir, ObjectType, bpobj, spacemap};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `inspect object DATASET [NUMBER]`.
pub fn object(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let name = argument(matches, "DATASET");
    let set = if matches.get_flag("mos") {
        opener.pool(name)?.pool().mos().clone()
    } else {
        objset(matches, &mut opener, name)?
    };
    let limit = *matches.get_one::<u64>("blocks-max").unwrap_or(&u64::MAX);
    match matches.get_one::<String>("NUMBER") {
        Some(number) => one(&set, number.parse().with_context(|| format!("object {number:?}"))?, limit),
        None => all(&set, limit),
    }
}

fn all(set: &Arc<ObjectSet>, limit: u64) -> Result<Value> {
    let (mut rows, mut id) = (Vec::new(), 0);
    while let Some(next) = set.next_object(id)? {
        id = next;
        if rows.len() as u64 >= limit {
            break;
        }
        rows.push(match set.dnode(id) {
            Ok(d) => json!({
                "object": id, "type": d.object_type.name(), "levels": d.levels, "block_bytes": d.data_block_bytes,
                "slots": d.slots, "used_bytes": d.used_bytes, "max_block_id": d.max_block_id,
                "bonus": d.bonus_type.name(),
            }),
            Err(e) => json!({ "object": id, "type": e.to_string() }),
        });
    }
    Ok(Value::Array(rows))
}

fn one(set: &Arc<ObjectSet>, id: u64, limit: u64) -> Result<Value> {
    // The accounting objects have the last numbers; zdb prints them as negative.
    let object = match id {
        u64::MAX => set.user_used().context("no accounting by user")?,
        n if n == u64::MAX - 1 => set.group_used().context("no accounting by group")?,
        n if n == u64::MAX - 2 => set.project_used().context("no accounting by project")?,
        0 => set.meta().clone(),
        n => set.object(n)?,
    };
    let mut document = json!({ "objset": set.id(), "object": id, "dnode": convert::dnode(object.dnode()) });
    document["bonus"] = bonus(set, &object);
    if is_zap(object.dnode().object_type) {
        document["entries"] = match entries(&object, limit) {
            Ok(entries) => entries,
            Err(e) => json!(e.to_string()),
        };
    }
    if object.dnode().object_type.0 == PACKED_NVLIST {
        document["contents"] = match pool::packed_list(set, id) {
            Ok(list) => convert::nvlist(&list),
            Err(e) => json!(e.to_string()),
        };
    }
    let mut tree = Tree { object: &object, rows: Vec::new(), limit };
    tree.walk();
    document["blocks"] = Value::Array(tree.rows);
    if let Some(spill) = &object.dnode().spill {
        document["spill"] = json!(convert::pointer(spill));
    }
    Ok(document)
}

/// `DMU_OT_PACKED_NVLIST`.
const PACKED_NVLIST: u8 = 3;

/// Whether objects of this type are ZAPs: by the format's table, and by the byteswap bits of newer
/// types.
fn is_zap(kind: ObjectType) -> bool {
    const DMU_OTN_NEW: u8 = 0x80;
    const BYTESWAP: u8 = 0x1f;
    /// `DMU_BSWAP_ZAP`.
    const ZAP: u8 = 4;
    let name = kind.name().to_ascii_lowercase();
    kind.0 & DMU_OTN_NEW != 0 && kind.0 & BYTESWAP == ZAP
        || [
            "zap",
            "directory",
            "master node",
            "props",
            "delete queue",
            "child map",
            "snap map",
            "attr",
            "user/group/project used",
        ]
        .iter()
        .any(|w| name.contains(w))
            && kind != ObjectType::DSL_DIR
}

fn entries(object: &Object, limit: u64) -> Result<Value> {
    let is_directory = object.dnode().object_type == ObjectType::DIRECTORY_CONTENTS;
    let mut rows = Vec::new();
    for step in Zap::open(object.clone())?.cursor(0) {
        let (entry, _) = step?;
        if rows.len() as u64 >= limit {
            break;
        }
        let name = match entry.key.as_slice() {
            [] => convert::text(&entry.name),
            key => json!(key.iter().map(|w| format!("{w:#x}")).collect::<Vec<_>>().join(" ")),
        };
        rows.push(match entry.value.as_u64().filter(|_| is_directory) {
            Some(packed) => {
                let e = DirEntryValue::unpack(packed);
                json!({ "name": name, "object": e.object, "kind": e.kind })
            }
            None => json!({ "name": name, "value": convert::zap_value(&entry.value) }),
        });
    }
    Ok(Value::Array(rows))
}

/// The bonus buffer, parsed by its type.
fn bonus(set: &Arc<ObjectSet>, object: &Object) -> Value {
    let (bytes, endian) = (object.bonus(), object.endian());
    let parsed = match object.dnode().bonus_type {
        ObjectType::DSL_DIR => DslDir::parse(bytes, endian).map(|d| dataset::dir(&d)).ok(),
        ObjectType::DSL_DATASET => DslDataset::parse(bytes, endian)
            .map(|d| {
                json!({
                    "directory": d.dir, "previous_snapshot": d.prev_snap, "previous_snapshot_txg": d.prev_snap_txg.0,
                    "next_snapshot": d.next_snap, "creation_txg": d.creation_txg.0, "deadlist": d.deadlist,
                    "referenced_bytes": d.referenced_bytes, "unique_bytes": d.unique_bytes, "guid": d.guid,
                    "flags": format!("{:#x}", d.flags), "root": convert::pointer(&d.bp),
                })
            })
            .ok(),
        kind if kind.name() == "SPA space map header" || object.dnode().object_type.name() == "SPA space map" => {
            spacemap::Header::parse(bytes, endian)
                .map(|h| json!({ "object": h.object, "length_bytes": h.length_bytes, "allocated_bytes": h.allocated_bytes }))
                .ok()
        }
        kind if kind.name().starts_with("bpobj") => bpobj::Header::parse(bytes, endian)
            .map(|h| json!({
                "entries": h.entries, "used_bytes": h.used_bytes, "freed": h.freed,
                "sub_lists": h.subobjects.map(|s| s.count), "sub_list_object": h.subobjects.map(|s| s.object),
            }))
            .ok(),
        _ => attributes(set, object),
    };
    parsed.unwrap_or_else(|| if bytes.is_empty() { Value::Null } else { json!(convert::dump(bytes)) })
}

/// The attributes of a file, new (SA) or old.
fn attributes(set: &Arc<ObjectSet>, object: &Object) -> Option<Value> {
    if !matches!(set.phys().kind, ondisk::ObjsetKind::FileSystem) {
        return None;
    }
    let master = Zap::open(set.object(1).ok()?).ok()?;
    let table = SaTable::load(set, master.lookup_u64("SA_ATTRS").ok()?).ok()?;
    let attributes = table.attributes(object).ok()?;
    let mut found = Map::new();
    for (attr, name, _) in Attr::TABLE {
        let Ok(Some((bytes, endian))) = attributes.get(attr) else { continue };
        let words: Vec<u64> = bytes.chunks_exact(8).map(|b| endian.u64(b)).collect();
        let value = match (attr, words.as_slice()) {
            (Attr::Mode, [n]) => json!(format!("{n:#o}")),
            (Attr::Flags, [n]) => json!(format!("{n:#x}")),
            (Attr::Atime | Attr::Mtime | Attr::Ctime | Attr::Crtime, [s, ns]) => {
                json!(format!("{}.{ns:09} ({})", *s as i64, crate::number::ctime(*s)))
            }
            (Attr::Symlink, _) => convert::text(bytes),
            (_, [n]) if bytes.len() == 8 => json!(n),
            _ => json!(convert::hex(bytes)),
        };
        found.insert(name.trim_start_matches("ZPL_").to_lowercase(), value);
    }
    (!found.is_empty()).then_some(Value::Object(found))
}

/// All block pointers of an object, top-down.
struct Tree<'o> {
    object: &'o Object,
    rows: Vec<Value>,
    limit: u64,
}

impl Tree<'_> {
    fn walk(&mut self) {
        let top = self.object.dnode().levels.saturating_sub(1);
        for blkid in 0..self.object.dnode().blkptrs.len() as u64 {
            self.below(top, blkid);
        }
    }

    fn below(&mut self, level: u8, blkid: u64) {
        if self.rows.len() as u64 >= self.limit {
            return;
        }
        let bp = match self.object.block_pointer(level, blkid) {
            Ok(bp) if bp.is_hole() && bp.logical_birth().0 == 0 => return,
            Ok(bp) => bp,
            Err(e) => return self.row(level, blkid, &e.to_string()),
        };
        self.row(level, blkid, &convert::pointer(&bp));
        if level > 0 && !bp.is_hole() {
            let per_block = self.object.dnode().pointers_per_indirect();
            let first = blkid.saturating_mul(per_block);
            for child in first..first.saturating_add(per_block) {
                if self.is_past_end(level - 1, child) {
                    break;
                }
                self.below(level - 1, child);
            }
        }
    }

    fn is_past_end(&self, level: u8, blkid: u64) -> bool {
        let per_block = self.object.dnode().pointers_per_indirect().max(1);
        let last = (0..level).fold(self.object.max_block_id(), |n, _| n / per_block);
        blkid > last
    }

    fn row(&mut self, level: u8, blkid: u64, what: &str) {
        let per_block = self.object.dnode().pointers_per_indirect();
        let span = (0..level).fold(self.object.block_bytes(), |n, _| n.saturating_mul(per_block));
        self.rows.push(json!({
            "offset": format!("{:x}", blkid.saturating_mul(span)), "level": level, "block": blkid, "pointer": what,
        }));
    }
}

/// The pointer at this place.
pub fn pointer_at(set: &Arc<ObjectSet>, id: u64, level: u8, blkid: u64) -> Result<BlkPtr> {
    let object = if id == 0 { set.meta().clone() } else { set.object(id)? };
    Ok(object.block_pointer(level, blkid)?)
}
