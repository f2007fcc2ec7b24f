//! Arguments of the parts, and what they name: a dataset and its objects.

use crate::source::Opener;
use admin::OpenPool;
use anyhow::Result;
use clap::ArgMatches;
use dataset::Dataset;
use object::ObjectSet;
use std::sync::Arc;

/// An argument that clap requires; empty if it is not text.
pub(super) fn argument<'m>(matches: &'m ArgMatches, name: &str) -> &'m str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}

/// Whether a key is given.
pub(super) fn has_keys(matches: &ArgMatches) -> bool {
    ["key-file", "passphrase-file", "keylocation"].iter().any(|id| matches.contains_id(id))
}

/// The objects of a dataset: unlocked if a key is given, else as far as they are readable without.
pub(super) fn objset(matches: &ArgMatches, opener: &mut Opener, name: &str) -> Result<Arc<ObjectSet>> {
    if has_keys(matches) {
        let (pool, dataset) = opener.dataset(name)?;
        return Ok(dataset.objset(&pool.keys)?);
    }
    let pool = opener.pool(name)?;
    Ok(find(pool, name)?.objset_without_keys()?)
}

/// The dataset of an open pool. `name` may begin with another name of the pool.
pub(super) fn find(pool: &OpenPool, name: &str) -> Result<Dataset> {
    let rest = name.find(['/', '@', '#']).map_or("", |at| &name[at..]);
    Ok(pool.datasets.dataset(&format!("{}{rest}", pool.pool().name()))?)
}
