//! A pool as commands show it: its status and its properties, collected once.

use crate::{cache_file, compatibility};
use anyhow::Result;
use dataset::{Datasets, Entry, KeyStore, View, property};
use files::diff::Paths;
use files::{FileSystem, zpl};
use pool::property::{PropertyContext, SetValue};
use pool::status::{FeatureSet, PoolStatus, Suspended, VdevStatus};
use pool::{LoggedError, Pool};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Status and properties of an imported pool.
#[derive(Debug, Clone, Default)]
pub struct PoolView {
    pub status: PoolStatus,
    pub properties: PropertyContext,
    /// Space used by the root file system and everything below it, in bytes. Only for pools that
    /// this process has open.
    pub used_bytes: u64,
    /// Space available to the root file system, in bytes.
    pub available_bytes: u64,
    /// Creation time of the pool, in seconds since 1970; `None` if it cannot be read.
    pub created: Option<u64>,
    /// The txg that is shown.
    pub txg: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Age of this view, if the pool's devices do not respond.
    pub age: Option<Duration>,
}

/// Facts about a pool that come from its import.
#[derive(Debug, Clone, Default)]
pub struct ImportFacts {
    /// Name under which it is imported.
    pub name: String,
    /// Guid of the import.
    pub load_guid: u64,
    pub readonly: bool,
    pub altroot: Option<String>,
    pub cachefile: Option<String>,
    /// Why writing is suspended. For such a pool, the view has what can be read.
    pub suspended: Option<Suspended>,
}

/// As [`view`], with the name of the dataset in `bootfs`.
pub fn of_imported(pool: &Arc<Pool>, import: &ImportFacts) -> Result<PoolView> {
    let mut view = view(pool, import)?;
    if let Some(SetValue::Number(id @ 1..)) = view.properties.set.get("bootfs") {
        let name = Datasets::open(pool.clone()).and_then(|all| Ok(all.dataset_by_id(*id)?.name().to_owned()));
        view.properties.bootfs = name.ok();
    }
    Ok(view)
}

impl PoolView {
    /// A message that devices do not respond, if they do not.
    pub fn silence(&self) -> Option<String> {
        let seconds = self.age?.as_secs();
        Some(format!("Devices do not respond. Space, properties and progress are {seconds} s old."))
    }
}

/// Collects the status and properties of an open pool.
pub fn view(pool: &Pool, import: &ImportFacts) -> Result<PoolView> {
    let mut properties = PropertyContext {
        name: import.name.clone(),
        guid: pool.guid(),
        load_guid: import.load_guid,
        version: pool.version(),
        readonly: import.readonly,
        altroot: import.altroot.clone(),
        cachefile: import.cachefile.clone().filter(|file| file != cache_file::DEFAULT),
        comment: pool.config().get_str("comment").map(str::to_owned),
        compatibility: pool.config().get_str("compatibility").map(str::to_owned),
        features: pool.features().clone(),
        ..PropertyContext::default()
    };
    // Missing devices must not prevent the rest from being shown.
    let patient = |error: errors::Error| match error {
        errors::Error::Io { .. } | errors::Error::Missing { .. } => Ok(()),
        _ if import.suspended.is_some() => Ok(()),
        error => Err(error),
    };
    for (name, value) in pool.set_properties().or_else(|e| patient(e).map(|()| Default::default()))? {
        let value = match value.as_u64() {
            Some(number) if value.int_bytes == 8 => SetValue::Number(number),
            _ => SetValue::Text(value.as_string().unwrap_or_default()),
        };
        properties.set.insert(name, value);
    }
    if let Some(SetValue::Text(comment)) = properties.set.get("comment") {
        properties.comment = Some(comment.clone());
    }
    if let Some(SetValue::Text(files)) = properties.set.get("compatibility") {
        properties.compatibility = Some(files.clone());
    }
    properties.stats = pool.stats().or_else(|e| patient(e).map(|()| Default::default()))?;
    let mut status = pool.status()?;
    status.name = import.name.clone();
    status.suspended = import.suspended.clone();
    // A read-only import writes no configuration, so OpenZFS reports no txg for it.
    if import.readonly {
        status.config_txg = 0;
        crate::import::tolerate_missing(&mut status);
    }
    for top in &mut status.root.children {
        let whole = top.space_bytes;
        set_replace_bytes(top, whole);
    }
    status.caches.iter_mut().for_each(set_cache_space);
    status.feature_set = feature_set(&properties);
    properties.health = crate::health::pool_state(&status).to_owned();
    Ok(PoolView { status, properties, ..PoolView::default() })
}

/// Compares the features with the property `compatibility`. Pools without feature flags have
/// nothing to compare.
///
/// Facts: check_status in lib/libzfs/libzfs_status.c, which compares feature by feature.
fn feature_set(properties: &PropertyContext) -> FeatureSet {
    let Ok(requested) = compatibility::load(properties.compatibility.as_deref().unwrap_or_default()) else {
        return FeatureSet::Unknown;
    };
    let is_requested = |name: &str| requested.as_ref().is_none_or(|requested| requested.contains(name));
    match properties.lacks_features(is_requested) {
        true => FeatureSet::Lacking,
        false if properties.has_superfluous_features(is_requested) => FeatureSet::Superfluous,
        false => FeatureSet::AsRequested,
    }
}

