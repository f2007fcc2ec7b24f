//! `zpool set`: sets a property of a pool or of a device.

use super::{record, status};
use crate::cache_file;
use crate::pool_properties::{PoolSetting, When, parse};
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal, pool_of};
use crate::write::WritablePool;
use crate::{vdev_names, vdev_properties};
use dataset::write;
use errors::Error;
use pool::property::SetValue;

/// Exit code of zpool(8) for a device that is not in the pool.
const EINVAL: u8 = 22;

/// A property to set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetRequest {
    pub pool: String,
    /// A device of the pool; `None`: the pool.
    pub device: Option<String>,
    pub property: String,
    /// As a user writes it.
    pub value: String,
}

impl SetRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let assignment = format!("{}={}", self.property, self.value);
        let operands = [&*assignment, &self.pool].into_iter().chain(self.device.as_deref());
        line("zpool set", &[], &[], operands)
    }
}

/// Sets a property of the pool or, if the request names one, of a device.
pub fn run(invocation: &Invocation<'_>, request: &SetRequest) -> Result<(), Refusal> {
    if let Some(device) = &request.device {
        return set_device(invocation, request, device);
    }
    let SetRequest { pool: name, property, value, .. } = request;
    let record = record(invocation, name)?;
    set_pool(invocation, &record, property, value)
        .map_err(|reason| reason.refuse(&format!("cannot set property for '{name}'")))
}

fn set_pool(invocation: &Invocation<'_>, record: &Imported, property: &str, value: &str) -> Result<(), Reason> {
    match parse(property, value, When::Set)? {
        PoolSetting::Import(_, value) => {
            let changed = Imported { cachefile: Some(value).filter(|v| !v.is_empty()), ..record.clone() };
            if !record.readonly {
                let pool = invocation.open(record)?;
                let noted = cache_file::update(&changed, &pool);
                pool.finish().and(noted)?;
            }
            let set = |pools: &mut Vec<Imported>| {
                let of_it = pools.iter_mut().filter(|p| p.guid == record.guid);
                of_it.for_each(|p| p.cachefile.clone_from(&changed.cachefile));
            };
            invocation.state.change(set)?;
            if let Some(house) = &invocation.house {
                house.reimported(record.guid, changed.clone());
            }
            // Last: until then, the file may be brought up to date.
            if changed.cachefile != record.cachefile {
                cache_file::remove(record);
            }
            Ok(())
        }
        PoolSetting::Version(version) => {
            invocation.change(record, |pool| Ok(pool.writer().task(move |cx| write::upgrade_pool(cx, version))?))
        }
        PoolSetting::Feature(feature, _) => {
            pool::writer::check_features([feature.as_str()])?;
            let enable = |pool: &WritablePool| Ok(pool.writer().task(move |cx| write::enable_feature(cx, &feature))?);
            invocation.change(record, enable)
        }
        PoolSetting::Stored(property, _) if property == "bootfs" => invocation.change(record, |pool| {
            let id = if value.is_empty() { 0 } else { head(pool, record, value)? };
            store(pool, property, SetValue::Number(id))
        }),
        PoolSetting::Stored(property, value) => invocation.change(record, |pool| store(pool, property, value)),
    }
}

fn store(pool: &WritablePool, name: String, value: SetValue) -> Result<(), Reason> {
    if name == "multihost" {
        pool.writer().update_host();
    }
    Ok(pool.writer().task(move |cx| cx.set_pool_property(&name, &value))?)
}

/// The object number of the dataset for `bootfs`.
fn head(pool: &WritablePool, record: &Imported, name: &str) -> Result<u64, Reason> {
    if pool_of(name) != record.name {
        return Err(Reason::new(Kind::Invalid, format!("'{name}' is an invalid name")));
    }
    match pool.live.synced()?.dataset(name) {
        Ok(dataset) if dataset.has_volume()? => {
            Err(Reason::new(Kind::Invalid, "operation not supported on this type of pool"))
        }
        Ok(dataset) => Ok(dataset.id()),
        Err(Error::NotFound { .. }) => Err(Reason::new(Kind::NotFound, "no such pool or dataset")),
        Err(error) => Err(error.into()),
    }
}

fn set_device(invocation: &Invocation<'_>, request: &SetRequest, device: &str) -> Result<(), Refusal> {
    let SetRequest { pool: name, property, value, .. } = request;
    let record = record(invocation, name)?;
    let cannot = format!("cannot set property {property} for {device} on {name}");
    let status = status(invocation, &record, &cannot)?;
    let Some(guid) = vdev_names::find(&status, device).map(|v| v.guid) else {
        let message = format!("cannot find '{device}' in '{name}': device not in pool");
        return Err(Refusal::new(Kind::NotFound, message).with_code(EINVAL));
    };
    let property = vdev_properties::find(property).unwrap_or(property);
    let setting = vdev_properties::parse(property, value).map_err(|reason| reason.refuse(&cannot))?;
    let set = |pool: &WritablePool| Ok(vdev_properties::set(pool, guid, setting)?);
    invocation.change(&record, set).map_err(|reason| reason.refuse(&cannot))
}
