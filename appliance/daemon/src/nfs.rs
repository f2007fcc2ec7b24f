//! The NFS server of the daemon: the shares of the pools, and its configuration.
//!
//! Invariants:
//!   * a share that was removed is refused at the next call: every command and import changes the
//!     generation of the shares
//!   * a pool is no longer served before it is closed

use crate::access::secret;
use crate::config::{Config, Portmap};
use crate::exports;
use crate::owner::Owner;
use admin::OwnedPool;
use anyhow::{Context as _, Result};
use files::namespace::Namespace;
use files::vfs::Vfs;
use host::durable;
use parking_lot::{Mutex, RwLock};
use serve::nfs::{self, Exports, PortMapper, Server, Share, ShareOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The shares of all pools.
pub struct PoolExports {
    owner: Arc<Owner>,
    /// Options that `sharenfs=on` implies.
    on: RwLock<String>,
    generation: AtomicU64,
    /// One tree per pool, so that clients can cross from one file system to the next.
    trees: Mutex<BTreeMap<u64, Tree>>,
}

struct Tree {
    of: Weak<OwnedPool>,
    /// [`OwnedPool::tree_stamp`] at creation: a different stamp means different file systems or
    /// mount points.
    stamp: u64,
    vfs: Arc<dyn Vfs>,
}

impl PoolExports {
    /// The shares of the pools that `owner` has.
    pub fn new(owner: Arc<Owner>, on: &str) -> Arc<Self> {
        Arc::new(Self { owner, on: RwLock::new(on.to_owned()), generation: AtomicU64::new(1), trees: Mutex::default() })
    }

    /// Changes the options for `sharenfs=on`.
    pub fn set_on(&self, on: &str) {
        *self.on.write() = on.to_owned();
        self.changed();
    }

    /// Shares may have changed.
    pub fn changed(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    fn tree(&self, pool: &Arc<OwnedPool>) -> Result<Arc<dyn Vfs>> {
        let stamp = pool.tree_stamp()?;
        let mut trees = self.trees.lock();
        let is_it = |t: &&Tree| t.of.as_ptr() == Arc::as_ptr(pool) && t.stamp == stamp;
        if let Some(tree) = trees.get(&pool.guid()).filter(is_it) {
            return Ok(tree.vfs.clone());
        }
        let vfs: Arc<dyn Vfs> = Arc::new(Namespace::new(pool.provider(&pool.name())?)?);
        trees.insert(pool.guid(), Tree { of: Arc::downgrade(pool), stamp, vfs: vfs.clone() });
        Ok(vfs)
    }

    fn of_pool(&self, pool: &Arc<OwnedPool>) -> Result<Vec<Share>> {
        let on = self.on.read().clone();
        let mut tree = None;
        let mut found = Vec::new();
        for shared in exports::of_pool(pool)? {
            let (None, Some(path)) = (&shared.problem, &shared.path) else { continue };
            if self.owner.unshared.lock().contains(&shared.dataset) {
                continue;
            }
            let text = if shared.options == "on" { &on } else { &shared.options };
            let options = match ShareOptions::parse(text) {
                Ok(Some(options)) => options,
                Ok(None) => continue,
                Err(why) => {
                    tracing::warn!(dataset = shared.dataset, %why, "it is not shared");
                    continue;
                }
            };
            // The key of the pool's root may be missing; the file systems below can still be
            // served. All of them share the tree, because building it walks the whole pool.
            let vfs = match tree.get_or_insert_with(|| self.tree(pool)) {
                Ok(vfs) => vfs.clone(),
                Err(_) => Arc::new(Namespace::with_children(pool.provider(&shared.dataset)?, |_| false)?),
            };
            found.push(Share {
                path: path.clone(),
                dataset: shared.dataset,
                pool_guid: pool.guid(),
                fs_guid: shared.fs_guid,
                vfs,
                options,
            });
        }
        Ok(found)
    }
}

impl Exports for PoolExports {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn shares(&self) -> Vec<Share> {
        let pools = self.owner.house.list();
        self.trees.lock().retain(|guid, _| pools.iter().any(|p| p.guid() == *guid));
        let of = |pool: &Arc<OwnedPool>| match self.of_pool(pool) {
            Ok(shares) => shares,
            Err(error) => {
                tracing::error!(pool = pool.name(), error = %format!("{error:#}"), "cannot list its shares");
                Vec::new()
            }
        };
        pools.iter().flat_map(of).collect()
    }
}

/// Starts the server if it is configured to listen anywhere.
pub fn start(config: &Config, state: &Path, exports: Arc<PoolExports>) -> Result<Option<Server>> {
    if config.nfs.listen.is_empty() {
        return Ok(None);
    }
    let server = Server::start(settings(config, state)?, exports).context("cannot serve NFS")?;
    for address in server.addresses() {
        tracing::info!(%address, "serving NFS");
    }
    Ok(Some(server))
}

fn settings(config: &Config, state: &Path) -> Result<nfs::Config> {
    let mut settings = nfs::Config::new(handle_secret(state)?);
    settings.listen = config.nfs.listen.clone();
    settings.state = Some(state.to_owned());
    let speaks = |version: &str| config.nfs.versions.iter().any(|v| v == version);
    settings.versions = nfs::Versions { v3: speaks("3"), v4: ["4.0", "4.1", "4.2"].map(speaks) };
    settings.lease_seconds = u32::try_from(config.nfs.lease_seconds).unwrap_or(u32::MAX);
    settings.secure_by_default = config.nfs.secure;
    settings.port_mapper = match config.nfs.portmap {
        Portmap::Off => PortMapper::None,
        Portmap::Register => PortMapper::System,
        Portmap::Answer => {
            let own = config.nfs.listen.iter().map(|a| (a.ip(), 111).into());
            PortMapper::Own(own.collect())
        }
    };
    if config.nfs.threads > 0 {
        settings.limits.threads = usize::try_from(config.nfs.threads).unwrap_or(usize::MAX).min(1024);
        settings.limits.threads_max = settings.limits.threads_max.max(settings.limits.threads + 64);
    }
    Ok(settings)
}

/// Secret that signs file handles: created once, because handles must stay valid.
fn handle_secret(state: &Path) -> Result<[u8; 32]> {
    let path = state.join("nfs-secret");
    if let Ok(text) = fs::read_to_string(&path)
        && let Some(bytes) = secret::unhex(text.trim())
        && let Ok(secret) = <[u8; 32]>::try_from(bytes)
    {
        return Ok(secret);
    }
    let made = host::random::bytes::<32>();
    let text = secret::hex(&made);
    durable::replace(&path, text.as_bytes(), durable::PRIVATE).with_context(|| path.display().to_string())?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the server had no state directory, so every restart lost the clients' locks.
    #[test]
    fn clients_with_locks_are_stored_in_the_state_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(&Config::default(), folder.path()).expect("settings");
        assert_eq!(settings.state.as_deref(), Some(folder.path()));
    }

    #[test]
    fn handles_are_signed_with_the_same_secret_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = handle_secret(folder.path()).expect("made");
        assert_eq!(handle_secret(folder.path()).expect("kept"), first);
        fs::write(folder.path().join("nfs-secret"), "damaged").expect("written");
        assert_ne!(handle_secret(folder.path()).expect("recreated"), first);
    }
}
