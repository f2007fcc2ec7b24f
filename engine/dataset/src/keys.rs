//! Keys of encrypted datasets.
//!
//! Below: `block::crypt::DatasetKeys`, made by `block::crypt`. ZFS name: dsl_crypt, spa_keystore.
//!
//! Datasets below an encryption root share its wrapping key. Each has a master key of its own
//! (clones share their origin's), wrapped with it, in a key object. A store holds wrapping keys by
//! encryption root for its whole lifetime.

use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::zap::open_zap;
use block::crypt::{Attribute as KeyAttribute, DatasetKeys, KeyObject};
use errors::{Error, Place, Result};
use host::sync::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The loaded keys of a pool's datasets. They are only in memory.
#[derive(Default)]
pub struct KeyStore {
    /// Wrapping keys, by the directory object of their encryption root.
    wrapping: RwLock<HashMap<u64, Zeroizing<[u8; 32]>>>,
    /// Unwrapped keys, by key object.
    unwrapped: RwLock<HashMap<u64, Arc<DatasetKeys>>>,
}

/// The source of a key: the property `keylocation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLocation {
    /// Not an encryption root.
    None,
    /// `prompt`: the user types it.
    Prompt,
    /// A file, by its absolute path.
    File(String),
    /// An `http://` or `https://` URL.
    Url(String),
}

impl KeyLocation {
    /// Parses the property's value; `None` if it is unknown.
    pub fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "none" => Self::None,
            "prompt" => Self::Prompt,
            _ if value.starts_with("file:///") => Self::File(value["file://".len()..].to_owned()),
            _ if value.starts_with("https://") || value.starts_with("http://") => Self::Url(value.to_owned()),
            _ => return None,
        })
    }
}

impl Dataset {
    /// The key object, if the dataset is encrypted.
    pub fn key_object(&self) -> Result<Option<KeyObject>> {
        let Some(id) = self.crypto_object()? else { return Ok(None) };
        let zap = open_zap(self.mos(), id).at(self.name())?;
        let attribute = |name: &str| {
            Ok(zap.lookup(name)?.map(|value| KeyAttribute { int_bytes: value.int_bytes, ints: value.ints }))
        };
        KeyObject::read(attribute).at(self.name()).map(Some)
    }

    /// The directory whose key unlocks this dataset.
    pub fn encryption_root(&self) -> Result<Option<Arc<Dir>>> {
        match self.key_object()? {
            Some(key) => self.tree().dir_by_id(key.root_dir).map(Some),
            None => Ok(None),
        }
    }
}

impl KeyStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads the key of the encryption root of `dataset`, in the form that `keyformat` specifies: a
    /// passphrase, hex digits or raw bytes. A wrong key is
    /// [`Refusal::IncorrectKey`](errors::Refusal::IncorrectKey).
    pub fn load(&self, dataset: &Dataset, material: &[u8]) -> Result<()> {
        let (root, key) = Self::root_of(dataset)?;
        let wrapping = key.wrapping_key(material).at(root.name())?;
        let keys = DatasetKeys::unwrap(&key.wrapped, &wrapping).at(root.name())?;
        if let Some(id) = root.crypto_object()? {
            self.unwrapped.write().insert(id, keys);
        }
        self.wrapping.write().insert(root.dir().id(), wrapping);
        Ok(())
    }

    /// Whether `material` is the key of the encryption root of `dataset`; loads nothing.
    pub fn check(&self, dataset: &Dataset, material: &[u8]) -> Result<()> {
        let (root, key) = Self::root_of(dataset)?;
        let wrapping = key.wrapping_key(material).at(root.name())?;
        DatasetKeys::unwrap(&key.wrapped, &wrapping).at(root.name()).map(drop)
    }

    fn root_of(dataset: &Dataset) -> Result<(Dataset, KeyObject)> {
        let not_encrypted = || Error::invalid(dataset.name(), "it is not encrypted");
        let root = dataset.encryption_root()?.ok_or_else(not_encrypted)?;
        let root = dataset.tree().head(&root)?;
        let key = root.key_object()?.ok_or_else(not_encrypted)?;
        Ok((root, key))
    }

    /// Unloads the key of the encryption root of `dataset`; returns false if it was not loaded.
    pub fn unload(&self, dataset: &Dataset) -> Result<bool> {
        let Some(root) = dataset.encryption_root()? else { return Ok(false) };
        // It is not recorded which keys are below that root: the others are unwrapped again when
        // needed.
        self.unwrapped.write().clear();
        Ok(self.wrapping.write().remove(&root.id()).is_some())
    }

    /// Whether the key of `dataset` is loaded; true if it is not encrypted.
    pub fn is_available(&self, dataset: &Dataset) -> Result<bool> {
        Ok(match dataset.encryption_root()? {
            Some(root) => self.wrapping.read().contains_key(&root.id()),
            None => true,
        })
    }

    /// The wrapping key of the encryption root whose directory is object `root`, if it is loaded.
    pub(crate) fn wrapping_key_of(&self, root: u64) -> Option<Zeroizing<[u8; 32]>> {
        self.wrapping.read().get(&root).cloned()
    }

    /// Stores the keys of a new dataset: the wrapping key of encryption root `root`, and the keys
    /// of its own key object.
    pub(crate) fn put(&self, root: u64, wrapping: Zeroizing<[u8; 32]>, key_object: u64, keys: Arc<DatasetKeys>) {
        self.unwrapped.write().insert(key_object, keys);
        self.put_wrapping(root, wrapping);
    }

    /// Stores a new wrapping key.
    pub(crate) fn put_wrapping(&self, root: u64, wrapping: Zeroizing<[u8; 32]>) {
        self.wrapping.write().insert(root, wrapping);
    }

    /// Drops the wrapping key of `root`, and all unwrapped keys: those of other roots are unwrapped
    /// again when needed.
    pub(crate) fn forget(&self, root: u64) {
        self.wrapping.write().remove(&root);
        self.unwrapped.write().clear();
    }

    /// Whether the key of the encryption root whose directory is object `root` is loaded.
    pub(crate) fn has_root(&self, root: u64) -> bool {
        self.wrapping.read().contains_key(&root)
    }

    /// The unwrapped keys of an encrypted dataset.
    pub fn dataset_keys(&self, dataset: &Dataset) -> Result<Arc<DatasetKeys>> {
        let unavailable = || Error::KeyUnavailable { place: dataset.name().to_owned() };
        let id = dataset.crypto_object()?.ok_or_else(|| Error::invalid(dataset.name(), "it is not encrypted"))?;
        if let Some(keys) = self.unwrapped.read().get(&id) {
            return Ok(keys.clone());
        }
        let key = dataset.key_object()?.ok_or_else(unavailable)?;
        let wrapping = self.wrapping.read().get(&key.root_dir).cloned().ok_or_else(unavailable)?;
        let keys = DatasetKeys::unwrap(&key.wrapped, &wrapping).at(dataset.name())?;
        self.unwrapped.write().insert(id, keys.clone());
        Ok(keys)
    }
}
