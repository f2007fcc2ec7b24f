//! A closed pool releases all its memory: opening many pools, one after the other, must not leak.
//!
//! Regression: the dataset tree kept its heads, which kept the tree.

use damage::survey::{Limits, Survey};
use damage::{image, scenario_or_return};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_closed_pool_is_freed() {
    let scenario = scenario_or_return!("history");
    let opened = image::open(scenario.devices.iter().cloned(), None).unwrap();
    let (pool, store) = (Arc::downgrade(opened.pool()), Arc::downgrade(opened.pool().store()));
    Survey::of(&opened, Limits::ALL);
    opened.verify().unwrap();
    drop(opened);
    // Read-ahead in progress keeps the store for a moment.
    let start = Instant::now();
    while store.strong_count() > 0 && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((pool.strong_count(), store.strong_count()), (0, 0));
}
