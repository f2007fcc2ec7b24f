//! Pools of one top-level vdev that sync only when a test requests it.

use host::device::Device;
use pool::writer::{CreatePool, NewVdev, WriteOptions};
use pool::{OpenOptions, Writer};
use std::sync::Arc;
use std::time::Duration;

pub fn options() -> WriteOptions {
    WriteOptions { interval: Duration::from_secs(3600), ..WriteOptions::default() }
}

/// Creates the pool `tank` on these devices.
pub fn create<D: Device + 'static>(
    kind: &'static str,
    parity: u64,
    disks: &[Arc<D>],
    features: Vec<String>,
) -> Arc<Writer> {
    let class = block::Class::Normal;
    let leaf = |disk: &Arc<D>| {
        let leaf = Some((disk.name().to_owned(), disk.clone() as Arc<dyn Device>));
        NewVdev { kind: "file", parity: 0, draid: None, class, leaf, ashift: 9, children: vec![] }
    };
    let children = disks.iter().map(leaf).collect();
    let top = NewVdev { kind, parity, draid: None, class, leaf: None, ashift: 9, children };
    let new = CreatePool {
        version: 5000,
        name: "tank".into(),
        tops: vec![top],
        features,
        comment: None,
        compatibility: None,
    };
    Writer::create(&new, &OpenOptions::default(), &options(), |_| Ok(())).unwrap()
}
