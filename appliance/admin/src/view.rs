//! A pool as commands show it: its status and its properties, gathered once.

use anyhow::Result;
use pool::Pool;
use pool::property::{PropertyContext, SetValue};
use pool::status::PoolStatus;

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
