//! What a lookup of properties knows in addition to the pool.

use crate::dataset::Dataset;
use crate::keys::KeyStore;
use errors::Result;
use object::ObjectSet;
use std::sync::Arc;

/// External state that affects values: mounts, keys, and how the pool was imported.
#[derive(Default, Clone, Copy)]
pub struct View<'a> {
    pub keys: Option<&'a KeyStore>,
    pub mounts: Mounts<'a>,
    /// Directory under which everything is mounted (`altroot`).
    pub altroot: Option<&'a str>,
    /// Mounts are read-only even if the datasets are not.
    pub read_only: bool,
}

/// The value of property `atime`, `devices`, `exec`, `readonly` or `setuid` with which a dataset is
/// mounted, given the names of both; `None` if it is not mounted or that is not known.
pub type MountOptions<'a> = dyn Fn(&str, &str) -> Option<bool> + 'a;

/// Which datasets are mounted.
#[derive(Default, Clone, Copy)]
pub enum Mounts<'a> {
    #[default]
    None,
    /// Everything that an import mounts.
    AsImported,
    /// Those for which the function returns true, given the dataset's name.
    Of(&'a dyn Fn(&str) -> bool),
    /// The same, with the options of their mounts, which may differ from the properties.
    With { mounted: &'a dyn Fn(&str) -> bool, options: &'a MountOptions<'a> },
}

impl View<'_> {
    /// The contents of `dataset`, with its keys if they are loaded, otherwise as far as they are
    /// readable without.
    pub(crate) fn objset(&self, dataset: &Dataset) -> Result<Arc<ObjectSet>> {
        match self.keys {
            Some(keys) if keys.is_available(dataset)? => dataset.objset(keys),
            _ => dataset.objset_without_keys(),
        }
    }
}
