//! The NBD server of the daemon: the volumes that it serves, and its configuration.
//!
//! A volume is served unless its property `volmode` is `none`. Clients can open its snapshots by
//! name; they are listed where `snapdev=visible`, as OpenZFS creates their devices.

use crate::config::{Config, NbdTls};
use crate::owner::Owner;
use crate::tls;
use admin::OwnedPool;
use anyhow::{Context as _, Result};
use dataset::name::is_hidden;
use dataset::tree::Entry;
use dataset::{Dataset, DatasetKind, ListOptions, View, property};
use serve::nbd::{self, Exports, Found, Listed, Opened, Server};
use serve::nfs::HostPattern;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The volumes of all pools.
pub struct PoolVolumes {
    owner: Arc<Owner>,
    only: Option<One>,
}

/// A single export from the command line.
#[derive(Debug, Clone)]
pub struct One {
    /// This volume or snapshot only, whatever its `volmode`. It is also the default export.
    pub name: String,
    pub read_only: bool,
}

fn text(dataset: &Dataset, name: &str) -> Option<String> {
    let entry = Entry::Dataset(dataset.clone());
    property::get(&entry, name, &View::default()).ok().flatten().map(|p| p.value.raw)
}

fn is_served(volume: &Dataset) -> bool {
    text(volume, "volmode").as_deref() != Some("none")
}

impl PoolVolumes {
    /// The volumes of the pools that `owner` has; with `only`, that one.
    pub fn new(owner: Arc<Owner>, only: Option<One>) -> Arc<Self> {
        Arc::new(Self { owner, only })
    }

    fn of_pool(pool: &OwnedPool) -> Result<Vec<Listed>> {
        let mut found = Vec::new();
        let options = ListOptions { filesystems: false, ..ListOptions::heads() };
        for entry in pool.datasets()?.list(&[&pool.name()], &options)?.entries {
            let Some(volume) = entry.dataset().filter(|v| is_served(v)) else { continue };
            found.push(Listed { name: volume.name().to_owned(), description: String::new() });
            if text(volume, "snapdev").as_deref() != Some("visible") {
                continue;
            }
            for (name, _) in volume.snapshot_names()?.iter().filter(|(name, _)| !is_hidden(name)) {
                let name = format!("{}@{name}", volume.name());
                found.push(Listed { name, description: "a snapshot, read-only".to_owned() });
            }
        }
        Ok(found)
    }

    fn find(&self, name: &str) -> Result<Option<Opened>> {
        let pool_name = name.split(['/', '@']).next().unwrap_or(name);
        let Some(pool) = self.owner.house.list().into_iter().find(|p| p.name() == pool_name) else { return Ok(None) };
        let dataset = match pool.datasets()?.dataset(name) {
            Ok(dataset) => dataset,
            Err(errors::Error::NotFound { .. } | errors::Error::Invalid { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let head = dataset.tree().head(dataset.dir())?;
        if head.kind()? != DatasetKind::Volume || (self.only.is_none() && !is_served(&head)) {
            return Ok(None);
        }
        let open = Arc::new(pool.volume(name)?);
        let read_only = self.only.as_ref().is_some_and(|only| only.read_only);
        Ok(Some(Opened { name: name.to_owned(), export: open.volume().clone(), read_only, hold: open }))
    }
}

impl Exports for PoolVolumes {
    fn list(&self) -> Vec<Listed> {
        if let Some(only) = &self.only {
            return vec![Listed { name: only.name.clone(), description: String::new() }];
        }
        let of = |pool: &Arc<OwnedPool>| match Self::of_pool(pool) {
            Ok(volumes) => volumes,
            Err(error) => {
                tracing::error!(pool = pool.name(), error = %format!("{error:#}"), "cannot list its volumes");
                Vec::new()
            }
        };
        self.owner.house.list().iter().flat_map(of).collect()
    }

    fn open(&self, name: &str) -> Found {
        // The path of a URL begins with a slash.
        let name = name.trim_start_matches('/');
        let name = match &self.only {
            Some(only) if name.is_empty() || name == only.name => &only.name,
            Some(_) => return Found::Unknown,
            None => name,
        };
        match self.find(name) {
            Ok(Some(opened)) => Found::Export(opened),
            Ok(None) => Found::Unknown,
            Err(error) => {
                tracing::warn!(volume = name, error = %format!("{error:#}"), "cannot serve it");
                Found::Refused(format!("{error:#}"))
            }
        }
    }
}

/// The socket for this process's user, which needs no configuration.
pub fn socket(state: &Path) -> PathBuf {
    state.join("run/nbd.sock")
}

/// Starts the server if it is configured to listen anywhere.
pub fn start(
    config: &Config,
    state: &Path,
    owner: &Arc<Owner>,
    current: Option<Arc<tls::Current>>,
) -> Result<Option<Server>> {
    if config.nbd.listen.is_empty() && !config.nbd.local {
        return Ok(None);
    }
    let hosts = config.nbd.hosts.iter().map(|text| HostPattern::parse(text).map_err(anyhow::Error::msg));
    let mut settings = nbd::Config {
        listen: config.nbd.listen.clone(),
        socket: config.nbd.local.then(|| socket(state)),
        hosts: hosts.collect::<Result<_>>().context("nbd.hosts")?,
        tls_required: config.nbd.tls == NbdTls::Required,
        ..nbd::Config::default()
    };
    if config.nbd.tls != NbdTls::Off {
        let current = match current {
            Some(current) => current,
            None => tls::Current::new(tls::load(&config.api, state)?),
        };
        settings.tls = Some(Arc::new(move || current.server()));
    }
    let exports = PoolVolumes::new(owner.clone(), None);
    match Server::start(settings, exports) {
        Ok(server) => {
            for address in server.addresses() {
                tracing::info!(%address, "serving NBD");
            }
            Ok(Some(server))
        }
        // The socket was not requested explicitly, so this is no error.
        Err(error) if config.nbd.listen.is_empty() => {
            tracing::warn!(%error, "NBD is not served at the socket");
            Ok(None)
        }
        Err(error) => Err(error).context("cannot serve NBD"),
    }
}

/// Starts the server of one volume.
pub fn start_one(one: One, settings: nbd::Config, owner: &Arc<Owner>) -> Result<Server> {
    let exports = PoolVolumes::new(owner.clone(), Some(one));
    // Report a missing volume now, not to clients.
    match exports.open("") {
        Found::Export(_) => {}
        Found::Unknown => anyhow::bail!("no such volume"),
        Found::Refused(why) => anyhow::bail!("{why}"),
    }
    Server::start(settings, exports).context("cannot serve NBD")
}
