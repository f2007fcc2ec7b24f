//! A pool as commands show it: its status and its properties, gathered once.

use anyhow::Result;
use dataset::{Datasets, Entry, KeyStore, View, property};
use files::diff::Paths;
use files::{FileSystem, zpl};
use pool::Pool;
use pool::property::{PropertyContext, SetValue};
use pool::status::PoolStatus;
use std::sync::Arc;

/// Status and properties of an imported pool.
#[derive(Debug, Clone, Default)]
pub struct PoolView {
    /// Status.
    pub status: PoolStatus,
    /// Properties.
    pub properties: PropertyContext,
}

/// What an import adds to a pool.
#[derive(Debug, Clone, Default)]
pub struct ImportFacts {
    /// Name under which it is imported.
    pub name: String,
    /// Identity of the import.
    pub load_guid: u64,
    /// `-o readonly=on`.
    pub readonly: bool,
    /// `-R`.
    pub altroot: Option<String>,
    /// `-o cachefile=`.
    pub cachefile: Option<String>,
}

/// Gathers all that can be told of an open pool.
pub fn view(pool: &Pool, import: &ImportFacts) -> Result<PoolView> {
    let mut properties = PropertyContext {
        name: import.name.clone(),
        guid: pool.guid(),
        load_guid: import.load_guid,
        version: pool.version(),
        readonly: import.readonly,
        altroot: import.altroot.clone(),
        cachefile: import.cachefile.clone(),
        comment: pool.config().get_str("comment").map(str::to_owned),
        compatibility: pool.config().get_str("compatibility").map(str::to_owned),
        features: pool.features().clone(),
        ..PropertyContext::default()
    };
    for (name, value) in pool.set_properties()? {
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
    properties.stats = pool.stats()?;
    let mut status = pool.status()?;
    status.name = import.name.clone();
    status.features_disabled = properties.features_disabled() && properties.compatibility.is_none();
    properties.health = crate::health::pool_state(&status).to_owned();
    Ok(PoolView { status, properties })
}

/// Names the damaged files of the error log: `/mountpoint/path`, `dataset:<0x…>` when there is no path, `<0x…>:<0x…>` when
/// there is no dataset any more, `<metadata>:<0x…>` for the pool's own objects. What OpenZFS names.
pub fn damaged_files(datasets: &Arc<Datasets>, keys: &KeyStore, altroot: Option<&str>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut objects: Vec<(u64, u64)> = datasets.pool().error_log()?.iter().map(|e| (e.dataset, e.object)).collect();
    objects.dedup();
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
    Ok(names)
}
