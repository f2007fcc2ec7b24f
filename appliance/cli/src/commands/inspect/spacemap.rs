//! `inspect spacemap`: allocated space.

use super::argument::argument;
use super::convert;
use crate::source::Opener;
use ::pool::Pool;
use ::pool::config::VdevConfig;
use ::pool::space::bits::Run;
use ::pool::space::{Space, for_each_entry};
use anyhow::{Context, Result, bail};
use clap::ArgMatches;
use object::Zap;
use ondisk::pool_dir::{config, vdev_top};
use ondisk::spacemap::Header;
use serde_json::{Value, json};

/// Limit for the metaslabs listed.
const METASLABS_MAX: u64 = 1 << 20;

/// `inspect spacemap POOL [DEVICE [METASLAB]]`.
pub fn spacemap(matches: &ArgMatches) -> Result<Value> {
    let mut opener = Opener::new(matches);
    let pool = opener.pool(argument(matches, "POOL"))?.pool();
    let number = |name: &str| -> Result<Option<u64>> {
        let text = matches.get_one::<String>(name);
        text.map(|s| s.parse().with_context(|| format!("{name} {s:?}"))).transpose()
    };
    let Some(vdev) = number("DEVICE")? else { return devices(pool) };
    let Some(top) = pool.root_vdev().children.iter().find(|t| t.id == vdev) else {
        bail!("no such device: {vdev}");
    };
    let shift = top.number(config::METASLAB_SHIFT);
    if top.number(config::METASLAB_ARRAY) == 0 || !(9..63).contains(&shift) {
        bail!("device {vdev} ({}) has no metaslabs", top.display_name());
    }
    match number("METASLAB")? {
        Some(metaslab) => one(pool, top, metaslab),
        None => metaslabs(pool, top),
    }
}

fn devices(pool: &Pool) -> Result<Value> {
    let space = Space::load(pool)?;
    let rows: Vec<Value> = space
        .devices
        .iter()
        .map(|d| {
            let allocated = d.allocated.count() << d.shift;
            let name = pool.store().tree().tops.get(d.vdev as usize).map(|v| v.name.clone());
            json!({
                "device": d.vdev, "name": name, "size_bytes": d.size_bytes, "allocated_bytes": allocated,
                "free_bytes": d.size_bytes.saturating_sub(allocated), "by_headers_bytes": d.header_bytes,
                "fragmentation_percent": d.fragmentation_percent,
            })
        })
        .collect();
    Ok(json!({ "pool": pool.name(), "devices": rows, "anomalies": space.anomalies }))
}

fn space_maps(pool: &Pool, top: &VdevConfig) -> Result<(Vec<u64>, Vec<u64>)> {
    let shift = top.number(config::METASLAB_SHIFT);
    let count = (top.number(config::ASIZE) >> shift).min(METASLABS_MAX);
    let mos = pool.mos();
    let maps = mos.object(top.number(config::METASLAB_ARRAY))?.read_words(count)?;
    let zap = top.number(config::VDEV_TOP_ZAP);
    let txgs = match zap {
        0 => None,
        id => Zap::open(mos.object(id)?)?.lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS)?.filter(|id| *id != 0),
    };
    let txgs = txgs.map(|id| mos.object(id)?.read_words(count)).transpose()?;
    Ok((maps, txgs.unwrap_or_default()))
}

fn metaslabs(pool: &Pool, top: &VdevConfig) -> Result<Value> {
    let shift = top.number(config::METASLAB_SHIFT);
    let (maps, txgs) = space_maps(pool, top)?;
    let space = Space::load(pool)?;
    let device = space.device(top.id).context("its space maps cannot be read")?;
    let mut rows = Vec::new();
    for (i, id) in maps.iter().enumerate() {
        let header = match id {
            0 => None,
            id => {
                let object = pool.mos().object(*id)?;
                Some(
                    Header::parse(object.bonus(), object.endian())
                        .map_err(|e| anyhow::anyhow!("{}: {e}", object.place()))?,
                )
            }
        };
        let unit = device.shift;
        let units = Run { start: (i as u64) << (shift - u64::from(unit)), len: 1 << (shift - u64::from(unit)) };
        let allocated = allocated_in(&device.allocated, units) << unit;
        rows.push(json!({
            "metaslab": i, "offset": format!("{:x}", (i as u64) << shift), "space_map": id,
            "length_bytes": header.as_ref().map(|h| h.length_bytes),
            "allocated_by_map": header.as_ref().map(|h| h.allocated_bytes),
            "allocated_with_logs": allocated, "free_bytes": (1u64 << shift).saturating_sub(allocated),
            "unflushed_since_txg": txgs.get(i),
        }));
    }
    Ok(json!({ "device": top.id, "name": top.display_name(), "metaslab_bytes": 1u64 << shift, "metaslabs": rows }))
}

fn allocated_in(bits: &::pool::space::bits::Bits, units: Run) -> u64 {
    let end = units.start.saturating_add(units.len);
    bits.runs()
        .skip_while(|r| r.start + r.len <= units.start)
        .take_while(|r| r.start < end)
        .map(|r| (r.start + r.len).min(end) - r.start.max(units.start))
        .sum()
}

fn one(pool: &Pool, top: &VdevConfig, metaslab: u64) -> Result<Value> {
    let (maps, _) = space_maps(pool, top)?;
    let id = usize::try_from(metaslab).ok().and_then(|i| maps.get(i).copied());
    let id = id.with_context(|| format!("no such metaslab: {metaslab}; the device has {}", maps.len()))?;
    if id == 0 {
        return Ok(json!({ "device": top.id, "metaslab": metaslab, "space_map": 0, "entries": [] }));
    }
    let base = metaslab << top.number(config::METASLAB_SHIFT);
    let unit = top.number(config::ASHIFT).min(16);
    let mut rows = Vec::new();
    let header = for_each_entry(&pool.mos().object(id)?, |e| {
        rows.push(json!({
            "what": if e.is_alloc { "alloc" } else { "free" },
            "offset": format!("{:x}", base.saturating_add(e.offset << unit)),
            "size": format!("{:x}", e.run << unit),
        }));
    })?;
    Ok(json!({
        "device": top.id, "metaslab": metaslab, "space_map": id, "length_bytes": header.length_bytes,
        "allocated_bytes": header.allocated_bytes,
        "histogram": header.histogram.map(|h| h.to_vec()),
        "object": convert::dnode(pool.mos().object(id)?.dnode()),
        "entries": rows,
    }))
}
