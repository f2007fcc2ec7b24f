//! The allocator on pools that OpenZFS wrote: its free space is what the space maps leave free,
//! including logs.
//!
//! Needs the images of the scenarios (`WEIR_FIXTURES`, unpacked as SCENARIO/DEVICE).

use block::{Allocate, Class, Gang, Want};
use pool::space::bits::{Bits, Run};
use pool::space::{Allocator, Space};
use pool::{OpenOptions, Pool, search};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

fn pools() -> Vec<Arc<Pool>> {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios");
        return Vec::new();
    };
    let mut pools = Vec::new();
    for scenario in std::fs::read_dir(folder).unwrap() {
        let Ok(devices) = std::fs::read_dir(scenario.unwrap().path()) else { continue };
        let devices: Vec<_> = devices.map(|d| d.unwrap().path()).filter(|p| p.is_file()).collect();
        for found in search(&devices).pools {
            let options = OpenOptions { cache_bytes: 64 << 20, ..OpenOptions::default() };
            pools.extend(Pool::open(&found, &options));
        }
    }
    pools
}

#[test]
fn totals_are_those_of_the_space_maps() {
    for pool in pools() {
        let (space, stats) = (Space::load(&pool).unwrap(), Allocator::load(&pool).unwrap().stats());
        let expected: u64 = space.devices.iter().map(|d| d.allocated_bytes()).sum();
        let found: u64 = stats.classes.iter().map(|c| c.allocated_bytes + c.deferred_bytes).sum();
        assert_eq!(found, expected, "{}", pool.name());
        let size: u64 = space.devices.iter().map(|d| d.size_bytes).sum();
        assert_eq!(stats.classes.iter().map(|c| c.size_bytes).sum::<u64>(), size, "{}", pool.name());
        let usable = pool.usable_space().unwrap();
        assert_eq!(stats.class(Class::Normal).deflated_size_bytes, usable.raw_bytes, "{}", pool.name());
        assert_eq!(stats.slop_bytes, usable.slop_bytes, "{}", pool.name());
        let listed = pool.stats().unwrap().fragmentation_percent;
        assert_eq!(stats.class(Class::Normal).fragmentation_percent, listed, "{}", pool.name());
    }
}

#[test]
fn exactly_the_free_space_can_be_allocated() {
    for pool in pools() {
        let (space, allocator) = (Space::load(&pool).unwrap(), Allocator::load(&pool).unwrap());
        let mut bits: HashMap<u64, Bits> = space.devices.iter().map(|d| (d.vdev, d.allocated.clone())).collect();
        for class in [Class::Log, Class::Special, Class::Dedup, Class::Normal] {
            let mut size = 1 << 20;
            while size >= 512 {
                let want = Want {
                    txg: pool.uberblock().txg.0 + 1,
                    class,
                    psize_bytes: size,
                    copies: 1,
                    is_metadata: true,
                    gang: Gang::None,
                    may_use_slop: true,
                };
                match allocator.allocate(&want) {
                    Ok(found) => {
                        let (dva, device) = (found[0], space.device(u64::from(found[0].vdev)).unwrap());
                        let start = dva.offset_bytes >> device.shift;
                        let run = Run { start, len: dva.asize_bytes >> device.shift };
                        let already = bits.get_mut(&device.vdev).unwrap().set(run, true);
                        assert_eq!(already, 0, "{}: {dva:?} is allocated", pool.name());
                    }
                    Err(_) => size /= 2,
                }
            }
        }
        // The rest consists of pieces too small for the smallest block, which parity makes larger
        // than a sector.
        let left: u64 = allocator.stats().classes.iter().map(|c| c.free_bytes()).sum();
        let all: u64 = space.devices.iter().map(|d| d.size_bytes).sum();
        assert!(left < all / 50, "{}: {left} bytes of {all} cannot be allocated", pool.name());
        assert!(allocator.take_anomalies().is_empty());
    }
}
