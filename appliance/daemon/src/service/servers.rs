//! The servers of the process besides the Unix socket: HTTPS, NFS, NBD, SMB.

use crate::clients::Clients;
use crate::config::Config;
use crate::nfs::PoolExports;
use crate::owner::Owner;
use crate::smb::Smb;
use crate::tls;
use api::Client;
use parking_lot::Mutex;
use serve::nbd;
use serve::nfs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The servers, while they run.
pub struct Servers {
    /// TLS configuration, if HTTPS is used.
    pub tls: OnceLock<Arc<tls::Current>>,
    /// Shares of all pools, from which the NFS server reads.
    pub exports: Arc<PoolExports>,
    /// The NFS server, while it runs.
    pub nfs: Mutex<Option<nfs::Server>>,
    /// The NBD server, once the pools are open.
    pub nbd: Mutex<Option<nbd::Server>>,
    /// The SMB server, while it is enabled.
    pub smb: Smb,
    clients: Clients,
}

impl Servers {
    /// None of them runs yet. Their files are below `state`.
    pub fn new(owner: &Arc<Owner>, config: &Config, state: &Path) -> Self {
        Self {
            tls: OnceLock::new(),
            exports: PoolExports::new(owner.clone(), &config.shares.options),
            nfs: Mutex::default(),
            nbd: Mutex::default(),
            smb: Smb::new(owner.clone(), state),
            clients: Clients::default(),
        }
    }

    /// Makes the NFS server drop removed shares.
    pub fn refresh_nfs(&self) {
        if let Some(server) = &*self.nfs.lock() {
            server.refresh();
        }
    }

    /// Clients of the NFS server.
    pub fn clients(&self) -> Vec<Client> {
        let server = self.nfs.lock();
        server.as_ref().map_or_else(Vec::new, |server| self.clients.look(|| server.clients()))
    }
}
