//! The datasets and snapshots of a pool, by the shortest way.

use anyhow::{Context, Result};
use files::zpl;
use object::{ObjectSet, Zap};
use ondisk::{DslDataset, DslDir};
use pool::Pool;
use std::sync::Arc;

/// A dataset or snapshot whose root block could be read.
pub struct Found {
    /// `pool/dataset@snapshot`.
    pub name: String,
    /// How it is shown.
    pub options: zpl::Options,
    /// Its objects.
    pub objset: Arc<ObjectSet>,
    /// Whether it is a snapshot.
    pub is_snapshot: bool,
}

/// All datasets and snapshots of a pool; what cannot be opened is told on standard output.
pub fn datasets(pool: &Arc<Pool>) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut waiting = vec![(pool.name().to_owned(), pool.root_dir()?, 0u64)];
    let mos = pool.mos();
    while let Some((name, id, inherited)) = waiting.pop() {
        let object = mos.object(id)?;
        let dir = DslDir::parse(object.bonus(), object.endian())?;
        let acltype = match dir.props_zap {
            0 => inherited,
            zap => Zap::open(mos.object(zap)?)?.lookup_u64("acltype")?.unwrap_or(inherited),
        };
        for entry in Zap::open(mos.object(dir.children_zap)?)?.entries()? {
            let child = String::from_utf8(entry.name)?;
            if !child.starts_with('$') {
                waiting.push((format!("{name}/{child}"), entry.value.as_u64().context("child")?, acltype));
            }
        }
        if dir.head_dataset == 0 {
            continue;
        }
        let mut add = |name: String, id: u64, is_snapshot| -> Result<u64> {
            let object = mos.object(id)?;
            let dataset = DslDataset::parse(object.bonus(), object.endian())?;
            match ObjectSet::open(pool.store().clone(), &dataset.bp, id, None) {
                Ok(objset) => {
                    let options = zpl::Options { name: name.clone(), posix_acl: acltype == 1, ..Default::default() };
                    found.push(Found { name, options, objset, is_snapshot });
                }
                Err(e) => println!("  {name}: {e}"),
            }
            Ok(dataset.snapnames_zap)
        };
        let snapshots = add(name.clone(), dir.head_dataset, false)?;
        for entry in Zap::open(mos.object(snapshots)?)?.entries()? {
            let snapshot = String::from_utf8(entry.name)?;
            add(format!("{name}@{snapshot}"), entry.value.as_u64().context("snapshot")?, true)?;
        }
    }
    Ok(found)
}
