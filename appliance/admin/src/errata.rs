//! Known defects (errata) in what early versions of OpenZFS's encryption wrote, as `zpool status`
//! reports them.
//!
//! Facts: dsl_dir_hold_obj, dsl_dataset_hold_obj, spa_ld_check_features (module/zfs).

use anyhow::Result;
use block::crypt::CURRENT_VERSION;
use dataset::{Dataset, Datasets, Entry, ListOptions};
use pool::Pool;
use std::sync::Arc;

/// `ZPOOL_ERRATA_ZOL_6845_ENCRYPTION`: a dataset is encrypted in the first format.
pub const FIRST_FORMAT: u64 = 3;
/// `ZPOOL_ERRATA_ZOL_8308_ENCRYPTION`: snapshots and bookmarks lack the guid of their set of IVs.
pub const NO_IVSET: u64 = 4;

/// The number of the defect that the features show; 0 if none.
pub fn of_features(pool: &Pool) -> u64 {
    let is_enabled = |guid: &str| pool.features().count(guid).is_some();
    match is_enabled("com.datto:encryption") && !is_enabled("com.datto:bookmark_v2") {
        true => NO_IVSET,
        false => 0,
    }
}

/// Whether a dataset is encrypted in the first format, which is only read
/// (`dsl_dir_incompatible_encryption_version`).
pub fn is_first_format(dataset: &Dataset) -> Result<bool> {
    Ok(dataset.key_object()?.is_some_and(|key| key.wrapped.version != CURRENT_VERSION))
}

/// The number of the defect that encrypted datasets have; 0 if none. Reads the properties of all
/// datasets and snapshots, if there are encrypted ones.
pub fn of_datasets(datasets: &Arc<Datasets>) -> Result<u64> {
    if !datasets.pool().features().is_active("com.datto:encryption") {
        return Ok(0);
    }
    let mut found = 0;
    let root = datasets.root().name().to_owned();
    for entry in datasets.list(&[&root], &ListOptions { bookmarks: false, ..ListOptions::all() })?.entries {
        let Entry::Dataset(dataset) = entry else { continue };
        if is_first_format(&dataset)? {
            return Ok(FIRST_FORMAT);
        }
        if dataset.crypto_object()?.is_some() && dataset.is_snapshot() && dataset.ivset_guid()?.is_none() {
            found = NO_IVSET;
        }
    }
    Ok(found)
}
