//! Pool activity is counted, and exported under the right metric names.

use crate::common::{Rig, layout, new_file};
use observe::{Family, Registry, Source, Value};
use rig::noise;
use std::sync::Arc;

fn find<'a>(families: &'a [Family], name: &str) -> &'a Family {
    families.iter().find(|f| f.info.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The sum over all series; for a histogram, its number of samples.
fn sum(families: &[Family], name: &str) -> u64 {
    let of = |value: &Value| match value {
        Value::Count(n) | Value::Level(n) => *n,
        Value::Spread(spread) => spread.count,
    };
    find(families, name).series.iter().map(|s| of(&s.value)).sum()
}

#[test]
fn txgs_devices_cache_and_log_are_counted_as_long_as_the_pool_is_open() {
    let rig = Rig::with(layout(true), &[], None);
    let registry = Registry::new();
    registry.add(&[("pool", "tank")], &(rig.live.clone() as Arc<dyn Source>));
    rig.create("tank/a", &[]).unwrap();
    let a = rig.open("tank/a");
    let before = registry.collect();
    let txgs = || sum(&registry.collect(), "txg_time");
    let (first, already) = (rig.live.writer().synced_txg(), txgs());
    for round in 0..3 {
        let tx = a.begin(1 << 20).unwrap();
        let file = a.objset().object(new_file(a.objset(), &tx, 1).unwrap()).unwrap();
        file.write_at(&tx, 0, &noise(round, 500_000)).unwrap();
        drop(tx);
        a.log().commit(None).unwrap();
        rig.live.writer().sync().unwrap();
        let mut back = vec![0; 1000];
        file.read_at(0, &mut back).unwrap();
        assert_eq!(back, noise(round, 500_000)[..1000]);
    }
    assert!(txgs() - already >= rig.live.writer().synced_txg() - first && txgs() > already);

    let after = registry.collect();
    let grew = |name: &str| sum(&after, name) - sum(&before, name);
    let disks: Vec<&str> = find(&after, "device_written").series.iter().map(|s| s.labels[1].1.as_str()).collect();
    assert_eq!(disks, ["disk-0", "disk-1", "disk-2"]);
    // Random data does not compress, and a raidz1 of three adds half as much again.
    assert!(grew("device_written") > 3 * 750_000, "{}", grew("device_written"));
    assert!(grew("device_write_time") >= grew("txg_writes"), "other writes than those of txgs: labels");
    assert!(grew("device_flush_time") > 0 && grew("txg_phase_time") == 6 * grew("txg_time"));
    assert!(grew("cache_hits") > 0 && sum(&after, "cache_size") > 1_500_000);
    assert_eq!((sum(&after, "waiting"), sum(&after, "pool_suspended"), sum(&after, "device_errors")), (0, 0, 0));
    assert_eq!(grew("intent_log_commit_time"), 3);
    assert_eq!(sum(&after, "txg_synced"), rig.live.writer().synced_txg());
    let text = observe::prometheus(&after);
    assert!(text.contains("weir_device_written_bytes_total{pool=\"tank\",device=\"disk-1\"} "), "{text}");

    drop(a);
    drop(rig);
    assert!(registry.collect().is_empty());
}
