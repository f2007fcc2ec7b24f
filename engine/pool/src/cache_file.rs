//! The contents of a cache file (`zpool.cache`): the configurations of pools by name.
//!
//! OpenZFS's module writes the native encoding, its programs read both, so XDR is written.
//! Source: module/zfs/spa_config.c (spa_write_cachefile), lib/libzutil/zutil_import.c
//! (zpool_find_import_cached).
//!
//! Invariants:
//!   * a pool is in it once, by its guid
//!   * configurations of pools that this program did not put there are kept unchanged

use crate::config::VdevConfig;
use errors::{Error, Result};
use ondisk::Endian;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::pool_dir::config as key;
use std::path::PathBuf;

/// XDR data has the same byte order on all machines, but its header records one.
const WRITER: Endian = Endian::Little;

/// The pools of a cache file.
#[derive(Debug, Default)]
pub struct CacheFile {
    pools: Vec<(String, Nvlist)>,
}

/// A pool of a cache file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedPool {
    pub name: String,
    pub guid: u64,
    /// Paths of its leaves, as they were.
    pub devices: Vec<PathBuf>,
}

impl CacheFile {
    /// Parses the contents of a file; an empty one has no pools.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: String| Error::corrupt("cache file", what);
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let list = Nvlist::parse(bytes).map_err(|e| wrong(e.to_string()))?;
        let mut pools = Vec::new();
        for pair in &list.pairs {
            let name = pair.name_lossy().into_owned();
            match &pair.value {
                Value::Nvlist(config) => pools.push((name, config.clone())),
                _ => return Err(wrong(format!("'{name}' is not the configuration of a pool"))),
            }
        }
        Ok(Self { pools })
    }

    /// The contents of the file.
    pub fn pack(&self) -> Vec<u8> {
        let mut list = Nvlist::new();
        for (name, config) in &self.pools {
            list.put(name, config.clone());
        }
        list.to_xdr(WRITER)
    }

    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Adds or replaces a pool: `packed` is its configuration as in the MOS. Returns whether
    /// anything but the txg changed.
    pub fn put(&mut self, packed: &[u8]) -> Result<bool> {
        let config = Nvlist::parse(packed).map_err(|e| Error::corrupt("configuration", e.to_string()))?;
        let name = config.get_str(key::POOL_NAME).unwrap_or_default().to_owned();
        let guid = config.get_u64(key::POOL_GUID);
        let of_any_txg = |config: &Nvlist| {
            let mut config = config.clone();
            config.remove(key::POOL_TXG);
            config.to_xdr(WRITER)
        };
        let is_known = |(known, old): &(String, Nvlist)| *known == name && of_any_txg(old) == of_any_txg(&config);
        if self.pools.iter().any(is_known) {
            return Ok(false);
        }
        self.pools.retain(|(known, old)| *known != name && old.get_u64(key::POOL_GUID) != guid);
        self.pools.push((name, config));
        Ok(true)
    }

    /// Removes a pool. Returns whether it was there.
    pub fn remove(&mut self, guid: u64) -> bool {
        let before = self.pools.len();
        self.pools.retain(|(_, config)| config.get_u64(key::POOL_GUID) != Some(guid));
        self.pools.len() < before
    }

    /// The pools and their devices.
    pub fn pools(&self) -> Result<Vec<CachedPool>> {
        let pool = |(name, config): &(String, Nvlist)| {
            let wrong = |what: &str| Error::corrupt("cache file", format!("pool '{name}' has no {what}"));
            let tree = config.get_nvlist(key::VDEV_TREE).ok_or_else(|| wrong("devices"))?;
            let mut devices = Vec::new();
            leaves(&VdevConfig::parse(tree)?, &mut devices);
            let guid = config.get_u64(key::POOL_GUID).ok_or_else(|| wrong("guid"))?;
            Ok(CachedPool { name: name.clone(), guid, devices })
        };
        self.pools.iter().map(pool).collect()
    }
}

fn leaves(vdev: &VdevConfig, into: &mut Vec<PathBuf>) {
    into.extend(vdev.path.as_ref().map(PathBuf::from));
    vdev.children.iter().for_each(|child| leaves(child, into));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str, guid: u64, txg: u64, path: &str) -> Nvlist {
        let mut leaf = Nvlist::new();
        leaf.put(key::TYPE, "file");
        leaf.put(key::PATH, path);
        let mut root = Nvlist::new();
        root.put(key::TYPE, "root");
        root.put(key::CHILDREN, vec![leaf]);
        let mut list = Nvlist::new();
        list.put(key::POOL_NAME, name);
        list.put(key::POOL_GUID, guid);
        list.put(key::POOL_TXG, txg);
        list.put(key::VDEV_TREE, root);
        list
    }

    fn names(file: &CacheFile) -> Vec<(String, u64)> {
        file.pools().expect("good").into_iter().map(|pool| (pool.name, pool.guid)).collect()
    }

    #[test]
    fn a_pool_is_stored_once_next_to_those_of_others() {
        // As OpenZFS's module writes the file.
        let mut by_openzfs = Nvlist::new();
        by_openzfs.put("rpool", config("rpool", 7, 4, "/dev/sda3"));
        let mut file = CacheFile::parse(&by_openzfs.to_native(Endian::Little)).expect("native");
        assert!(file.put(&config("tank", 8, 10, "/d/a").to_xdr(WRITER)).expect("good"));
        assert!(!file.put(&config("tank", 8, 11, "/d/a").to_xdr(WRITER)).expect("good"), "only the txg changed");
        assert!(file.put(&config("tank", 8, 12, "/d/b").to_xdr(WRITER)).expect("good"));
        let again = CacheFile::parse(&file.pack()).expect("XDR");
        assert_eq!(names(&again), [("rpool".to_owned(), 7), ("tank".to_owned(), 8)]);
        assert_eq!(again.pools().expect("good")[1].devices, [PathBuf::from("/d/b")]);
        // A new name, and another pool of the same name.
        assert!(file.put(&config("new", 8, 13, "/d/b").to_xdr(WRITER)).expect("good"));
        assert!(file.put(&config("new", 9, 1, "/d/c").to_xdr(WRITER)).expect("good"));
        assert_eq!(names(&file), [("rpool".to_owned(), 7), ("new".to_owned(), 9)]);
        assert!(file.remove(9) && !file.remove(9) && file.remove(7) && file.is_empty());
    }

    #[test]
    fn an_invalid_cache_file_is_an_error() {
        assert!(CacheFile::parse(b"").expect("empty").is_empty());
        let error_of = |bytes: &[u8]| CacheFile::parse(bytes).unwrap_err().to_string();
        assert!(error_of(b"root:x:0:0\n").starts_with("cache file: "), "{}", error_of(b"root:x:0:0\n"));
        let mut other = Nvlist::new();
        other.put("tank", 1u64);
        assert!(error_of(&other.to_xdr(WRITER)).contains("'tank' is not the configuration of a pool"));
        let mut hollow = Nvlist::new();
        hollow.put("tank", Nvlist::new());
        let hollow = CacheFile::parse(&hollow.to_xdr(WRITER)).expect("a list of lists");
        assert!(hollow.pools().unwrap_err().to_string().contains("pool 'tank' has no devices"));
    }
}
