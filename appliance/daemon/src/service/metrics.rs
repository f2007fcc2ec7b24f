//! The statistics that `/metrics` prints and `otlp` pushes.

use crate::access::now;
use crate::process::Process;
use admin::House;
use observe::{Registry, Source};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The registry of all statistics.
pub struct Metrics {
    pub registry: Arc<Registry>,
    /// Guids of pools whose statistics are registered.
    listed: Mutex<BTreeSet<u64>>,
    /// Keeps the process's statistics registered.
    _process: Arc<dyn Source>,
    /// Start time of the process, in seconds since 1970.
    pub started: u64,
}

impl Metrics {
    /// The registry, with the statistics of the process, which starts now.
    pub fn of_process() -> Self {
        let started = now();
        let (registry, process) = (Registry::new(), Arc::new(Process { started }) as Arc<dyn Source>);
        registry.add(&[], &process);
        Self { registry, listed: Mutex::default(), _process: process, started }
    }

    /// Registers the statistics of pools that were opened since the last call.
    pub fn list_pools(&self, house: &House) {
        let mut listed = self.listed.lock();
        let pools = house.list();
        listed.retain(|guid| pools.iter().any(|p| p.guid() == *guid));
        for pool in pools {
            let labels = [("pool", pool.name())];
            let labels: Vec<(&str, &str)> = labels.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let source: Arc<dyn Source> = match pool.writable() {
                Some(writable) => writable.live.clone(),
                None => pool.store().clone(),
            };
            if listed.insert(pool.guid()) {
                self.registry.add(&labels, &source);
            }
        }
    }
}
