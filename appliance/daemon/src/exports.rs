//! NFS shares of the pools: file systems whose `sharenfs` is not off.

use crate::smb::SmbOptions;
use admin::OwnedPool;
use anyhow::Result;
use dataset::{DatasetKind, Entry, ListOptions, Source, View, property};
use serve::nfs::exports::ShareOptions;

/// A file system and its sharing options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    pub dataset: String,
    /// Path for clients; `None`: it has no mount point.
    pub path: Option<String>,
    /// Value of `sharenfs`, `off` included.
    pub options: String,
    /// The dataset from which `sharenfs` is inherited, if it is another one.
    pub inherited_from: Option<String>,
    /// Why it cannot be shared, if so.
    pub problem: Option<String>,
    /// Guid of the file system for NFS file handles.
    pub fs_guid: u64,
}

/// Whether a server understands a property's value. True for all properties but `sharenfs` and
/// `sharesmb`.
pub fn is_understood(property: &str, value: &str) -> bool {
    match property {
        "sharenfs" => ShareOptions::parse(value).is_ok(),
        "sharesmb" => SmbOptions::parse(value).is_ok(),
        _ => true,
    }
}

/// All file systems of a pool, shared or not.
pub fn of_pool(pool: &OwnedPool) -> Result<Vec<Shared>> {
    among(pool, &[], None)
}

/// The file system with this name; `None` if it is not a file system. The cost does not depend on
/// the number of file systems.
pub fn of_dataset(pool: &OwnedPool, name: &str) -> Result<Option<Shared>> {
    Ok(among(pool, &[name], Some(0))?.pop())
}

fn among(pool: &OwnedPool, roots: &[&str], depth: Option<usize>) -> Result<Vec<Shared>> {
    let datasets = pool.datasets()?;
    let options = ListOptions { volumes: false, depth, ..ListOptions::heads() };
    let record = pool.record();
    let view = View { keys: Some(pool.keys()), altroot: record.altroot.as_deref(), ..View::default() };
    let mut found = Vec::new();
    for entry in datasets.list(roots, &options)?.entries {
        let Entry::Dataset(dataset) = &entry else { continue };
        if dataset.kind()? != DatasetKind::FileSystem {
            continue;
        }
        let Some(sharenfs) = property::get(&entry, "sharenfs", &view)? else { continue };
        let mountpoint = property::get(&entry, "mountpoint", &view)?.map(|p| p.value.raw).unwrap_or_default();
        let path = Some(mountpoint).filter(|p| p.starts_with('/'));
        let canmount = property::get(&entry, "canmount", &view)?.map(|p| p.value.raw);
        let options = sharenfs.value.raw;
        let problem = match ShareOptions::parse(&options) {
            Err(why) => Some(why),
            Ok(None) => Some("sharenfs is off".to_owned()),
            Ok(Some(_)) if path.is_none() => Some("it has no mount point, which clients need to find it".to_owned()),
            // As in OpenZFS, where such a file system only passes its properties on to others.
            Ok(Some(_)) if canmount.as_deref() == Some("off") => Some("canmount is off".to_owned()),
            Ok(Some(_)) if !pool.keys().is_available(dataset)? => Some("its key is not loaded".to_owned()),
            Ok(Some(_)) => None,
        };
        let inherited_from = match sharenfs.source {
            Source::Inherited(from) => Some(from),
            _ => None,
        };
        let fs_guid = dataset.phys().fsid_guid;
        found.push(Shared { dataset: dataset.name().to_owned(), path, options, inherited_from, problem, fs_guid });
    }
    Ok(found)
}
