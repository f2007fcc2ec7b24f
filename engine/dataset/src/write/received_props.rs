//! Received properties: stored in addition to local values, which take precedence. Before pool
//! version 22 they become local values.
//!
//! The properties of a stream replace all those of an earlier one. A dataset that never received
//! properties drops its existing values when the first ones arrive, as in OpenZFS: they may be from
//! a stream that predates the distinction. Facts: `zfs_ioc_recv_impl`, `clear_received_props` in
//! module/zfs/zfs_ioctl.c, `dsl_prop_set_hasrecvd` in dsl_prop.c.

use super::cx::{Cx, Failures};
use super::props::{self, Change};
use super::tree;
use super::values::{self, Target};
use crate::Dataset;
use crate::live::LiveDatasets;
use crate::property::set::PropertySet;
use crate::property::{Attr, Kinds, Value, find, is_user_property};
use errors::{Error, Result};
use ondisk::zap::Value as ZapValue;
use ondisk::{ObjsetKind, version};

/// Marks that properties were received.
const HAS_RECEIVED: &str = "$hasrecvd";

/// Properties of a stream, and the receiver's overrides.
#[derive(Debug, Clone, Default)]
pub struct ReceivedProperties {
    /// From the stream; `None`: it has no list of properties, and existing ones stay.
    pub brought: Option<Vec<(String, Value)>>,
    /// `-o`: set locally.
    pub set: Vec<(String, String)>,
    /// `-x`: inherited, regardless of the stream.
    pub inherit: Vec<String>,
}

/// Stores the properties of dataset or snapshot `name`. With `is_new`, it was created for the
/// stream. `head`: the number of the dataset that was received; another one of that name is left
/// alone. Returns those that could not be stored.
pub fn receive_properties(
    live: &LiveDatasets,
    name: &str,
    properties: &ReceivedProperties,
    is_new: bool,
    head: Option<u64>,
) -> Result<Failures> {
    let (name, properties) = (name.to_owned(), properties.clone());
    let failures = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let there = tree::find(&cx, &name)?.head;
        if head.is_some_and(|head| head != there) {
            return Err(Error::invalid(&*name, "it is no longer the dataset that was received"));
        }
        sync.all_or_nothing(|| receive_in(&cx, &name, &properties, is_new))
    })?;
    live.refresh()?;
    Ok(failures)
}

/// Whether the received properties of a snapshot differ from the new ones: if not, nothing is
/// changed, and no txg is waited for.
pub fn snapshot_differs(snapshot: &Dataset, brought: &[(String, Value)]) -> Result<bool> {
    let set = snapshot.own_props()?;
    let gone = set.names().any(|name| set.received(name).is_some() && brought.iter().all(|(other, _)| other != name));
    Ok(gone || brought.iter().any(|(name, value)| set.received(name) != Some(value)))
}

fn receive_in(cx: &Cx<'_>, name: &str, properties: &ReceivedProperties, is_new: bool) -> Result<Failures> {
    let node = tree::find(cx, name)?;
    let zap_of = || match node.snapshot {
        None => Ok(cx.dir(node.dir)?.phys.props_zap),
        Some(id) => Ok::<_, Error>(cx.dataset(id)?.phys.props_zap),
    };
    let mut failures = Failures::new();
    let mut apply = |property: &str, change: Result<Change>| -> Result<()> {
        match change.and_then(|change| props::check(cx, &node, &change).map(|()| change)) {
            Ok(change) => props::apply(cx, &node, &change),
            Err(e @ (Error::Invalid { .. } | Error::Unsupported { .. } | Error::Refused { .. })) => {
                failures.push((property.to_owned(), e));
                Ok(())
            }
            Err(e) => Err(e),
        }
    };
    if let Some(brought) = &properties.brought {
        let kinds = match node.snapshot {
            Some(_) => Kinds::SNAPSHOT,
            None => match tree::kind(cx, node.head, &cx.dataset(node.head)?.phys.bp)? {
                ObjsetKind::Volume => Kinds::VOLUME,
                _ => Kinds::FILESYSTEM,
            },
        };
        let is_enabled = |guid: &str| cx.is_enabled(guid);
        let target =
            Target { dataset: name, kinds, is_new: false, version: cx.sync.version(), is_enabled: &is_enabled };
        let set = PropertySet::load(cx.mos(), zap_of()?)?;
        for property in set.names() {
            let comes = brought.iter().any(|(name, _)| name == property);
            if set.received(property).is_some() && !comes {
                apply(property, Ok(Change::Forget(property.to_owned())))?;
            } else if !set.has_received() && !is_new && is_clearable(property) {
                apply(property, Ok(Change::Revert(property.to_owned())))?;
            }
        }
        let keeps_apart = cx.sync.version() >= version::RECEIVED_PROPERTIES;
        let change = if keeps_apart { Change::Receive } else { Change::Set };
        for (property, value) in brought {
            apply(property, values::check_received(&target, property, value).map(change))?;
        }
        // A snapshot has a ZAP for properties only if it has some.
        let zap = zap_of()?;
        if zap != 0 && keeps_apart {
            cx.zap(zap)?.update(cx.tx(), HAS_RECEIVED.as_bytes(), &ZapValue::one(0))?;
        }
    }
    for (property, text) in &properties.set {
        let settings = values::settings_for(cx, &node, &[(property.clone(), text.clone())]);
        let none = || Error::invalid(name, format!("invalid property '{property}'"));
        apply(property, settings.and_then(|mut all| all.pop().map(Change::Set).ok_or_else(none)))?;
    }
    for property in &properties.inherit {
        apply(property, Ok(Change::Inherit(property.clone())))?;
    }
    Ok(failures)
}

/// Whether users could have set it at any time.
fn is_clearable(property: &str) -> bool {
    is_user_property(property) || find(property).is_some_and(|def| matches!(def.attr, Attr::Default | Attr::Inherit))
}
