//! Whether a pool can be written.

use crate::Pool;
use crate::feature::can_write;
use errors::{Error, Result};
use ondisk::feature;
use std::collections::BTreeMap;

/// The last txg after which a pool is still written. Many places add to a txg number, and at a
/// thousand txgs a second a pool needs 290 million years to get here: larger numbers are damage.
const TXG_MAX: u64 = u64::MAX / 2;

/// Refuses a pool that cannot be written, with an error that names the reason.
pub(crate) fn check(pool: &Pool) -> Result<()> {
    let place = || format!("{}: writing", pool.name());
    let unsupported = |what: String| Err(Error::unsupported(place(), what));
    let features = pool.features();
    let active = |map: &BTreeMap<String, u64>| -> Vec<String> {
        let unknown = |guid: &str| feature::by_guid(guid).is_none_or(|f| !can_write(f.name));
        map.iter().filter(|(guid, n)| **n > 0 && unknown(guid)).map(|(guid, _)| guid.clone()).collect()
    };
    let names: Vec<String> = [active(&features.for_read), active(&features.for_write)]
        .concat()
        .into_iter()
        .map(|guid| feature::by_guid(&guid).map_or(guid, |f| format!("feature@{}", f.name)))
        .collect();
    if !names.is_empty() {
        return unsupported(names.join(", "));
    }
    let txg = pool.uberblock().txg.0;
    if txg > TXG_MAX {
        return Err(Error::corrupt(place(), format!("the uberblock has txg {txg}, expected at most {TXG_MAX}")));
    }
    Ok(())
}