/// Size of the labels and the boot area of a leaf, in bytes.
const LABELS_BYTES: u64 = (4 << 20) + (512 << 10);

/// Sets the minimum size of a replacement (`vs_rsize`): a leaf needs its share of the top-level
/// vdev's allocatable space, plus labels.
fn set_replace_bytes(vdev: &mut VdevStatus, share: u64) {
    if vdev.is_leaf() {
        vdev.replace_bytes = if share == 0 { 0 } else { share.saturating_add(LABELS_BYTES) };
        return;
    }
    vdev.replace_bytes = share;
    let below = match vdev.kind.as_str() {
        "raidz" | "draid" => share.div_ceil(vdev.children.len().max(1) as u64),
        _ => share,
    };
    vdev.children.iter_mut().for_each(|child| set_replace_bytes(child, below));
}

/// Sets the space of a cache device: everything except labels and one header.
pub fn set_cache_space(cache: &mut VdevStatus) {
    const LABEL: u64 = 256 << 10;
    cache.replace_bytes = cache.phys_bytes / LABEL * LABEL;
    let header = 1u64.checked_shl(u32::try_from(cache.ashift).unwrap_or(9)).unwrap_or(0).max(512);
    cache.space_bytes = cache.replace_bytes.saturating_sub(LABELS_BYTES).saturating_sub(header);
    cache.fragmentation_percent = Some(0);
}

/// Names the damaged files in the error log, as OpenZFS does: `/mountpoint/path`; `dataset:<0x…>`
/// without a path; `<0x…>:<0x…>` if the dataset no longer exists; `<metadata>:<0x…>` for the pool's
/// own objects. A file is named in all file systems, snapshots and clones that have its damaged
/// block. Also returns the entries of the log whose blocks no longer exist anywhere.
pub fn damaged_files(
    datasets: &Arc<Datasets>,
    keys: &KeyStore,
    altroot: Option<&str>,
) -> Result<(Vec<String>, Vec<LoggedError>)> {
    let mut names = Vec::new();
    let (mut objects, mut gone) = (BTreeSet::new(), Vec::new());
    for error in datasets.pool().error_log()? {
        let affected = datasets.pool().affected_by(&error)?;
        if affected.is_empty() {
            gone.push(error);
        }
        objects.extend(affected.into_iter().map(|dataset| (dataset, error.object)));
    }
    let objects: Vec<(u64, u64)> = objects.into_iter().collect();
    for of_dataset in objects.chunk_by(|a, b| a.0 == b.0) {
        let Some((id, _)) = of_dataset.first() else { continue };
        let numbers = of_dataset.iter().map(|(_, object)| *object);
        let dataset = if *id == 0 { None } else { datasets.dataset_by_id(*id).ok() };
        let Some(dataset) = dataset else {
            let place = if *id == 0 { "<metadata>".to_owned() } else { format!("<{id:#x}>") };
            names.extend(numbers.map(|object| format!("{place}:<{object:#x}>")));
            continue;
        };
        let options = zpl::Options { name: dataset.name().to_owned(), ..zpl::Options::default() };
        let files = dataset.objset(keys).and_then(|objset| FileSystem::open(objset, options)).ok();
        let mut paths = files.as_deref().and_then(|files| Paths::new(files).ok());
        let view = View { altroot, ..View::default() };
        let mountpoint = property::get(&Entry::Dataset(dataset.clone()), "mountpoint", &view)?.map(|p| p.value.raw);
        let place = match mountpoint.as_deref() {
            Some("/") => String::new(),
            Some(path) if path.starts_with('/') => path.to_owned(),
            _ => format!("{}:", dataset.name()),
        };
        for object in numbers {
            let path = paths.as_mut().and_then(|p| p.path(object).ok().flatten());
            names.push(match path {
                Some(path) => format!("{place}{}", String::from_utf8_lossy(&path)),
                None => format!("{}:<{object:#x}>", dataset.name()),
            });
        }
    }
    Ok((names, gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_compared_with_those_that_compatibility_requests() {
        let mut properties = PropertyContext { version: 5000, ..PropertyContext::default() };
        let of = |properties: &PropertyContext, compatibility: &str| {
            feature_set(&PropertyContext { compatibility: Some(compatibility.to_owned()), ..properties.clone() })
        };
        assert_eq!(of(&properties, "off"), FeatureSet::Lacking);
        assert_eq!(of(&properties, "legacy"), FeatureSet::AsRequested);
        assert_eq!(of(&properties, "no/such/file"), FeatureSet::Unknown);
        properties.features.for_read.insert("org.illumos:lz4_compress".to_owned(), 1);
        assert_eq!(of(&properties, "legacy"), FeatureSet::Superfluous);
    }
}
