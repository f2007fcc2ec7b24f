//! Analytics of the daemon: event sources, names of files and users, and values sampled each
//! second.

mod hostnames;
mod live;
mod paths;
mod samplers;
pub mod to_api;
pub mod worksheets;

use crate::config::AnalyticsConfig;
use crate::health::Measures;
use crate::owner::Owner;
use analytics::engine::{Config, Engine, Retention};
use anyhow::{Context as _, Result};
use host::durable;
pub use live::{Columns, Second};
use observe::Events;
use parking_lot::Mutex;
use paths::Paths;
use samplers::{Machine, Network, Pools};
use serve::nfs::Figures;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use worksheets::Worksheets;

/// Limit for the events of one group of threads that wait to be counted: a fifth of a second of a
/// fast one.
const WAITING: usize = 65_536;

/// The engine and its thread.
pub struct Analytics {
    /// Counts statistics and answers queries about them.
    pub engine: Engine,
    /// Where the servers and devices report operations.
    pub events: Arc<Events>,
    /// Sends the values of each second to live readers.
    pub columns: Columns,
    /// Saved sets of graphs.
    pub worksheets: Worksheets,
    /// Statistics of the NFS server.
    server: Arc<Mutex<Weak<Figures>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Analytics {
    /// Starts counting, with the data in `FOLDER/analytics`. `measures` are sampled too.
    pub fn start(
        owner: &Arc<Owner>,
        folder: &Path,
        wanted: &AnalyticsConfig,
        measures: &Arc<Measures>,
    ) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let events = Arc::new(Events::new(threads * 2, WAITING));
        owner.mounts.record_to(events.clone());
        let sink = events.clone();
        owner.house.greet_with(move |pool| samplers::listen(pool, &sink));
        let folder_of = folder.join("analytics");
        durable::make_private(&folder_of).with_context(|| folder_of.display().to_string())?;
        let config = Config { folder: Some(folder_of), ring: wanted.operations.0, retention: Retention::default() };
        let paths = Arc::new(Paths::new(owner));
        let server = Arc::<Mutex<Weak<Figures>>>::default();
        let network = Network::new(server.clone()).context("analytics")?;
        let pools = Box::new(Pools::new(owner, &events));
        let samplers: Vec<Box<dyn analytics::sampler::Sampler>> =
            vec![Box::new(Machine::default()), pools, Box::new(network), measures.sampler()];
        let engine = Engine::open(&config, events.clone(), paths, samplers).context("analytics")?;
        engine.switch(wanted.enabled);
        let thread = Mutex::new(Some(engine.run().context("analytics")?));
        let columns = Columns::start(&engine).context("analytics")?;
        let worksheets = Worksheets::open(folder)?;
        Ok(Self { engine, events, columns, worksheets, server, thread })
    }

    /// Counts the operations and clients of this server from now on.
    pub fn serves(&self, server: &Arc<Figures>) {
        server.record_to(self.events.clone());
        *self.server.lock() = Arc::downgrade(server);
    }

    /// Stores what was counted and stops.
    pub fn stop(&self) {
        self.columns.stop();
        self.engine.stop();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Analytics {
    fn drop(&mut self) {
        self.stop();
    }
}
